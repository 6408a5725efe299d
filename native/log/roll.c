#include "log/roll.h"

#include "log/log_io.h"
#include "log/partition_lock.h"
#include "log/repair.h"
#include "log/segment.h"

/* Kafka measures the age by the batches' own clock where the first one had a time, else by the broker's. Times that lie
 * in the future are not believed: one batch of a producer would stop the rolling, and so the retention, of a partition
 * that others write to. */
static int64_t age_ms(const struct mpb_partition_copy *now, int64_t max_timestamp, int64_t now_ms)
{
    bool believed = now->first_timestamp >= 0 && now->first_timestamp <= now->segment_created_ms;
    int64_t until = now->first_timestamp >= 0 && max_timestamp < now_ms ? max_timestamp : now_ms;
    return (until < 0 ? -1 : until) - (believed ? now->first_timestamp : now->segment_created_ms);
}

bool mpb_roll_is_due(const struct mpb_partition_copy *now, const struct mpb_append_options *options,
                     const struct mpb_batch_info *batch, int64_t max_timestamp, int64_t now_ms)
{
    if (now->position == 0)
        return false;
    if ((int64_t)now->position > (int64_t)options->segment_bytes - batch->batch_bytes)
        return true;
    if (age_ms(now, max_timestamp, now_ms) > options->segment_ms)
        return true;
    if (now->index_bytes + MPB_INDEX_ENTRY_BYTES > (uint32_t)options->index_max_bytes)
        return true;
    /* One time index entry stays free for the one written at the roll. */
    if (now->time_index_bytes + 2 * MPB_TIME_INDEX_ENTRY_BYTES > (uint32_t)options->index_max_bytes)
        return true;
    return now->leo + batch->last_offset_delta - now->active_base > INT32_MAX;
}

static int write_time_index(struct mpb_log *log, const struct mpb_partition *row, struct mpb_partition_copy *next)
{
    uint8_t entry[MPB_TIME_INDEX_ENTRY_BYTES];
    if (next->max_timestamp <= next->indexed_timestamp)
        return 0;
    int fd = mpb_segment_fd(log, row, next, next->active_base, MPB_FILE_TIME_INDEX);
    if (fd < 0)
        return fd;
    mpb_put_be64(entry, next->max_timestamp);
    mpb_put_be32(entry + 8, (int32_t)(next->max_timestamp_offset - next->active_base));
    int error = mpb_io_write(fd, entry, sizeof entry, next->time_index_bytes);
    if (error != 0)
        return error;
    next->time_index_bytes += sizeof entry;
    next->indexed_timestamp = next->max_timestamp;
    return 0;
}

int mpb_segment_index(struct mpb_log *log, const struct mpb_partition *row, struct mpb_partition_copy *next,
                      int64_t last_offset, uint32_t position)
{
    uint8_t entry[MPB_INDEX_ENTRY_BYTES];
    int fd = mpb_segment_fd(log, row, next, next->active_base, MPB_FILE_INDEX);
    if (fd < 0)
        return fd;
    mpb_put_be32(entry, (int32_t)(last_offset - next->active_base));
    mpb_put_be32(entry + 4, (int32_t)position);
    int error = mpb_io_write(fd, entry, sizeof entry, next->index_bytes);
    if (error != 0)
        return error;
    next->index_bytes += sizeof entry;
    return write_time_index(log, row, next);
}

int mpb_roll_locked(struct mpb_log *log, struct mpb_partition *row, int64_t now_ms)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    struct mpb_intent *intent = &row->intent;
    if (next.position == 0) /* append rule 9 */
        return 0;
    intent->target = mpb_load_relaxed(&row->selector) + 1;
    intent->base_offset = next.leo;
    mpb_intent_set(log, row, MPB_INTENT_ROLL);
    /* All writes to the old segment come before the commit: behind it, its files are as they will always be. */
    int error = write_time_index(log, row, &next);
    if (error == 0)
        error = mpb_segment_create(log, row, next.leo);
    if (error != 0) {
        int answer = mpb_log_io_error(log, row, error);
        mpb_repair(log, row);
        return answer;
    }
    next.active_base = next.leo;
    next.segment_id = intent->target;
    next.position = 0;
    next.index_bytes = next.time_index_bytes = next.txn_index_bytes = next.bytes_since_index = 0;
    next.max_timestamp = next.max_timestamp_offset = next.first_timestamp = next.indexed_timestamp = -1;
    next.segment_created_ms = now_ms;
    next.segment_count++;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "roll.committed");
    mpb_intent_clear(row);
    mpb_log_count(log, MPB_C_LOG_ROLLS, 1);
    return 0;
}

int mpb_roll(struct mpb_log *log, uint32_t ordinal, int64_t now_ms)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error;
    error = mpb_roll_locked(log, row, now_ms);
    mpb_partition_unlock(log, ordinal);
    return error;
}
