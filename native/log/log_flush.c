#include "log/log_flush.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "log/io_error.h"
#include "log/log_io.h"
#include "shm/metadata.h"
#include "log/partition_lock.h"
#include "log/segment.h"
#include "log/segment_list.h"

/* Whether retention was faster than the flush: then nobody needs the segment. */
static bool is_retained_away(struct mpb_log *log, const struct mpb_partition *row, int64_t base)
{
    struct mpb_partition_copy now;
    return mpb_partition_snapshot(log, (uint32_t)(row - log->core->partitions), &now) == 0 && base < now.log_start;
}

/* Of the segment in use, whether transactions were aborted in it since the last flush. */
static bool has_new_aborts(const struct mpb_partition_copy *copy, int64_t flushed)
{
    return copy->txn_index_bytes > 0 && copy->aborted_end > flushed;
}

static int sync_segment(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                        int64_t base, int64_t flushed)
{
    /* Of a rolled segment the indexes too: below the recovery point nobody rebuilds them. Of the one in use they are, but
     * for .txnindex after a clean stop: without its entry a reader of committed records would get what was aborted. */
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++) {
        if (base == copy->active_base && file != MPB_FILE_LOG &&
            (file != MPB_FILE_TXN_INDEX || !has_new_aborts(copy, flushed)))
            continue;
        int fd = mpb_segment_fd(log, row, copy, base, (enum mpb_segment_file)file);
        if (fd == -ENOENT && (file != MPB_FILE_LOG || is_retained_away(log, row, base)))
            continue;
        int error = fd < 0 ? fd : mpb_io_sync(fd, true);
        if (error != 0)
            return error;
    }
    return 0;
}

static int sync_directory(struct mpb_log *log, const struct mpb_partition *row)
{
    char path[sizeof row->dir];
    memcpy(path, row->dir, sizeof path);
    path[sizeof path - 1] = '\0';
    if (row->log_dir >= log->dir_count)
        return -ENOENT;
    int fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDONLY | O_DIRECTORY);
    if (mpb_io_error_wants_descriptors(fd)) {
        mpb_segment_close_all(log);
        fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDONLY | O_DIRECTORY);
    }
    if (fd < 0)
        return fd;
    int error = mpb_io_sync(fd, false);
    mpb_io_close(fd);
    return error;
}

static int sync_from(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                     int64_t flushed)
{
    const struct mpb_segment_list *list;
    if (flushed > copy->active_base) {
        int failed = sync_segment(log, row, copy, copy->active_base, flushed);
        return failed != 0 || !has_new_aborts(copy, flushed) ? failed : sync_directory(log, row);
    }
    int error = mpb_segment_list_get(log, row, copy, &list);
    if (error != 0)
        return error;
    /* From the segment that holds the last flushed offset: when it was synced it may have been the active one, of which
     * the indexes are left out. */
    for (uint32_t i = mpb_segment_list_find(list, flushed > 0 ? flushed - 1 : 0); i < list->count; i++) {
        error = sync_segment(log, row, copy, list->bases[i], flushed);
        if (error != 0)
            return error;
    }
    return sync_directory(log, row);
}

int mpb_log_flush(struct mpb_log *log, uint32_t ordinal, int64_t *flushed)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    struct mpb_partition_copy copy;
    *flushed = (int64_t)mpb_load_acquire(&row->flushed_offset);
    int error = mpb_partition_snapshot(log, ordinal, &copy);
    if (error == 0)
        error = mpb_partition_usable(log->core, row, NULL);
    if (error != 0 || *flushed >= copy.leo)
        return error;
    int failed = sync_from(log, row, &copy, *flushed);
    if (failed != 0 && failed != -ENOENT) /* at once: a second sync might succeed without having written anything */
        return mpb_log_sync_error(log, row, failed);
    error = mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    error = mpb_partition_usable(log->core, row, NULL); /* deleted meanwhile, and its directory renamed? */
    if (error != 0) {
        mpb_partition_unlock(log, ordinal);
        return error;
    }
    bool same = mpb_partition_in_force(row)->truncations == copy.truncations;
    if (failed != 0 && same) /* a truncation may have taken the file away, nothing else */
        error = mpb_log_sync_error(log, row, failed);
    if (failed == 0 && same && (int64_t)mpb_load_relaxed(&row->flushed_offset) < copy.leo)
        mpb_store_release(&row->flushed_offset, (uint64_t)copy.leo);
    *flushed = (int64_t)mpb_load_relaxed(&row->flushed_offset);
    mpb_partition_unlock(log, ordinal);
    return error;
}

uint32_t mpb_log_unflushed(struct mpb_log *log, bool rolled_only, uint32_t *next, uint32_t *out, uint32_t most)
{
    uint32_t high = mpb_partitions_high(log->core), count = 0;
    for (; *next < high && count < most; ++*next) {
        struct mpb_partition *row = &log->core->partitions[*next];
        struct mpb_partition_copy copy;
        if (mpb_partition_usable(log->core, row, NULL) != 0 || mpb_partition_snapshot(log, *next, &copy) != 0)
            continue;
        if ((int64_t)mpb_load_acquire(&row->flushed_offset) < (rolled_only ? copy.active_base : copy.leo) &&
            !mpb_partition_is_busy(log, *next)) /* a sync that nobody could take note of would be made for nothing */
            out[count++] = *next;
    }
    return count;
}

int mpb_log_set_flushed(struct mpb_log *log, uint32_t ordinal, int64_t offset)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    if (offset <= mpb_partition_in_force(row)->leo)
        mpb_store_release(&row->flushed_offset, (uint64_t)offset);
    mpb_partition_unlock(log, ordinal);
    return 0;
}
