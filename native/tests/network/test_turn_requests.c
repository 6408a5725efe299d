/* What a turn does with what clients send, with clocks and a kernel that do what a script says: whole frames and parts of one,
 * frames that are refused, no room, whose clock a request has, and when handlers are woken. */
#include "tests/stepping/scripted_calls.h"
#include "tests/request/request_drama.h"
#include "network/network_turn.h"
#include "record/wire.h"
#include <sys/epoll.h>
#include <unistd.h>

enum { FD = 77, MOST = 8, INSIDE = MPB_INLINE_PAYLOAD, ROUND = MPB_RECEIVE_BYTES };

static struct drama d;
static struct mpb_turn turn;
static struct mpb_connection c[MOST];
static uint8_t frames[ROUND];

/* Of the sockets: the second connection has bytes when it is asked for the `readable_at`th time. */
static int polls, readable_at;

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
    CHECK(fd == turn.epoll && most > 0 && timeout_ms == 0);
    if (++polls != readable_at)
        return 0;
    events[0] = (struct epoll_event){.events = EPOLLIN, .data.fd = FD + 1};
    return 1;
}

static void open_turn(void)
{
    polls = readable_at = 0;
    memset(&script, 0, sizeof script);
    drama_open(&d);
    CHECK_EQ(mpb_turn_open(&turn, &d.p[0], epoll_create1(0)), 0);
    turn.max_request_bytes = 9 << 20;
    turn.apis[3] = (struct mpb_api_range){0, 9};
    d.p[0].batching = true;
    for (uint32_t i = 0; i < MOST; i++) {
        c[i] = (struct mpb_connection){.fd = (int)(FD + i), .number = i, .generation = 3};
        CHECK_EQ(mpb_turn_add(&turn, &c[i]), 0);
    }
    for (int n = 0; n < SCRIPT_LINES; n++)
        script.monotonic_ns[n] = 1000 * (n + 1);
    script.monotonic_lines = SCRIPT_LINES;
    script.monotonic_reads = 0;
}

static void close_turn(void)
{
    close(turn.epoll);
    mpb_turn_close(&turn);
    for (uint32_t i = 0; i < MOST; i++)
        mpb_connection_close(&c[i]);
    d.p[0].lane = NULL;
    turn.queued_bytes_limit = 0;
    drama_close(&d);
}

/* So many bytes of a frame of this length and API are in the connection's buffer. */
static void buffer(uint32_t i, int32_t length, int16_t key, uint32_t bytes)
{
    static uint8_t frame[1 << 17];
    mpb_put_be32(frame, (uint32_t)length);
    mpb_put_be16(frame + 4, (uint16_t)key);
    uint64_t first_ns = c[i].first_ns, later_ns = c[i].later_ns;
    CHECK(mpb_connection_preload(&c[i], frame, bytes, 0));
    c[i].first_ns = first_ns;
    c[i].later_ns = later_ns;
    c[i].frame_started_ns = 0;
}

static void receives(int result, const uint8_t *bytes)
{
    script.received[script.receive_lines].result = result;
    script.received[script.receive_lines++].bytes = bytes;
}

static void expect_event(uint32_t at, enum mpb_event_kind kind, uint32_t of, int64_t first, int64_t second)
{
    CHECK(at < turn.event_count && turn.events[at].connection == &c[of]);
    CHECK_EQ(turn.events[at].kind, kind);
    CHECK_EQ(turn.events[at].first, first);
    CHECK_EQ(turn.events[at].second, second);
}

/* ------------------------------------------------------------------ one frame */
/* Not served, no room, a full plane: where the frame is then, and that it is not under way any more. */
static void test_what_becomes_of_a_frame(void)
{
    enum { SERVED, STRANGE, OVER_LIMIT, NO_ENTRY, FULL, PART, WAYS };
    static const struct {
        bool done;
        uint32_t left, events;
        enum mpb_event_kind kind;
        int64_t first, second;
        bool in_flight;
    } ROWS[WAYS] = {[SERVED] = {true, 0, 0, 0, 0, 0, true},
                    [STRANGE] = {false, 24, 1, MPB_EVENT_UNSUPPORTED, 99, 0, false},
                    [OVER_LIMIT] = {false, 24, 1, MPB_EVENT_NO_ROOM, MPB_NO_SPACE, 0, false},
                    [NO_ENTRY] = {false, 24, 1, MPB_EVENT_NO_ROOM, MPB_NO_ENTRY, 0, false},
                    [FULL] = {false, 0, 1, MPB_EVENT_PARKED, 12, 0, true},
                    [PART] = {false, 23, 0, 0, 0, 0, false}};
    for (int way = 0; way < WAYS; way++) {
        open_turn();
        buffer(0, 20, way == STRANGE ? 99 : 3, way == PART ? 23 : 24);
        c[0].frame_started_ns = 9;
        c[0].first_ns = 5;
        for (uint32_t n = 0; n < 12 && way == FULL; n++)
            CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, n, 100), n);
        uint32_t free_count = d.p[0].free_count;
        d.p[0].free_count = way == NO_ENTRY ? 0 : free_count;
        turn.queued_bytes_limit = way == OVER_LIMIT;
        mpb_store_relaxed(&d.w.core.counters[d.p[0].slot].value[MPB_C_QUEUED_BYTES], way == OVER_LIMIT);
        turn.now_ns = 777; /* of another time */
        script.monotonic_reads = 0;
        CHECK_EQ(mpb_turn_submit(&turn, &c[0]), ROWS[way].done);
        CHECK_EQ(mpb_connection_buffered(&c[0]), ROWS[way].left);
        CHECK_EQ(c[0].in_flight, ROWS[way].in_flight);
        CHECK_EQ(c[0].frame_started_ns, way == PART ? 9 : 0);
        CHECK_EQ(c[0].last_active_ns, ROWS[way].in_flight ? 1000 : 0);
        CHECK_EQ(turn.event_count, ROWS[way].events);
        if (ROWS[way].events)
            expect_event(0, ROWS[way].kind, 0, ROWS[way].first, ROWS[way].second);
        d.p[0].free_count = way == NO_ENTRY ? free_count : d.p[0].free_count;
        mpb_store_relaxed(&d.w.core.counters[d.p[0].slot].value[MPB_C_QUEUED_BYTES], 0);
        close_turn();
    }
}

/* It takes its own bytes, and leaves the next one's. */
static void test_a_frame_before_another(void)
{
    const uint8_t *frame;
    int32_t length;
    open_turn();
    buffer(0, 20, 3, 24);
    buffer(0, 33, 3, 37);
    CHECK(mpb_turn_submit(&turn, &c[0]));
    CHECK_EQ(mpb_connection_buffered(&c[0]), 37);
    CHECK_EQ(mpb_connection_frame(&c[0], 1000, &frame, &length), MPB_FRAME_WHOLE);
    CHECK_EQ(length, 33);
    close_turn();
}

/* What a request's record says of when it came, if there are records. */
static void test_whose_time_a_request_has(void)
{
    static _Alignas(64) uint8_t memory[sizeof(struct mpb_lane_header) + 8 * MPB_TRACE_BYTES];
    for (int traced = 0; traced < 2; traced++) {
        struct mpb_lane lane;
        memset(memory, 0, sizeof memory);
        open_turn();
        CHECK_EQ(mpb_lane_format(memory, sizeof memory, 8, 0, 7), 0);
        CHECK_EQ(mpb_lane_attach(&lane, memory, sizeof memory), 0);
        d.p[0].lane = traced ? &lane : NULL;
        buffer(0, 20, 3, 24);
        c[0].first_ns = 640;
        c[0].later_ns = 704;
        c[0].first_arrival_ns = 576;
        c[0].out_count = 2;
        CHECK(mpb_turn_submit(&turn, &c[0]));
        const struct mpb_trace *t = mpb_trace_of(d.w.core.entries[0].trace);
        CHECK_EQ(t->t0_ns, traced ? 640 : 0);
        if (traced) {
            CHECK_EQ(t->rx_wait, 1);
            CHECK_EQ(t->stage[MPB_STAGE_FRAME_DONE], (1000 - 640) / 64);
            CHECK(t->inflight == 2 && t->client_hash == 0);
        }
        CHECK_EQ(c[0].first_ns, 704);
        c[0].out_count = 0;
        close_turn();
    }
}

/* ------------------------------------------------------------------ clocks */
/* Steps that follow each other closely share a reading, two at most, and only behind a frame that is copied quickly. */
static void test_which_requests_share_a_reading(void)
{
    static const struct {
        int32_t length;
        uint64_t told_ns[4];
        int reads;
    } ROWS[] = {{20, {1000, 1000, 2000, 2000}, 2},
                {INSIDE, {1000, 1000, 2000, 2000}, 2},
                {INSIDE + 1, {1000, 2000, 3000, 4000}, 4}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_turn();
        for (uint32_t n = 0; n < 4; n++) {
            buffer(n, ROWS[i].length, 3, (uint32_t)ROWS[i].length + 4);
            mpb_turn_schedule(&turn, &c[n]);
        }
        turn.now_ns = 777; /* of another time */
        mpb_turn_receive(&turn, true);
        CHECK_EQ(turn.event_count, 0);
        CHECK_EQ(script.monotonic_reads, ROWS[i].reads);
        for (uint32_t n = 0; n < 4; n++)
            CHECK_EQ(c[n].last_active_ns, ROWS[i].told_ns[n]);
        close_turn();
    }
    open_turn(); /* to receive takes time: the second one's bytes came by the first one's clock, its frame was done later */
    buffer(0, 20, 3, 24);
    mpb_put_be32(frames, 20);
    mpb_put_be16(frames + 4, 3);
    receives(24, frames);
    c[1].readable = true;
    mpb_turn_schedule(&turn, &c[0]);
    mpb_turn_schedule(&turn, &c[1]);
    mpb_turn_receive(&turn, true);
    CHECK(c[0].last_active_ns == 1000 && c[1].first_ns == 1000 && c[1].last_active_ns == 2000);
    CHECK_EQ(script.monotonic_reads, 2);
    close_turn();
}

/* ------------------------------------------------------------------ parts of a frame */
static void test_what_is_read(void)
{
    enum { NOTHING = -9, KB64 = ROUND };
    static const struct {
        int32_t length; /* announced in the buffer, which has so many bytes of it */
        uint32_t buffered;
        uint64_t started_ns;
        bool readable;
        int result; /* of the receive; NOTHING: there is none */
        uint64_t started_after_ns, seen_after;
        uint32_t scheduled, events;
        enum mpb_event_kind kind;
        int64_t first;
        bool in_flight;
    } ROWS[] = {
        {20, 0, 0, false, NOTHING, 0, 9, 0, 0, 0, 0, false},
        {20, 1, 0, false, NOTHING, 1000, 0, 0, 0, 0, 0, false},
        {20, 3, 7, false, NOTHING, 7, 9, 0, 0, 0, 0, false},
        {20, 3, 1, false, NOTHING, 1, 9, 0, 0, 0, 0, false},
        {20, 3, 0, true, -EAGAIN, 2000, 0, 0, 0, 0, 0, false},
        {20, 0, 0, true, -EAGAIN, 0, 9, 0, 0, 0, 0, false},
        {20, 3, 0, true, 0, 0, 9, 0, 1, MPB_EVENT_CLOSE, 0, false},
        {20, 3, 0, true, -EPIPE, 0, 9, 0, 1, MPB_EVENT_CLOSE, 0, false},
        {20, 24, 7, true, NOTHING, 0, 9, 0, 0, 0, 0, true},
        {20, 24, 7, false, NOTHING, 0, 9, 0, 0, 0, 0, true},
        {7, 4, 7, true, NOTHING, 7, 9, 0, 1, MPB_EVENT_INVALID, 7, false},
        {-5, 4, 7, false, NOTHING, 7, 9, 0, 1, MPB_EVENT_INVALID, -5, false},
        {(9 << 20) + 1, 4, 7, false, NOTHING, 7, 9, 0, 1, MPB_EVENT_INVALID, (9 << 20) + 1, false},
        {9 << 20, 4, 7, true, KB64, 7, 9, 1, 0, 0, 0, false},
        {200000, 4, 7, true, KB64, 7, 9, 0, 1, MPB_EVENT_LARGE, 200000, false},
        {200000, 30000, 7, false, NOTHING, 7, 9, 0, 1, MPB_EVENT_LARGE, 200000, false},
        {200000, 20000, 7, false, NOTHING, 7, 9, 0, 0, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_turn();
        if (ROWS[i].buffered > 0)
            buffer(0, ROWS[i].length, 3, ROWS[i].buffered);
        c[0].frame_started_ns = ROWS[i].started_ns;
        c[0].frame_bytes_seen = 9;
        c[0].readable = ROWS[i].readable;
        if (ROWS[i].result != NOTHING)
            receives(ROWS[i].result, NULL);
        mpb_turn_schedule(&turn, &c[0]);
        mpb_turn_receive(&turn, true);
        CHECK_EQ(script.receives, ROWS[i].result != NOTHING);
        CHECK_EQ(c[0].frame_started_ns, ROWS[i].started_after_ns);
        CHECK_EQ(c[0].frame_bytes_seen, ROWS[i].seen_after);
        CHECK_EQ(turn.scheduled.count, ROWS[i].scheduled);
        CHECK_EQ(c[0].scheduled, ROWS[i].scheduled == 1);
        CHECK(turn.current.count == 0 && c[0].in_flight == ROWS[i].in_flight);
        CHECK_EQ(turn.event_count, ROWS[i].events);
        if (ROWS[i].events)
            expect_event(0, ROWS[i].kind, 0, ROWS[i].first, 0);
        close_turn();
    }
}

/* ------------------------------------------------------------------ a turn's requests */
static void test_who_is_read(void)
{
    enum { PLAIN, BUSY, WAITING, LARGE };
    for (int may_read = 0; may_read < 2; may_read++) {
        open_turn();
        for (uint32_t i = 0; i < 4; i++) {
            buffer(i, 20, 3, 24);
            mpb_turn_schedule(&turn, &c[i]);
        }
        c[BUSY].in_flight = c[WAITING].waits = c[LARGE].large = true;
        mpb_turn_receive(&turn, may_read);
        CHECK_EQ(turn.event_count, 1);
        expect_event(0, MPB_EVENT_LARGE, LARGE, 0, 0);
        CHECK_EQ(c[PLAIN].in_flight, may_read);
        CHECK_EQ(mpb_connection_buffered(&c[BUSY]), 24);
        CHECK_EQ(turn.scheduled.count, may_read ? 0 : 2); /* all but those that wait or were read */
        CHECK(may_read || (turn.scheduled.at[0] == &c[PLAIN] && turn.scheduled.at[1] == &c[BUSY]));
        c[BUSY].in_flight = c[LARGE].large = false;
        close_turn();
    }
}

/* Behind one that found no room, or that waits for it, nobody else is read in this turn. */
static void test_no_room_for_the_others(void)
{
    enum { NO_ENTRY, FULL, STRANGE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        open_turn();
        for (uint32_t n = 0; n < 12 && way == FULL; n++)
            CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, n, 100), n);
        uint32_t free_count = d.p[0].free_count;
        for (uint32_t i = 0; i < 3; i++) {
            buffer(i, 20, i == 0 && way == STRANGE ? 99 : 3, 24);
            mpb_turn_schedule(&turn, &c[i]);
        }
        d.p[0].free_count = way == NO_ENTRY ? 0 : free_count;
        mpb_turn_receive(&turn, true);
        CHECK_EQ(turn.event_count, 1);
        CHECK_EQ(turn.scheduled.count, way == STRANGE ? 0 : 2);
        CHECK(c[1].in_flight == (way == STRANGE) && c[2].in_flight == (way == STRANGE));
        d.p[0].free_count = way == NO_ENTRY ? free_count : d.p[0].free_count;
        close_turn();
    }
}

static void test_what_is_work(void)
{
    open_turn();
    CHECK(!mpb_turn_has_work(&turn, true) && !mpb_turn_has_work(&turn, false));
    mpb_turn_schedule(&turn, &c[0]);
    CHECK(mpb_turn_has_work(&turn, true) && !mpb_turn_has_work(&turn, false));
    c[1].large = true;
    CHECK(!mpb_turn_has_work(&turn, false)); /* it is not scheduled */
    mpb_turn_schedule(&turn, &c[1]);
    CHECK(mpb_turn_has_work(&turn, true) && mpb_turn_has_work(&turn, false));
    close_turn();
    open_turn(); /* the first one alone */
    c[0].large = true;
    mpb_turn_schedule(&turn, &c[0]);
    CHECK(mpb_turn_has_work(&turn, false));
    close_turn();
}

/* ------------------------------------------------------------------ whole turns */
/* A connection that sends a large frame keeps the processor busy: one receive in every turn. */
static void keep_busy(int turns)
{
    buffer(MOST - 1, 9 << 20, 3, 4);
    c[MOST - 1].readable = true;
    mpb_turn_schedule(&turn, &c[MOST - 1]);
    for (int n = 0; n < turns; n++)
        receives(ROUND, NULL);
}

static bool sleeps(uint32_t handler) { return atomic_load(&d.w.core.doorbells->sleepers) >> handler & 1; }

static void test_how_many_turns_are_made(void)
{
    static const struct {
        uint32_t turns;
        int busy;
        uint64_t until_ns;
        uint32_t left;
        int receives;
    } ROWS[] = {{0, 1, UINT64_MAX, 0, 0},
                {1, 0, UINT64_MAX, 0, 0},
                {5, 0, UINT64_MAX, 4, 0},
                {3, 9, UINT64_MAX, 0, 3},
                {3, 9, 0, 0, 1}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_turn();
        if (ROWS[i].busy)
            keep_busy(ROWS[i].busy);
        CHECK_EQ(mpb_turn_run(&turn, ROWS[i].turns, ROWS[i].until_ns, 9), ROWS[i].left);
        CHECK_EQ(script.receives, ROWS[i].receives);
        uint64_t beat = mpb_load_relaxed(&d.w.core.processes[d.p[0].slot].heartbeat_ns);
        CHECK_EQ(beat != 0, ROWS[i].turns > 0);
        close_turn();
    }
    for (int exact = 0; exact < 2;
         exact++) { /* the first turn's last reading is 3,000: another one if that is not late */
        open_turn();
        keep_busy(2);
        CHECK_EQ(mpb_turn_run(&turn, 2, exact ? 3000 : 3001, 9), 0);
        CHECK_EQ(script.receives, exact ? 1 : 2);
        CHECK_EQ(mpb_load_relaxed(&d.w.core.processes[d.p[0].slot].heartbeat_ns), exact ? 3000 : 5000);
        close_turn();
    }
    open_turn(); /* what is not ordinary ends it */
    buffer(0, 7, 3, 4);
    mpb_turn_schedule(&turn, &c[0]);
    CHECK_EQ(mpb_turn_run(&turn, 5, UINT64_MAX, 9), 0);
    CHECK_EQ(turn.event_count, 1);
    mpb_turn_schedule(&turn, &c[1]);
    CHECK_EQ(mpb_turn_run(&turn, 5, UINT64_MAX, 9), 0); /* and nothing is done before it is looked at */
    CHECK(turn.scheduled.count == 1 && turn.event_count == 1);
    close_turn();
}

/* A busy processor wakes a handler for four requests together, or after three turns; for control requests at once. */
static void test_when_handlers_are_woken(void)
{
    static const struct {
        uint32_t requests, turns;
        bool control, busy, woken;
    } ROWS[] = {{1, 1, false, true, false}, {1, 2, false, true, false}, {1, 3, false, true, true},
                {3, 1, false, true, false}, {4, 1, false, true, true},  {1, 1, true, true, true},
                {1, 1, false, false, true}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_turn();
        if (ROWS[i].busy)
            keep_busy((int)ROWS[i].turns);
        turn.plane = ROWS[i].control ? MPB_PLANE_CONTROL : MPB_PLANE_DATA;
        for (uint32_t n = 0; n < ROWS[i].requests; n++) {
            buffer(n, 20, 3, 24);
            mpb_turn_schedule(&turn, &c[n]);
        }
        for (int n = 0; n < SCRIPT_LINES; n++) /* long after any handler showed itself */
            script.monotonic_ns[n] = 1000000000ll + n;
        mpb_handler_announce(&d.w.core, 1);
        mpb_turn_run(&turn, ROWS[i].turns, UINT64_MAX, 9);
        CHECK_EQ(!sleeps(1), ROWS[i].woken);
        CHECK_EQ(turn.event_count, 0);
        mpb_handler_withdraw(&d.w.core, 1);
        close_turn();
    }
}

/* Woken at the end of the third turn: it counts anew from there, so that a request of the fourth waits longer than two. */
static void test_turns_are_counted_anew(void)
{
    open_turn();
    keep_busy(3);
    buffer(0, 20, 3, 24);
    mpb_turn_schedule(&turn, &c[0]);
    readable_at = 3;
    mpb_put_be32(frames, 20);
    mpb_put_be16(frames + 4, 3);
    receives(ROUND, NULL);
    receives(24, frames);
    receives(ROUND, NULL);
    mpb_turn_run(&turn, 5, UINT64_MAX, 9);
    CHECK(polls == 5 && script.receives == 6 && turn.event_count == 0);
    CHECK(c[1].in_flight && !c[1].readable);
    CHECK_EQ(d.p[0].unrung[MPB_PLANE_DATA], 1);
    close_turn();
}

int main(void)
{
    static const struct world_plan PLAN = {2, 4, 0, 16, 12, 12, 2, 64 << 10, 256 << 10};
    world_open(&d.w, &PLAN);
    test_what_becomes_of_a_frame();
    test_a_frame_before_another();
    test_whose_time_a_request_has();
    test_which_requests_share_a_reading();
    test_what_is_read();
    test_who_is_read();
    test_no_room_for_the_others();
    test_what_is_work();
    test_how_many_turns_are_made();
    test_when_handlers_are_woken();
    test_turns_are_counted_anew();
    world_close(&d.w);
    printf("turn requests: %lu checks\n", checks_made);
    return 0;
}
