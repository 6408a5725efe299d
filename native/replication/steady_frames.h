/* A follower's Fetch of a session in which nothing but ends of logs changes, and the answer to it: version 17, the frames
 * alone. What is not ordinary in an answer is left to Python (mpbroker/replication/follower.py), which knows what to do. */
#ifndef MPB_STEADY_FRAMES_H
#define MPB_STEADY_FRAMES_H

#include <stdbool.h>

#include "log/append_options.h"
#include "record/frame_cursor.h"

#define MPB_STEADY_PARTITIONS 256
#define MPB_STEADY_CLIENT_BYTES 64
#define MPB_STEADY_REQUEST_BYTES \
    (256 + MPB_STEADY_PARTITIONS * 64) /* the longest request: each partition a topic of its own */

struct mpb_steady_partition { /* one that the session has */
    uint8_t topic_id[16];
    uint32_t ordinal;
    int32_t partition, leader_epoch;
    int32_t last_epoch;
    int64_t offset, log_start; /* with `last_epoch`: where the log is now, as the leader is told next */
    int64_t leader_hw;         /* as it was told last */
    struct mpb_append_options options;
    bool untold;   /* the log is elsewhere than the leader was told last */
    bool has_come; /* in the answer that is being read */
    int error;     /* of the last append: not 0 ends the steady state */
};

struct mpb_steady_session { /* of one connection */
    uint8_t client_id[MPB_STEADY_CLIENT_BYTES];
    uint32_t client_id_bytes;
    int32_t correlation_id, session_id, session_epoch;
    int32_t node_id;
    int64_t broker_epoch;
    int32_t max_wait_ms, min_bytes, max_bytes, partition_max_bytes;
    uint32_t count;
    struct mpb_steady_partition *partitions; /* those of one topic beside each other */
};

struct mpb_steady_part { /* of an answer */
    struct mpb_steady_partition *of;
    int64_t high_watermark, log_start;
    const uint8_t *records;
    uint32_t length;
};

/* The parts of the answer to the last request, `frame` being what follows its length. -1: it is not ordinary: another
 * session, an error, a partition that nobody asked for or that comes twice, a tag, bytes behind the end. */
int mpb_steady_read(struct mpb_steady_session *session, const uint8_t *frame, size_t length,
                    struct mpb_steady_part parts[MPB_STEADY_PARTITIONS]);
/* The next request, its length in front: the partitions that are untold are told with it. `frame` has room for
 * MPB_STEADY_REQUEST_BYTES. Returns its bytes. */
uint32_t mpb_steady_write(struct mpb_steady_session *session, uint8_t *frame);

#endif
