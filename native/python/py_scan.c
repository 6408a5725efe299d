/* Binds log_scan.h: scan_segment(log_fd, index_fd, time_index_fd, base_offset, index_interval_bytes, check_crc, visit,
 * start_bytes=0, start_offset=-1, max_timestamp=-1, max_timestamp_offset=-1) → SegmentScan. Without start_bytes it starts
 * at base_offset, whatever start_offset says. `visit(base_offset, last_offset, max_timestamp, producer_id, epoch,
 * first_sequence, record_count, attributes, marker, coordinator_epoch)` is called for batches that carry a producer id;
 * None: for none. I/O errors raise OSError. */
#include "python/module.h"

#include <errno.h>

#include "log/log_scan.h"
#include "record/marker_read.h"

static PyTypeObject *segment_scan_type;

static PyStructSequence_Field segment_scan_fields[] = {
    {"file_bytes", "size of the file"},
    {"valid_bytes", "everything up to here is whole"},
    {"next_offset", "offset after the last whole batch"},
    {"max_timestamp", "milliseconds since 1970, -1 none"},
    {"max_timestamp_offset", "last offset of the batch that has it"},
    {"first_timestamp", "largest of the first batch, -1 none"},
    {"indexed_timestamp", "of the last time index entry written, -1 none"},
    {"batches", "whole batches"},
    {"index_bytes", "written to the offset index"},
    {"time_index_bytes", "written to the time index"},
    {"bytes_since_index", "log bytes since the last index entry"},
    {"last_leader_epoch", "-1 none"},
    {"aborts", "markers that abort a transaction"},
    {"end", "0 clean, 1 the last batch is cut off, 2 corrupt"},
    {NULL, NULL},
};

static PyStructSequence_Desc segment_scan_desc = {"mpbroker._native.SegmentScan", "What a segment file holds.",
                                                  segment_scan_fields, 14};

static int call_visit(void *context, const struct mpb_batch_info *batch)
{
    if (batch->producer_id < 0)
        return 0;
    int16_t marker = -1;
    int32_t coordinator_epoch = -1;
    if ((batch->attributes & MPB_ATTRIBUTE_CONTROL) != 0)
        (void)mpb_marker_read(batch, &marker, &coordinator_epoch);
    PyObject *result = PyObject_CallFunction(
        context, "LLLLiiiiii", (long long)batch->base_offset,
        (long long)(batch->base_offset + batch->last_offset_delta), (long long)batch->max_timestamp,
        (long long)batch->producer_id, (int)batch->producer_epoch, (int)batch->base_sequence, (int)batch->record_count,
        (int)batch->attributes, (int)marker, (int)coordinator_epoch);
    if (!result)
        return 2;
    Py_DECREF(result);
    return 0;
}

static PyObject *to_python(const struct mpb_segment_scan *scan)
{
    const int64_t values[] = {(int64_t)scan->file_bytes,  (int64_t)scan->valid_bytes,
                              scan->next_offset,          scan->max_timestamp,
                              scan->max_timestamp_offset, scan->first_timestamp,
                              scan->indexed_timestamp,    (int64_t)scan->batches,
                              scan->index_bytes,          scan->time_index_bytes,
                              scan->bytes_since_index,    scan->last_leader_epoch,
                              (int64_t)scan->aborts,      scan->end};
    PyObject *result = PyStructSequence_New(segment_scan_type);
    for (Py_ssize_t i = 0; result && i < (Py_ssize_t)(sizeof values / sizeof *values); i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (!value)
            Py_CLEAR(result);
        else
            PyStructSequence_SetItem(result, i, value);
    }
    return result;
}

static PyObject *scan_segment(PyObject *module, PyObject *args)
{
    (void)module;
    int log_fd, index_fd, time_index_fd, check_crc;
    long long base_offset;
    unsigned int interval;
    PyObject *visit;
    unsigned long long start_bytes = 0;
    long long start_offset = -1, max_timestamp = -1, max_timestamp_offset = -1;
    if (!PyArg_ParseTuple(args, "iiiLIpO|KLLL:scan_segment", &log_fd, &index_fd, &time_index_fd, &base_offset,
                          &interval, &check_crc, &visit, &start_bytes, &start_offset, &max_timestamp,
                          &max_timestamp_offset))
        return NULL;
    struct mpb_segment_scan scan = {.base_offset = base_offset,
                                    .index_interval_bytes = interval,
                                    .check_crc = check_crc != 0,
                                    .start_bytes = start_bytes,
                                    .start_offset = start_bytes ? start_offset : base_offset,
                                    .max_timestamp = max_timestamp,
                                    .max_timestamp_offset = max_timestamp_offset};
    int status = mpb_segment_scan(log_fd, index_fd, time_index_fd, &scan, visit == Py_None ? NULL : call_visit, visit);
    if (status < 0) {
        errno = -status;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return status == 0 ? to_python(&scan) : NULL;
}

static PyMethodDef scan_functions[] = {
    {"scan_segment", scan_segment, METH_VARARGS,
     "Reads one segment file from front to back; see native/python/py_scan.c."},
    {NULL, NULL, 0, NULL},
};

int mpb_add_scan(PyObject *module)
{
    segment_scan_type = PyStructSequence_NewType(&segment_scan_desc);
    if (!segment_scan_type || PyModule_AddType(module, segment_scan_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, scan_functions);
}
