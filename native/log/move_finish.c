#include "log/move_finish.h"

#include <fcntl.h>
#include <stdio.h>

#include "log/io_error.h"
#include "log/log_io.h"
#include "log/partition_row.h"

#define LONGEST_NAME 255

bool mpb_move_path(char out[MPB_MOVE_PATH_BYTES], const struct mpb_partition *row, const char *suffix)
{
    char id[2 * sizeof row->topic_id + 1];
    for (size_t i = 0; i < sizeof row->topic_id; i++)
        snprintf(id + 2 * i, 3, "%02x", row->topic_id[i]);
    int length = snprintf(out, MPB_MOVE_PATH_BYTES, "%.255s.%s%s", row->dir, id, suffix);
    return length > 0 && length <= LONGEST_NAME;
}

/* The copy gets the name before the old directory loses it, so that a start finds at least one; which one counts where it
 * finds both is what the copy's mark says. A log
 * directory that fails at letting the old one go takes nothing with it that has moved. */
static int change_places(struct mpb_log *log, const struct mpb_partition *row, uint32_t from, uint32_t to)
{
    char future[MPB_MOVE_PATH_BYTES], old[MPB_MOVE_PATH_BYTES];
    mpb_move_path(future, row, "-future");
    mpb_move_path(old, row, "-delete");
    int error = mpb_io_rename(log->dir_fd[to], future, row->dir);
    if (error != 0)
        return error;
    int there = mpb_io_open(log->dir_fd[to], row->dir, O_RDONLY | O_DIRECTORY);
    if (there < 0)
        return there; /* whoever took the copy away must not have the old one retired, too */
    mpb_io_close(there);
    error = mpb_io_sync(log->dir_fd[to], false); /* before anything that is synced in it counts as such */
    if (mpb_io_error_condemns(error, true))
        mpb_log_dir_fail(log->core, to); /* and not tried again */
    if (error != 0)
        return error;
    MPB_CRASH(log->core, "move.renamed");
    error = mpb_io_rename(log->dir_fd[from], row->dir, old);
    if (error != 0 && mpb_io_error_condemns(error, false)) {
        mpb_log_note_error(log, row, error);
        mpb_log_dir_fail(log->core, from);
        error = 0;
    }
    MPB_CRASH(log->core, "move.retired");
    return error;
}

int mpb_move_finish(struct mpb_log *log, struct mpb_partition *row)
{
    const uint32_t to = (uint32_t)row->intent.base_offset, from = (uint32_t)row->intent.last_offset;
    if (mpb_load_acquire(&row->selector) == row->intent.target) {
        mpb_store_release(&row->log_dir, to); /* readers are kept out; and an error from here on is the new one's */
        int error = change_places(log, row, from, to);
        if (error != 0)
            return error;
        struct mpb_partition_copy next = *mpb_partition_in_force(row);
        next.truncations++;
        next.segment_id = mpb_load_relaxed(&row->selector) + 1; /* no cached descriptor stays valid */
        mpb_partition_write_idle(log->core, row, &next);
        mpb_partition_commit(row);
        MPB_CRASH(log->core, "move.finished");
    }
    if (mpb_load_acquire(&row->selector) == row->intent.target + 1) {
        mpb_store_release(&row->move_to, 0);
        mpb_step();
        mpb_add_relaxed(&log->core->header->moves, 1);
    }
    return 0;
}
