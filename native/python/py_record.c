/* Binds crc32c.h and record_batch.h. Buffers are any object with contiguous bytes; nothing keeps a reference to them.
 * Codes are Kafka's error codes; exceptions mean that the caller passed the wrong thing. */
#include "python/module.h"

#include "record/crc32.h"
#include "record/crc32c.h"
#include "record/lz4.h"
#include "record/record_batch.h"
#include "record/xxh32.h"

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

static PyStructSequence_Desc batch_info_desc = {"mpbroker._native.BatchInfo", "The fields of a record batch's header.",
                                                batch_info_fields, 13};

static PyTypeObject *record_type;

static PyStructSequence_Field record_fields[] = {
    {"offset", "in its partition"},
    {"timestamp", "milliseconds since 1970, -1 none"},
    {"key", "bytes or None"},
    {"value", "bytes or None"},
    {"headers", "a tuple of (key bytes, value bytes or None)"},
    {NULL, NULL},
};

static PyStructSequence_Desc record_desc = {"mpbroker._native.Record", "One record as a reader sees it.", record_fields,
                                            5};

static PyTypeObject *request_check_type;

static PyStructSequence_Field request_check_fields[] = {
    {"code", "Kafka error code"},
    {"batch_bytes", "where to cut the records field; 0 with an error"},
    {"transactional", "whether the batch is part of a transaction"},
    {"whole_request", "0: the code is for this partition; else for all, before (1) or after (2) error 53"},
    {NULL, NULL},
};

static PyStructSequence_Desc request_check_desc = {"mpbroker._native.RequestCheck", "Result of batch_check_request.",
                                                   request_check_fields, 4};

static PyTypeObject *append_check_type;

static PyStructSequence_Field append_check_fields[] = {
    {"code", "Kafka error code"},
    {"batch", "the bytes to append"},
    {"info", "BatchInfo, None with an error"},
    {"max_timestamp", "the one to store, found in the records; -1 none"},
    {"max_timestamp_delta", "offset delta of the first record that has it; -1 none"},
    {"bad_record", "index of the first record refused; -1 none"},
    {NULL, NULL},
};

static PyStructSequence_Desc append_check_desc = {"mpbroker._native.AppendCheck", "Result of batch_check_append.",
                                                  append_check_fields, 6};

static PyObject *new_batch_info(const struct mpb_batch_info *info)
{
    PyObject *result = PyStructSequence_New(batch_info_type);
    if (!result)
        return NULL;
    const int64_t values[] = {info->base_offset,   info->batch_bytes, info->leader_epoch,      info->crc,
                              info->attributes,    info->codec,       info->last_offset_delta, info->base_timestamp,
                              info->max_timestamp, info->producer_id, info->producer_epoch,    info->base_sequence,
                              info->record_count};
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

static PyObject *py_crc32(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    unsigned int value = 0;
    if (!PyArg_ParseTuple(args, "y*|I:crc32", &data, &value))
        return NULL;
    uint32_t crc = mpb_crc32(value, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *py_crc32c_implementation(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyUnicode_FromString(mpb_crc32c_implementation());
}

static PyObject *py_xxh32(PyObject *Py_UNUSED(module), PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE))
        return NULL;
    uint32_t hash = mpb_xxh32(0, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(hash);
}

static PyObject *py_lz4_read(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer frame, out;
    if (!PyArg_ParseTuple(args, "y*w*:lz4_read", &frame, &out))
        return NULL;
    int64_t written = mpb_lz4_read(frame.buf, (size_t)frame.len, out.buf, (size_t)out.len);
    PyBuffer_Release(&frame);
    PyBuffer_Release(&out);
    return PyLong_FromLongLong(written);
}

/* Steps 1 and 2 of record_batch.h. */
static PyObject *py_batch_check_request(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer data;
    struct mpb_batch_rules rules = {0};
    size_t batch_len = 0;
    bool transactional;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "batch_check_request takes 2 arguments, not %zd", count);
    rules.produce_version = (int16_t)PyLong_AsLong(args[1]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE))
        return NULL;
    int code = mpb_batch_peek(data.buf, (size_t)data.len, &transactional);
    int whole_request = code ? 1 : 0;
    if (!code) {
        code = mpb_batch_check_request(data.buf, (size_t)data.len, &rules, &batch_len);
        whole_request = code == MPB_ERR_UNKNOWN_SERVER_ERROR ? 2 : 0;
    }
    PyBuffer_Release(&data);
    PyObject *result = PyStructSequence_New(request_check_type);
    if (!result)
        return NULL;
    PyStructSequence_SetItem(result, 0, PyLong_FromLong(code));
    PyStructSequence_SetItem(result, 1, PyLong_FromSize_t(code ? 0 : batch_len));
    PyStructSequence_SetItem(result, 2, PyBool_FromLong(transactional));
    PyStructSequence_SetItem(result, 3, PyLong_FromLong(whole_request));
    if (PyErr_Occurred())
        Py_CLEAR(result);
    return result;
}

static PyObject *new_append_check(int code, PyObject *batch, const struct mpb_batch_info *info,
                                  const struct mpb_records_info *records)
{
    PyObject *object = code ? Py_NewRef(Py_None) : new_batch_info(info);
    PyObject *result = object ? PyStructSequence_New(append_check_type) : NULL;
    if (!result) {
        Py_XDECREF(object);
        return NULL;
    }
    PyStructSequence_SetItem(result, 0, PyLong_FromLong(code));
    PyStructSequence_SetItem(result, 1, Py_NewRef(batch));
    PyStructSequence_SetItem(result, 2, object);
    PyStructSequence_SetItem(result, 3, PyLong_FromLongLong(records->max_timestamp));
    PyStructSequence_SetItem(result, 4, PyLong_FromLong(records->max_timestamp_delta));
    PyStructSequence_SetItem(result, 5, PyLong_FromLong(records->bad_record));
    if (PyErr_Occurred())
        Py_CLEAR(result);
    return result;
}

/* Steps 3 and, unless the records are compressed, 4. Called once per batch: no argument parser. */
static PyObject *py_batch_check_append(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer data;
    struct mpb_batch_info info;
    struct mpb_records_info records = {MPB_NO_TIMESTAMP, -1, -1};
    if (count != 8)
        return PyErr_Format(PyExc_TypeError, "batch_check_append takes 8 arguments, not %zd", count);
    const struct mpb_batch_rules rules = {
        .max_message_bytes = (int32_t)PyLong_AsLong(args[1]),
        .compacted = PyObject_IsTrue(args[2]) > 0,
        .log_append_time = PyObject_IsTrue(args[3]) > 0,
        .now_ms = PyLong_AsLongLong(args[4]),
        .timestamp_before_max_ms = PyLong_AsLongLong(args[5]),
        .timestamp_after_max_ms = PyLong_AsLongLong(args[6]),
        .from_client = PyObject_IsTrue(args[7]) > 0,
    };
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE))
        return NULL;
    int code = MPB_ERR_CORRUPT_MESSAGE; /* unless the caller has cut at the batch's end */
    if (data.len >= MPB_BATCH_OVERHEAD_BYTES &&
        (int64_t)mpb_be32((const uint8_t *)data.buf + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES == data.len)
        code = mpb_batch_check_append(data.buf, (size_t)data.len, &rules, &info);
    if (!code && !info.codec)
        code = mpb_records_check(info.records, info.records_len, &info, &rules, &records);
    PyBuffer_Release(&data);
    return new_append_check(code, args[0], &info, &records);
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

#define MAX_REFUSED 100 /* listed; their number is told whatever it is */

static PyObject *refused_list(const struct mpb_refused_record *refused, int32_t count)
{
    int32_t listed = count < MAX_REFUSED ? count : MAX_REFUSED;
    PyObject *list = PyList_New(listed);
    for (int32_t i = 0; list != NULL && i < listed; i++) {
        PyObject *row = Py_BuildValue("(iiL)", (int)refused[i].index, (int)refused[i].error,
                                      (long long)refused[i].timestamp);
        if (row == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, row);
    }
    return list == NULL ? NULL : Py_BuildValue("(iN)", (int)count, list);
}

static PyObject *py_records_refused(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer records, batch;
    struct mpb_batch_rules rules = {0};
    struct mpb_batch_info info;
    struct mpb_refused_record refused[MAX_REFUSED];
    if (parse_rules(args, "y*y*ppLLL:records_refused", &records, &batch, &rules))
        return NULL;
    int32_t count = 0;
    if (batch.len >= MPB_BATCH_HEADER_BYTES) {
        mpb_batch_read(batch.buf, &info);
        count = mpb_records_refused(records.buf, (size_t)records.len, &info, &rules, refused, MAX_REFUSED);
    }
    PyBuffer_Release(&records);
    PyBuffer_Release(&batch);
    return refused_list(refused, count);
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
    if (!PyArg_ParseTuple(args, "y*Li|LO:batch_patch_header", &batch, &base_offset, &leader_epoch, &log_append_time_ms,
                          &max_timestamp))
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

static PyObject *bytes_or_none(const uint8_t *p, int32_t len)
{
    return len < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)p, len);
}

/* A tuple of (key, value or None) pairs out of headers whose bounds mpb_record_read has checked. */
static PyObject *decode_headers(const struct mpb_record *record)
{
    PyObject *headers = PyTuple_New(record->header_count);
    const uint8_t *at = record->headers;
    for (int32_t i = 0; headers && i < record->header_count; i++) {
        const uint8_t *key, *value;
        int32_t key_len, value_len;
        mpb_record_header_read(&at, record->next, &key_len, &key, &value_len, &value);
        PyObject *pair = Py_BuildValue("(NN)", bytes_or_none(key, key_len), bytes_or_none(value, value_len));
        if (!pair)
            Py_CLEAR(headers);
        else
            PyTuple_SET_ITEM(headers, i, pair);
    }
    return headers;
}

static PyObject *decode_record(const struct mpb_record *record, const struct mpb_batch_info *info)
{
    PyObject *headers = decode_headers(record);
    PyObject *result = headers ? PyStructSequence_New(record_type) : NULL;
    if (!result) {
        Py_XDECREF(headers);
        return NULL;
    }
    PyStructSequence_SetItem(
        result, 0, PyLong_FromLongLong((long long)((uint64_t)info->base_offset + (uint64_t)record->offset_delta)));
    PyStructSequence_SetItem(result, 1, PyLong_FromLongLong(mpb_record_timestamp(record, info)));
    PyStructSequence_SetItem(result, 2, bytes_or_none(record->key, record->key_len));
    PyStructSequence_SetItem(result, 3, bytes_or_none(record->value, record->value_len));
    PyStructSequence_SetItem(result, 4, headers);
    if (PyErr_Occurred())
        Py_CLEAR(result);
    return result;
}

static PyObject *decode_records(const Py_buffer *records, const struct mpb_batch_info *info)
{
    const uint8_t *at = records->buf, *end = at + records->len;
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < info->record_count; i++) {
        struct mpb_record record = {.next = at};
        PyObject *object = NULL;
        if (mpb_record_read(at, end, false, &record))
            PyErr_Format(PyExc_ValueError, "record %d of %d cannot be read", i, info->record_count);
        else
            object = decode_record(&record, info);
        if (!object || PyList_Append(list, object) < 0)
            Py_CLEAR(list);
        Py_XDECREF(object);
        at = record.next;
    }
    return list;
}

static PyObject *py_records_decode(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer records, batch;
    PyObject *list = NULL;
    if (!PyArg_ParseTuple(args, "y*y*:records_decode", &records, &batch))
        return NULL;
    if (batch.len >= MPB_BATCH_HEADER_BYTES) {
        struct mpb_batch_info info;
        mpb_batch_read(batch.buf, &info);
        list = decode_records(&records, &info);
    } else {
        PyErr_SetString(PyExc_ValueError, "a batch header has 61 bytes");
    }
    PyBuffer_Release(&records);
    PyBuffer_Release(&batch);
    return list;
}

/* Puts the records with a key of one batch into a dictionary, the last value of each key. 0, 1: the records cannot be
 * read, or -1 with an exception set. */
static int put_newest(PyObject *newest, const struct mpb_batch_info *info)
{
    const uint8_t *p = info->records, *end = info->records + info->records_len;
    for (int32_t i = 0; i < info->record_count; i++) {
        struct mpb_record record;
        if (mpb_record_read(p, end, true, &record))
            return 1;
        p = record.next;
        if (record.key_len < 0)
            continue;
        PyObject *key = bytes_or_none(record.key, record.key_len);
        PyObject *value = bytes_or_none(record.value, record.value_len);
        int failed = key == NULL || value == NULL || PyDict_SetItem(newest, key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed)
            return -1;
    }
    return p == end ? 0 : 1;
}

static PyObject *py_records_newest(PyObject *Py_UNUSED(module), PyObject *args)
{
    const int16_t special = MPB_CODEC_MASK | MPB_ATTRIBUTE_TRANSACTIONAL | MPB_ATTRIBUTE_CONTROL;
    Py_buffer data;
    Py_ssize_t pos;
    PyObject *newest;
    long long next_offset = -1;
    int failed = 0;
    if (!PyArg_ParseTuple(args, "y*nO!:records_newest", &data, &pos, &PyDict_Type, &newest))
        return NULL;
    if (pos < 0 || pos > data.len) {
        PyBuffer_Release(&data);
        return PyErr_Format(PyExc_ValueError, "position %zd lies outside the buffer", pos);
    }
    struct mpb_batch_scan scan = {data.buf, (size_t)data.len, (size_t)pos, true};
    struct mpb_batch_info info;
    size_t need;
    while (mpb_batch_scan_next(&scan, &info, &need) == MPB_SCAN_BATCH) {
        if (info.attributes & special || (failed = put_newest(newest, &info)) != 0)
            break;
        pos = (Py_ssize_t)scan.pos;
        next_offset = info.base_offset + info.last_offset_delta + 1;
    }
    PyBuffer_Release(&data);
    return failed < 0 ? NULL : Py_BuildValue("(nL)", pos, next_offset);
}

static PyMethodDef methods[] = {
    {"crc32", py_crc32, METH_VARARGS, "crc32(data, value=0) -> int; zlib's, faster"},
    {"crc32c", py_crc32c, METH_VARARGS, "crc32c(data, value=0) -> int"},
    {"crc32c_implementation", py_crc32c_implementation, METH_NOARGS, "Which way this machine computes it."},
    {"xxh32", py_xxh32, METH_O, "xxh32(data) -> int, with seed 0"},
    {"lz4_read", py_lz4_read, METH_VARARGS,
     "lz4_read(frame, out) -> bytes written to `out`; -1: they do not fit, or it is not a frame that this reads"},
    {"batch_check_request", (PyCFunction)(void (*)(void))py_batch_check_request, METH_FASTCALL,
     "batch_check_request(data, produce_version) -> RequestCheck"},
    {"batch_check_append", (PyCFunction)(void (*)(void))py_batch_check_append, METH_FASTCALL,
     "batch_check_append(batch, max_message_bytes, compacted, log_append_time, now_ms, before_max_ms, after_max_ms,"
     " from_client) -> AppendCheck; of compressed records the caller checks the rest with records_check"},
    {"records_check", py_records_check, METH_VARARGS,
     "records_check(records, batch, compacted, log_append_time, now_ms, before_max_ms, after_max_ms)"
     " -> (code, max_timestamp, max_timestamp_delta, bad_record)"},
    {"records_refused", py_records_refused, METH_VARARGS,
     "records_refused(records, batch, compacted, log_append_time, now_ms, before_max_ms, after_max_ms)"
     " -> (how many, [(index, code, timestamp)] of the first 100): refused for what they say"},
    {"records_find_timestamp", py_records_find_timestamp, METH_VARARGS,
     "records_find_timestamp(records, batch, target_ms) -> (offset_delta, timestamp) or None"},
    {"batch_patch_header", py_batch_patch_header, METH_VARARGS,
     "batch_patch_header(batch, base_offset, leader_epoch, log_append_time_ms=-1, max_timestamp_ms=None) -> 61 bytes"},
    {"records_decode", py_records_decode, METH_VARARGS,
     "records_decode(records, batch) -> [Record], from uncompressed records and their batch's header"},
    {"records_newest", py_records_newest, METH_VARARGS,
     "records_newest(data, pos, newest) -> (position, next offset or -1): key -> last value out of whole batches from"
     " pos on, up to one that is compressed, transactional, control, cut off or cannot be read"},
    {"batch_scan", py_batch_scan, METH_VARARGS,
     "batch_scan(data, pos, check_crc=True) -> (result, BatchInfo or None, next position or bytes needed)"},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, const char *name, PyTypeObject **type, PyStructSequence_Desc *desc)
{
    if (!*type && !(*type = PyStructSequence_NewType(desc)))
        return -1;
    return PyModule_AddObjectRef(module, name, (PyObject *)*type);
}

int mpb_add_record(PyObject *module)
{
    if (add_type(module, "BatchInfo", &batch_info_type, &batch_info_desc) < 0 ||
        add_type(module, "Record", &record_type, &record_desc) < 0 ||
        add_type(module, "RequestCheck", &request_check_type, &request_check_desc) < 0 ||
        add_type(module, "AppendCheck", &append_check_type, &append_check_desc) < 0)
        return -1;
    if (PyModule_AddIntMacro(module, MPB_SCAN_BATCH) < 0 || PyModule_AddIntMacro(module, MPB_SCAN_END) < 0 ||
        PyModule_AddIntMacro(module, MPB_SCAN_PARTIAL) < 0 || PyModule_AddIntMacro(module, MPB_SCAN_CORRUPT) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
