/* The end of a transaction in a partition: a control batch of one record, which the transaction's coordinator writes into
 * every partition that was added to it, written to or not. Committed as an append (append.h). */
#ifndef MPB_MARKER_H
#define MPB_MARKER_H

#include "log/append.h"

#define MPB_MARKER_BYTES 78

struct mpb_marker {
    uint32_t ordinal;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t coordinator_epoch;
    bool commit;
    int64_t now_ms;
    int32_t leader_epoch;    /* the partition's must be this one; -1: any */
    const uint8_t *topic_id; /* the partition's must be this one; NULL: any */
    uint32_t entry, cell;    /* as in struct mpb_append_request */
};

/* INVALID_PRODUCER_EPOCH if the producer has a newer epoch here, TRANSACTION_COORDINATOR_FENCED after a marker of a newer
 * coordinator; both leave everything as it is. A higher epoch of the producer is its epoch from now on. */
void mpb_append_marker(struct mpb_log *log, const struct mpb_append_options *options, const struct mpb_marker *marker,
                       struct mpb_append_result *out);

#endif
