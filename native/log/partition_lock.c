#include "log/partition_lock.h"

#include <stdlib.h>

#include "log/repair.h"
#include "shm/robust_lock.h"

int mpb_partition_lock(struct mpb_log *log, uint32_t ordinal)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    if (mpb_load_acquire(&row->lock_made) == 0)
        return MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    enum mpb_lock_result result = mpb_robust_lock_take(log->core, &row->lock);
    if (result == MPB_LOCK_LOST)
        abort();
    if (result == MPB_LOCK_BUSY)
        return MPB_ERR_REQUEST_TIMED_OUT;
    if (result == MPB_LOCK_INHERITED)
        mpb_log_count(log, MPB_C_LOG_LOCKS_INHERITED, 1);
    if (mpb_load_acquire(&row->intent.word) == 0)
        return 0;
    int error = mpb_repair(log, row); /* whatever the lock said (append rule 3) */
    if (error != 0)
        mpb_robust_lock_release(&row->lock);
    return error;
}

void mpb_partition_unlock(struct mpb_log *log, uint32_t ordinal)
{
    mpb_robust_lock_release(&log->core->partitions[ordinal].lock);
}

int mpb_partition_lock_usable(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id)
{
    int error = mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    error = mpb_partition_usable(log->core, &log->core->partitions[ordinal], topic_id);
    if (error != 0)
        mpb_partition_unlock(log, ordinal);
    return error;
}

int mpb_partition_snapshot(struct mpb_log *log, uint32_t ordinal, struct mpb_partition_copy *out)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    if (mpb_partition_try_snapshot(row, out))
        return 0;
    mpb_log_count(log, MPB_C_LOG_SNAPSHOTS_LOCKED, 1);
    int error = mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    *out = *mpb_partition_in_force(row);
    mpb_partition_unlock(log, ordinal);
    return 0;
}

uint32_t mpb_repair_slot(struct mpb_log *log, uint32_t slot)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < mpb_load_acquire(&log->core->header->partitions_high); i++) {
        uint64_t word = mpb_load_acquire(&log->core->partitions[i].intent.word);
        if (word == 0 || (word & 0xffffff) != slot)
            continue;
        found++;
        if (mpb_partition_lock(log, i) == 0)
            mpb_partition_unlock(log, i);
    }
    return found;
}
