/* Produce requests of version 7 whose correlation id says who asked, with one record for each partition whose time says
 * it too; and what their answers and the log tell. */
#ifndef MPB_TESTS_PRODUCE_FRAMES_H
#define MPB_TESTS_PRODUCE_FRAMES_H

#include <string.h>

#include "tests/stepping/check.h"
#include "record/crc32c.h"
#include "record/record_batch.h"

enum { ASK_PARTITIONS = 4, ASK_TIME = 1000, ASK_LONG_NAME = 100, ASK_VALUE_BYTES = 50, ASK_BYTES = 1024 };

struct ask {
    uint32_t id;
    int16_t acks;
    int32_t partitions; /* 0 to n - 1 of the topic */
    bool long_name;     /* of a topic whose name makes the answer longer than the entry's own room */
    bool corrupt;       /* a record batch whose checksum is wrong */
};

static inline const char *ask_topic(bool long_name)
{
    static char name[ASK_LONG_NAME + 1];
    memset(name, 'l', ASK_LONG_NAME);
    return long_name ? name : "t";
}

static inline uint32_t ask_batch(uint8_t *out, const struct ask *ask)
{
    uint32_t length = MPB_BATCH_HEADER_BYTES + 7 + ASK_VALUE_BYTES;
    uint8_t *record = out + MPB_BATCH_HEADER_BYTES;
    memset(out, 0, length);
    mpb_put_be32(out + MPB_BATCH_LENGTH, (int32_t)length - MPB_BATCH_OVERHEAD_BYTES);
    mpb_put_be32(out + MPB_BATCH_LEADER_EPOCH, -1);
    out[MPB_BATCH_MAGIC] = 2;
    mpb_put_be64(out + MPB_BATCH_BASE_TIMESTAMP, ASK_TIME + ask->id);
    mpb_put_be64(out + MPB_BATCH_MAX_TIMESTAMP, ASK_TIME + ask->id);
    mpb_put_be64(out + MPB_BATCH_PRODUCER_ID, -1);
    mpb_put_be16(out + MPB_BATCH_PRODUCER_EPOCH, -1);
    mpb_put_be32(out + MPB_BATCH_BASE_SEQUENCE, -1);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, 1);
    record[0] = 2 * (6 + ASK_VALUE_BYTES); /* zigzag: attributes, two deltas, no key, the value, no headers */
    record[4] = 1;
    record[5] = 2 * ASK_VALUE_BYTES;
    memset(record + 6, (int)ask->id, ASK_VALUE_BYTES);
    uint32_t crc = mpb_crc32c(0, out + MPB_BATCH_ATTRIBUTES, length - MPB_BATCH_ATTRIBUTES);
    mpb_put_be32(out + MPB_BATCH_CRC, (int32_t)(ask->corrupt ? ~crc : crc));
    return length;
}

/* The frame with its 4-byte length; returns how long all of it is. */
static inline uint32_t ask_frame(uint8_t out[ASK_BYTES], const struct ask *ask)
{
    const char *topic = ask_topic(ask->long_name);
    uint8_t *p = out + 4;
    mpb_put_be16(p, 0);
    mpb_put_be16(p + 2, 7);
    mpb_put_be32(p + 4, (int32_t)ask->id);
    mpb_put_be16(p + 8, 1); /* client id */
    p[10] = 'c';
    mpb_put_be16(p + 11, -1); /* no transaction */
    mpb_put_be16(p + 13, ask->acks);
    mpb_put_be32(p + 15, 1000);
    mpb_put_be32(p + 19, 1);
    mpb_put_be16(p + 23, (int16_t)strlen(topic));
    memcpy(p + 25, topic, strlen(topic));
    p += 25 + strlen(topic);
    mpb_put_be32(p, ask->partitions);
    p += 4;
    for (int32_t i = 0; i < ask->partitions; i++) {
        uint32_t length = ask_batch(p + 8, ask);
        mpb_put_be32(p, i);
        mpb_put_be32(p + 4, (int32_t)length);
        p += 8 + length;
    }
    CHECK(p <= out + ASK_BYTES);
    mpb_put_be32(out, (int32_t)(p - out - 4));
    return (uint32_t)(p - out);
}

/* Offsets, by partition, that an answer tells; -1: refused. `frame` without its length. */
static inline void read_answer(const uint8_t *frame, uint32_t length, const struct ask *ask,
                               int64_t offsets[ASK_PARTITIONS])
{
    uint32_t name = (uint32_t)strlen(ask_topic(ask->long_name));
    CHECK_EQ(length, 4 + 4 + 2 + name + 4 + 30 * (uint32_t)ask->partitions + 4);
    CHECK_EQ(mpb_be32(frame), ask->id);
    const uint8_t *p = frame + 10 + name;
    CHECK_EQ(mpb_be32(p), ask->partitions);
    p += 4;
    for (int32_t i = 0; i < ask->partitions; i++, p += 30) {
        CHECK_EQ(mpb_be32(p), i);
        CHECK_EQ(mpb_be16(p + 4), ask->corrupt ? 2 : 0);
        offsets[i] = mpb_be64(p + 6);
        CHECK_EQ(offsets[i] < 0, ask->corrupt);
    }
}

#endif
