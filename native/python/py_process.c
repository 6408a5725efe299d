/* prctl(2), sched_setattr(2), real-time scheduling with a way back: what the standard library does not offer. */
#define _GNU_SOURCE
#include "python/module.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
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

/* SIGXCPU: this process has kept a processor too long for one of its rank. In C, because it comes in the middle of work. */
static void step_back(int number)
{
    struct sched_param ordinary = {0};
    (void)number;
    sched_setscheduler(0, SCHED_OTHER, &ordinary);
}

static PyObject *set_realtime(PyObject *module, PyObject *args)
{
    unsigned long long limit_us;
    struct rlimit limit;
    struct sched_param lowest = {.sched_priority = 1};
    struct sigaction action = {.sa_handler = step_back, .sa_flags = SA_RESTART};
    (void)module;
    if (!PyArg_ParseTuple(args, "K", &limit_us))
        return NULL;
    if (getrlimit(RLIMIT_RTTIME, &limit) != 0)
        Py_RETURN_FALSE;
    limit.rlim_cur = limit_us < limit.rlim_max ? limit_us : limit.rlim_max;
    if (sigaction(SIGXCPU, &action, NULL) != 0 || setrlimit(RLIMIT_RTTIME, &limit) != 0)
        Py_RETURN_FALSE;
    return PyBool_FromLong(sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) == 0);
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
     "set_time_slice(ns) -> False where the kernel refuses. A short slice lets a waking process run earlier (Linux "
     "6.12\n"
     "and later; older kernels ignore it). Ordinary scheduling, nice value kept."},
    {"set_realtime", set_realtime, METH_VARARGS,
     "set_realtime(limit_us) -> False where the kernel refuses. Round robin, lowest real-time priority, until the "
     "process\n"
     "has run `limit_us` without waiting; then it is an ordinary one again. Needs CAP_SYS_NICE or RLIMIT_RTPRIO."},
    {NULL, NULL, 0, NULL},
};

int mpb_add_process(PyObject *module) { return PyModule_AddFunctions(module, functions); }
