/* Reads one segment file from front to back, as start-up recovery does: how far its batches are whole and in order,
 * what the partition's state was there, and, if asked, both of its indexes anew (one entry per index interval, by
 * batch). Single process, before the partition is published; takes no lock, touches no shared memory. */
#ifndef MPB_LOG_SCAN_H
#define MPB_LOG_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "record/record_batch.h"

enum mpb_scan_end {
    MPB_END_CLEAN,     /* the file ends with a whole batch */
    MPB_END_TRUNCATED, /* its last batch is cut off */
    MPB_END_CORRUPT    /* what follows is no batch, fails its checksum, goes back in offsets, or only seems to jump */
};

struct mpb_segment_scan {
    int64_t base_offset;           /* in: of the segment */
    uint32_t index_interval_bytes; /* in */
    bool check_crc;                /* in; if not, a batch that the next shows to be misnumbered is taken as it fits */
    uint64_t start_bytes;          /* in: position of a batch to begin at; 0: the front, which also fills the indexes */
    int64_t start_offset;          /* in: no batch from there on is below it; with start_bytes 0: the base offset */
    uint64_t file_bytes;           /* out, as all below */
    uint64_t valid_bytes;          /* everything up to here is whole */
    int64_t next_offset;
    int64_t max_timestamp;        /* -1: none; in: known already, when it begins further on */
    int64_t max_timestamp_offset; /* last offset of the batch that has it */
    int64_t first_timestamp;      /* largest of the first batch */
    int64_t indexed_timestamp;    /* of the last time index entry written, -1: none */
    uint64_t batches;
    uint32_t index_bytes;
    uint32_t time_index_bytes;
    uint32_t bytes_since_index;
    int32_t last_leader_epoch;
    uint64_t aborts; /* markers that abort a transaction */
    enum mpb_scan_end end;
};

/* Called for every whole batch, in order. A non-zero result stops the scan and is returned. */
typedef int (*mpb_scan_visit)(void *context, const struct mpb_batch_info *batch);

/* `index_fd` and `time_index_fd` are emptied and written, or -1. Returns 0, what `visit` returned, or a negative
 * errno: an I/O error says nothing about the file's contents and must not lead to a truncation. */
int mpb_segment_scan(int log_fd, int index_fd, int time_index_fd, struct mpb_segment_scan *scan, mpb_scan_visit visit,
                     void *context);

#endif
