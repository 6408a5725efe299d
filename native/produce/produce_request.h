/* Reads an ordinary Produce request out of its frame: versions 3 to 13, at most MPB_NATIVE_PARTITIONS partitions of topics
 * that are known, each with one batch of format 2. Anything else is left to Python, which is told apart by why. */
#ifndef MPB_PRODUCE_REQUEST_H
#define MPB_PRODUCE_REQUEST_H

#include "log/append.h"
#include "produce/native_topics.h"

#define MPB_NATIVE_PARTITIONS 32 /* of one request */
#define MPB_PRODUCE_FIRST_FLEXIBLE 9
#define MPB_PRODUCE_FIRST_BY_ID 13

enum mpb_left {                 /* why a request is left to Python; the order of the counters MPB_C_PRODUCE_LEFT_… */
                MPB_LEFT_FRAME, /* another version, acks that do not exist, no partitions, not readable */
                MPB_LEFT_TRANSACTION, /* transactional without an id, or of several producers, or of a transaction not known here */
                MPB_LEFT_TOPIC,      /* not known here, not yet or not any more, or its settings want Python */
                MPB_LEFT_PARTITIONS, /* too many, one that is not there, or something named twice */
                MPB_LEFT_BATCH,      /* not exactly one batch of format 2 with a codec that this version may use */
                MPB_LEFT_RECORDS,    /* records are refused, and the answer has to name them */
                MPB_LEFT_RERUN,      /* a handler died with it */
                MPB_LEFT_MEMORY,     /* for result cells, the answer or decompressed records */
                MPB_LEFT_BUSY,       /* the lock of a partition is not to be had now */
                MPB_LEFT_WAITS,      /* appended, and acknowledged when the replicas in sync have it */
                MPB_LEFT_REASONS,
                MPB_SERVE = MPB_LEFT_REASONS
};

struct mpb_produce_part { /* one partition of the request */
    const struct mpb_native_topic *topic;
    const uint8_t *records;
    size_t batch_len;
    int32_t index;
    uint32_t parts_of_topic;
    int error; /* of the batch's own checks */
    int64_t max_timestamp;
    struct mpb_batch_info info;
    struct mpb_append_result result;
};

struct mpb_produce_request {
    int16_t version;
    int16_t acks;
    int32_t timeout_ms;
    uint32_t count;
    uint32_t topics;
    uint64_t records;       /* sent, as the batches say */
    bool transactional;     /* it has a transactional id */
    int64_t producer_id;    /* of its transactional batches, -1: none yet */
    int16_t producer_epoch; /* the same */
    struct mpb_produce_part parts[MPB_NATIVE_PARTITIONS];
};

/* MPB_SERVE, or why not. The parts point into the frame, which has no length in front. */
enum mpb_left mpb_produce_read(const struct mpb_native_topics *topics, const uint8_t *frame, size_t length,
                               struct mpb_produce_request *request);

#endif
