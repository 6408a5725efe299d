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

/* Behind a batch whose length was damaged, so that it seems to reach beyond the file: from the next entry of the offset
 * index at which a batch begins. 0: there is none, and the scan stays at the damage. */
static int behind_damage(struct mpb_header_scan *scan, int index_fd, uint64_t index_bytes, int64_t base,
                         struct mpb_batch_info *next)
{
    struct mpb_index_hit hit = {.position = (uint32_t)scan->position};
    uint64_t damage = scan->position;
    for (;;) {
        int error = mpb_offset_index_from(index_fd, index_bytes, (uint64_t)hit.position + 1, &hit);
        if (error != 0)
            return error;
        mpb_header_scan_begin(scan, scan->fd, hit.found ? hit.position : scan->end, scan->end);
        int more = mpb_header_scan_next(scan, next);
        bool sound = more == 1 && next->base_offset >= base && next->base_offset <= base + hit.relative;
        if (more == 0)
            scan->position = damage;
        if (sound || (more != 1 && more != -EBADMSG))
            return more;
    }
}

static int walk_to(struct mpb_header_scan *scan, int64_t offset, struct mpb_batch_info *info, int more)
{
    while (more == 1 && info->base_offset + info->last_offset_delta < offset)
        more = mpb_header_scan_next(scan, info);
    return more;
}

/* Whether the batch that a walk to `offset` ended at claims offsets behind it only because its own was damaged, which no
 * checksum covers: then the next one goes back. `next` is left there. */
static bool is_misnumbered(const struct mpb_header_scan *scan, const struct mpb_batch_info *info, int64_t offset,
                           struct mpb_header_scan *ahead, struct mpb_batch_info *next)
{
    if (info->base_offset <= offset)
        return false;
    *ahead = *scan;
    return mpb_header_scan_next(ahead, next) == 1 && next->base_offset <= info->base_offset;
}

int mpb_segment_find(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                     int64_t base, int64_t offset, uint64_t *position, struct mpb_batch_info *batch)
{
    struct mpb_index_hit hit = {0};
    struct mpb_header_scan scan;
    struct mpb_batch_info info, next;
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
    int more = walk_to(&scan, offset, &info, begin_at(&scan, fd, (uint64_t)end, base, &hit, &info));
    while (more == -EBADMSG && scan.is_cut_off && base != copy->active_base) {
        /* cut off from outside, or a length was damaged: the log goes on behind it */
        mpb_log_note_error(log, row, more);
        int index_fd = index_bytes > 0 ? mpb_segment_fd(log, row, copy, base, MPB_FILE_INDEX) : 0;
        more = index_fd < 0      ? index_fd
               : index_bytes > 0 ? behind_damage(&scan, index_fd, (uint64_t)index_bytes, base, &info)
                                 : 0;
        more = walk_to(&scan, offset, &info, more);
    }
    for (struct mpb_header_scan ahead; more == 1 && is_misnumbered(&scan, &info, offset, &ahead, &next);) {
        if (next.base_offset > offset && batch != NULL)
            return -EBADMSG;
        scan = ahead;
        info = next;
        more = walk_to(&scan, offset, &info, 1);
    }
    if (more < 0)
        return more;
    *position = scan.position;
    if (batch != NULL) {
        info.batch_bytes = more == 1 ? info.batch_bytes : 0;
        *batch = info;
    }
    return 0;
}
