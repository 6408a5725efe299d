/* The commit of an append, the protocol of docs/append-rules.md in one call:
 *
 *   lock (and repair) -> cell filled already? -> producer check -> roll if needed -> intent -> log -> indexes
 *        -> idle copy -> selector (this one store commits) -> producer state -> cell -> clear intent -> unlock
 *
 * Any handler may append to any partition. A process killed at any instruction leaves an intent from which the next
 * one that locks the partition finishes or undoes the append (repair.c). */
#ifndef MPB_APPEND_H
#define MPB_APPEND_H

#include "log/append_options.h"
#include "log/log.h"
#include "log/result_cell.h"
#include "record/record_batch.h"

/* Nobody looked into the records: the header's claim about timestamps counts. Only for batches of our own making; what a
 * client claims is never believed where its records say otherwise. */
#define MPB_RECORDS_UNSEEN INT64_MIN

struct mpb_append_request {
    uint32_t ordinal;
    uint32_t entry;       /* request entry that gets the result, or MPB_NO_REQUEST */
    uint32_t cell;        /* its result cell */
    const uint8_t *batch; /* checked by mpb_batch_check; read only */
    const struct mpb_batch_info *info;
    int64_t max_timestamp; /* found in the records, -1: none of them has one; or MPB_RECORDS_UNSEEN */
    int64_t now_ms;
    int32_t leader_epoch;    /* the partition must have been led since this one; -1: any */
    const uint8_t *topic_id; /* the partition's must be this one; NULL: any */
    enum mpb_batch_kind
        marker; /* COMMIT or ABORT: `batch` is that marker (marker.h); else PLAIN, whatever the batch is */
    int32_t coordinator_epoch; /* of a marker */
    int16_t acks;              /* -1: only with as many replicas in sync as min.insync.replicas says */
};

void mpb_append(struct mpb_log *log, const struct mpb_append_options *options, const struct mpb_append_request *request,
                struct mpb_append_result *out);

/* Instead of an append whose batch was refused by its checks: the error in `out` and, under the lock, in the result
 * cell. A cell that an earlier run filled wins; then an error of the partition. Of the request only ordinal, entry, cell
 * and topic id are read. */
void mpb_append_refuse(struct mpb_log *log, const struct mpb_append_request *request, int error,
                       struct mpb_append_result *out);
/* After an append with `flush_due` whose sync failed: the records stay, as in Kafka, but the answer is the error, in the
 * result cell too, for a later run. The same fields are read, without the topic id. */
void mpb_append_not_synced(struct mpb_log *log, const struct mpb_append_request *request, int error,
                           struct mpb_append_result *out);

#endif
