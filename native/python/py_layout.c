/* LAYOUT: the sizes and numbers of layout.h as the compiler sees them; mpbroker/shm/layout.py takes them from here. */
#include "python/module.h"
#include "shm/layout.h"
#include "shm/ring.h"

static const struct {
    const char *name;
    unsigned long long value;
} facts[] = {
    {"version", MPB_LAYOUT_VERSION},
    {"magic_core", MPB_MAGIC_CORE},
    {"magic_page", MPB_MAGIC_PAGE},
    {"header", sizeof(struct mpb_segment_header)},
    {"region", sizeof(struct mpb_region)},
    {"max_regions", MPB_MAX_REGIONS},
    {"header.regions", offsetof(struct mpb_segment_header, regions)},
    {"header.boot_id", offsetof(struct mpb_segment_header, boot_id)},
    {"header.arena_bytes", offsetof(struct mpb_segment_header, arena_bytes)},
    {"header.processor_count", offsetof(struct mpb_segment_header, processor_count)},
    {"header.metadata_generation", offsetof(struct mpb_segment_header, metadata_generation)},
    {"header.state", offsetof(struct mpb_segment_header, state)},
    {"header.plane_bound", offsetof(struct mpb_segment_header, plane_bound)},
    {"topics", sizeof(struct mpb_topic)},
    {"journal", sizeof(mpb_atomic64)},
    {"partitions", sizeof(struct mpb_partition)},
    {"producers", sizeof(struct mpb_producer)},
    {"entries", sizeof(struct mpb_entry)},
    {"slots", sizeof(mpb_atomic64)},
    {"commands", sizeof(struct mpb_command)},
    {"extents", sizeof(mpb_atomic64)},
    {"doorbells", sizeof(struct mpb_doorbells)},
    {"killers", sizeof(struct mpb_killer)},
    {"inject", sizeof(struct mpb_inject)},
    {"processes", sizeof(struct mpb_process)},
    {"rings", sizeof(struct mpb_ring_ctl)},
    {"counters", sizeof(struct mpb_counter_row)},
    {"process.heartbeat_ns", offsetof(struct mpb_process, heartbeat_ns)},
    {"process.connections", offsetof(struct mpb_process, connections)},
    {"process.unsteady_since_ns", offsetof(struct mpb_process, unsteady_since_ns)},
    {"header.data_dir", offsetof(struct mpb_segment_header, data_dir)},
    {"data_dir_bytes", MPB_DATA_DIR_BYTES},
    {"header.topics_high", offsetof(struct mpb_segment_header, topics_high)},
    {"header.partitions_high", offsetof(struct mpb_segment_header, partitions_high)},
    {"topic.copy", offsetof(struct mpb_topic, copy)},
    {"topic_copy", sizeof(struct mpb_topic_copy)},
    {"topic_copy.name", offsetof(struct mpb_topic_copy, name)},
    {"partition.flags", offsetof(struct mpb_partition, flags)},
    {"partition.topic_row", offsetof(struct mpb_partition, topic_row)},
    {"partition.selector", offsetof(struct mpb_partition, selector)},
    {"partition.copy", offsetof(struct mpb_partition, copy)},
    {"partition_copy", sizeof(struct mpb_partition_copy)},
    {"partition_copy.log_bytes", offsetof(struct mpb_partition_copy, log_bytes)},
    {"doorbells.entries_high", offsetof(struct mpb_doorbells, entries_high)},
    {"entry.claimed", MPB_E_CLAIMED},
    {"ring.head", offsetof(struct mpb_ring_ctl, head)},
    {"ring.peak", offsetof(struct mpb_ring_ctl, peak)},
    {"ring.capacity", offsetof(struct mpb_ring_ctl, capacity)},
    {"ring.slots_first", offsetof(struct mpb_ring_ctl, slots_first)},
    {"slot_supervisor", MPB_SLOT_SUPERVISOR},
    {"slot_acceptors", MPB_SLOT_ACCEPTORS},
    {"slot_processors", MPB_SLOT_PROCESSORS},
    {"slot_handlers", MPB_SLOT_HANDLERS},
    {"slot_controller", MPB_SLOT_CONTROLLER},
    {"slot_log_keeper", MPB_SLOT_LOG_KEEPER},
    {"slot_tracer", MPB_SLOT_TRACER},
    {"slot_coordinator", MPB_SLOT_COORDINATOR},
    {"slot_admin", MPB_SLOT_ADMIN},
    {"max_acceptors", MPB_MAX_ACCEPTORS},
    {"max_processors", MPB_MAX_PROCESSORS},
    {"max_handlers", MPB_MAX_HANDLERS},
    {"max_slots", MPB_MAX_SLOTS},
    {"max_rings", MPB_MAX_RINGS},
    {"max_commands", MPB_MAX_COMMANDS},
    {"unit_bytes", MPB_UNIT_BYTES},
    {"ring_control", MPB_RING_CONTROL},
    {"ring_data", MPB_RING_DATA},
    {"ring_controller", MPB_RING_CONTROLLER},
    {"ring_response", MPB_RING_RESPONSE},
    {"class_requeued", MPB_CLASS_REQUEUED},
    {"extents_per_handler", MPB_EXTENTS_PER_HANDLER},
    {"journal_rows", MPB_JOURNAL_ROWS},
    {"killer_rows", MPB_KILLER_ROWS},
    {"inject_rows", MPB_INJECT_ROWS},
    {"max_counters", MPB_MAX_COUNTERS},
    {"index_bits", MPB_INDEX_BITS},
    {"dirty_bits", sizeof(((struct mpb_doorbells *)NULL)->dirty[0]) * 8},
    {"partition.dir", offsetof(struct mpb_partition, dir)},
    {"partition_exists", MPB_PART_EXISTS},
    {"partition_online", MPB_PART_ONLINE},
    {"partition_deleted", MPB_PART_DELETED},
    {"parked_not", MPB_PARKED_NOT},
    {"parked_produce", MPB_PARKED_PRODUCE},
    {"parked_fetch", MPB_PARKED_FETCH},
    {"parked_controller", MPB_PARKED_CONTROLLER},
};

int mpb_add_layout(PyObject *module)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < sizeof facts / sizeof facts[0]; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(facts[i].value);
        if (value == NULL || PyDict_SetItemString(dict, facts[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    int status = dict ? PyModule_AddObjectRef(module, "LAYOUT", dict) : -1;
    Py_XDECREF(dict);
    return status;
}
