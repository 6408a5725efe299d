/* prctl(2) for the supervisor's launcher: what the standard library does not offer. */
#include "module.h"
#include <errno.h>
#include <sys/prctl.h>

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
    {NULL, NULL, 0, NULL},
};

int mpb_add_process(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
