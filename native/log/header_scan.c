#include "log/header_scan.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/offset_index.h"
#include "log/segment.h"

void mpb_header_scan_begin(struct mpb_header_scan *scan, int fd, uint64_t position, uint64_t end)
{
    scan->fd = fd;
    scan->position = scan->next = position;
    scan->end = end;
    scan->held_at = scan->held = 0;
    scan->is_cut_off = false;
}

int mpb_header_scan_next(struct mpb_header_scan *scan, struct mpb_batch_info *out)
{
    scan->position = scan->next;
    if (scan->position >= scan->end)
        return 0;
    scan->is_cut_off = scan->end - scan->position < MPB_BATCH_HEADER_BYTES;
    if (scan->is_cut_off)
        return -EBADMSG;
    if (scan->position < scan->held_at || scan->position + MPB_BATCH_HEADER_BYTES > scan->held_at + scan->held) {
        uint64_t wanted = scan->end - scan->position;
        int64_t n = mpb_io_read(scan->fd, scan->bytes, wanted < sizeof scan->bytes ? wanted : sizeof scan->bytes,
                                scan->position);
        if (n < MPB_BATCH_HEADER_BYTES)
            return n < 0 ? (int)n : -EBADMSG;
        scan->held_at = scan->position;
        scan->held = (uint32_t)n;
    }
    const uint8_t *header = scan->bytes + (scan->position - scan->held_at);
    int64_t length = mpb_be32(header + MPB_BATCH_LENGTH);
    if (header[MPB_BATCH_MAGIC] != 2 || length < MPB_BATCH_HEADER_BYTES - MPB_BATCH_OVERHEAD_BYTES)
        return -EBADMSG;
    scan->is_cut_off = (uint64_t)length + MPB_BATCH_OVERHEAD_BYTES > scan->end - scan->position;
    if (scan->is_cut_off)
        return -EBADMSG;
    mpb_batch_read(header, out);
    scan->next = scan->position + out->batch_bytes;
    return 1;
}

/* Begins at the batch that an index entry points to, and returns what mpb_header_scan_next does; at the first batch if
 * the entry is damaged. A sound one names the last offset of what begins there. */
static int begin_at(struct mpb_header_scan *scan, int fd, uint64_t end, int64_t base, const struct mpb_index_hit *hit,
                    struct mpb_batch_info *first)
{
    if (hit->found && hit->position < end) {
        mpb_header_scan_begin(scan, fd, hit->position, end);
        int more = mpb_header_scan_next(scan, first);
        if (more == 1 && first->base_offset >= base && first->base_offset <= base + hit->relative)
            return more;
        if (more < 0 && more != -EBADMSG)
            return more;
    }
    mpb_header_scan_begin(scan, fd, 0, end);
    return mpb_header_scan_next(scan, first);
}

int mpb_segment_find(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                     int64_t base, int64_t offset, uint64_t *position, struct mpb_batch_info *batch)
{
    struct mpb_index_hit hit = {0};
    struct mpb_header_scan scan;
    struct mpb_batch_info info;
    int64_t end = mpb_segment_bytes(log, row, copy, base, MPB_FILE_LOG);
    int64_t index_bytes = mpb_segment_bytes(log, row, copy, base, MPB_FILE_INDEX);
    if (end < 0 || index_bytes < 0)
        return (int)(end < 0 ? end : index_bytes);
    if (index_bytes > 0 && offset > base) { /* an entry names the last offset of the set that begins there */
        int index_fd = mpb_segment_fd(log, row, copy, base, MPB_FILE_INDEX);
        int64_t relative = offset - base > UINT32_MAX ? UINT32_MAX : offset - base;
        int error = index_fd < 0 ? index_fd
                                 : mpb_offset_index_find(index_fd, (uint64_t)index_bytes, (uint32_t)relative, &hit);
        if (error != 0)
            return error;
    }
    int fd = mpb_segment_fd(log, row, copy, base, MPB_FILE_LOG);
    if (fd < 0)
        return fd;
    int more = begin_at(&scan, fd, (uint64_t)end, base, &hit, &info);
    while (more == 1 && info.base_offset + info.last_offset_delta < offset)
        more = mpb_header_scan_next(&scan, &info);
    if (more == -EBADMSG && scan.is_cut_off && base != copy->active_base)
        more = 0; /* cut off from outside: the log goes on in the next segment */
    if (more < 0)
        return more;
    *position = scan.position;
    if (batch != NULL) {
        info.batch_bytes = more == 1 ? info.batch_bytes : 0;
        *batch = info;
    }
    return 0;
}
