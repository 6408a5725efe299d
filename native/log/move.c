#include "log/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "log/io_error.h"
#include "log/log_io.h"
#include "log/move_finish.h"
#include "log/partition_lock.h"
#include "log/partition_row.h"
#include "log/segment.h"
#include "shm/metadata.h"

#define PIECE_BYTES (64 * 1024)

/* ------------------------------------------------------------------ asking */

int mpb_move_ask(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, uint32_t to)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    if (to >= log->dir_count || !mpb_log_dir_online(log->core, to))
        return MPB_ERR_KAFKA_STORAGE_ERROR;
    int error = mpb_partition_lock_usable(log, ordinal, topic_id);
    if (error != 0)
        return error;
    uint32_t wanted = to == mpb_load_relaxed(&row->log_dir) ? 0 : to + 1;
    if (wanted != mpb_load_relaxed(&row->move_to)) {
        mpb_store_release(&row->move_number, mpb_load_relaxed(&row->move_number) + 1);
        mpb_store_release(&row->future_end, 0);
        mpb_store_release(&row->future_bytes, 0);
        mpb_step();
        mpb_store_release(&row->move_to, wanted);
        mpb_add_relaxed(&log->core->header->moves, 1);
    }
    mpb_partition_unlock(log, ordinal);
    return 0;
}

int mpb_move_give_up(struct mpb_log *log, uint32_t ordinal, uint32_t number)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    if (mpb_load_relaxed(&row->move_number) == number && mpb_load_relaxed(&row->move_to) != 0) {
        mpb_store_release(&row->move_to, 0);
        mpb_add_relaxed(&log->core->header->moves, 1);
    }
    mpb_partition_unlock(log, ordinal);
    return 0;
}

uint32_t mpb_moves(struct mpb_log *log, uint32_t *next, uint32_t *out, uint32_t most)
{
    uint32_t high = mpb_partitions_high(log->core), count = 0;
    for (; *next < high && count < most; ++*next)
        if (mpb_load_acquire(&log->core->partitions[*next].move_to) != 0)
            out[count++] = *next;
    return count;
}

/* ------------------------------------------------------------------ the end of a move */

/* A file of the copy's active segment, or a negative errno. */
static int open_copied(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_move *move,
                       enum mpb_segment_file file)
{
    static const char *const SUFFIX[MPB_ALL_SEGMENT_FILES] = {"log", "index", "timeindex", "txnindex"};
    char future[MPB_MOVE_PATH_BYTES], path[MPB_MOVE_PATH_BYTES + 40];
    mpb_move_path(future, row, "-future");
    snprintf(path, sizeof path, "%s/%020lld.%s", future, (long long)move->active_base, SUFFIX[file]);
    return mpb_io_open(log->dir_fd[move->to], path, O_RDWR | (file == MPB_FILE_TXN_INDEX ? O_CREAT : 0));
}

/* *of_source: whether the old directory is to blame. */
static int copy_bytes(int from, int to, uint64_t position, uint64_t end, bool *of_source)
{
    static _Thread_local uint8_t piece[PIECE_BYTES];
    while (position < end) {
        size_t length = end - position < PIECE_BYTES ? (size_t)(end - position) : PIECE_BYTES;
        int64_t n = mpb_io_read(from, piece, length, position);
        *of_source = n < (int64_t)length;
        int error = n < 0 ? (int)n : *of_source ? -ERANGE : mpb_io_write(to, piece, length, position);
        if (error != 0)
            return error;
        position += length;
    }
    return 0;
}

/* A call on the copy failed: that is the new log directory's trouble. */
static int fail_target(struct mpb_log *log, const struct mpb_move *move, int error)
{
    const struct mpb_partition there = {.log_dir = move->to};
    return mpb_log_io_error(log, &there, error);
}

/* A sync that failed is not made again (append rule 18). */
static int sync_copy(struct mpb_log *log, const struct mpb_move *move, int fd)
{
    int error = mpb_io_sync(fd, true);
    if (mpb_io_error_condemns(error, true))
        mpb_log_dir_fail(log->core, move->to);
    return error;
}

/* What one file of the active segment has got since it was copied. What a predecessor copied too much is cut. */
static int copy_rest(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
                     const struct mpb_move *move, enum mpb_segment_file file, bool sync)
{
    bool of_source = false;
    const uint64_t ends[] = {now->position, now->index_bytes, now->time_index_bytes, now->txn_index_bytes};
    if (file == MPB_FILE_TXN_INDEX && ends[file] == 0)
        return 0;
    int from = mpb_segment_fd(log, row, now, now->active_base, file);
    int to = from < 0 ? -1 : open_copied(log, row, move, file);
    if (from < 0 || to < 0)
        return from < 0 ? mpb_log_io_error(log, row, from) : fail_target(log, move, to);
    int error = copy_bytes(from, to, move->lengths[file], ends[file], &of_source);
    if (error == 0)
        error = mpb_io_truncate(to, ends[file]);
    if (error == 0 && sync && (file == MPB_FILE_LOG || file == MPB_FILE_TXN_INDEX))
        error = sync_copy(log, move, to);
    mpb_io_close(to);
    return error == 0 ? 0 : of_source ? mpb_log_io_error(log, row, error) : fail_target(log, move, error);
}

static bool is_of_this_log(const struct mpb_partition *row, const struct mpb_partition_copy *now,
                           const struct mpb_move *move)
{
    const uint64_t ends[] = {now->position, now->index_bytes, now->time_index_bytes, now->txn_index_bytes};
    uint64_t rest = 0, most = move->tail_bytes;
    most = most < MPB_MOVE_TAIL_BYTES ? MPB_MOVE_TAIL_BYTES : most;
    most = most > MPB_MOVE_MOST_TAIL_BYTES ? MPB_MOVE_MOST_TAIL_BYTES : most;
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++) {
        if (move->lengths[file] > ends[file])
            return false;
        rest += ends[file] - move->lengths[file];
    }
    return mpb_load_relaxed(&row->move_to) == move->to + 1 && mpb_load_relaxed(&row->move_number) == move->number &&
           now->truncations == move->truncations && now->segment_count == move->segment_count &&
           now->active_base == move->active_base && now->log_start == move->log_start && rest <= most;
}

/* Something else that has the partition's name in the new log directory would be in the way behind the commit. */
static int look_if_free(struct mpb_log *log, const struct mpb_partition *row, uint32_t to)
{
    int fd = mpb_io_open(log->dir_fd[to], row->dir, O_RDONLY | O_DIRECTORY);
    if (fd >= 0)
        mpb_io_close(fd);
    return fd >= 0 ? -EEXIST : fd == -ENOENT ? 0 : fd;
}

static int end_locked(struct mpb_log *log, struct mpb_partition *row, const struct mpb_move *move)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    if (!is_of_this_log(row, &next, move))
        return MPB_MOVE_CHANGED;
    int error = look_if_free(log, row, move->to);
    if (error != 0)
        return error == -EEXIST ? MPB_ERR_KAFKA_STORAGE_ERROR : fail_target(log, move, error);
    bool sync = (int64_t)mpb_load_relaxed(&row->flushed_offset) > move->synced;
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++) {
        error = copy_rest(log, row, &next, move, (enum mpb_segment_file)file, sync);
        if (error != 0)
            return error;
        MPB_CRASH(log->core, "move.copied");
    }
    row->intent.target = mpb_load_relaxed(&row->selector) + 1;
    row->intent.base_offset = move->to;
    row->intent.last_offset = mpb_load_relaxed(&row->log_dir);
    mpb_intent_set(log, row, MPB_INTENT_MOVE);
    MPB_CRASH(log->core, "move.intent");
    next.truncations++;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "move.committed");
    error = mpb_move_finish(log, row);
    if (error != 0)
        return mpb_log_io_error(log, row, error); /* the intent stays: whoever takes the lock tries again */
    mpb_intent_clear(row);
    return 0;
}

int mpb_move_end(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, const struct mpb_move *move)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    char path[MPB_MOVE_PATH_BYTES];
    if (move->to >= log->dir_count || !mpb_move_path(path, row, "-future"))
        return MPB_ERR_KAFKA_STORAGE_ERROR;
    int error = mpb_partition_lock_usable(log, ordinal, topic_id);
    if (error != 0)
        return error;
    error = end_locked(log, row, move);
    mpb_partition_unlock(log, ordinal);
    if (error == 0)
        mpb_partition_moved(log, ordinal);
    return error;
}
