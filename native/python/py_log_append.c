/* Binds append.h: LogOptions, AppendResult and Log.append, which checks a batch and appends it in one call. */
#include "python/py_log.h"

#include <stddef.h>
#include <structmember.h>

#include "log/roll.h"

typedef struct {
    PyObject_HEAD struct mpb_append_result result;
} AppendResultObject;

PyTypeObject *mpb_log_options_type;
static PyTypeObject *append_result_type;

PyObject *mpb_py_append_result(struct mpb_append_result **result)
{
    AppendResultObject *object = (AppendResultObject *)append_result_type->tp_alloc(append_result_type, 0);
    if (object != NULL)
        *result = &object->result;
    return (PyObject *)object;
}

static int options_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"segment_bytes",          "segment_ms",     "index_interval_bytes",
                            "index_max_bytes",        "flush_messages", "log_append_time",
                            "max_message_bytes",      "compacted",      "timestamp_before_max_ms",
                            "timestamp_after_max_ms", "from_client",    NULL};
    LogOptionsObject *self = (LogOptionsObject *)object;
    long long segment_ms = 604800000, flush_messages = INT64_MAX, before_ms = INT64_MAX, after_ms = INT64_MAX;
    int segment_bytes = 1 << 30, interval = 4096, index_max = 10485760, max_message_bytes = 1048588;
    int log_append_time = 0, compacted = 0, from_client = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$iLiiLpipLLp", names, &segment_bytes, &segment_ms, &interval,
                                     &index_max, &flush_messages, &log_append_time, &max_message_bytes, &compacted,
                                     &before_ms, &after_ms, &from_client))
        return -1;
    if (segment_bytes < MPB_BATCH_HEADER_BYTES || interval < 0 || index_max < MPB_TIME_INDEX_ENTRY_BYTES) {
        PyErr_SetString(PyExc_ValueError, "segment_bytes, index_interval_bytes or index_max_bytes is too small");
        return -1;
    }
    self->append = (struct mpb_append_options){
        .segment_bytes = segment_bytes,
        .segment_ms = segment_ms,
        .index_interval_bytes = interval,
        .index_max_bytes = index_max,
        .flush_messages = flush_messages,
        .log_append_time = log_append_time,
        .by_coordinator = !from_client,
    };
    self->rules = (struct mpb_batch_rules){
        .max_message_bytes = max_message_bytes,
        .produce_version = 7,
        .from_client = from_client,
        .compacted = compacted,
        .log_append_time = log_append_time,
        .timestamp_before_max_ms = before_ms,
        .timestamp_after_max_ms = after_ms,
    };
    return 0;
}

static void plain_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* Checks of the batch and, unless the caller decompressed and walked its records, of its records. Sets
 * *max_timestamp. Returns a Kafka error, or -2 with ValueError set. */
static int check(const uint8_t *records, size_t length, const struct mpb_batch_rules *rules, bool walked,
                 struct mpb_batch_info *info, int64_t *max_timestamp)
{
    struct mpb_records_info found;
    int error = mpb_batch_check(records, length, rules, info);
    if (error != 0 || walked)
        return error;
    if (info->codec != MPB_CODEC_NONE) {
        PyErr_SetString(PyExc_ValueError, "compressed records are checked before the append: give max_timestamp");
        return -2;
    }
    error = mpb_records_check(info->records, info->records_len, info, rules, &found);
    *max_timestamp = found.max_timestamp;
    return error;
}

static void append_checked(LogObject *self, const struct mpb_append_options *options,
                           const struct mpb_append_request *request, struct mpb_append_result *out)
{
    if (request->info->batch_bytes < MPB_RELEASE_GIL_BYTES) {
        mpb_append(&self->log, options, request, out);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
        mpb_append(&self->log, options, request, out);
    Py_END_ALLOW_THREADS
}

static PyObject *log_append(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal",         "entry",        "cell",          "records",  "options", "now_ms",
                            "produce_version", "leader_epoch", "max_timestamp", "topic_id", "acks",    NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_append_request request = {.leader_epoch = -1, .acks = 1};
    struct mpb_batch_info info;
    PyObject *options_object, *max_timestamp = Py_None, *topic_id = Py_None;
    uint8_t id[16];
    Py_buffer records;
    long long now_ms;
    int produce_version = 7, error;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IIIy*O!L|iiOOh", names, &request.ordinal, &request.entry,
                                     &request.cell, &records, mpb_log_options_type, &options_object, &now_ms,
                                     &produce_version, &request.leader_epoch, &max_timestamp, &topic_id, &request.acks))
        return NULL;
    const LogOptionsObject *options = (LogOptionsObject *)options_object;
    struct mpb_batch_rules rules = options->rules;
    AppendResultObject *result = NULL;
    request.max_timestamp = max_timestamp == Py_None ? -1 : PyLong_AsLongLong(max_timestamp);
    if (!mpb_py_ordinal(self, request.ordinal) || !mpb_py_topic_id(topic_id, id, &request.topic_id) || PyErr_Occurred())
        goto done;
    rules.now_ms = request.now_ms = now_ms;
    rules.produce_version = (int16_t)produce_version;
    request.batch = records.buf;
    request.info = &info;
    error = check(records.buf, (size_t)records.len, &rules, max_timestamp != Py_None, &info, &request.max_timestamp);
    if (error == -2)
        goto done;
    result = (AppendResultObject *)append_result_type->tp_alloc(append_result_type, 0);
    if (result == NULL)
        goto done;
    if (error == 0)
        append_checked(self, &options->append, &request, &result->result);
    else
        mpb_append_refuse(&self->log, &request, error, &result->result);
done:
    PyBuffer_Release(&records);
    return (PyObject *)result;
}

static PyObject *refused(PyObject *object, PyObject *args, const char *format,
                         void (*refuse)(struct mpb_log *, const struct mpb_append_request *, int,
                                        struct mpb_append_result *))
{
    LogObject *self = (LogObject *)object;
    struct mpb_append_request request = {.leader_epoch = -1};
    PyObject *topic_id = Py_None;
    uint8_t id[16];
    int error;
    if (!PyArg_ParseTuple(args, format, &request.ordinal, &request.entry, &request.cell, &error, &topic_id) ||
        !mpb_py_ordinal(self, request.ordinal) || !mpb_py_topic_id(topic_id, id, &request.topic_id))
        return NULL;
    AppendResultObject *result = (AppendResultObject *)append_result_type->tp_alloc(append_result_type, 0);
    if (result != NULL)
        refuse(&self->log, &request, error, &result->result);
    return (PyObject *)result;
}

static PyObject *log_refuse(PyObject *object, PyObject *args)
{
    return refused(object, args, "IIIiO:refuse", mpb_append_refuse);
}

static PyObject *log_not_synced(PyObject *object, PyObject *args)
{
    return refused(object, args, "IIIi:not_synced", mpb_append_not_synced);
}

static PyObject *log_roll(PyObject *object, PyObject *args)
{
    long long now_ms;
    MPB_ROW_ARGS("L:roll", &now_ms);
    return PyLong_FromLong(mpb_roll(&self->log, ordinal, now_ms));
}

PyMethodDef mpb_log_append_methods[] = {
    {"append", (PyCFunction)(void *)log_append, METH_VARARGS | METH_KEYWORDS,
     "append(ordinal, entry, cell, records, options, now_ms, produce_version=7, leader_epoch=-1, max_timestamp=None,\n"
     "       topic_id=None, acks=1) -> AppendResult\n\n"
     "Checks the one batch in `records` and appends it; the result, errors too, also goes into cell `cell` of request\n"
     "entry `entry` (NO_REQUEST: nowhere). A second call for the same cell and fill number only reads it. Compressed\n"
     "records must have been walked by the caller, who gives the largest timestamp it found (-1: none)."},
    {"refuse", log_refuse, METH_VARARGS,
     "refuse(ordinal, entry, cell, error, topic id) -> AppendResult: instead of an append, for a batch that the "
     "caller\n"
     "found bad; the cell gets the error"},
    {"not_synced", log_not_synced, METH_VARARGS,
     "not_synced(ordinal, entry, cell, error) -> AppendResult: after an append whose flush_due sync failed; the "
     "records\n"
     "stay, the cell gets the error"},
    {"roll", log_roll, METH_VARARGS, "roll(ordinal, now_ms) -> error; an empty active segment stays"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot options_slots[] = {
    {Py_tp_doc, "LogOptions(*, segment_bytes, segment_ms, index_interval_bytes, index_max_bytes, flush_messages,\n"
                "log_append_time, max_message_bytes, compacted, timestamp_before_max_ms,\n"
                "timestamp_after_max_ms, from_client): a topic's settings as an append needs them, Kafka's defaults."},
    {Py_tp_init, options_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, plain_dealloc},
    {0, NULL},
};
static PyType_Spec options_spec = {"mpbroker._native.LogOptions", sizeof(LogOptionsObject), 0, Py_TPFLAGS_DEFAULT,
                                   options_slots};

#define RESULT(type, name) {#name, type, offsetof(AppendResultObject, result.name), READONLY, NULL}
static PyMemberDef result_members[] = {
    RESULT(T_SHORT, error),         RESULT(T_BOOL, duplicate),
    RESULT(T_BOOL, replayed),       RESULT(T_BOOL, flush_due),
    RESULT(T_BOOL, busy),           RESULT(T_LONGLONG, base_offset),
    RESULT(T_LONGLONG, end_offset), RESULT(T_LONGLONG, append_time_ms),
    RESULT(T_LONGLONG, log_start),  RESULT(T_INT, leader_epoch),
    RESULT(T_BOOL, unverified),     RESULT(T_BOOL, waits),
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot result_slots[] = {
    {Py_tp_doc, "What an append answered; base_offset, end_offset and append_time_ms are -1 where there is none."},
    {Py_tp_members, result_members},
    {Py_tp_dealloc, plain_dealloc},
    {0, NULL},
};
static PyType_Spec result_spec = {"mpbroker._native.AppendResult", sizeof(AppendResultObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, result_slots};

int mpb_add_log_append(PyObject *module)
{
    mpb_log_options_type = (PyTypeObject *)PyType_FromSpec(&options_spec);
    append_result_type = (PyTypeObject *)PyType_FromSpec(&result_spec);
    if (mpb_log_options_type == NULL || append_result_type == NULL ||
        PyModule_AddType(module, mpb_log_options_type) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "NO_REQUEST", MPB_NO_REQUEST) < 0)
        return -1;
    return PyModule_AddType(module, append_result_type);
}
