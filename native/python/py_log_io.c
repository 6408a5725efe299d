/* Binds log_io.h and io_error.h for mpbroker/log, whose calls on files ask the same hook and the same table: io_refused(call),
 * io_error_class(errno), io_error_condemns(errno, syncing). For tests: io_fail(first, count, errno) fails calls of this
 * process, C's and Python's in one row, from the first on; io_calls() tells what was called since. */
#include "python/module.h"

#include <errno.h>

#include "log/io_error.h"
#include "log/log_io.h"
#include "shm/atomics.h"

static const char *const CLASS_NAMES[] = {"", "passing", "full", "gone", "content", "broken"};

static PyObject *io_error_class(PyObject *module, PyObject *args)
{
    (void)module;
    int number;
    if (!PyArg_ParseTuple(args, "i:io_error_class", &number))
        return NULL;
    return PyUnicode_FromString(CLASS_NAMES[mpb_io_error_class(-number)]);
}

static PyObject *io_error_condemns(PyObject *module, PyObject *args)
{
    (void)module;
    int number, syncing = 0;
    if (!PyArg_ParseTuple(args, "i|p:io_error_condemns", &number, &syncing))
        return NULL;
    return PyBool_FromLong(mpb_io_error_condemns(-number, syncing != 0));
}

static PyObject *io_refused(PyObject *module, PyObject *args)
{
    (void)module;
    int call;
    if (!PyArg_ParseTuple(args, "i:io_refused", &call))
        return NULL;
    return PyLong_FromLong(mpb_io_refused((enum mpb_io_call)call));
}

#ifdef MPB_INJECT
#define MAX_CALLS 65536
static struct {
    mpb_atomic64 calls;
    uint64_t first, last;
    int error;
    uint8_t kind[MAX_CALLS];
} failing;

static int fail(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    uint64_t number = mpb_add_relaxed(&failing.calls, 1);
    if (number < MAX_CALLS)
        failing.kind[number] = (uint8_t)call;
    return number >= failing.first && number < failing.last ? failing.error : 0;
}
#endif

static PyObject *io_fail(PyObject *module, PyObject *args)
{
    (void)module;
    long long first, count;
    int error;
    if (!PyArg_ParseTuple(args, "LLi:io_fail", &first, &count, &error))
        return NULL;
#ifdef MPB_INJECT
    mpb_store_relaxed(&failing.calls, 0);
    failing.first = (uint64_t)first;
    failing.last = (uint64_t)(first + count);
    failing.error = error;
    mpb_io_fault = error < 0 ? NULL : fail;
    Py_RETURN_NONE;
#else
    PyErr_SetString(PyExc_RuntimeError, "not compiled in (build with -DMPB_INJECT)");
    return NULL;
#endif
}

static PyObject *io_calls(PyObject *module, PyObject *Py_UNUSED(none))
{
    (void)module;
#ifdef MPB_INJECT
    uint64_t calls = mpb_load_relaxed(&failing.calls);
    return PyBytes_FromStringAndSize((const char *)failing.kind, (Py_ssize_t)(calls < MAX_CALLS ? calls : MAX_CALLS));
#else
    return PyBytes_FromStringAndSize("", 0);
#endif
}

static PyMethodDef io_functions[] = {
    {"io_error_class", io_error_class, METH_VARARGS,
     "io_error_class(errno) -> '', 'passing', 'full', 'gone', 'content' or 'broken'"},
    {"io_error_condemns", io_error_condemns, METH_VARARGS,
     "io_error_condemns(errno, syncing=False) -> whether it takes the log directory offline"},
    {"io_refused", io_refused, METH_VARARGS, "io_refused(call) -> an errno if a test has this call fail, else 0"},
    {"io_fail", io_fail, METH_VARARGS,
     "io_fail(first, count, errno): for tests; errno 0 only counts, a negative one takes the hook away"},
    {"io_calls", io_calls, METH_NOARGS, "io_calls() -> kinds (IO_...) of the calls since io_fail, a byte each"},
    {NULL, NULL, 0, NULL},
};

int mpb_add_log_io(PyObject *module)
{
    static const char *const NAMES[] = {"IO_READ",   "IO_WRITE", "IO_TRUNCATE", "IO_OPEN", "IO_UNLINK",
                                        "IO_RENAME", "IO_SYNC",  "IO_STATUS",   "IO_LIST", "IO_MAKE_DIR"};
    for (int i = 0; i < (int)(sizeof NAMES / sizeof *NAMES); i++)
        if (PyModule_AddIntConstant(module, NAMES[i], i) < 0)
            return -1;
    return PyModule_AddFunctions(module, io_functions);
}
