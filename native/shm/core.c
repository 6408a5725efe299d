#include "shm/core.h"
#include <string.h>

static void *region(uint8_t *base, size_t bytes, const char *name, size_t stride, uint32_t *count, int *status)
{
    const struct mpb_segment_header *header = (const void *)base;
    for (uint32_t i = 0; i < header->region_count && i < MPB_MAX_REGIONS; i++) {
        const struct mpb_region *r = &header->regions[i];
        if (strncmp(r->name, name, sizeof r->name) != 0)
            continue;
        if (r->stride != stride) {
            *status = -4;
            return NULL;
        }
        if (r->offset > bytes || r->count > (bytes - r->offset) / stride)
            break;
        *count = (uint32_t)r->count;
        return base + r->offset;
    }
    *status = -3;
    return NULL;
}

static int check_header(const void *base, size_t bytes, uint64_t magic)
{
    const struct mpb_segment_header *header = base;
    if (bytes < sizeof *header || header->magic != magic)
        return -1;
    return header->version == MPB_LAYOUT_VERSION ? 0 : -2;
}

/* What later code relies on without looking again. */
static int check_plan(const struct mpb_core *core)
{
    const struct mpb_segment_header *h = core->header;
    uint64_t parts = (uint64_t)h->processor_count * h->arena_processor_bytes +
                     (uint64_t)h->handler_count * h->arena_handler_bytes;
    if (h->processor_count > MPB_MAX_PROCESSORS || h->handler_count > MPB_MAX_HANDLERS ||
        (uint64_t)h->processor_count * h->entries_per_processor > core->entry_count ||
        core->entry_count >= (1u << MPB_INDEX_BITS) - 1 || core->command_count > MPB_MAX_COMMANDS ||
        core->api_count < h->processor_count * MPB_API_ROWS ||
        core->address_count < h->processor_count * MPB_ADDRESS_ROWS || parts > h->arena_bytes ||
        (h->coordinator != 0 && h->coordinator != h->handler_count) ||
        (uint64_t)h->handler_count * MPB_EXTENTS_PER_HANDLER > core->extent_count)
        return -5;
    for (uint32_t i = 0; i < MPB_MAX_RINGS; i++)
        if (core->rings[i].slots_first > core->slot_count ||
            core->rings[i].capacity > core->slot_count - core->rings[i].slots_first)
            return -5;
    return 0;
}

#define REGION(base, bytes, name, field, count) \
    (core->field = region((base), (bytes), (name), sizeof *core->field, (count), &status))

int mpb_core_attach(struct mpb_core *core, void *core_base, size_t core_bytes, void *page_base, size_t page_bytes,
                    void *arena_base, size_t arena_bytes)
{
    uint32_t one;
    int status = check_header(core_base, core_bytes, MPB_MAGIC_CORE);
    if (status == 0)
        status = check_header(page_base, page_bytes, MPB_MAGIC_PAGE);
    if (status != 0)
        return status;
    memset(core, 0, sizeof *core);
    core->header = core_base;
    core->page_header = page_base;
    core->arena = arena_base;
    if (core->header->arena_bytes > arena_bytes)
        return -3;
    REGION(core_base, core_bytes, "topics", topics, &core->topic_count);
    REGION(core_base, core_bytes, "journal", journal, &core->journal_count);
    REGION(core_base, core_bytes, "partitions", partitions, &core->partition_count);
    REGION(core_base, core_bytes, "producers", producers, &core->producer_count);
    REGION(core_base, core_bytes, "entries", entries, &core->entry_count);
    REGION(core_base, core_bytes, "slots", slots, &core->slot_count);
    REGION(core_base, core_bytes, "commands", commands, &core->command_count);
    REGION(core_base, core_bytes, "extents", extents, &core->extent_count);
    REGION(core_base, core_bytes, "doorbells", doorbells, &one);
    REGION(core_base, core_bytes, "killers", killers, &one);
    REGION(core_base, core_bytes, "inject", injects, &one);
    REGION(core_base, core_bytes, "apis", apis, &core->api_count);
    REGION(core_base, core_bytes, "groups", groups, &core->group_count);
    REGION(core_base, core_bytes, "members", members, &core->member_count);
    REGION(core_base, core_bytes, "addresses", addresses, &core->address_count);
    REGION(core_base, core_bytes, "fetch_sessions", fetch_sessions, &core->fetch_session_count);
    REGION(core_base, core_bytes, "session_units", session_units, &core->session_unit_count);
    REGION(core_base, core_bytes, "session_owners", session_owners, &one);
    if (status == 0 && one < core->session_unit_count)
        status = -5;
    REGION(core_base, core_bytes, "assignments", assignments, &core->assignment_count);
    if (status == 0 && core->assignment_count != 0 && core->assignment_count < core->partition_count)
        status = -5;
    REGION(core_base, core_bytes, "brokers", brokers, &core->broker_count);
    REGION(core_base, core_bytes, "replicas", replicas, &core->replica_count);
    if (status == 0 && core->replica_count != 0 && core->replica_count < core->partition_count)
        status = -5;
    REGION(page_base, page_bytes, "processes", processes, &one);
    REGION(page_base, page_bytes, "rings", rings, &one);
    REGION(page_base, page_bytes, "counters", counters, &one);
    for (int i = 0; i < MPB_MAX_PROCESSORS; i++)
        core->eventfds[i] = -1;
    return status == 0 ? check_plan(core) : status;
}
