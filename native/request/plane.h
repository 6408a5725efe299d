/* A plane: the rings in which requests of one kind wait for a handler. Processors push, handlers take.
 *
 * A plane has up to seven class rings; the header of shared memory says how many were ever in use: one until a discipline
 * with more classes is chosen, and the control plane has always one. What recovery put back is in a ring of its own,
 * MPB_CLASS_REQUEUED, and goes first. From which of several class rings a handler takes is the discipline's choice
 * (discipline.h). The plane's bound counts over all of them. */
#ifndef MPB_PLANE_H
#define MPB_PLANE_H

#include "shm/ring.h"

static inline uint32_t mpb_plane_ring(uint32_t plane, uint32_t ring_class)
{
    return (plane == MPB_PLANE_CONTROL ? MPB_RING_CONTROL : MPB_RING_DATA) + ring_class;
}

/* Class rings that may hold something. */
static inline uint32_t mpb_plane_classes(const struct mpb_core *core, uint32_t plane)
{
    uint32_t classes = mpb_load_acquire(&core->header->plane_classes[plane]);
    return classes < MPB_CLASS_REQUEUED ? classes : MPB_CLASS_REQUEUED;
}

/* Before the first push into a ring beyond those: from now on everybody looks into so many. */
void mpb_plane_raise_classes(struct mpb_core *core, uint32_t plane, uint32_t classes);

/* Requests waiting, over all classes but the re-queued. */
uint64_t mpb_plane_depth(struct mpb_core *core, uint32_t plane);
bool mpb_plane_empty(struct mpb_core *core, uint32_t plane);
/* Removes what a dead or stopped handler left at the heads; the depth then. */
uint64_t mpb_plane_drop_stale(struct mpb_core *core, uint32_t plane);
/* Pushes a published entry's hint; MPB_RING_FULL if the plane holds its bound. */
int mpb_plane_push(struct mpb_core *core, uint32_t index);
/* Takes the next request of a plane of one class for `owner`: row or -1. */
int64_t mpb_plane_take(struct mpb_core *core, uint32_t plane, uint32_t owner);
/* Puts an entry that is REQUEUED already back; cannot fail. */
void mpb_plane_requeue(struct mpb_core *core, uint32_t index);

#endif
