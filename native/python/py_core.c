/* Core: one process's view of the shared memory. */
#include "python/py_shm.h"
#include "shm/counters.h"
#include "shm/arena.h"
#include "shm/doorbell.h"
#include "shm/heap_image.h"
#include "shm/inject.h"
#include "log/log.h"
#include "request/killers.h"
#include "shm/ring.h"
#include "trace/trace_record.h"
#include "shm/waits.h"

static PyTypeObject *core_type;

PyTypeObject *mpb_add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(spec);
    if (type == NULL || PyModule_AddType(module, type) < 0)
        return NULL;
    return type;
}

bool mpb_py_below(PyObject *arg, unsigned long limit, unsigned long *value)
{
    if (arg == NULL) { /* an attribute's value, which is being deleted */
        PyErr_SetString(PyExc_TypeError, "it cannot be deleted");
        return false;
    }
    *value = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return false;
    if (*value >= limit) {
        PyErr_Format(PyExc_IndexError, "%lu is out of range", *value);
        return false;
    }
    return true;
}

CoreObject *mpb_core_object(PyObject *object)
{
    if (core_type == NULL || !PyObject_TypeCheck(object, core_type) || !((CoreObject *)object)->ready) {
        PyErr_SetString(PyExc_TypeError, "an attached Core is needed");
        return NULL;
    }
    return (CoreObject *)object;
}

struct mpb_core *mpb_core_of(PyObject *object)
{
    CoreObject *self = mpb_core_object(object);
    return self ? &self->core : NULL;
}

PyObject *mpb_arena_slice(CoreObject *self, uint64_t offset, uint64_t length)
{
    return PySequence_GetSlice(self->arena_view, (Py_ssize_t)offset, (Py_ssize_t)(offset + length));
}

static int core_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"core", "page", "arena", "eventfds", NULL};
    static const char *faults[] = {"magic", "version", "a region is missing or too long", "a row size differs",
                                   "counts contradict each other"};
    CoreObject *self = (CoreObject *)object;
    PyObject *buffers[3], *eventfds = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|O", names, &buffers[0], &buffers[1], &buffers[2], &eventfds))
        return -1;
    if (self->buffers[0].obj != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "attached already");
        return -1;
    }
    for (int i = 0; i < 3; i++)
        if (PyObject_GetBuffer(buffers[i], &self->buffers[i], PyBUF_WRITABLE) < 0)
            return -1;
    int status = mpb_core_attach(&self->core, self->buffers[0].buf, (size_t)self->buffers[0].len, self->buffers[1].buf,
                                 (size_t)self->buffers[1].len, self->buffers[2].buf, (size_t)self->buffers[2].len);
    if (status < 0) {
        PyErr_Format(PyExc_ValueError, "the shared memory is not of this version: %s", faults[-status - 1]);
        return -1;
    }
    self->arena_view = PyMemoryView_FromObject(buffers[2]);
    if (self->arena_view == NULL)
        return -1;
    Py_ssize_t n = eventfds ? PySequence_Size(eventfds) : 0;
    for (Py_ssize_t i = 0; i < n && i < MPB_MAX_PROCESSORS; i++) {
        PyObject *fd = PySequence_GetItem(eventfds, i);
        self->core.eventfds[i] = fd ? (int)PyLong_AsLong(fd) : -1;
        Py_XDECREF(fd);
    }
    self->ready = !PyErr_Occurred();
    return self->ready ? 0 : -1;
}

static void core_dealloc(PyObject *object)
{
    CoreObject *self = (CoreObject *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->arena_view);
    for (int i = 0; i < 3; i++)
        if (self->buffers[i].obj != NULL)
            PyBuffer_Release(&self->buffers[i]);
    type->tp_free(object);
    Py_DECREF(type);
}

#define CORE(object) (&((CoreObject *)(object))->core)

static bool attached(PyObject *object) { return mpb_core_object(object) != NULL; }

static PyObject *core_notify_partition(PyObject *object, PyObject *args)
{
    unsigned int ordinal, self_slot = 0;
    if (!attached(object) || !PyArg_ParseTuple(args, "I|I", &ordinal, &self_slot))
        return NULL;
    if (ordinal >= CORE(object)->partition_count || self_slot >= MPB_MAX_SLOTS)
        return PyErr_Format(PyExc_IndexError, "no partition row %u or slot %u", ordinal, self_slot);
    mpb_notify_partition(CORE(object), ordinal, self_slot);
    Py_RETURN_NONE;
}

static PyObject *core_ring_handler(PyObject *object, PyObject *arg)
{
    unsigned long handler;
    if (!attached(object) || !mpb_py_below(arg, MPB_MAX_HANDLERS, &handler))
        return NULL;
    mpb_poke_handler(CORE(object), (uint32_t)handler, MPB_POKE_SCAN, MPB_SLOT_SUPERVISOR);
    Py_RETURN_NONE;
}

static PyObject *core_ring_service(PyObject *object, PyObject *arg)
{
    unsigned long slot;
    if (!attached(object) || !mpb_py_below(arg, MPB_MAX_SLOTS, &slot))
        return NULL;
    mpb_ring_service(CORE(object), (uint32_t)slot);
    Py_RETURN_NONE;
}

static PyObject *core_wait_service(PyObject *object, PyObject *args)
{
    unsigned int slot;
    double wait_ms;
    bool rung;
    if (!attached(object) || !PyArg_ParseTuple(args, "Id", &slot, &wait_ms))
        return NULL;
    if (slot >= MPB_MAX_SLOTS)
        return PyErr_Format(PyExc_IndexError, "no slot %u", slot);
    struct mpb_process *row = &CORE(object)->processes[slot];
    mpb_store_relaxed(&row->heartbeat_ns, mpb_trace_clock_ns());
    if (mpb_load_relaxed(&row->wait) == MPB_WAIT_NONE)
        mpb_store_relaxed(&row->wait, MPB_WAIT_SERVICE);
    Py_BEGIN_ALLOW_THREADS
        rung = mpb_service_wait(CORE(object), slot, (int64_t)(wait_ms * 1e6));
    Py_END_ALLOW_THREADS
    mpb_store_relaxed(&row->wait, MPB_WAIT_NONE);
    uint64_t now_ns = mpb_trace_clock_ns();
    mpb_store_relaxed(&row->heartbeat_ns, now_ns);
    if (!rung)
        mpb_heap_image_idle(now_ns);
    if (PyErr_CheckSignals() < 0)
        return NULL;
    return PyBool_FromLong(rung);
}

static PyObject *core_ring_everybody(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!attached(object))
        return NULL;
    mpb_ring_everybody(CORE(object));
    Py_RETURN_NONE;
}

static PyObject *core_arm(PyObject *object, PyObject *arg)
{
    const char *spec = PyUnicode_AsUTF8(arg);
    if (spec == NULL || !attached(object))
        return NULL;
    int status = mpb_inject_arm(CORE(object), spec);
    if (status < 0)
        return PyErr_Format(PyExc_ValueError, "crash points %R: %s", arg,
                            status == -1   ? "allowed is name[:nth][=stop][,name...]"
                            : status == -2 ? "too many"
                                           : "not compiled in (build with -DMPB_INJECT)");
    Py_RETURN_NONE;
}

static PyObject *core_disarm(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!attached(object))
        return NULL;
    mpb_inject_clear(CORE(object));
    Py_RETURN_NONE;
}

static PyObject *core_crash_point(PyObject *object, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    if (name == NULL || !attached(object))
        return NULL;
    MPB_CRASH(CORE(object), name);
    Py_RETURN_NONE;
}

static PyObject *core_hits(PyObject *object, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    if (name == NULL || !attached(object))
        return NULL;
    return PyLong_FromUnsignedLongLong(mpb_inject_hits(CORE(object), name));
}

static PyObject *core_killers(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *rows = attached(object) ? PyList_New(0) : NULL;
    for (int i = 0; rows != NULL && i < MPB_KILLER_ROWS; i++) {
        struct mpb_killer *row = &CORE(object)->killers[i];
        uint64_t digest = mpb_load_acquire(&row->digest), word = mpb_load_relaxed(&row->kills_when);
        PyObject *pair = digest ? Py_BuildValue("(KKI)", digest, word & 0xffffffffffffull, (unsigned)(word >> 48))
                                : NULL;
        if (digest && (pair == NULL || PyList_Append(rows, pair) < 0))
            Py_CLEAR(rows);
        Py_XDECREF(pair);
    }
    return rows;
}

static PyObject *core_add_killer(PyObject *object, PyObject *args)
{
    unsigned long long digest, when_ms;
    unsigned int kills = 1;
    if (!attached(object) || !PyArg_ParseTuple(args, "KK|I", &digest, &when_ms, &kills))
        return NULL;
    if (digest != 0)
        mpb_killer_add(CORE(object), digest, when_ms, kills);
    Py_RETURN_NONE;
}

static PyObject *core_frame_in_hand(PyObject *object, PyObject *arg)
{
    unsigned long handler;
    if (!attached(object) || !mpb_py_below(arg, MPB_MAX_HANDLERS, &handler))
        return NULL;
    uint32_t index = mpb_load_acquire(&CORE(object)->doorbells->handler_mark[handler].in_hand) - 1;
    if (index >= CORE(object)->entry_count)
        Py_RETURN_NONE;
    struct mpb_entry *entry = &CORE(object)->entries[index];
    if (mpb_state_word(mpb_state_generation(mpb_load_acquire(&entry->state)), MPB_E_CLAIMED,
                       mpb_handler_slot(CORE(object), (uint32_t)handler)) != mpb_load_acquire(&entry->state))
        Py_RETURN_NONE;
    const uint8_t *frame = mpb_payload(CORE(object), entry);
    return Py_BuildValue("(Ky#)", mpb_frame_digest(frame, entry->payload_length), frame,
                         (Py_ssize_t)entry->payload_length);
}

static PyObject *core_entry_states(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *rows = attached(object) ? PyList_New(0) : NULL;
    struct mpb_core *core = rows ? CORE(object) : NULL;
    for (uint32_t i = 0; rows != NULL && i < core->entry_count; i++) {
        uint32_t p = i / core->header->entries_per_processor;
        if (i % core->header->entries_per_processor >=
            mpb_load_acquire(&core->doorbells->processor_mark[p].entries_high))
            continue;
        uint64_t word = mpb_load_acquire(&core->entries[i].state);
        if (mpb_state_of(word) == MPB_E_FREE)
            continue;
        PyObject *row = Py_BuildValue("(IIII)", i, mpb_state_generation(word), mpb_state_of(word),
                                      mpb_state_owner(word));
        if (row == NULL || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

static PyObject *core_handler_slot(PyObject *object, PyObject *arg)
{
    unsigned long handler;
    if (!attached(object) || !mpb_py_below(arg, CORE(object)->header->handler_count, &handler))
        return NULL;
    return PyLong_FromUnsignedLong(mpb_handler_slot(CORE(object), (uint32_t)handler));
}

static PyObject *core_unique(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!attached(object))
        return NULL;
    return PyLong_FromUnsignedLongLong(atomic_fetch_add(&CORE(object)->header->segment_counter, 1) + 1);
}

static PyObject *core_get(PyObject *object, void *which)
{
    if (!attached(object))
        return NULL;
    const struct mpb_core *core = CORE(object);
    switch ((intptr_t)which) {
    case 0:
        return PyLong_FromUnsignedLong(core->header->processor_count);
    case 1:
        return PyLong_FromUnsignedLong(core->header->handler_count);
    case 2:
        return PyLong_FromUnsignedLong(core->header->reserved_handlers);
    case 3:
        return PyLong_FromUnsignedLong(core->entry_count);
    case 4:
        return PyLong_FromUnsignedLongLong(core->header->boot_id);
    case 5:
        return PyLong_FromUnsignedLong(mpb_load_acquire(&CORE(object)->header->state));
    case 6:
        return PyLong_FromUnsignedLongLong(mpb_load_acquire(&CORE(object)->header->metadata_generation));
    case 7:
        return PyLong_FromUnsignedLong(core->partition_count);
    case 10:
        return PyLong_FromLong((long)core->header->coordinator - 1);
    case 9:
        return PyLong_FromUnsignedLongLong(core->header->arena_handler_bytes);
    case 11:
        return PyLong_FromUnsignedLongLong(mpb_load_acquire(&core->header->features));
    case 12:
        return PyLong_FromUnsignedLong(mpb_load_acquire(&CORE(object)->header->transactions_ready));
    case 14:
        return PyBool_FromLong(mpb_load_acquire(&CORE(object)->header->coordinator_wanted) != 0);
    case 13:
        return PyLong_FromUnsignedLong(mpb_load_acquire(&CORE(object)->header->moves));
    default:
        return PyLong_FromUnsignedLongLong(mpb_load_acquire(&CORE(object)->doorbells->sleepers));
    }
}

static int core_set_state(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    unsigned long state = value ? PyLong_AsUnsignedLong(value) : 0;
    if (!attached(object) || PyErr_Occurred())
        return -1;
    mpb_store_release(&CORE(object)->header->state, (uint32_t)state);
    mpb_store_release(&CORE(object)->page_header->state, (uint32_t)state);
    return 0;
}

static int core_set_features(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    unsigned long long word = value ? PyLong_AsUnsignedLongLong(value) : 0;
    if (!attached(object) || PyErr_Occurred())
        return -1;
    mpb_store_release(&CORE(object)->header->features, word);
    return 0;
}

static int core_set_transactions_ready(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    unsigned long ready = value ? PyLong_AsUnsignedLong(value) : 0;
    if (!attached(object) || PyErr_Occurred())
        return -1;
    mpb_store_release(&CORE(object)->header->transactions_ready, (uint32_t)ready);
    return 0;
}

static PyObject *core_row(PyObject *object, PyObject *arg)
{
    return PyObject_CallFunctionObjArgs((PyObject *)mpb_process_row_type, object, arg, NULL);
}

static PyObject *core_fail_log_dir(PyObject *object, PyObject *number)
{
    unsigned long log_dir = PyLong_AsUnsignedLong(number);
    if (!attached(object) || PyErr_Occurred())
        return NULL;
    mpb_log_dir_fail(CORE(object), (uint32_t)log_dir);
    Py_RETURN_NONE;
}

static PyMethodDef core_methods[] = {
    {"row", core_row, METH_O, "row(slot) -> ProcessRow"},
    {"notify_partition", core_notify_partition, METH_VARARGS,
     "notify_partition(ordinal, own_slot=0): rings the handlers that watch the partition"},
    {"ring_handler", core_ring_handler, METH_O, "ring_handler(index): makes it look at everything it parked"},
    {"ring_service", core_ring_service, METH_O, "ring_service(slot): wakes a single-instance process"},
    {"wait_service", core_wait_service, METH_VARARGS,
     "wait_service(slot, wait_ms) -> rung since the last wait; negative wait_ms: for ever"},
    {"ring_everybody", core_ring_everybody, METH_NOARGS, "Wakes every handler, processor and service."},
    {"arm", core_arm, METH_O,
     "arm('name[:nth][=stop],...'): crash points; ValueError if unreadable or not compiled in"},
    {"disarm", core_disarm, METH_NOARGS, "Disarms every crash point."},
    {"crash_point", core_crash_point, METH_O, "crash_point(name): dies here if the point is armed"},
    {"hits", core_hits, METH_O, "hits(name) -> how often an armed point was passed"},
    {"killers", core_killers, METH_NOARGS, "killers() -> [(digest, when_ms, kills)]"},
    {"add_killer", core_add_killer, METH_VARARGS,
     "add_killer(digest, when_ms, kills=1): a frame that killed twice is refused"},
    {"frame_in_hand", core_frame_in_hand, METH_O,
     "frame_in_hand(handler) -> (digest, frame) of the request it executes, or None"},
    {"entry_states", core_entry_states, METH_NOARGS,
     "entry_states() -> [(entry, generation, state, owner)], FREE left out"},
    {"handler_slot", core_handler_slot, METH_O, "handler_slot(handler) -> its row of the process table"},
    {"fail_log_dir", core_fail_log_dir, METH_O, "fail_log_dir(log_dir): it could not be used at the start"},
    {"unique", core_unique, METH_NOARGS, "unique() -> a number no other call of this boot got"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef core_getset[] = {
    {"processor_count", core_get, NULL, NULL, (void *)0},
    {"handler_count", core_get, NULL, NULL, (void *)1},
    {"coordinator", core_get, NULL, "the handler that is the coordinator, -1: there is none", (void *)10},
    {"reserved_handlers", core_get, NULL, NULL, (void *)2},
    {"entry_count", core_get, NULL, NULL, (void *)3},
    {"boot_id", core_get, NULL, NULL, (void *)4},
    {"state", core_get, core_set_state, "0 starting, 1 running, 2 draining, 3 resetting, 4 handing over", (void *)5},
    {"metadata_generation", core_get, NULL, NULL, (void *)6},
    {"moves", core_get, NULL, "moves between log directories ever asked for, called off or ended", (void *)13},
    {"features", core_get, core_set_features, "finalized levels of features in one word (metadata/features.py)",
     (void *)11},
    {"partition_count", core_get, NULL, NULL, (void *)7},
    {"transactions_ready", core_get, core_set_transactions_ready,
     "1: what was ongoing when the broker stopped is verified again; 0: a batch of an unknown transaction is to wait",
     (void *)12},
    {"coordinator_wanted", core_get, NULL, "whether a client asked for a coordinator whose topic was not there",
     (void *)14},
    {"arena_handler_bytes", core_get, NULL, "memory for answers of one handler", (void *)9},
    {"sleepers", core_get, NULL, "bit per handler that sleeps", (void *)8},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot core_slots[] = {
    {Py_tp_init, core_init},
    {Py_tp_dealloc, core_dealloc},
    {Py_tp_methods, core_methods},
    {Py_tp_getset, core_getset},
    {Py_tp_doc, "Core(core, page, arena, eventfds=()): this process's view of the shared memory (writable buffers)"},
    {Py_tp_new, PyType_GenericNew},
    {0, NULL},
};
static PyType_Spec core_spec = {"mpbroker._native.Core", sizeof(CoreObject), 0, Py_TPFLAGS_DEFAULT, core_slots};

static int add_counters(PyObject *module)
{
    static const char *const counters[][3] = {
#define COUNTER_ROW(name, unit, sentence) {#name, unit, sentence},
        MPB_COUNTER_LIST(COUNTER_ROW)};
    PyObject *rows = PyTuple_New(MPB_COUNTERS_NATIVE);
    for (int i = 0; rows != NULL && i < MPB_COUNTERS_NATIVE; i++)
        PyTuple_SET_ITEM(rows, i, Py_BuildValue("(sss)", counters[i][0], counters[i][1], counters[i][2]));
    int status = rows && !PyErr_Occurred() ? PyModule_AddObjectRef(module, "COUNTERS", rows) : -1;
    Py_XDECREF(rows);
    return status;
}

int mpb_add_core(PyObject *module)
{
    core_type = mpb_add_type(module, &core_spec);
    return core_type == NULL ? -1 : add_counters(module);
}
