#include "log/delete_records.h"

#include "log/partition_lock.h"
#include "log/partition_row.h"
#include "shm/metadata.h"

int mpb_delete_records(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t offset, int64_t *start)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock_usable(log, ordinal, topic_id);
    if (error != 0)
        return error;
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    offset = offset == MPB_TO_HIGH_WATERMARK ? next.hw : offset;
    if (next.role != MPB_ROLE_LEADER)
        error = MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    else if (offset > next.hw || offset < 0)
        error = MPB_ERR_OFFSET_OUT_OF_RANGE;
    if (error != 0) {
        mpb_partition_unlock(log, ordinal);
        return error;
    }
    bool moves = offset > next.log_start;
    if (moves) {
        next.log_start = offset;
        next.lso = next.lso < offset ? offset : next.lso;
        mpb_partition_write_idle(log->core, row, &next);
        mpb_partition_commit(row);
        MPB_CRASH(log->core, "delete_records.committed");
    }
    /* Behind the commit: who dies in between has answered nobody, and the request's second run comes here again. */
    if ((int64_t)mpb_load_relaxed(&row->start_asked) < next.log_start)
        mpb_store_release(&row->start_asked, (uint64_t)next.log_start);
    *start = next.log_start;
    mpb_partition_unlock(log, ordinal);
    if (moves)
        mpb_partition_moved(log, ordinal);
    return 0;
}

uint32_t mpb_starts_asked(struct mpb_log *log, uint32_t *next, uint32_t *out, uint32_t most)
{
    uint32_t high = mpb_partitions_high(log->core), count = 0;
    for (; *next < high && count < most; ++*next) {
        struct mpb_partition *row = &log->core->partitions[*next];
        if (mpb_load_acquire(&row->start_asked) > mpb_load_relaxed(&row->start_written) &&
            mpb_partition_usable(log->core, row, NULL) == 0)
            out[count++] = *next;
    }
    return count;
}

int mpb_start_written(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t offset)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock_usable(log, ordinal, topic_id);
    if (error != 0)
        return error;
    if ((int64_t)mpb_load_relaxed(&row->start_written) < offset)
        mpb_store_release(&row->start_written, (uint64_t)offset);
    mpb_partition_unlock(log, ordinal);
    mpb_partition_moved(log, ordinal);
    return 0;
}
