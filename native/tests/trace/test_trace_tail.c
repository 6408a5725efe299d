/* Between two turns of the tracer: which records reach the segment, what its tally says, and what ends the wait. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "record/crc32.h"
#include "tests/trace/lane_world.h"
#include "trace/trace_tail.h"

#define HEAD 4096

struct ends { /* a lane, the end of a file, and what the tracer listens to */
    struct world *world;
    struct mpb_lane lane;
    struct mpb_trace_tally tally;
    struct mpb_trace_tail tail;
    struct mpb_trace_bells bells;
    int pipe[2];
};

static struct ends new_ends(uint64_t capacity)
{
    struct ends e = {.world = new_world(capacity)};
    CHECK_EQ(mpb_lane_attach(&e.lane, e.world->lane, sizeof e.world->lane), 0);
    e.tail.file = memfd_create("segment", MFD_CLOEXEC);
    CHECK(e.tail.file >= 0 && pipe(e.pipe) == 0);
    e.bells = (struct mpb_trace_bells){e.pipe[0], eventfd(0, EFD_NONBLOCK), -1};
    e.tail.head_bytes = HEAD;
    e.tail.room = 1000000;
    return e;
}

/* Once `e` has its place: the tail points into it. */
static void bind(struct ends *e)
{
    e->tail.lane = &e->lane;
    e->tail.tally = &e->tally;
}

static void drop_ends(struct ends *e)
{
    close(e->tail.file);
    close(e->bells.bell_fd);
    close(e->pipe[0]);
    close(e->pipe[1]);
    munmap(e->world, sizeof *e->world);
}

static void put(struct ends *e, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        struct mpb_trace t = {.t0_ns = 5000 + i % 7, .conn_id = i, .api_key = 1};
        t.stage[MPB_STAGE_SEND_DONE] = 100 + i;
        mpb_lane_put(&e->lane, &t);
    }
}

static uint64_t drained(const struct ends *e) { return mpb_lane_read_counters(&e->lane).drained; }

/* The file holds records 0 to count - 1, and the tally is that of them. */
static void check_file(struct ends *e, uint32_t count)
{
    uint32_t crc = 0;
    struct mpb_trace t;
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQ(pread(e->tail.file, &t, sizeof t, HEAD + (off_t)i * MPB_TRACE_BYTES), MPB_TRACE_BYTES);
        CHECK_EQ(t.conn_id, i);
        CHECK_EQ(t.seq_lo, i);
        crc = mpb_crc32(crc, &t, sizeof t);
    }
    CHECK_EQ(pread(e->tail.file, &t, 1, HEAD + (off_t)count * MPB_TRACE_BYTES), 0);
    CHECK_EQ(e->tally.count, count);
    CHECK_EQ(e->tally.next_seq, count);
    CHECK_EQ(e->tally.crc, crc);
    CHECK_EQ(e->tally.api_counts[1], count);
    CHECK_EQ(drained(e), count);
}

static void test_what_the_lane_holds_is_written(void)
{
    struct ends e = new_ends(4096);
    bind(&e);
    CHECK(mpb_tail_follow(&e.tail)); /* nothing */
    check_file(&e, 0);
    put(&e, 0, 3000);
    CHECK(mpb_tail_follow(&e.tail));
    check_file(&e, 3000);
    put(&e, 3000, 4000); /* around the lane's end */
    CHECK(mpb_tail_follow(&e.tail));
    check_file(&e, 7000);
    drop_ends(&e);
}

/* All or nothing where the segment has no room: the next one begins with a turn. */
static void test_the_room_of_a_segment(void)
{
    struct ends e = new_ends(CAPACITY);
    bind(&e);
    e.tail.room = 5;
    put(&e, 0, 3);
    CHECK(mpb_tail_follow(&e.tail));
    put(&e, 3, 3);
    CHECK(!mpb_tail_follow(&e.tail));
    check_file(&e, 3);
    e.tail.room = 6;
    CHECK(mpb_tail_follow(&e.tail));
    check_file(&e, 6);
    e.tail.room = 5; /* its limit was lowered meanwhile */
    CHECK(mpb_tail_follow(&e.tail));
    put(&e, 6, 1);
    CHECK(!mpb_tail_follow(&e.tail));
    check_file(&e, 6);
    drop_ends(&e);
}

/* Where nothing can be written everything stays in the lane, and the tally as it was. */
static void test_what_cannot_be_written_stays(void)
{
    struct ends e = new_ends(CAPACITY);
    bind(&e);
    int file = e.tail.file;
    put(&e, 0, 2);
    e.tail.file = -1; /* no segment yet */
    CHECK(!mpb_tail_follow(&e.tail));
    e.tail.file = open("/dev/full", O_RDWR);
    CHECK(e.tail.file >= 0 && !mpb_tail_follow(&e.tail));
    close(e.tail.file);
    e.tail.file = file;
    CHECK_EQ(e.tally.count + e.tally.next_seq + drained(&e), 0);
    CHECK(mpb_tail_follow(&e.tail));
    check_file(&e, 2);
    e.tail.file = -1; /* an empty lane needs none */
    CHECK(mpb_tail_follow(&e.tail));
    e.tail.file = file;
    mpb_store_release(&e.lane.header->written, CAPACITY + 3); /* more than the lane has */
    CHECK(!mpb_tail_follow(&e.tail));
    CHECK_EQ(e.tally.count, 2);
    drop_ends(&e);
}

static void test_a_tally(void)
{
    static const int16_t APIS[] = {0, 62, 63, -1, 500, 62};
    struct mpb_trace_tally tally = {.next_seq = 9};
    struct mpb_trace t[8] = {{0}};
    for (int i = 0; i < 6; i++) {
        t[i] = (struct mpb_trace){.kind = MPB_TRACE_REQUEST, .t0_ns = 50 + 10 * (uint64_t)(i % 3), .api_key = APIS[i]};
        t[i].stage[MPB_STAGE_SEND_DONE] = i == 5 ? MPB_TRACE_NOT_REACHED : 7 * (uint32_t)(i % 4);
    }
    t[6].kind = t[7].kind = MPB_TRACE_REQUEST + 1; /* others count, and say nothing */
    t[6].t0_ns = 1;
    t[7].t0_ns = 1000;
    mpb_tally_add(&tally, t + 6, 1);
    CHECK_EQ(tally.t0_min_ns + tally.t0_max_ns + tally.max_total_ticks, 0);
    mpb_tally_add(&tally, t + 1, 1);
    CHECK_EQ(tally.t0_min_ns, 60);
    CHECK_EQ(tally.t0_max_ns, 60);
    mpb_tally_add(&tally, t + 2, 6);
    mpb_tally_add(&tally, t, 1);
    CHECK_EQ(tally.count, 9);
    CHECK_EQ(tally.next_seq, 9 + 6);
    CHECK_EQ(tally.t0_min_ns, 50);
    CHECK_EQ(tally.t0_max_ns, 70);
    CHECK_EQ(tally.max_total_ticks, 21);
    CHECK_EQ(tally.api_counts[0], 1);
    CHECK_EQ(tally.api_counts[62], 2);
    CHECK_EQ(tally.api_counts[63], 3);
    uint32_t crc = mpb_crc32(mpb_crc32(mpb_crc32(0, t + 6, sizeof *t), t + 1, 7 * sizeof *t), t, sizeof *t);
    CHECK_EQ(tally.crc, crc);
    for (int16_t key = MPB_TALLY_APIS - 2; key <= MPB_TALLY_APIS + 1; key++) { /* the last count is all others' */
        struct mpb_trace_tally keys = {.next_seq = 9};
        struct mpb_trace record = {.kind = MPB_TRACE_REQUEST, .t0_ns = 50, .api_key = key};
        mpb_tally_add(&keys, &record, 1);
        CHECK_EQ(keys.api_counts[MPB_TALLY_APIS - 1], key > MPB_TALLY_APIS - 2);
    }
    uint8_t moved[sizeof t + 1];
    memcpy(moved + 1, t, sizeof t);
    struct mpb_trace_tally other = {.next_seq = 9};
    mpb_tally_add(&other, moved + 1, 8);
    CHECK(other.api_counts[62] == 2 && other.next_seq == 15);
}

/* The time is over; a signal; a bell that is followed, and goes on waiting. */
static void test_what_ends_the_wait(void)
{
    struct ends e = new_ends(CAPACITY);
    bind(&e);
    uint64_t begun = mpb_trace_clock_ns();
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 30), MPB_TRACE_TIME_OVER);
    CHECK(mpb_trace_clock_ns() - begun >= 30000000);
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 0), MPB_TRACE_TIME_OVER);
    put(&e, 0, 3); /* nobody rings: they are left to the next turn */
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 1), MPB_TRACE_TIME_OVER);
    CHECK_EQ(drained(&e), 0);
    CHECK_EQ(eventfd_write(e.bells.bell_fd, 2), 0);
    begun = mpb_trace_clock_ns();
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 30), MPB_TRACE_TIME_OVER);
    CHECK(mpb_trace_clock_ns() - begun >= 30000000);
    check_file(&e, 3);
    eventfd_t rung;
    CHECK(eventfd_read(e.bells.bell_fd, &rung) < 0); /* it is silent again */
    CHECK_EQ(write(e.pipe[1], "x", 1), 1);
    CHECK_EQ(eventfd_write(e.bells.bell_fd, 1), 0);
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 60000), MPB_TRACE_SIGNALLED);
    drop_ends(&e);
}

static void ignore(int number) { (void)number; }

/* A signal whose byte went elsewhere. */
static void test_an_interrupted_wait(void)
{
    struct ends e = new_ends(CAPACITY);
    bind(&e);
    struct sigaction on_alarm = {.sa_handler = ignore};
    CHECK_EQ(sigaction(SIGALRM, &on_alarm, NULL), 0);
    ualarm(20000, 0);
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 60000), MPB_TRACE_SIGNALLED);
    drop_ends(&e);
}

static void test_what_needs_a_turn(void)
{
    struct ends e = new_ends(CAPACITY);
    bind(&e);
    int notices[2];
    CHECK_EQ(pipe(notices), 0);
    put(&e, 0, 3);
    CHECK_EQ(eventfd_write(e.bells.bell_fd, 1), 0);
    CHECK_EQ(mpb_tail_wait(NULL, 0, &e.bells, 60000), MPB_TRACE_NEEDS_TURN); /* nobody may follow */
    e.bells.notices_fd = notices[0];
    CHECK_EQ(write(notices[1], "x", 1), 1);
    CHECK_EQ(eventfd_write(e.bells.bell_fd, 1), 0);
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 60000), MPB_TRACE_NEEDS_TURN); /* names come before their records */
    CHECK_EQ(drained(&e), 0);
    char byte;
    CHECK(read(notices[0], &byte, 1) == 1 && close(notices[1]) == 0);
    CHECK_EQ(eventfd_write(e.bells.bell_fd, 1), 0);
    CHECK_EQ(mpb_tail_wait(&e.tail, 1, &e.bells, 1), MPB_TRACE_TIME_OVER); /* nobody is left who could write some */
    check_file(&e, 3);
    struct ends full = new_ends(CAPACITY);
    bind(&full);
    full.tail.room = 0;
    put(&full, 0, 1);
    put(&e, 3, 2);
    struct mpb_trace_tail tails[2] = {full.tail, e.tail};
    CHECK_EQ(eventfd_write(e.bells.bell_fd, 1), 0);
    CHECK_EQ(mpb_tail_wait(tails, 2, &e.bells, 60000), MPB_TRACE_NEEDS_TURN);
    check_file(&e, 5); /* the other one was emptied */
    close(notices[0]);
    drop_ends(&full);
    drop_ends(&e);
}

int main(void)
{
    test_what_the_lane_holds_is_written();
    test_the_room_of_a_segment();
    test_what_cannot_be_written_stays();
    test_a_tally();
    test_what_ends_the_wait();
    test_an_interrupted_wait();
    test_what_needs_a_turn();
    printf("trace tail: %lu checks\n", checks_made);
    return 0;
}
