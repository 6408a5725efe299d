#include "log/partition_lock.h"

#include <stdlib.h>
#include <time.h>

#include "log/repair.h"
#include "shm/robust_lock.h"

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Marks the row busy, then tries once more: either that succeeds or the holder will see the mark (mpb_partition_unlock).
 * A second one looks whether there is a holder at all. */
static enum mpb_lock_result try_when_busy(struct mpb_log *log, struct mpb_partition *row, uint64_t since_ns)
{
    uint64_t now = now_ns();
    if (since_ns == 0)
        mpb_store_relaxed(&row->busy_since_ns, now);
    mpb_fence_full();
    MPB_CRASH(log->core, "lock.marked_busy");
    enum mpb_lock_result result = mpb_robust_lock_try(&row->lock);
    if (result == MPB_LOCK_BUSY && since_ns != 0 && now - since_ns > MPB_LOCK_LOST_AFTER_MS * 1000000ull &&
        mpb_robust_lock_is_lost(log->core, &row->lock))
        return MPB_LOCK_LOST;
    return result;
}

static enum mpb_lock_result take(struct mpb_log *log, struct mpb_partition *row)
{
    enum mpb_lock_result result = mpb_robust_lock_try(&row->lock);
    if (result != MPB_LOCK_BUSY)
        return result;
    uint64_t since_ns = mpb_load_relaxed(&row->busy_since_ns);
    if (since_ns == 0) {
        result = mpb_robust_lock_wait(&row->lock, MPB_LOCK_WAIT_MS);
        if (result != MPB_LOCK_BUSY)
            return result;
        since_ns = mpb_load_relaxed(&row->busy_since_ns);
    }
    return try_when_busy(log, row, since_ns);
}

int mpb_partition_lock(struct mpb_log *log, uint32_t ordinal)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    if (mpb_load_acquire(&row->lock_made) == 0)
        return MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    enum mpb_lock_result result = take(log, row);
    if (result == MPB_LOCK_LOST)
        abort();
    if (result == MPB_LOCK_BUSY) {
        mpb_log_count(log, MPB_C_LOG_LOCKS_BUSY, 1);
        return MPB_ERR_REQUEST_TIMED_OUT;
    }
    if (result == MPB_LOCK_INHERITED)
        mpb_log_count(log, MPB_C_LOG_LOCKS_INHERITED, 1);
    if (mpb_load_acquire(&row->intent.word) == 0)
        return 0;
    int error = mpb_repair(log, row); /* whatever the lock said (append rule 3) */
    if (error != 0)
        mpb_partition_unlock(log, ordinal);
    return error;
}

void mpb_partition_unlock(struct mpb_log *log, uint32_t ordinal)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    mpb_robust_lock_release(&row->lock);
    mpb_fence_full();
    if (mpb_load_relaxed(&row->busy_since_ns) == 0)
        return;
    MPB_CRASH(log->core, "lock.released_busy");
    mpb_store_relaxed(&row->busy_since_ns, 0);
    mpb_partition_moved(log, ordinal);
}

bool mpb_partition_is_busy(struct mpb_log *log, uint32_t ordinal)
{
    const struct mpb_partition *row = &log->core->partitions[ordinal];
    if (mpb_load_relaxed(&row->busy_since_ns) == 0)
        return false;
    int error = mpb_partition_lock(log, ordinal);
    if (error == 0)
        mpb_partition_unlock(log, ordinal);
    return error == MPB_ERR_REQUEST_TIMED_OUT;
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

#define SNAPSHOT_ROUNDS 64

int mpb_partition_snapshot(struct mpb_log *log, uint32_t ordinal, struct mpb_partition_copy *out)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = MPB_ERR_REQUEST_TIMED_OUT;
    for (int i = 0; i < SNAPSHOT_ROUNDS && error == MPB_ERR_REQUEST_TIMED_OUT; i++) {
        if (mpb_partition_try_snapshot(row, out))
            return 0;
        mpb_log_count(log, MPB_C_LOG_SNAPSHOTS_LOCKED, 1);
        error = mpb_partition_lock(log, ordinal);
    }
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
