#include "shm/arena.h"
#include "shm/inject.h"
#include "shm/ring.h"

int mpb_arena_open(struct mpb_arena *arena, struct mpb_core *core, uint32_t processor)
{
    arena->core = core;
    arena->part = mpb_arena_processor(core, processor);
    return mpb_units_open(&arena->units, core->header->arena_processor_bytes, MPB_ARENA_UNIT_BYTES,
                          mpb_load_acquire(&core->processes[MPB_SLOT_PROCESSORS + processor].incarnation) <= 1);
}

void mpb_arena_close(struct mpb_arena *arena) { mpb_units_close(&arena->units); }

int64_t mpb_arena_take(struct mpb_arena *arena, uint64_t bytes)
{
    if (bytes > arena->core->header->arena_processor_bytes)
        return -1;
    int64_t first = mpb_units_take(&arena->units, mpb_units_for(&arena->units, bytes));
    MPB_CRASH(arena->core, "arena.taken");
    return first < 0 ? -1 : (int64_t)(arena->part + (uint64_t)first * MPB_ARENA_UNIT_BYTES);
}

bool mpb_arena_give(struct mpb_arena *arena, uint64_t offset, uint64_t bytes)
{
    if (offset < arena->part || (offset - arena->part) % MPB_ARENA_UNIT_BYTES != 0 ||
        bytes > arena->core->header->arena_processor_bytes)
        return false;
    uint64_t first = (offset - arena->part) / MPB_ARENA_UNIT_BYTES;
    if (first >= arena->units.count)
        return false;
    return mpb_units_give(&arena->units, (uint32_t)first, mpb_units_for(&arena->units, bytes));
}

void mpb_arena_rebuild(struct mpb_arena *arena, uint32_t first_entry, uint32_t entries)
{
    mpb_units_clear(&arena->units);
    for (uint32_t i = first_entry; i < first_entry + entries; i++) {
        const struct mpb_entry *entry = &arena->core->entries[i];
        uint32_t state = mpb_state_of(mpb_load_acquire(&arena->core->entries[i].state));
        if (state == MPB_E_FREE || entry->payload_offset == MPB_PAYLOAD_INLINE || entry->payload_offset < arena->part)
            continue;
        uint64_t first = (entry->payload_offset - arena->part) / MPB_ARENA_UNIT_BYTES;
        mpb_units_mark(&arena->units, (uint32_t)first, entry->payload_units);
    }
}

uint64_t mpb_arena_idle(struct mpb_arena *arena, uint64_t now_ns)
{
    return mpb_units_punch(&arena->units, arena->core->arena + arena->part, MPB_ARENA_KEEP_BYTES, now_ns,
                           MPB_ARENA_IDLE_NS);
}
