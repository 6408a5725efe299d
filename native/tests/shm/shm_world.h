/* A small broker's shared memory in one mapping, for C tests: two processors, three handlers (none reserved unless
 * asked), a coordinator, a data plane of 4 and a control plane of 2. `world_reset` brings back the memory a fresh start has. */
#ifndef MPB_TESTS_SHM_WORLD_H
#define MPB_TESTS_SHM_WORLD_H

#include <string.h>
#include <sys/mman.h>
#include "tests/stepping/check.h"
#include "request/command.h"
#include "shm/doorbell.h"
#include "request/handler.h"
#include "request/plane.h"
#include "request/processor.h"
#include "request/recover.h"

struct world_plan {
    uint32_t processors, handlers /* the last is the coordinator */, reserved, entries, data_bound, control_bound,
        commands;
    uint64_t processor_bytes, handler_bytes;
};

static const struct world_plan small_plan = {2, 4, 0, 6, 4, 2, 2, 64 << 10, 256 << 10};

struct world {
    struct world_plan plan;
    struct mpb_core core;
    uint8_t *base;
    size_t core_bytes, page_bytes, arena_bytes;
};

struct world_region {
    const char *name;
    size_t stride, count;
};

static size_t write_header(uint8_t *base, uint64_t magic, const struct world_region *regions, size_t n,
                           const struct world_plan *plan)
{
    struct mpb_segment_header *header = (void *)base;
    size_t at = sizeof *header;
    for (size_t i = 0; i < n; i++) {
        if (base != NULL) {
            struct mpb_region *r = &header->regions[i];
            strncpy(r->name, regions[i].name, sizeof r->name - 1);
            r->offset = at;
            r->stride = regions[i].stride;
            r->count = regions[i].count;
        }
        at += (regions[i].stride * regions[i].count + 4095) / 4096 * 4096;
    }
    if (base == NULL)
        return at;
    header->magic = magic;
    header->version = MPB_LAYOUT_VERSION;
    header->region_count = (uint32_t)n;
    header->bytes = at;
    header->boot_id = 7;
    header->arena_processor_bytes = plan->processor_bytes;
    header->arena_handler_bytes = plan->handler_bytes;
    header->arena_bytes = plan->processors * plan->processor_bytes + plan->handlers * plan->handler_bytes;
    header->processor_count = plan->processors;
    header->handler_count = header->coordinator = plan->handlers;
    header->entries_per_processor = plan->entries;
    header->reserved_handlers = plan->reserved;
    header->plane_bound[MPB_PLANE_DATA] = plan->data_bound;
    header->plane_bound[MPB_PLANE_CONTROL] = plan->control_bound;
    mpb_store_relaxed(&header->plane_classes[MPB_PLANE_DATA], 1);
    mpb_store_relaxed(&header->plane_classes[MPB_PLANE_CONTROL], 1);
    return at;
}

#define WORLD_SLACK 16
#define WORLD_REGIONS 21

static uint32_t ring_capacity(const struct world_plan *plan, uint32_t ring)
{
    uint32_t all = plan->processors * plan->entries + WORLD_SLACK;
    if (ring >= MPB_RING_DATA && ring < MPB_RING_DATA + MPB_CLASSES)
        return plan->data_bound;
    if (ring == MPB_RING_CONTROL)
        return plan->control_bound;
    if (ring == MPB_RING_DATA + MPB_CLASS_REQUEUED || ring == MPB_RING_CONTROL + MPB_CLASS_REQUEUED ||
        ring == MPB_RING_COORDINATOR || ring == MPB_RING_COORDINATOR_REQUEUED)
        return all;
    if (ring == MPB_RING_CONTROLLER)
        return plan->commands + WORLD_SLACK;
    return ring >= MPB_RING_RESPONSE && ring < MPB_RING_RESPONSE + plan->processors ? plan->entries + WORLD_SLACK : 0;
}

static void plan_regions(const struct world_plan *plan, struct world_region core[WORLD_REGIONS],
                         struct world_region page[3])
{
    size_t slots = 0;
    for (uint32_t r = 0; r < MPB_MAX_RINGS; r++)
        slots += ring_capacity(plan, r);
    const struct world_region cores[WORLD_REGIONS] = {
        {"topics", sizeof(struct mpb_topic), 1},
        {"journal", 8, 8},
        {"partitions", sizeof(struct mpb_partition), 8},
        {"producers", sizeof(struct mpb_producer), 64},
        {"entries", sizeof(struct mpb_entry), plan->processors * plan->entries},
        {"slots", 8, slots},
        {"commands", sizeof(struct mpb_command), plan->commands},
        {"extents", 8, plan->handlers * MPB_EXTENTS_PER_HANDLER},
        {"doorbells", sizeof(struct mpb_doorbells), 1},
        {"killers", sizeof(struct mpb_killer), MPB_KILLER_ROWS},
        {"inject", sizeof(struct mpb_inject), MPB_INJECT_ROWS},
        {"apis", sizeof(struct mpb_api_row), plan->processors * MPB_API_ROWS},
        {"groups", sizeof(struct mpb_known), 8},
        {"members", sizeof(struct mpb_known), 8},
        {"addresses", sizeof(struct mpb_address), plan->processors * MPB_ADDRESS_ROWS},
        {"fetch_sessions", sizeof(struct mpb_fetch_session), 3},
        {"session_units", sizeof(struct mpb_session_unit), 16},
        {"session_owners", sizeof(mpb_atomic32), 16},
        {"assignments", sizeof(struct mpb_assignment), 0},
        {"brokers", sizeof(struct mpb_broker), 0},
        {"replicas", sizeof(struct mpb_replicas), 0}};
    const struct world_region pages[3] = {{"processes", sizeof(struct mpb_process), MPB_MAX_SLOTS},
                                          {"rings", sizeof(struct mpb_ring_ctl), MPB_MAX_RINGS},
                                          {"counters", sizeof(struct mpb_counter_row), MPB_MAX_SLOTS}};
    memcpy(core, cores, sizeof cores);
    memcpy(page, pages, sizeof pages);
}

static void write_rings(struct world *w)
{
    uint64_t first = 0;
    memset(w->core.rings, 0, MPB_MAX_RINGS * sizeof *w->core.rings);
    for (uint32_t r = 0; r < MPB_MAX_RINGS; r++) {
        w->core.rings[r].capacity = ring_capacity(&w->plan, r);
        w->core.rings[r].slots_first = first;
        first += w->core.rings[r].capacity;
    }
}

static void world_open(struct world *w, const struct world_plan *plan)
{
    struct world_region core[WORLD_REGIONS], page[3];
    w->plan = *plan;
    plan_regions(plan, core, page);
    w->core_bytes = write_header(NULL, 0, core, WORLD_REGIONS, plan);
    w->page_bytes = write_header(NULL, 0, page, 3, plan);
    w->arena_bytes = plan->processors * plan->processor_bytes + plan->handlers * plan->handler_bytes;
    w->base = mmap(NULL, w->core_bytes + w->page_bytes + w->arena_bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(w->base != MAP_FAILED);
    uint8_t *page_base = w->base + w->core_bytes;
    write_header(w->base, MPB_MAGIC_CORE, core, WORLD_REGIONS, plan);
    write_header(page_base, MPB_MAGIC_PAGE, page, 3, plan);
    CHECK_EQ(mpb_core_attach(&w->core, w->base, w->core_bytes, page_base, w->page_bytes, page_base + w->page_bytes,
                             w->arena_bytes),
             0);
    write_rings(w);
}

static inline void world_close(struct world *w) { munmap(w->base, w->core_bytes + w->page_bytes + w->arena_bytes); }

/* Only what these tests touch: the whole would be a megabyte for each crash point. */
static inline void world_reset(struct world *w)
{
    struct mpb_core *c = &w->core;
    memset(c->entries, 0, c->entry_count * sizeof *c->entries);
    memset((void *)c->slots, 0, c->slot_count * sizeof *c->slots);
    memset(c->commands, 0, 4096);
    for (uint32_t i = 0; i < c->command_count; i++)
        memset(&c->commands[i], 0, 128);
    for (uint32_t h = 0; h < w->plan.handlers; h++)
        memset((void *)(c->extents + h * MPB_EXTENTS_PER_HANDLER), 0, 64 * 8);
    memset(c->doorbells, 0, sizeof *c->doorbells);
    mpb_store_relaxed(&c->header->plane_classes[MPB_PLANE_DATA], 1);
    memset(c->killers, 0, MPB_KILLER_ROWS * sizeof *c->killers);
    memset(c->processes, 0, MPB_MAX_SLOTS * sizeof *c->processes);
    for (uint32_t i = 0; i < c->partition_count; i++)
        mpb_store_relaxed(&c->partitions[i].watchers, 0);
    write_rings(w);
}

/* API key of a request: four in sixteen ask for a group. */
#define GROUP_KEY 11
static inline bool is_for_group(uint32_t id) { return id / 4 % 4 == 3; }

/* A frame of `length` bytes whose correlation id is `id`. */
static inline void make_frame(uint8_t *frame, uint32_t length, uint32_t id)
{
    memset(frame, (int)id, length);
    memcpy(frame,
           (uint8_t[]){0, is_for_group(id) ? GROUP_KEY : 3, 0, 1, (uint8_t)(id >> 24), (uint8_t)(id >> 16),
                       (uint8_t)(id >> 8), (uint8_t)id},
           8);
    if (length >= 10)
        memcpy(frame + 8, (uint8_t[]){0xff, 0xff}, 2);
}

/* A frame that lies nowhere in shared memory yet. */
static inline struct mpb_submission plain_submission(uint32_t connection, const uint8_t *frame, uint32_t length)
{
    return (struct mpb_submission){.plane = MPB_PLANE_DATA,
                                   .connection = connection,
                                   .connection_generation = 1,
                                   .frame = frame,
                                   .length = length,
                                   .offset = MPB_PAYLOAD_INLINE,
                                   .t0_ns = 1,
                                   .frame_done_ns = 1,
                                   .client_hash = 1};
}

static inline int64_t submit(struct mpb_processor *p, uint32_t plane, uint32_t id, uint32_t length)
{
    uint8_t frame[8192];
    make_frame(frame, length, id);
    struct mpb_submission s = plain_submission(id, frame, length);
    s.plane = plane;
    return mpb_submit(p, &s);
}

static inline uint32_t state_of(const struct world *w, uint32_t entry)
{
    return mpb_state_of(mpb_load_acquire(&w->core.entries[entry].state));
}

#endif
