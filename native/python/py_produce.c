/* Binds produce_path.h: PlainProduce(port, log), one per request handler process. */
#include "python/py_log.h"
#include "python/py_shm.h"

#include "produce/produce_path.h"

typedef struct {
    PyObject_HEAD PyObject *port, *log; /* kept alive */
    struct mpb_produce_path path;
} PlainProduceObject;

#define PATH(object) (&((PlainProduceObject *)(object))->path)

static PyObject *plain_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *port, *log;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO:PlainProduce", &port, &log))
        return NULL;
    struct mpb_handler *handler = mpb_handler_of(port);
    struct mpb_log *opened = handler ? mpb_log_of(log) : NULL;
    PlainProduceObject *self = opened ? (PlainProduceObject *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL)
        return NULL;
    self->port = Py_NewRef(port);
    self->log = Py_NewRef(log);
    self->path.handler = handler;
    self->path.log = opened;
    self->path.generation = UINT64_MAX; /* no topic is known */
    self->path.frame_entry = UINT32_MAX;
    return (PyObject *)self;
}

static void plain_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    mpb_produce_path_clear(PATH(object));
    if (PATH(object)->handler != NULL && PATH(object)->handler->serve_path == PATH(object))
        PATH(object)->handler->serve = NULL;
    Py_XDECREF(((PlainProduceObject *)object)->port);
    Py_XDECREF(((PlainProduceObject *)object)->log);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *plain_reset(PyObject *object, PyObject *arg)
{
    unsigned long long generation = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    mpb_produce_path_clear(PATH(object));
    PATH(object)->generation = generation;
    Py_RETURN_NONE;
}

/* Rows of the partition table out of a list; false with an exception. */
static bool read_ordinals(PyObject *list, uint32_t limit, uint32_t out[MPB_PLAIN_TOPIC_PARTITIONS])
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

static PyObject *plain_add(PyObject *object, PyObject *args)
{
    const char *name, *id;
    Py_ssize_t name_length, id_length;
    PyObject *list, *options;
    uint32_t ordinals[MPB_PLAIN_TOPIC_PARTITIONS];
    if (!PyArg_ParseTuple(args, "s#y#O!O!:add", &name, &name_length, &id, &id_length, &PyList_Type, &list,
                          mpb_log_options_type, &options))
        return NULL;
    if (id_length != 16)
        return PyErr_Format(PyExc_ValueError, "a topic id is 16 bytes");
    if (PyList_GET_SIZE(list) > MPB_PLAIN_TOPIC_PARTITIONS)
        Py_RETURN_FALSE;
    if (!read_ordinals(list, PATH(object)->log->core->partition_count, ordinals))
        return NULL;
    const LogOptionsObject *settings = (LogOptionsObject *)options;
    return PyBool_FromLong(mpb_produce_path_add(PATH(object), (const uint8_t *)name, (uint32_t)name_length,
                                                (const uint8_t *)id, ordinals, (uint32_t)PyList_GET_SIZE(list),
                                                &settings->append, &settings->rules));
}

static PyObject *plain_run(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct mpb_handler *handler;
    uint32_t entry, length = 0, errors = 0;
    uint8_t frame[MPB_PLAIN_FRAME_BYTES];
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "run(request, now_ms)");
        return NULL;
    }
    long long now_ms = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred() || !mpb_request_of(args[0], &handler, &entry))
        return NULL;
    if (handler != PATH(object)->handler) {
        PyErr_SetString(PyExc_ValueError, "the request is another handler's");
        return NULL;
    }
    if (entry == PATH(object)->frame_entry) {
        PATH(object)->frame_entry = UINT32_MAX;
        return PyBytes_FromStringAndSize((const char *)PATH(object)->frame, PATH(object)->frame_length);
    }
    switch (mpb_produce_plain(PATH(object), entry, now_ms, frame, &length, &errors)) {
    case MPB_PLAIN_ANSWERED:
        return PyLong_FromUnsignedLong(errors);
    case MPB_PLAIN_NO_ROOM:
        return PyBytes_FromStringAndSize((const char *)frame, length);
    default:
        Py_RETURN_NONE;
    }
}

static PyObject *plain_serve(PyObject *object, PyObject *arg)
{
    unsigned long counter = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    if (counter >= MPB_MAX_COUNTERS)
        return PyErr_Format(PyExc_ValueError, "no counter %lu", counter);
    PATH(object)->errors_counter = (uint32_t)counter;
    PATH(object)->handler->serve_path = PATH(object);
    PATH(object)->handler->serve = mpb_produce_serve;
    Py_RETURN_NONE;
}

static PyMethodDef plain_methods[] = {
    {"serve", plain_serve, METH_O,
     "serve(counter): from now on claim() of the port serves plain requests by itself and returns the others; counts\n"
     "partitions in error"},
    {"reset", plain_reset, METH_O, "reset(generation): forgets every topic; the next ones are of this generation"},
    {"add", plain_add, METH_VARARGS,
     "add(name, topic id, [partition row, ...], LogOptions) -> False: not a topic for this path, or no room"},
    {"run", (PyCFunction)(void (*)(void))plain_run, METH_FASTCALL,
     "run(request, now_ms) -> None: not plain, nothing was done; int: answered, partitions in error; bytes: done, the\n"
     "answer's frame found no memory"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot plain_slots[] = {
    {Py_tp_doc, "PlainProduce(port, log): serves plain Produce requests without the interpreter."},
    {Py_tp_new, plain_new},
    {Py_tp_dealloc, plain_dealloc},
    {Py_tp_methods, plain_methods},
    {0, NULL},
};
static PyType_Spec plain_spec = {"mpbroker._native.PlainProduce", sizeof(PlainProduceObject), 0, Py_TPFLAGS_DEFAULT,
                                 plain_slots};

int mpb_add_produce(PyObject *module)
{
    PyTypeObject *type = mpb_add_type(module, &plain_spec);
    return type == NULL ? -1 : 0;
}
