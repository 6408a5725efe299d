/* Batch headers of one segment, forward from a position; and where an offset is in it. */
#ifndef MPB_HEADER_SCAN_H
#define MPB_HEADER_SCAN_H

#include "log/log.h"
#include "record/record_batch.h"

struct mpb_header_scan {
    int fd;
    uint64_t position; /* of the batch last returned */
    uint64_t next;
    uint64_t end;
    uint64_t held_at;
    uint32_t held;
    bool is_cut_off; /* with EBADMSG: what is left is shorter than the batch */
    uint8_t bytes[4096];
};

void mpb_header_scan_begin(struct mpb_header_scan *scan, int fd, uint64_t position, uint64_t end);
/* 1: `out` is filled; 0: the end; or a negative errno, EBADMSG for bytes that are no batch. */
int mpb_header_scan_next(struct mpb_header_scan *scan, struct mpb_batch_info *out);

/* Position of the first batch whose last offset is at least `offset`, in the segment at `base`; the file's end if
 * there is none, or what is left of a rolled segment is no whole batch. `batch` (may be NULL) gets its header, batch_bytes
 * 0 at the end. A damaged index costs a longer walk, never an answer. 0 or a negative errno. */
int mpb_segment_find(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                     int64_t base, int64_t offset, uint64_t *position, struct mpb_batch_info *batch);

#endif
