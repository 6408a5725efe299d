/* A connection value by value, with clocks and a kernel that do what a script says: when bytes arrived, what a receive and
 * a send that take a part, nothing or fail leave behind, where a frame ends, how much memory that takes. */
#include "tests/stepping/scripted_calls.h"
#include "tests/request/request_drama.h"
#include "network/connection.h"
#include "record/wire.h"
#include "tests/stepping/starved.h"
#include <malloc.h>

#define SECOND 1000000000ll

static uint8_t scratch[MPB_RECEIVE_BYTES];
static struct drama d;

static void begin_script(void) { memset(&script, 0, sizeof script); }

static void add_receive(int result, int64_t arrived_ns)
{
    script.received[script.receive_lines].result = result;
    script.received[script.receive_lines++].arrived_ns = arrived_ns;
}

enum { ANSWERS = 3, INLINE_BYTES = 10, EXTENT_BYTES = 600 };

/* Three answers in the connection's hands: of 10, 600 (in the arena) and 10 bytes. */
static void hold_answers(struct mpb_connection *c, uint32_t count)
{
    uint8_t bytes[EXTENT_BYTES];
    drama_open(&d);
    *c = (struct mpb_connection){.fd = 77};
    for (uint32_t i = 0; i < count; i++) {
        CHECK(submit(&d.p[0], MPB_PLANE_DATA, i, 100) >= 0);
        int64_t entry = mpb_handler_claim(&d.h[0], false);
        memset(bytes, (int)('a' + i), sizeof bytes);
        uint32_t length = i == 1 ? EXTENT_BYTES : INLINE_BYTES;
        CHECK(entry >= 0 && mpb_answer_bytes(&d.h[0], (uint32_t)entry, MPB_ANSWER_INLINE, bytes, length));
        CHECK_EQ(mpb_collect(&d.p[0]), entry);
        c->out[c->out_count++] = (uint32_t)entry;
    }
}

/* ------------------------------------------------------------------ arrivals */
/* The wall clock is 100 s ahead; how far apart two readings beside it lie decides which of them are believed. */
static void test_the_clocks_are_compared(void)
{
    static const struct {
        int64_t apart_ns[3];
        int tries;
    } ROWS[] = {
        {{0, 0, 0}, 1},       {{1999, 0, 0}, 1},    {{2000, 0, 0}, 2},
        {{9000, 1999, 0}, 2}, {{9000, 2000, 1}, 3}, {{9000, 9000, 9000}, 3},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_arrivals arrivals = {.wanted = true};
        struct mpb_connection c = {.fd = 77, .readable = true};
        begin_script();
        for (int n = 0; n < 3; n++) { /* each try finds another difference: 100 s and n + 1 us */
            script.monotonic_ns[2 * n] = 7 * SECOND + n;
            script.monotonic_ns[2 * n + 1] = 7 * SECOND + n + ROWS[i].apart_ns[n];
            script.wall_ns[n] = 107 * SECOND + n + 1000 * (n + 1);
        }
        script.monotonic_lines = 6;
        script.wall_lines = 3;
        add_receive(5, 103 * SECOND + 9);
        CHECK_EQ(mpb_connection_receive(&c, scratch, 7 * SECOND, &arrivals), MPB_RECEIVED);
        CHECK_EQ(script.wall_reads, ROWS[i].tries);
        CHECK_EQ(script.monotonic_reads, 2 * ROWS[i].tries);
        CHECK_EQ(arrivals.wall_minus_monotonic_ns, 100 * SECOND + 1000 * ROWS[i].tries);
        CHECK_EQ(arrivals.sampled_ns, 7 * SECOND);
        CHECK_EQ(c.first_arrival_ns, 3 * SECOND + 9 - 1000 * ROWS[i].tries);
        CHECK(c.later_arrival_ns == c.first_arrival_ns && c.first_ns == 7 * SECOND && c.later_ns == 7 * SECOND);
        mpb_connection_close(&c);
    }
}

static void test_the_clocks_are_compared_again(void)
{
    static const struct {
        int64_t now_ns;
        bool compares;
        int64_t arrived_ns, at_ns; /* of the wall clock, which is 10 s ahead, then 20 s and so on */
    } ROWS[] = {
        {1000000, true, 10 * SECOND + 5, 5},
        {1999999, false, 10 * SECOND + 6, 6},
        {1999999, false, 10 * SECOND + 1, 1},
        {1999999, false, 10 * SECOND, 0},
        {1999999, false, 10 * SECOND - 1, 0},
        {2000000, true, 23 * SECOND + 7, 3 * SECOND + 7},
        {2000001, false, 20 * SECOND + 8, 8},
        {2999999, false, 20 * SECOND + 9, 9},
        {9000000, true, 30 * SECOND + 999999999, 999999999},
    };
    struct mpb_arrivals arrivals = {.wanted = true};
    struct mpb_connection c = {.fd = 77};
    begin_script();
    for (int n = 0; n < 3; n++)
        script.wall_ns[n] = 10 * (n + 1) * SECOND + 40;
    script.monotonic_ns[0] = 40;
    script.monotonic_lines = 1;
    script.wall_lines = 3;
    int compared = 0;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        add_receive(1, ROWS[i].arrived_ns);
        CHECK_EQ(mpb_connection_receive(&c, scratch, (uint64_t)ROWS[i].now_ns, &arrivals), MPB_RECEIVED);
        compared += ROWS[i].compares;
        CHECK_EQ(script.wall_reads, compared);
        CHECK_EQ(c.later_arrival_ns, ROWS[i].at_ns);
        CHECK_EQ(c.first_arrival_ns, 5); /* the frame in hand began with the first byte */
        CHECK_EQ(c.first_ns, 1000000);
        CHECK_EQ(c.later_ns, ROWS[i].now_ns);
    }
    mpb_connection_close(&c);
}

/* What the kernel says beside the bytes is taken for an arrival if it is one. */
static void test_what_is_no_arrival(void)
{
    static const struct {
        bool wanted;
        int level, type;
        size_t less;
        bool counts;
    } ROWS[] = {
        {true, 0, 0, 0, true},           {false, 0, 0, 0, false}, {true, IPPROTO_TCP, 0, 0, false},
        {true, 0, SCM_RIGHTS, 0, false}, {true, 0, 0, 1, false},  {true, 0, 0, sizeof(struct timespec), false},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_arrivals arrivals = {.wanted = ROWS[i].wanted};
        struct mpb_connection c = {.fd = 77, .first_arrival_ns = 3, .later_arrival_ns = 3};
        begin_script();
        add_receive(1, 50);
        script.received[0].level = ROWS[i].level;
        script.received[0].type = ROWS[i].type;
        script.received[0].control_less = ROWS[i].less;
        CHECK_EQ(mpb_connection_receive(&c, scratch, 10, &arrivals), MPB_RECEIVED);
        CHECK_EQ(script.plain_receives, !ROWS[i].wanted);
        CHECK_EQ(c.first_arrival_ns, ROWS[i].counts ? 50 : 0);
        CHECK_EQ(c.later_arrival_ns, ROWS[i].counts ? 50 : 0);
        mpb_connection_close(&c);
    }
}

/* ------------------------------------------------------------------ receiving */
static void test_what_a_receive_leaves(void)
{
    enum { WHOLE = MPB_RECEIVE_BYTES };
    static const struct {
        int results[3], calls;
        bool hung_up;
        enum mpb_received told;
        bool readable;
        uint32_t bytes;
    } ROWS[] = {
        {{1}, 1, false, MPB_RECEIVED, false, 1},
        {{1}, 1, true, MPB_RECEIVED, true, 1},
        {{WHOLE - 1}, 1, false, MPB_RECEIVED, false, WHOLE - 1},
        {{WHOLE}, 1, false, MPB_RECEIVED, true, WHOLE},
        {{WHOLE}, 1, true, MPB_RECEIVED, true, WHOLE},
        {{0}, 1, false, MPB_CONNECTION_LOST, true, 0},
        {{-EAGAIN}, 1, false, MPB_RECEIVED_NOTHING, false, 0},
        {{-EAGAIN}, 1, true, MPB_RECEIVED_NOTHING, false, 0},
        {{-ECONNRESET}, 1, false, MPB_CONNECTION_LOST, true, 0},
        {{-EINTR, -EINTR, 4}, 3, false, MPB_RECEIVED, false, 4},
        {{-EINTR, -EPIPE}, 2, false, MPB_CONNECTION_LOST, true, 0},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int wanted = 0; wanted < 2; wanted++) {
            struct mpb_arrivals arrivals = {.wanted = wanted};
            struct mpb_connection c = {.fd = 77, .readable = true, .hung_up = ROWS[i].hung_up};
            begin_script();
            for (int n = 0; n < ROWS[i].calls; n++)
                add_receive(ROWS[i].results[n], 0);
            CHECK_EQ(mpb_connection_receive(&c, scratch, 10, &arrivals), ROWS[i].told);
            CHECK_EQ(script.receives, ROWS[i].calls);
            CHECK_EQ(c.readable, ROWS[i].readable);
            CHECK_EQ(mpb_connection_buffered(&c), ROWS[i].bytes);
            for (uint32_t n = 0; n < ROWS[i].bytes; n++)
                CHECK_EQ(c.buffer[n], (uint8_t)((uint32_t)(ROWS[i].calls - 1) * 16 + n));
            mpb_connection_close(&c);
            CHECK(c.buffer == NULL && c.introduction == NULL && c.closed && c.capacity == 0 && c.end == 0);
        }
}

/* A call that did not fail says nothing with errno: it is what an earlier one left. */
static void test_an_end_behind_a_failure(void)
{
    static const int BEFORE[] = {0, EINTR, EAGAIN, EPIPE};
    for (size_t i = 0; i < sizeof BEFORE / sizeof *BEFORE; i++) {
        struct mpb_arrivals arrivals = {.wanted = false};
        struct mpb_connection c = {.fd = 77, .readable = true};
        begin_script();
        add_receive(0, 0);
        errno = BEFORE[i];
        CHECK_EQ(mpb_connection_receive(&c, scratch, 10, &arrivals), MPB_CONNECTION_LOST);
        CHECK(c.readable && script.receives == 1);
        begin_script();
        hold_answers(&c, ANSWERS);
        script.monotonic_ns[0] = 4000;
        script.monotonic_lines = 1;
        script.send_lines = 1; /* nothing at all was taken */
        errno = BEFORE[i];
        CHECK_EQ(mpb_connection_send(&c, &d.p[0]), MPB_SEND_WAITS);
        CHECK(script.sends == 1 && c.blocked && c.out_count == ANSWERS && c.last_active_ns == 0);
        drama_close(&d);
    }
}

/* Where there is no memory nothing is forgotten and nothing made up. */
static void test_no_memory(void)
{
    if (!CAN_STARVE)
        return;
    struct mpb_arrivals arrivals = {.wanted = false};
    struct mpb_connection c = {.fd = 77}, full = {.fd = 77, .end = 1u << 30, .capacity = 1u << 30};
    begin_script();
    add_receive(9, 0);
    starve();
    bool preloaded = mpb_connection_preload(&c, scratch, 1u << 30, 5);
    enum mpb_received told = mpb_connection_receive(&full, scratch, 10, &arrivals);
    feed();
    CHECK(!preloaded && c.end == 0 && c.capacity == 0 && c.first_ns == 0);
    CHECK_EQ(told, MPB_NO_MEMORY);
    CHECK_EQ(full.end, 1u << 30);
}

/* One life of a connection that held whatever it can. */
static void live_once(void)
{
    static const uint8_t FRAME[MPB_INTRODUCTION_BYTES] = {0, MPB_API_VERSIONS_KEY, 0, 3};
    struct mpb_connection c = {.fd = 77};
    uint32_t bytes;
    for (int round = 0; round < 2; round++) {
        CHECK(mpb_connection_preload(&c, FRAME, sizeof FRAME, 1));
        mpb_connection_take(&c, sizeof FRAME);
        CHECK(mpb_connection_introduces(&c, FRAME, sizeof FRAME, 1));
        CHECK(mpb_connection_introduces(&c, FRAME, sizeof FRAME, 2));
        CHECK(mpb_connection_preload(&c, FRAME, 700, 1));
    }
    free(mpb_connection_take_introduction(&c, &bytes));
    CHECK(mpb_connection_introduces(&c, FRAME, 900, 3));
    mpb_connection_close(&c);
}

/* The allocator keeps some of what it gets back, but not more every time. */
static void test_all_memory_is_given_back(void)
{
    size_t used = 0;
    for (int life = 0; life < 60; life++) {
        live_once();
        if (life == 30)
            used = mallinfo2().uordblks;
    }
    CHECK_EQ(mallinfo2().uordblks, used);
}

/* Memory for what is there, and half more for a frame that grows; what was taken makes room first. */
static void test_room_for_bytes(void)
{
    static const struct {
        uint32_t take, add, end, capacity;
    } ROWS[] = {
        {0, 10, 10, 10},   {0, 0, 10, 10},     {0, 4, 14, 19},   {0, 5, 19, 19}, {3, 3, 19, 19},
        {0, 1, 20, 29},    {20, 0, 0, 0},      {0, 8, 8, 8},     {7, 7, 8, 8},   {0, 100, 108, 112},
        {100, 2, 10, 112}, {9, 111, 112, 112}, {1, 3, 114, 169},
    };
    struct mpb_connection c = {.fd = 77}, single = {.fd = 77};
    uint8_t bytes[128], value = 0, first = 0;
    CHECK(mpb_connection_preload(&single, (const uint8_t *)"a", 1, 1));
    CHECK(mpb_connection_preload(&single, (const uint8_t *)"bcd", 3, 1));
    CHECK(single.capacity == 4 && memcmp(single.buffer, "abcd", 4) == 0);
    mpb_connection_close(&single);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        mpb_connection_take(&c, ROWS[i].take);
        first = (uint8_t)(first + ROWS[i].take);
        for (uint32_t n = 0; n < ROWS[i].add; n++)
            bytes[n] = value++;
        c.first_ns = c.later_ns = c.frame_started_ns = 1;
        CHECK(mpb_connection_preload(&c, bytes, ROWS[i].add, 50 + i));
        uint64_t noted = ROWS[i].add == 0 ? 1 : 50 + i;
        CHECK(c.first_ns == noted && c.later_ns == noted && c.frame_started_ns == noted);
        CHECK_EQ(c.end, ROWS[i].end);
        CHECK_EQ(c.capacity, ROWS[i].capacity);
        CHECK_EQ(c.buffer == NULL, ROWS[i].capacity == 0);
        for (uint32_t n = c.start; n < c.end; n++)
            CHECK_EQ(c.buffer[n], (uint8_t)(first + (n - c.start)));
    }
    mpb_connection_close(&c);
}

/* ------------------------------------------------------------------ frames */
static void test_where_a_frame_ends(void)
{
    enum { MOST = 100, SMALL = MPB_SMALL_FRAME_BYTES, MEGA = 1 << 20 };
    static const struct {
        int32_t length; /* announced */
        uint32_t have, most;
        enum mpb_frame found;
        bool has;
        int32_t arena;
    } ROWS[] = {
        {8, 0, MOST, MPB_FRAME_PART, false, 0},
        {8, 3, MOST, MPB_FRAME_PART, false, 0},
        {SMALL + 1, 3, SMALL + 1, MPB_FRAME_PART, false, 0},
        {8, 4, MOST, MPB_FRAME_PART, false, 0},
        {8, 11, MOST, MPB_FRAME_PART, false, 0},
        {8, 12, MOST, MPB_FRAME_WHOLE, true, 0},
        {8, 13, MOST, MPB_FRAME_WHOLE, true, 0},
        {7, 11, MOST, MPB_FRAME_INVALID, true, 0},
        {0, 4, MOST, MPB_FRAME_INVALID, true, 0},
        {1, 4, MOST, MPB_FRAME_INVALID, false, 0},
        {-1, 4, MOST, MPB_FRAME_INVALID, true, 0},
        {INT32_MIN, 4, MOST, MPB_FRAME_INVALID, true, 0},
        {MOST, 4, MOST, MPB_FRAME_PART, false, 0},
        {MOST + 1, 4, MOST, MPB_FRAME_INVALID, false, 0},
        {SMALL, SMALL + 3, MEGA, MPB_FRAME_PART, false, 0},
        {SMALL + 1, 4 + SMALL / 8 - 1, MEGA, MPB_FRAME_PART, false, 0},
        {SMALL + 1, 4 + SMALL / 8, MEGA, MPB_FRAME_PART, false, SMALL + 1},
        {SMALL + 1, SMALL + 4, MEGA, MPB_FRAME_PART, false, SMALL + 1},
        {SMALL + 1, SMALL + 5, MEGA, MPB_FRAME_WHOLE, true, 0},
        {8 * MEGA - 1, 4 + MEGA - 2, INT32_MAX, MPB_FRAME_PART, false, 0},
        {8 * MEGA - 1, 4 + MEGA - 1, INT32_MAX, MPB_FRAME_PART, false, 8 * MEGA - 1},
        {8 * MEGA + 8, 4 + MEGA - 1, INT32_MAX, MPB_FRAME_PART, false, 0},
        {8 * MEGA + 8, 4 + MEGA, INT32_MAX, MPB_FRAME_PART, false, 8 * MEGA + 8},
        {INT32_MAX, 4 + MEGA, INT32_MAX, MPB_FRAME_PART, false, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        uint8_t *buffer = calloc(1, ROWS[i].have + 8); /* it begins behind three bytes that were taken */
        const uint8_t *frame = NULL;
        int32_t length = -7;
        CHECK(buffer != NULL);
        mpb_put_be32(buffer + 3, (uint32_t)ROWS[i].length);
        struct mpb_connection c = {.buffer = buffer, .start = 3, .end = 3 + ROWS[i].have};
        CHECK_EQ(mpb_connection_frame(&c, ROWS[i].most, &frame, &length), ROWS[i].found);
        CHECK_EQ(length, ROWS[i].have < 4 ? -7 : ROWS[i].length);
        CHECK(frame == (ROWS[i].have < 4 ? NULL : buffer + 7));
        CHECK_EQ(mpb_connection_has_frame(&c), ROWS[i].has);
        CHECK_EQ(mpb_connection_wants_arena(&c), ROWS[i].arena);
        mpb_connection_close(&c);
    }
}

/* ------------------------------------------------------------------ who the client is */
static void test_introductions(void)
{
    static const struct {
        uint16_t key, version;
        uint32_t hash;
        bool told;
    } ROWS[] = {
        {3, 9, 0, false},   {3, 9, 11, true},   {3, 9, 11, false}, {3, 9, 0, false},  {3, 9, 11, false},
        {18, 2, 11, false}, {18, 3, 11, true},  {18, 4, 11, true}, {18, 3, 0, true},  {3, 9, 11, true},
        {17, 3, 11, false}, {19, 3, 11, false}, {18, 0, 12, true}, {3, 3, 12, false},
    };
    static uint8_t frame[MPB_INTRODUCTION_BYTES + 9];
    struct mpb_connection c = {.fd = 77};
    uint32_t bytes = 5, told = 0;
    CHECK(mpb_connection_take_introduction(&c, &bytes) == NULL && bytes == 0);
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        mpb_put_be16(frame, ROWS[i].key);
        mpb_put_be16(frame + 2, ROWS[i].version);
        CHECK_EQ(mpb_connection_introduces(&c, frame, 20, ROWS[i].hash), ROWS[i].told);
        CHECK_EQ(c.introductions, told += ROWS[i].told);
    }
    for (uint32_t length = MPB_INTRODUCTION_BYTES - 1; length <= MPB_INTRODUCTION_BYTES + 1; length++) {
        CHECK(mpb_connection_introduces(&c, frame, length, 1000 + length));
        uint8_t *taken = mpb_connection_take_introduction(&c, &bytes);
        CHECK_EQ(bytes, length < MPB_INTRODUCTION_BYTES ? length : MPB_INTRODUCTION_BYTES);
        CHECK(memcmp(taken, frame, bytes) == 0 && c.introduction == NULL);
        free(taken);
        told++;
    }
    for (uint32_t n = told; n < MPB_MAX_INTRODUCTIONS; n++)
        CHECK(mpb_connection_introduces(&c, frame, 20, 5000 + n));
    CHECK(!mpb_connection_introduces(&c, frame, 20, 7000));
    CHECK_EQ(c.introductions, MPB_MAX_INTRODUCTIONS);
    CHECK_EQ(c.client_hash, 7000);
    mpb_connection_close(&c);
    CHECK(c.introduction == NULL);
}

/* ------------------------------------------------------------------ sending */
static uint64_t finished(void)
{
    return mpb_load_relaxed(&d.w.core.counters[d.p[0].slot].value[MPB_C_REQUESTS_FINISHED]);
}

static void check_stream(size_t from, size_t to)
{
    CHECK_EQ(script.stream_bytes, to - from);
    for (size_t i = from; i < to; i++)
        CHECK_EQ(script.stream[i - from], i < 10 ? 'a' : i < 610 ? 'b' : 'c');
}

static void test_what_the_kernel_takes(void)
{
    static const struct {
        int sent[4], calls;
        enum mpb_send told;
        uint32_t left, taken; /* answers, and bytes of the first of them that are gone */
    } ROWS[] = {
        {{620}, 1, MPB_SEND_DONE, 0, 0},      {{-EINTR, 620}, 2, MPB_SEND_DONE, 0, 0},
        {{-EAGAIN}, 1, MPB_SEND_WAITS, 3, 0}, {{1}, 1, MPB_SEND_WAITS, 3, 1},
        {{9}, 1, MPB_SEND_WAITS, 3, 9},       {{10}, 1, MPB_SEND_WAITS, 2, 0},
        {{11}, 1, MPB_SEND_WAITS, 2, 1},      {{609}, 1, MPB_SEND_WAITS, 2, 599},
        {{610}, 1, MPB_SEND_WAITS, 1, 0},     {{619}, 1, MPB_SEND_WAITS, 1, 9},
        {{-EPIPE}, 1, MPB_SEND_LOST, 3, 0},   {{-EINTR, -ECONNRESET}, 2, MPB_SEND_LOST, 3, 0},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_connection c;
        begin_script();
        hold_answers(&c, ANSWERS);
        c.out[ANSWERS] = 5; /* of nobody: it has no bytes */
        mpb_processor_looked(&d.p[0], 4000);
        script.monotonic_ns[0] = 4000;
        script.monotonic_lines = 1;
        memcpy(script.sent, ROWS[i].sent, sizeof ROWS[i].sent);
        script.send_lines = ROWS[i].calls;
        CHECK_EQ(mpb_connection_send(&c, &d.p[0]), ROWS[i].told);
        CHECK_EQ(script.sends, ROWS[i].calls);
        CHECK(script.pieces[0] == 3 && script.wanted[0] == 620);
        CHECK_EQ(c.sent_bytes + mpb_connection_untaken(&c, &d.w.core), 620);
        CHECK_EQ(c.out_count, ROWS[i].left);
        CHECK_EQ(c.out_taken, ROWS[i].taken);
        CHECK_EQ(c.out_started_ns, 4000);
        CHECK_EQ(c.blocked, ROWS[i].told == MPB_SEND_WAITS);
        CHECK_EQ(d.p[0].collected_ns, 0);
        CHECK_EQ(finished(), ANSWERS - ROWS[i].left);
        int last = ROWS[i].sent[ROWS[i].calls - 1];
        CHECK_EQ(c.sent_bytes, last > 0 ? last : 0);
        CHECK_EQ(c.last_active_ns, ROWS[i].told == MPB_SEND_WAITS && last > 0 ? 4000 : 0);
        if (c.blocked) { /* the rest, from where it stopped; its send began when it began */
            size_t gone = last > 0 ? (size_t)last : 0;
            CHECK_EQ(script.stream_bytes, gone);
            script.stream_bytes = 0;
            script.sends = 0;
            script.sent[0] = (int)(620 - gone);
            script.monotonic_ns[0] = 5000;
            CHECK_EQ(mpb_connection_send(&c, &d.p[0]), MPB_SEND_DONE);
            CHECK_EQ(script.pieces[0], ROWS[i].left);
            CHECK_EQ(c.out_started_ns, 4000);
            check_stream(gone, 620);
            CHECK(c.sent_bytes == 620 && mpb_connection_untaken(&c, &d.w.core) == 0);
        }
        CHECK(ROWS[i].told == MPB_SEND_LOST || (finished() == ANSWERS && c.out_count == 0 && !c.blocked));
        drama_close(&d);
    }
}

/* A clock that was read for the answer is good for its send too; a send takes time. */
static void test_when_a_send_begins(void)
{
    for (int known = 0; known < 2; known++) {
        struct mpb_connection c;
        begin_script();
        hold_answers(&c, 1);
        script.monotonic_ns[0] = 4000;
        script.monotonic_lines = 1;
        script.monotonic_reads = 0;
        mpb_processor_looked(&d.p[0], known ? 3500 : 0);
        script.sent[0] = INLINE_BYTES;
        script.send_lines = 1;
        CHECK_EQ(mpb_connection_send(&c, &d.p[0]), MPB_SEND_DONE);
        CHECK_EQ(c.out_started_ns, known ? 3500 : 4000);
        CHECK_EQ(script.monotonic_reads, !known);
        CHECK_EQ(script.pieces[0], 1);
        check_stream(0, INLINE_BYTES);
        CHECK_EQ(d.p[0].collected_ns, 0);
        drama_close(&d);
    }
}

/* With a lane every send is dated, and the reading serves what is collected next. */
static void test_sends_are_dated_for_a_trace(void)
{
    static _Alignas(64) uint8_t memory[sizeof(struct mpb_lane_header) + 8 * MPB_TRACE_BYTES];
    struct mpb_connection c;
    struct mpb_lane lane;
    begin_script();
    CHECK_EQ(mpb_lane_format(memory, sizeof memory, 8, 0, 7), 0);
    CHECK_EQ(mpb_lane_attach(&lane, memory, sizeof memory), 0);
    hold_answers(&c, ANSWERS);
    d.p[0].lane = &lane;
    d.p[0].collected_ns = 0;
    script.monotonic_ns[0] = 64 * 100 + 1; /* of records that began at 1 */
    script.monotonic_ns[1] = 64 * 200 + 1;
    script.monotonic_lines = 2;
    script.monotonic_reads = 0;
    script.sent[0] = 610;
    script.send_lines = 1;
    CHECK_EQ(mpb_connection_send(&c, &d.p[0]), MPB_SEND_WAITS);
    struct mpb_lane_span span = mpb_lane_peek(&lane, 8);
    CHECK_EQ(span.count, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(span.first[i].stage[MPB_STAGE_SEND_START], 100);
        CHECK_EQ(span.first[i].stage[MPB_STAGE_SEND_DONE], 200);
    }
    CHECK_EQ(d.p[0].collected_ns, 64 * 200 + 1);
    d.p[0].lane = NULL;
    drama_close(&d);
}

/* A connection that goes: what is held is sent if it was never begun, everything is settled. */
static void test_giving_up(void)
{
    static const struct {
        bool blocked;
        int sent, calls;
        uint64_t bytes; /* of answers that went whole */
    } ROWS[] = {{false, 620, 1, 620}, {true, 0, 0, 0}, {false, 15, 1, 10}, {false, -EPIPE, 1, 0}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        mpb_atomic64 *sent = &d.w.core.counters[MPB_SLOT_PROCESSORS].value[MPB_C_BYTES_SENT];
        struct mpb_connection c;
        begin_script();
        hold_answers(&c, ANSWERS);
        uint64_t before = mpb_load_relaxed(sent);
        c.blocked = ROWS[i].blocked;
        script.sent[0] = ROWS[i].sent;
        script.send_lines = 1;
        mpb_processor_looked(&d.p[0], 9);
        mpb_connection_give_up(&c, &d.p[0]);
        CHECK_EQ(script.sends, ROWS[i].calls);
        CHECK(c.out_count == 0 && c.out_taken == 0 && !c.blocked);
        CHECK_EQ(finished(), ANSWERS);
        CHECK_EQ(mpb_load_relaxed(sent) - before, ROWS[i].bytes);
        CHECK_EQ(d.p[0].collected_ns, 0);
        mpb_processor_looked(&d.p[0], 0);
        script.monotonic_reads = 0;
        mpb_connection_give_up(&c, &d.p[0]); /* nothing is left to be sent */
        CHECK(d.p[0].collected_ns == 0 && script.monotonic_reads == 0);
        mpb_processor_looked(&d.p[0], 9);
        mpb_connection_give_up(&c, &d.p[0]); /* the next one looks anew all the same */
        CHECK(d.p[0].collected_ns == 0 && script.monotonic_reads == 0);
        drama_close(&d);
    }
    for (uint32_t count = 1; count < ANSWERS; count++) { /* those of this connection alone */
        struct mpb_connection c;
        begin_script();
        hold_answers(&c, ANSWERS);
        c.out_count = count;
        c.blocked = count == 2;
        script.sent[0] = INLINE_BYTES;
        script.send_lines = 1;
        mpb_connection_give_up(&c, &d.p[0]);
        CHECK_EQ(script.sends, count == 1);
        CHECK_EQ(finished(), count);
        drama_close(&d);
    }
}

int main(void)
{
    test_the_clocks_are_compared();
    test_the_clocks_are_compared_again();
    test_what_is_no_arrival();
    test_what_a_receive_leaves();
    test_room_for_bytes();
    test_where_a_frame_ends();
    test_introductions();
    world_open(&d.w, &small_plan);
    test_what_the_kernel_takes();
    test_when_a_send_begins();
    test_sends_are_dated_for_a_trace();
    test_giving_up();
    test_an_end_behind_a_failure();
    test_all_memory_is_given_back();
    test_no_memory();
    world_close(&d.w);
    printf("connection values: %lu checks\n", checks_made);
    return 0;
}
