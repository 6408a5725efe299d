/* What a segment's close fields say about the records in it, counted while they are written. The tracer's own. */
#ifndef MPB_TRACE_TALLY_H
#define MPB_TRACE_TALLY_H

#include "trace/trace_record.h"

#define MPB_TALLY_APIS 64 /* API keys 0 to 62; the last one counts all others */

struct mpb_trace_tally {
    uint64_t count;                /* records of every kind */
    uint64_t next_seq;             /* the lane's next request: of those every one was counted */
    uint64_t t0_min_ns, t0_max_ns; /* of requests; 0: none */
    uint32_t max_total_ticks;      /* the longest request */
    uint32_t crc;                  /* CRC-32 of all records */
    uint32_t api_counts[MPB_TALLY_APIS];
};

/* Counts whole records in. */
void mpb_tally_add(struct mpb_trace_tally *tally, const void *records, size_t count);

#endif
