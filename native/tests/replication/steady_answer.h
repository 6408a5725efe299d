/* Answers to a follower's Fetch of version 17, field by field, as a leader may say them or as none should. */
#ifndef MPB_TESTS_STEADY_ANSWER_H
#define MPB_TESTS_STEADY_ANSWER_H

#include <string.h>
#include "record/uvarint.h"
#include "replication/steady_frames.h"
#include "tests/stepping/check.h"

enum { TOPIC_ID_BYTES = 16 };

static uint8_t answer[1 << 13]; /* what follows the length of the frame */
static size_t length;

static inline void put(uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        answer[length++] = (uint8_t)(value >> (8 * i));
}

struct told_part {
    uint8_t topic; /* each byte of its id */
    int32_t partition;
    int16_t error;
    int64_t high_watermark, last_stable, log_start;
    uint32_t aborted;  /* as it is written: 0 is null, n + 1 is a count of n */
    int32_t preferred; /* replica to read from */
    bool is_null;
    const uint8_t *records;
    uint32_t bytes;
    uint8_t tags;
};

struct told_answer {
    int32_t correlation_id;
    uint8_t head_tags;
    int32_t throttle_ms;
    int16_t error;
    int32_t session_id;
    uint32_t parts;
    uint8_t topic_tags, tags;
};

static inline void put_part(const struct told_part *part)
{
    put((uint32_t)part->partition, 4);
    put((uint16_t)part->error, 2);
    put((uint64_t)part->high_watermark, 8);
    put((uint64_t)part->last_stable, 8);
    put((uint64_t)part->log_start, 8);
    length += mpb_put_uvarint(answer + length, part->aborted);
    put((uint32_t)part->preferred, 4);
    length += mpb_put_uvarint(answer + length, part->is_null ? 0 : part->bytes + 1);
    if (part->bytes > 0)
        memcpy(answer + length, part->records, part->bytes);
    length += part->bytes;
    put(part->tags, 1);
}

/* Parts beside each other that are of one topic are told as that topic's. */
static inline void put_answer(const struct told_answer *told, const struct told_part *parts)
{
    uint32_t topics = 0;
    for (uint32_t i = 0; i < told->parts; i++)
        topics += i == 0 || parts[i].topic != parts[i - 1].topic;
    length = 0;
    put((uint32_t)told->correlation_id, 4);
    put(told->head_tags, 1);
    put((uint32_t)told->throttle_ms, 4);
    put((uint16_t)told->error, 2);
    put((uint32_t)told->session_id, 4);
    put(topics + 1, 1);
    for (uint32_t i = 0, end; i < told->parts; i = end) {
        for (end = i + 1; end < told->parts && parts[end].topic == parts[i].topic;)
            end++;
        memset(answer + length, parts[i].topic, TOPIC_ID_BYTES);
        length += TOPIC_ID_BYTES;
        put(end - i + 1, 1);
        for (uint32_t at = i; at < end; at++)
            put_part(&parts[at]);
        put(told->topic_tags, 1);
    }
    put(told->tags, 1);
}

#endif
