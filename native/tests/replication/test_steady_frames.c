/* Answers that are read, or not, however they end or whatever byte of them is another one; requests of any size. That
 * both are what Python reads and writes is shown by tests/unit/replication/test_steady_links.py. */
#include "replication/steady_frames.h"
#include "tests/stepping/check.h"
#include <stdlib.h>
#include <string.h>

enum { SESSION = 77, CORRELATION = 9, PARTS = 3 };

static struct mpb_steady_partition partitions[MPB_STEADY_PARTITIONS];
static struct mpb_steady_session session;
static struct mpb_steady_part parts[MPB_STEADY_PARTITIONS];
static uint8_t answer[1024];
static size_t length;

static void put(uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        answer[length++] = (uint8_t)(value >> (8 * i));
}

/* Partition i of the session belongs to topic i / 2. */
static void begin_session(uint32_t count)
{
    session = (struct mpb_steady_session){.correlation_id = CORRELATION,
                                          .session_id = SESSION,
                                          .session_epoch = 4,
                                          .node_id = 2,
                                          .broker_epoch = 1000,
                                          .count = count,
                                          .partitions = partitions};
    memcpy(session.client_id, "broker-2-fetcher-0", session.client_id_bytes = 18);
    memset(partitions, 0, sizeof partitions);
    for (uint32_t i = 0; i < count; i++) {
        memset(partitions[i].topic_id, (int)(1 + i / 2), 16);
        partitions[i].partition = (int32_t)(i % 2);
        partitions[i].ordinal = i;
    }
}

static void put_part(int i, uint32_t bytes)
{
    put((uint64_t)(i % 2), 4);
    put(0, 2);
    put(100 + (uint64_t)i, 8);
    put(50, 8);
    put(10 + (uint64_t)i, 8);
    put(0, 1); /* aborted: null */
    put(UINT32_MAX, 4);
    put(bytes + 1, 1);
    for (uint32_t byte = 0; byte < bytes; byte++)
        answer[length++] = (uint8_t)(0xa0 + i);
    put(0, 1);
}

/* Partitions 0 and 1 of the first topic and 0 of the second, with 3, 0 and 7 bytes of records. */
static void make_answer(void)
{
    length = 0;
    put(CORRELATION, 4);
    put(0, 1);
    put(5, 4); /* throttle time */
    put(0, 2);
    put(SESSION, 4);
    put(3, 1);
    for (int topic = 0; topic < 2; topic++) {
        for (int i = 0; i < 16; i++)
            put((uint64_t)(1 + topic), 1);
        put(topic == 0 ? 3 : 2, 1);
        put_part(2 * topic, topic == 0 ? 3 : 7);
        if (topic == 0)
            put_part(1, 0);
        put(0, 1);
    }
    put(0, 1);
}

/* Of memory that ends where the answer does, so that a sanitizer sees a read behind it. */
static int read_bytes(size_t bytes)
{
    uint8_t *copy = malloc(bytes + (bytes == 0));
    memcpy(copy, answer, bytes);
    int count = mpb_steady_read(&session, copy, bytes, parts);
    for (int i = 0; i < count; i++)
        CHECK(parts[i].records >= copy && parts[i].records + parts[i].length <= copy + bytes);
    free(copy);
    return count;
}

static void each_field(void)
{
    begin_session(4);
    make_answer();
    CHECK(mpb_steady_read(&session, answer, length, parts) == PARTS);
    static const uint32_t bytes[PARTS] = {3, 0, 7};
    for (int i = 0; i < PARTS; i++) {
        CHECK(parts[i].of == &partitions[i] && parts[i].of->ordinal == (uint32_t)i);
        CHECK(parts[i].high_watermark == 100 + i && parts[i].log_start == 10 + i && parts[i].length == bytes[i]);
        for (uint32_t byte = 0; byte < bytes[i]; byte++)
            CHECK(parts[i].records[byte] == 0xa0 + i);
    }
    CHECK(mpb_steady_read(&session, answer, length, parts) == PARTS); /* what came before is forgotten */
}

static void no_end_is_another(void)
{
    for (size_t bytes = 0; bytes < length; bytes++)
        CHECK(read_bytes(bytes) == -1);
    answer[length] = 0;
    CHECK(read_bytes(length + 1) == -1);
    CHECK(read_bytes(length) == PARTS);
}

/* A changed byte may be another watermark; it is never a read behind the end or more parts than the session has. */
static void no_byte_does_harm(void)
{
    for (size_t at = 0; at < length; at++)
        for (int change = 1; change < 256; change++) {
            answer[at] ^= (uint8_t)change;
            CHECK(read_bytes(length) <= PARTS + 1);
            answer[at] ^= (uint8_t)change;
        }
}

/* An announced number beyond everything that could be there. */
static void counts_beyond_all(void)
{
    static const size_t at_topics = 15, at_partitions = 32;
    for (int which = 0; which < 2; which++) {
        make_answer();
        size_t at = which ? at_partitions : at_topics;
        memmove(answer + at + 5, answer + at + 1, length - at - 1);
        memcpy(answer + at, (const uint8_t[]){0xff, 0xff, 0xff, 0xff, 0x0f}, 5);
        length += 4;
        CHECK(read_bytes(length) == -1);
    }
}

static void the_largest_request(void)
{
    static uint8_t frame[MPB_STEADY_REQUEST_BYTES + 8];
    memset(frame + MPB_STEADY_REQUEST_BYTES, 0x5a, 8);
    for (uint32_t step = 1; step <= 3; step++) {
        begin_session(MPB_STEADY_PARTITIONS);
        session.client_id_bytes = MPB_STEADY_CLIENT_BYTES;
        uint32_t untold = 0;
        for (uint32_t i = 0; i < MPB_STEADY_PARTITIONS; i++) {
            memset(partitions[i].topic_id, 0, 16);
            partitions[i].topic_id[0] = (uint8_t)i; /* each a topic of its own */
            untold += partitions[i].untold = i % step == 0;
        }
        uint32_t bytes = mpb_steady_write(&session, frame);
        CHECK(bytes <= MPB_STEADY_REQUEST_BYTES && mpb_be32(frame) == (int32_t)bytes - 4);
        CHECK(bytes > untold * 50 && bytes < untold * 52 + 200);
        CHECK(session.correlation_id == CORRELATION + 1 && session.session_epoch == 5);
        for (uint32_t i = 0; i < MPB_STEADY_PARTITIONS; i++)
            CHECK(!partitions[i].untold);
        CHECK(frame[MPB_STEADY_REQUEST_BYTES] == 0x5a);
    }
}

static void numbers_begin_again(void)
{
    static uint8_t frame[MPB_STEADY_REQUEST_BYTES];
    begin_session(0);
    session.correlation_id = session.session_epoch = INT32_MAX;
    mpb_steady_write(&session, frame);
    CHECK(session.correlation_id == 0 && session.session_epoch == 1);
    length = 0;
    put(0, 4);
    put(0, 1);
    put(0, 4);
    put(0, 2);
    put(SESSION, 4);
    put(1, 1); /* no topics */
    put(0, 1);
    CHECK(read_bytes(length) == 0); /* nothing is new */
}

int main(void)
{
    each_field();
    no_end_is_another();
    no_byte_does_harm();
    counts_beyond_all();
    the_largest_request();
    numbers_begin_again();
    printf("steady frames: %lu checks\n", checks_made);
    return 0;
}
