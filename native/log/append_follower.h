/* What a follower appends: batches as its leader has them, with its offsets and epochs. Each batch is one append by the rules
 * of append.h, with the leader's high watermark and log start in the same commit; a death between two batches leaves the
 * first ones, and a fetcher that goes on from the log's end never appends one twice.
 *
 * Nothing changes unless the partition is a follower of this leader epoch whose log ends where the fetch began: that is the
 * fence against a fetcher that was stopped while the controller decided otherwise. */
#ifndef MPB_APPEND_FOLLOWER_H
#define MPB_APPEND_FOLLOWER_H

#include "log/append_options.h"
#include "log/log.h"

struct mpb_follower_append {
    uint32_t ordinal;
    int32_t leader_epoch;
    int64_t offset;         /* what was fetched from: the log's end then */
    const uint8_t *records; /* batches; a last one may be cut off */
    size_t length;
    int64_t leader_hw;
    int64_t leader_log_start;
    int64_t now_ms;
    const uint8_t *topic_id; /* NULL: any */
};

struct mpb_follower_appended {
    int error; /* of the batch behind those that were appended */
    uint32_t batches;
    int64_t leo;
    int64_t hw;
    int64_t log_start;
    int32_t last_epoch; /* of the last record, or begun later: what the next fetch names */
};

/* FENCED_LEADER_EPOCH: another role or epoch; OFFSET_OUT_OF_RANGE: another end, or batches that go back; CORRUPT_MESSAGE;
 * REQUEST_TIMED_OUT: busy, try again; KAFKA_STORAGE_ERROR. */
void mpb_append_follower(struct mpb_log *log, const struct mpb_append_options *options,
                         const struct mpb_follower_append *request, struct mpb_follower_appended *out);

/* With the lock held: 0, or FENCED_LEADER_EPOCH unless the partition is a follower in this epoch. */
int mpb_follower_is_fenced(const struct mpb_partition_copy *now, int32_t leader_epoch);

#endif
