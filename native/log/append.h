/* The commit of an append, append-commit.md's protocol in one call:
 *
 *   lock (and repair) -> cell filled already? -> producer check -> roll if needed -> intent -> log -> indexes
 *        -> idle copy -> selector (this one store commits) -> producer state -> cell -> clear intent -> unlock
 *
 * Any handler may append to any partition. A process killed at any instruction leaves an intent from which the next
 * one that locks the partition finishes or undoes the append (repair.c). */
#ifndef MPB_APPEND_H
#define MPB_APPEND_H

#include "log/log.h"
#include "record/record_batch.h"

struct mpb_append_options { /* a topic's settings, by Kafka's names */
    int32_t segment_bytes;
    int64_t segment_ms; /* jitter taken off */
    int32_t index_interval_bytes;
    int32_t index_max_bytes; /* segment.index.bytes */
    int64_t flush_messages;
    bool log_append_time; /* message.timestamp.type=LogAppendTime */
    bool sole_replica;    /* the high watermark follows the end at once */
};

struct mpb_append_request {
    uint32_t ordinal;
    uint32_t entry;       /* request entry that gets the result, or MPB_NO_REQUEST */
    uint32_t cell;        /* its result cell */
    const uint8_t *batch; /* checked by mpb_batch_check; read only */
    const struct mpb_batch_info *info;
    int64_t max_timestamp; /* found in the records; -1 with no records seen: the header's claim counts */
    int64_t now_ms;
    int32_t leader_epoch;    /* the partition's must be this one; -1: any */
    const uint8_t *topic_id; /* the partition's must be this one; NULL: any */
};

struct mpb_append_result {
    int16_t error;
    bool duplicate;      /* a batch already in the log; base_offset is the first one's */
    bool replayed;       /* read from the result cell: an earlier run of this request did it */
    bool flush_due;      /* flush.messages reached: call mpb_log_flush before answering */
    int64_t base_offset; /* -1 on error */
    int64_t end_offset;
    int64_t append_time_ms; /* -1 unless LogAppendTime */
    int64_t log_start;
    int32_t leader_epoch;
};

void mpb_append(struct mpb_log *log, const struct mpb_append_options *options, const struct mpb_append_request *request,
                struct mpb_append_result *out);

/* Records that a batch was refused by its checks: the error in `out` and, under the lock, in the result cell. A cell
 * that an earlier run filled wins. */
void mpb_append_refuse(struct mpb_log *log, uint32_t ordinal, uint32_t entry, uint32_t cell, int error,
                       struct mpb_append_result *out);

/* The steps behind the commit, from the intent and the copy in force alone: producer state, cell, clear. The append
 * itself and its repair both end here; may be done twice. The caller holds the lock. */
void mpb_append_finish(struct mpb_log *log, struct mpb_partition *row);

/* The result cell of a request entry while it still has this fill number, else NULL. */
struct mpb_cell *mpb_cell_find(struct mpb_core *core, uint32_t entry, uint32_t cell, uint64_t fill_number);
uint64_t mpb_entry_fill_number(const struct mpb_core *core, uint32_t entry);

#endif
