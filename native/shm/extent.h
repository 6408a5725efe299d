/* A handler's part of the arena: answers longer than the entry's 128 bytes, and result cells beyond the first.
 *
 *   word = entry + 1 (17) | generation 15 | first unit 16 | units 16        0: free
 *
 * Room is first taken in the handler's private map, without a word; the word is stored when the room is linked to an
 * entry. The processor (or recovery) frees by storing 0, and only if the word still names its entry: a word that was
 * freed may belong to the next entry already. A successor reads the words and asks nobody. */
#ifndef MPB_EXTENT_H
#define MPB_EXTENT_H

#include "shm/core.h"
#include "shm/units.h"

#define MPB_EXTENT_KEEP_BYTES (8u << 20)

struct mpb_extents { /* private to the handler */
    struct mpb_core *core;
    uint32_t handler;
    uint64_t part;       /* arena offset */
    mpb_atomic64 *words; /* MPB_EXTENTS_PER_HANDLER of this handler */
    struct mpb_units units;
    uint16_t *free_words; /* stack of words below `fresh` */
    uint32_t free_count;
    uint32_t fresh; /* no word at or above it was ever used */
    struct mpb_held {
        uint16_t word, first, units;
    } *held; /* words this process stored and has not seen freed */
    uint32_t held_count;
    uint32_t sweep_at;
};

int mpb_extents_open(struct mpb_extents *extents, struct mpb_core *core, uint32_t handler);
void mpb_extents_close(struct mpb_extents *extents);
/* Rebuilds the private map from the words. */
void mpb_extents_rebuild(struct mpb_extents *extents);
/* Room for `bytes`: a token (first unit << 16 | units), or -1. It is the caller's until linked or released. */
int64_t mpb_extent_take(struct mpb_extents *extents, uint64_t bytes);
/* How many of `wanted` bytes one answer should take: at most a quarter of what is free, so that clients that do not
 * read, however many, leave room for the others. */
uint64_t mpb_extent_room(struct mpb_extents *extents, uint64_t wanted);
/* Whether more than half of the room is in use, as far as known. */
static inline bool mpb_extents_crowded(const struct mpb_extents *extents)
{
    return extents->units.used > extents->units.count / 2;
}
bool mpb_extent_release(struct mpb_extents *extents, uint32_t token);
/* Ties room to an entry: stores its word, returns the extent number + 1 for the entry's field, 0: no word free. */
uint32_t mpb_extent_link(struct mpb_extents *extents, uint32_t token, uint32_t entry, uint32_t generation);
/* Frees extent `number` (+ 1; 0 does nothing) of `entry`, whoever's part it is in. May run twice. */
void mpb_extent_free(struct mpb_core *core, uint32_t number, uint32_t entry);
/* Frees the words of a dead handler that no entry refers to; for recovery, before _rebuild. */
void mpb_extents_collect(struct mpb_core *core, uint32_t handler);
uint64_t mpb_extents_idle(struct mpb_extents *extents, uint64_t now_ns);

static inline uint64_t mpb_extent_offset(const struct mpb_extents *extents, uint32_t token)
{
    return extents->part + (uint64_t)(token >> 16) * MPB_UNIT_BYTES;
}
static inline uint64_t mpb_extent_bytes(uint32_t token) { return (uint64_t)(token & 0xffff) * MPB_UNIT_BYTES; }

#endif
