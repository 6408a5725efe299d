#include "log/producer_sweep.h"

#include "log/partition_lock.h"
#include "log/producer.h"

uint32_t mpb_producers_sweep(struct mpb_log *log)
{
    struct mpb_core *core = log->core;
    uint32_t freed = 0, high = mpb_load_acquire(&core->header->producers_high);
    for (uint32_t i = 0; i < high && i < core->producer_count; i++) {
        uint64_t owner = mpb_load_acquire(&core->producers[i].owner);
        if (owner == 0 || owner > core->partition_count)
            continue;
        uint32_t ordinal = (uint32_t)owner - 1;
        if (mpb_partition_lock(log, ordinal) != 0)
            continue;
        freed += mpb_producer_free_lost(core, i, ordinal);
        mpb_partition_unlock(log, ordinal);
    }
    return freed;
}
