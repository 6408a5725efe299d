/* Binders of the extension module: each py_*.c defines one mpb_add_* that fills the module. */
#ifndef MPB_MODULE_H
#define MPB_MODULE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Begins a binder function whose first argument is an object: declares `target`, the object, reads the others, and leaves
 * with Python's exception if they do not fit. */
#define MPB_TARGET_ARGS(format, ...)                                 \
    PyObject *target;                                                \
    if (!PyArg_ParseTuple(args, "O" format, &target, ##__VA_ARGS__)) \
    return NULL

/* PyArg_ParseTuple for a row of a list that Python hands over: what is no tuple is a TypeError, not a fault of ours. */
int mpb_py_parse_row(PyObject *row, const char *format, ...);

/* A new list of numbers, else NULL with MemoryError. */
PyObject *mpb_py_numbers(const uint32_t *numbers, uint32_t count);

typedef int (*mpb_binder)(PyObject *module);
extern const mpb_binder mpb_binders[];

int mpb_add_record(PyObject *module);
int mpb_add_codec(PyObject *module);
int mpb_add_log(PyObject *module);
int mpb_add_log_io(PyObject *module);
int mpb_add_produce(PyObject *module);
int mpb_add_scan(PyObject *module);
int mpb_add_compaction(PyObject *module);
int mpb_add_trace(PyObject *module);
int mpb_add_trace_tail(PyObject *module);
int mpb_add_memory(PyObject *module);
int mpb_add_process(PyObject *module);
int mpb_add_layout(PyObject *module);
int mpb_add_core(PyObject *module);
int mpb_add_process_row(PyObject *module);
int mpb_add_processor(PyObject *module);
int mpb_add_network(PyObject *module);
int mpb_add_handler(PyObject *module);
int mpb_add_request(PyObject *module);
int mpb_add_command(PyObject *module);
int mpb_add_known(PyObject *module);
int mpb_add_fetch(PyObject *module);
int mpb_add_session(PyObject *module);
int mpb_add_metadata(PyObject *module);
int mpb_add_cluster(PyObject *module);
int mpb_add_steady(PyObject *module);

#endif
