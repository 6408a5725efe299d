/* The one extension module, mpbroker._native. Every binder file adds its functions and types here and
 * holds argument checking and reference counting only; the work is done in files without Python.h. */
#include "python/module.h"

int mpb_py_parse_row(PyObject *row, const char *format, ...)
{
    if (!PyTuple_Check(row)) {
        PyErr_Format(PyExc_TypeError, "a row is a tuple, not %.100s", Py_TYPE(row)->tp_name);
        return 0;
    }
    va_list places;
    va_start(places, format);
    int good = PyArg_VaParse(row, format, places);
    va_end(places);
    return good;
}

PyObject *mpb_py_numbers(const uint32_t *numbers, uint32_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(numbers[i]);
        if (number == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, number);
    }
    return list;
}

static int module_exec(PyObject *module)
{
    for (const mpb_binder *add = mpb_binders; *add != NULL; add++)
        if ((*add)(module) < 0)
            return -1;
    return 0;
}

const mpb_binder mpb_binders[] = {
    mpb_add_record,     mpb_add_codec,
    mpb_add_log,        mpb_add_log_io,
    mpb_add_produce,    mpb_add_scan,
    mpb_add_compaction, mpb_add_trace,
    mpb_add_trace_tail, mpb_add_memory,
    mpb_add_process,    mpb_add_layout,
    mpb_add_core,       mpb_add_process_row,
    mpb_add_processor,  mpb_add_network,
    mpb_add_handler,    mpb_add_request,
    mpb_add_command,    mpb_add_metadata,
    mpb_add_known,      mpb_add_session,
    mpb_add_fetch,      mpb_add_cluster,
    mpb_add_steady,     NULL,
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "mpbroker._native",
    .m_doc = "The native core: rings, claims, append, codec, records.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module_def); }
