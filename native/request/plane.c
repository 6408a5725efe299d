#include "request/plane.h"
#include "shm/inject.h"

#define WAITING (MPB_STATE_BIT(MPB_E_QUEUED) | MPB_STATE_BIT(MPB_E_REQUEUED))

void mpb_plane_raise_classes(struct mpb_core *core, uint32_t plane, uint32_t classes)
{
    mpb_atomic32 *word = &core->header->plane_classes[plane];
    uint32_t seen = mpb_load_acquire(word);
    while (seen < classes && !mpb_cas32(word, &seen, classes))
        ;
}

uint64_t mpb_plane_depth(struct mpb_core *core, uint32_t plane)
{
    uint64_t depth = 0;
    for (uint32_t c = 0, classes = mpb_plane_classes(core, plane); c < classes; c++) {
        struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(plane, c));
        depth += mpb_ring_depth(&ring);
    }
    return depth;
}

bool mpb_plane_empty(struct mpb_core *core, uint32_t plane)
{
    struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(plane, MPB_CLASS_REQUEUED));
    bool empty = mpb_ring_empty(&ring);
    for (uint32_t c = 0, classes = mpb_plane_classes(core, plane); empty && c < classes; c++) {
        ring = mpb_ring_view(core, mpb_plane_ring(plane, c));
        empty = mpb_ring_empty(&ring);
    }
    return empty;
}

static uint32_t hint_of(struct mpb_core *core, uint32_t index)
{
    return mpb_hint(index, mpb_state_generation(mpb_load_relaxed(&core->entries[index].state)));
}

uint64_t mpb_plane_drop_stale(struct mpb_core *core, uint32_t plane)
{
    for (uint32_t c = 0, classes = mpb_plane_classes(core, plane); c < classes; c++) {
        struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(plane, c));
        while (mpb_ring_drop_stale(&ring))
            ;
    }
    return mpb_plane_depth(core, plane);
}

int mpb_plane_push(struct mpb_core *core, uint32_t index)
{
    const struct mpb_entry *entry = &core->entries[index];
    struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(entry->plane, entry->ring_class));
    return mpb_ring_push(&ring, hint_of(core, index));
}

void mpb_plane_requeue(struct mpb_core *core, uint32_t index)
{
    const struct mpb_entry *entry = &core->entries[index];
    struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(entry->plane, MPB_CLASS_REQUEUED));
    mpb_ring_push_sure(&ring, hint_of(core, index));
}

int64_t mpb_plane_take(struct mpb_core *core, uint32_t plane, uint32_t owner)
{
    struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(plane, MPB_CLASS_REQUEUED));
    int64_t index = mpb_ring_take(&ring, WAITING, MPB_E_CLAIMED, owner);
    if (index >= 0)
        return index;
    ring = mpb_ring_view(core, mpb_plane_ring(plane, 0));
    return mpb_ring_take(&ring, WAITING, MPB_E_CLAIMED, owner);
}
