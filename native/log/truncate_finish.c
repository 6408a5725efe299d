#include "log/truncate_finish.h"

#include <errno.h>

#include "log/ended.h"
#include "log/header_scan.h"
#include "log/leader_epochs.h"
#include "log/log_io.h"
#include "record/marker_read.h"
#include "log/partition_row.h"
#include "log/producer.h"
#include "log/segment.h"
#include "log/segment_list.h"
#include "log/transaction.h"
#include "log/txn_index.h"

#define MPB_MARKER_MOST_BYTES 256 /* a marker has one small record */

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
        bool counts = info.producer_id >= 0 &&
                      (info.attributes & MPB_ATTRIBUTE_CONTROL) == 0; /* markers have no sequence */
        uint32_t at = counts ? mpb_producer_rebuilding(log->core, row, info.producer_id) : 0;
        struct mpb_producer_batch batch = {
            .base_offset = info.base_offset,
            .timestamp_ms = info.max_timestamp,
            .first_sequence = info.base_sequence,
            .last_sequence = mpb_last_sequence(info.base_sequence, info.last_offset_delta + 1), /* also compacted */
            .last_offset_delta = info.last_offset_delta,
            .epoch = info.producer_epoch,
        };
        if (at != 0)
            mpb_producer_keep(log->core, at, &batch, 0); /* when it was written stays known */
    }
    return more;
}

static int rebuild_producers(struct mpb_log *log, struct mpb_partition *row, const struct mpb_partition_copy *now)
{
    if (mpb_producers_truncate(log->core, row, now->leo) == 0)
        return 0;
    MPB_CRASH(log->core, "truncate.producers_half");
    const struct mpb_segment_list *list;
    int error = mpb_segment_list_get(log, row, now, &list);
    if (error != 0)
        return error;
    for (uint32_t i = mpb_segment_list_find(list, now->log_start); i < list->count; i++) {
        error = rebuild_from(log, row, now, list->bases[i]);
        if (error != 0)
            return error;
    }
    mpb_producers_rebuilt(log->core, row);
    return 0;
}

static const struct mpb_txn_epochs NO_EPOCHS = {MPB_NO_EPOCH, MPB_NO_EPOCH, MPB_NO_EPOCH};

/* A batch in a transaction opens it, a marker ends it. */
static int replay_batch(struct mpb_log *log, const struct mpb_partition *row, int fd, uint64_t position,
                        struct mpb_batch_info *info)
{
    uint32_t at = info->producer_id < 0 ? 0 : mpb_producer_find(log->core, row, info->producer_id);
    if (at == 0)
        return 0;
    struct mpb_producer *producer = &log->core->producers[at - 1];
    if (mpb_txn_kind(info) == MPB_BATCH_IN_TRANSACTION && mpb_txn_first(producer) < 0)
        mpb_store_release(&producer->txn_first, (uint64_t)info->base_offset + 1);
    if ((info->attributes & MPB_ATTRIBUTE_CONTROL) == 0 || info->batch_bytes > MPB_MARKER_MOST_BYTES)
        return 0;
    uint8_t bytes[MPB_MARKER_MOST_BYTES];
    struct mpb_txn_epochs epochs = {MPB_NO_EPOCH, info->producer_epoch, MPB_NO_EPOCH};
    int16_t type;
    int64_t n = mpb_io_read(fd, bytes, info->batch_bytes, position);
    if (n != (int64_t)info->batch_bytes)
        return n < 0 ? (int)n : -EBADMSG;
    mpb_batch_read(bytes, info);
    if (!mpb_marker_read(info, &type, &epochs.coordinator))
        return 0;
    mpb_txn_store_epochs(producer, epochs);
    mpb_store_release(&producer->txn_first, 0);
    return 0;
}

static int replay_segment(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
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
        int error = replay_batch(log, row, fd, scan.position, &info);
        if (error != 0)
            return error;
    }
    return more;
}

/* The transactions of every producer that is known here, from the log that is left. From the beginning: rare, and a second
 * run comes to the same. */
static int replay_transactions(struct mpb_log *log, struct mpb_partition *row, const struct mpb_partition_copy *now)
{
    const struct mpb_segment_list *list;
    uint32_t chain = 0, at = 0;
    for (struct mpb_producer *p; (p = mpb_producer_next(log->core, row, &chain, &at)) != NULL;) {
        mpb_txn_store_epochs(p, NO_EPOCHS);
        mpb_store_release(&p->txn_first, 0);
    }
    int error = mpb_segment_list_get(log, row, now, &list);
    for (uint32_t i = 0; error == 0 && i < list->count; i++)
        error = replay_segment(log, row, now, list->bases[i]);
    return error;
}

/* Behind this commit the intent's target is an older selector: a repair finds nothing left to do. */
static void commit_transactions(struct mpb_log *log, struct mpb_partition *row)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    uint32_t chain = 0, at = 0;
    next.open_transactions = 0;
    for (struct mpb_producer *p; (p = mpb_producer_next(log->core, row, &chain, &at)) != NULL;)
        next.open_transactions += mpb_txn_first(p) >= 0;
    next.lso = mpb_txn_last_stable(log->core, row, &next);
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "truncate.transactions");
}

int mpb_start_finish(struct mpb_log *log, struct mpb_partition *row)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const struct mpb_segment_list *list;
    int error = mpb_segment_list_all(log, row, &list);
    for (uint32_t i = 0; error == 0 && i < list->count; i++) {
        if (list->bases[i] != now->active_base)
            error = mpb_segment_unlink(log, row, list->bases[i]);
        MPB_CRASH(log->core, "start_at.segment_unlinked");
    }
    if (log->core->replica_count != 0)
        mpb_ended_cut(mpb_replicas_of(log->core, row), 0);
    if (error == 0)
        mpb_producers_free(log, (uint32_t)(row - log->core->partitions));
    return error;
}

int mpb_truncate_finish(struct mpb_log *log, struct mpb_partition *row)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const uint64_t lengths[] = {now->position, now->index_bytes, now->time_index_bytes};
    const struct mpb_segment_list *list;
    int error = mpb_segment_list_all(log, row, &list);
    if (error == 0)
        error = unlink_above(log, row, now, list);
    for (int file = 0; error == 0 && file < MPB_SEGMENT_FILES; file++) {
        int fd = mpb_segment_fd(log, row, now, now->active_base, (enum mpb_segment_file)file);
        error = fd < 0 ? fd : mpb_io_truncate(fd, lengths[file]);
        if (file == MPB_FILE_LOG)
            MPB_CRASH(log->core, "truncate.log_cut");
    }
    if (error == 0)
        error = mpb_txn_index_cut(log, row, now);
    if (log->core->replica_count != 0)
        mpb_ended_cut(mpb_replicas_of(log->core, row), now->leo);
    if (error == 0)
        error = rebuild_producers(log, row, now);
    if (error != 0 || row->intent.batch_kind == MPB_BATCH_PLAIN)
        return error;
    error = replay_transactions(log, row, now);
    if (error == 0)
        commit_transactions(log, row);
    return error;
}
