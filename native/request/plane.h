/* A plane is a set of class rings of one kind and a discipline: request → class, and the class served next. Class
 * MPB_CLASS_REQUEUED holds what recovery put back and is always served first. */
#ifndef MPB_PLANE_H
#define MPB_PLANE_H

#include "shm/ring.h"

static inline uint32_t mpb_plane_ring(uint32_t plane, uint32_t ring_class)
{
    return (plane == MPB_PLANE_CONTROL ? MPB_RING_CONTROL : MPB_RING_DATA) + ring_class;
}

/* Class of a request about to be queued (its header fields are filled in). `fifo`: always 0. */
uint32_t mpb_plane_classify(const struct mpb_core *core, const struct mpb_entry *entry);
/* Requests waiting, over all classes but the re-queued. */
uint64_t mpb_plane_depth(struct mpb_core *core, uint32_t plane);
bool mpb_plane_empty(struct mpb_core *core, uint32_t plane);
/* Removes what a dead or stopped handler left at the heads; the depth then. */
uint64_t mpb_plane_drop_stale(struct mpb_core *core, uint32_t plane);
/* Pushes a published entry's hint; MPB_RING_FULL if the plane holds its bound. */
int mpb_plane_push(struct mpb_core *core, uint32_t index);
/* Takes the next request of the plane for `owner`: row or -1. */
int64_t mpb_plane_take(struct mpb_core *core, uint32_t plane, uint32_t owner);
/* Puts an entry that is REQUEUED already back; cannot fail. */
void mpb_plane_requeue(struct mpb_core *core, uint32_t index);

#endif
