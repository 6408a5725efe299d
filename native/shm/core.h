/* One process's view of the shared memory: typed pointers into the segments the supervisor created. Plain data, made
 * before the first fork and inherited; holds no state of its own. */
#ifndef MPB_CORE_H
#define MPB_CORE_H

#include <stddef.h>
#include "shm/layout.h"

struct mpb_core {
    struct mpb_segment_header *header; /* of the core segment */
    struct mpb_segment_header *page_header;
    uint8_t *arena;

    struct mpb_topic *topics;
    uint32_t topic_count;
    mpb_atomic64 *journal;
    uint32_t journal_count;
    struct mpb_partition *partitions;
    uint32_t partition_count;
    struct mpb_producer *producers;
    uint32_t producer_count;
    struct mpb_entry *entries;
    uint32_t entry_count;
    mpb_atomic64 *slots;
    uint32_t slot_count; /* ring words */
    struct mpb_command *commands;
    uint32_t command_count;
    mpb_atomic64 *extents;
    uint32_t extent_count; /* MPB_EXTENTS_PER_HANDLER per handler */
    struct mpb_doorbells *doorbells;
    struct mpb_killer *killers;
    struct mpb_inject *injects;
    struct mpb_api_row *apis; /* MPB_API_ROWS per processor */
    uint32_t api_count;
    struct mpb_known *groups;
    uint32_t group_count;
    struct mpb_known *members;
    uint32_t member_count;
    struct mpb_address *addresses; /* MPB_ADDRESS_ROWS per processor */
    uint32_t address_count;
    struct mpb_fetch_session *fetch_sessions;
    uint32_t fetch_session_count;
    struct mpb_session_unit *session_units;
    uint32_t session_unit_count;
    struct mpb_assignment *assignments; /* by partition row; none in a broker that is alone */
    uint32_t assignment_count;
    struct mpb_broker *brokers;
    uint32_t broker_count;
    struct mpb_replicas *replicas; /* by partition row; none in a broker that is alone */
    uint32_t replica_count;
    mpb_atomic32 *session_owners; /* row of the session that has the unit + 1, 0: free */

    struct mpb_process *processes; /* page */
    struct mpb_ring_ctl *rings;
    struct mpb_counter_row *counters;

    int eventfds[MPB_MAX_PROCESSORS]; /* of the processors, -1: none; the numbers are inherited over fork */
};

/* Fills `core` from segments whose region tables are already written. Returns 0, or a negative number naming the
 * first thing that does not fit: -1 magic, -2 version, -3 a region missing or outside, -4 a stride that differs,
 * -5 counts or ring rows that contradict the regions. */
int mpb_core_attach(struct mpb_core *core, void *core_base, size_t core_bytes, void *page_base, size_t page_bytes,
                    void *arena_base, size_t arena_bytes);

/* First byte of a processor's or a handler's part of the arena. */
static inline uint64_t mpb_arena_processor(const struct mpb_core *core, uint32_t processor)
{
    return (uint64_t)processor * core->header->arena_processor_bytes;
}

static inline uint64_t mpb_arena_handler(const struct mpb_core *core, uint32_t handler)
{
    return (uint64_t)core->header->processor_count * core->header->arena_processor_bytes +
           (uint64_t)handler * core->header->arena_handler_bytes;
}

/* The slot of a handler index, and back. The coordinator is a handler with a slot of its own. */
static inline uint32_t mpb_handler_slot(const struct mpb_core *core, uint32_t handler)
{
    return handler + 1 == core->header->coordinator ? MPB_SLOT_COORDINATOR : MPB_SLOT_HANDLERS + handler;
}

static inline uint32_t mpb_slot_handler(const struct mpb_core *core, uint32_t slot)
{
    return slot == MPB_SLOT_COORDINATOR ? core->header->coordinator - 1 : slot - MPB_SLOT_HANDLERS;
}

static inline void mpb_count(struct mpb_core *core, uint32_t slot, uint32_t counter, uint64_t n)
{
    mpb_atomic64 *cell = &core->counters[slot].value[counter]; /* one writer: no locked instruction needed */
    mpb_store_relaxed(cell, mpb_load_relaxed(cell) + n);
}

#endif
