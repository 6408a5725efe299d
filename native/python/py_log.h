/* Types of the log binders. A Log belongs to one thread of one process: its descriptor cache is not shared. */
#ifndef MPB_PY_LOG_H
#define MPB_PY_LOG_H
#include "python/module.h"

#include "log/append.h"
#include "log/log_read.h"

typedef struct {
    PyObject_HEAD PyObject *core; /* kept alive */
    struct mpb_log log;
    bool open;
} LogObject;

typedef struct {
    PyObject_HEAD struct mpb_append_options append;
    struct mpb_batch_rules rules;
} LogOptionsObject;

#define MPB_RELEASE_GIL_BYTES 16384 /* below, giving the interpreter away costs more than the call */

/* True if `ordinal` is a row of the partition table, else ValueError. */
bool mpb_py_ordinal(LogObject *self, unsigned int ordinal);
/* The same of a Python number, which may be of any size; leaves it in *ordinal. */
bool mpb_py_row(LogObject *self, PyObject *number, unsigned int *ordinal);
/* Begins a method of a Log whose first argument is a partition's row: declares `self` and `ordinal`, reads the others,
 * and leaves with Python's exception if they do not fit. */
#define MPB_ROW_ARGS(format, ...)                                                                       \
    LogObject *self = (LogObject *)object;                                                              \
    unsigned int ordinal;                                                                               \
    if (!PyArg_ParseTuple(args, "I" format, &ordinal, ##__VA_ARGS__) || !mpb_py_ordinal(self, ordinal)) \
    return NULL
/* The same for a method that has no other argument. */
#define MPB_ROW_ARG()                          \
    LogObject *self = (LogObject *)object;     \
    unsigned int ordinal;                      \
    if (!mpb_py_row(self, argument, &ordinal)) \
    return NULL
/* A topic id from None or 16 bytes, else ValueError. */
bool mpb_py_topic_id(PyObject *object, uint8_t out[16], const uint8_t **topic_id);

extern PyMethodDef mpb_log_read_methods[], mpb_log_keep_methods[], mpb_log_append_methods[], mpb_log_txn_methods[],
    mpb_log_replica_methods[], mpb_log_move_methods[];
extern PyTypeObject *mpb_log_options_type;
/* A new AppendResult, to be filled by the caller. */
PyObject *mpb_py_append_result(struct mpb_append_result **result);
/* The plan of a ReadPlan, else NULL with TypeError. */
const struct mpb_read_plan *mpb_py_read_plan(PyObject *object);
/* The log of a Log object that is open, else NULL with an exception. Borrowed. */
struct mpb_log *mpb_log_of(PyObject *log);
/* The native path of a NativeProduce, borrowed; NULL with an exception for anything else. */
struct mpb_native_produce *mpb_native_produce_of(PyObject *object);
int mpb_add_log_read(PyObject *module);
int mpb_add_log_append(PyObject *module);
int mpb_add_log_replica(PyObject *module);

#endif
