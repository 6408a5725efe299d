/* The part of layout.h about fetch sessions (fetch/session_table.h). A row, and a run of units with what it remembers: mpb_session_topic rows, then mpb_session_partition rows in the order
 * in which they are read. All of it belongs to the process whose slot stands in `word`. */
#ifndef MPB_LAYOUT_SESSIONS_H
#define MPB_LAYOUT_SESSIONS_H

#include "shm/atomics.h"

#define MPB_SESSION_NAME_BYTES 252
struct mpb_session_topic {
    uint8_t id[16]; /* zeros in a session by names */
    uint32_t name_length;
    uint8_t name[MPB_SESSION_NAME_BYTES]; /* by ids: as soon as it is known */
};
_Static_assert(sizeof(struct mpb_session_topic) == 272, "topic of a fetch session");

struct mpb_session_partition {
    int64_t fetch_offset;
    int64_t high_watermark; /* as the client knows it, -1: it does not */
    int64_t log_start;
    int64_t asked_log_start; /* a follower's own */
    uint32_t topic;
    int32_t partition;
    int32_t max_bytes;
    int32_t leader_epoch;
    int32_t last_epoch;
    uint32_t unused[3];
};
_Static_assert(sizeof(struct mpb_session_partition) == 64, "partition of a fetch session");

enum mpb_session_flags {
    MPB_SESSION_BY_ID = 1,
    MPB_SESSION_PRIVILEGED = 2, /* a follower's */
    MPB_SESSION_ANSWERED = 4,   /* the request `fill_number` has changed what the client is said to know */
};

struct mpb_fetch_session { /* 128 bytes */
    mpb_atomic64 word;     /* session id 32 | slot of who holds the row + 1; 0: the row is free */
    uint64_t fill_number;  /* of the request that last went on with it */
    uint32_t epoch;        /* that the next request must have */
    uint32_t flags;
    uint32_t topics, partitions;
    uint32_t first_unit, units;
    mpb_atomic64 created_ms, used_ms; /* monotonic */
    uint8_t unused[128 - 56];
};
_Static_assert(sizeof(struct mpb_fetch_session) == 128, "fetch session");

#define MPB_SESSION_UNIT_BYTES 1024
struct mpb_session_unit {
    uint8_t bytes[MPB_SESSION_UNIT_BYTES];
};

#endif
