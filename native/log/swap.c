#include "log/swap.h"

#include <errno.h>
#include <fcntl.h>

#include "log/log_io.h"
#include "log/partition_lock.h"
#include "log/segment.h"
#include "log/segment_list.h"
#include "log/swap_finish.h"

/* Bytes of the cleaned log, or a negative errno. */
static int64_t cleaned_bytes(struct mpb_log *log, const struct mpb_partition *row, int64_t base)
{
    char path[MPB_SEGMENT_PATH_BYTES];
    struct mpb_io_status status;
    mpb_cleaned_path(path, row, base, MPB_FILE_LOG);
    int fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDONLY);
    if (fd < 0)
        return fd;
    int error = mpb_io_status(fd, &status);
    mpb_io_close(fd);
    return error != 0 ? error : (int64_t)status.bytes;
}

/* Segments and bytes that the swap takes off the books; MPB_SWAP_CHANGED if they are not the segments that were meant. */
static int account(struct mpb_log *log, struct mpb_partition *row, int64_t base, int64_t end,
                   struct mpb_partition_copy *next)
{
    const struct mpb_segment_list *list;
    const struct mpb_partition_copy now = *next;
    int error = mpb_segment_list_get(log, row, &now, &list);
    int64_t bytes = cleaned_bytes(log, row, base);
    if (error != 0 || (bytes < 0 && bytes != -ENOENT))
        return error != 0 ? error : (int)bytes;
    uint32_t at = mpb_segment_list_find(list, base);
    if (bytes < 0 || list->bases[at] != base || end > now.active_base)
        return MPB_SWAP_CHANGED;
    next->log_bytes += bytes;
    for (; at < list->count && list->bases[at] < end; at++) {
        int64_t old_bytes = mpb_segment_bytes(log, row, &now, list->bases[at], MPB_FILE_LOG);
        if (old_bytes < 0)
            return (int)old_bytes;
        next->log_bytes -= old_bytes;
        next->segment_count -= list->bases[at] != base;
    }
    return at < list->count && list->bases[at] == end ? 0 : MPB_SWAP_CHANGED;
}

static int swap_locked(struct mpb_log *log, struct mpb_partition *row, int64_t base, int64_t end, uint32_t truncations)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    const struct mpb_segment_list *list;
    if (next.truncations != truncations)
        return MPB_SWAP_CHANGED;
    int error = mpb_segment_list_get(log, row, &next, &list);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    uint32_t at = mpb_segment_list_find(list, base);
    if (at + 1 < list->count && list->bases[at + 1] <= next.log_start)
        return MPB_SWAP_CHANGED; /* below log start: retention has taken it off the books, or will */
    error = account(log, row, base, end, &next);
    if (error != 0)
        return error == MPB_SWAP_CHANGED ? error : mpb_log_io_error(log, row, error);
    row->intent.target = mpb_load_relaxed(&row->selector) + 1;
    row->intent.base_offset = base;
    row->intent.last_offset = end;
    mpb_intent_set(log, row, MPB_INTENT_SWAP);
    MPB_CRASH(log->core, "swap.intent");
    next.truncations++;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "swap.committed");
    error = mpb_swap_finish(log, row);
    if (error != 0)
        return mpb_log_io_error(log, row, error); /* the intent stays: whoever takes the lock tries again */
    mpb_intent_clear(row);
    return 0;
}

int mpb_swap(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t base, int64_t end,
             uint32_t truncations)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock_usable(log, ordinal, topic_id);
    if (error != 0)
        return error;
    error = swap_locked(log, row, base, end, truncations);
    if (log->lists[ordinal] != NULL)
        log->lists[ordinal]->valid = false;
    mpb_partition_unlock(log, ordinal);
    if (error == 0)
        mpb_partition_moved(log, ordinal);
    return error;
}
