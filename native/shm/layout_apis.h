/* The part of layout.h that counts requests by API (request_metrics.h): MPB_API_ROWS rows for each processor, one for each
 * API key. */
#ifndef MPB_LAYOUT_APIS_H
#define MPB_LAYOUT_APIS_H

#include <stdint.h>
#include "shm/atomics.h"

#define MPB_API_ROWS 96u
#define MPB_API_VERSIONS 20     /* the last one counts all that are higher */
#define MPB_API_ERRORS 8        /* different error codes an API's row can count */
#define MPB_TIME_BUCKETS 26     /* the last one has no upper end */
#define MPB_TIME_FIRST_TICKS 16 /* upper end of the first bucket: 1.024 us; each further one doubles it */

enum mpb_request_time { /* as Kafka's RequestMetrics divides a request; RemoteTime is what the purgatory takes */
                        MPB_TIME_REQUEST_QUEUE = 0,
                        MPB_TIME_LOCAL = 1,
                        MPB_TIME_REMOTE = 2,
                        MPB_TIME_RESPONSE_QUEUE = 3,
                        MPB_TIME_RESPONSE_SEND = 4,
                        MPB_TIME_TOTAL = 5,
                        MPB_REQUEST_TIMES = 6
};

struct mpb_time_histogram {
    mpb_atomic64 ticks; /* sum of all durations, of 64 ns */
    mpb_atomic64 bucket[MPB_TIME_BUCKETS];
};

struct mpb_api_error {
    mpb_atomic32 code;
    uint32_t unused;
    mpb_atomic64 count; /* 0: the place is free */
};

struct mpb_api_row { /* 1,664 bytes = 26 cache lines; one writer, the processor */
    mpb_atomic64 request_bytes;
    mpb_atomic64 response_bytes;
    mpb_atomic64 other_errors; /* answers whose code found no place in `error` */
    uint64_t unused0;
    mpb_atomic64 version[MPB_API_VERSIONS]; /* requests by version */
    struct mpb_api_error error[MPB_API_ERRORS];
    struct mpb_time_histogram time[MPB_REQUEST_TIMES];
    uint8_t unused1[1664 - 32 - 8 * MPB_API_VERSIONS - 16 * MPB_API_ERRORS - 6 * 8 * (1 + MPB_TIME_BUCKETS)];
};
_Static_assert(sizeof(struct mpb_api_row) == 1664, "row of an API");

#endif
