/* One connection of a fetcher to a leader while nothing but ends of logs changes: an answer comes, its records are
 * appended, the next request goes, and Python is not asked. A fetcher process owns it (mpbroker/replication/fetcher.py), which
 * begins it when a session is in order and takes it back once a second and whenever something is not ordinary.
 *
 * Nothing here must survive: a successor begins with the ends that stand in the rows. */
#ifndef MPB_STEADY_FETCH_H
#define MPB_STEADY_FETCH_H

#include "log/log.h"
#include "replication/steady_frames.h"

#define MPB_STEADY_ANSWER_BYTES (256 << 10) /* a longer one is Python's, which makes room for it */

enum mpb_steady {                   /* what became of a turn */
                  MPB_STEADY_WAITS, /* for the leader */
                  MPB_STEADY_LEFT,  /* Python goes on with what has come */
                  MPB_STEADY_FAILED /* an append did: `error` of its partition. Nothing is asked */
};

struct mpb_steady_fetch {
    struct mpb_log *log;
    int fd;
    struct mpb_steady_session session;
    bool is_asked;                   /* a request is under way */
    uint64_t asked_ns;               /* when, by CLOCK_MONOTONIC */
    uint64_t answers;                /* that were served */
    uint32_t filled;                 /* bytes of the answer that have come, with its length */
    uint32_t unsent, request_length; /* bytes of the request: MPB_STEADY_LEFT when the socket did not take all */
    uint8_t request[MPB_STEADY_REQUEST_BYTES];
    uint8_t answer[MPB_STEADY_ANSWER_BYTES];
    struct mpb_steady_part parts[MPB_STEADY_PARTITIONS];
    struct mpb_steady_partition partitions[MPB_STEADY_PARTITIONS];
};

/* Something may have come. */
enum mpb_steady mpb_steady_turn(struct mpb_steady_fetch *fetch);

#endif
