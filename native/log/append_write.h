/* The half of an append that a leader's and a follower's have in common: the intent, the files, and the state that will
 * commit them. The caller holds the lock, decides before and commits behind (append.h, append_follower.h). */
#ifndef MPB_APPEND_WRITE_H
#define MPB_APPEND_WRITE_H

#include "log/append_options.h"
#include "log/log.h"
#include "log/transaction.h"
#include "record/record_batch.h"

struct mpb_append_write {  /* of one batch, or of several that are written as one (append_follower.c) */
    const uint8_t *batch;  /* read only */
    const uint8_t *header; /* what is written in the place of its first MPB_BATCH_HEADER_BYTES */
    const struct mpb_batch_info *info;
    int64_t base_offset; /* not below the log end: compaction leaves gaps */
    int64_t max_timestamp;
    int64_t max_timestamp_offset; /* last offset of the batch that has it */
    int64_t append_time_ms;
    int64_t now_ms;
    uint64_t fill_number;
    uint32_t entry;
    uint32_t cell;
    uint32_t producer_row; /* + 1; 0: none */
    int32_t coordinator_epoch;
    struct mpb_txn_plan plan;
};

void mpb_append_write_intent(struct mpb_log *log, struct mpb_partition *row, const struct mpb_append_write *write);
/* The files, and `next` but for the high watermark and what follows from it. 0 or a negative errno; then the caller repairs
 * (append rule 4). */
int mpb_append_write_files(struct mpb_log *log, const struct mpb_partition *row,
                           const struct mpb_append_options *options, const struct mpb_append_write *write,
                           struct mpb_partition_copy *next);

#endif
