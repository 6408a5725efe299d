#include "log/log_read.h"

#include <errno.h>
#include <string.h>

#include "log/header_scan.h"
#include "log/io_error.h"
#include "log/log_io.h"
#include "log/offset_index.h"
#include "log/partition_lock.h"
#include "log/segment.h"
#include "log/segment_list.h"

/* A reader does not condemn a log directory because a file is gone: retention may have overtaken the plan. */
int mpb_read_error(struct mpb_log *log, const struct mpb_partition *row, int64_t base, int error)
{
    struct mpb_partition_copy now;
    if (mpb_io_error_class(error) == MPB_IO_BROKEN)
        return mpb_log_io_error(log, row, error);
    if (error == -ENOENT && mpb_partition_snapshot(log, (uint32_t)(row - log->core->partitions), &now) == 0 &&
        now.log_start > base)
        return MPB_ERR_OFFSET_OUT_OF_RANGE;
    mpb_log_note_error(log, row, error);
    return error == -EBADMSG ? MPB_ERR_CORRUPT_MESSAGE : MPB_ERR_KAFKA_STORAGE_ERROR;
}

static void describe(const struct mpb_partition_copy *copy, uint32_t ordinal, struct mpb_read_plan *out)
{
    memset(out, 0, sizeof *out);
    out->ordinal = ordinal;
    out->truncations = copy->truncations;
    out->log_start = copy->log_start;
    out->high_watermark = copy->hw;
    out->last_stable = copy->lso;
    out->end_offset = copy->leo;
    out->aborted_end = copy->aborted_end;
    out->leader_epoch = copy->leader_epoch;
}

/* Snapshot and the checks every read begins with. */
static int begin(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, struct mpb_partition_copy *copy,
                 struct mpb_read_plan *out)
{
    int error = mpb_partition_snapshot(log, ordinal, copy);
    if (error != 0)
        memset(out, 0, sizeof *out);
    else
        describe(copy, ordinal, out);
    if (error == 0)
        error = mpb_partition_usable(log->core, &log->core->partitions[ordinal], topic_id);
    return error == 0 && copy->role != MPB_ROLE_LEADER ? MPB_ERR_NOT_LEADER_OR_FOLLOWER : error;
}

bool mpb_read_overtaken(struct mpb_log *log, uint32_t ordinal, uint32_t truncations)
{
    struct mpb_partition_copy now;
    return mpb_partition_snapshot(log, ordinal, &now) != 0 || now.truncations != truncations;
}

/* A retention after the snapshot takes away the segment that was looked for: then the next one answers, wrongly. */
static int64_t log_start_now(struct mpb_log *log, uint32_t ordinal)
{
    struct mpb_partition_copy now;
    return mpb_partition_snapshot(log, ordinal, &now) == 0 ? now.log_start : INT64_MAX;
}

/* Base of the segment that holds `offset`, or a negative errno. */
static int64_t base_for(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                        int64_t offset)
{
    if (offset >= copy->active_base)
        return copy->active_base;
    const struct mpb_segment_list *list;
    int error = mpb_segment_list_get(log, row, copy, &list);
    return error != 0 ? error : list->bases[mpb_segment_list_find(list, offset)];
}

/* From the batch that holds `offset` in the segment at out->base. A segment may end before its successor's base (a
 * truncation left a gap): then there is no batch, and the caller goes on with the next segment. */
static int plan_in_segment(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                           int64_t offset, int64_t limit, struct mpb_read_plan *out, uint64_t *end)
{
    struct mpb_batch_info first;
    int error = mpb_segment_find(log, row, copy, out->base, offset, &out->position, &first);
    if (error != 0)
        return error;
    out->first_batch_bytes = first.batch_bytes;
    out->first_offset = first.base_offset;
    out->segment_id = mpb_segment_id(copy, out->base);
    int64_t size = mpb_segment_bytes(log, row, copy, out->base, MPB_FILE_LOG);
    *end = size < 0 ? 0 : (uint64_t)size;
    if (size < 0 || limit >= copy->leo || first.batch_bytes == 0)
        return size < 0 ? (int)size : 0;
    return mpb_segment_find(log, row, copy, out->base, limit, end, NULL);
}

static bool is_of_replica(int64_t limit)
{
    return limit == MPB_READ_REPLICA_TO_HIGH_WATERMARK || limit == MPB_READ_REPLICA_TO_STABLE;
}

int mpb_log_find(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t offset, int64_t limit,
                 uint32_t max_bytes, bool min_one, struct mpb_read_plan *out)
{
    const struct mpb_partition *row = &log->core->partitions[ordinal];
    struct mpb_partition_copy copy;
    int error = begin(log, ordinal, topic_id, &copy, out);
    if (error == MPB_ERR_NOT_LEADER_OR_FOLLOWER && copy.role == MPB_ROLE_FOLLOWER && is_of_replica(limit))
        error = 0;
    if (error != 0)
        return error;
    if (offset < copy.log_start || offset > copy.leo)
        return MPB_ERR_OFFSET_OUT_OF_RANGE;
    if (is_of_replica(limit))
        limit = limit == MPB_READ_REPLICA_TO_STABLE ? copy.lso : copy.hw;
    limit = limit == MPB_READ_TO_HIGH_WATERMARK ? copy.hw : limit == MPB_READ_TO_STABLE ? copy.lso : limit;
    limit = limit > copy.leo ? copy.leo : limit;
    uint64_t end = 0;
    for (int64_t from = offset; from < limit;) {
        out->base = base_for(log, row, &copy, from);
        if (out->base < 0)
            return mpb_read_error(log, row, offset, (int)out->base);
        error = plan_in_segment(log, row, &copy, from, limit, out, &end);
        if (error != 0)
            return mpb_read_overtaken(log, ordinal, copy.truncations) ? MPB_ERR_NOT_LEADER_OR_FOLLOWER
                                                                      : mpb_read_error(log, row, out->base, error);
        if (out->first_batch_bytes != 0 || out->base == copy.active_base)
            break;
        const struct mpb_segment_list *list;
        error = mpb_segment_list_get(log, row, &copy, &list);
        if (error != 0)
            return mpb_read_error(log, row, out->base, error);
        uint32_t at = mpb_segment_list_find(list, out->base) + 1;
        if (at >= list->count)
            break;
        from = list->bases[at];
    }
    if (out->first_batch_bytes == 0 || end <= out->position)
        return 0;
    if (out->first_offset > offset && log_start_now(log, ordinal) > offset)
        return MPB_ERR_OFFSET_OUT_OF_RANGE;
    uint64_t available = end - out->position;
    uint32_t allowed = max_bytes >= out->first_batch_bytes ? max_bytes : min_one ? out->first_batch_bytes : 0;
    out->length = available < allowed ? (uint32_t)available : allowed;
    return 0;
}

int mpb_log_read(struct mpb_log *log, const struct mpb_read_plan *plan, uint8_t *out, uint32_t *length)
{
    const struct mpb_partition *row = &log->core->partitions[plan->ordinal];
    struct mpb_partition_copy copy;
    *length = 0;
    int error = mpb_partition_snapshot(log, plan->ordinal, &copy);
    if (error != 0)
        return error;
    if (copy.truncations != plan->truncations)
        return MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    int fd = mpb_segment_fd(log, row, &copy, plan->base, MPB_FILE_LOG);
    int64_t n = fd < 0 ? fd : mpb_io_read(fd, out, plan->length, plan->position);
    if (mpb_read_overtaken(log, plan->ordinal, plan->truncations)) {
        mpb_log_count(log, MPB_C_LOG_READS_OVERTAKEN, 1);
        return MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    }
    if (n < plan->length) /* shorter than its committed length: something cut it from outside */
        return mpb_read_error(log, row, plan->base, n < 0 ? (int)n : -ERANGE);
    *length = (uint32_t)n;
    atomic_fetch_add_explicit(&log->core->partitions[plan->ordinal].bytes_read, (uint64_t)n, memory_order_relaxed);
    return 0;
}

/* Largest timestamp of a segment: the last entry of its time index; no entry: unknown, look inside. */
static int largest_timestamp(struct mpb_log *log, const struct mpb_partition *row,
                             const struct mpb_partition_copy *copy, int64_t base, int64_t *out)
{
    struct mpb_index_hit hit = {0};
    *out = INT64_MAX;
    if (base == copy->active_base) {
        *out = copy->max_timestamp;
        return 0;
    }
    int64_t bytes = mpb_segment_bytes(log, row, copy, base, MPB_FILE_TIME_INDEX);
    if (bytes <= 0)
        return (int)bytes;
    int fd = mpb_segment_fd(log, row, copy, base, MPB_FILE_TIME_INDEX);
    int error = fd < 0 ? fd : mpb_time_index_find(fd, (uint64_t)bytes, INT64_MAX, &hit);
    if (error == 0 && hit.found)
        *out = hit.timestamp;
    return error;
}

/* Where to begin in a segment: behind the newest entry whose timestamp is still too small, not before `from`. */
static int first_candidate(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                           int64_t base, int64_t timestamp, int64_t *from)
{
    struct mpb_index_hit hit = {0};
    int64_t bytes = mpb_segment_bytes(log, row, copy, base, MPB_FILE_TIME_INDEX);
    if (bytes <= 0)
        return (int)bytes;
    int fd = mpb_segment_fd(log, row, copy, base, MPB_FILE_TIME_INDEX);
    int error = fd < 0 ? fd : mpb_time_index_find(fd, (uint64_t)bytes, timestamp - 1, &hit);
    if (error == 0 && hit.found && base + hit.relative > *from)
        *from = base + hit.relative;
    return error;
}

static int find_time_in(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                        int64_t timestamp, int64_t from, struct mpb_read_plan *out)
{
    struct mpb_header_scan scan;
    struct mpb_batch_info info;
    uint64_t position;
    int error = first_candidate(log, row, copy, out->base, timestamp, &from);
    if (error == 0)
        error = mpb_segment_find(log, row, copy, out->base, from, &position, NULL);
    int64_t end = mpb_segment_bytes(log, row, copy, out->base, MPB_FILE_LOG);
    int fd = mpb_segment_fd(log, row, copy, out->base, MPB_FILE_LOG);
    if (error != 0 || end < 0 || fd < 0)
        return error != 0 ? error : end < 0 ? (int)end : fd;
    mpb_header_scan_begin(&scan, fd, position, (uint64_t)end);
    while ((error = mpb_header_scan_next(&scan, &info)) == 1)
        if (info.max_timestamp >= timestamp) {
            out->position = scan.position;
            out->length = out->first_batch_bytes = info.batch_bytes;
            out->first_offset = info.base_offset;
            out->segment_id = mpb_segment_id(copy, out->base);
            return 0;
        }
    return error;
}

int mpb_log_find_time(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t timestamp,
                      int64_t from_offset, struct mpb_read_plan *out)
{
    const struct mpb_partition *row = &log->core->partitions[ordinal];
    struct mpb_partition_copy copy;
    int error = begin(log, ordinal, topic_id, &copy, out);
    if (error != 0)
        return error;
    int64_t from = from_offset > copy.log_start ? from_offset : copy.log_start;
    const struct mpb_segment_list *list;
    error = mpb_segment_list_get(log, row, &copy, &list);
    if (error != 0)
        return mpb_read_error(log, row, from, error);
    for (uint32_t i = mpb_segment_list_find(list, from); i < list->count && out->length == 0; i++) {
        int64_t largest;
        out->base = list->bases[i];
        error = largest_timestamp(log, row, &copy, out->base, &largest);
        if (error == 0 && largest >= timestamp)
            error = find_time_in(log, row, &copy, timestamp, from, out);
        if (error != 0)
            return mpb_read_overtaken(log, ordinal, copy.truncations) ? MPB_ERR_NOT_LEADER_OR_FOLLOWER
                                                                      : mpb_read_error(log, row, out->base, error);
    }
    return 0;
}

/* The same for one segment, from its batches: those that reach `from`. */
static int scan_largest(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                        int64_t base, int64_t from, int64_t *out)
{
    struct mpb_header_scan scan;
    struct mpb_batch_info info;
    uint64_t position;
    int error = mpb_segment_find(log, row, copy, base, from, &position, NULL);
    int64_t end = mpb_segment_bytes(log, row, copy, base, MPB_FILE_LOG);
    int fd = mpb_segment_fd(log, row, copy, base, MPB_FILE_LOG);
    if (error != 0 || end < 0 || fd < 0)
        return error != 0 ? error : end < 0 ? (int)end : fd;
    *out = MPB_NO_TIMESTAMP;
    mpb_header_scan_begin(&scan, fd, position, (uint64_t)end);
    while ((error = mpb_header_scan_next(&scan, &info)) == 1)
        if (info.max_timestamp > *out && info.base_offset + info.last_offset_delta >= from)
            *out = info.max_timestamp;
    return error;
}

static int largest_from(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                        int64_t base, int64_t from, int64_t *out)
{
    int error = largest_timestamp(log, row, copy, base, out);
    bool begins_before = base < from && from < copy->leo;
    if (error == 0 && *out != MPB_NO_TIMESTAMP && (begins_before || *out == INT64_MAX))
        error = scan_largest(log, row, copy, base, from, out);
    return error;
}

int mpb_log_largest_time(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t *timestamp)
{
    const struct mpb_partition *row = &log->core->partitions[ordinal];
    struct mpb_partition_copy copy;
    struct mpb_read_plan plan;
    const struct mpb_segment_list *list;
    *timestamp = MPB_NO_TIMESTAMP;
    int error = begin(log, ordinal, topic_id, &copy, &plan);
    if (error != 0)
        return error;
    error = mpb_segment_list_get(log, row, &copy, &list);
    if (error != 0)
        return mpb_read_error(log, row, copy.log_start, error);
    for (uint32_t i = mpb_segment_list_find(list, copy.log_start); i < list->count; i++) {
        int64_t largest;
        error = largest_from(log, row, &copy, list->bases[i], copy.log_start, &largest);
        if (error != 0)
            return mpb_read_overtaken(log, ordinal, copy.truncations) ? MPB_ERR_NOT_LEADER_OR_FOLLOWER
                                                                      : mpb_read_error(log, row, list->bases[i], error);
        if (largest > *timestamp)
            *timestamp = largest;
    }
    return 0;
}
