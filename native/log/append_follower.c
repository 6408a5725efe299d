#include "log/append_follower.h"

#include "log/append_finish.h"
#include "log/append_write.h"
#include "log/leader_epochs.h"
#include "record/marker_read.h"
#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/producer_room.h"
#include "log/repair.h"
#include "log/roll.h"

int mpb_follower_is_fenced(const struct mpb_partition_copy *now, int32_t leader_epoch)
{
    bool follows = now->role == MPB_ROLE_FOLLOWER && now->leader_epoch == leader_epoch;
    return follows ? 0 : MPB_ERR_FENCED_LEADER_EPOCH;
}

static enum mpb_batch_kind kind_of(const struct mpb_batch_info *info, int32_t *coordinator_epoch)
{
    int16_t type;
    *coordinator_epoch = MPB_NO_EPOCH;
    if (info->producer_id < 0 || !mpb_marker_read(info, &type, coordinator_epoch))
        return mpb_txn_kind(info);
    return type == MPB_MARKER_COMMIT ? MPB_BATCH_COMMIT : MPB_BATCH_ABORT;
}

/* The ends that the leader's answer implies for a log that ends at next->leo. They go forward only: truncation alone takes
 * them back. */
static void follow_ends(struct mpb_core *core, const struct mpb_partition *row,
                        const struct mpb_follower_append *request, struct mpb_partition_copy *next)
{
    int64_t hw = request->leader_hw < next->leo ? request->leader_hw : next->leo;
    bool moved = hw > next->hw;
    if (moved)
        next->hw = hw;
    if (request->leader_log_start > next->log_start && request->leader_log_start <= next->hw)
        next->log_start = request->leader_log_start;
    if (moved || next->lso < next->log_start)
        next->lso = mpb_txn_last_stable(core, row, next);
}

/* A transaction that this batch opens holds the last stable offset from this commit on, and is not in its row yet. */
static void hold_opened(const struct mpb_append_write *write, struct mpb_partition_copy *next)
{
    bool opens = write->plan.kind == MPB_BATCH_IN_TRANSACTION && write->plan.first < 0;
    int64_t first = write->base_offset < next->log_start ? next->log_start : write->base_offset;
    if (opens && first < next->lso)
        next->lso = first;
}

/* Checked batches that are written and committed together: most often one. */
struct run {
    struct mpb_batch_info info; /* of the first, with the bytes, the records, the last offset and the time of all */
    int64_t max_timestamp_offset;
    uint32_t batches;
};

/* 0, a Kafka error, or THROTTLING_QUOTA_EXCEEDED if there is no row for its producer. */
static int append_run(struct mpb_log *log, struct mpb_partition *row, const struct mpb_append_options *options,
                      const struct mpb_follower_append *request, const uint8_t *batch, const struct run *run)
{
    const struct mpb_batch_info *info = &run->info;
    struct mpb_append_write write = {.batch = batch,
                                     .header = batch,
                                     .info = info,
                                     .base_offset = info->base_offset,
                                     .max_timestamp = info->max_timestamp,
                                     .max_timestamp_offset = run->max_timestamp_offset,
                                     .append_time_ms = -1,
                                     .now_ms = request->now_ms,
                                     .entry = MPB_NO_REQUEST};
    write.plan.kind = kind_of(info, &write.coordinator_epoch);
    int error = 0;
    if (mpb_roll_is_due(mpb_partition_in_force(row), options, info, info->max_timestamp, request->now_ms))
        error = mpb_roll_locked(log, row, request->now_ms);
    if (error != 0)
        return error;
    if (info->producer_id >= 0)
        write.producer_row = mpb_producer_row(log, request->ordinal, info->producer_id, true);
    if (info->producer_id >= 0 && write.producer_row == 0)
        return MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    if (!mpb_epochs_begin(log->core, row, &next, info->leader_epoch, info->base_offset))
        return MPB_ERR_REQUEST_TIMED_OUT;
    if (write.plan.kind != MPB_BATCH_PLAIN)
        mpb_txn_look(log->core, row, write.producer_row, &write.plan);
    mpb_append_write_intent(log, row, &write);
    error = mpb_append_write_files(log, row, options, &write, &next);
    if (error != 0) { /* append rule 4 */
        int answer = mpb_log_io_error(log, row, error);
        mpb_repair(log, row);
        return answer;
    }
    follow_ends(log->core, row, request, &next);
    mpb_txn_move(log->core, row, &write.plan, &next);
    hold_opened(&write, &next);
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "follower.appended");
    mpb_append_finish(log, row);
    return 0;
}

static int check(const struct mpb_partition *row, const struct mpb_follower_append *request, const uint8_t *batch,
                 const struct mpb_batch_info *info)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    if (!mpb_batch_crc_ok(batch, info->batch_bytes) || info->last_offset_delta < 0)
        return MPB_ERR_CORRUPT_MESSAGE;
    bool goes_back = info->base_offset < now->leo || info->leader_epoch > request->leader_epoch;
    return goes_back ? MPB_ERR_OFFSET_OUT_OF_RANGE : 0;
}

static bool is_plain(const struct mpb_batch_info *info)
{
    return info->producer_id < 0 && mpb_txn_kind(info) == MPB_BATCH_PLAIN;
}

/* The batch behind a run is taken into it: no producer, no marker, no other epoch, no gap, no roll, and no more than lies
 * between two entries of the index. False, with nothing changed: it is written for itself. */
static bool join(const struct mpb_partition_copy *now, const struct mpb_append_options *options,
                 const struct mpb_follower_append *request, const struct mpb_batch_info *info, struct run *run)
{
    struct run longer = *run;
    int64_t delta = info->base_offset + info->last_offset_delta - run->info.base_offset;
    int64_t records = (int64_t)run->info.record_count + info->record_count;
    int64_t bytes = (int64_t)run->info.batch_bytes + info->batch_bytes;
    if (!is_plain(info) || info->leader_epoch != run->info.leader_epoch || info->last_offset_delta < 0 ||
        info->base_offset != run->info.base_offset + run->info.last_offset_delta + 1)
        return false;
    if (bytes > options->index_interval_bytes || delta > INT32_MAX || records > INT32_MAX)
        return false;
    longer.info.batch_bytes = (uint32_t)bytes;
    longer.info.last_offset_delta = (int32_t)delta;
    longer.info.record_count = (int32_t)records;
    longer.batches++;
    if (info->max_timestamp > run->info.max_timestamp) {
        longer.info.max_timestamp = info->max_timestamp;
        longer.max_timestamp_offset = info->base_offset + info->last_offset_delta;
    }
    if (mpb_roll_is_due(now, options, &longer.info, longer.info.max_timestamp, request->now_ms))
        return false;
    *run = longer;
    return true;
}

/* As many of the batches behind the first as are sound and may be written with it; the scan goes on behind them. The first
 * batch of a segment, whose time the segment's age is told by, is written for itself. */
static struct run run_of(const struct mpb_partition_copy *now, const struct mpb_append_options *options,
                         const struct mpb_follower_append *request, const struct mpb_batch_info *first,
                         struct mpb_batch_scan *scan)
{
    struct run run = {*first, first->base_offset + first->last_offset_delta, 1};
    struct mpb_batch_info info;
    size_t need;
    if (!is_plain(first) || now->position == 0)
        return run;
    for (struct mpb_batch_scan ahead = *scan; mpb_batch_scan_next(&ahead, &info, &need) == MPB_SCAN_BATCH;
         *scan = ahead)
        if (!mpb_batch_crc_ok(request->records + scan->pos, info.batch_bytes) ||
            !join(now, options, request, &info, &run))
            break;
    return run;
}

/* Batches from *at on until one is refused or none is left whole. */
static int append_all(struct mpb_log *log, struct mpb_partition *row, const struct mpb_append_options *options,
                      const struct mpb_follower_append *request, size_t *at, uint32_t *batches)
{
    struct mpb_batch_scan scan = {.data = request->records, .len = request->length, .pos = *at};
    struct mpb_batch_info info;
    size_t need;
    enum mpb_scan_result found;
    while ((found = mpb_batch_scan_next(&scan, &info, &need)) == MPB_SCAN_BATCH) {
        const uint8_t *batch = request->records + *at;
        int error = check(row, request, batch, &info);
        if (error != 0)
            return error;
        struct run run = run_of(mpb_partition_in_force(row), options, request, &info, &scan);
        error = append_run(log, row, options, request, batch, &run);
        if (error != 0)
            return error;
        *at = scan.pos;
        *batches += run.batches;
        mpb_log_count(log, MPB_C_LOG_APPENDS, run.batches);
        mpb_log_count(log, MPB_C_LOG_APPEND_BYTES, run.info.batch_bytes);
    }
    return found == MPB_SCAN_CORRUPT ? MPB_ERR_CORRUPT_MESSAGE : 0;
}

/* Behind the last batch, or with none: what the answer says of the ends. */
static void commit_ends(struct mpb_log *log, struct mpb_partition *row, const struct mpb_follower_append *request)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    struct mpb_partition_copy next = *now;
    follow_ends(log->core, row, request, &next);
    next.lso = mpb_txn_last_stable(log->core, row, &next);
    if (next.hw == now->hw && next.lso == now->lso && next.log_start == now->log_start)
        return;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "follower.ends");
}

/* One hold of the lock. */
static void append_locked(struct mpb_log *log, const struct mpb_append_options *options,
                          const struct mpb_follower_append *request, size_t *at, struct mpb_follower_appended *out)
{
    struct mpb_partition *row = &log->core->partitions[request->ordinal];
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    out->error = mpb_follower_is_fenced(now, request->leader_epoch);
    if (out->error == 0 && out->batches == 0 && now->leo != request->offset)
        out->error = MPB_ERR_OFFSET_OUT_OF_RANGE;
    if (out->error == 0 && !mpb_log_dir_takes_appends(log->core, row->log_dir))
        out->error = MPB_ERR_KAFKA_STORAGE_ERROR;
    if (out->error != 0)
        return;
    out->error = append_all(log, row, options, request, at, &out->batches);
    if (out->error != MPB_ERR_KAFKA_STORAGE_ERROR)
        commit_ends(log, row, request);
    now = mpb_partition_in_force(row);
    out->leo = now->leo;
    out->hw = now->hw;
    out->log_start = now->log_start;
    out->last_epoch = mpb_epochs_latest(log->core, row, now);
}

void mpb_append_follower(struct mpb_log *log, const struct mpb_append_options *options,
                         const struct mpb_follower_append *request, struct mpb_follower_appended *out)
{
    size_t at = 0;
    bool full = true;
    *out = (struct mpb_follower_appended){.leo = -1, .hw = -1};
    for (int round = 0; full && round < 8; round++) { /* no room for a producer: looked for without the lock */
        out->error = mpb_partition_lock_usable(log, request->ordinal, request->topic_id);
        if (out->error != 0)
            return;
        append_locked(log, options, request, &at, out);
        mpb_partition_unlock(log, request->ordinal);
        full = out->error == MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
        if (full && !mpb_producers_make_room(log))
            break;
    }
    if (out->batches > 0 || out->error == 0)
        mpb_partition_moved(log, request->ordinal);
}
