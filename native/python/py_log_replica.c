/* Binds become.h, isr.h and leader_epochs.h: roles, followers' fetches, the ISR and its proposals. */
#include "python/py_log.h"

#include <string.h>

#include "log/append_follower.h"
#include "log/become.h"
#include "log/epoch_scan.h"
#include "log/isr.h"
#include "log/partition_lock.h"
#include "log/replica_role.h"
#include "log/start_at.h"
#include "log/truncate.h"

static PyTypeObject *replica_state_type;

/* A sequence of broker ids. Returns their number, or -1 with an exception. */
static int read_ids(PyObject *object, int32_t out[MPB_MAX_REPLICAS])
{
    PyObject *ids = PySequence_Fast(object, "broker ids are a sequence");
    if (ids == NULL)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(ids);
    if (count > MPB_MAX_REPLICAS)
        PyErr_Format(PyExc_ValueError, "at most %d replicas", MPB_MAX_REPLICAS);
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++)
        out[i] = (int32_t)PyLong_AsLong(PySequence_Fast_GET_ITEM(ids, i));
    Py_DECREF(ids);
    return PyErr_Occurred() ? -1 : (int)count;
}

static PyObject *id_tuple(const int32_t *ids, uint32_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; tuple != NULL && i < count; i++)
        PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, PyLong_FromLong(ids[i]));
    if (PyErr_Occurred())
        Py_CLEAR(tuple);
    return tuple;
}

static PyObject *log_become(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "role",    "leader_epoch", "partition_epoch", "replicas", "isr",
                            "self_id", "min_isr", "now_ms",       "leader",          NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_new_role role = {.leader = -1};
    unsigned int ordinal;
    int number;
    PyObject *replicas, *isr;
    long long now_ms;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IiiiOOiiL|i", names, &ordinal, &number, &role.leader_epoch,
                                     &role.partition_epoch, &replicas, &isr, &role.self, &role.min_isr, &now_ms,
                                     &role.leader) ||
        !mpb_py_ordinal(self, ordinal))
        return NULL;
    if (number != MPB_ROLE_LEADER && number != MPB_ROLE_FOLLOWER)
        return PyErr_Format(PyExc_ValueError, "one becomes leader or follower, not %d", number);
    int replica_count = read_ids(replicas, role.replicas);
    int isr_count = replica_count < 0 ? -1 : read_ids(isr, role.isr);
    if (isr_count < 0)
        return NULL;
    role.role = (enum mpb_replica_role)number;
    role.replica_count = (uint32_t)replica_count;
    role.isr_count = (uint32_t)isr_count;
    role.now_ms = now_ms;
    return PyLong_FromLong(mpb_become(&self->log, ordinal, &role));
}

static PyObject *log_is_replicated(PyObject *object, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(((LogObject *)object)->log.core->replica_count != 0);
}

static PyObject *log_stop(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    return PyLong_FromLong(mpb_stop(&self->log, ordinal));
}

/* The (epoch, start offset) pairs of a list, to be freed with PyMem_Free; NULL with an exception. */
static struct mpb_epoch_start *epochs_of(PyObject *list, uint32_t *count)
{
    Py_ssize_t size = PyList_GET_SIZE(list);
    struct mpb_epoch_start *epochs = PyMem_Calloc((size_t)size + 1, sizeof *epochs);
    if (epochs == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; epochs != NULL && i < size && !PyErr_Occurred(); i++) {
        long long offset = 0;
        mpb_py_parse_row(PyList_GET_ITEM(list, i), "iL", &epochs[i].epoch, &offset);
        epochs[i].offset = offset;
    }
    *count = (uint32_t)size;
    if (PyErr_Occurred()) {
        PyMem_Free(epochs);
        return NULL;
    }
    return epochs;
}

static PyObject *log_load_epochs(PyObject *object, PyObject *args)
{
    PyObject *list;
    uint32_t count;
    MPB_ROW_ARGS("O!:load_epochs", &PyList_Type, &list);
    struct mpb_epoch_start *epochs = epochs_of(list, &count);
    if (epochs == NULL)
        return NULL;
    int error = mpb_load_epochs(&self->log, ordinal, epochs, count);
    PyMem_Free(epochs);
    return PyLong_FromLong(error);
}

enum { MOST_SCANNED_EPOCHS = 65536 };

static PyObject *log_scan_epochs(PyObject *object, PyObject *args)
{
    long long offset;
    uint32_t count = 0;
    int error;
    MPB_ROW_ARGS("L:scan_epochs", &offset);
    struct mpb_epoch_start *found = PyMem_Malloc(MOST_SCANNED_EPOCHS * sizeof *found);
    if (found == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
        error = mpb_epoch_scan(&self->log, ordinal, offset, found, MOST_SCANNED_EPOCHS, &count);
    Py_END_ALLOW_THREADS
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < count && i < MOST_SCANNED_EPOCHS; i++) {
        PyObject *item = Py_BuildValue("(iL)", found[i].epoch, (long long)found[i].offset);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyMem_Free(found);
    return list == NULL ? NULL : Py_BuildValue("(iN)", error, list);
}

/* A lock that is not to be had for now is a TimeoutError: whoever asks tries again. */
static PyObject *not_locked(uint32_t ordinal, int error)
{
    PyObject *kind = error == MPB_ERR_REQUEST_TIMED_OUT ? PyExc_TimeoutError : PyExc_RuntimeError;
    return PyErr_Format(kind, "partition row %u cannot be locked: error %d", ordinal, error);
}

static PyObject *log_epochs(PyObject *object, PyObject *argument)
{
    struct mpb_epoch_start epoch[MPB_KEPT_EPOCHS];
    bool has_older;
    MPB_ROW_ARG();
    int error = mpb_partition_lock(&self->log, ordinal);
    if (error != 0)
        return not_locked(ordinal, error);
    const struct mpb_partition *row = &self->log.core->partitions[ordinal];
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    uint32_t begun = now->epochs, count = mpb_epochs_read(self->log.core, row, now, epoch, &has_older);
    mpb_partition_unlock(&self->log, ordinal);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (uint32_t i = 0; list != NULL && i < count; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, Py_BuildValue("(iL)", epoch[i].epoch, (long long)epoch[i].offset));
    if (list == NULL || PyErr_Occurred()) {
        Py_XDECREF(list);
        return NULL;
    }
    return Py_BuildValue("(INN)", begun, PyBool_FromLong(has_older), list);
}

static PyObject *log_epochs_written(PyObject *object, PyObject *args)
{
    PyObject *list;
    uint32_t count;
    MPB_ROW_ARGS("O!:epochs_written", &PyList_Type, &list);
    struct mpb_epoch_start *epochs = epochs_of(list, &count);
    if (epochs == NULL)
        return NULL;
    int error = mpb_partition_lock(&self->log, ordinal);
    if (error == 0) {
        mpb_epochs_written(self->log.core, &self->log.core->partitions[ordinal], epochs, count);
        mpb_partition_unlock(&self->log, ordinal);
    }
    PyMem_Free(epochs);
    if (error != 0)
        return not_locked(ordinal, error);
    Py_RETURN_NONE;
}

static PyObject *log_follower_fetched(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal",    "broker",    "broker_epoch", "leader_epoch", "offset",
                            "last_epoch", "log_start", "now_ms",       "topic_id",     NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_follower_fetch fetch;
    struct mpb_follower_answer answer;
    unsigned int ordinal;
    long long broker_epoch, offset, log_start, now_ms;
    PyObject *topic = Py_None;
    uint8_t id[16];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IiLiLiLL|O", names, &ordinal, &fetch.broker, &broker_epoch,
                                     &fetch.leader_epoch, &offset, &fetch.last_epoch, &log_start, &now_ms, &topic) ||
        !mpb_py_ordinal(self, ordinal) || !mpb_py_topic_id(topic, id, &fetch.topic_id))
        return NULL;
    fetch.broker_epoch = broker_epoch;
    fetch.offset = offset;
    fetch.log_start = log_start;
    fetch.now_ms = now_ms;
    mpb_follower_fetched(&self->log, ordinal, &fetch, &answer);
    return Py_BuildValue("(iNiLN)", answer.error, PyBool_FromLong(answer.ask_file), answer.diverging.epoch,
                         (long long)answer.diverging.offset, PyBool_FromLong(answer.proposed));
}

static PyObject *log_append_follower(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal",          "leader_epoch", "offset", "records",  "leader_hw",
                            "leader_log_start", "options",      "now_ms", "topic_id", NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_follower_append request;
    struct mpb_follower_appended appended;
    PyObject *options, *topic = Py_None;
    Py_buffer records;
    long long offset, hw, log_start, now_ms;
    uint8_t id[16];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IiLy*LLO!L|O", names, &request.ordinal, &request.leader_epoch,
                                     &offset, &records, &hw, &log_start, mpb_log_options_type, &options, &now_ms,
                                     &topic))
        return NULL;
    bool good = mpb_py_ordinal(self, request.ordinal) && mpb_py_topic_id(topic, id, &request.topic_id);
    request.offset = offset;
    request.records = records.buf;
    request.length = (size_t)records.len;
    request.leader_hw = hw;
    request.leader_log_start = log_start;
    request.now_ms = now_ms;
    const struct mpb_append_options *rules = &((LogOptionsObject *)options)->append;
    if (good) {
        Py_BEGIN_ALLOW_THREADS
            mpb_append_follower(&self->log, rules, &request, &appended);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&records);
    return !good ? NULL
                 : Py_BuildValue("(iILLiL)", appended.error, appended.batches, (long long)appended.leo,
                                 (long long)appended.hw, appended.last_epoch, (long long)appended.log_start);
}

static PyObject *log_truncate_follower(PyObject *object, PyObject *args)
{
    long long offset, now_ms;
    int leader_epoch, error;
    MPB_ROW_ARGS("LiL:truncate_follower", &offset, &leader_epoch, &now_ms);
    Py_BEGIN_ALLOW_THREADS
        error = mpb_truncate_follower(&self->log, ordinal, offset, leader_epoch, now_ms);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(error);
}

/* A row as a fetcher needs it; NULL without an exception: it is not followed. *busy: its lock is not to be had. */
static PyObject *followed_row(LogObject *self, uint32_t ordinal, uint32_t *busy)
{
    struct mpb_core *core = self->log.core;
    const struct mpb_partition *row = &core->partitions[ordinal];
    struct mpb_partition_copy now;
    if (mpb_load_acquire(&row->lock_made) == 0 || (mpb_load_acquire(&row->flags) & MPB_PART_ONLINE) == 0)
        return NULL;
    if (mpb_partition_try_snapshot(row, &now) && now.role != MPB_ROLE_FOLLOWER)
        return NULL;
    int error = mpb_partition_lock_usable(&self->log, ordinal, NULL);
    if (error != 0) {
        *busy += error == MPB_ERR_REQUEST_TIMED_OUT;
        return NULL;
    }
    now = *mpb_partition_in_force(row);
    int32_t last_epoch = mpb_epochs_latest(core, row, &now);
    uint8_t id[16];
    memcpy(id, row->topic_id, sizeof id);
    uint32_t partition = row->partition;
    mpb_partition_unlock(&self->log, ordinal);
    if (now.role != MPB_ROLE_FOLLOWER || now.leader < 0)
        return NULL;
    return Py_BuildValue("(Iy#IiiLiLL)", ordinal, (const char *)id, (Py_ssize_t)sizeof id, partition, now.leader,
                         now.leader_epoch, (long long)now.leo, last_epoch, (long long)now.log_start, (long long)now.hw);
}

static PyObject *log_followed(PyObject *object, PyObject *args)
{
    LogObject *self = (LogObject *)object;
    unsigned int index, fetchers, busy = 0;
    int only = -1;
    if (!PyArg_ParseTuple(args, "II|i:followed", &index, &fetchers, &only) || !mpb_py_ordinal(self, 0))
        return NULL;
    if (fetchers == 0) {
        PyErr_SetString(PyExc_ValueError, "at least one fetcher");
        return NULL;
    }
    const struct mpb_core *core = self->log.core;
    uint32_t high = core->replica_count == 0 ? 0 : mpb_load_acquire(&core->header->partitions_high);
    PyObject *list = PyList_New(0);
    for (uint32_t i = only >= 0 ? (uint32_t)only : index; list != NULL && i < high; i += only >= 0 ? high : fetchers) {
        PyObject *item = followed_row(self, i, &busy);
        if (item == NULL && !PyErr_Occurred())
            continue;
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list == NULL ? NULL : Py_BuildValue("(IN)", busy, list);
}

static PyObject *log_start_at(PyObject *object, PyObject *args)
{
    long long offset, now_ms;
    int leader_epoch;
    MPB_ROW_ARGS("LiL:start_at", &offset, &leader_epoch, &now_ms);
    return PyLong_FromLong(mpb_start_at(&self->log, ordinal, offset, leader_epoch, now_ms));
}

/* Whether it may be worth the lock: a leader, and somebody else in sync or to come. */
static bool may_propose(const struct mpb_core *core, uint32_t ordinal)
{
    struct mpb_partition_copy copy;
    const struct mpb_partition *row = &core->partitions[ordinal];
    if (mpb_load_acquire(&row->lock_made) == 0 || (mpb_load_acquire(&row->flags) & MPB_PART_ONLINE) == 0)
        return false;
    return !mpb_partition_try_snapshot(row, &copy) ||
           (copy.role == MPB_ROLE_LEADER && (copy.maximal_isr & ~(1u << copy.self)) != 0);
}

static PyObject *log_take_isr_proposals(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lag_ms", "now_ms", "again", NULL};
    LogObject *self = (LogObject *)object;
    long long lag_ms = -1, now_ms = 0;
    int again = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|LLp", names, &lag_ms, &now_ms, &again) || !mpb_py_ordinal(self, 0))
        return NULL;
    struct mpb_core *core = self->log.core;
    bool busy = false;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0;
         list != NULL && i < core->replica_count && i < mpb_load_acquire(&core->header->partitions_high); i++) {
        struct mpb_isr_proposal proposal;
        if (lag_ms >= 0 && may_propose(core, i))
            mpb_isr_shrink(&self->log, i, lag_ms, now_ms);
        int taken = mpb_isr_take_proposal(&self->log, i, again != 0, &proposal);
        busy = busy || taken == MPB_ERR_REQUEST_TIMED_OUT;
        if (taken != 1)
            continue;
        PyObject *item = Py_BuildValue("(IiiN)", i, proposal.leader_epoch, proposal.partition_epoch,
                                       id_tuple(proposal.isr, proposal.isr_count));
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list == NULL ? NULL : Py_BuildValue("(NN)", list, PyBool_FromLong(busy));
}

static PyObject *log_isr_answered(PyObject *object, PyObject *args)
{
    struct mpb_isr_proposal answer = {0};
    PyObject *isr;
    int error;
    MPB_ROW_ARGS("iiOi:isr_answered", &answer.leader_epoch, &answer.partition_epoch, &isr, &error);
    int count = read_ids(isr, answer.isr);
    if (count < 0)
        return NULL;
    answer.ordinal = ordinal;
    answer.isr_count = (uint32_t)count;
    return PyLong_FromLong(mpb_isr_answered(&self->log, &answer, error));
}

enum { STATE_FIELDS = 14 };
static PyStructSequence_Field state_fields[STATE_FIELDS + 1] = {{"role", NULL},
                                                                {"leader", NULL},
                                                                {"leader_epoch", NULL},
                                                                {"leader_since", NULL},
                                                                {"partition_epoch", NULL},
                                                                {"epoch_start", NULL},
                                                                {"log_start", NULL},
                                                                {"leo", NULL},
                                                                {"hw", NULL},
                                                                {"min_isr", NULL},
                                                                {"replicas", NULL},
                                                                {"isr", NULL},
                                                                {"maximal_isr", NULL},
                                                                {"followers", NULL},
                                                                {NULL, NULL}};
static PyStructSequence_Desc state_desc = {"mpbroker._native.ReplicaState", "What this broker is for a partition.",
                                           state_fields, STATE_FIELDS};

static PyObject *places_tuple(const int32_t *ids, uint16_t places)
{
    int32_t out[MPB_MAX_REPLICAS];
    uint32_t count = 0;
    for (int place = 0; place < MPB_MAX_REPLICAS; place++)
        if ((places >> place & 1) != 0)
            out[count++] = ids[place];
    return id_tuple(out, count);
}

/* (broker, log end, when it had caught up, its broker epoch) of each that fetched in this epoch. */
static PyObject *follower_tuple(const struct mpb_replicas *replicas, const struct mpb_partition_copy *now)
{
    PyObject *list = PyList_New(0);
    for (int place = 0; list != NULL && place < MPB_MAX_REPLICAS; place++) {
        int32_t id = replicas->ids[now->ids_at & 1][place];
        const struct mpb_replica_place *at = &replicas->place[place];
        if (mpb_load_relaxed(&at->tag) != ((uint64_t)(uint32_t)now->leader_epoch << 32 | (uint32_t)id) + 1)
            continue;
        PyObject *item = Py_BuildValue("(iLLL)", id, (long long)mpb_load_relaxed(&at->leo), (long long)at->caught_up_ms,
                                       (long long)at->broker_epoch);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyObject *tuple = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return tuple;
}

static PyObject *log_replica_state(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    if (self->log.core->replica_count == 0)
        Py_RETURN_NONE;
    int error = mpb_partition_lock(&self->log, ordinal);
    if (error != 0)
        return not_locked(ordinal, error);
    const struct mpb_partition_copy now = *mpb_partition_in_force(&self->log.core->partitions[ordinal]);
    const struct mpb_replicas replicas = self->log.core->replicas[ordinal];
    mpb_partition_unlock(&self->log, ordinal);
    const int32_t *ids = replicas.ids[now.ids_at & 1];
    uint32_t count = 0;
    while (count < MPB_MAX_REPLICAS && ids[count] >= 0)
        count++;
    const long long numbers[] = {
        now.role,        now.leader,    now.leader_epoch, now.leader_since, now.partition_epoch,
        now.epoch_start, now.log_start, now.leo,          now.hw,           now.min_isr};
    PyObject *state = PyStructSequence_New(replica_state_type);
    Py_ssize_t at = 0;
    for (; state != NULL && at < (Py_ssize_t)(sizeof numbers / sizeof *numbers); at++)
        PyStructSequence_SetItem(state, at, PyLong_FromLongLong(numbers[at]));
    if (state == NULL)
        return NULL;
    PyStructSequence_SetItem(state, at++, id_tuple(ids, count));
    PyStructSequence_SetItem(state, at++, places_tuple(ids, now.isr));
    PyStructSequence_SetItem(state, at++, places_tuple(ids, now.maximal_isr));
    PyStructSequence_SetItem(state, at, follower_tuple(&replicas, &now));
    if (PyErr_Occurred())
        Py_CLEAR(state);
    return state;
}

PyMethodDef mpb_log_replica_methods[] = {
    {"become", (PyCFunction)(void *)log_become, METH_VARARGS | METH_KEYWORDS,
     "become(ordinal, role, leader_epoch, partition_epoch, replicas, isr, self_id, min_isr, now_ms, leader=-1) -> "
     "error\n\n"
     "Leader or follower from now on, in one commit. The same role and epoch again: 0, and min.insync.replicas anew."},
    {"is_replicated", log_is_replicated, METH_NOARGS, "is_replicated() -> bool: the broker is one of a cluster"},
    {"stop", log_stop, METH_O, "stop(ordinal) -> error: neither leader nor follower; the epochs stay"},
    {"replica_state", log_replica_state, METH_O, "replica_state(ordinal) -> ReplicaState; None in a broker alone"},
    {"load_epochs", log_load_epochs, METH_VARARGS,
     "load_epochs(ordinal, [(epoch, start offset)]) -> error: at a start, rising; the role is none"},
    {"scan_epochs", log_scan_epochs, METH_VARARGS,
     "scan_epochs(ordinal, offset) -> (error, [(epoch, start offset)]) as the batches from there on say"},
    {"epochs", log_epochs, METH_O,
     "epochs(ordinal) -> (epochs ever begun, whether the file knows older ones, [(epoch, start offset)])"},
    {"epochs_written", log_epochs_written, METH_VARARGS,
     "epochs_written(ordinal, [(epoch, start offset)]): these, rising, stand in the file"},
    {"follower_fetched", (PyCFunction)(void *)log_follower_fetched, METH_VARARGS | METH_KEYWORDS,
     "follower_fetched(ordinal, broker, broker_epoch, leader_epoch, offset, last_epoch, log_start, now_ms,\n"
     "                 topic_id=None) -> (error, ask the file, diverging epoch, its end, ISR change proposed)"},
    {"append_follower", (PyCFunction)(void *)log_append_follower, METH_VARARGS | METH_KEYWORDS,
     "append_follower(ordinal, leader_epoch, offset, records, leader_hw, leader_log_start, options, now_ms,\n"
     "                topic_id=None) -> (error, batches appended, log end, high watermark, last epoch, log start)\n\n"
     "Batches as the leader has them, at the end where they were fetched from; no other role, epoch or end."},
    {"truncate_follower", log_truncate_follower, METH_VARARGS,
     "truncate_follower(ordinal, offset, leader_epoch, now_ms) -> error: where the leader's log and this one part"},
    {"followed", log_followed, METH_VARARGS,
     "followed(index, fetchers, only=-1) -> (rows that are busy, [(ordinal, topic id, partition, leader, leader "
     "epoch,\n"
     "log end, last epoch, log start, high watermark)]): the followers among every `fetchers`th row, or one row"},
    {"start_at", log_start_at, METH_VARARGS,
     "start_at(ordinal, offset, leader_epoch, now_ms) -> error: everything out, the log begins at the offset"},
    {"take_isr_proposals", (PyCFunction)(void *)log_take_isr_proposals, METH_VARARGS | METH_KEYWORDS,
     "take_isr_proposals(lag_ms=-1, now_ms=0, again=False)\n"
     " -> ([(ordinal, leader epoch, partition epoch, isr)], busy)\n\n"
     "Changes of the ISR to ask the controller for. lag_ms >= 0: looks first who has fallen behind. again: also\n"
     "those that a predecessor took. busy: somewhere a lock was not to be had, so that there may be more."},
    {"isr_answered", log_isr_answered, METH_VARARGS,
     "isr_answered(ordinal, leader_epoch, partition_epoch, isr, error) -> error: what the controller said"},
    {NULL, NULL, 0, NULL},
};

int mpb_add_log_replica(PyObject *module)
{
    replica_state_type = PyStructSequence_NewType(&state_desc);
    return replica_state_type == NULL ? -1
                                      : PyModule_AddObjectRef(module, "ReplicaState", (PyObject *)replica_state_type);
}
