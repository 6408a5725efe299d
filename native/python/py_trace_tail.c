/* Binds trace_tally.h and trace_tail.h. A TraceTally is what a segment's close fields say; the tracer's process alone. */
#include "python/py_trace.h"

#include "trace/trace_tail.h"
#include <structmember.h>

typedef struct {
    PyObject_HEAD struct mpb_trace_tally tally;
} TraceTally;

static PyTypeObject TraceTallyType;

static PyObject *tally_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"first_seq", NULL};
    PyObject *first;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &PyLong_Type, &first))
        return NULL;
    unsigned long long first_seq = PyLong_AsUnsignedLongLong(first);
    if (PyErr_Occurred())
        return NULL;
    TraceTally *self = (TraceTally *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->tally.next_seq = first_seq;
    return (PyObject *)self;
}

static PyObject *tally_add(TraceTally *self, PyObject *arg)
{
    Py_buffer records;
    if (PyObject_GetBuffer(arg, &records, PyBUF_SIMPLE) < 0)
        return NULL;
    mpb_tally_add(&self->tally, records.buf, (size_t)records.len / MPB_TRACE_BYTES);
    PyBuffer_Release(&records);
    Py_RETURN_NONE;
}

static PyObject *tally_api_counts(TraceTally *self, void *Py_UNUSED(closure))
{
    PyObject *counts = PyTuple_New(MPB_TALLY_APIS);
    for (Py_ssize_t i = 0; counts != NULL && i < MPB_TALLY_APIS; i++) {
        PyObject *number = PyLong_FromUnsignedLong(self->tally.api_counts[i]);
        if (number == NULL)
            Py_CLEAR(counts);
        else
            PyTuple_SET_ITEM(counts, i, number);
    }
    return counts;
}

#define NUMBER(name, type, doc) {#name, type, offsetof(TraceTally, tally.name), READONLY, doc}
static PyMemberDef tally_members[] = {
    NUMBER(count, T_ULONGLONG, "records of every kind"),
    NUMBER(next_seq, T_ULONGLONG, "the lane's next request"),
    NUMBER(t0_min_ns, T_ULONGLONG, "of requests, 0: none"),
    NUMBER(t0_max_ns, T_ULONGLONG, "of requests, 0: none"),
    NUMBER(max_total_ticks, T_UINT, "of the longest request"),
    NUMBER(crc, T_UINT, "CRC-32 of all records"),
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef tally_methods[] = {
    {"add", (PyCFunction)tally_add, METH_O, "add(records): count whole records in."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tally_getset[] = {
    {"api_counts", (getter)tally_api_counts, NULL, "requests by API key; the last number counts all others", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject TraceTallyType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpbroker._native.TraceTally",
    .tp_basicsize = sizeof(TraceTally),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "TraceTally(first_seq): what a segment's close fields say about its records.",
    .tp_new = tally_new,
    .tp_methods = tally_methods,
    .tp_members = tally_members,
    .tp_getset = tally_getset,
};

static bool take_tail(PyObject *row, struct mpb_trace_tail *tail)
{
    PyObject *lane, *tally;
    unsigned long long head_bytes, room;
    if (!PyTuple_Check(row)) {
        PyErr_SetString(PyExc_TypeError, "a tail is (lane, tally or None, file, head_bytes, room)");
        return false;
    }
    if (!PyArg_ParseTuple(row, "OOiKK", &lane, &tally, &tail->file, &head_bytes, &room))
        return false;
    bool is_open = tally != Py_None;
    if (is_open && !PyObject_TypeCheck(tally, &TraceTallyType)) {
        PyErr_SetString(PyExc_TypeError, "expected a TraceTally or None");
        return false;
    }
    static struct mpb_trace_tally none;
    tail->lane = mpb_lane_of(lane);
    tail->tally = is_open ? &((TraceTally *)tally)->tally : &none;
    tail->file = is_open ? tail->file : -1;
    tail->head_bytes = head_bytes;
    tail->room = room;
    if (tail->lane == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "expected a TraceLane");
    return tail->lane != NULL;
}

static PyObject *py_trace_wait(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *rows;
    struct mpb_trace_bells bells;
    struct mpb_trace_tail tails[MPB_MAX_PROCESSORS];
    int timeout_ms;
    if (!PyArg_ParseTuple(args, "O!iiii", &PyTuple_Type, &rows, &bells.wakeup_fd, &bells.bell_fd, &bells.notices_fd,
                          &timeout_ms))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(rows);
    if (count > MPB_MAX_PROCESSORS || timeout_ms < 0)
        return PyErr_Format(PyExc_ValueError, "at most %d tails, and no time below 0", MPB_MAX_PROCESSORS);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!take_tail(PyTuple_GET_ITEM(rows, i), &tails[i]))
            return NULL;
    enum mpb_trace_wait ended;
    Py_BEGIN_ALLOW_THREADS
        ended = mpb_tail_wait(tails, (size_t)count, &bells, timeout_ms);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(ended);
}

static PyMethodDef functions[] = {
    {"trace_wait", py_trace_wait, METH_VARARGS,
     "trace_wait(tails, wakeup_fd, bell_fd, notices_fd, timeout_ms) -> 0 time over, TRACE_SIGNALLED, 2 needs a turn. "
     "tails: a tuple of (lane, tally or None, file, head_bytes, room in records), kept by the caller meanwhile."},
    {NULL, NULL, 0, NULL},
};

int mpb_add_trace_tail(PyObject *module)
{
    if (PyType_Ready(&TraceTallyType) < 0 || PyModule_AddFunctions(module, functions) < 0 ||
        PyModule_AddIntConstant(module, "TRACE_SIGNALLED", MPB_TRACE_SIGNALLED) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "TraceTally", (PyObject *)&TraceTallyType);
}
