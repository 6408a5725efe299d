/* Reading: where the batches of an offset stand, and their bytes. Any process; no lock unless a snapshot meets many
 * changes. A plan stays good until its partition is truncated; reading checks that afterwards (append rule 11). */
#ifndef MPB_LOG_READ_H
#define MPB_LOG_READ_H

#include "log/log.h"

/* Instead of an offset to stop before: the one in force when the plan is made. */
#define MPB_READ_TO_HIGH_WATERMARK (-1)
#define MPB_READ_TO_STABLE (-2)
#define MPB_READ_TO_END INT64_MAX
/* The same of a follower, too (KIP-392): */
#define MPB_READ_REPLICA_TO_HIGH_WATERMARK (-3)
#define MPB_READ_REPLICA_TO_STABLE (-4)

struct mpb_read_plan {
    uint32_t ordinal;
    uint32_t truncations;
    int64_t base; /* of the segment: its file's name */
    uint64_t segment_id;
    uint64_t position;
    uint32_t length; /* bytes; 0: nothing to read yet */
    uint32_t first_batch_bytes;
    int64_t first_offset; /* base offset of the first batch */
    int64_t log_start;
    int64_t high_watermark;
    int64_t last_stable;
    int64_t end_offset;
    int64_t aborted_end; /* at or below the fetch offset: no aborted transaction has records there (aborted.h) */
    int32_t leader_epoch;
};

/* Finds what a fetch from `offset` gets: whole batches from the one that holds it, of one segment, below `limit`; cut
 * at max_bytes, but never inside the first batch: that is given whole if `min_one`, else not at all. The offsets of
 * the partition are filled in whatever the answer. NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR,
 * UNKNOWN_TOPIC_OR_PARTITION, CORRUPT_MESSAGE. topic_id NULL: any. */
int mpb_log_find(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t offset, int64_t limit,
                 uint32_t max_bytes, bool min_one, struct mpb_read_plan *out);

/* Copies the plan's bytes. Sets *length to what was read; a plan that a truncation overtook answers
 * NOT_LEADER_OR_FOLLOWER, which makes a client ask again. */
int mpb_log_read(struct mpb_log *log, const struct mpb_read_plan *plan, uint8_t *out, uint32_t *length);

/* For what reads beside it: the error code of a read that failed with a negative errno, and whether a truncation has
 * changed the files since a plan or a snapshot of the state. */
int mpb_read_error(struct mpb_log *log, const struct mpb_partition *row, int64_t base, int error);
bool mpb_read_overtaken(struct mpb_log *log, uint32_t ordinal, uint32_t truncations);

/* First batch whose largest timestamp is at least `timestamp` and whose last offset is at least `from_offset` and log
 * start. The plan covers exactly that batch (length 0: there is none); the exact record is for who can decompress. */
int mpb_log_find_time(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t timestamp,
                      int64_t from_offset, struct mpb_read_plan *out);

/* Largest timestamp of a batch that reaches beyond log start, -1: none. Known without reading a batch, unless the
 * segment that log start lies in had it, or a time index is missing. */
int mpb_log_largest_time(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t *timestamp);

#endif
