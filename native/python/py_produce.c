/* Binds serve_produce.h: NativeProduce(port, log, errors_counter), one per request handler process. */
#include "python/py_log.h"
#include "python/py_shm.h"

#include "produce/serve_produce.h"

typedef struct {
    PyObject_HEAD PyObject *port, *log; /* kept alive */
    struct mpb_native_produce native;
} NativeProduceObject;

#define NATIVE(object) (&((NativeProduceObject *)(object))->native)

static PyObject *native_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *port, *log;
    unsigned int counter;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOI:NativeProduce", &port, &log, &counter))
        return NULL;
    if (counter >= MPB_MAX_COUNTERS)
        return PyErr_Format(PyExc_ValueError, "no counter %u", counter);
    struct mpb_handler *handler = mpb_handler_of(port);
    struct mpb_log *opened = handler ? mpb_log_of(log) : NULL;
    NativeProduceObject *self = opened ? (NativeProduceObject *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL)
        return NULL;
    self->port = Py_NewRef(port);
    self->log = Py_NewRef(log);
    self->native.handler = handler;
    self->native.log = opened;
    self->native.generation = UINT64_MAX; /* no topic is known */
    self->native.errors_counter = counter;
    self->native.now_ms = -1;
    handler->serve_with = &self->native;
    handler->serve = mpb_serve_produce;
    return (PyObject *)self;
}

static void native_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    mpb_native_forget(NATIVE(object));
    if (NATIVE(object)->handler != NULL && NATIVE(object)->handler->serve_with == NATIVE(object))
        NATIVE(object)->handler->serve = NULL;
    Py_XDECREF(((NativeProduceObject *)object)->port);
    Py_XDECREF(((NativeProduceObject *)object)->log);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *native_reset(PyObject *object, PyObject *arg)
{
    unsigned long long generation = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    mpb_native_forget(NATIVE(object));
    NATIVE(object)->generation = generation;
    Py_RETURN_NONE;
}

/* Rows of the partition table out of a list; false with an exception. */
static bool read_ordinals(PyObject *list, uint32_t limit, uint32_t out[MPB_NATIVE_TOPIC_PARTITIONS])
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        unsigned long ordinal = PyLong_AsUnsignedLong(PyList_GET_ITEM(list, i));
        if (PyErr_Occurred())
            return false;
        if (ordinal >= limit) {
            PyErr_Format(PyExc_IndexError, "no partition row %lu", ordinal);
            return false;
        }
        out[i] = (uint32_t)ordinal;
    }
    return true;
}

static PyObject *native_add(PyObject *object, PyObject *args)
{
    const char *name, *id;
    Py_ssize_t name_length, id_length;
    PyObject *list, *options;
    uint32_t ordinals[MPB_NATIVE_TOPIC_PARTITIONS];
    if (!PyArg_ParseTuple(args, "s#y#O!O!:add", &name, &name_length, &id, &id_length, &PyList_Type, &list,
                          mpb_log_options_type, &options))
        return NULL;
    if (id_length != 16)
        return PyErr_Format(PyExc_ValueError, "a topic id is 16 bytes");
    if (PyList_GET_SIZE(list) > MPB_NATIVE_TOPIC_PARTITIONS)
        Py_RETURN_FALSE;
    if (!read_ordinals(list, NATIVE(object)->log->core->partition_count, ordinals))
        return NULL;
    const LogOptionsObject *settings = (LogOptionsObject *)options;
    return PyBool_FromLong(mpb_native_add(NATIVE(object), (const uint8_t *)name, (uint32_t)name_length,
                                          (const uint8_t *)id, ordinals, (uint32_t)PyList_GET_SIZE(list),
                                          &settings->append, &settings->rules));
}

static PyObject *native_now_ms(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(NATIVE(object)->now_ms);
}

static int native_set_now_ms(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    long long now_ms = value == NULL ? -1 : PyLong_AsLongLong(value);
    if (now_ms == -1 && PyErr_Occurred())
        return -1;
    NATIVE(object)->now_ms = now_ms;
    return 0;
}

static PyObject *native_served(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(NATIVE(object)->served);
}

static PyMethodDef native_methods[] = {
    {"reset", native_reset, METH_O, "reset(generation): forgets every topic; the next ones are of this generation"},
    {"add", native_add, METH_VARARGS,
     "add(name, topic id, [partition row, ...], LogOptions) -> False: not a topic for this path, or no room"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef native_getset[] = {
    {"served", native_served, NULL, "requests served so far", NULL},
    {"now_ms", native_now_ms, native_set_now_ms, "wall clock; below 0: the system's. For tests that own the clock",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot native_slots[] = {
    {Py_tp_doc,
     "NativeProduce(port, log, errors_counter): from now on serve_or_claim() of the port serves Produce requests\n"
     "for the topics that `add` names; partitions in error are counted in errors_counter."},
    {Py_tp_new, native_new},
    {Py_tp_dealloc, native_dealloc},
    {Py_tp_methods, native_methods},
    {Py_tp_getset, native_getset},
    {0, NULL},
};
static PyType_Spec native_spec = {"mpbroker._native.NativeProduce", sizeof(NativeProduceObject), 0, Py_TPFLAGS_DEFAULT,
                                  native_slots};

int mpb_add_produce(PyObject *module)
{
    PyTypeObject *type = mpb_add_type(module, &native_spec);
    return type == NULL ? -1 : 0;
}
