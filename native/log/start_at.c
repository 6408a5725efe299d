#include "log/start_at.h"

#include "log/append_follower.h"
#include "log/leader_epochs.h"
#include "log/partition_lock.h"
#include "log/repair.h"
#include "log/segment.h"
#include "log/segment_list.h"
#include "log/truncate_finish.h"

static void empty_at(const struct mpb_partition *row, int64_t offset, int64_t now_ms, struct mpb_partition_copy *next)
{
    mpb_epochs_clear(next);
    next->log_start = next->leo = next->hw = next->lso = next->active_base = offset;
    next->segment_id = row->intent.target;
    next->position = 0;
    next->index_bytes = next->time_index_bytes = next->txn_index_bytes = next->bytes_since_index = 0;
    next->max_timestamp = next->max_timestamp_offset = next->first_timestamp = next->indexed_timestamp = -1;
    next->segment_created_ms = now_ms;
    next->log_bytes = 0;
    next->segment_count = 1;
    next->open_transactions = 0;
    next->aborted_end = 0;
    next->truncations += 2; /* stays even */
}

/* The new segment before the commit, under a name that no segment in force has; the old ones go behind it. */
int mpb_start_at_locked(struct mpb_log *log, struct mpb_partition *row, int64_t offset, int64_t now_ms)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    struct mpb_intent *intent = &row->intent;
    intent->target = mpb_load_relaxed(&row->selector) + 1;
    intent->base_offset = offset;
    mpb_store_release(&row->flushed_offset, (uint64_t)offset);
    mpb_intent_set(log, row, MPB_INTENT_START);
    int error = mpb_segment_create(log, row, offset);
    if (error != 0) {
        int answer = mpb_log_io_error(log, row, error);
        mpb_repair(log, row);
        return answer;
    }
    empty_at(row, offset, now_ms, &next);
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "start_at.committed");
    error = mpb_start_finish(log, row);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    mpb_intent_clear(row);
    return 0;
}

static int start(struct mpb_log *log, struct mpb_partition *row, int64_t offset, int32_t leader_epoch, int64_t now_ms)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const struct mpb_segment_list *list;
    int error = mpb_follower_is_fenced(now, leader_epoch);
    if (error != 0 || (now->leo == offset && now->log_start == offset))
        return error;
    error = mpb_segment_list_get(log, row, now, &list);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    if (offset < 0 || (offset <= now->leo && offset >= list->bases[0]))
        return MPB_ERR_OFFSET_OUT_OF_RANGE;
    return mpb_start_at_locked(log, row, offset, now_ms);
}

int mpb_start_at(struct mpb_log *log, uint32_t ordinal, int64_t offset, int32_t leader_epoch, int64_t now_ms)
{
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error;
    error = start(log, &log->core->partitions[ordinal], offset, leader_epoch, now_ms);
    mpb_partition_unlock(log, ordinal);
    mpb_partition_moved(log, ordinal);
    return error;
}
