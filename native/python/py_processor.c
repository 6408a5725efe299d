/* ProcessorPort: the processor's end of the request path (processor.h). */
#include "python/py_shm.h"
#include "request/known_rows.h"
#include "shm/counters.h"
#include "request/processor.h"
#include "python/py_trace.h"
#include "request/recover.h"
#include "trace/trace_record.h"
#include <stdlib.h>

static PyTypeObject *processor_type;

struct reservation {
    uint64_t offset, bytes;
};
#define MAX_RESERVATIONS 4096

typedef struct {
    PyObject_HEAD CoreObject *core;
    PyObject *lane;
    struct mpb_processor port;
    struct reservation *reserved; /* large frames being received: private, gone with the process */
    Py_ssize_t reserved_count;
} ProcessorObject;

#define SELF(object) ((ProcessorObject *)(object))
#define PORT(object) (&SELF(object)->port)

static PyObject *processor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"core", "index", "eventfd", "lane", NULL};
    PyObject *core_object, *lane = Py_None;
    unsigned int index;
    int eventfd = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OI|iO", names, &core_object, &index, &eventfd, &lane))
        return NULL;
    CoreObject *core = mpb_core_object(core_object);
    if (core == NULL)
        return NULL;
    if (index >= core->core.header->processor_count)
        return PyErr_Format(PyExc_IndexError, "there is no processor %u", index);
    struct mpb_lane *opened = lane == Py_None ? NULL : mpb_lane_of(lane);
    ProcessorObject *self = PyErr_Occurred() ? NULL : (ProcessorObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->core = (CoreObject *)Py_NewRef(core);
    self->lane = Py_NewRef(lane);
    self->reserved = malloc(MAX_RESERVATIONS * sizeof *self->reserved);
    if (eventfd >= 0)
        core->core.eventfds[index] = eventfd;
    if (self->reserved == NULL || mpb_processor_open(&self->port, &core->core, index) < 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->port.lane = opened;
    if (opened != NULL)
        mpb_lane_adopt(&core->core, opened); /* what a killed predecessor left half counted */
    return (PyObject *)self;
}

static void processor_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    mpb_processor_close(PORT(object));
    free(SELF(object)->reserved);
    Py_XDECREF(SELF(object)->core);
    Py_XDECREF(SELF(object)->lane);
    type->tp_free(object);
    Py_DECREF(type);
}

/* Integer arguments of the two calls made for every request: positional, because parsing names costs more than they do. */
static bool numbers(PyObject *const *args, Py_ssize_t n, unsigned long long *values)
{
    for (Py_ssize_t i = 0; i < n; i++)
        values[i] = PyLong_AsUnsignedLongLong(args[i]);
    return !PyErr_Occurred();
}

static PyObject *processor_submit(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    unsigned long long route[4], times[3] = {0, 0, UINT32_MAX};
    struct mpb_submission s = {.offset = MPB_PAYLOAD_INLINE};
    Py_buffer frame;
    if (n < 6 || n > 8)
        return PyErr_Format(PyExc_TypeError, "submit takes 6 to 8 arguments, not %zd", n);
    if (!numbers(args, 4, route) || !numbers(args + 5, n - 5, times))
        return NULL;
    if (PyObject_GetBuffer(args[4], &frame, PyBUF_SIMPLE) < 0)
        return NULL;
    if (route[0] > MPB_PLANE_CONTROL || frame.len < MPB_MIN_FRAME_BYTES || frame.len > INT32_MAX) {
        PyBuffer_Release(&frame);
        PyErr_SetString(PyExc_ValueError, "plane is 0 (data) or 1 (control), a frame has 8 bytes to 2 GiB");
        return NULL;
    }
    s.plane = (uint32_t)route[0];
    s.connection = (uint32_t)route[1];
    s.connection_generation = (uint32_t)route[2];
    s.listener = (uint32_t)route[3];
    s.frame = frame.buf;
    s.length = (uint32_t)frame.len;
    s.t0_ns = times[0];
    s.frame_done_ns = times[1] ? times[1] : times[0];
    s.client_hash = (uint32_t)times[2];
    int64_t result = mpb_submit(PORT(object), &s);
    PyBuffer_Release(&frame);
    return PyLong_FromLongLong(result);
}

static PyObject *processor_reserve(PyObject *object, PyObject *arg)
{
    ProcessorObject *self = SELF(object);
    unsigned long long bytes = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    int64_t offset = self->reserved_count < MAX_RESERVATIONS && bytes > 0 ? mpb_arena_take(&self->port.arena, bytes)
                                                                          : -1;
    if (offset < 0) {
        mpb_count(self->port.core, self->port.slot, MPB_C_NO_ARENA_SPACE, 1);
        Py_RETURN_NONE;
    }
    self->reserved[self->reserved_count++] = (struct reservation){(uint64_t)offset, bytes};
    PyObject *view = mpb_arena_slice(self->core, (uint64_t)offset, bytes);
    return view ? Py_BuildValue("(LN)", (long long)offset, view) : NULL;
}

static PyObject *processor_set_address(PyObject *object, PyObject *args)
{
    unsigned int number, generation;
    const char *address;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "IIy#", &number, &generation, &address, &length))
        return NULL;
    if (length != 16)
        return PyErr_Format(PyExc_ValueError, "an address has 16 bytes, not %zd", length);
    mpb_address_put(SELF(object)->port.core, SELF(object)->port.index, number, generation, (const uint8_t *)address);
    Py_RETURN_NONE;
}

static struct reservation *find_reservation(ProcessorObject *self, uint64_t offset)
{
    for (Py_ssize_t i = 0; i < self->reserved_count; i++)
        if (self->reserved[i].offset == offset)
            return &self->reserved[i];
    PyErr_Format(PyExc_ValueError, "nothing is reserved at %llu", (unsigned long long)offset);
    return NULL;
}

static PyObject *processor_release_reserved(PyObject *object, PyObject *arg)
{
    ProcessorObject *self = SELF(object);
    unsigned long long offset = PyLong_AsUnsignedLongLong(arg);
    struct reservation *r = PyErr_Occurred() ? NULL : find_reservation(self, offset);
    if (r == NULL)
        return NULL;
    mpb_arena_give(&self->port.arena, r->offset, r->bytes);
    *r = self->reserved[--self->reserved_count];
    Py_RETURN_NONE;
}

static PyObject *processor_submit_reserved(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"plane", "connection",    "connection_generation", "listener",   "offset",   "length",
                            "t0_ns", "frame_done_ns", "client_hash",           "arrival_ns", "inflight", NULL};
    ProcessorObject *self = SELF(object);
    struct mpb_submission s;
    unsigned long long offset, t0_ns, frame_done_ns = 0, arrival_ns = 0;
    s.client_hash = UINT32_MAX;
    s.inflight = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IIIIKIK|KIKI", names, &s.plane, &s.connection,
                                     &s.connection_generation, &s.listener, &offset, &s.length, &t0_ns, &frame_done_ns,
                                     &s.client_hash, &arrival_ns, &s.inflight))
        return NULL;
    struct reservation *r = find_reservation(self, offset);
    if (r == NULL)
        return NULL;
    if (s.length < MPB_MIN_FRAME_BYTES || s.length > r->bytes || s.plane > MPB_PLANE_CONTROL)
        return PyErr_Format(PyExc_ValueError, "%u bytes of the %llu reserved, plane %u", s.length, r->bytes, s.plane);
    s.offset = offset;
    s.frame = self->port.core->arena + offset;
    s.t0_ns = t0_ns;
    s.frame_done_ns = frame_done_ns ? frame_done_ns : t0_ns;
    s.arrival_ns = arrival_ns;
    int64_t result = mpb_submit(&self->port, &s);
    if (result >= 0 || result == MPB_PLANE_FULL) { /* the entry holds the bytes now; the rest goes back */
        uint32_t held = mpb_units_for(&self->port.arena.units, s.length);
        uint32_t had = mpb_units_for(&self->port.arena.units, r->bytes);
        if (had > held)
            mpb_arena_give(&self->port.arena, offset + (uint64_t)held * MPB_ARENA_UNIT_BYTES,
                           (uint64_t)(had - held) * MPB_ARENA_UNIT_BYTES);
        *r = self->reserved[--self->reserved_count];
    }
    return PyLong_FromLongLong(result);
}

static PyObject *processor_retry(PyObject *object, PyObject *arg)
{
    unsigned long entry = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    int64_t result = mpb_retry(PORT(object), (uint32_t)entry);
    if (result == MPB_NOT_PARKED)
        return PyErr_Format(PyExc_ValueError, "entry %lu is not parked", entry);
    return PyLong_FromLongLong(result);
}

static PyObject *processor_abandon(PyObject *object, PyObject *arg)
{
    unsigned long entry = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(mpb_abandon(PORT(object), (uint32_t)entry));
}

static PyObject *answer_of(ProcessorObject *self, const struct mpb_entry *entry)
{
    if (entry->answer_length == 0)
        Py_RETURN_NONE;
    if (entry->answer_extent == MPB_NO_EXTENT) /* a copy of at most 128 bytes is cheaper than a view */
        return PyBytes_FromStringAndSize((const char *)entry->answer_bytes, entry->answer_length);
    return mpb_arena_slice(self->core, entry->answer_offset, entry->answer_length);
}

static PyObject *processor_collect(PyObject *object, PyObject *arg)
{
    ProcessorObject *self = SELF(object);
    long limit = PyLong_AsLong(arg);
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);
    while (list != NULL && limit-- > 0) {
        int64_t index = mpb_collect(&self->port);
        if (index < 0)
            break;
        const struct mpb_entry *entry = &self->port.core->entries[index];
        PyObject *bytes = answer_of(self, entry);
        PyObject *row = bytes ? Py_BuildValue("(LIIIN)", (long long)index, entry->connection,
                                              entry->connection_generation, entry->answer_kind, bytes)
                              : NULL;
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *processor_sent(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    unsigned long long values[3] = {0, 0, 0};
    if (n < 1 || n > 3)
        return PyErr_Format(PyExc_TypeError, "sent takes 1 to 3 arguments, not %zd", n);
    if (!numbers(args, n, values))
        return NULL;
    if (!mpb_sent(PORT(object), (uint32_t)values[0], values[1], values[2] != 0))
        return PyErr_Format(PyExc_ValueError, "entry %llu is not being sent", values[0]);
    Py_RETURN_NONE;
}

static PyObject *processor_ring(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(mpb_processor_ring(PORT(object)));
}

static PyObject *processor_prepare_sleep(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(mpb_processor_prepare_sleep(PORT(object)));
}

static PyObject *processor_cancel_sleep(PyObject *object, PyObject *unused)
{
    (void)unused;
    mpb_processor_cancel_sleep(PORT(object));
    Py_RETURN_NONE;
}

static PyObject *processor_recover(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct mpb_recovery done;
    mpb_recover_processor(PORT(object), &done);
    return Py_BuildValue("I", done.freed);
}

static PyObject *processor_in_flight(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(PORT(object)->entries - PORT(object)->free_count);
}

/* Of all processors: each publishes its own number, nobody adds to another's. */
static PyObject *processor_queued_bytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct mpb_core *core = PORT(object)->core;
    uint64_t sum = 0;
    for (uint32_t p = 0; p < core->header->processor_count; p++)
        sum += mpb_load_relaxed(&core->counters[MPB_SLOT_PROCESSORS + p].value[MPB_C_QUEUED_BYTES]);
    return PyLong_FromUnsignedLongLong(sum);
}

static PyObject *processor_idle(PyObject *object, PyObject *unused)
{
    (void)unused;
    uint64_t bytes = mpb_arena_idle(&PORT(object)->arena, mpb_trace_clock_ns());
    mpb_count(PORT(object)->core, PORT(object)->slot, MPB_C_PUNCHED_BYTES, bytes);
    return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *processor_get(PyObject *object, void *which)
{
    return PyLong_FromUnsignedLong(which ? PORT(object)->parked : PORT(object)->index);
}

static PyObject *processor_get_batching(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(PORT(object)->batching);
}

static int processor_set_batching(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    int on = value ? PyObject_IsTrue(value) : 0;
    if (on >= 0)
        PORT(object)->batching = on;
    return on < 0 ? -1 : 0;
}

static PyObject *processor_get_discipline(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(PORT(object)->discipline);
}

static int processor_set_discipline(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    unsigned long discipline;
    if (!mpb_py_below(value, MPB_DEADLINE_REST + 1, &discipline))
        return -1;
    if (mpb_processor_use(PORT(object), (uint32_t)discipline))
        return 0;
    PyErr_NoMemory();
    return -1;
}

static PyMethodDef processor_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))processor_submit, METH_FASTCALL,
     "submit(plane, connection, connection_generation, listener, frame, t0_ns, frame_done_ns=t0_ns, client_hash=None)"
     " -> entry, or NO_ENTRY, NO_SPACE, POISON, or PLANE_FULL: then `parked_entry` waits for retry().\n"
     "frame: without its 4-byte length. t0_ns 0: not traced."},
    {"reserve", processor_reserve, METH_O, "reserve(nbytes) -> (offset, writable memoryview) or None: no room"},
    {"set_address", processor_set_address, METH_VARARGS,
     "set_address(number, generation, address): of a connection, for other processes; 16 bytes"},
    {"submit_reserved", (PyCFunction)(void (*)(void))processor_submit_reserved, METH_VARARGS | METH_KEYWORDS,
     "submit_reserved(plane, connection, connection_generation, listener, offset, length, t0_ns, ...): as submit;\n"
     "on NO_ENTRY and POISON the reservation stays"},
    {"release_reserved", processor_release_reserved, METH_O, "release_reserved(offset)"},
    {"retry", processor_retry, METH_O, "retry(entry) -> entry or PLANE_FULL"},
    {"abandon", processor_abandon, METH_O, "abandon(entry): gives up a parked entry; False if it is not one"},
    {"collect", processor_collect, METH_O,
     "collect(max) -> [(entry, connection, connection_generation, answer kind, bytes or memoryview or None)]"},
    {"ring", processor_ring, METH_NOARGS,
     "ring() -> with `batching`, wakes handlers for what was submitted since; True: ring again within a millisecond"},
    {"sent", (PyCFunction)(void (*)(void))processor_sent, METH_FASTCALL,
     "sent(entry, send_start_ns=0, aborted=False): the entry, its trace record and its bytes are done"},
    {"prepare_sleep", processor_prepare_sleep, METH_NOARGS,
     "prepare_sleep() -> True: block in epoll now, the eventfd rings; False: answers are waiting"},
    {"cancel_sleep", processor_cancel_sleep, METH_NOARGS, "cancel_sleep(): after epoll returned"},
    {"recover", processor_recover, METH_NOARGS, "recover() -> entries freed; before the loop of a successor begins"},
    {"in_flight", processor_in_flight, METH_NOARGS, "in_flight() -> entries that are not free"},
    {"queued_bytes", processor_queued_bytes, METH_NOARGS, "queued_bytes() -> request bytes held by all processors"},
    {"idle", processor_idle, METH_NOARGS, "idle() -> bytes given back to the kernel; call once a second"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef processor_getset[] = {
    {"index", processor_get, NULL, NULL, (void *)0},
    {"parked_entry", processor_get, NULL, "entry of the last PLANE_FULL", (void *)1},
    {"batching", processor_get_batching, processor_set_batching, "submit and retry wake nobody, ring() does", NULL},
    {"discipline", processor_get_discipline, processor_set_discipline, "DISCIPLINE_…, or DEADLINE_REST", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot processor_slots[] = {
    {Py_tp_new, processor_new},
    {Py_tp_dealloc, processor_dealloc},
    {Py_tp_methods, processor_methods},
    {Py_tp_getset, processor_getset},
    {Py_tp_doc, "ProcessorPort(core, index, eventfd=-1, lane=None): a processor's end of the request path"},
    {0, NULL},
};
static PyType_Spec processor_spec = {"mpbroker._native.ProcessorPort", sizeof(ProcessorObject), 0, Py_TPFLAGS_DEFAULT,
                                     processor_slots};

struct mpb_processor *mpb_processor_of(PyObject *port)
{
    if (PyObject_TypeCheck(port, processor_type))
        return PORT(port);
    PyErr_SetString(PyExc_TypeError, "a ProcessorPort is needed");
    return NULL;
}

int mpb_add_processor(PyObject *module)
{
    processor_type = mpb_add_type(module, &processor_spec);
    if (processor_type == NULL)
        return -1;
    if (PyModule_AddIntConstant(module, "NO_ENTRY", MPB_NO_ENTRY) < 0 ||
        PyModule_AddIntConstant(module, "NO_SPACE", MPB_NO_SPACE) < 0 ||
        PyModule_AddIntConstant(module, "POISON", MPB_POISON) < 0 ||
        PyModule_AddIntConstant(module, "PLANE_FULL", MPB_PLANE_FULL) < 0 ||
        PyModule_AddIntConstant(module, "PLANE_DATA", MPB_PLANE_DATA) < 0 ||
        PyModule_AddIntConstant(module, "PLANE_CONTROL", MPB_PLANE_CONTROL) < 0 ||
        PyModule_AddIntConstant(module, "DISCIPLINE_FIFO", MPB_FIFO) < 0 ||
        PyModule_AddIntConstant(module, "DISCIPLINE_PLANE", MPB_PLANE_ALONE) < 0 ||
        PyModule_AddIntConstant(module, "DISCIPLINE_PRIORITY", MPB_PRIORITY) < 0 ||
        PyModule_AddIntConstant(module, "DISCIPLINE_FAIR", MPB_FAIR) < 0 ||
        PyModule_AddIntConstant(module, "DISCIPLINE_SHORTEST", MPB_SHORTEST) < 0 ||
        PyModule_AddIntConstant(module, "DISCIPLINE_DEADLINE", MPB_DEADLINE) < 0 ||
        PyModule_AddIntConstant(module, "DEADLINE_REST", MPB_DEADLINE_REST) < 0 ||
        PyModule_AddIntConstant(module, "ANSWER_NONE", MPB_ANSWER_NONE) < 0 ||
        PyModule_AddIntConstant(module, "ANSWER_INLINE", MPB_ANSWER_INLINE) < 0 ||
        PyModule_AddIntConstant(module, "ANSWER_EXTENT", MPB_ANSWER_EXTENT) < 0 ||
        PyModule_AddIntConstant(module, "ANSWER_CLOSE", MPB_ANSWER_CLOSE) < 0)
        return -1;
    return 0;
}
