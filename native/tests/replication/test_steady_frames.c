/* Answers that are read, or not, however they end or whatever byte of them is another one; requests of any size, beside
 * those that are put together field by field. That both are what Python reads and writes is shown by
 * tests/unit/replication/test_steady_links.py. */
#include <stdlib.h>
#include "tests/replication/steady_answer.h"
#include "tests/stepping/guarded.h"

enum { SESSION = 77, CORRELATION = 9, PARTS = 3 };

static struct mpb_steady_partition partitions[MPB_STEADY_PARTITIONS];
static struct mpb_steady_session session;
static struct mpb_steady_part parts[MPB_STEADY_PARTITIONS];
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

/* Partitions 0 and 1 of the first topic and 0 of the second, with 3, 0 and 7 bytes of records. */
static void make_answer(void)
{
    static const uint8_t RECORDS[PARTS][7] = {{0xa0, 0xa0, 0xa0}, {0}, {0xa2, 0xa2, 0xa2, 0xa2, 0xa2, 0xa2, 0xa2}};
    static const uint32_t BYTES[PARTS] = {3, 0, 7};
    static const struct told_answer TOLD = {
        .correlation_id = CORRELATION, .throttle_ms = 5, .session_id = SESSION, .parts = PARTS};
    struct told_part told[PARTS];
    for (int i = 0; i < PARTS; i++)
        told[i] = (struct told_part){.topic = (uint8_t)(1 + i / 2),
                                     .partition = i % 2,
                                     .high_watermark = 100 + i,
                                     .last_stable = 50,
                                     .log_start = 10 + i,
                                     .preferred = -1,
                                     .records = RECORDS[i],
                                     .bytes = BYTES[i]};
    put_answer(&TOLD, told);
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

static void no_beginning_is_read(void)
{
    for (size_t bytes = 0; bytes <= length; bytes++)
        CHECK_EQ(read_bytes(bytes), -1);
}

/* One partition that the session has, but for what a row says. */
static void what_is_not_ordinary(void)
{
    static const uint8_t RECORDS[] = {1, 2, 3};
    static const struct told_answer PLAIN = {.correlation_id = CORRELATION, .session_id = SESSION, .parts = 1};
    static const struct told_part PART = {.topic = 1, .preferred = -1, .records = RECORDS, .bytes = sizeof RECORDS};
    begin_session(4);
#define ODD(change, count)                   \
    do {                                     \
        struct told_answer told = PLAIN;     \
        struct told_part part = PART;        \
        change;                              \
        put_answer(&told, &part);            \
        if ((count) < 0)                     \
            no_beginning_is_read();          \
        CHECK_EQ(read_bytes(length), count); \
    } while (0)
    ODD((void)0, 1);
    ODD(told.throttle_ms = INT32_MAX, 1);
    ODD(told.correlation_id++, -1);
    ODD(told.error = 71, -1); /* INVALID_FETCH_SESSION_EPOCH */
    ODD(told.session_id++, -1);
    ODD(told.head_tags = 1, -1);
    ODD(told.topic_tags = 1, -1);
    ODD(told.tags = 1, -1);
    ODD(part.tags = 1, -1);
    ODD(part.error = 1, -1);
    ODD(part.error = -1, -1);
    ODD(part.topic = 3, -1); /* one that nobody asked for, and a partition that its topic has not */
    ODD(part.partition = 2, -1);
    ODD((part.topic = 2, part.partition = 1), 1);
    ODD(part.aborted = 1, 1); /* none, instead of null */
    ODD(part.aborted = 2, -1);
    ODD(part.aborted = 3, -1);
    ODD(part.preferred = 7, 1); /* of which a follower makes nothing */
    ODD((part.is_null = true, part.bytes = 0), 1);
    CHECK_EQ(parts[0].length, 0);
    ODD(told.parts = 0, 0);
    ODD(session.count = 0, -1); /* none that is asked for */
#undef ODD
}

/* A null array is none that a leader sends, and is nothing that could be read on from. */
static void null_arrays(void)
{
    enum { AT_TOPICS = 15, AT_PARTITIONS = 32 };
    for (int at = AT_TOPICS; at <= AT_PARTITIONS; at += AT_PARTITIONS - AT_TOPICS) {
        begin_session(4);
        make_answer();
        answer[at] = 0;
        no_beginning_is_read();
    }
}

/* The end of an answer behind a part that is refused is where it would have ended without a look at the part. */
static void a_part_that_is_refused_ends_the_answer(void)
{
    static const struct told_answer TOLD = {.correlation_id = CORRELATION, .session_id = SESSION, .parts = 2};
    struct told_part told[2] = {{.topic = 1, .preferred = -1}, {.topic = 1, .preferred = -1}}; /* twice the same */
    begin_session(2);
    put_answer(&TOLD, told);
    no_beginning_is_read();
    told[1].partition = 1;
    put_answer(&TOLD, told);
    CHECK_EQ(read_bytes(length), 2);
    told[1].partition = 2;
    put_answer(&TOLD, told);
    no_beginning_is_read();
}

/* Whatever order a leader tells them in, each part is that of its partition; none is told twice. Rows behind the session's
 * are an earlier session's: nobody looks at them, and nothing is written there. */
static void any_order(void)
{
    uint64_t seed = 7;
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t count = 1 + round % 7, told_count = random_below(&seed, count + 1);
        struct told_part told[8];
        uint32_t order[8];
        begin_session(8);
        session.count = count;
        for (uint32_t i = 0; i < 8; i++)
            partitions[i].has_come = true;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = random_below(&seed, i + 1);
            order[i] = order[at];
            order[at] = i;
        }
        for (uint32_t i = 0; i < told_count; i++)
            told[i] = (struct told_part){.topic = partitions[order[i]].topic_id[0],
                                         .partition = partitions[order[i]].partition,
                                         .high_watermark = (int64_t)next_random(&seed),
                                         .log_start = (int64_t)next_random(&seed),
                                         .preferred = -1};
        const struct told_answer plain = {.correlation_id = CORRELATION, .session_id = SESSION, .parts = told_count};
        put_answer(&plain, told);
        CHECK_EQ(read_bytes(length), told_count);
        for (uint32_t i = 0; i < told_count; i++) {
            CHECK_EQ(parts[i].of - partitions, order[i]);
            CHECK(parts[i].high_watermark == told[i].high_watermark && parts[i].log_start == told[i].log_start);
        }
        for (uint32_t i = 0; i < 8; i++) { /* `order` tells which have come */
            bool has_come = i >= count;
            for (uint32_t at = 0; at < told_count; at++)
                has_come |= order[at] == i;
            CHECK_EQ(partitions[i].has_come, has_come);
        }
    }
}

/* ------------------------------------------------------------------ requests */
static void put_untold(const struct mpb_steady_partition *one)
{
    put((uint32_t)one->partition, 4);
    put((uint32_t)one->leader_epoch, 4);
    put((uint64_t)one->offset, 8);
    put((uint32_t)one->last_epoch, 4);
    put((uint64_t)one->log_start, 8);
    put((uint32_t)session.partition_max_bytes, 4);
    put(0, 1);
}

/* The request of this session, put together from Kafka's schema: version 17, with the replica state. */
static void put_request(void)
{
    const uint8_t *topic = NULL;
    length = 0;
    put(1, 2);
    put(17, 2);
    put((uint32_t)session.correlation_id, 4);
    put(session.client_id_bytes, 2);
    memcpy(answer + length, session.client_id, session.client_id_bytes);
    length += session.client_id_bytes;
    put(0, 1);
    put((uint32_t)session.max_wait_ms, 4);
    put((uint32_t)session.min_bytes, 4);
    put((uint32_t)session.max_bytes, 4);
    put(0, 1); /* isolation */
    put((uint32_t)session.session_id, 4);
    put((uint32_t)session.session_epoch, 4);
    size_t topics_at = length, partitions_at = 0;
    put(1, 1); /* no topic, so far */
    for (uint32_t i = 0; i < session.count; i++) {
        const struct mpb_steady_partition *one = &partitions[i];
        if (!one->untold)
            continue;
        if (topic == NULL || memcmp(topic, one->topic_id, TOPIC_ID_BYTES) != 0) {
            if (topic != NULL)
                put(0, 1);
            topic = one->topic_id;
            answer[topics_at]++;
            memcpy(answer + length, topic, TOPIC_ID_BYTES);
            partitions_at = length += TOPIC_ID_BYTES;
            put(1, 1);
        }
        answer[partitions_at]++;
        put_untold(one);
    }
    if (topic != NULL)
        put(0, 1);
    put(1, 1); /* no forgotten topics */
    put(1, 1); /* the rack is "" */
    put(1, 1); /* one tag: 1, of 13 bytes: the replica state */
    put(1, 1);
    put(13, 1);
    put((uint32_t)session.node_id, 4);
    put((uint64_t)session.broker_epoch, 8);
    put(0, 1);
}

static void some_session(uint64_t *seed)
{
    uint32_t count = random_below(seed, 7);
    begin_session(count);
    session.client_id_bytes = random_below(seed, MPB_STEADY_CLIENT_BYTES + 1);
    memset(session.client_id, 'c', sizeof session.client_id);
    int32_t *const numbers[] = {&session.session_id, &session.node_id,   &session.max_wait_ms,
                                &session.min_bytes,  &session.max_bytes, &session.partition_max_bytes};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = (int32_t)next_random(seed);
    session.correlation_id = (int32_t)(next_random(seed) >> 33);
    session.session_epoch = (int32_t)random_below(seed, INT32_MAX);
    session.broker_epoch = (int64_t)next_random(seed);
    uint8_t topic = 1;
    for (uint32_t i = 0; i < 8; i++) { /* those behind `count` are an earlier session's */
        if (i > 0 && i < count && random_below(seed, 2) == 0)
            topic++;
        memset(partitions[i].topic_id, topic, TOPIC_ID_BYTES);
        partitions[i].topic_id[0] = 9; /* the last byte tells them apart, as any other */
        partitions[i].ordinal = random_below(seed, 1000);
        partitions[i].partition = (int32_t)next_random(seed);
        partitions[i].leader_epoch = (int32_t)next_random(seed);
        partitions[i].last_epoch = (int32_t)next_random(seed);
        partitions[i].offset = (int64_t)next_random(seed);
        partitions[i].log_start = (int64_t)next_random(seed);
        partitions[i].untold = i >= count || random_below(seed, 3) > 0;
    }
}

static void requests_of_any_session(void)
{
    static uint8_t frame[MPB_STEADY_REQUEST_BYTES];
    uint64_t seed = 3;
    for (int round = 0; round < 500; round++) {
        some_session(&seed);
        struct mpb_steady_session next = session;
        next.correlation_id = (int32_t)(((int64_t)session.correlation_id + 1) % (1ll << 31));
        next.session_epoch++;
        struct mpb_steady_session now = session;
        session = next;
        put_request();
        session = now;
        CHECK_EQ(mpb_steady_write(&session, frame), length + 4);
        CHECK_EQ(mpb_be32(frame), length);
        CHECK(memcmp(frame + 4, answer, length) == 0);
        CHECK(memcmp(&session, &next, sizeof next) == 0);
        for (uint32_t i = 0; i < 8; i++)
            CHECK_EQ(partitions[i].untold, i >= session.count);
    }
}

/* Behind the last partition nobody looks, whether it is told or not. */
static void a_session_that_ends_with_its_memory(void)
{
    static uint8_t frame[MPB_STEADY_REQUEST_BYTES];
    const struct guarded guarded = guarded_open(sizeof partitions);
    for (uint32_t count = 0; count < 3; count++)
        for (uint32_t untold = 0; untold < 4; untold++) {
            begin_session(count);
            for (uint32_t i = 0; i < count; i++)
                partitions[i].untold = untold >> i & 1;
            session.partitions = (void *)guarded_copy(&guarded, partitions, count * sizeof *partitions);
            mpb_steady_write(&session, frame);
            for (uint32_t i = 0; i < count; i++)
                CHECK(!session.partitions[i].untold);
        }
    munmap(guarded.end - guarded.most, guarded.most + GUARD_BYTES);
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
    what_is_not_ordinary();
    null_arrays();
    a_part_that_is_refused_ends_the_answer();
    any_order();
    requests_of_any_session();
    a_session_that_ends_with_its_memory();
    the_largest_request();
    numbers_begin_again();
    printf("steady frames: %lu checks\n", checks_made);
    return 0;
}
