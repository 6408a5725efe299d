/* The result of an append, and the cells of a request entry that keep it for a second run of the request (append rules 1
 * and 2). Written under the partition's lock. */
#ifndef MPB_RESULT_CELL_H
#define MPB_RESULT_CELL_H

#include "shm/core.h"

struct mpb_append_result {
    int16_t error;
    bool duplicate; /* a batch already in the log; base_offset is the first one's */
    bool replayed;  /* read from the result cell: an earlier run of this request did it */
    bool flush_due; /* flush.messages reached: call mpb_log_flush before answering */
    bool busy;      /* error REQUEST_TIMED_OUT, nothing done, cell not filled: try again (mpb_partition_is_busy) */
    bool
        unverified; /* error INVALID_TXN_STATE or NOT_ENOUGH_REPLICAS: a batch of a transaction of which the partition knows nothing; nothing
                          * done, cell not filled */
    bool
        waits; /* acks=all: the high watermark is not there yet; or a replay, of which nobody has looked whether it is */
    int64_t base_offset; /* -1 on error */
    int64_t end_offset;
    int64_t append_time_ms; /* -1 unless LogAppendTime */
    int64_t log_start;
    int32_t leader_epoch;
};

/* The result cell of a request entry while it still has this fill number, else NULL. */
struct mpb_cell *mpb_cell_find(struct mpb_core *core, uint32_t entry, uint32_t cell, uint64_t fill_number);
uint64_t mpb_entry_fill_number(const struct mpb_core *core, uint32_t entry);

/* Fills a cell, unless it is filled or its entry has another fill number by now. */
void mpb_cell_fill(struct mpb_core *core, uint32_t ordinal, uint32_t entry, uint32_t index, uint64_t fill_number,
                   const struct mpb_append_result *result);
/* True with `out` filled if an earlier run of this request filled the cell. Only after lock and repair (append rule 2). */
bool mpb_cell_read(struct mpb_core *core, uint32_t entry, uint32_t index, uint64_t fill_number,
                   struct mpb_append_result *out);

/* A filled cell keeps this error from now on. It is stored first and alone: a kill leaves the result or the error, and
 * beside an error nothing else is read. */
void mpb_cell_fail(struct mpb_core *core, uint32_t entry, uint32_t index, uint64_t fill_number, int error);

#endif
