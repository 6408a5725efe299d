#include "log/partition_life.h"

#include <string.h>

#include "log/leader_epochs.h"
#include "log/log_io.h"
#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/segment.h"
#include "log/transaction.h"
#include "shm/robust_lock.h"

/* Locks are made at a row's first use: a table of thousands of rows costs nothing before. A maker that dies between the
 * two steps is followed by one that makes the lock anew, which nobody can have used. */
static int make_lock(struct mpb_core *core, struct mpb_partition *row)
{
    uint32_t ordinal = (uint32_t)(row - core->partitions);
    if (mpb_load_acquire(&row->lock_made) == 0) {
        if (mpb_robust_lock_init(&row->lock) != 0)
            return MPB_ERR_UNKNOWN_SERVER_ERROR;
        mpb_store_release(&row->lock_made, 1);
    }
    if (mpb_load_relaxed(&core->header->partitions_high) <= ordinal)
        mpb_store_release(&core->header->partitions_high, ordinal + 1);
    return 0;
}

int mpb_partition_publish(struct mpb_log *log, uint32_t ordinal, const struct mpb_partition_identity *identity,
                          const struct mpb_partition_copy *state)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    size_t length = strlen(identity->dir);
    if (length >= sizeof row->dir || identity->log_dir >= log->dir_count)
        return MPB_ERR_UNKNOWN_SERVER_ERROR;
    int error = make_lock(log->core, row);
    if (error == 0)
        error = mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    mpb_store_relaxed(&row->flags, 0); /* hides it from readers while it has no name */
    mpb_step();
    atomic_thread_fence(memory_order_release); /* nobody sees the new name under the old flags */
    mpb_producers_free(log, ordinal);
    row->topic_row = identity->topic_row;
    row->partition = identity->partition;
    mpb_store_relaxed(&row->log_dir, identity->log_dir);
    mpb_store_relaxed(&row->move_to, 0);
    row->dir_length = (uint32_t)length;
    memcpy(row->topic_id, identity->topic_id, sizeof row->topic_id);
    memcpy(row->dir, identity->dir, length + 1);
    mpb_store_relaxed(&row->flushed_offset, (uint64_t)state->log_start);
    mpb_store_relaxed(&row->start_asked, 0);
    mpb_store_relaxed(&row->start_written, 0);
    struct mpb_partition_copy next = *state;
    next.segment_id = mpb_load_relaxed(&row->selector) + 1;
    next.truncations = (mpb_partition_in_force(row)->truncations | 1) + 1; /* even; no cached descriptor stays valid */
    if (log->core->replica_count != 0) { /* nobody's until the controller says whose */
        mpb_replicas_forget(log->core, row);
        next.role = MPB_ROLE_NONE;
        next.leader = -1;
    }
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    if (!identity->hidden)
        mpb_store_release(&row->flags, MPB_PART_EXISTS | MPB_PART_ONLINE);
    mpb_partition_unlock(log, ordinal);
    return 0;
}

int mpb_partition_create(struct mpb_log *log, uint32_t ordinal, const struct mpb_partition_identity *identity,
                         int32_t leader_epoch, int64_t now_ms)
{
    struct mpb_partition paths = {.log_dir = identity->log_dir, .dir_length = (uint32_t)strlen(identity->dir)};
    if (paths.dir_length >= sizeof paths.dir || identity->log_dir >= log->dir_count)
        return MPB_ERR_UNKNOWN_SERVER_ERROR;
    memcpy(paths.dir, identity->dir, paths.dir_length + 1);
    int error = mpb_io_make_dir(log->dir_fd[identity->log_dir], identity->dir);
    if (error == 0)
        error = mpb_segment_create(log, &paths, 0);
    if (error != 0)
        return mpb_log_io_error(log, &paths, error);
    struct mpb_partition_copy state = {
        .max_timestamp = -1,
        .max_timestamp_offset = -1,
        .first_timestamp = -1,
        .indexed_timestamp = -1,
        .segment_created_ms = now_ms,
        .leader_epoch = leader_epoch,
        .segment_count = 1,
    };
    return mpb_partition_publish(log, ordinal, identity, &state);
}

int mpb_partition_set_flags(struct mpb_log *log, uint32_t ordinal, uint32_t set, uint32_t clear)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock(log, ordinal);
    if (error != 0 && (set & MPB_PART_DELETED) == 0)
        return error;
    if (error == MPB_ERR_REQUEST_TIMED_OUT)
        return error;
    mpb_store_release(&row->flags, (mpb_load_relaxed(&row->flags) | set) & ~clear);
    if (error != 0)
        return 0; /* deleted: nobody will need the repair that failed */
    if ((set & MPB_PART_DELETED) != 0)
        mpb_producers_free(log, ordinal);
    mpb_partition_unlock(log, ordinal);
    if ((set & MPB_PART_DELETED) != 0)
        mpb_segment_close_partition(log, ordinal);
    mpb_partition_moved(log, ordinal);
    return 0;
}

/* Locks, looks and copies the state in force into *next for a change of one of its fields. */
static int begin_change(struct mpb_log *log, uint32_t ordinal, struct mpb_partition_copy *next)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error == 0)
        *next = *mpb_partition_in_force(row);
    return error;
}

static void end_change(struct mpb_log *log, uint32_t ordinal, const struct mpb_partition_copy *next)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    mpb_partition_write_idle(log->core, row, next);
    mpb_partition_commit(row);
    mpb_partition_unlock(log, ordinal);
    mpb_partition_moved(log, ordinal);
}

int mpb_partition_set_high_watermark(struct mpb_log *log, uint32_t ordinal, int64_t offset)
{
    struct mpb_partition_copy next;
    int error = begin_change(log, ordinal, &next);
    if (error != 0)
        return error;
    next.hw = offset > next.leo ? next.leo : offset < next.log_start ? next.log_start : offset;
    next.lso = mpb_txn_last_stable(log->core, &log->core->partitions[ordinal], &next);
    end_change(log, ordinal, &next);
    return 0;
}

int mpb_partition_set_log_start(struct mpb_log *log, uint32_t ordinal, int64_t offset)
{
    struct mpb_partition_copy next;
    int error = begin_change(log, ordinal, &next);
    if (error != 0)
        return error;
    if (offset > next.hw || offset < 0) {
        mpb_partition_unlock(log, ordinal);
        return MPB_ERR_OFFSET_OUT_OF_RANGE;
    }
    if (offset > next.log_start)
        next.log_start = offset;
    if (next.lso < next.log_start)
        next.lso = next.log_start;
    end_change(log, ordinal, &next);
    return 0;
}
