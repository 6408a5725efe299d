/* Binds trace_lane.h. A TraceLane keeps a reference to the buffer (an mmap of the named segment) it looks into. */
#include "python/py_trace.h"

typedef struct {
    PyObject_HEAD Py_buffer buffer;
    struct mpb_lane lane;
} TraceLane;

static PyTypeObject TraceLaneType;

struct mpb_lane *mpb_lane_of(PyObject *object)
{
    if (object == Py_None)
        return NULL;
    if (!PyObject_TypeCheck(object, &TraceLaneType)) {
        PyErr_SetString(PyExc_TypeError, "expected a TraceLane or None");
        return NULL;
    }
    return &((TraceLane *)object)->lane;
}

static PyObject *lane_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"buffer", NULL};
    PyObject *source;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &source))
        return NULL;
    TraceLane *self = (TraceLane *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    if (PyObject_GetBuffer(source, &self->buffer, PyBUF_WRITABLE) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    int status = mpb_lane_attach(&self->lane, self->buffer.buf, (size_t)self->buffer.len);
    if (status != 0) {
        static const char *const why[] = {"too small", "no lane", "a lane of another version", "a broken lane header"};
        PyErr_Format(PyExc_ValueError, "not a trace lane: %s", why[-status - 1]);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void lane_dealloc(TraceLane *self)
{
    PyBuffer_Release(&self->buffer);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *lane_peek(TraceLane *self, PyObject *arg)
{
    unsigned long long max = PyLong_AsUnsignedLongLong(arg);
    if (max == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    struct mpb_lane_span span = mpb_lane_peek(&self->lane, max);
    size_t offset = (size_t)((const uint8_t *)span.first - (const uint8_t *)self->buffer.buf);
    return Py_BuildValue("(nn)", (Py_ssize_t)offset, (Py_ssize_t)(span.count * MPB_TRACE_BYTES));
}

static PyObject *lane_release(TraceLane *self, PyObject *arg)
{
    unsigned long long count = PyLong_AsUnsignedLongLong(arg);
    if (count == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    mpb_lane_release(&self->lane, count);
    Py_RETURN_NONE;
}

static PyObject *lane_seek(TraceLane *self, PyObject *arg)
{
    unsigned long long position = PyLong_AsUnsignedLongLong(arg);
    if (position == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(mpb_lane_seek(&self->lane, position));
}

static PyObject *lane_counters(TraceLane *self, PyObject *Py_UNUSED(ignored))
{
    struct mpb_lane_counters c = mpb_lane_read_counters(&self->lane);
    return Py_BuildValue("(KKKKK)", (unsigned long long)c.finished, (unsigned long long)c.written,
                         (unsigned long long)c.dropped, (unsigned long long)c.sampled_out,
                         (unsigned long long)c.drained);
}

static PyObject *lane_put(TraceLane *self, PyObject *arg)
{
    Py_buffer record;
    if (PyObject_GetBuffer(arg, &record, PyBUF_SIMPLE) < 0)
        return NULL;
    struct mpb_trace copy;
    bool fits = record.len == MPB_TRACE_BYTES;
    if (fits)
        memcpy(&copy, record.buf, sizeof copy);
    PyBuffer_Release(&record);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "a trace record has %d bytes", MPB_TRACE_BYTES);
    mpb_lane_put(&self->lane, &copy);
    Py_RETURN_NONE;
}

/* ns per commit, stamping nothing; the oldest records are released so that none is dropped. */
static PyObject *lane_bench_commit(TraceLane *self, PyObject *arg)
{
    long count = PyLong_AsLong(arg);
    if (count <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "count must be positive");
    struct mpb_entry *entry = PyMem_Calloc(1, sizeof *entry);
    if (entry == NULL)
        return PyErr_NoMemory();
    uint64_t begun = mpb_trace_clock_ns();
    for (long i = 0; i < count; i++) {
        mpb_trace_begin(entry->trace, begun);
        for (int stage = 0; stage < MPB_TRACE_STAGES; stage++)
            mpb_trace_stamp(entry->trace, stage, begun + 64 * (uint64_t)stage);
        entry->fill_number = (uint64_t)i + 1;
        mpb_trace_commit(&self->lane, entry, 0);
        if ((i & 1023) == 0)
            mpb_lane_release(&self->lane, 2048);
    }
    uint64_t taken = mpb_trace_clock_ns() - begun;
    PyMem_Free(entry);
    return PyFloat_FromDouble((double)taken / (double)count);
}

static PyMethodDef lane_methods[] = {
    {"peek", (PyCFunction)lane_peek, METH_O,
     "peek(max_records) -> (offset, bytes): unreleased records in the buffer, in one piece."},
    {"release", (PyCFunction)lane_release, METH_O, "release(records): the writer may overwrite them."},
    {"seek", (PyCFunction)lane_seek, METH_O, "seek(position) -> bool: continue where a predecessor's file ends."},
    {"counters", (PyCFunction)lane_counters, METH_NOARGS, "-> (finished, written, dropped, sampled_out, drained)"},
    {"put", (PyCFunction)lane_put, METH_O, "put(record): account for one finished request; tools and tests."},
    {"bench_commit", (PyCFunction)lane_bench_commit, METH_O, "bench_commit(count) -> nanoseconds per record."},
    {NULL, NULL, 0, NULL},
};

static PyObject *lane_header_u64(TraceLane *self, void *which)
{
    const struct mpb_lane_header *h = self->lane.header;
    return PyLong_FromUnsignedLongLong(which == NULL ? h->processor : which == (void *)1 ? h->boot_id : h->capacity);
}

static PyObject *lane_get_shift(TraceLane *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(self->lane.sample_shift);
}

static int lane_set_shift(TraceLane *self, PyObject *value, void *Py_UNUSED(closure))
{
    long shift = value == NULL ? -1 : PyLong_AsLong(value);
    if (shift < 0 || shift > 15) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "sample_shift must be 0 to 15");
        return -1;
    }
    self->lane.sample_shift = (uint32_t)shift;
    return 0;
}

static PyObject *lane_get_slow(TraceLane *self, void *Py_UNUSED(closure))
{
    uint32_t ticks = self->lane.slow_ticks;
    return PyLong_FromLongLong(ticks == MPB_TRACE_NOT_REACHED ? -1 : (long long)ticks << MPB_TRACE_TICK_SHIFT);
}

static int lane_set_slow(TraceLane *self, PyObject *value, void *Py_UNUSED(closure))
{
    long long slow_ns = value == NULL ? 0 : PyLong_AsLongLong(value);
    if (PyErr_Occurred())
        return -1;
    uint64_t ticks = (uint64_t)slow_ns >> MPB_TRACE_TICK_SHIFT;
    if (slow_ns < 0)
        self->lane.slow_ticks = MPB_TRACE_NOT_REACHED;
    else
        self->lane.slow_ticks = ticks < MPB_TRACE_SATURATED ? (uint32_t)ticks : MPB_TRACE_SATURATED;
    return 0;
}

static PyObject *lane_get_bell(TraceLane *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(self->lane.bell_fd);
}

static int lane_set_bell(TraceLane *self, PyObject *value, void *Py_UNUSED(closure))
{
    long fd = value == NULL ? -1 : PyLong_AsLong(value);
    if (PyErr_Occurred())
        return -1;
    self->lane.bell_fd = fd < 0 || fd > INT_MAX ? -1 : (int)fd;
    return 0;
}

static PyGetSetDef lane_getset[] = {
    {"processor", (getter)lane_header_u64, NULL, "index of the processor that writes it", NULL},
    {"boot_id", (getter)lane_header_u64, NULL, "of the supervisor that created it", (void *)1},
    {"capacity", (getter)lane_header_u64, NULL, "records", (void *)2},
    {"sample_shift", (getter)lane_get_shift, (setter)lane_set_shift, "keep one ordinary request in 2^n", NULL},
    {"bell_fd", (getter)lane_get_bell, (setter)lane_set_bell, "an eventfd, rung when half of it is full; -1: none",
     NULL},
    {"slow_ns", (getter)lane_get_slow, (setter)lane_set_slow, "from here on a request is kept in any case; -1: none",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject TraceLaneType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpbroker._native.TraceLane",
    .tp_doc = "TraceLane(buffer): one process's view of a trace lane.",
    .tp_basicsize = sizeof(TraceLane),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = lane_new,
    .tp_dealloc = (destructor)lane_dealloc,
    .tp_methods = lane_methods,
    .tp_getset = lane_getset,
};

static PyObject *py_lane_format(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    unsigned long long capacity, boot_id;
    unsigned int processor;
    if (!PyArg_ParseTuple(args, "w*KIK", &buffer, &capacity, &processor, &boot_id))
        return NULL;
    int status = mpb_lane_format(buffer.buf, (size_t)buffer.len, capacity, processor, boot_id);
    PyBuffer_Release(&buffer);
    if (status != 0)
        return PyErr_Format(PyExc_ValueError, "a lane of %llu records does not fit, or is no power of two", capacity);
    Py_RETURN_NONE;
}

#define FIELD(name) #name, (int)offsetof(struct mpb_trace, name), (int)sizeof(((struct mpb_trace *)0)->name)
static PyObject *py_trace_layout(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    static const struct {
        const char *name;
        int offset, bytes;
    } fields[] = {
        {FIELD(t0_ns)},      {FIELD(seq_lo)},     {FIELD(aux)},         {FIELD(conn_id)},     {FIELD(client_hash)},
        {FIELD(topic_hash)}, {FIELD(corr_id)},    {FIELD(req_bytes)},   {FIELD(resp_bytes)},  {FIELD(throttle_ms)},
        {FIELD(kind)},       {FIELD(plane_prio)}, {FIELD(api_key)},     {FIELD(api_version)}, {FIELD(error)},
        {FIELD(listener)},   {FIELD(inflight)},   {FIELD(proc_id)},     {FIELD(handler_id)},  {FIELD(nparts)},
        {FIELD(req_q)},      {FIELD(resp_q)},     {FIELD(purg_kind)},   {FIELD(attempts)},    {FIELD(flags)},
        {FIELD(rx_wait)},    {FIELD(stage)},      {FIELD(handler_cpu)},
    };
    PyObject *layout = PyDict_New();
    for (size_t i = 0; layout != NULL && i < sizeof fields / sizeof *fields; i++) {
        PyObject *place = Py_BuildValue("(ii)", fields[i].offset, fields[i].bytes);
        if (place == NULL || PyDict_SetItemString(layout, fields[i].name, place) < 0)
            Py_CLEAR(layout);
        Py_XDECREF(place);
    }
    return layout;
}

/* What the dash-cam asks about requests that have just finished: how many, how many failed (each for as many as it
 * stands for), and where the first slow one is. */
static PyObject *py_trace_scan(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer records;
    unsigned slow_ticks;
    if (!PyArg_ParseTuple(args, "y*I", &records, &slow_ticks))
        return NULL;
    unsigned long long requests = 0, failed = 0;
    Py_ssize_t slow = -1, count = records.len / MPB_TRACE_BYTES;
    for (Py_ssize_t i = 0; i < count; i++) {
        struct mpb_trace t;
        memcpy(&t, (const char *)records.buf + i * MPB_TRACE_BYTES, sizeof t);
        if (t.kind != MPB_TRACE_REQUEST)
            continue;
        unsigned long long stands_for = 1ull << (t.flags >> MPB_TF_SAMPLE_SHIFT);
        requests += stands_for;
        failed += t.error != 0 ? stands_for : 0;
        if (slow < 0 && mpb_trace_is_slow(&t, slow_ticks))
            slow = i;
    }
    PyBuffer_Release(&records);
    return Py_BuildValue("(KKn)", requests, failed, slow);
}

static PyMethodDef functions[] = {
    {"trace_scan", py_trace_scan, METH_VARARGS, "trace_scan(records, slow_ticks) -> (requests, failed, index of slow)"},
    {"trace_lane_format", py_lane_format, METH_VARARGS, "trace_lane_format(buffer, capacity, processor, boot_id)"},
    {"trace_layout", py_trace_layout, METH_NOARGS, "-> {field: (offset, bytes)} of the C record, for the test"},
    {NULL, NULL, 0, NULL},
};

int mpb_add_trace(PyObject *module)
{
    if (PyType_Ready(&TraceLaneType) < 0 || PyModule_AddFunctions(module, functions) < 0 ||
        PyModule_AddIntConstant(module, "TRACE_LANE_HEADER_BYTES", sizeof(struct mpb_lane_header)) < 0 ||
        PyModule_AddIntConstant(module, "TRACE_LANE_RECORDS", MPB_LANE_RECORDS) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "TraceLane", (PyObject *)&TraceLaneType);
}
