/* Binds log_open.h and partition_life.h: the type Log, its making, partitions' making and state. The append is in
 * py_log_append.c, reading in py_log_read.c, retention and producers in py_log_keep.c. */
#include "python/py_log.h"

#include <stddef.h>
#include <string.h>

#include "log/log_open.h"
#include "log/partition_life.h"
#include "log/partition_lock.h"
#include "shm/robust_lock.h"
#include "python/py_shm.h"

struct field {
    const char *name;
    size_t offset;
    size_t size;
};
#define FIELD(name) {#name, offsetof(struct mpb_partition_copy, name), sizeof((struct mpb_partition_copy *)0)->name}
static const struct field COPY_FIELDS[] = {
    FIELD(log_start),
    FIELD(leo),
    FIELD(hw),
    FIELD(lso),
    FIELD(active_base),
    FIELD(segment_id),
    FIELD(position),
    FIELD(index_bytes),
    FIELD(time_index_bytes),
    FIELD(max_timestamp),
    FIELD(max_timestamp_offset),
    FIELD(first_timestamp),
    FIELD(segment_created_ms),
    FIELD(indexed_timestamp),
    FIELD(log_bytes),
    FIELD(bytes_since_index),
    FIELD(leader_epoch),
    FIELD(truncations),
    FIELD(segment_count),
    FIELD(open_transactions),
    FIELD(txn_index_bytes),
    FIELD(aborted_end),
    FIELD(role),
    FIELD(min_isr),
    FIELD(isr),
    FIELD(maximal_isr),
    FIELD(leader_since),
    FIELD(epoch_start),
};
enum { COPY_FIELD_COUNT = sizeof COPY_FIELDS / sizeof *COPY_FIELDS };

static PyStructSequence_Field state_fields[COPY_FIELD_COUNT + 6];
static PyStructSequence_Desc state_desc = {"mpbroker._native.PartitionState",
                                           "A consistent copy of a partition's row (struct mpb_partition_copy).",
                                           state_fields, COPY_FIELD_COUNT + 5};
static PyTypeObject *state_type;

bool mpb_py_ordinal(LogObject *self, unsigned int ordinal)
{
    if (!self->open)
        PyErr_SetString(PyExc_ValueError, "the log is closed");
    else if (ordinal >= self->log.core->partition_count)
        PyErr_Format(PyExc_ValueError, "no partition row %u", ordinal);
    else
        return true;
    return false;
}

bool mpb_py_row(LogObject *self, PyObject *number, unsigned int *ordinal)
{
    unsigned long value = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return false;
    *ordinal = value < UINT32_MAX ? (unsigned int)value : UINT32_MAX;
    return mpb_py_ordinal(self, *ordinal);
}

bool mpb_py_topic_id(PyObject *object, uint8_t out[16], const uint8_t **topic_id)
{
    *topic_id = NULL;
    if (object == NULL || object == Py_None)
        return true;
    if (!PyBytes_Check(object) || PyBytes_GET_SIZE(object) != 16) {
        PyErr_SetString(PyExc_ValueError, "a topic id is 16 bytes");
        return false;
    }
    memcpy(out, PyBytes_AS_STRING(object), 16);
    *topic_id = out;
    return true;
}

static PyTypeObject *log_type;

struct mpb_log *mpb_log_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, log_type)) {
        PyErr_SetString(PyExc_TypeError, "a Log is needed");
        return NULL;
    }
    return mpb_py_ordinal((LogObject *)object, 0) ? &((LogObject *)object)->log : NULL;
}

static int open_dirs(LogObject *self, struct mpb_core *core, PyObject *paths, unsigned int slot, unsigned int segments)
{
    const char *dirs[MPB_MAX_LOG_DIRS] = {NULL};
    PyObject *encoded[MPB_MAX_LOG_DIRS];
    Py_ssize_t n = 0, count = PySequence_Fast_GET_SIZE(paths);
    uint32_t bad = 0;
    int error = 0;
    for (; n < count && n < MPB_MAX_LOG_DIRS; n++) {
        if (!PyUnicode_FSConverter(PySequence_Fast_GET_ITEM(paths, n), &encoded[n]))
            break;
        dirs[n] = PyBytes_AS_STRING(encoded[n]);
    }
    if (n == count)
        error = mpb_log_open(&self->log, core, slot, dirs, (uint32_t)n, segments, &bad);
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "at most %d log directories", MPB_MAX_LOG_DIRS);
    if (error != 0) {
        errno = -error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, PySequence_Fast_GET_ITEM(paths, (Py_ssize_t)bad));
    }
    while (n > 0)
        Py_DECREF(encoded[--n]);
    return PyErr_Occurred() ? -1 : 0;
}

static int log_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"core", "data_dirs", "process_slot", "open_segments", NULL};
    LogObject *self = (LogObject *)object;
    PyObject *core, *dirs;
    unsigned int slot = 0, segments = MPB_DEFAULT_OPEN_SEGMENTS;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|II", names, &core, &dirs, &slot, &segments))
        return -1;
    struct mpb_core *attached = mpb_core_of(core);
    if (attached == NULL || self->open) {
        if (attached != NULL)
            PyErr_SetString(PyExc_RuntimeError, "opened already");
        return -1;
    }
    if (segments > 1 << 16) {
        PyErr_SetString(PyExc_ValueError, "open_segments is at most 65536");
        return -1;
    }
    PyObject *paths = PySequence_Fast(dirs, "data_dirs is a sequence of paths");
    if (paths == NULL)
        return -1;
    int status = open_dirs(self, attached, paths, slot, segments);
    Py_DECREF(paths);
    if (status == 0) {
        self->core = Py_NewRef(core);
        self->open = true;
    }
    return status;
}

static PyObject *log_close(PyObject *object, PyObject *Py_UNUSED(none))
{
    LogObject *self = (LogObject *)object;
    if (self->open)
        mpb_log_close(&self->log);
    self->open = false;
    Py_CLEAR(self->core);
    Py_RETURN_NONE;
}

static void log_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(log_close(object, NULL));
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *log_state(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    struct mpb_partition_copy copy;
    const struct mpb_partition *row = &self->log.core->partitions[ordinal];
    bool read = mpb_load_acquire(&row->lock_made) != 0 && mpb_partition_peek(row, &copy);
    int error = read ? 0 : mpb_partition_snapshot(&self->log, ordinal, &copy);
    if (error != 0)
        return PyErr_Format(PyExc_RuntimeError, "partition row %u cannot be read: error %d", ordinal, error);
    PyObject *result = PyStructSequence_New(state_type);
    for (int i = 0; result != NULL && i < COPY_FIELD_COUNT; i++) {
        const char *at = (const char *)&copy + COPY_FIELDS[i].offset;
        size_t size = COPY_FIELDS[i].size;
        int64_t value = size == 8   ? *(const int64_t *)at
                        : size == 4 ? *(const int32_t *)at
                        : size == 2 ? *(const uint16_t *)at
                                    : *(const uint8_t *)at;
        PyStructSequence_SetItem(result, i, PyLong_FromLongLong(value));
    }
    if (result == NULL)
        return NULL;
    PyStructSequence_SetItem(result, COPY_FIELD_COUNT, PyLong_FromUnsignedLong(mpb_load_acquire(&row->flags)));
    PyStructSequence_SetItem(result, COPY_FIELD_COUNT + 1,
                             PyLong_FromLongLong((int64_t)mpb_load_acquire(&row->flushed_offset)));
    PyStructSequence_SetItem(result, COPY_FIELD_COUNT + 2, PyUnicode_FromString(row->dir));
    PyStructSequence_SetItem(result, COPY_FIELD_COUNT + 3,
                             PyLong_FromLongLong((int64_t)mpb_load_acquire(&row->start_written)));
    PyStructSequence_SetItem(result, COPY_FIELD_COUNT + 4, PyLong_FromUnsignedLong(row->log_dir));
    if (PyErr_Occurred())
        Py_CLEAR(result);
    return result;
}

static int read_state(PyObject *dict, struct mpb_partition_copy *out)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    memset(out, 0, sizeof *out);
    out->max_timestamp = out->max_timestamp_offset = out->first_timestamp = out->indexed_timestamp = -1;
    out->segment_count = 1;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        int i = 0;
        while (name != NULL && i < COPY_FIELD_COUNT && strcmp(name, COPY_FIELDS[i].name) != 0)
            i++;
        if (name == NULL || i == COPY_FIELD_COUNT) {
            PyErr_Format(PyExc_ValueError, "a partition's state has no %R", key);
            return -1;
        }
        int64_t number = PyLong_AsLongLong(value);
        if (!PyErr_Occurred() && COPY_FIELDS[i].size < 4)
            PyErr_Format(PyExc_ValueError, "%s is not loaded but told", name);
        if (PyErr_Occurred())
            return -1;
        char *to = (char *)out + COPY_FIELDS[i].offset;
        if (COPY_FIELDS[i].size == 4)
            *(int32_t *)to = (int32_t)number;
        else
            *(int64_t *)to = number;
    }
    return 0;
}

static bool parse_identity(PyObject *args, PyObject *kwargs, const char *format, char **names, unsigned int *ordinal,
                           struct mpb_partition_identity *identity, void *seventh, void *eighth, void *ninth)
{
    PyObject *topic_id;
    const uint8_t *unused;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, ordinal, &topic_id, &identity->topic_row,
                                     &identity->partition, &identity->log_dir, &identity->dir, seventh, eighth, ninth))
        return false;
    return mpb_py_topic_id(topic_id, identity->topic_id, &unused);
}

static PyObject *log_create(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "topic_id",     "topic_row", "partition", "log_dir",
                            "dir",     "leader_epoch", "now_ms",    NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_partition_identity identity = {.hidden = false};
    unsigned int ordinal;
    int leader_epoch;
    long long now_ms;
    if (!parse_identity(args, kwargs, "IOIIIsiL", names, &ordinal, &identity, &leader_epoch, &now_ms, NULL) ||
        !mpb_py_ordinal(self, ordinal))
        return NULL;
    return PyLong_FromLong(mpb_partition_create(&self->log, ordinal, &identity, leader_epoch, now_ms));
}

static PyObject *log_publish(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "topic_id", "topic_row", "partition", "log_dir", "dir", "state", "hidden", NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_partition_identity identity = {.hidden = false};
    struct mpb_partition_copy state;
    unsigned int ordinal;
    PyObject *dict;
    int hidden = 0;
    if (!parse_identity(args, kwargs, "IOIIIsO!|p", names, &ordinal, &identity, &PyDict_Type, &dict, &hidden) ||
        !mpb_py_ordinal(self, ordinal) || read_state(dict, &state) < 0)
        return NULL;
    identity.hidden = hidden != 0;
    return PyLong_FromLong(mpb_partition_publish(&self->log, ordinal, &identity, &state));
}

static PyObject *log_set_flags(PyObject *object, PyObject *args)
{
    unsigned int set, clear;
    MPB_ROW_ARGS("II:set_flags", &set, &clear);
    return PyLong_FromLong(mpb_partition_set_flags(&self->log, ordinal, set, clear));
}

#define SET_METHOD(name, function, type, letter)                      \
    static PyObject *name(PyObject *object, PyObject *args)           \
    {                                                                 \
        type value;                                                   \
        MPB_ROW_ARGS(letter, &value);                                 \
        return PyLong_FromLong(function(&self->log, ordinal, value)); \
    }
SET_METHOD(log_set_high_watermark, mpb_partition_set_high_watermark, long long, "L")
SET_METHOD(log_set_log_start, mpb_partition_set_log_start, long long, "L")

static PyObject *log_repair_slot(PyObject *object, PyObject *argument)
{
    LogObject *self = (LogObject *)object;
    unsigned long slot = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred() || !mpb_py_ordinal(self, 0))
        return NULL;
    return PyLong_FromUnsignedLong(mpb_repair_slot(&self->log, (uint32_t)slot));
}

static PyObject *log_is_busy(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    return PyBool_FromLong(mpb_partition_is_busy(&self->log, ordinal));
}

static PyMethodDef log_methods[] = {
    {"close", log_close, METH_NOARGS, "close(): closes every descriptor"},
    {"state", log_state, METH_O, "state(ordinal) -> PartitionState"},
    {"create", (PyCFunction)(void *)log_create, METH_VARARGS | METH_KEYWORDS,
     "create(ordinal, topic_id, topic_row, partition, log_dir, dir, leader_epoch, now_ms) -> error\n\n"
     "Makes the directory and an empty segment at offset 0, then publishes the partition."},
    {"publish", (PyCFunction)(void *)log_publish, METH_VARARGS | METH_KEYWORDS,
     "publish(ordinal, topic_id, topic_row, partition, log_dir, dir, state, hidden=False) -> error\n\n"
     "Shows a partition whose files exist; state has PartitionState's names, missing ones mean empty. If hidden, the\n"
     "row counts as free until set_flags(ordinal, EXISTS | ONLINE, 0)."},
    {"set_flags", log_set_flags, METH_VARARGS, "set_flags(ordinal, set, clear) -> error; enum mpb_partition_flags"},
    {"set_high_watermark", log_set_high_watermark, METH_VARARGS, "set_high_watermark(ordinal, offset) -> error"},
    {"set_log_start", log_set_log_start, METH_VARARGS,
     "set_log_start(ordinal, offset) -> error; above the high watermark is OFFSET_OUT_OF_RANGE"},
    {"is_busy", log_is_busy, METH_O,
     "is_busy(ordinal) -> bool: somebody waited for its lock in vain, and it is still not to be had. Who watches the\n"
     "partition is rung when its holder lets go"},
    {"repair_slot", log_repair_slot, METH_O,
     "repair_slot(slot) -> partitions repaired\n\nFor the successor of a dead process, before it re-queues anything."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot log_slots[] = {
    {Py_tp_doc, "Log(core, data_dirs, process_slot=0, open_segments=256): one thread's way to the partitions' logs.\n\n"
                "Errors are Kafka error codes, 0 for success."},
    {Py_tp_init, log_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, log_dealloc},
    {Py_tp_methods, NULL},
    {0, NULL},
};

static PyType_Spec log_spec = {"mpbroker._native.Log", sizeof(LogObject), 0, Py_TPFLAGS_DEFAULT, log_slots};

static PyObject *robust_lock_self_test(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    int rc = mpb_robust_lock_self_test();
    if (rc != 0) {
        errno = rc;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"robust_lock_self_test", robust_lock_self_test, METH_NOARGS,
     "robust_lock_self_test(): OSError if the lock of a dead thread is not inherited here; once, at start"},
    {NULL, NULL, 0, NULL},
};

/* One method table from the seven files; lives as long as the process. */
static PyMethodDef *all_methods(void)
{
    static PyMethodDef all[96];
    PyMethodDef *const parts[] = {log_methods,          mpb_log_append_methods, mpb_log_read_methods,
                                  mpb_log_keep_methods, mpb_log_txn_methods,    mpb_log_replica_methods,
                                  mpb_log_move_methods};
    size_t n = 0;
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (PyMethodDef *method = parts[part]; method->ml_name != NULL && n + 1 < sizeof all / sizeof *all; method++)
            all[n++] = *method;
    return all;
}

static int add_state_type(PyObject *module)
{
    for (int i = 0; i < COPY_FIELD_COUNT; i++)
        state_fields[i].name = COPY_FIELDS[i].name;
    state_fields[COPY_FIELD_COUNT].name = "flags";
    state_fields[COPY_FIELD_COUNT + 1].name = "flushed_offset";
    state_fields[COPY_FIELD_COUNT + 2].name = "dir";
    state_fields[COPY_FIELD_COUNT + 3].name = "start_written";
    state_fields[COPY_FIELD_COUNT + 4].name = "log_dir";
    state_type = PyStructSequence_NewType(&state_desc);
    return state_type == NULL ? -1 : PyModule_AddObjectRef(module, "PartitionState", (PyObject *)state_type);
}

int mpb_add_log(PyObject *module)
{
    for (PyType_Slot *slot = log_slots; slot->slot != 0; slot++)
        if (slot->slot == Py_tp_methods)
            slot->pfunc = all_methods();
    PyObject *type = PyType_FromSpec(&log_spec);
    int status = type == NULL ? -1 : PyModule_AddObjectRef(module, "Log", type);
    log_type = (PyTypeObject *)type; /* kept: the module is never unloaded */
    if (status < 0 || add_state_type(module) < 0 || mpb_add_log_replica(module) < 0 || mpb_add_log_append(module) < 0 ||
        mpb_add_log_read(module) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
