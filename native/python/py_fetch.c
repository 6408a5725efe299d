/* Binds serve_fetch.h: NativeFetch(port, log, produce), one per request handler process. */
#include "python/py_log.h"
#include "python/py_request.h"
#include "python/py_shm.h"

#include "fetch/serve_fetch.h"
#include "produce/serve_produce.h"

typedef struct {
    PyObject_HEAD PyObject *port, *log, *produce; /* kept alive */
    struct mpb_native_fetch native;
} NativeFetchObject;

#define NATIVE(object) (&((NativeFetchObject *)(object))->native)

static PyObject *fetch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *port, *log, *produce;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOO:NativeFetch", &port, &log, &produce))
        return NULL;
    struct mpb_handler *handler = mpb_handler_of(port);
    struct mpb_log *opened = handler ? mpb_log_of(log) : NULL;
    const struct mpb_native_produce *topics = opened ? mpb_native_produce_of(produce) : NULL;
    NativeFetchObject *self = topics ? (NativeFetchObject *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL)
        return NULL;
    self->port = Py_NewRef(port);
    self->log = Py_NewRef(log);
    self->produce = Py_NewRef(produce);
    self->native.handler = handler;
    self->native.log = opened;
    self->native.topics = &topics->topics;
    self->native.generation = &topics->generation;
    self->native.now_ms = -1;
    handler->serve_fetch_with = &self->native;
    handler->serve_fetch = mpb_serve_fetch;
    return (PyObject *)self;
}

static void fetch_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (NATIVE(object)->handler != NULL && NATIVE(object)->handler->serve_fetch_with == NATIVE(object))
        NATIVE(object)->handler->serve_fetch = NULL;
    Py_XDECREF(((NativeFetchObject *)object)->port);
    Py_XDECREF(((NativeFetchObject *)object)->log);
    Py_XDECREF(((NativeFetchObject *)object)->produce);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *fetch_take_waiting(PyObject *object, PyObject *unused)
{
    struct mpb_native_fetch *native = NATIVE(object);
    (void)unused;
    if (!native->waits)
        Py_RETURN_NONE;
    native->waits = false;
    PyObject *ordinals = PyTuple_New(native->request.count);
    for (uint32_t i = 0; ordinals != NULL && i < native->request.count; i++) {
        const struct mpb_fetch_part *part = &native->request.parts[i];
        PyObject *ordinal = PyLong_FromUnsignedLong(part->topic->ordinals[part->asked.partition]);
        if (ordinal == NULL)
            Py_CLEAR(ordinals);
        else
            PyTuple_SET_ITEM(ordinals, i, ordinal);
    }
    return ordinals == NULL ? NULL : Py_BuildValue("(iN)", native->request.max_wait_ms, ordinals);
}

/* An entry that this handler has; else false with an exception. */
static bool check_entry(PyObject *object, PyObject *request, unsigned int *entry)
{
    RequestObject *claimed = mpb_py_request_arg(((NativeFetchObject *)object)->port, request);
    if (claimed != NULL)
        *entry = claimed->entry;
    return claimed != NULL;
}

static PyObject *fetch_is_ready(PyObject *object, PyObject *request)
{
    unsigned int entry;
    return check_entry(object, request, &entry) ? PyBool_FromLong(mpb_fetch_is_ready(NATIVE(object), entry)) : NULL;
}

static PyObject *fetch_answer(PyObject *object, PyObject *request)
{
    unsigned int entry;
    return check_entry(object, request, &entry) ? PyBool_FromLong(mpb_fetch_answer_waiting(NATIVE(object), entry))
                                                : NULL;
}

static PyObject *fetch_get(PyObject *object, void *what)
{
    const struct mpb_native_fetch *native = NATIVE(object);
    switch ((intptr_t)what) {
    case 0:
        return PyLong_FromUnsignedLongLong(native->served);
    case 1:
        return PyLong_FromLongLong(native->now_ms);
    case 2:
        return PyLong_FromUnsignedLong(native->max_bytes);
    case 3:
        return PyBool_FromLong(native->serves_followers);
    default:
        return PyBool_FromLong(native->off);
    }
}

static int fetch_set(PyObject *object, PyObject *value, void *what)
{
    struct mpb_native_fetch *native = NATIVE(object);
    long long number = value == NULL ? -1 : PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return -1;
    switch ((intptr_t)what) {
    case 1:
        native->now_ms = number;
        return 0;
    case 2:
        native->max_bytes = number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
        return 0;
    case 3:
        native->serves_followers = number != 0;
        return 0;
    default:
        native->off = number != 0;
        return 0;
    }
}

static PyMethodDef fetch_methods[] = {
    {"take_waiting", fetch_take_waiting, METH_NOARGS,
     "take_waiting() -> (max_wait_ms, rows of its partitions), if the request that serve_or_claim() gave last is one "
     "that\n"
     "has to wait for records; else None"},
    {"is_ready", fetch_is_ready, METH_O, "is_ready(request) -> whether a request that waits need not wait any more"},
    {"answer", fetch_answer, METH_O,
     "answer(request) -> False: this path cannot; else it is answered with what there is"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fetch_getset[] = {
    {"served", fetch_get, NULL, "requests served so far", (void *)0},
    {"now_ms", fetch_get, fetch_set, "monotonic clock; below 0: the system's. For tests that own the clock", (void *)1},
    {"max_bytes", fetch_get, fetch_set, "fetch.max.bytes", (void *)2},
    {"serves_followers", fetch_get, fetch_set, "whether requests of followers are not left to Python", (void *)3},
    {"off", fetch_get, fetch_set, "every request is left to Python; for tests", (void *)4},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot fetch_slots[] = {
    {Py_tp_doc,
     "NativeFetch(port, log, produce): from now on serve_or_claim() of the port serves Fetch requests for the\n"
     "topics that NativeProduce.add names."},
    {Py_tp_new, fetch_new},
    {Py_tp_dealloc, fetch_dealloc},
    {Py_tp_methods, fetch_methods},
    {Py_tp_getset, fetch_getset},
    {0, NULL},
};
static PyType_Spec fetch_spec = {"mpbroker._native.NativeFetch", sizeof(NativeFetchObject), 0, Py_TPFLAGS_DEFAULT,
                                 fetch_slots};

int mpb_add_fetch(PyObject *module) { return mpb_add_type(module, &fetch_spec) == NULL ? -1 : 0; }
