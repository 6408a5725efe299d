#include "log/truncate.h"

#include <errno.h>

#include "log/append_follower.h"
#include "log/header_scan.h"
#include "log/leader_epochs.h"
#include "log/log_io.h"
#include "log/offset_index.h"
#include "log/partition_lock.h"
#include "log/segment.h"
#include "log/segment_list.h"
#include "log/producer.h"
#include "log/start_at.h"
#include "log/transaction.h"
#include "log/truncate_finish.h"
#include "log/txn_index.h"

/* Largest timestamp, its offset and the first batch's, of what is left of a segment. Reads headers from the batch that
 * the newest time index entry left in it names; only that far is the index to be trusted. */
static int recount_times(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *was,
                         struct mpb_partition_copy *next)
{
    struct mpb_header_scan scan;
    struct mpb_batch_info info;
    uint64_t position = 0;
    int fd = mpb_segment_fd(log, row, was, next->active_base, MPB_FILE_LOG), more;
    if (fd < 0)
        return fd;
    next->max_timestamp = next->max_timestamp_offset = next->first_timestamp = -1;
    mpb_header_scan_begin(&scan, fd, 0, next->position);
    more = mpb_header_scan_next(&scan, &info);
    if (more == 1)
        next->first_timestamp = info.max_timestamp;
    if (more == 1 && next->time_index_bytes > 0) {
        struct mpb_index_hit hit = {0};
        int time_fd = mpb_segment_fd(log, row, was, next->active_base, MPB_FILE_TIME_INDEX);
        more = time_fd < 0 ? time_fd : mpb_time_index_find(time_fd, next->time_index_bytes, INT64_MAX, &hit);
        if (more == 0)
            more = mpb_segment_find(log, row, was, next->active_base, next->active_base + hit.relative, &position,
                                    NULL);
        next->indexed_timestamp = next->max_timestamp = hit.timestamp;
        next->max_timestamp_offset = next->active_base + hit.relative;
    }
    if (more < 0)
        return more;
    mpb_header_scan_begin(&scan, fd, position, next->position);
    while ((more = mpb_header_scan_next(&scan, &info)) == 1)
        if (info.max_timestamp > next->max_timestamp) {
            next->max_timestamp = info.max_timestamp;
            next->max_timestamp_offset = info.base_offset + info.last_offset_delta;
        }
    return more;
}

/* Lengths of the two indexes that speak of offsets below `offset` only. */
static int recount_indexes(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *was,
                           int64_t offset, struct mpb_partition_copy *next)
{
    struct mpb_index_hit hit = {0}, time_hit = {0};
    int64_t base = next->active_base;
    next->index_bytes = next->time_index_bytes = 0;
    next->indexed_timestamp = -1;
    next->bytes_since_index = (uint32_t)next->position;
    int64_t bytes = mpb_segment_bytes(log, row, was, base, MPB_FILE_INDEX);
    int64_t time_bytes = mpb_segment_bytes(log, row, was, base, MPB_FILE_TIME_INDEX);
    if (bytes < 0 || time_bytes < 0)
        return (int)(bytes < 0 ? bytes : time_bytes);
    if (offset == base)
        return 0;
    uint32_t below = (uint32_t)(offset - base - 1);
    int fd = mpb_segment_fd(log, row, was, base, MPB_FILE_INDEX);
    int time_fd = mpb_segment_fd(log, row, was, base, MPB_FILE_TIME_INDEX);
    int error = fd < 0 ? fd : mpb_offset_index_find(fd, (uint64_t)bytes, below, &hit);
    if (error == 0)
        error = time_fd < 0 ? time_fd : mpb_time_index_find_offset(time_fd, (uint64_t)time_bytes, below, &time_hit);
    if (error != 0)
        return error;
    next->index_bytes = (uint32_t)hit.entries * MPB_INDEX_ENTRY_BYTES;
    next->time_index_bytes = (uint32_t)time_hit.entries * MPB_TIME_INDEX_ENTRY_BYTES;
    if (hit.found && hit.position < next->position)
        next->bytes_since_index = (uint32_t)(next->position - hit.position);
    return 0;
}

/* Length of the index of aborted transactions that speaks of markers below `offset` only. */
static int recount_aborted(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *was,
                           int64_t offset, struct mpb_partition_copy *next)
{
    uint8_t bytes[MPB_TXN_INDEX_ENTRY_BYTES];
    struct mpb_aborted entry;
    next->txn_index_bytes = 0;
    int fd = mpb_segment_fd(log, row, was, next->active_base, MPB_FILE_TXN_INDEX);
    if (fd == -ENOENT)
        return 0;
    for (int64_t n = fd; n >= 0;) {
        n = mpb_io_read(fd, bytes, sizeof bytes, next->txn_index_bytes);
        if (n < 0)
            return (int)n;
        if (n < (int64_t)sizeof bytes || !mpb_aborted_read(bytes, &entry) || entry.last_offset >= offset)
            return 0;
        next->txn_index_bytes += (uint32_t)sizeof bytes;
    }
    return fd;
}

/* The state after the truncation, from the files as they are. Returns 0 or a negative errno. */
static int plan(struct mpb_log *log, const struct mpb_partition *row, int64_t offset, struct mpb_partition_copy *next)
{
    const struct mpb_partition_copy was = *next;
    const struct mpb_segment_list *list;
    int error = mpb_segment_list_get(log, row, &was, &list);
    if (error != 0)
        return error;
    uint32_t at = mpb_segment_list_find(list, offset);
    next->active_base = list->bases[at];
    int64_t before = mpb_segment_bytes(log, row, &was, next->active_base, MPB_FILE_LOG);
    error = before < 0 ? (int)before
                       : mpb_segment_find(log, row, &was, next->active_base, offset, &next->position, NULL);
    if (error != 0)
        return error;
    next->log_bytes -= before - (int64_t)next->position;
    for (uint32_t i = at + 1; i < list->count; i++) {
        int64_t bytes = mpb_segment_bytes(log, row, &was, list->bases[i], MPB_FILE_LOG);
        if (bytes < 0)
            return (int)bytes;
        next->log_bytes -= bytes;
        next->segment_count--;
    }
    mpb_epochs_cut(log->core, row, next, offset);
    error = recount_indexes(log, row, &was, offset, next);
    if (error == 0)
        error = recount_aborted(log, row, &was, offset, next);
    if (error == 0)
        error = recount_times(log, row, &was, next);
    next->leo = offset;
    next->log_start = next->log_start > offset ? offset : next->log_start;
    next->hw = next->hw > offset ? offset : next->hw;
    next->lso = next->lso > offset ? offset : next->lso;
    next->aborted_end = next->aborted_end > offset ? offset : next->aborted_end;
    next->truncations += 2; /* stays even */
    return error;
}

/* Whether any producer has or had a transaction here. */
static bool has_transactions(struct mpb_core *core, const struct mpb_partition *row)
{
    uint32_t chain = 0, at = 0;
    for (struct mpb_producer *p; (p = mpb_producer_next(core, row, &chain, &at)) != NULL;)
        if (mpb_txn_first(p) >= 0 || mpb_txn_epochs_of(p).marker >= 0)
            return true;
    return false;
}

static int truncate_locked(struct mpb_log *log, struct mpb_partition *row, int64_t offset)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    if (offset >= next.leo)
        return 0;
    int error = plan(log, row, offset, &next);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    row->intent.target = next.segment_id = mpb_load_relaxed(&row->selector) + 1;
    if ((int64_t)mpb_load_relaxed(&row->flushed_offset) > offset)
        mpb_store_release(&row->flushed_offset, (uint64_t)offset);
    bool replay = has_transactions(log->core, row); /* noted here: a repair finds rows that were emptied for it */
    row->intent.batch_kind = (uint16_t)(replay ? MPB_BATCH_IN_TRANSACTION : MPB_BATCH_PLAIN);
    mpb_intent_set(log, row, MPB_INTENT_TRUNCATE);
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "truncate.committed");
    error = mpb_truncate_finish(log, row);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    mpb_intent_clear(row);
    return 0;
}

int mpb_truncate(struct mpb_log *log, uint32_t ordinal, int64_t offset)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error;
    error = offset < mpb_partition_in_force(row)->log_start ? MPB_ERR_OFFSET_OUT_OF_RANGE
                                                            : truncate_locked(log, row, offset);
    mpb_partition_unlock(log, ordinal);
    mpb_partition_moved(log, ordinal);
    return error;
}

/* No record is cut: only epochs that began at the end or beyond it. */
static void cut_epochs(struct mpb_log *log, struct mpb_partition *row, int64_t offset)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    uint32_t epochs = next.epochs;
    mpb_epochs_cut(log->core, row, &next, offset);
    if (next.epochs == epochs)
        return;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
}

static int follow_locked(struct mpb_log *log, struct mpb_partition *row, int64_t offset, int32_t leader_epoch,
                         int64_t now_ms)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const struct mpb_segment_list *list;
    int error = mpb_follower_is_fenced(now, leader_epoch);
    if (error != 0 || offset < 0)
        return error != 0 ? error : MPB_ERR_OFFSET_OUT_OF_RANGE;
    if (offset >= now->leo) {
        cut_epochs(log, row, offset);
        return 0;
    }
    error = mpb_segment_list_get(log, row, now, &list);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    return offset < list->bases[0] ? mpb_start_at_locked(log, row, offset, now_ms) : truncate_locked(log, row, offset);
}

int mpb_truncate_follower(struct mpb_log *log, uint32_t ordinal, int64_t offset, int32_t leader_epoch, int64_t now_ms)
{
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error;
    error = follow_locked(log, &log->core->partitions[ordinal], offset, leader_epoch, now_ms);
    mpb_partition_unlock(log, ordinal);
    mpb_partition_moved(log, ordinal);
    return error;
}
