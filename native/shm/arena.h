/* A processor's part of the arena: the bytes of requests too long for their entry. Processor only; what is in use is
 * told by the entries that are not FREE, so a successor asks nobody. Units of 1 KiB. */
#ifndef MPB_ARENA_H
#define MPB_ARENA_H

#include "shm/core.h"
#include "shm/units.h"

#define MPB_ARENA_UNIT_BYTES 1024u
#define MPB_ARENA_KEEP_BYTES (16u << 20) /* never given back to the kernel */
#define MPB_ARENA_IDLE_NS 5000000000ull  /* the rest is, after this long */

struct mpb_arena {
    struct mpb_core *core;
    uint64_t part; /* arena offset of the part */
    struct mpb_units units;
};

int mpb_arena_open(struct mpb_arena *arena, struct mpb_core *core, uint32_t processor);
void mpb_arena_close(struct mpb_arena *arena);
/* Arena offset of room for `bytes`, or -1. */
int64_t mpb_arena_take(struct mpb_arena *arena, uint64_t bytes);
/* Gives back what _take returned for `bytes`; false if that is not in use. */
bool mpb_arena_give(struct mpb_arena *arena, uint64_t offset, uint64_t bytes);
/* Rebuilds the map from the entries of this processor. */
void mpb_arena_rebuild(struct mpb_arena *arena, uint32_t first_entry, uint32_t entries);
uint64_t mpb_arena_idle(struct mpb_arena *arena, uint64_t now_ns);

#define MPB_PAYLOAD_INLINE UINT64_MAX

static inline const uint8_t *mpb_payload(const struct mpb_core *core, const struct mpb_entry *entry)
{
    return entry->payload_offset == MPB_PAYLOAD_INLINE ? entry->payload_bytes : core->arena + entry->payload_offset;
}

#endif
