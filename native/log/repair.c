#include "log/repair.h"

#include <errno.h>

#include "log/append_finish.h"
#include "log/ended.h"
#include "log/leader_epochs.h"
#include "log/log_io.h"
#include "log/move_finish.h"
#include "log/partition_row.h"
#include "log/segment.h"
#include "log/swap_finish.h"
#include "log/truncate_finish.h"
#include "log/txn_index.h"

/* Cuts one file of the active segment to its committed length. */
static int cut(struct mpb_log *log, struct mpb_partition *row, enum mpb_segment_file file)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const uint64_t committed[] = {now->position, now->index_bytes, now->time_index_bytes};
    int fd = mpb_segment_fd(log, row, now, now->active_base, file);
    return fd < 0 ? fd : mpb_io_truncate(fd, committed[file]);
}

static int undo_append(struct mpb_log *log, struct mpb_partition *row)
{
    int error = cut(log, row, MPB_FILE_LOG);
    MPB_CRASH(log->core, "repair.log_cut");
    if (error == 0)
        error = cut(log, row, MPB_FILE_INDEX);
    MPB_CRASH(log->core, "repair.middle");
    if (error == 0)
        error = cut(log, row, MPB_FILE_TIME_INDEX);
    if (error == 0 && row->intent.batch_kind == MPB_BATCH_ABORT)
        error = mpb_txn_index_cut(log, row, mpb_partition_in_force(row));
    if (log->core->replica_count != 0)
        mpb_ended_cut(mpb_replicas_of(log->core, row), mpb_partition_in_force(row)->leo);
    return error;
}

static int undo_roll(struct mpb_log *log, struct mpb_partition *row)
{
    int error = 0;
    if (row->intent.base_offset != mpb_partition_in_force(row)->active_base) /* append rule 9 */
        error = mpb_segment_unmake(log, row, row->intent.base_offset);
    MPB_CRASH(log->core, "repair.middle");
    return error != 0 ? error : cut(log, row, MPB_FILE_TIME_INDEX);
}

static int repair(struct mpb_log *log, struct mpb_partition *row)
{
    bool committed = mpb_load_acquire(&row->selector) == row->intent.target;
    switch (mpb_load_acquire(&row->intent.word) >> 24) {
    case MPB_INTENT_APPEND:
        if (committed)
            return mpb_append_finish(log, row), 0; /* clears the intent as its last step */
        return undo_append(log, row);
    case MPB_INTENT_ROLL:
        return committed ? 0 : undo_roll(log, row);
    case MPB_INTENT_SWAP: /* two commits: from the first on it can only go forward */
        return mpb_swap_finish(log, row);
    case MPB_INTENT_MOVE: /* the same */
        return mpb_move_finish(log, row);
    case MPB_INTENT_TRUNCATE:
        return committed ? mpb_truncate_finish(log, row) : 0; /* nothing was done before the commit */
    case MPB_INTENT_START: /* before the commit: a segment under a name that none in force has */
        return committed ? mpb_start_finish(log, row) : mpb_segment_unmake(log, row, row->intent.base_offset);
    default:
        return 0;
    }
}

int mpb_repair(struct mpb_log *log, struct mpb_partition *row)
{
    MPB_CRASH(log->core, "repair.begin");
    int error = 0;
    if ((mpb_load_acquire(&row->flags) & MPB_PART_DELETED) == 0) /* a deleted partition's files are nobody's */
        error = repair(log, row);
    if (error != 0)
        return mpb_log_io_error(log, row, error);
    MPB_CRASH(log->core, "repair.before_clear");
    mpb_intent_clear(row);
    mpb_log_count(log, MPB_C_LOG_REPAIRS, 1);
    return 0;
}
