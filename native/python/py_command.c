/* CommandPort: handlers' commands to the controller (command.h). */
#include "python/py_shm.h"
#include "request/command.h"
#include "shm/doorbell.h"
#include "shm/heap_image.h"
#include "request/recover.h"
#include "trace/trace_record.h"
#include "shm/waits.h"

typedef struct {
    PyObject_HEAD CoreObject *core;
    unsigned int slot;
} CommandObject;

#define SELF(object) ((CommandObject *)(object))
#define CORE(object) (&SELF(object)->core->core)

static PyObject *command_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"core", "slot", NULL};
    PyObject *core_object;
    unsigned int slot;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OI", names, &core_object, &slot))
        return NULL;
    CoreObject *core = mpb_core_object(core_object);
    if (core == NULL)
        return NULL;
    if ((slot < MPB_SLOT_HANDLERS || slot > MPB_SLOT_CONTROLLER) && slot != MPB_SLOT_COORDINATOR &&
        slot != MPB_SLOT_CLUSTER_CONTROLLER)
        return PyErr_Format(PyExc_IndexError, "slot %u is neither a handler's nor the controller's", slot);
    CommandObject *self = (CommandObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->core = (CoreObject *)Py_NewRef(core);
    self->slot = slot;
    return (PyObject *)self;
}

static void command_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(SELF(object)->core);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *command_send(PyObject *object, PyObject *args)
{
    Py_buffer bytes;
    unsigned long long operation;
    unsigned int target = MPB_SLOT_CONTROLLER;
    if (!PyArg_ParseTuple(args, "y*K|I", &bytes, &operation, &target))
        return NULL;
    int64_t result = MPB_COMMAND_TOO_LONG;
    bool from_handler = SELF(object)->slot != MPB_SLOT_CONTROLLER && SELF(object)->slot != MPB_SLOT_CLUSTER_CONTROLLER;
    bool is_served = CORE(object)->rings[mpb_command_ring(target)].capacity != 0;
    if (bytes.len <= MPB_COMMAND_REQUEST && from_handler && is_served)
        result = mpb_command_send(CORE(object), SELF(object)->slot, target, operation, bytes.buf, (uint32_t)bytes.len);
    PyBuffer_Release(&bytes);
    if (!from_handler)
        return PyErr_Format(PyExc_TypeError, "the controller sends no commands");
    if (!is_served)
        return PyErr_Format(PyExc_ValueError, "nobody takes commands for slot %u", target);
    return PyLong_FromLongLong(result);
}

static PyObject *command_answers(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    int64_t index = mpb_command_answered(CORE(object), SELF(object)->slot, 0);
    while (list != NULL && index >= 0) {
        const struct mpb_command *command = &CORE(object)->commands[index];
        PyObject *row = Py_BuildValue("(LKy#K)", (long long)index, command->operation, command->answer,
                                      (Py_ssize_t)command->answer_length, command->generation_after);
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
        index = mpb_command_answered(CORE(object), SELF(object)->slot, (uint32_t)index + 1);
    }
    return list;
}

static PyObject *command_free(PyObject *object, PyObject *arg)
{
    unsigned long index = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(mpb_command_free(CORE(object), SELF(object)->slot, (uint32_t)index));
}

static PyObject *command_claim(PyObject *object, PyObject *arg)
{
    double wait_ms = PyFloat_AsDouble(arg);
    if (PyErr_Occurred())
        return NULL;
    struct mpb_process *row = &CORE(object)->processes[SELF(object)->slot];
    mpb_store_relaxed(&row->heartbeat_ns, mpb_trace_clock_ns());
    int64_t index = mpb_command_claim(CORE(object), SELF(object)->slot);
    if (index < 0) {
        mpb_store_relaxed(&row->wait, MPB_WAIT_COMMAND);
        Py_BEGIN_ALLOW_THREADS
            mpb_service_wait(CORE(object), SELF(object)->slot, (int64_t)(wait_ms * 1e6));
        Py_END_ALLOW_THREADS
        mpb_store_relaxed(&row->wait, MPB_WAIT_NONE);
        uint64_t now_ns = mpb_trace_clock_ns();
        mpb_store_relaxed(&row->heartbeat_ns, now_ns);
        index = mpb_command_claim(CORE(object), SELF(object)->slot);
        if (index < 0)
            mpb_heap_image_idle(now_ns);
    }
    if (index < 0) {
        if (PyErr_CheckSignals() < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    const struct mpb_command *command = &CORE(object)->commands[index];
    return Py_BuildValue("(LKy#)", (long long)index, command->operation, command->request,
                         (Py_ssize_t)command->request_length);
}

static PyObject *command_complete(PyObject *object, PyObject *args)
{
    unsigned int index;
    Py_buffer bytes;
    unsigned long long generation_after;
    if (!PyArg_ParseTuple(args, "Iy*K", &index, &bytes, &generation_after))
        return NULL;
    bool done = bytes.len <= MPB_COMMAND_ANSWER &&
                mpb_command_complete(CORE(object), SELF(object)->slot, index, bytes.buf, (uint32_t)bytes.len,
                                     generation_after);
    PyBuffer_Release(&bytes);
    return PyBool_FromLong(done);
}

static PyObject *command_recover(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct mpb_recovery done;
    mpb_recover_controller(CORE(object), SELF(object)->slot, &done);
    return PyLong_FromUnsignedLong(done.requeued);
}

static PyMethodDef command_methods[] = {
    {"send", command_send, METH_VARARGS,
     "send(bytes, operation, target = the controller's slot) -> command, COMMAND_FULL or COMMAND_TOO_LONG (40,960 "
     "bytes). Handlers. The same operation"
     " sent again (a re-run) gives the first command."},
    {"answers", command_answers, METH_NOARGS,
     "answers() -> [(command, operation, bytes, generation_after)] for this handler; free() each"},
    {"free", command_free, METH_O, "free(command): its answer is read"},
    {"claim", command_claim, METH_O,
     "claim(wait_ms) -> (command, operation, bytes) or None: time over, a signal, or rung for another reason. "
     "Controller."},
    {"complete", command_complete, METH_VARARGS,
     "complete(command, bytes, generation_after) -> False: more than 24,512 bytes, or not claimed. Controller."},
    {"recover", command_recover, METH_NOARGS,
     "recover() -> commands put back; a controller's successor, before its loop"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot command_slots[] = {
    {Py_tp_new, command_new},
    {Py_tp_dealloc, command_dealloc},
    {Py_tp_methods, command_methods},
    {Py_tp_doc, "CommandPort(core, slot): one end of the controller's command table"},
    {0, NULL},
};
static PyType_Spec command_spec = {"mpbroker._native.CommandPort", sizeof(CommandObject), 0, Py_TPFLAGS_DEFAULT,
                                   command_slots};

int mpb_add_command(PyObject *module)
{
    if (mpb_add_type(module, &command_spec) == NULL ||
        PyModule_AddIntConstant(module, "COMMAND_FULL", MPB_COMMAND_FULL) < 0 ||
        PyModule_AddIntConstant(module, "COMMAND_PARTS", MPB_COMMAND_PARTS) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "COMMAND_TOO_LONG", MPB_COMMAND_TOO_LONG);
}
