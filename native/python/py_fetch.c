/* Binds serve_fetch.h: NativeFetch(port, log, produce, expired_counter), one per request handler process. */
#include "python/py_log.h"
#include "python/py_request.h"
#include "python/py_shm.h"

#include "fetch/waiting_fetch.h"
#include "produce/serve_produce.h"

typedef struct {
    PyObject_HEAD PyObject *port, *log, *produce; /* kept alive */
    struct mpb_native_fetch native;
    struct mpb_waiting_fetches waiting;
} NativeFetchObject;

#define NATIVE(object) (&((NativeFetchObject *)(object))->native)
#define WAITING(object) (&((NativeFetchObject *)(object))->waiting)

static void look_again(void *with, uint64_t rows) { mpb_fetch_look_again(with, rows); }

static PyObject *fetch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *port, *log, *produce;
    (void)kwargs;
    unsigned int counter;
    if (!PyArg_ParseTuple(args, "OOOI:NativeFetch", &port, &log, &produce, &counter))
        return NULL;
    if (counter >= MPB_MAX_COUNTERS)
        return PyErr_Format(PyExc_ValueError, "no counter %u", counter);
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
    self->waiting = (struct mpb_waiting_fetches){
        .native = &self->native, .expired_counter = counter, .earliest_ms = INT64_MAX};
    handler->waits[MPB_WAITING_FETCHES] = (struct mpb_native_waits){look_again, &self->waiting,
                                                                    &self->waiting.earliest_ms};
    handler->serve_fetch_with = &self->waiting;
    handler->serve_fetch = mpb_fetch_serve_or_wait;
    return (PyObject *)self;
}

static void fetch_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    mpb_fetch_forget_waiting(WAITING(object));
    if (NATIVE(object)->handler != NULL && NATIVE(object)->handler->serve_fetch_with == WAITING(object)) {
        NATIVE(object)->handler->serve_fetch = NULL;
        NATIVE(object)->handler->waits[MPB_WAITING_FETCHES].look_again = NULL;
    }
    Py_XDECREF(((NativeFetchObject *)object)->port);
    Py_XDECREF(((NativeFetchObject *)object)->log);
    Py_XDECREF(((NativeFetchObject *)object)->produce);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *fetch_take_over(PyObject *object, PyObject *arg)
{
    int64_t deadline_ms = 0;
    long long now_ms = PyLong_AsLongLong(arg);
    if (now_ms == -1 && PyErr_Occurred())
        return NULL;
    int64_t index = mpb_fetch_take_over(WAITING(object), now_ms, &deadline_ms);
    if (index < 0)
        Py_RETURN_NONE;
    PyObject *request = mpb_py_new_request((HandlerObject *)((NativeFetchObject *)object)->port, index);
    return request ? Py_BuildValue("(NL)", request, (long long)deadline_ms) : NULL;
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
    case 4:
        return PyBool_FromLong(WAITING(object)->parks);
    case 5:
        return PyLong_FromUnsignedLong(WAITING(object)->count);
    case 6:
        return PyLong_FromLongLong(WAITING(object)->earliest_ms);
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
    case 4:
        WAITING(object)->parks = number != 0;
        return 0;
    default:
        native->off = number != 0;
        return 0;
    }
}

static PyMethodDef fetch_methods[] = {
    {"take_over", fetch_take_over, METH_O,
     "take_over(monotonic ms) -> (Request, its deadline) that waited, and that Python has to go on with; None. "
     "Answers\n"
     "those whose time is over with what there is."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fetch_getset[] = {
    {"served", fetch_get, NULL, "requests served so far", (void *)0},
    {"now_ms", fetch_get, fetch_set, "monotonic clock; below 0: the system's. For tests that own the clock", (void *)1},
    {"max_bytes", fetch_get, fetch_set, "fetch.max.bytes", (void *)2},
    {"serves_followers", fetch_get, fetch_set, "whether requests of followers are not left to Python", (void *)3},
    {"parks", fetch_get, fetch_set, "whether requests wait here; else they are left to Python", (void *)4},
    {"waiting", fetch_get, NULL, "requests that wait here for records", (void *)5},
    {"due_ms", fetch_get, NULL, "when to look at the latest whether one's time is over", (void *)6},
    {"off", fetch_get, fetch_set, "every request is left to Python; for tests", (void *)7},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot fetch_slots[] = {
    {Py_tp_doc, "NativeFetch(port, log, produce, expired_counter): from now on serve_or_claim() of the port serves "
                "Fetch requests for the\n"
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
