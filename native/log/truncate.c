#include "log/truncate.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/log_read.h"
#include "log/offset_index.h"
#include "log/partition.h"
#include "log/producer.h"
#include "log/repair.h"
#include "log/segment.h"

static int unlink_above(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
                        const struct mpb_segment_list *list)
{
    for (uint32_t i = list->count; i > 0 && list->bases[i - 1] > now->active_base; i--) {
        int error = mpb_segment_unlink(log, row, list->bases[i - 1]);
        if (error != 0)
            return error;
        MPB_CRASH(log->core, "truncate.segment_unlinked");
    }
    return 0;
}

/* Feeds the rows that the truncation emptied with what is left of the log. A second run skips what is kept already. */
static int rebuild_from(struct mpb_log *log, struct mpb_partition *row, const struct mpb_partition_copy *now,
                        int64_t base)
{
    struct mpb_header_scan scan;
    struct mpb_batch_info info;
    int64_t end = mpb_segment_bytes(log, row, now, base, MPB_FILE_LOG);
    int fd = mpb_segment_fd(log, row, now, base, MPB_FILE_LOG), more;
    if (end < 0 || fd < 0)
        return end < 0 ? (int)end : fd;
    mpb_header_scan_begin(&scan, fd, 0, (uint64_t)end);
    while ((more = mpb_header_scan_next(&scan, &info)) == 1) {
        uint32_t at = info.producer_id >= 0 ? mpb_producer_rebuilding(log->core, row, info.producer_id) : 0;
        struct mpb_producer_batch batch = {
            .base_offset = info.base_offset,
            .timestamp_ms = info.max_timestamp,
            .first_sequence = info.base_sequence,
            .last_sequence = mpb_last_sequence(info.base_sequence, info.record_count),
            .last_offset_delta = info.last_offset_delta,
            .epoch = info.producer_epoch,
        };
        if (at != 0)
            mpb_producer_keep(log->core, at, &batch);
    }
    return more;
}

static int rebuild_producers(struct mpb_log *log, struct mpb_partition *row, const struct mpb_partition_copy *now)
{
    if (mpb_producers_truncate(log->core, row, now->leo) == 0)
        return 0;
    MPB_CRASH(log->core, "truncate.producers_half");
    const struct mpb_segment_list *list = mpb_segment_list_get(log, row, now);
    if (list == NULL)
        return -EIO;
    for (uint32_t i = mpb_segment_list_find(list, now->log_start); i < list->count; i++) {
        int error = rebuild_from(log, row, now, list->bases[i]);
        if (error != 0)
            return error;
    }
    mpb_producers_rebuilt(log->core, row);
    return 0;
}

int mpb_truncate_finish(struct mpb_log *log, struct mpb_partition *row)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const uint64_t lengths[] = {now->position, now->index_bytes, now->time_index_bytes};
    const struct mpb_segment_list *list = mpb_segment_list_all(log, row);
    int error = list == NULL ? -EIO : unlink_above(log, row, now, list);
    for (int file = 0; error == 0 && file < MPB_SEGMENT_FILES; file++) {
        int fd = mpb_segment_fd(log, row, now, now->active_base, (enum mpb_segment_file)file);
        error = fd < 0 ? fd : mpb_io_truncate(fd, lengths[file]);
        if (file == MPB_FILE_LOG)
            MPB_CRASH(log->core, "truncate.log_cut");
    }
    return error != 0 ? error : rebuild_producers(log, row, now);
}

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

/* The state after the truncation, from the files as they are. Returns 0 or a negative errno. */
static int plan(struct mpb_log *log, const struct mpb_partition *row, int64_t offset, struct mpb_partition_copy *next)
{
    const struct mpb_partition_copy was = *next;
    const struct mpb_segment_list *list = mpb_segment_list_get(log, row, &was);
    if (list == NULL)
        return -EIO;
    uint32_t at = mpb_segment_list_find(list, offset);
    next->active_base = list->bases[at];
    int64_t before = mpb_segment_bytes(log, row, &was, next->active_base, MPB_FILE_LOG);
    int error = before < 0 ? (int)before
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
    error = recount_indexes(log, row, &was, offset, next);
    if (error == 0)
        error = recount_times(log, row, &was, next);
    next->leo = offset;
    next->hw = next->hw > offset ? offset : next->hw;
    next->lso = next->lso > offset ? offset : next->lso;
    next->truncations++;
    return error;
}

static int truncate_locked(struct mpb_log *log, struct mpb_partition *row, int64_t offset)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    if (offset >= next.leo)
        return 0;
    if (offset < next.log_start)
        return MPB_ERR_OFFSET_OUT_OF_RANGE;
    int error = plan(log, row, offset, &next);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    row->intent.target = next.segment_id = mpb_load_relaxed(&row->selector) + 1;
    if ((int64_t)mpb_load_relaxed(&row->flushed_offset) > offset)
        mpb_store_release(&row->flushed_offset, (uint64_t)offset);
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
    int error = mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    error = mpb_partition_usable(log->core, row, NULL);
    if (error == 0)
        error = truncate_locked(log, row, offset);
    mpb_partition_unlock(log, ordinal);
    mpb_partition_moved(log, ordinal);
    return error;
}
