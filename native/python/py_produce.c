/* Binds serve_produce.h: NativeProduce(port, log, errors_counter, decompress, release), one per request handler process. */
#include "python/py_log.h"
#include "python/py_request.h"
#include "python/py_shm.h"

#include "produce/serve_produce.h"

typedef struct {
    PyObject_HEAD PyObject *port, *log; /* kept alive */
    PyObject *decompress, *release;
    Py_buffer records; /* decompressed; held until they are checked */
    struct mpb_native_produce native;
} NativeProduceObject;

#define NATIVE(object) (&((NativeProduceObject *)(object))->native)

/* What Python answered into the caller's places; an error code, or MPB_DECOMPRESS_FAILED with an exception. */
static int take_records(NativeProduceObject *self, PyObject *answer, const uint8_t **out, size_t *out_length)
{
    int code;
    PyObject *view;
    if (answer == NULL || !PyArg_ParseTuple(answer, "iO", &code, &view))
        return MPB_DECOMPRESS_FAILED;
    if (code != 0)
        return code;
    if (PyObject_GetBuffer(view, &self->records, PyBUF_SIMPLE) < 0)
        return MPB_DECOMPRESS_FAILED;
    *out = self->records.buf;
    *out_length = (size_t)self->records.len;
    return 0;
}

static int decompress(void *with, uint8_t codec, const uint8_t *data, size_t length, int32_t max_message_bytes,
                      const uint8_t **out, size_t *out_length)
{
    NativeProduceObject *self = with;
    PyObject *view = PyMemoryView_FromMemory((char *)(uintptr_t)data, (Py_ssize_t)length, PyBUF_READ);
    PyObject *answer = view == NULL
                           ? NULL
                           : PyObject_CallFunction(self->decompress, "iOi", (int)codec, view, (int)max_message_bytes);
    int error = take_records(self, answer, out, out_length);
    if (error == MPB_DECOMPRESS_FAILED)
        PyErr_WriteUnraisable(self->decompress);
    Py_XDECREF(answer);
    Py_XDECREF(view);
    return error;
}

static void release(void *with)
{
    NativeProduceObject *self = with;
    PyBuffer_Release(&self->records); /* nothing, if there is none */
    PyObject *done = PyObject_CallNoArgs(self->release);
    if (done == NULL)
        PyErr_WriteUnraisable(self->release);
    Py_XDECREF(done);
}

static void look_again(void *with, uint64_t rows)
{
    (void)rows; /* those that wait for one partition take one look together */
    mpb_produce_look_again(with);
}

static PyObject *native_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *port, *log, *decompressing, *releasing;
    unsigned int counter;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOIOO:NativeProduce", &port, &log, &counter, &decompressing, &releasing))
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
    self->decompress = Py_NewRef(decompressing);
    self->release = Py_NewRef(releasing);
    self->native.decompressor = (struct mpb_decompressor){decompress, release, self};
    self->native.handler = handler;
    self->native.log = opened;
    self->native.generation = UINT64_MAX; /* no topic is known */
    self->native.errors_counter = counter;
    self->native.now_ms = -1;
    self->native.waiting = (struct mpb_waiting_produces){.handler = handler,
                                                         .topics = &self->native.topics,
                                                         .generation = &self->native.generation,
                                                         .served = &self->native.served,
                                                         .now_ms = -1,
                                                         .earliest_ms = INT64_MAX};
    handler->serve_with = &self->native;
    handler->serve = mpb_serve_produce;
    handler->waits[MPB_WAITING_PRODUCES] = (struct mpb_native_waits){look_again, &self->native.waiting,
                                                                     &self->native.waiting.earliest_ms};
    return (PyObject *)self;
}

static void native_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    mpb_native_forget(&NATIVE(object)->topics);
    free(NATIVE(object)->unpacked);
    mpb_produce_forget_waiting(&NATIVE(object)->waiting);
    if (NATIVE(object)->handler != NULL && NATIVE(object)->handler->serve_with == NATIVE(object)) {
        NATIVE(object)->handler->serve = NULL;
        NATIVE(object)->handler->waits[MPB_WAITING_PRODUCES].look_again = NULL;
    }
    Py_XDECREF(((NativeProduceObject *)object)->port);
    Py_XDECREF(((NativeProduceObject *)object)->log);
    Py_XDECREF(((NativeProduceObject *)object)->decompress);
    Py_XDECREF(((NativeProduceObject *)object)->release);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *native_reset(PyObject *object, PyObject *arg)
{
    unsigned long long generation = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    mpb_native_forget(&NATIVE(object)->topics);
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
    int produces, is_zstd;
    if (!PyArg_ParseTuple(args, "s#y#O!O!pp:add", &name, &name_length, &id, &id_length, &PyList_Type, &list,
                          mpb_log_options_type, &options, &produces, &is_zstd))
        return NULL;
    if (id_length != 16)
        return PyErr_Format(PyExc_ValueError, "a topic id is 16 bytes");
    if (PyList_GET_SIZE(list) > MPB_NATIVE_TOPIC_PARTITIONS)
        Py_RETURN_FALSE;
    if (!read_ordinals(list, NATIVE(object)->log->core->partition_count, ordinals))
        return NULL;
    const LogOptionsObject *settings = (LogOptionsObject *)options;
    struct mpb_native_topic *topic = mpb_native_add(
        &NATIVE(object)->topics, (const uint8_t *)name, (uint32_t)name_length, (const uint8_t *)id, ordinals,
        (uint32_t)PyList_GET_SIZE(list), &settings->append, &settings->rules);
    if (topic == NULL)
        Py_RETURN_FALSE;
    topic->produces = produces && mpb_native_may_produce(topic);
    topic->is_zstd = is_zstd;
    return PyBool_FromLong(topic->produces);
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

static PyObject *native_monotonic_ms(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(NATIVE(object)->waiting.now_ms);
}

static int native_set_monotonic_ms(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    long long monotonic_ms = value == NULL ? -1 : PyLong_AsLongLong(value);
    if (monotonic_ms == -1 && PyErr_Occurred())
        return -1;
    NATIVE(object)->waiting.now_ms = monotonic_ms;
    return 0;
}

static PyObject *native_waiting(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(NATIVE(object)->waiting.count);
}

static PyObject *native_due_ms(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(NATIVE(object)->waiting.earliest_ms);
}

static PyObject *native_parks(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(NATIVE(object)->parks);
}

static int native_set_parks(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    int parks = value == NULL ? 0 : PyObject_IsTrue(value);
    if (parks < 0)
        return -1;
    NATIVE(object)->parks = parks != 0;
    return 0;
}

static PyObject *native_take_over(PyObject *object, PyObject *arg)
{
    int64_t deadline_ms = 0;
    long long now_ms = PyLong_AsLongLong(arg);
    if (now_ms == -1 && PyErr_Occurred())
        return NULL;
    int64_t index = mpb_produce_take_over(&NATIVE(object)->waiting, now_ms, &deadline_ms);
    if (index < 0)
        Py_RETURN_NONE;
    PyObject *request = mpb_py_new_request((HandlerObject *)((NativeProduceObject *)object)->port, index);
    return request ? Py_BuildValue("(NL)", request, (long long)deadline_ms) : NULL;
}

static PyMethodDef native_methods[] = {
    {"take_over", native_take_over, METH_O,
     "take_over(monotonic ms) -> (Request, its deadline) that waited, and that Python has to go on with; None"},
    {"reset", native_reset, METH_O, "reset(generation): forgets every topic; the next ones are of this generation"},
    {"add", native_add, METH_VARARGS,
     "add(name, topic id, [partition row, ...], LogOptions, produces, is_zstd) -> False: no Produce for it on this "
     "path,\n"
     "because of `produces`, its settings, or for want of room"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef native_getset[] = {
    {"served", native_served, NULL, "requests served so far", NULL},
    {"waiting", native_waiting, NULL, "requests with acks=all that wait here for their replicas", NULL},
    {"due_ms", native_due_ms, NULL, "when to look at the latest whether one is to be taken over", NULL},
    {"parks", native_parks, native_set_parks, "whether requests wait here; else they are left to Python", NULL},
    {"monotonic_ms", native_monotonic_ms, native_set_monotonic_ms,
     "clock for deadlines; below 0: the system's. For tests that own the clock", NULL},
    {"now_ms", native_now_ms, native_set_now_ms, "wall clock; below 0: the system's. For tests that own the clock",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot native_slots[] = {
    {Py_tp_doc,
     "NativeProduce(port, log, errors_counter, decompress, release): from now on serve_or_claim() of the port serves\n"
     "Produce requests for the topics that `add` names; partitions in error are counted in errors_counter.\n"
     "decompress(codec, data, max_message_bytes) -> (error code, bytes valid until release())."},
    {Py_tp_new, native_new},
    {Py_tp_dealloc, native_dealloc},
    {Py_tp_methods, native_methods},
    {Py_tp_getset, native_getset},
    {0, NULL},
};
static PyType_Spec native_spec = {"mpbroker._native.NativeProduce", sizeof(NativeProduceObject), 0, Py_TPFLAGS_DEFAULT,
                                  native_slots};

static PyTypeObject *native_type;

struct mpb_native_produce *mpb_native_produce_of(PyObject *object)
{
    if (native_type != NULL && Py_IS_TYPE(object, native_type))
        return NATIVE(object);
    PyErr_SetString(PyExc_TypeError, "a NativeProduce is needed");
    return NULL;
}

int mpb_add_produce(PyObject *module)
{
    native_type = mpb_add_type(module, &native_spec);
    return native_type == NULL ? -1 : 0;
}
