/* HandlerPort: a handler's end of the request path (handler.h). */
#include "python/py_request.h"
#include "shm/arena.h"
#include "shm/counters.h"
#include "shm/doorbell.h"
#include "shm/heap_image.h"
#include "shm/intents.h"
#include "request/handed.h"
#include "request/recover.h"
#include "trace/trace_record.h"

static PyTypeObject *handler_type;

#define SELF(object) ((HandlerObject *)(object))
#define PORT(object) (&SELF(object)->port)

struct mpb_handler *mpb_handler_of(PyObject *port)
{
    if (PyObject_TypeCheck(port, handler_type))
        return PORT(port);
    PyErr_SetString(PyExc_TypeError, "a HandlerPort is needed");
    return NULL;
}

static PyObject *handler_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"core", "index", NULL};
    PyObject *core_object;
    unsigned int index;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OI", names, &core_object, &index))
        return NULL;
    CoreObject *core = mpb_core_object(core_object);
    if (core == NULL)
        return NULL;
    if (index >= core->core.header->handler_count)
        return PyErr_Format(PyExc_IndexError, "there is no handler %u", index);
    HandlerObject *self = (HandlerObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->core = (CoreObject *)Py_NewRef(core);
    if (mpb_handler_open(&self->port, &core->core, index) < 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void handler_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (PORT(object)->core != NULL)
        mpb_handler_close(PORT(object));
    Py_XDECREF(SELF(object)->core);
    type->tp_free(object);
    Py_DECREF(type);
}

#define SLICE_NS 5000000ll /* so long requests are served without the interpreter */

/* How long nothing that waits natively is due; INT64_MAX: nothing waits. */
static int64_t until_due_ns(const struct mpb_handler *port, uint64_t now_ns)
{
    int64_t due_ms = mpb_handler_due_ms(port), now_ms = (int64_t)(now_ns / 1000000);
    if (due_ms == INT64_MAX || due_ms <= now_ms)
        return due_ms == INT64_MAX ? INT64_MAX : 0;
    return due_ms - now_ms > INT32_MAX ? INT64_MAX : (due_ms - now_ms) * 1000000 - (int64_t)(now_ns % 1000000);
}

static PyObject *handler_serve_or_claim(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"wait_ms", "control_only", NULL};
    double wait_ms = 0;
    int control_only = 0;
    struct mpb_handler *port = PORT(object);
    enum mpb_slept slept = MPB_SLEPT_WORK;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|dp", names, &wait_ms, &control_only))
        return NULL;
    uint64_t begin = mpb_trace_clock_ns(), now = begin;
    mpb_store_relaxed(&port->core->processes[port->slot].heartbeat_ns, begin);
    for (;;) {
        int64_t left = wait_ms < 0 ? SLICE_NS : (int64_t)(wait_ms * 1e6) - (int64_t)(now - begin);
        int64_t index = mpb_handler_serve_or_claim(port, control_only,
                                                   now + (uint64_t)(left < 0          ? 0
                                                                    : left > SLICE_NS ? SLICE_NS
                                                                                      : left));
        if (index >= 0)
            return mpb_py_new_request(SELF(object), index);
        if (index == MPB_CLAIM_ENOUGH) {
            if (PyErr_CheckSignals() < 0)
                return NULL;
            Py_RETURN_NONE; /* the caller looks after its own affairs and is back at once */
        }
        int64_t until_due = until_due_ns(port, now);
        if (index == MPB_CLAIM_POKED || slept != MPB_SLEPT_WORK || (wait_ms >= 0 && left <= 0) || until_due <= 0)
            break;
        int64_t most = wait_ms < 0 ? INT64_MAX : left;
        most = most < until_due ? most : until_due;
        Py_BEGIN_ALLOW_THREADS
            slept = mpb_handler_wait(port, control_only, most == INT64_MAX ? -1 : most);
        Py_END_ALLOW_THREADS
        now = mpb_trace_clock_ns();
        if (slept != MPB_SLEPT_WORK)
            mpb_heap_image_idle(now);
    }
    mpb_handler_pass_on(port); /* a wake meant for a request may end here */
    if (PyErr_CheckSignals() < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Begins a method about a request of this handler: declares `request` and reads the other arguments. */
#define REQUEST_ARGS(format, ...)                                \
    MPB_TARGET_ARGS(format, ##__VA_ARGS__);                      \
    RequestObject *request = mpb_py_request_arg(object, target); \
    if (request == NULL)                                         \
    return NULL

static PyObject *answered(bool done) { return PyBool_FromLong(done); }

static PyObject *handler_answer(PyObject *object, PyObject *args)
{
    PyObject *target;
    Py_buffer bytes;
    if (!PyArg_ParseTuple(args, "Oy*", &target, &bytes))
        return NULL;
    RequestObject *request = mpb_py_request_arg(object, target);
    PyObject *result = NULL;
    if (request != NULL && bytes.len > 0 && bytes.len <= INT32_MAX)
        result = answered(
            mpb_answer_bytes(PORT(object), request->entry, MPB_ANSWER_INLINE, bytes.buf, (uint32_t)bytes.len));
    else if (request != NULL)
        PyErr_Format(PyExc_ValueError, "an answer has 1 to 2^31 - 1 bytes, not %zd", bytes.len);
    PyBuffer_Release(&bytes);
    return result;
}

static PyObject *handler_allocate(PyObject *object, PyObject *arg)
{
    unsigned long long bytes = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    struct mpb_handler *port = PORT(object);
    int64_t token = mpb_extent_take(&port->extents, bytes);
    if (token < 0) {
        mpb_count(port->core, port->slot, MPB_C_NO_ANSWER_SPACE, 1);
        Py_RETURN_NONE;
    }
    PyObject *view = mpb_arena_slice(SELF(object)->core, mpb_extent_offset(&port->extents, (uint32_t)token), bytes);
    return view ? Py_BuildValue("(NL)", view, (long long)token) : NULL;
}

static PyObject *handler_room(PyObject *object, PyObject *arg)
{
    unsigned long long wanted = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLongLong(mpb_extent_room(&PORT(object)->extents, wanted));
}

static PyObject *handler_crowded(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(mpb_extents_crowded(&PORT(object)->extents));
}

static PyObject *handler_release(PyObject *object, PyObject *arg)
{
    unsigned long token = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    if (!mpb_extent_release(&PORT(object)->extents, (uint32_t)token))
        return PyErr_Format(PyExc_ValueError, "extent %lu is not allocated", token);
    Py_RETURN_NONE;
}

static PyObject *handler_answer_extent(PyObject *object, PyObject *args)
{
    unsigned int token, length;
    REQUEST_ARGS("II", &token, &length);
    if (length == 0 || length > mpb_extent_bytes(token) ||
        (token >> 16) + (token & 0xffff) > PORT(object)->extents.units.count)
        return PyErr_Format(PyExc_ValueError, "%u bytes in extent %u", length, token);
    return answered(mpb_answer_token(PORT(object), request->entry, MPB_ANSWER_INLINE, token, length));
}

static PyObject *handler_answer_none(PyObject *object, PyObject *target)
{
    RequestObject *request = mpb_py_request_arg(object, target);
    if (request == NULL)
        return NULL;
    mpb_answer_nothing(PORT(object), request->entry, MPB_ANSWER_NONE);
    Py_RETURN_NONE;
}

static PyObject *handler_answer_close(PyObject *object, PyObject *args)
{
    PyObject *target;
    int error = -1;
    Py_buffer bytes = {0};
    if (!PyArg_ParseTuple(args, "O|iy*", &target, &error, &bytes))
        return NULL;
    RequestObject *request = mpb_py_request_arg(object, target);
    if (request != NULL) {
        if (entry_of(request)->error == 0) /* what the answer would have said counts first */
            entry_of(request)->error = error;
        if (bytes.len == 0 || bytes.len > INT32_MAX ||
            !mpb_answer_bytes(PORT(object), request->entry, MPB_ANSWER_CLOSE, bytes.buf, (uint32_t)bytes.len))
            mpb_answer_nothing(PORT(object), request->entry, MPB_ANSWER_CLOSE);
    }
    if (bytes.obj != NULL)
        PyBuffer_Release(&bytes);
    return request ? Py_NewRef(Py_None) : NULL;
}

static PyObject *handler_set_phase(PyObject *object, PyObject *args)
{
    unsigned int phase;
    REQUEST_ARGS("I", &phase);
    mpb_store_release(&entry_of(request)->phase, phase);
    Py_RETURN_NONE;
}

static PyObject *handler_ensure_cells(PyObject *object, PyObject *args)
{
    unsigned int n;
    REQUEST_ARGS("I", &n);
    bool room = mpb_cells_ensure(PORT(object), request->entry, n);
    if (!room)
        mpb_count(PORT(object)->core, PORT(object)->slot, MPB_C_NO_ANSWER_SPACE, 1);
    return PyBool_FromLong(room);
}

static PyObject *handler_cell(PyObject *object, PyObject *args)
{
    unsigned int i;
    REQUEST_ARGS("I", &i);
    struct mpb_cell *cell = mpb_cell(PORT(object)->core, request->entry, i);
    if (cell == NULL || mpb_load_acquire(&cell->tag) != entry_of(request)->fill_number)
        Py_RETURN_NONE;
    return mpb_py_cell(cell);
}

static PyObject *handler_park(PyObject *object, PyObject *args)
{
    unsigned int kind;
    REQUEST_ARGS("I", &kind);
    if (kind < MPB_PARKED_PRODUCE || kind > MPB_PARKED_COORDINATOR)
        return PyErr_Format(PyExc_ValueError, "no parked kind %u", kind);
    mpb_park(PORT(object), request->entry, (enum mpb_parked_kind)kind);
    Py_RETURN_NONE;
}

static PyObject *handler_resume(PyObject *object, PyObject *target)
{
    RequestObject *request = mpb_py_request_arg(object, target);
    if (request == NULL)
        return NULL;
    mpb_resume(PORT(object), request->entry);
    Py_RETURN_NONE;
}

static PyObject *handler_watch(PyObject *object, PyObject *arg)
{
    unsigned long ordinal = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    if (ordinal >= PORT(object)->core->partition_count)
        return PyErr_Format(PyExc_IndexError, "no partition row %lu", ordinal);
    mpb_watch_partition(PORT(object)->core, (uint32_t)ordinal, PORT(object)->index);
    Py_RETURN_NONE;
}

static PyObject *handler_take_dirty(PyObject *object, PyObject *unused)
{
    (void)unused;
    uint64_t moved[MPB_DIRTY_WORDS];
    mpb_handler_ring_held(PORT(object)); /* what follows may take long */
    uint64_t poke = mpb_handler_take_poke(PORT(object), moved);
    PyObject *bits = PyList_New(0);
    for (uint32_t w = 0; w < MPB_DIRTY_WORDS; w++) {
        for (uint64_t word = moved[w]; bits != NULL && word != 0; word &= word - 1) {
            PyObject *bit = PyLong_FromUnsignedLong(w * 64 + (unsigned)__builtin_ctzll(word));
            if (bit == NULL || PyList_Append(bits, bit) < 0)
                Py_CLEAR(bits);
            Py_XDECREF(bit);
        }
    }
    return bits ? Py_BuildValue("(NN)", PyBool_FromLong(poke & MPB_POKE_SCAN), bits) : NULL;
}

static PyObject *handler_intended_row(PyObject *object, PyObject *target)
{
    RequestObject *request = mpb_py_request_arg(object, target);
    if (request == NULL)
        return NULL;
    int64_t row = mpb_intended_row(PORT(object)->core, request->entry);
    return row < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(row);
}

static PyObject *handler_recover(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct mpb_recovery done;
    mpb_recover_handler(PORT(object), &done);
    return Py_BuildValue("{s:I,s:I,s:I}", "requeued", done.requeued, "hinted", done.hinted, "closed", done.closed);
}

static PyObject *handler_hand_over(PyObject *object, PyObject *keys)
{
    uint64_t bits[2] = {0, 0};
    PyObject *items = PySequence_Fast(keys, "hand_over needs a sequence of API keys");
    for (Py_ssize_t i = 0; items != NULL && i < PySequence_Fast_GET_SIZE(items); i++) {
        unsigned long key;
        if (!mpb_py_below(PySequence_Fast_GET_ITEM(items, i), 128, &key))
            Py_CLEAR(items);
        else
            bits[key / 64] |= 1ull << key % 64;
    }
    if (items == NULL)
        return NULL;
    Py_DECREF(items);
    memcpy(PORT(object)->hands_over, bits, sizeof bits);
    Py_RETURN_NONE;
}

static PyObject *handler_want_coordinator(PyObject *object, PyObject *unused)
{
    (void)unused;
    mpb_want_coordinator(PORT(object)->core);
    Py_RETURN_NONE;
}

static PyObject *handler_give_to_coordinator(PyObject *object, PyObject *target)
{
    RequestObject *request = mpb_py_request_arg(object, target);
    if (request == NULL)
        return NULL;
    mpb_handler_give_to_coordinator(PORT(object), request->entry);
    Py_RETURN_NONE;
}

static PyObject *handler_give_back(PyObject *object, PyObject *target)
{
    RequestObject *request = mpb_py_request_arg(object, target);
    if (request == NULL)
        return NULL;
    mpb_handler_give_back(PORT(object), request->entry);
    Py_RETURN_NONE;
}

static PyObject *handler_idle(PyObject *object, PyObject *unused)
{
    (void)unused;
    uint64_t bytes = mpb_extents_idle(&PORT(object)->extents, mpb_trace_clock_ns());
    mpb_count(PORT(object)->core, PORT(object)->slot, MPB_C_PUNCHED_BYTES, bytes);
    return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *handler_index(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(PORT(object)->index);
}

static PyObject *handler_get_discipline(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(PORT(object)->chooser.discipline);
}

static int handler_set_discipline(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    unsigned long discipline;
    if (!mpb_py_below(value, MPB_DISCIPLINES, &discipline))
        return -1;
    PORT(object)->chooser.discipline = (uint32_t)discipline;
    return 0;
}

static PyMethodDef handler_methods[] = {
    {"serve_or_claim", (PyCFunction)(void (*)(void))handler_serve_or_claim, METH_VARARGS | METH_KEYWORDS,
     "serve_or_claim(wait_ms=0, control_only=False) -> Request, or None: time over, a signal, or poked (see "
     "take_dirty).\n"
     "Control requests first. What NativeProduce serves is answered in here, any number of requests, for at most 5 "
     "ms;\n"
     "the first other one is claimed and returned. Sleeps without the GIL, until something that waits natively is "
     "due;\n"
     "negative wait_ms: for ever."},
    {"answer", handler_answer, METH_VARARGS, "answer(request, frame with its 4-byte length) -> False: no room now"},
    {"room", handler_room, METH_O,
     "room(wanted) -> bytes that one answer should take: at most a quarter of what is free"},
    {"crowded", handler_crowded, METH_NOARGS, "crowded() -> whether answers hold more than half of the memory"},
    {"allocate", handler_allocate, METH_O, "allocate(nbytes) -> (writable memoryview, token) or None: no room"},
    {"release", handler_release, METH_O, "release(token): of an extent that is not used for an answer after all"},
    {"answer_extent", handler_answer_extent, METH_VARARGS, "answer_extent(request, token, length) -> False: no room"},
    {"answer_none", handler_answer_none, METH_O, "answer_none(request): nothing is sent, the connection goes on"},
    {"answer_close", handler_answer_close, METH_VARARGS,
     "answer_close(request, error=-1, frame=b''): sends the frame if given (and room is found), then closes; the error "
     "is\n"
     "for the trace, if none was set before"},
    {"set_phase", handler_set_phase, METH_VARARGS, "set_phase(request, phase)"},
    {"ensure_cells", handler_ensure_cells, METH_VARARGS, "ensure_cells(request, n) -> False: no room"},
    {"cell", handler_cell, METH_VARARGS, "cell(request, i) -> Cell, or None: not filled"},
    {"park", handler_park, METH_VARARGS, "park(request, kind): kind as in shm.layout.ParkedKind; it stays claimed"},
    {"resume", handler_resume, METH_O, "resume(request): a parked request is in hand again (before answering it)"},
    {"watch", handler_watch, METH_O, "watch(ordinal): ring me when this partition's end moves; then look once more"},
    {"take_dirty", handler_take_dirty, METH_NOARGS,
     "take_dirty() -> (look at everything, [partition ordinal modulo 4096, ...]). Requests that wait natively are "
     "looked\n"
     "at in here; what is Python's of them, NativeProduce.take_over and NativeFetch.take_over give."},
    {"intended_row", handler_intended_row, METH_O,
     "intended_row(request) -> row of a partition on which an earlier run's append is not finished or undone, or "
     "None.\n"
     "Until it is, a second run must not answer. Looks at every row"},
    {"recover", handler_recover, METH_NOARGS, "recover() -> counts; before the loop of a successor begins"},
    {"hand_over", handler_hand_over, METH_O,
     "hand_over(api_keys): requests of these APIs go to the coordinator from now on, unseen by this process"},
    {"want_coordinator", handler_want_coordinator, METH_NOARGS,
     "Requests for the coordinator will come: it gets ready, and looks at the metadata."},
    {"give_to_coordinator", handler_give_to_coordinator, METH_O,
     "give_to_coordinator(request): a request in hand goes to the coordinator; it is not this process's any more"},
    {"give_back", handler_give_back, METH_O,
     "give_back(request): a request of the coordinator's goes to the request handlers, which go on with it"},
    {"idle", handler_idle, METH_NOARGS, "idle() -> bytes given back to the kernel; call about once a second"},
    {NULL, NULL, 0, NULL},
};

static PyObject *handler_get_python_waits(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(PORT(object)->python_waits);
}

static int handler_set_python_waits(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    int waits = value == NULL ? 0 : PyObject_IsTrue(value);
    if (waits < 0)
        return -1;
    PORT(object)->python_waits = waits != 0;
    return 0;
}

static PyGetSetDef handler_getset[] = {
    {"python_waits", handler_get_python_waits, handler_set_python_waits,
     "whether requests wait in Python: else serve_or_claim looks again itself at what moved", NULL},
    {"index", handler_index, NULL, NULL, NULL},
    {"discipline", handler_get_discipline, handler_set_discipline, "DISCIPLINE_…: which request is next", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot handler_slots[] = {
    {Py_tp_new, handler_new},
    {Py_tp_dealloc, handler_dealloc},
    {Py_tp_methods, handler_methods},
    {Py_tp_getset, handler_getset},
    {Py_tp_doc, "HandlerPort(core, index): a handler's end of the request path"},
    {0, NULL},
};
static PyType_Spec handler_spec = {"mpbroker._native.HandlerPort", sizeof(HandlerObject), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, handler_slots};

int mpb_add_handler(PyObject *module) { return (handler_type = mpb_add_type(module, &handler_spec)) == NULL ? -1 : 0; }
