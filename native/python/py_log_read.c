/* Binds log_read.h: ReadPlan and the look-ups by offset and timestamp. */
#include "python/py_log.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD struct mpb_read_plan plan;
} ReadPlanObject;

static PyTypeObject *plan_type;

const struct mpb_read_plan *mpb_py_read_plan(PyObject *object)
{
    if (PyObject_TypeCheck(object, plan_type))
        return &((ReadPlanObject *)object)->plan;
    PyErr_SetString(PyExc_TypeError, "a ReadPlan is needed");
    return NULL;
}

static PyObject *error_and_plan(int error, ReadPlanObject *plan)
{
    PyObject *result = PyTuple_New(2), *code = PyLong_FromLong(error);
    if (result == NULL || code == NULL) {
        Py_XDECREF(result);
        Py_XDECREF(code);
        Py_DECREF(plan);
        return NULL;
    }
    PyTuple_SET_ITEM(result, 0, code);
    PyTuple_SET_ITEM(result, 1, (PyObject *)plan);
    return result;
}

static PyObject *log_find(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "offset", "limit", "max_bytes", "min_one", "topic_id", NULL};
    LogObject *self = (LogObject *)object;
    unsigned int ordinal, max_bytes;
    int min_one = 1;
    long long offset, limit;
    uint8_t id[16];
    const uint8_t *topic_id;
    PyObject *topic = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ILLI|pO", names, &ordinal, &offset, &limit, &max_bytes, &min_one,
                                     &topic) ||
        !mpb_py_ordinal(self, ordinal) || !mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    ReadPlanObject *plan = (ReadPlanObject *)plan_type->tp_alloc(plan_type, 0);
    if (plan == NULL)
        return NULL;
    int error = mpb_log_find(&self->log, ordinal, topic_id, offset, limit, max_bytes, min_one, &plan->plan);
    return error_and_plan(error, plan);
}

static PyObject *log_find_time(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "timestamp", "from_offset", "topic_id", NULL};
    LogObject *self = (LogObject *)object;
    unsigned int ordinal;
    long long timestamp, from_offset = 0;
    uint8_t id[16];
    const uint8_t *topic_id;
    PyObject *topic = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IL|LO", names, &ordinal, &timestamp, &from_offset, &topic) ||
        !mpb_py_ordinal(self, ordinal) || !mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    ReadPlanObject *plan = (ReadPlanObject *)plan_type->tp_alloc(plan_type, 0);
    if (plan == NULL)
        return NULL;
    int error;
    Py_BEGIN_ALLOW_THREADS /* may read headers of a whole segment */
        error = mpb_log_find_time(&self->log, ordinal, topic_id, timestamp, from_offset, &plan->plan);
    Py_END_ALLOW_THREADS
    return error_and_plan(error, plan);
}

static PyObject *log_largest_time(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "topic_id", NULL};
    LogObject *self = (LogObject *)object;
    unsigned int ordinal;
    int64_t timestamp;
    uint8_t id[16];
    const uint8_t *topic_id;
    PyObject *topic = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "I|O", names, &ordinal, &topic) || !mpb_py_ordinal(self, ordinal) ||
        !mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    int error;
    Py_BEGIN_ALLOW_THREADS /* may read headers of a whole segment */
        error = mpb_log_largest_time(&self->log, ordinal, topic_id, &timestamp);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(iL)", error, (long long)timestamp);
}

static PyObject *log_read_into(PyObject *object, PyObject *args)
{
    LogObject *self = (LogObject *)object;
    ReadPlanObject *plan;
    Py_buffer out;
    uint32_t length = 0;
    int error;
    if (!PyArg_ParseTuple(args, "O!w*:read_into", plan_type, &plan, &out))
        return NULL;
    if (!mpb_py_ordinal(self, plan->plan.ordinal) || out.len < (Py_ssize_t)plan->plan.length) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "the plan needs %u bytes", plan->plan.length);
        PyBuffer_Release(&out);
        return NULL;
    }
    if (plan->plan.length < MPB_RELEASE_GIL_BYTES) {
        error = mpb_log_read(&self->log, &plan->plan, out.buf, &length);
    } else {
        Py_BEGIN_ALLOW_THREADS
            error = mpb_log_read(&self->log, &plan->plan, out.buf, &length);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&out);
    return Py_BuildValue("(iI)", error, length);
}

PyMethodDef mpb_log_read_methods[] = {
    {"find", (PyCFunction)(void *)log_find, METH_VARARGS | METH_KEYWORDS,
     "find(ordinal, offset, limit, max_bytes, min_one=True, topic_id=None) -> (error, ReadPlan)\n\n"
     "Where the batches from the one that holds `offset` stand, up to offset `limit`; that may also be\n"
     "READ_TO_HIGH_WATERMARK or READ_TO_STABLE: as they are now. A plan of length 0 has nothing to read yet.\n"
     "Its offsets are set unless the row cannot be read."},
    {"find_time", (PyCFunction)(void *)log_find_time, METH_VARARGS | METH_KEYWORDS,
     "find_time(ordinal, timestamp, from_offset=0, topic_id=None) -> (error, ReadPlan)\n\n"
     "The first batch, from from_offset on, whose largest timestamp is at least `timestamp`; length 0: none. Which\n"
     "record of it is for the caller to find; if none, ask again from behind the batch."},
    {"largest_time", (PyCFunction)(void *)log_largest_time, METH_VARARGS | METH_KEYWORDS,
     "largest_time(ordinal, topic_id=None) -> (error, timestamp)\n\nOf all batches beyond log start; -1: none."},
    {"read_into", log_read_into, METH_VARARGS,
     "read_into(plan, buffer) -> (error, bytes)\n\nNOT_LEADER_OR_FOLLOWER if a truncation overtook the plan."},
    {NULL, NULL, 0, NULL},
};

#define PLAN(type, name) {#name, type, offsetof(ReadPlanObject, plan.name), READONLY, NULL}
static PyMemberDef plan_members[] = {
    PLAN(T_UINT, ordinal),          PLAN(T_LONGLONG, base),        PLAN(T_ULONGLONG, segment_id),
    PLAN(T_ULONGLONG, position),    PLAN(T_UINT, length),          PLAN(T_UINT, first_batch_bytes),
    PLAN(T_LONGLONG, first_offset), PLAN(T_LONGLONG, log_start),   PLAN(T_LONGLONG, high_watermark),
    PLAN(T_LONGLONG, last_stable),  PLAN(T_LONGLONG, end_offset),  PLAN(T_INT, leader_epoch),
    PLAN(T_UINT, truncations),      PLAN(T_LONGLONG, aborted_end), {NULL, 0, 0, 0, NULL},
};

static void plan_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyType_Slot plan_slots[] = {
    {Py_tp_doc, "A slice of one segment file and the partition's offsets at the time it was found."},
    {Py_tp_members, plan_members},
    {Py_tp_dealloc, plan_dealloc},
    {0, NULL},
};
static PyType_Spec plan_spec = {"mpbroker._native.ReadPlan", sizeof(ReadPlanObject), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, plan_slots};

int mpb_add_log_read(PyObject *module)
{
    plan_type = (PyTypeObject *)PyType_FromSpec(&plan_spec);
    if (plan_type == NULL ||
        PyModule_AddIntConstant(module, "READ_TO_HIGH_WATERMARK", MPB_READ_TO_HIGH_WATERMARK) < 0 ||
        PyModule_AddIntConstant(module, "READ_TO_STABLE", MPB_READ_TO_STABLE) < 0 ||
        PyModule_AddIntConstant(module, "READ_REPLICA_TO_HIGH_WATERMARK", MPB_READ_REPLICA_TO_HIGH_WATERMARK) < 0 ||
        PyModule_AddIntConstant(module, "READ_REPLICA_TO_STABLE", MPB_READ_REPLICA_TO_STABLE) < 0 ||
        PyModule_AddIntConstant(module, "READ_TO_END", MPB_READ_TO_END) < 0)
        return -1;
    return PyModule_AddType(module, plan_type);
}
