/* Binds transaction.h, marker.h and txn_index.h: what the transaction coordinator, recovery and readers ask a partition. */
#include "python/py_log.h"

#include "log/aborted.h"
#include "log/ended.h"
#include "log/leader_epochs.h"
#include "log/marker.h"
#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/transaction.h"
#include "log/txn_verify.h"

#define MOST_ABORTED_AT_ONCE 64

static PyObject *log_verify(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "producer_id", "epoch", "topic_id", "guard", NULL};
    LogObject *self = (LogObject *)object;
    unsigned int ordinal;
    long long producer_id;
    short epoch, guard = MPB_NO_GUARD;
    uint8_t id[16];
    const uint8_t *topic_id;
    PyObject *topic = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ILh|Oh", names, &ordinal, &producer_id, &epoch, &topic, &guard) ||
        !mpb_py_ordinal(self, ordinal) || !mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    return PyLong_FromLong(mpb_txn_verify(&self->log, ordinal, topic_id, producer_id, epoch, guard));
}

static PyObject *log_guard(PyObject *object, PyObject *args)
{
    LogObject *self = (LogObject *)object;
    unsigned int ordinal;
    long long producer_id;
    short epoch, guard;
    int16_t in_force;
    uint8_t id[16];
    const uint8_t *topic_id;
    PyObject *topic;
    if (!PyArg_ParseTuple(args, "ILhhO:guard", &ordinal, &producer_id, &epoch, &guard, &topic) ||
        !mpb_py_ordinal(self, ordinal) || !mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    int error = mpb_txn_guard(&self->log, ordinal, topic_id, producer_id, epoch, guard, &in_force);
    return Py_BuildValue("(ih)", error, in_force);
}

static PyObject *log_load_ended(PyObject *object, PyObject *args)
{
    PyObject *list;
    MPB_ROW_ARGS("O!:load_ended", &PyList_Type, &list);
    int error = mpb_partition_lock(&self->log, ordinal);
    if (error != 0)
        return PyLong_FromLong(error);
    const struct mpb_partition *row = &self->log.core->partitions[ordinal];
    struct mpb_replicas *replicas = mpb_replicas_of(self->log.core, row);
    int64_t hw = mpb_partition_in_force(row)->hw;
    long long first, end;
    bool good = true;
    for (Py_ssize_t i = 0; good && replicas != NULL && i < PyList_GET_SIZE(list); i++) {
        good = mpb_py_parse_row(PyList_GET_ITEM(list, i), "LL", &first, &end) != 0;
        if (good && end > hw)
            mpb_ended_note(replicas, hw, first, end);
    }
    mpb_partition_unlock(&self->log, ordinal);
    return good ? PyLong_FromLong(0) : NULL;
}

static PyObject *log_append_marker(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal",   "producer_id", "epoch",  "coordinator_epoch",
                            "committed", "options",     "now_ms", "leader_epoch",
                            "topic_id",  "entry",       "cell",   NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_marker marker = {.leader_epoch = -1, .entry = MPB_NO_REQUEST};
    PyObject *options, *topic = Py_None;
    long long producer_id, now_ms;
    int committed;
    uint8_t id[16];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ILhipO!L|iOII", names, &marker.ordinal, &producer_id,
                                     &marker.producer_epoch, &marker.coordinator_epoch, &committed,
                                     mpb_log_options_type, &options, &now_ms, &marker.leader_epoch, &topic,
                                     &marker.entry, &marker.cell) ||
        !mpb_py_ordinal(self, marker.ordinal) || !mpb_py_topic_id(topic, id, &marker.topic_id))
        return NULL;
    if (producer_id < 0 || marker.producer_epoch < 0) {
        PyErr_SetString(PyExc_ValueError, "a marker has a producer's id and epoch");
        return NULL;
    }
    marker.producer_id = producer_id;
    marker.commit = committed != 0;
    marker.now_ms = now_ms;
    struct mpb_append_result *result;
    PyObject *answer = mpb_py_append_result(&result);
    if (answer != NULL)
        mpb_append_marker(&self->log, &((LogOptionsObject *)options)->append, &marker, result);
    return answer;
}

static PyObject *aborted_list(const struct mpb_aborted *aborted, uint32_t count)
{
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *row = Py_BuildValue("(LL)", (long long)aborted[i].producer_id, (long long)aborted[i].first_offset);
        if (row == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, row);
    }
    return list;
}

static PyObject *log_aborted(PyObject *object, PyObject *args)
{
    LogObject *self = (LogObject *)object;
    struct mpb_aborted few[MOST_ABORTED_AT_ONCE], *found = few;
    uint32_t room = MOST_ABORTED_AT_ONCE, count = 0;
    const struct mpb_read_plan *plan;
    PyObject *plan_object, *list = NULL;
    long long fetch_offset;
    if (!PyArg_ParseTuple(args, "OL:aborted", &plan_object, &fetch_offset) ||
        (plan = mpb_py_read_plan(plan_object)) == NULL || !mpb_py_ordinal(self, plan->ordinal))
        return NULL;
    int error = mpb_log_aborted(&self->log, plan, fetch_offset, found, room, &count);
    while (error == 0 && count > room) { /* more may have been added since */
        room = count;
        struct mpb_aborted *grown = PyMem_Realloc(found == few ? NULL : found, room * sizeof *found);
        if (grown == NULL) {
            PyErr_NoMemory();
            goto done;
        }
        found = grown;
        error = mpb_log_aborted(&self->log, plan, fetch_offset, found, room, &count);
    }
    list = aborted_list(found, error == 0 ? count : 0);
done:
    if (found != few)
        PyMem_Free(found);
    return list == NULL ? NULL : Py_BuildValue("(iN)", error, list);
}

/* Calls `describe` for each of the partition's producers, under its lock. `describe` returns NULL to leave one out, or with
 * an exception. */
static PyObject *producer_rows(LogObject *self, unsigned int ordinal, bool stable,
                               PyObject *(*describe)(const struct mpb_producer *producer))
{
    int error = mpb_partition_lock(&self->log, ordinal);
    if (error != 0)
        return PyErr_Format(PyExc_RuntimeError, "partition row %u cannot be locked: error %d", ordinal, error);
    const struct mpb_partition *row = &self->log.core->partitions[ordinal];
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    PyObject *list = PyList_New(0);
    uint32_t chain = 0, at = 0;
    for (struct mpb_producer *p; list != NULL && (p = mpb_producer_next(self->log.core, row, &chain, &at)) != NULL;) {
        PyObject *item = describe(p);
        bool good = item != NULL ? PyList_Append(list, item) == 0 : PyErr_Occurred() == NULL;
        Py_XDECREF(item);
        if (!good)
            Py_CLEAR(list);
    }
    long long offset = stable ? now->lso : now->leo;
    mpb_partition_unlock(&self->log, ordinal);
    return list == NULL ? NULL : Py_BuildValue("(LN)", offset, list);
}

/* The last thing it wrote: a batch, or with no transaction open perhaps its marker. */
static long long last_timestamp_ms(const struct mpb_producer *producer, bool batch)
{
    bool ended = mpb_txn_first(producer) < 0 && mpb_txn_epochs_of(producer).marker >= 0;
    return batch && !ended ? mpb_producer_newest(producer)->timestamp_ms
                           : (long long)mpb_load_relaxed(&producer->written_ms);
}

static PyObject *open_row(const struct mpb_producer *producer)
{
    if (mpb_txn_first(producer) < 0)
        return NULL;
    bool batch = mpb_load_acquire(&producer->count) > 0;
    return Py_BuildValue("(LhiLLL)", (long long)producer->producer_id, mpb_producer_epoch(producer),
                         mpb_txn_epochs_of(producer).coordinator, (long long)mpb_txn_first(producer),
                         (long long)mpb_load_relaxed(&producer->txn_started_ms), last_timestamp_ms(producer, batch));
}

/* Batches of an epoch below that of the last marker are as good as none. */
static PyObject *entry_row(const struct mpb_producer *producer)
{
    int16_t epoch = mpb_producer_epoch(producer);
    if (epoch < 0)
        return NULL;
    bool batch = mpb_load_acquire(&producer->count) > 0 && mpb_producer_newest(producer)->epoch == epoch;
    const struct mpb_producer_batch none = {.base_offset = -1, .last_sequence = -1};
    const struct mpb_producer_batch *newest = batch ? mpb_producer_newest(producer) : &none;
    return Py_BuildValue("(LhiLiLiL)", (long long)producer->producer_id, epoch, newest->last_sequence,
                         (long long)(newest->base_offset + newest->last_offset_delta), newest->last_offset_delta,
                         last_timestamp_ms(producer, batch), mpb_txn_epochs_of(producer).coordinator,
                         (long long)mpb_txn_first(producer));
}

static PyObject *log_open_transactions(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    return producer_rows(self, ordinal, true, open_row);
}

static PyObject *log_producer_entries(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    return producer_rows(self, ordinal, false, entry_row);
}

static int load_one(LogObject *self, unsigned int ordinal, PyObject *item, int *error)
{
    struct mpb_txn_epochs epochs = {.verified = MPB_NO_EPOCH};
    long long producer_id, first, started_ms;
    if (!mpb_py_parse_row(item, "LhiLL", &producer_id, &epochs.marker, &epochs.coordinator, &first, &started_ms))
        return -1;
    *error = mpb_partition_lock(&self->log, ordinal);
    if (*error != 0)
        return 0;
    uint32_t row = mpb_producer_row(&self->log, ordinal, producer_id, false);
    if (row == 0)
        *error = MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
    else
        mpb_txn_restore(&self->log.core->producers[row - 1], epochs, first < 0 ? -1 : first, started_ms);
    mpb_partition_unlock(&self->log, ordinal);
    return 0;
}

static PyObject *log_load_transactions(PyObject *object, PyObject *args)
{
    PyObject *list;
    int error = 0;
    MPB_ROW_ARGS("O!:load_transactions", &PyList_Type, &list);
    for (Py_ssize_t i = 0; error == 0 && i < PyList_GET_SIZE(list); i++)
        if (load_one(self, ordinal, PyList_GET_ITEM(list, i), &error) < 0)
            return NULL;
    return PyLong_FromLong(error);
}

PyMethodDef mpb_log_txn_methods[] = {
    {"verify", (PyCFunction)(void *)log_verify, METH_VARARGS | METH_KEYWORDS,
     "verify(ordinal, producer_id, epoch, topic_id=None, guard=-1) -> error\n\n"
     "The coordinator says that the partition is part of the producer's transaction: its batches are taken from now "
     "on,\n"
     "until a marker. May be repeated. REQUEST_TIMED_OUT: the partition is busy; THROTTLING_QUOTA_EXCEEDED: the table "
     "of\n"
     "producers is full. With a guard: only if no marker came since `guard` gave it, else INVALID_TXN_STATE; epoch -1\n"
     "takes it back."},
    {"guard", log_guard, METH_VARARGS,
     "guard(ordinal, producer_id, epoch, guard, topic_id) -> (error, in force: a guard, or the epoch: it is "
     "verified)\n\n"
     "The coordinator, on another broker, is being asked about the producer; `guard` is below -1."},
    {"load_ended", log_load_ended, METH_VARARGS,
     "load_ended(ordinal, [(first offset, end of marker)]) -> error\n\n"
     "What recovery found of transactions that are over: those above the high watermark stay undecided until it "
     "passes."},
    {"append_marker", (PyCFunction)(void *)log_append_marker, METH_VARARGS | METH_KEYWORDS,
     "append_marker(ordinal, producer_id, epoch, coordinator_epoch, committed, options, now_ms, leader_epoch=-1,\n"
     "              topic_id=None, entry=NO_REQUEST, cell=0) -> AppendResult\n\n"
     "Ends the producer's transaction in this partition. INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."},
    {"aborted", log_aborted, METH_VARARGS,
     "aborted(plan, fetch_offset) -> (error, [(producer id, first offset)])\n\n"
     "Aborted transactions with records in what the plan reads, perhaps some more."},
    {"open_transactions", log_open_transactions, METH_O,
     "open_transactions(ordinal) -> (last stable offset, [(producer_id, epoch, coordinator_epoch, first_offset,\n"
     "started_ms, last_timestamp_ms)])"},
    {"producer_entries", log_producer_entries, METH_O,
     "producer_entries(ordinal) -> (end offset, rows), taken together under the lock\n\n"
     "A row, one for each producer, is (producer_id, epoch, last_sequence, last_offset, last_offset_delta,\n"
     "last_timestamp_ms, coordinator_epoch, first offset of its open transaction), -1 where there is none."},
    {"load_transactions", log_load_transactions, METH_VARARGS,
     "load_transactions(ordinal, [(producer_id, marker_epoch, coordinator_epoch, first_offset, started_ms)]) -> "
     "error\n\n"
     "What recovery found; -1 each: none."},
    {NULL, NULL, 0, NULL},
};
