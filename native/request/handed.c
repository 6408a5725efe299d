#include "request/handed.h"
#include "shm/doorbell.h"

static void push(struct mpb_core *core, uint32_t ring_id, uint32_t index)
{
    struct mpb_ring ring = mpb_ring_view(core, ring_id);
    mpb_ring_push_sure(&ring, mpb_hint(index, mpb_state_generation(mpb_load_relaxed(&core->entries[index].state))));
}

void mpb_handed_push(struct mpb_core *core, uint32_t index) { push(core, MPB_RING_COORDINATOR, index); }

void mpb_handed_requeue(struct mpb_core *core, uint32_t index) { push(core, MPB_RING_COORDINATOR_REQUEUED, index); }

int64_t mpb_handed_take(struct mpb_core *core, uint32_t owner)
{
    struct mpb_ring ring = mpb_ring_view(core, MPB_RING_COORDINATOR_REQUEUED);
    int64_t index = mpb_ring_take(&ring, MPB_STATE_BIT(MPB_E_REQUEUED), MPB_E_CLAIMED, owner);
    if (index >= 0)
        return index;
    ring = mpb_ring_view(core, MPB_RING_COORDINATOR);
    return mpb_ring_take(&ring, MPB_STATE_BIT(MPB_E_HANDED), MPB_E_CLAIMED, owner);
}

bool mpb_handed_empty(struct mpb_core *core)
{
    struct mpb_ring requeued = mpb_ring_view(core, MPB_RING_COORDINATOR_REQUEUED);
    struct mpb_ring handed = mpb_ring_view(core, MPB_RING_COORDINATOR);
    return mpb_ring_empty(&requeued) && mpb_ring_empty(&handed);
}

void mpb_ring_coordinator(struct mpb_core *core)
{
    if (core->header->coordinator != 0)
        mpb_ring_handler(core, core->header->coordinator - 1);
}

void mpb_want_coordinator(struct mpb_core *core)
{
    mpb_store_release(&core->header->coordinator_wanted, 1);
    mpb_ring_coordinator(core);
}
