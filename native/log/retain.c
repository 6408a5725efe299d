#include "log/retain.h"

#include <errno.h>

#include "log/header_scan.h"
#include "log/log_io.h"
#include "log/offset_index.h"
#include "log/partition_lock.h"
#include "log/roll.h"
#include "log/segment.h"
#include "log/segment_list.h"

/* Whether a time index entry says what its batch says. What is damaged would have sound records deleted as old. */
static bool is_sound(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
                     int64_t base, const struct mpb_index_hit *hit)
{
    struct mpb_batch_info batch;
    uint64_t position;
    return mpb_segment_find(log, row, now, base, base + hit->relative, &position, &batch) == 0 &&
           batch.batch_bytes != 0 && batch.max_timestamp == hit->timestamp;
}

/* Largest timestamp of a segment, but never later than its log file was last written: a time in the future, or none, is
 * no reason to keep what others wrote. */
static int segment_time(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
                        int64_t base, int64_t *out)
{
    struct mpb_index_hit hit = {0};
    struct mpb_io_status status;
    int64_t bytes = mpb_segment_bytes(log, row, now, base, MPB_FILE_TIME_INDEX);
    int fd = bytes < 0 ? (int)bytes : mpb_segment_fd(log, row, now, base, MPB_FILE_LOG);
    int error = fd < 0 ? fd : mpb_io_status(fd, &status);
    if (error != 0)
        return error;
    *out = status.modified_ms;
    if (base == now->active_base) {
        *out = now->max_timestamp >= 0 && now->max_timestamp < *out ? now->max_timestamp : *out;
        return 0;
    }
    if (bytes == 0)
        return 0;
    int time_fd = mpb_segment_fd(log, row, now, base, MPB_FILE_TIME_INDEX);
    error = time_fd < 0 ? time_fd : mpb_time_index_find(time_fd, (uint64_t)bytes, INT64_MAX, &hit);
    if (error == 0 && hit.found && hit.timestamp >= 0 && hit.timestamp < *out && is_sound(log, row, now, base, &hit))
        *out = hit.timestamp;
    return error;
}

static int is_deletable(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
                        const struct mpb_retain_rules *rules, int64_t base, int64_t end, int64_t size, int64_t left,
                        bool *out)
{
    int64_t newest = 0;
    *out = end <= now->log_start;
    if (*out || end > now->hw)
        return 0;
    *out = rules->retention_bytes >= 0 && left - rules->retention_bytes >= size;
    if (*out || rules->retention_ms < 0)
        return 0;
    int error = segment_time(log, row, now, base, &newest);
    *out = error == 0 && rules->now_ms - newest > rules->retention_ms;
    return error;
}

/* New log start and what it frees: the longest run of deletable segments from the oldest on. Segments below log start
 * already left the books when log start moved, if a retention moved it; by DeleteRecords they leave them now. */
static int choose(struct mpb_log *log, struct mpb_partition *row, const struct mpb_retain_rules *rules,
                  const struct mpb_segment_list *list, struct mpb_partition_copy *next, uint32_t *count, bool *all)
{
    const struct mpb_partition_copy now = *mpb_partition_in_force(row);
    int64_t left = now.log_bytes;
    uint32_t skipped = list->count > now.segment_count ? list->count - now.segment_count : 0;
    *all = false;
    for (*count = 0; *count < list->count && *count < MPB_RETAIN_MAX_REMOVED; ++*count) {
        int64_t base = list->bases[*count];
        bool active = *count + 1 == list->count, deletable;
        int64_t end = active ? now.leo : list->bases[*count + 1];
        int64_t size = mpb_segment_bytes(log, row, &now, base, MPB_FILE_LOG);
        if (size == -ENOENT && *count < skipped)
            size = 0;
        if (size < 0)
            return (int)size;
        if (active && now.position == 0)
            return 0;
        int error = is_deletable(log, row, &now, rules, base, end, size, left, &deletable);
        if (error != 0 || !deletable)
            return error;
        if (active) {
            *all = true;
            return 0;
        }
        if (*count >= skipped) { /* not yet taken off the books by a run that died */
            left -= size;
            next->log_bytes -= size;
            next->segment_count--;
        }
        next->log_start = end > next->log_start ? end : next->log_start;
        next->lso = next->lso < next->log_start ? next->log_start : next->lso;
    }
    return 0;
}

static int retain_locked(struct mpb_log *log, struct mpb_partition *row, const struct mpb_retain_rules *rules,
                         int64_t *removed, uint32_t *removed_count)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    const struct mpb_segment_list *list;
    uint32_t count = 0;
    bool all = false;
    int error = mpb_segment_list_get(log, row, &next, &list);
    if (error == 0)
        error = choose(log, row, rules, list, &next, &count, &all);
    if (error == 0 && all) { /* the active segment goes too: give the log a new one first */
        error = mpb_roll_locked(log, row, rules->now_ms);
        if (error != 0)
            return error;
        next = *mpb_partition_in_force(row);
        error = mpb_segment_list_get(log, row, &next, &list);
        if (error == 0)
            error = choose(log, row, rules, list, &next, &count, &all);
    }
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    if (count == 0)
        return 0;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "retain.committed");
    for (uint32_t i = 0; i < count; i++) {
        error = mpb_segment_retire(log, row, list->bases[i]);
        if (error != 0)
            return mpb_log_io_error(log, row, error);
        removed[(*removed_count)++] = list->bases[i];
    }
    return 0;
}

int mpb_retain(struct mpb_log *log, uint32_t ordinal, const struct mpb_retain_rules *rules,
               int64_t removed[MPB_RETAIN_MAX_REMOVED], uint32_t *removed_count)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    *removed_count = 0;
    int error = mpb_partition_lock_usable(log, ordinal, rules->topic_id);
    if (error != 0)
        return error;
    error = retain_locked(log, row, rules, removed, removed_count);
    if (log->lists[ordinal] != NULL)
        log->lists[ordinal]->valid = false;
    mpb_partition_unlock(log, ordinal);
    if (*removed_count > 0)
        mpb_partition_moved(log, ordinal);
    return error;
}
