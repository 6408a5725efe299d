#include "log/truncate_finish.h"

#include "log/header_scan.h"
#include "log/log_io.h"
#include "log/partition_row.h"
#include "log/producer.h"
#include "log/segment.h"
#include "log/segment_list.h"

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
    return error != 0 ? error : rebuild_producers(log, row, now);
}
