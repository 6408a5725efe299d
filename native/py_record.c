/* Binds crc32c.h and record_batch.h. Buffers are any object with contiguous bytes; nothing keeps a reference to them.
 * Codes are Kafka's error codes; exceptions mean that the caller passed the wrong thing. */
#include "module.h"

#include "crc32c.h"
#include "record_batch.h"

static PyTypeObject *batch_info_type;

static PyStructSequence_Field batch_info_fields[] = {
    {"base_offset", "offset of the first record; 0 from a client"},
    {"batch_bytes", "header and records"},
    {"leader_epoch", "of the leader that appended it; -1 from a client"},
    {"crc", "CRC-32C over attributes to end"},
    {"attributes", "codec in bits 0-2, log append time 8, transactional 16, control 32, delete horizon 64"},
    {"codec", "0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"},
    {"last_offset_delta", "last offset minus base offset"},
    {"base_timestamp", "milliseconds since 1970, or the delete horizon"},
    {"max_timestamp", "milliseconds since 1970, -1 none"},
    {"producer_id", "-1 none"},
    {"producer_epoch", "-1 none"},
    {"base_sequence", "-1 none"},
    {"record_count", "records in the batch"},
    {NULL, NULL},
};

static PyStructSequence_Desc batch_info_desc = {
    "mpbroker._native.BatchInfo", "The fields of a record batch's header.", batch_info_fields, 13};

static PyObject *new_batch_info(const struct mpb_batch_info *info)
{
    PyObject *result = PyStructSequence_New(batch_info_type);
    if (!result)
        return NULL;
    const int64_t values[] = {info->base_offset,    info->batch_bytes,    info->leader_epoch,  info->crc,
                              info->attributes,     info->codec,          info->last_offset_delta,
                              info->base_timestamp, info->max_timestamp,  info->producer_id,
                              info->producer_epoch, info->base_sequence,  info->record_count};
    for (Py_ssize_t i = 0; i < (Py_ssize_t)(sizeof values / sizeof *values); i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (!value) {
            Py_DECREF(result);
            return NULL;
        }
        PyStructSequence_SetItem(result, i, value);
    }
    return result;
}

/* (code, BatchInfo or None) */
static PyObject *code_and_info(int code, const struct mpb_batch_info *info)
{
    if (code)
        return Py_BuildValue("(iO)", code, Py_None);
    PyObject *object = new_batch_info(info);
    return object ? Py_BuildValue("(iN)", 0, object) : NULL;
}

static PyObject *py_crc32c(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    unsigned int value = 0;
    if (!PyArg_ParseTuple(args, "y*|I:crc32c", &data, &value))
        return NULL;
    uint32_t crc = mpb_crc32c(value, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *py_crc32c_implementation(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyUnicode_FromString(mpb_crc32c_implementation());
}

static PyObject *py_batch_peek(PyObject *Py_UNUSED(module), PyObject *data)
{
    Py_buffer view;
    bool transactional;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE))
        return NULL;
    int code = mpb_batch_peek(view.buf, (size_t)view.len, &transactional);
    PyBuffer_Release(&view);
    return Py_BuildValue("(iO)", code, transactional ? Py_True : Py_False);
}

static PyObject *py_batch_check_request(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    struct mpb_batch_rules rules = {0};
    size_t batch_len;
    if (!PyArg_ParseTuple(args, "y*h:batch_check_request", &data, &rules.produce_version))
        return NULL;
    int code = mpb_batch_check_request(data.buf, (size_t)data.len, &rules, &batch_len);
    PyBuffer_Release(&data);
    return Py_BuildValue("(in)", code, code ? (Py_ssize_t)0 : (Py_ssize_t)batch_len);
}

static PyObject *py_batch_check_append(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    int from_client = 1;
    struct mpb_batch_rules rules = {0};
    struct mpb_batch_info info;
    if (!PyArg_ParseTuple(args, "y*i|p:batch_check_append", &data, &rules.max_message_bytes, &from_client))
        return NULL;
    rules.from_client = from_client;
    int code;
    if (data.len >= MPB_BATCH_OVERHEAD_BYTES &&
        (int64_t)mpb_be32((const uint8_t *)data.buf + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES == data.len)
        code = mpb_batch_check_append(data.buf, (size_t)data.len, &rules, &info);
    else
        code = MPB_ERR_CORRUPT_MESSAGE; /* the caller did not cut at the batch's end */
    PyBuffer_Release(&data);
    return code_and_info(code, &info);
}

static int parse_rules(PyObject *args, const char *format, Py_buffer *records, Py_buffer *batch,
                       struct mpb_batch_rules *rules)
{
    int compacted, log_append_time;
    long long now, before, after;
    if (!PyArg_ParseTuple(args, format, records, batch, &compacted, &log_append_time, &now, &before, &after))
        return -1;
    rules->compacted = compacted;
    rules->log_append_time = log_append_time;
    rules->now_ms = now;
    rules->timestamp_before_max_ms = before;
    rules->timestamp_after_max_ms = after;
    return 0;
}

static PyObject *py_records_check(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer records, batch;
    struct mpb_batch_rules rules = {0};
    struct mpb_batch_info info;
    struct mpb_records_info out;
    if (parse_rules(args, "y*y*ppLLL:records_check", &records, &batch, &rules))
        return NULL;
    bool whole_header = batch.len >= MPB_BATCH_HEADER_BYTES;
    int code = MPB_ERR_CORRUPT_MESSAGE;
    if (whole_header) {
        mpb_batch_read(batch.buf, &info);
        code = mpb_records_check(records.buf, (size_t)records.len, &info, &rules, &out);
    }
    PyBuffer_Release(&records);
    PyBuffer_Release(&batch);
    if (!whole_header)
        return PyErr_Format(PyExc_ValueError, "a batch header has 61 bytes");
    return Py_BuildValue("(iLii)", code, (long long)out.max_timestamp, out.max_timestamp_delta, out.bad_record);
}

static PyObject *py_records_find_timestamp(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer records, batch;
    struct mpb_batch_info info;
    long long target;
    int32_t offset_delta = -1;
    int64_t timestamp = MPB_NO_TIMESTAMP;
    if (!PyArg_ParseTuple(args, "y*y*L:records_find_timestamp", &records, &batch, &target))
        return NULL;
    int code = MPB_ERR_INVALID_RECORD;
    if (batch.len >= MPB_BATCH_HEADER_BYTES) {
        mpb_batch_read(batch.buf, &info);
        code = mpb_records_find_timestamp(records.buf, (size_t)records.len, &info, target, &offset_delta, &timestamp);
    }
    PyBuffer_Release(&records);
    PyBuffer_Release(&batch);
    if (code == MPB_ERR_INVALID_RECORD)
        return PyErr_Format(PyExc_ValueError, "the records cannot be read");
    return code ? Py_NewRef(Py_None) : Py_BuildValue("(iL)", offset_delta, (long long)timestamp);
}

static PyObject *py_batch_patch_header(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer batch;
    long long base_offset, log_append_time_ms = MPB_NO_TIMESTAMP;
    int leader_epoch;
    PyObject *max_timestamp = Py_None;
    uint8_t header[MPB_BATCH_HEADER_BYTES];
    if (!PyArg_ParseTuple(args, "y*Li|LO:batch_patch_header", &batch, &base_offset, &leader_epoch,
                          &log_append_time_ms, &max_timestamp))
        return NULL;
    long long max_timestamp_ms = max_timestamp == Py_None ? 0 : PyLong_AsLongLong(max_timestamp);
    if (!PyErr_Occurred() && batch.len < MPB_BATCH_HEADER_BYTES)
        PyErr_SetString(PyExc_ValueError, "a batch has at least 61 bytes");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&batch);
        return NULL;
    }
    mpb_batch_patch_header(batch.buf, (size_t)batch.len, header, base_offset, leader_epoch, log_append_time_ms);
    if (max_timestamp != Py_None && log_append_time_ms == MPB_NO_TIMESTAMP)
        mpb_batch_patch_timestamp(batch.buf, (size_t)batch.len, header, false, max_timestamp_ms);
    PyBuffer_Release(&batch);
    return PyBytes_FromStringAndSize((const char *)header, sizeof header);
}

static PyObject *py_batch_scan(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t pos;
    int check_crc = 1;
    struct mpb_batch_info info;
    size_t need;
    if (!PyArg_ParseTuple(args, "y*n|p:batch_scan", &data, &pos, &check_crc))
        return NULL;
    if (pos < 0 || pos > data.len) {
        PyBuffer_Release(&data);
        return PyErr_Format(PyExc_ValueError, "position %zd lies outside the buffer", pos);
    }
    struct mpb_batch_scan scan = {data.buf, (size_t)data.len, (size_t)pos, check_crc};
    enum mpb_scan_result result = mpb_batch_scan_next(&scan, &info, &need);
    PyBuffer_Release(&data);
    if (result != MPB_SCAN_BATCH)
        return Py_BuildValue("(iOn)", (int)result, Py_None, result == MPB_SCAN_PARTIAL ? (Py_ssize_t)need : pos);
    PyObject *object = new_batch_info(&info);
    return object ? Py_BuildValue("(iNn)", (int)result, object, (Py_ssize_t)scan.pos) : NULL;
}

static PyMethodDef methods[] = {
    {"crc32c", py_crc32c, METH_VARARGS, "crc32c(data, value=0) -> int"},
    {"crc32c_implementation", py_crc32c_implementation, METH_NOARGS, "Which way this machine computes it."},
    {"batch_peek", py_batch_peek, METH_O, "batch_peek(data) -> (code, transactional)"},
    {"batch_check_request", py_batch_check_request, METH_VARARGS,
     "batch_check_request(data, produce_version) -> (code, batch_bytes)"},
    {"batch_check_append", py_batch_check_append, METH_VARARGS,
     "batch_check_append(batch, max_message_bytes, from_client=True) -> (code, BatchInfo or None)"},
    {"records_check", py_records_check, METH_VARARGS,
     "records_check(records, batch, compacted, log_append_time, now_ms, before_max_ms, after_max_ms)"
     " -> (code, max_timestamp, max_timestamp_delta, bad_record)"},
    {"records_find_timestamp", py_records_find_timestamp, METH_VARARGS,
     "records_find_timestamp(records, batch, target_ms) -> (offset_delta, timestamp) or None"},
    {"batch_patch_header", py_batch_patch_header, METH_VARARGS,
     "batch_patch_header(batch, base_offset, leader_epoch, log_append_time_ms=-1, max_timestamp_ms=None) -> 61 bytes"},
    {"batch_scan", py_batch_scan, METH_VARARGS,
     "batch_scan(data, pos, check_crc=True) -> (result, BatchInfo or None, next position or bytes needed)"},
    {NULL, NULL, 0, NULL},
};

int mpb_add_record(PyObject *module)
{
    if (!batch_info_type && !(batch_info_type = PyStructSequence_NewType(&batch_info_desc)))
        return -1;
    if (PyModule_AddObjectRef(module, "BatchInfo", (PyObject *)batch_info_type) < 0 ||
        PyModule_AddIntMacro(module, MPB_SCAN_BATCH) < 0 || PyModule_AddIntMacro(module, MPB_SCAN_END) < 0 ||
        PyModule_AddIntMacro(module, MPB_SCAN_PARTIAL) < 0 || PyModule_AddIntMacro(module, MPB_SCAN_CORRUPT) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
