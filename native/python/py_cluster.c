/* Binds cluster.c: what this broker was told of its cluster, as plain functions over a Core; and the bytes of a request that
 * a handler holds, for the process that executes its command. mpbroker/shm/cluster_table.py describes them. */
#include "python/py_shm.h"
#include "shm/arena.h"
#include "shm/cluster.h"
#include <string.h>

static bool within(uint32_t row, uint32_t count, const char *table)
{
    if (row < count)
        return true;
    PyErr_Format(PyExc_IndexError, "no row %u of %s, there are %u", row, table, count);
    return false;
}

static bool read_ids(PyObject *ids, int32_t *to, uint8_t *count)
{
    PyObject *fast = PySequence_Fast(ids, "broker ids are a sequence");
    if (fast == NULL)
        return false;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    if (n > MPB_MAX_ASSIGNED)
        PyErr_Format(PyExc_ValueError, "%zd replicas, allowed are %d", n, MPB_MAX_ASSIGNED);
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        to[i] = (int32_t)PyLong_AsLong(PySequence_Fast_GET_ITEM(fast, i));
    *count = (uint8_t)n;
    Py_DECREF(fast);
    return !PyErr_Occurred();
}

static PyObject *assignment_write(PyObject *module, PyObject *args)
{
    unsigned int row;
    const char *id;
    Py_ssize_t id_length;
    PyObject *replicas, *isr, *offline;
    struct mpb_assignment_copy next = {.partition = 0};
    (void)module;
    MPB_TARGET_ARGS("Iy#iiiiiOOO", &row, &id, &id_length, &next.partition, &next.leader, &next.leader_epoch,
                    &next.partition_epoch, &next.controller_epoch, &replicas, &isr, &offline);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL || !within(row, core->assignment_count, "assignments"))
        return NULL;
    if (id_length != 16)
        return PyErr_Format(PyExc_ValueError, "a topic id has 16 bytes");
    memcpy(next.topic_id, id, 16);
    if (!read_ids(replicas, next.replicas, &next.replica_count) || !read_ids(isr, next.isr, &next.isr_count) ||
        !read_ids(offline, next.offline, &next.offline_count))
        return NULL;
    mpb_assignment_write(core, row, &next);
    Py_RETURN_NONE;
}

static PyObject *ids_of(const int32_t *ids, uint8_t count)
{
    PyObject *list = PyList_New(count);
    for (uint8_t i = 0; list != NULL && i < count; i++) {
        PyObject *id = PyLong_FromLong(ids[i]);
        if (id == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, id);
    }
    return list;
}

static PyObject *assignment_read(PyObject *module, PyObject *args)
{
    unsigned int row;
    struct mpb_assignment_copy copy;
    static const uint8_t nobody[16];
    (void)module;
    MPB_TARGET_ARGS("I", &row);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL || !within(row, core->assignment_count, "assignments"))
        return NULL;
    if (mpb_assignment_read(core, row, &copy) != 0)
        return PyErr_Format(PyExc_RuntimeError, "assignment row %u changes all the time", row);
    if (memcmp(copy.topic_id, nobody, 16) == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(y#iiiiiNNN)", copy.topic_id, (Py_ssize_t)16, copy.partition, copy.leader, copy.leader_epoch,
                         copy.partition_epoch, copy.controller_epoch, ids_of(copy.replicas, copy.replica_count),
                         ids_of(copy.isr, copy.isr_count), ids_of(copy.offline, copy.offline_count));
}

static PyObject *broker_write(PyObject *module, PyObject *args)
{
    unsigned int row;
    const char *endpoints;
    Py_ssize_t length;
    long long epoch;
    struct mpb_broker_copy next;
    memset(&next, 0, sizeof next);
    (void)module;
    MPB_TARGET_ARGS("IiLy#", &row, &next.id, &epoch, &endpoints, &length);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL || !within(row, core->broker_count, "brokers"))
        return NULL;
    if (length > MPB_BROKER_BYTES)
        return PyErr_Format(PyExc_ValueError, "%zd bytes of endpoints, allowed are %d", length, MPB_BROKER_BYTES);
    next.epoch = epoch;
    next.length = (uint32_t)length;
    memcpy(next.endpoints, endpoints, (size_t)length);
    mpb_broker_write(core, row, &next);
    Py_RETURN_NONE;
}

static PyObject *broker_read(PyObject *module, PyObject *args)
{
    unsigned int row;
    struct mpb_broker_copy copy;
    (void)module;
    MPB_TARGET_ARGS("I", &row);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL || !within(row, core->broker_count, "brokers"))
        return NULL;
    if (mpb_broker_read(core, row, &copy) != 0)
        return PyErr_Format(PyExc_RuntimeError, "broker row %u changes all the time", row);
    if (copy.length == 0 || copy.length > MPB_BROKER_BYTES)
        Py_RETURN_NONE;
    return Py_BuildValue("(iLy#)", copy.id, (long long)copy.epoch, copy.endpoints, (Py_ssize_t)copy.length);
}

static PyObject *cluster_state(PyObject *module, PyObject *object)
{
    (void)module;
    struct mpb_core *core = mpb_core_of(object);
    if (core == NULL)
        return NULL;
    uint64_t generation = mpb_load_acquire(&core->header->cluster_generation);
    uint64_t word = mpb_load_acquire(&core->header->cluster_controller);
    return Py_BuildValue("(KiiL)", (unsigned long long)generation, (int)(int32_t)(uint32_t)word - 1,
                         (int)(int32_t)(uint32_t)(word >> 32),
                         (long long)mpb_load_acquire(&core->header->broker_epoch) - 1);
}

static PyObject *cluster_announce(PyObject *module, PyObject *args)
{
    int controller, controller_epoch;
    long long broker_epoch;
    (void)module;
    MPB_TARGET_ARGS("iiL", &controller, &controller_epoch, &broker_epoch);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL)
        return NULL;
    mpb_store_release(&core->header->cluster_controller,
                      (uint64_t)(uint32_t)controller_epoch << 32 | (uint32_t)(controller + 1));
    mpb_store_release(&core->header->broker_epoch, (uint64_t)(broker_epoch + 1));
    uint64_t generation = mpb_load_relaxed(&core->header->cluster_generation) + 1;
    mpb_store_release(&core->header->cluster_generation, generation);
    return PyLong_FromUnsignedLongLong(generation);
}

static PyObject *broker_rows(PyObject *module, PyObject *object)
{
    (void)module;
    struct mpb_core *core = mpb_core_of(object);
    return core ? PyLong_FromUnsignedLong(core->broker_count) : NULL;
}

/* The frame of a request that a handler has parked. The handler's successor answers it, or a later request fills the entry
 * while we read: the fill number tells. */
static PyObject *held_payload(PyObject *module, PyObject *args)
{
    unsigned int index;
    unsigned long long fill_number;
    (void)module;
    MPB_TARGET_ARGS("IK", &index, &fill_number);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL || !within(index, core->entry_count, "entries"))
        return NULL;
    const struct mpb_entry *entry = &core->entries[index];
    uint64_t offset = entry->payload_offset, length = entry->payload_length;
    bool is_inline = offset == MPB_PAYLOAD_INLINE;
    uint64_t limit = is_inline ? sizeof entry->payload_bytes : core->header->arena_bytes;
    if (length > limit || (!is_inline && offset > limit - length) || entry->fill_number != fill_number)
        Py_RETURN_NONE;
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)mpb_payload(core, entry), (Py_ssize_t)length);
    atomic_thread_fence(memory_order_acquire);
    uint32_t state = mpb_state_of(mpb_load_acquire((mpb_atomic64 *)(uintptr_t)&entry->state));
    bool is_over = state == MPB_E_FREE || state == MPB_E_FILL || state == MPB_E_DONE || state == MPB_E_SENDING;
    if (bytes != NULL && (entry->fill_number != fill_number || is_over)) {
        Py_DECREF(bytes);
        Py_RETURN_NONE;
    }
    return bytes;
}

static PyMethodDef cluster_functions[] = {
    {"assignment_write", assignment_write, METH_VARARGS,
     "assignment_write(core, row, topic_id, partition, leader, leader_epoch, partition_epoch, controller_epoch, "
     "replicas, "
     "isr, offline); an id of zeros: nothing is known"},
    {"assignment_read", assignment_read, METH_VARARGS,
     "assignment_read(core, row) -> (topic_id, partition, leader, leader_epoch, partition_epoch, controller_epoch, "
     "replicas, isr, offline) or None"},
    {"broker_write", broker_write, METH_VARARGS, "broker_write(core, row, id, epoch, endpoints); b'': nobody"},
    {"broker_read", broker_read, METH_VARARGS, "broker_read(core, row) -> (id, epoch, endpoints) or None"},
    {"broker_rows", broker_rows, METH_O, "broker_rows(core) -> rows of `brokers`; 0: a broker that is alone"},
    {"cluster_state", cluster_state, METH_O,
     "cluster_state(core) -> (generation, controller, controller epoch, own broker epoch); -1: not known"},
    {"cluster_announce", cluster_announce, METH_VARARGS,
     "cluster_announce(core, controller, controller_epoch, broker_epoch) -> the generation that shows it"},
    {"held_payload", held_payload, METH_VARARGS,
     "held_payload(core, entry, fill_number) -> the frame of a parked request, without its length; None: it is gone, "
     "or answered"},
    {NULL, NULL, 0, NULL},
};

int mpb_add_cluster(PyObject *module) { return PyModule_AddFunctions(module, cluster_functions); }
