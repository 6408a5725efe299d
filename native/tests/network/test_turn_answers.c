/* What a turn does with an answer, and with what the sockets say, on connections whose kernel does what a script says: sent at
 * once, held, closed behind it, lost; who is read again, and when. */
#include "tests/stepping/scripted_calls.h"
#include "tests/request/request_drama.h"
#include "network/network_turn.h"
#include "record/wire.h"
#include "shm/waits.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FD = 77, NUMBER = 2, FRAME_BYTES = 12, ANSWER = 30, LONG_ANSWER = 600 };

static struct drama d;
static struct mpb_turn turn;
static struct mpb_connection c;
static struct mpb_lane lane;
static _Alignas(64) uint8_t lane_memory[sizeof(struct mpb_lane_header) + 64 * MPB_TRACE_BYTES];

/* As the kernel's, but it notes what the processor's row says meanwhile. */
static uint32_t wait_seen;

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
    wait_seen = mpb_load_acquire(&d.w.core.processes[d.p[0].slot].wait);
    return epoll_pwait(fd, events, most, timeout_ms, NULL);
}

static void open_turn(bool traced)
{
    memset(&script, 0, sizeof script);
    memset(lane_memory, 0, sizeof lane_memory);
    drama_open(&d);
    CHECK_EQ(mpb_lane_format(lane_memory, sizeof lane_memory, 64, 0, 7), 0);
    CHECK_EQ(mpb_lane_attach(&lane, lane_memory, sizeof lane_memory), 0);
    d.p[0].lane = traced ? &lane : NULL;
    CHECK_EQ(mpb_turn_open(&turn, &d.p[0], epoll_create1(0)), 0);
    turn.max_request_bytes = 1 << 20;
    turn.apis[3] = (struct mpb_api_range){0, 9};
    c = (struct mpb_connection){.fd = FD, .number = NUMBER, .generation = 3, .first_ns = 64, .later_ns = 64};
    CHECK_EQ(mpb_turn_add(&turn, &c), 0);
}

static void close_turn(void)
{
    c.out_count = 0;
    close(turn.epoll);
    mpb_turn_close(&turn);
    mpb_connection_close(&c);
    d.p[0].lane = NULL;
    drama_close(&d);
}

static uint64_t counted(uint32_t counter) { return mpb_load_relaxed(&d.w.core.counters[d.p[0].slot].value[counter]); }

/* So many bytes of whole frames are received. */
static void receive_bytes(uint32_t bytes)
{
    static const uint8_t FRAME[4 + FRAME_BYTES] = {0, 0, 0, FRAME_BYTES, 0, 3, 0, 0, 0, 0, 0, 9, 0xff, 0xff};
    for (uint32_t at = 0; at < bytes; at += sizeof FRAME) {
        uint32_t piece = bytes - at < sizeof FRAME ? bytes - at : (uint32_t)sizeof FRAME;
        CHECK(mpb_connection_preload(&c, FRAME, piece, 64));
    }
}

/* A request of it is in the broker and its answer is there; `behind` more bytes were received since. */
static void make_answer(uint32_t kind, uint32_t bytes, uint32_t behind)
{
    uint8_t answer[LONG_ANSWER];
    memset(answer, 'x', sizeof answer);
    receive_bytes(4 + FRAME_BYTES);
    CHECK(mpb_turn_submit(&turn, &c));
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    CHECK(entry >= 0);
    if (bytes == 0)
        mpb_answer_nothing(&d.h[0], (uint32_t)entry, kind);
    else
        CHECK(mpb_answer_bytes(&d.h[0], (uint32_t)entry, kind, answer, bytes));
    receive_bytes(behind);
}

static void expect_event(uint32_t at, enum mpb_event_kind kind, const struct mpb_connection *of, int64_t first)
{
    CHECK(at < turn.event_count && turn.events[at].connection == of);
    CHECK_EQ(turn.events[at].kind, kind);
    CHECK_EQ(turn.events[at].first, first);
    CHECK_EQ(turn.events[at].second, 0);
}

/* ------------------------------------------------------------------ one answer */
static void test_what_becomes_of_an_answer(void)
{
    enum { WHOLE = 4 + FRAME_BYTES, NONE = MPB_ANSWER_NONE, PLAIN = MPB_ANSWER_INLINE, CLOSE = MPB_ANSWER_CLOSE };
    static const struct {
        uint32_t kind, bytes, behind;
        bool readable, blocked;
        int sent; /* what the kernel takes */
        uint32_t sends /* how often it is asked */, finished, scheduled, held;
        int closes; /* -1: no event, else its first value */
        bool mute, unmutes_later;
    } ROWS[] = {
        {NONE, 0, 0, false, false, 0, 0, 1, 0, 0, -1, false, false},
        {NONE, 0, 0, true, false, 0, 0, 1, 1, 0, -1, false, false},
        {NONE, 0, 3, false, false, 0, 0, 1, 1, 0, -1, false, false},
        {NONE, 0, WHOLE, false, false, 0, 0, 1, 1, 0, -1, false, false},
        {CLOSE, 0, WHOLE, true, false, 0, 0, 1, 0, 0, 1, true, false},
        {PLAIN, ANSWER, 0, false, false, ANSWER, 1, 1, 0, 0, -1, false, false},
        {PLAIN, ANSWER, 0, true, false, ANSWER, 1, 1, 1, 0, -1, false, false},
        {PLAIN, ANSWER, WHOLE - 1, false, false, ANSWER, 1, 1, 1, 0, -1, false, false},
        {PLAIN, ANSWER, WHOLE, false, false, 0, 0, 0, 1, 1, -1, false, false},
        {PLAIN, ANSWER, WHOLE, false, true, 0, 0, 0, 0, 0, -1, true, true},
        {PLAIN, LONG_ANSWER, WHOLE, false, false, LONG_ANSWER, 1, 1, 1, 0, -1, false, false},
        {PLAIN, ANSWER, 0, true, false, 1, 1, 0, 0, 0, -1, true, true},
        {PLAIN, ANSWER, 0, true, false, -EAGAIN, 1, 0, 0, 0, -1, true, true},
        {PLAIN, ANSWER, 0, true, false, -EPIPE, 1, 0, 0, 0, 0, true, true},
        {CLOSE, ANSWER, WHOLE, true, false, ANSWER, 1, 1, 0, 0, 1, true, false},
        {CLOSE, ANSWER, 0, true, false, 1, 1, 0, 0, 0, -1, true, false},
        {CLOSE, ANSWER, 0, true, false, -EPIPE, 1, 0, 0, 0, 0, true, false},
        {CLOSE, ANSWER, 0, true, true, 0, 0, 0, 0, 0, -1, true, false},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_turn(false);
        make_answer(ROWS[i].kind, ROWS[i].bytes, ROWS[i].behind);
        c.readable = ROWS[i].readable;
        c.blocked = ROWS[i].blocked;
        script.sent[0] = ROWS[i].sent;
        script.send_lines = 1;
        uint64_t finished = counted(MPB_C_REQUESTS_FINISHED);
        d.p[0].collected_ns = 5;
        CHECK_EQ(mpb_turn_answer(&turn, 1), 1);
        CHECK_EQ(d.p[0].collected_ns, 0);
        CHECK_EQ(script.sends, ROWS[i].sends);
        CHECK_EQ(counted(MPB_C_REQUESTS_FINISHED) - finished, ROWS[i].finished);
        CHECK_EQ(c.out_count, ROWS[i].finished == 1 ? 0 : 1);
        CHECK_EQ(turn.scheduled.count, ROWS[i].scheduled);
        CHECK_EQ(turn.holding.count, ROWS[i].held);
        CHECK_EQ(c.holding, ROWS[i].held == 1);
        CHECK_EQ(c.in_flight, ROWS[i].mute);
        CHECK_EQ(c.unmute_after_send, ROWS[i].unmutes_later);
        CHECK_EQ(c.close_after_send, ROWS[i].kind == CLOSE && ROWS[i].bytes > 0);
        CHECK_EQ(turn.event_count, ROWS[i].closes >= 0);
        if (ROWS[i].closes >= 0)
            expect_event(0, MPB_EVENT_CLOSE, &c, ROWS[i].closes);
        close_turn();
    }
}

/* As long as more requests wait behind them: eight at most, then they go together, and the list has it once. */
static void test_how_many_are_held(void)
{
    open_turn(false);
    for (uint32_t n = 1; n <= MPB_MAX_HELD; n++) {
        make_answer(MPB_ANSWER_INLINE, ANSWER, 4 + FRAME_BYTES);
        script.sent[0] = MPB_MAX_HELD * ANSWER;
        script.send_lines = 1;
        CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
        CHECK_EQ(script.sends, n == MPB_MAX_HELD);
        CHECK_EQ(c.out_count, n < MPB_MAX_HELD ? n : 0);
        CHECK_EQ(turn.holding.count, 1);
        CHECK(!c.in_flight);
        mpb_connection_take(&c, 4 + FRAME_BYTES);
    }
    close_turn();
}

/* More than a connection can have under way: cannot be, and would end it. */
static void test_one_answer_too_many(void)
{
    open_turn(true);
    make_answer(MPB_ANSWER_INLINE, ANSWER, 0);
    uint64_t sent = counted(MPB_C_BYTES_SENT), finished = counted(MPB_C_REQUESTS_FINISHED);
    c.out_count = MPB_MAX_OUT;
    CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
    CHECK(c.out_count == MPB_MAX_OUT && script.sends == 0 && turn.event_count == 1);
    expect_event(0, MPB_EVENT_CLOSE, &c, 0);
    CHECK(counted(MPB_C_BYTES_SENT) == sent && counted(MPB_C_REQUESTS_FINISHED) == finished + 1);
    const struct mpb_trace *t = mpb_lane_peek(&lane, 1).first;
    CHECK_EQ(mpb_lane_read_counters(&lane).written, 1);
    CHECK((t->flags & MPB_TF_ABORTED) && t->stage[MPB_STAGE_SEND_START] == MPB_TRACE_NOT_REACHED);
    close_turn();
}

/* Of a connection that is gone, of its successor with the same number, and of a number that there never was. */
static void test_answers_of_nobody(void)
{
    static const struct {
        uint32_t number, generation;
    } ROWS[] = {{NUMBER, 4}, {NUMBER + 1, 3}, {1u << 30, 3}, {UINT32_MAX, 3}};
    for (size_t i = 0; i <= sizeof ROWS / sizeof *ROWS; i++) {
        open_turn(true);
        make_answer(MPB_ANSWER_INLINE, ANSWER, 0);
        struct mpb_entry *entry = &d.w.core.entries[0];
        uint32_t places = turn.by_number.capacity;
        if (i == sizeof ROWS / sizeof *ROWS) { /* the place behind the last, in which something stands by chance */
            turn.by_number.at = realloc(turn.by_number.at, (places + 1) * sizeof *turn.by_number.at);
            turn.by_number.at[places] = &c;
            entry->connection = places;
        } else {
            entry->connection = ROWS[i].number;
            entry->connection_generation = ROWS[i].generation;
        }
        uint64_t sent = counted(MPB_C_BYTES_SENT), finished = counted(MPB_C_REQUESTS_FINISHED);
        CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
        CHECK(turn.event_count == 1 && script.sends == 0 && c.out_count == 0 && c.in_flight);
        expect_event(0, MPB_EVENT_STRAY, NULL, 0);
        CHECK(counted(MPB_C_BYTES_SENT) == sent && counted(MPB_C_REQUESTS_FINISHED) == finished + 1);
        const struct mpb_trace *t = mpb_lane_peek(&lane, 1).first;
        CHECK((t->flags & MPB_TF_ABORTED) && t->stage[MPB_STAGE_SEND_START] == MPB_TRACE_NOT_REACHED);
        close_turn();
    }
}

static void test_as_many_as_are_asked_for(void)
{
    for (uint32_t limit = 0; limit < 4; limit++) {
        open_turn(false);
        for (int n = 0; n < 2; n++)
            make_answer(MPB_ANSWER_NONE, 0, 0);
        CHECK_EQ(mpb_turn_answer(&turn, limit), limit < 2 ? limit : 2);
        CHECK_EQ(mpb_turn_answer(&turn, 9), limit < 2 ? 2 - limit : 0);
        close_turn();
    }
}

/* ------------------------------------------------------------------ the end of a turn */
/* Held for four turns, or until the processor sleeps; what waits for the socket is not tried. */
static void test_when_held_answers_go(void)
{
    for (int way = 0; way < 3; way++) { /* turns alone; it sleeps; the socket has no room */
        open_turn(false);
        mpb_turn_end(&turn, true); /* nothing is held: such turns do not count */
        CHECK_EQ(turn.held_turns, 0);
        make_answer(MPB_ANSWER_INLINE, ANSWER, 4 + FRAME_BYTES);
        CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
        CHECK_EQ(turn.holding.count, 1);
        c.blocked = way == 2;
        script.sent[0] = ANSWER;
        script.send_lines = 1;
        for (uint32_t n = 1; n < MPB_MAX_HELD_TURNS && way != 1; n++) {
            mpb_turn_end(&turn, false);
            CHECK(script.sends == 0 && turn.holding.count == 1 && turn.held_turns == n);
        }
        d.p[0].collected_ns = 5;
        mpb_turn_end(&turn, way == 1);
        CHECK_EQ(script.sends, way != 2);
        CHECK(turn.holding.count == 0 && turn.held_turns == 0 && !c.holding && d.p[0].collected_ns == 0);
        CHECK_EQ(c.out_count, way == 2);
        close_turn();
    }
}

/* All of it went with another answer meanwhile: nothing is left to do, and nothing to be told. */
static void test_held_answers_that_are_gone(void)
{
    open_turn(false);
    make_answer(MPB_ANSWER_INLINE, ANSWER, 4 + FRAME_BYTES);
    CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
    CHECK_EQ(turn.holding.count, 1);
    c.out_count = 0;
    c.close_after_send = true;
    mpb_turn_end(&turn, true);
    CHECK(turn.event_count == 0 && turn.holding.count == 0 && !c.holding);
    close_turn();
}

/* ------------------------------------------------------------------ sockets */
/* The connection's descriptor is an eventfd here, which may always be written; `what` is what the kernel says of it. */
static void poll_for(uint32_t what)
{
    int fds[2], bell = eventfd(1, EFD_NONBLOCK);
    struct epoll_event event = {.events = what & (EPOLLIN | EPOLLOUT), .data.fd = FD};
    CHECK(pipe(fds) == 0);
    close(fds[1]);
    int fd = what & EPOLLHUP ? fds[0] : bell;
    CHECK_EQ(epoll_ctl(turn.epoll, EPOLL_CTL_ADD, fd, &event), 0);
    CHECK(mpb_turn_poll(&turn, 0));
    CHECK_EQ(epoll_ctl(turn.epoll, EPOLL_CTL_DEL, fd, NULL), 0);
    close(fds[0]);
    close(bell);
}

/* Nothing was there, or a descriptor that no place is for: no failure, whatever an earlier one left in errno. */
static void test_a_poll_that_finds_nobody(void)
{
    open_turn(false);
    errno = EINTR;
    CHECK(mpb_turn_poll(&turn, 0));
    uint32_t places = turn.by_fd.capacity; /* behind the last place something stands by chance */
    turn.by_fd.at = realloc(turn.by_fd.at, (places + 1) * sizeof *turn.by_fd.at);
    turn.by_fd.at[places] = &c;
    int other = eventfd(1, EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = (int)places};
    CHECK_EQ(epoll_ctl(turn.epoll, EPOLL_CTL_ADD, other, &event), 0);
    CHECK(mpb_turn_poll(&turn, 0));
    CHECK(!c.readable && turn.event_count == 1);
    CHECK_EQ(turn.events[0].kind, MPB_EVENT_DESCRIPTOR);
    CHECK_EQ(turn.events[0].first, places);
    close(other);
    close_turn();
}

/* A turn that had an answer is followed by another one; an answer that is not ordinary ends it before anybody is read. */
static void test_turns_with_answers(void)
{
    open_turn(false);
    make_answer(MPB_ANSWER_NONE, 0, 0);
    CHECK_EQ(mpb_turn_run(&turn, 5, UINT64_MAX, 9), 3);
    close_turn();
    open_turn(false);
    make_answer(MPB_ANSWER_INLINE, ANSWER, 4 + FRAME_BYTES); /* held, until nothing more is to be done */
    script.sent[0] = ANSWER;
    script.send_lines = 1;
    CHECK_EQ(mpb_turn_run(&turn, 5, UINT64_MAX, 9), 3);
    CHECK(script.sends == 1 && c.out_count == 0 && c.in_flight);
    close_turn();
    open_turn(false);
    make_answer(MPB_ANSWER_INLINE, ANSWER, 0);
    d.w.core.entries[0].connection_generation = 99;
    receive_bytes(4 + FRAME_BYTES);
    c.in_flight = c.scheduled = false;
    mpb_turn_schedule(&turn, &c);
    CHECK_EQ(mpb_turn_run(&turn, 5, UINT64_MAX, 9), 0);
    CHECK(turn.event_count == 1 && turn.scheduled.count == 1 && mpb_connection_buffered(&c) == 4 + FRAME_BYTES);
    expect_event(0, MPB_EVENT_STRAY, NULL, 0);
    close_turn();
}

static void test_what_sockets_say(void)
{
    static const struct {
        uint32_t what;
        bool in_flight, readable, hung_up;
        uint32_t scheduled;
    } ROWS[] = {{EPOLLOUT, false, false, false, 0}, {EPOLLIN, false, true, false, 1},
                {EPOLLIN, true, true, false, 0},    {EPOLLHUP, false, true, true, 1},
                {EPOLLHUP, true, true, true, 0},    {EPOLLIN | EPOLLOUT, false, true, false, 1}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_turn(false);
        c.in_flight = ROWS[i].in_flight;
        d.p[0].collected_ns = 5;
        poll_for(ROWS[i].what);
        CHECK_EQ(c.readable, ROWS[i].readable);
        CHECK_EQ(c.hung_up, ROWS[i].hung_up);
        CHECK_EQ(turn.scheduled.count, ROWS[i].scheduled);
        CHECK(turn.event_count == 0 && script.sends == 0 && d.p[0].collected_ns == 5);
        poll_for(EPOLLIN); /* once it hung up, that stays */
        CHECK_EQ(c.hung_up, ROWS[i].hung_up);
        close_turn();
    }
}

/* The rest goes when the kernel has room; then the connection is read again, or closed. */
static void test_the_rest_of_an_answer(void)
{
    static const struct {
        uint32_t kind;
        int second;
        int closes;
        uint32_t scheduled, finished;
        bool mute;
    } ROWS[] = {{MPB_ANSWER_INLINE, ANSWER - 10, -1, 1, 1, false},
                {MPB_ANSWER_INLINE, 5, -1, 0, 0, true},
                {MPB_ANSWER_INLINE, -EPIPE, 0, 0, 0, true},
                {MPB_ANSWER_CLOSE, ANSWER - 10, 1, 0, 1, true},
                {MPB_ANSWER_CLOSE, 5, -1, 0, 0, true}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_turn(false);
        make_answer(ROWS[i].kind, ANSWER, 0);
        script.sent[0] = 10;
        script.sent[1] = ROWS[i].second;
        script.send_lines = 2;
        c.readable = true;
        CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
        CHECK(c.blocked && c.in_flight && turn.event_count == 0);
        uint64_t finished = counted(MPB_C_REQUESTS_FINISHED);
        d.p[0].collected_ns = 5;
        poll_for(EPOLLOUT);
        CHECK(script.sends == 2 && d.p[0].collected_ns == 0);
        CHECK_EQ(counted(MPB_C_REQUESTS_FINISHED) - finished, ROWS[i].finished);
        CHECK_EQ(c.in_flight, ROWS[i].mute);
        CHECK_EQ(c.unmute_after_send, ROWS[i].mute && ROWS[i].kind == MPB_ANSWER_INLINE);
        CHECK_EQ(turn.scheduled.count, ROWS[i].scheduled);
        CHECK_EQ(turn.event_count, ROWS[i].closes >= 0);
        if (ROWS[i].closes >= 0)
            expect_event(0, MPB_EVENT_CLOSE, &c, ROWS[i].closes);
        close_turn();
    }
}

/* What only can be read is not written to; and a send that was traced leaves no time for the next answers to share. */
static void test_what_is_not_sent(void)
{
    open_turn(true);
    make_answer(MPB_ANSWER_INLINE, ANSWER, 0);
    script.sent[0] = 10;
    script.sent[1] = ANSWER - 10;
    script.send_lines = 2;
    CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
    CHECK(c.blocked && script.sends == 1);
    poll_for(EPOLLIN);
    CHECK(c.blocked && script.sends == 1);
    poll_for(EPOLLOUT);
    CHECK(!c.blocked && script.sends == 2 && d.p[0].collected_ns == 0);
    close_turn();
}

/* Who goes with an answer that waits for its peer gives it up: its entry is free. */
static void test_who_goes_unanswered(void)
{
    open_turn(false);
    make_answer(MPB_ANSWER_INLINE, ANSWER, 0);
    script.sent[0] = 10;
    script.send_lines = 1;
    CHECK_EQ(mpb_turn_answer(&turn, 9), 1);
    CHECK(c.blocked && c.out_count == 1);
    uint64_t finished = counted(MPB_C_REQUESTS_FINISHED), sent = counted(MPB_C_BYTES_SENT);
    mpb_turn_forget(&turn, &c);
    CHECK(counted(MPB_C_REQUESTS_FINISHED) == finished + 1 && counted(MPB_C_BYTES_SENT) == sent);
    CHECK_EQ(d.p[0].free_count, d.p[0].entries);
    close_turn();
}

/* ------------------------------------------------------------------ sleeping */
static void test_busy_and_idle(void)
{
    struct mpb_process *row;
    open_turn(false);
    row = &d.w.core.processes[d.p[0].slot];
    mpb_store_relaxed(&row->busy_ns, 7);
    mpb_store_relaxed(&row->idle_ns, 9);
    turn.awake_since_ns = 1000;
    script.monotonic_ns[0] = 1300;
    script.monotonic_ns[1] = 2000;
    script.monotonic_lines = 2;
    script.monotonic_reads = 0;
    atomic_store(&d.w.core.doorbells->processor[0].asleep, 1);
    mpb_turn_sleep(&turn, 1);
    CHECK_EQ(wait_seen, MPB_WAIT_EPOLL);
    CHECK_EQ(mpb_load_relaxed(&row->busy_ns), 7 + 300);
    CHECK_EQ(mpb_load_relaxed(&row->idle_ns), 9 + 700);
    CHECK_EQ(turn.awake_since_ns, 2000);
    CHECK_EQ(mpb_load_relaxed(&row->wait), MPB_WAIT_NONE);
    CHECK_EQ(atomic_load(&d.w.core.doorbells->processor[0].asleep), 0);
    close_turn();
}

int main(void)
{
    static const struct world_plan PLAN = {2, 4, 0, 16, 12, 2, 2, 64 << 10, 256 << 10};
    world_open(&d.w, &PLAN);
    test_what_becomes_of_an_answer();
    test_how_many_are_held();
    test_one_answer_too_many();
    test_answers_of_nobody();
    test_as_many_as_are_asked_for();
    test_when_held_answers_go();
    test_held_answers_that_are_gone();
    test_what_sockets_say();
    test_a_poll_that_finds_nobody();
    test_turns_with_answers();
    test_the_rest_of_an_answer();
    test_what_is_not_sent();
    test_who_goes_unanswered();
    test_busy_and_idle();
    world_close(&d.w);
    printf("turn answers: %lu checks\n", checks_made);
    return 0;
}
