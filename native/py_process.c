/* prctl(2) and sched_setattr(2): what the standard library does not offer. */
#include "module.h"
#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct scheduling { /* the kernel's struct sched_attr, first version; glibc has no wrapper before 2.41 */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

static PyObject *set_time_slice(PyObject *module, PyObject *args)
{
    unsigned long long slice_ns;
    (void)module;
    if (!PyArg_ParseTuple(args, "K", &slice_ns))
        return NULL;
    struct scheduling wanted = {.size = sizeof wanted, .nice = getpriority(PRIO_PROCESS, 0), .runtime_ns = slice_ns};
    return PyBool_FromLong(syscall(SYS_sched_setattr, 0, &wanted, 0U) == 0);
}

static PyObject *set_parent_death_signal(PyObject *module, PyObject *args)
{
    int signal_number;
    (void)module;
    if (!PyArg_ParseTuple(args, "i", &signal_number))
        return NULL;
    if (prctl(PR_SET_PDEATHSIG, (unsigned long)signal_number, 0UL, 0UL, 0UL) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_parent_death_signal", set_parent_death_signal, METH_VARARGS,
     "set_parent_death_signal(signal): the kernel sends it to this process when its parent dies"},
    {"set_time_slice", set_time_slice, METH_VARARGS,
     "set_time_slice(ns) -> False where the kernel refuses. A short slice lets a waking process run earlier (Linux 6.12\n"
     "and later; older kernels ignore it). Ordinary scheduling, nice value kept."},
    {NULL, NULL, 0, NULL},
};

int mpb_add_process(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
