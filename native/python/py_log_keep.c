/* Binds what the log keeper and log recovery do: truncation, retention, flush, producer state, cached descriptors. */
#include "python/py_log.h"

#include <time.h>

#include "log/delete_records.h"
#include "log/log_flush.h"
#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/producer_sweep.h"
#include "log/retain.h"
#include "log/segment.h"
#include "log/segment_list.h"
#include "log/swap.h"
#include "log/truncate.h"

static PyObject *log_truncate(PyObject *object, PyObject *args)
{
    long long offset;
    int error;
    MPB_ROW_ARGS("L:truncate", &offset);
    Py_BEGIN_ALLOW_THREADS
        error = mpb_truncate(&self->log, ordinal, offset);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(error);
}

static PyObject *log_swap(PyObject *object, PyObject *args)
{
    PyObject *topic;
    long long base, end;
    unsigned int truncations;
    uint8_t id[16];
    const uint8_t *topic_id;
    int error;
    MPB_ROW_ARGS("OLLI:swap", &topic, &base, &end, &truncations);
    if (!mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
        error = mpb_swap(&self->log, ordinal, topic_id, base, end, truncations);
    Py_END_ALLOW_THREADS
    return error == MPB_SWAP_CHANGED ? Py_NewRef(Py_None) : PyLong_FromLong(error);
}

static PyObject *log_retain(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "retention_ms", "retention_bytes", "now_ms", "topic_id", NULL};
    LogObject *self = (LogObject *)object;
    int64_t removed[MPB_RETAIN_MAX_REMOVED];
    uint32_t count = 0;
    unsigned int ordinal;
    long long retention_ms, retention_bytes, now_ms;
    int error;
    uint8_t id[16];
    const uint8_t *topic_id;
    PyObject *topic = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ILLL|O", names, &ordinal, &retention_ms, &retention_bytes, &now_ms,
                                     &topic) ||
        !mpb_py_ordinal(self, ordinal) || !mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    struct mpb_retain_rules rules = {retention_ms, retention_bytes, now_ms, topic_id};
    Py_BEGIN_ALLOW_THREADS
        error = mpb_retain(&self->log, ordinal, &rules, removed, &count);
    Py_END_ALLOW_THREADS
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *base = PyLong_FromLongLong(removed[i]);
        if (base == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, base);
    }
    return list == NULL ? NULL : Py_BuildValue("(iN)", error, list);
}

static PyObject *log_delete_records(PyObject *object, PyObject *args)
{
    long long offset;
    int64_t start = -1;
    PyObject *topic;
    uint8_t id[16];
    const uint8_t *topic_id;
    MPB_ROW_ARGS("LO:delete_records", &offset, &topic);
    if (!mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    int error = mpb_delete_records(&self->log, ordinal, topic_id, offset, &start);
    return Py_BuildValue("(iL)", error, (long long)start);
}

static PyObject *log_start_written(PyObject *object, PyObject *args)
{
    long long offset;
    PyObject *topic;
    uint8_t id[16];
    const uint8_t *topic_id;
    MPB_ROW_ARGS("LO:start_written", &offset, &topic);
    if (!mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    return PyLong_FromLong(mpb_start_written(&self->log, ordinal, topic_id, offset));
}

static PyObject *log_starts_asked(PyObject *object, PyObject *Py_UNUSED(none))
{
    LogObject *self = (LogObject *)object;
    uint32_t found[256], next = 0, count;
    PyObject *list = mpb_py_ordinal(self, 0) ? PyList_New(0) : NULL;
    do {
        count = list == NULL ? 0 : mpb_starts_asked(&self->log, &next, found, 256);
        for (uint32_t i = 0; list != NULL && i < count; i++) {
            PyObject *ordinal = PyLong_FromUnsignedLong(found[i]);
            if (ordinal == NULL || PyList_Append(list, ordinal) < 0)
                Py_CLEAR(list);
            Py_XDECREF(ordinal);
        }
    } while (count == 256);
    return list;
}

static PyObject *log_flush(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    int64_t flushed;
    int error;
    Py_BEGIN_ALLOW_THREADS
        error = mpb_log_flush(&self->log, ordinal, &flushed);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(iL)", error, (long long)flushed);
}

static PyObject *log_unflushed(PyObject *object, PyObject *argument)
{
    LogObject *self = (LogObject *)object;
    uint32_t found[256], next = 0, count;
    int rolled_only = PyObject_IsTrue(argument);
    PyObject *list = rolled_only < 0 || !mpb_py_ordinal(self, 0) ? NULL : PyList_New(0);
    do {
        count = list == NULL ? 0 : mpb_log_unflushed(&self->log, rolled_only, &next, found, 256);
        for (uint32_t i = 0; list != NULL && i < count; i++) {
            PyObject *ordinal = PyLong_FromUnsignedLong(found[i]);
            if (ordinal == NULL || PyList_Append(list, ordinal) < 0)
                Py_CLEAR(list);
            Py_XDECREF(ordinal);
        }
    } while (count == 256);
    return list;
}

static PyObject *log_set_flushed(PyObject *object, PyObject *args)
{
    long long offset;
    MPB_ROW_ARGS("L:set_flushed", &offset);
    return PyLong_FromLong(mpb_log_set_flushed(&self->log, ordinal, offset));
}

/* The number of one of the log's directories, else ValueError. */
static bool dir_number(LogObject *self, PyObject *number, uint32_t *log_dir)
{
    unsigned long value = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || !mpb_py_ordinal(self, 0))
        return false;
    if (value >= self->log.dir_count) {
        PyErr_Format(PyExc_ValueError, "no log directory %lu", value);
        return false;
    }
    *log_dir = (uint32_t)value;
    return true;
}

static PyObject *log_dir_online(PyObject *object, PyObject *argument)
{
    LogObject *self = (LogObject *)object;
    uint32_t log_dir;
    return dir_number(self, argument, &log_dir) ? PyBool_FromLong(mpb_log_dir_online(self->log.core, log_dir)) : NULL;
}

static PyObject *log_fail_dir(PyObject *object, PyObject *argument)
{
    LogObject *self = (LogObject *)object;
    uint32_t log_dir;
    if (!dir_number(self, argument, &log_dir))
        return NULL;
    mpb_log_dir_fail(self->log.core, log_dir);
    Py_RETURN_NONE;
}

static PyObject *log_takes_appends(PyObject *object, PyObject *argument)
{
    LogObject *self = (LogObject *)object;
    uint32_t log_dir;
    if (!dir_number(self, argument, &log_dir))
        return NULL;
    return PyBool_FromLong(mpb_log_dir_takes_appends(self->log.core, log_dir));
}

static PyObject *log_refuse_appends(PyObject *object, PyObject *args)
{
    LogObject *self = (LogObject *)object;
    PyObject *number;
    uint32_t log_dir;
    int refuse, groups = 0;
    if (!PyArg_ParseTuple(args, "Op|p:refuse_appends", &number, &refuse, &groups) ||
        !dir_number(self, number, &log_dir))
        return NULL;
    mpb_log_dir_refuse_appends(self->log.core, log_dir, refuse != 0);
    mpb_log_dir_refuse_groups(self->log.core, log_dir, refuse != 0 && groups != 0);
    Py_RETURN_NONE;
}

static int add_kept(PyObject *list, const struct mpb_producer *producer)
{
    struct mpb_producer_batch kept[MPB_PRODUCER_KEPT];
    uint32_t count = mpb_producer_kept(producer, kept);
    for (uint32_t i = 0; i < count; i++) {
        PyObject *row = Py_BuildValue("(LhiiLiL)", (long long)producer->producer_id, kept[i].epoch,
                                      kept[i].first_sequence, kept[i].last_sequence, (long long)kept[i].base_offset,
                                      kept[i].last_offset_delta, (long long)kept[i].timestamp_ms);
        int status = row == NULL ? -1 : PyList_Append(list, row);
        Py_XDECREF(row);
        if (status < 0)
            return -1;
    }
    return 0;
}

static PyObject *log_producers(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    int error = mpb_partition_lock(&self->log, ordinal);
    if (error != 0)
        return PyErr_Format(PyExc_RuntimeError, "partition row %u cannot be locked: error %d", ordinal, error);
    const struct mpb_partition *row = &self->log.core->partitions[ordinal];
    PyObject *list = PyList_New(0);
    uint32_t chain = 0, at = 0;
    for (struct mpb_producer *p; list != NULL && (p = mpb_producer_next(self->log.core, row, &chain, &at)) != NULL;)
        if (add_kept(list, p) < 0)
            Py_CLEAR(list);
    PyObject *result = list == NULL ? NULL : Py_BuildValue("(LN)", (long long)mpb_partition_in_force(row)->leo, list);
    mpb_partition_unlock(&self->log, ordinal);
    return result;
}

static int load_one(LogObject *self, unsigned int ordinal, PyObject *item, int *error)
{
    struct mpb_producer_batch batch = {0};
    long long producer_id, base_offset, timestamp_ms;
    struct timespec now;
    if (!mpb_py_parse_row(item, "LhiiLiL", &producer_id, &batch.epoch, &batch.first_sequence, &batch.last_sequence,
                          &base_offset, &batch.last_offset_delta, &timestamp_ms))
        return -1;
    batch.base_offset = base_offset;
    batch.timestamp_ms = timestamp_ms;
    clock_gettime(CLOCK_REALTIME, &now); /* a snapshot knows the batch's own time only: the future is not believed */
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    *error = mpb_partition_lock(&self->log, ordinal);
    if (*error != 0)
        return 0;
    uint32_t row = mpb_producer_row(&self->log, ordinal, producer_id, false);
    if (row == 0)
        *error = MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
    mpb_producer_keep(self->log.core, row, &batch, timestamp_ms < now_ms ? timestamp_ms : now_ms);
    mpb_partition_unlock(&self->log, ordinal);
    return 0;
}

static PyObject *log_load_producers(PyObject *object, PyObject *args)
{
    PyObject *list;
    int error = 0;
    MPB_ROW_ARGS("O!:load_producers", &PyList_Type, &list);
    for (Py_ssize_t i = 0; error == 0 && i < PyList_GET_SIZE(list); i++)
        if (load_one(self, ordinal, PyList_GET_ITEM(list, i), &error) < 0)
            return NULL;
    return PyLong_FromLong(error);
}

static PyObject *log_expire_producers(PyObject *object, PyObject *args)
{
    long long before_ms, once_before_ms;
    MPB_ROW_ARGS("LL:expire_producers", &before_ms, &once_before_ms);
    if (mpb_partition_lock(&self->log, ordinal) != 0)
        return PyLong_FromLong(0);
    uint32_t freed = mpb_producers_expire(&self->log, ordinal, before_ms, once_before_ms);
    mpb_partition_unlock(&self->log, ordinal);
    return PyLong_FromUnsignedLong(freed);
}

static PyObject *log_sweep_producers(PyObject *object, PyObject *Py_UNUSED(none))
{
    LogObject *self = (LogObject *)object;
    return mpb_py_ordinal(self, 0) ? PyLong_FromUnsignedLong(mpb_producers_sweep(&self->log)) : NULL;
}

static PyObject *log_producer_times(PyObject *object, PyObject *Py_UNUSED(none))
{
    LogObject *self = (LogObject *)object;
    if (!mpb_py_ordinal(self, 0))
        return NULL;
    struct mpb_core *core = self->log.core;
    uint32_t high = mpb_load_acquire(&core->header->producers_high);
    PyObject *once = PyList_New(0), *often = PyList_New(0);
    bool good = once != NULL && often != NULL;
    for (uint32_t i = 0; good && i < high && i < core->producer_count; i++) {
        int64_t time_ms;
        bool again;
        if (!mpb_producer_time(core, i, &time_ms, &again))
            continue;
        PyObject *number = PyLong_FromLongLong(time_ms);
        good = number != NULL && PyList_Append(again ? often : once, number) == 0;
        Py_XDECREF(number);
    }
    if (good)
        return Py_BuildValue("(INN)", core->producer_count, once, often);
    Py_XDECREF(once);
    Py_XDECREF(often);
    return NULL;
}

static PyObject *log_close_cached(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    mpb_segment_close_partition(&self->log, ordinal);
    Py_RETURN_NONE;
}

static PyObject *log_close_stale(PyObject *object, PyObject *Py_UNUSED(none))
{
    LogObject *self = (LogObject *)object;
    return mpb_py_ordinal(self, 0) ? PyLong_FromUnsignedLong(mpb_segment_close_stale(&self->log)) : NULL;
}

static PyObject *log_segments(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    struct mpb_partition_copy copy;
    if (mpb_partition_snapshot(&self->log, ordinal, &copy) != 0)
        return PyList_New(0);
    const struct mpb_segment_list *found;
    int error = mpb_segment_list_get(&self->log, &self->log.core->partitions[ordinal], &copy, &found);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; error == 0 && list != NULL && i < found->count; i++) {
        PyObject *base = PyLong_FromLongLong(found->bases[i]);
        if (base == NULL || PyList_Append(list, base) < 0)
            Py_CLEAR(list);
        Py_XDECREF(base);
    }
    return list;
}

PyMethodDef mpb_log_keep_methods[] = {
    {"truncate", log_truncate, METH_VARARGS, "truncate(ordinal, offset) -> error; nothing at or above offset stays"},
    {"swap", log_swap, METH_VARARGS,
     "swap(ordinal, topic_id, base, end, truncations) -> error, or None when the log was changed meanwhile\n\n"
     "The files BASE.*.compacted take the place of the segments from base up to end."},
    {"retain", (PyCFunction)(void *)log_retain, METH_VARARGS | METH_KEYWORDS,
     "retain(ordinal, retention_ms, retention_bytes, now_ms, topic_id=None) -> (error, bases)\n\n"
     "Moves log start and renames the files of old segments to .deleted; the caller unlinks those later. -1: no limit"},
    {"delete_records", log_delete_records, METH_VARARGS,
     "delete_records(ordinal, offset, topic_id) -> (error, log start)\n\n"
     "Moves log start up to an offset (-1: the high watermark); to be told when PartitionState.start_written is "
     "there."},
    {"starts_asked", log_starts_asked, METH_NOARGS,
     "starts_asked() -> rows whose log start was moved by delete_records and is not written down"},
    {"start_written", log_start_written, METH_VARARGS,
     "start_written(ordinal, offset, topic_id) -> error; a checkpoint says so. Rings who waits for it"},
    {"flush", log_flush, METH_O, "flush(ordinal) -> (error, flushed offset); no lock is held while the disk works"},
    {"unflushed", log_unflushed, METH_O,
     "unflushed(rolled_only) -> rows with unsynced records; rolled_only: below their active segment"},
    {"set_flushed", log_set_flushed, METH_VARARGS,
     "set_flushed(ordinal, offset) -> error; recovery knows that all below is on disk"},
    {"log_dir_online", log_dir_online, METH_O, "log_dir_online(log_dir) -> bool"},
    {"fail_log_dir", log_fail_dir, METH_O, "fail_log_dir(log_dir): takes it offline until the broker is started again"},
    {"takes_appends", log_takes_appends, METH_O, "takes_appends(log_dir) -> bool"},
    {"refuse_appends", log_refuse_appends, METH_VARARGS,
     "refuse_appends(log_dir, refuse, groups=False): whether appends are answered with KAFKA_STORAGE_ERROR; reads go "
     "on, and so does what groups and transactions write, but with groups"},
    {"segments", log_segments, METH_O, "segments(ordinal) -> bases of the segments on disk, ascending"},
    {"producers", log_producers, METH_O,
     "producers(ordinal) -> (end offset, rows), taken together under the lock\n\n"
     "A row is (producer_id, epoch, first_sequence, last_sequence, base_offset, last_offset_delta, timestamp_ms); the\n"
     "up to five rows of one producer stand together, oldest first."},
    {"load_producers", log_load_producers, METH_VARARGS,
     "load_producers(ordinal, rows) -> error; THROTTLING_QUOTA_EXCEEDED when the table is full"},
    {"expire_producers", log_expire_producers, METH_VARARGS,
     "expire_producers(ordinal, before_ms, once_before_ms) -> producers forgotten: last written before before_ms, "
     "those\n"
     "of a single batch before once_before_ms, by the broker's clock"},
    {"producer_times", log_producer_times, METH_NOARGS,
     "producer_times() -> (rows of the table, when producers of a single batch wrote, when the others wrote last), of "
     "all\n"
     "partitions, milliseconds of the broker's clock; a hint"},
    {"sweep_producers", log_sweep_producers, METH_NOARGS, "sweep_producers() -> rows freed that a dead process lost"},
    {"close_cached", log_close_cached, METH_O, "close_cached(ordinal): closes this process's descriptors of it"},
    {"close_stale", log_close_stale, METH_NOARGS, "close_stale() -> segments closed whose files were removed"},
    {NULL, NULL, 0, NULL},
};
