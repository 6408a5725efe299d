/* ProcessRow: a row of the process table and its counters. */
#include "python/py_shm.h"
#include "shm/heap_image.h"
#include "shm/waits.h"
#include "trace/trace_record.h"

PyTypeObject *mpb_process_row_type;

typedef struct {
    PyObject_HEAD PyObject *owner;
    struct mpb_process *row;
    mpb_atomic64 *counters;
    unsigned long slot;
} RowObject;

static PyObject *row_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *owner;
    unsigned long slot;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "Ok", &owner, &slot))
        return NULL;
    struct mpb_core *core = mpb_core_of(owner);
    if (core == NULL)
        return NULL;
    if (slot >= MPB_MAX_SLOTS)
        return PyErr_Format(PyExc_IndexError, "no slot %lu", slot);
    RowObject *self = (RowObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->owner = Py_NewRef(owner);
    self->row = &core->processes[slot];
    self->counters = core->counters[slot].value;
    self->slot = slot;
    return (PyObject *)self;
}

static void row_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(((RowObject *)object)->owner);
    type->tp_free(object);
    Py_DECREF(type);
}

#define ROW(object) (((RowObject *)(object))->row)

static PyObject *row_begin(PyObject *object, PyObject *args)
{
    unsigned int pid, role, index, listener;
    if (!PyArg_ParseTuple(args, "IIII", &pid, &role, &index, &listener))
        return NULL;
    struct mpb_process *row = ROW(object);
    mpb_store_relaxed(&row->wait, MPB_WAIT_NONE);
    mpb_store_relaxed(&row->request, 0);
    mpb_store_relaxed(&row->connections, 0);
    mpb_store_relaxed(&row->troubles, 0);
    mpb_store_relaxed(&row->heartbeat_ns, mpb_trace_clock_ns());
    row->role = (uint8_t)role;
    row->index = (uint8_t)index;
    row->listener = (uint8_t)listener;
    mpb_store_release(&row->incarnation, mpb_load_relaxed(&row->incarnation) + 1);
    mpb_store_release(&row->state, MPB_P_STARTING);
    mpb_store_release(&row->pid, pid);
    Py_RETURN_NONE;
}

static PyObject *row_beat(PyObject *object, PyObject *unused)
{
    (void)unused;
    uint64_t now_ns = mpb_trace_clock_ns();
    mpb_store_relaxed(&ROW(object)->heartbeat_ns, now_ns);
    mpb_heap_image_idle(now_ns);
    Py_RETURN_NONE;
}

static bool counter_arg(PyObject *arg, unsigned long *id) { return mpb_py_below(arg, MPB_MAX_COUNTERS, id); }

static PyObject *row_count(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    unsigned long id;
    if (n < 1 || n > 2 || !counter_arg(args[0], &id))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "count(counter, n=1)");
    unsigned long long by = n == 2 ? PyLong_AsUnsignedLongLongMask(args[1]) : 1;
    if (PyErr_Occurred())
        return NULL;
    mpb_atomic64 *cell = &((RowObject *)object)->counters[id];
    mpb_store_relaxed(cell, mpb_load_relaxed(cell) + by);
    Py_RETURN_NONE;
}

static PyObject *row_set_counter(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    unsigned long id;
    if (n != 2 || !counter_arg(args[0], &id))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "set_counter(counter, value)");
    unsigned long long value = PyLong_AsUnsignedLongLongMask(args[1]);
    if (PyErr_Occurred())
        return NULL;
    mpb_store_relaxed(&((RowObject *)object)->counters[id], value);
    Py_RETURN_NONE;
}

static PyObject *row_counter(PyObject *object, PyObject *arg)
{
    unsigned long id;
    if (!counter_arg(arg, &id))
        return NULL;
    return PyLong_FromUnsignedLongLong(mpb_load_relaxed(&((RowObject *)object)->counters[id]));
}

#define FIELD32(offset) ((mpb_atomic32 *)(void *)((uint8_t *)ROW(object) + (offset)))
#define FIELD64(offset) ((mpb_atomic64 *)(void *)((uint8_t *)ROW(object) + (offset)))

static PyObject *row_get32(PyObject *object, void *offset)
{
    return PyLong_FromUnsignedLong(mpb_load_acquire(FIELD32((uintptr_t)offset)));
}
static int row_set32(PyObject *object, PyObject *value, void *offset)
{
    unsigned long number = value ? PyLong_AsUnsignedLongMask(value) : 0;
    if (PyErr_Occurred())
        return -1;
    mpb_store_release(FIELD32((uintptr_t)offset), (uint32_t)number);
    return 0;
}
static PyObject *row_get64(PyObject *object, void *offset)
{
    return PyLong_FromUnsignedLongLong(mpb_load_acquire(FIELD64((uintptr_t)offset)));
}
static int row_set64(PyObject *object, PyObject *value, void *offset)
{
    unsigned long long number = value ? PyLong_AsUnsignedLongLongMask(value) : 0;
    if (PyErr_Occurred())
        return -1;
    mpb_store_release(FIELD64((uintptr_t)offset), number);
    return 0;
}
static PyObject *row_slot(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((RowObject *)object)->slot);
}

#define AT(field) (void *)offsetof(struct mpb_process, field)
static PyGetSetDef row_getset[] = {
    {"slot", row_slot, NULL, NULL, NULL},
    {"pid", row_get32, row_set32, NULL, AT(pid)},
    {"incarnation", row_get32, row_set32, NULL, AT(incarnation)},
    {"state", row_get32, row_set32, "0 empty, 1 starting, 2 recovering, 3 running, 4 stopping, 5 dead", AT(state)},
    {"wait", row_get32, row_set32, "id of the named wait it is in, 0: working", AT(wait)},
    {"restarts", row_get32, row_set32, NULL, AT(restarts)},
    {"last_exit", row_get32, row_set32, NULL, AT(last_exit)},
    {"connections", row_get32, row_set32, NULL, AT(connections)},
    {"log_errno", row_get32, row_set32, "errno of its last failed call on a log file, 0: none", AT(log_errno)},
    {"log_errno_row", row_get32, row_set32, "row of that partition + 1, 0: not known", AT(log_errno_row)},
    {"heartbeat_ns", row_get64, row_set64, NULL, AT(heartbeat_ns)},
    {"request", row_get64, row_set64, NULL, AT(request)},
    {"request_since_ns", row_get64, row_set64, NULL, AT(request_since_ns)},
    {"busy_ns", row_get64, row_set64, NULL, AT(busy_ns)},
    {"idle_ns", row_get64, row_set64, NULL, AT(idle_ns)},
    {"troubles", row_get32, row_set32, "bits of shm/troubles.py", AT(troubles)},
    {"troubled_since_ns", row_get64, row_set64, NULL, AT(troubled_since_ns)},
    {"unsteady_since_ns", row_get64, row_set64, "0: its processes do not die young", AT(unsteady_since_ns)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef row_methods[] = {
    {"begin", row_begin, METH_VARARGS,
     "begin(pid, role, index, listener): a process takes the slot; raises its incarnation, state 1"},
    {"beat", row_beat, METH_NOARGS, "Stores the heartbeat."},
    {"count", (PyCFunction)(void (*)(void))row_count, METH_FASTCALL, "count(counter, n=1)"},
    {"set_counter", (PyCFunction)(void (*)(void))row_set_counter, METH_FASTCALL, "set_counter(counter, value)"},
    {"counter", row_counter, METH_O, "counter(id) -> value"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot row_slots[] = {
    {Py_tp_new, row_new},
    {Py_tp_dealloc, row_dealloc},
    {Py_tp_methods, row_methods},
    {Py_tp_getset, row_getset},
    {Py_tp_doc, "ProcessRow(core, slot): one row of the process table and its counters"},
    {0, NULL},
};
static PyType_Spec row_spec = {"mpbroker._native.ProcessRow", sizeof(RowObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, row_slots};

int mpb_add_process_row(PyObject *module)
{
    mpb_process_row_type = mpb_add_type(module, &row_spec);
    return mpb_process_row_type == NULL ? -1 : 0;
}
