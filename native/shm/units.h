/* Runs of equal units in one part of the arena, kept by one process in its private memory: a bitmap, lowest free run
 * first, so that the same few pages stay hot. Nothing here is shared: a successor rebuilds the map from the entries
 * or extent words that still refer to the part. */
#ifndef MPB_UNITS_H
#define MPB_UNITS_H

#include <stddef.h>
#include "shm/atomics.h"

struct mpb_units {
    uint64_t *bits; /* 1: in use */
    uint32_t count;
    uint32_t used;
    uint32_t first_free; /* no free unit below it */
    uint32_t touched;    /* no unit at or above it has been written since the last punch */
    uint32_t unit_bytes;
    uint64_t high_ns; /* when something above the watermark was last in use */
};

/* `fresh`: nobody has written there before, so there is nothing to punch yet. */
int mpb_units_open(struct mpb_units *units, uint64_t part_bytes, uint32_t unit_bytes,
                   bool fresh); /* 0, -1: no memory */
void mpb_units_close(struct mpb_units *units);
void mpb_units_clear(struct mpb_units *units);
/* First unit of a run of n, or -1. */
int64_t mpb_units_take(struct mpb_units *units, uint32_t n);
/* Marks a run that somebody already uses (rebuild); false if it lies outside or overlaps. */
bool mpb_units_mark(struct mpb_units *units, uint32_t first, uint32_t n);
/* Gives a run back; false, and nothing happens, if it is not wholly in use. */
bool mpb_units_give(struct mpb_units *units, uint32_t first, uint32_t n);

static inline uint32_t mpb_units_for(const struct mpb_units *units, uint64_t bytes)
{
    return (uint32_t)((bytes + units->unit_bytes - 1) / units->unit_bytes);
}

/* Returns to the kernel what lies above `keep_bytes` and above the last used unit, once it has been idle for
 * `idle_ns`. `part` is the mapped part. Returns the bytes punched. */
uint64_t mpb_units_punch(struct mpb_units *units, uint8_t *part, uint64_t keep_bytes, uint64_t now_ns,
                         uint64_t idle_ns);

#endif
