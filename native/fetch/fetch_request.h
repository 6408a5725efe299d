/* Reads an ordinary Fetch request out of its frame: versions 4 to 17, of a consumer or, from 15 on, of a follower, at most MPB_FETCH_PARTITIONS partitions
 * of topics that are known. Anything else is left to Python, which is told apart by why. */
#ifndef MPB_FETCH_REQUEST_H
#define MPB_FETCH_REQUEST_H

#include "log/log_read.h"
#include "produce/native_topics.h"

#define MPB_FETCH_PARTITIONS 256 /* of one request, and of one session that is served natively */
#define MPB_FETCH_FIRST_FLEXIBLE 12
#define MPB_FETCH_FIRST_BY_ID 13
#define MPB_FETCH_FIRST_SESSION 7

enum mpb_fetch_left { /* why a request is left to Python; the order of the counters MPB_C_FETCH_LEFT_… */
                      MPB_FETCH_LEFT_FRAME, /* another version, an old follower, an isolation level or limit that does not exist */
                      MPB_FETCH_LEFT_TOPIC,      /* not known here, not yet or not any more */
                      MPB_FETCH_LEFT_PARTITIONS, /* too many, none, one that is not there, or something named twice */
                      MPB_FETCH_LEFT_SESSION,    /* one that is not known, in another epoch, full or held */
                      MPB_FETCH_LEFT_ERROR,      /* of a partition: its offset, an epoch, its log */
                      MPB_FETCH_LEFT_ABORTED,    /* aborted transactions are to be named */
                      MPB_FETCH_LEFT_RERUN,      /* a handler died with it */
                      MPB_FETCH_LEFT_MEMORY,     /* for as much as could be sent */
                      MPB_FETCH_LEFT_CHANGED,    /* the log changed under the plan */
                      MPB_FETCH_LEFT_REASONS,
                      MPB_FETCH_SERVE = MPB_FETCH_LEFT_REASONS,
                      MPB_FETCH_WAIT /* there is too little to send yet */
};

struct mpb_fetch_part { /* one partition to read */
    const struct mpb_native_topic *topic;
    struct mpb_session_partition asked; /* and what the client knows; `topic` is its place in the session */
    struct mpb_read_plan plan;
    bool told; /* the answer holds it */
};

struct mpb_fetch_asked {
    const struct mpb_native_topic *topic;
    struct mpb_session_partition asked;
};

struct mpb_fetch_request {
    int16_t version;
    int8_t isolation;
    int32_t max_wait_ms, min_bytes, max_bytes;
    int32_t session_id, session_epoch;
    int32_t replica; /* who follows, -1: a consumer */
    int64_t replica_epoch;
    uint32_t asked_count, forgotten_count, count;
    struct mpb_fetch_asked asked[MPB_FETCH_PARTITIONS];
    struct mpb_fetch_asked forgotten[MPB_FETCH_PARTITIONS]; /* topic and partition alone */
    struct mpb_fetch_part parts[MPB_FETCH_PARTITIONS];      /* all that is read: fetch_session.h */
};

/* MPB_FETCH_SERVE with `asked` and `forgotten`, or why not. */
enum mpb_fetch_left mpb_fetch_read(const struct mpb_native_topics *topics, const uint8_t *frame, size_t length,
                                   struct mpb_fetch_request *request);

#endif
