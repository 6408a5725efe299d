#include "log/epoch_scan.h"

#include "log/header_scan.h"
#include "log/partition_row.h"
#include "log/segment.h"
#include "log/segment_list.h"

struct found {
    struct mpb_epoch_start *out;
    uint32_t room, count;
    int32_t latest;
};

static void note(struct found *found, const struct mpb_batch_info *batch)
{
    if (batch->leader_epoch <= found->latest)
        return;
    found->latest = batch->leader_epoch;
    if (found->count < found->room)
        found->out[found->count] = (struct mpb_epoch_start){.offset = batch->base_offset, .epoch = batch->leader_epoch};
    found->count++;
}

static int scan_segment(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
                        int64_t base, int64_t offset, struct found *found)
{
    struct mpb_header_scan scan;
    struct mpb_batch_info batch;
    uint64_t position = 0;
    int more = 0;
    int64_t end = mpb_segment_bytes(log, row, now, base, MPB_FILE_LOG);
    int fd = mpb_segment_fd(log, row, now, base, MPB_FILE_LOG);
    if (end < 0 || fd < 0)
        return end < 0 ? (int)end : fd;
    if (offset > base)
        more = mpb_segment_find(log, row, now, base, offset, &position, NULL);
    mpb_header_scan_begin(&scan, fd, position, (uint64_t)end);
    while (more >= 0 && (more = mpb_header_scan_next(&scan, &batch)) == 1)
        note(found, &batch);
    return more;
}

int mpb_epoch_scan(struct mpb_log *log, uint32_t ordinal, int64_t offset, struct mpb_epoch_start *out, uint32_t room,
                   uint32_t *count)
{
    const struct mpb_partition *row = &log->core->partitions[ordinal];
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const struct mpb_segment_list *list;
    struct found found = {.out = out, .room = room, .latest = -1};
    int error = mpb_segment_list_get(log, row, now, &list);
    for (uint32_t i = error == 0 ? mpb_segment_list_find(list, offset) : 0; error == 0 && i < list->count; i++)
        error = scan_segment(log, row, now, list->bases[i], offset, &found);
    *count = found.count;
    return error == 0 ? 0 : mpb_log_io_error(log, row, error);
}
