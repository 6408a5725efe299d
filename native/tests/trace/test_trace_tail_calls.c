/* Between two turns of the tracer, call by call: where its pieces are written and what becomes of a piece that is not, how
 * long each wait is, and what ends it. The calls, and the clock, are the test's. */
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>
#include "tests/trace/lane_world.h"
#include "trace/trace_tail.h"

enum { FILE_FD = 0, WAKEUP = 11, BELL = 12, NOTICES = 13, HEAD_BYTES = 640, LANE = 4096, PIECE = 2048, MS = 1000000 };

static struct world *w;
static struct mpb_lane lane;
static struct mpb_trace_tally tally;
static struct mpb_trace_tail tail;
static const struct mpb_trace_bells BELLS = {WAKEUP, BELL, NOTICES};

/* ------------------------------------------------------------------ the file */
static struct {
    uint8_t bytes[1 << 20];
    struct {
        uint64_t at, bytes;
    } calls[64];
    int writes, interrupts, fails_at, error; /* error 0: takes nothing, and errno is an earlier call's */
    size_t takes;
    int puts; /* records that come while it is written */
} file;

static void put(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = mpb_lane_read_counters(&lane).written;
        struct mpb_trace t = {.t0_ns = 5000, .conn_id = (uint32_t)number, .api_key = 1};
        mpb_lane_put(&lane, &t);
    }
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    CHECK_EQ(fd, FILE_FD);
    CHECK(bytes > 0 && file.writes < 64);
    errno = EINTR;
    if (file.interrupts-- > 0)
        return -1;
    if (file.writes == file.fails_at) {
        if (file.error == 0)
            return 0;
        errno = file.error;
        return -1;
    }
    size_t taken = bytes < file.takes ? bytes : file.takes;
    file.calls[file.writes].at = (uint64_t)at;
    file.calls[file.writes++].bytes = taken;
    memcpy(file.bytes + at, from, taken);
    put((uint32_t)file.puts);
    file.puts = 0;
    return (ssize_t)taken;
}

/* ------------------------------------------------------------------ the bells */
struct wait {
    int result;
    short wakeup, bell;
    int64_t passes_ns;
    int puts;
    short notices;
};
static struct {
    const struct wait *lines;
    int count, waits, looks, reads, interrupts;
    int64_t now_ns;
    int wanted_ms[16];
} bells;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    CHECK_EQ(clock, CLOCK_MONOTONIC);
    *now = (struct timespec){.tv_sec = bells.now_ns / 1000000000, .tv_nsec = bells.now_ns % 1000000000};
    return 0;
}

/* Apart, because the declaration of poll says that nothing of what it is given is read. */
__attribute__((noinline)) static int on_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    CHECK(fds[0].events == POLLIN && fds[0].revents == 0);
    if (count == 1) {
        CHECK(fds[0].fd == NOTICES && timeout_ms == 0 && bells.waits > 0);
        bells.looks++;
        fds[0].revents = bells.lines[bells.waits - 1].notices;
        return fds[0].revents != 0;
    }
    CHECK(count == 2 && fds[0].fd == WAKEUP && fds[1].fd == BELL && fds[1].events == POLLIN);
    CHECK(bells.waits < bells.count);
    const struct wait *line = &bells.lines[bells.waits];
    bells.wanted_ms[bells.waits++] = timeout_ms;
    bells.now_ns += line->passes_ns;
    fds[0].revents = line->wakeup;
    fds[1].revents = line->bell;
    put((uint32_t)line->puts);
    errno = EINTR;
    return line->result;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms) { return on_poll(fds, count, timeout_ms); }

ssize_t read(int fd, void *into, size_t bytes)
{
    CHECK(fd == BELL && bytes == 8 && into != NULL);
    bells.reads++;
    errno = bells.interrupts-- > 0 ? EINTR : EAGAIN; /* nobody rang since */
    return -1;
}

static void begin_anew(void)
{
    if (w != NULL)
        munmap(w, sizeof *w);
    w = new_world(LANE);
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    memset(&file, 0, sizeof file);
    memset(&bells, 0, sizeof bells);
    memset(&tally, 0, sizeof tally);
    file.takes = SIZE_MAX;
    file.fails_at = -1;
    tail = (struct mpb_trace_tail){
        .lane = &lane, .tally = &tally, .file = FILE_FD, .head_bytes = HEAD_BYTES, .room = 1000000};
}

/* So many records are in the file, in order, and as many are released. */
static void check_file(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct mpb_trace t;
        memcpy(&t, file.bytes + HEAD_BYTES + i * MPB_TRACE_BYTES, sizeof t);
        CHECK(t.conn_id == i && t.seq_lo == i);
    }
    CHECK_EQ(tally.count, count);
    CHECK_EQ(mpb_lane_read_counters(&lane).drained, count);
}

/* ------------------------------------------------------------------ following */
/* A piece is what a core's caches keep, and ends where the lane does. */
static void test_pieces(void)
{
    static const uint32_t PUTS[] = {1, 2, PIECE - 1, LANE}; /* the last ones begin at 2050 */
    static const uint64_t PIECES[] = {1, 2, PIECE - 1, LANE - 2050, PIECE, 2};
    uint64_t at = HEAD_BYTES, all = 0;
    begin_anew();
    for (int i = 0; i < 4; i++) {
        put(PUTS[i]);
        all += PUTS[i];
        CHECK(mpb_tail_follow(&tail));
        check_file(all);
        CHECK(mpb_tail_follow(&tail)); /* nothing more */
    }
    CHECK_EQ(file.writes, 6);
    for (int i = 0; i < 6; i++) {
        CHECK(file.calls[i].at == at && file.calls[i].bytes == PIECES[i] * MPB_TRACE_BYTES);
        at += PIECES[i] * MPB_TRACE_BYTES;
    }
}

/* However much of a piece the file takes at once, and however often a call is interrupted. */
static void test_parts_of_a_piece(void)
{
    static const size_t TAKES[] = {SIZE_MAX, 100, MPB_TRACE_BYTES, 8 * MPB_TRACE_BYTES - 1};
    for (size_t i = 0; i < sizeof TAKES / sizeof *TAKES; i++)
        for (int interrupts = 0; interrupts < 3; interrupts++) {
            begin_anew();
            put(8);
            file.takes = TAKES[i];
            file.interrupts = interrupts;
            CHECK(mpb_tail_follow(&tail));
            check_file(8);
            uint64_t bytes = 8 * MPB_TRACE_BYTES, takes = TAKES[i] < bytes ? TAKES[i] : bytes;
            CHECK_EQ(file.writes, (bytes + takes - 1) / takes);
        }
}

/* What was written in part stays, and is written again at the same place. */
static void test_a_file_that_fails(void)
{
    static const int ERRORS[] = {ENOSPC, EIO, EAGAIN, 0};
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        for (int good = 0; good < 2; good++) {
            begin_anew();
            put(8);
            file.takes = 300;
            file.fails_at = good;
            file.error = ERRORS[i];
            CHECK(!mpb_tail_follow(&tail));
            check_file(0);
            CHECK_EQ(tally.crc, 0);
            file.fails_at = -1;
            CHECK(mpb_tail_follow(&tail));
            check_file(8);
        }
    begin_anew();
    put(PIECE + 5); /* the first piece is done, and the second is not */
    file.fails_at = 1;
    CHECK(!mpb_tail_follow(&tail));
    check_file(PIECE);
    file.fails_at = -1;
    CHECK(mpb_tail_follow(&tail));
    check_file(PIECE + 5);
}

/* What comes meanwhile is the next turn's: a flood would not let it end. */
static void test_what_comes_meanwhile(void)
{
    begin_anew();
    put(10);
    file.puts = 7;
    CHECK(mpb_tail_follow(&tail));
    check_file(10);
    CHECK(mpb_tail_follow(&tail));
    check_file(17);
    begin_anew();
    put(PIECE + 10);
    file.puts = 7;
    CHECK(mpb_tail_follow(&tail));
    check_file(PIECE + 10);
}

static void test_room(void)
{
    static const struct {
        uint64_t has, room;
        uint32_t comes;
        bool fits;
    } ROWS[] = {{0, 0, 0, true},  {0, 0, 1, false}, {0, 1, 1, true},  {0, 1, 2, false}, {5, 8, 3, true},
                {5, 8, 4, false}, {5, 5, 1, false}, {5, 4, 1, false}, {5, 4, 0, true},  {5, 6, 1, true}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        begin_anew();
        put((uint32_t)ROWS[i].has);
        CHECK(mpb_tail_follow(&tail));
        tail.room = ROWS[i].room;
        put(ROWS[i].comes);
        CHECK_EQ(mpb_tail_follow(&tail), ROWS[i].fits);
        check_file(ROWS[i].has + (ROWS[i].fits ? ROWS[i].comes : 0));
    }
}

/* ------------------------------------------------------------------ waiting */
static enum mpb_trace_wait wait_for(const struct wait *lines, int count, int timeout_ms, size_t tails)
{
    begin_anew();
    bells.lines = lines;
    bells.count = count;
    bells.now_ns = 7000000001;
    enum mpb_trace_wait ended = mpb_tail_wait(&tail, tails, &BELLS, timeout_ms);
    CHECK_EQ(bells.waits, count);
    return ended;
}

/* Until the whole time is over, in milliseconds that are rounded up: it is not looked at the clock a thousand times in the
 * last one. */
static void test_how_long_is_waited(void)
{
    static const struct wait TO_THE_END[] = {{.passes_ns = 30 * MS}},
                             IN_PARTS[] = {{.passes_ns = 1},       {.passes_ns = 10 * MS},    {.passes_ns = MS / 2},
                                           {.passes_ns = 19 * MS}, {.passes_ns = MS / 2 - 2}, {.passes_ns = 1}};
    static const int WANTED[] = {30, 30, 20, 20, 1, 1};
    CHECK_EQ(wait_for(TO_THE_END, 1, 30, 1), MPB_TRACE_TIME_OVER);
    CHECK_EQ(bells.wanted_ms[0], 30);
    CHECK_EQ(wait_for(IN_PARTS, 6, 30, 1), MPB_TRACE_TIME_OVER);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(bells.wanted_ms[i], WANTED[i]);
    CHECK_EQ(wait_for(NULL, 0, 0, 1), MPB_TRACE_TIME_OVER);
    CHECK_EQ(bells.looks + bells.reads, 0);
}

static void test_what_ends_a_wait(void)
{
    static const struct {
        struct wait line;
        enum mpb_trace_wait end;
        size_t tails;
    } ROWS[] = {
        {{.result = -1}, MPB_TRACE_SIGNALLED, 1},
        {{.result = -1, .bell = POLLIN}, MPB_TRACE_SIGNALLED, 1},
        {{.result = 1, .wakeup = POLLIN}, MPB_TRACE_SIGNALLED, 1},
        {{.result = 1, .wakeup = POLLHUP}, MPB_TRACE_SIGNALLED, 1},
        {{.result = 1, .wakeup = POLLERR}, MPB_TRACE_SIGNALLED, 1},
        {{.result = 2, .wakeup = POLLIN, .bell = POLLIN}, MPB_TRACE_SIGNALLED, 1},
        {{.result = 1, .bell = POLLIN, .notices = POLLIN}, MPB_TRACE_NEEDS_TURN, 1},
        {{.result = 1, .bell = POLLIN}, MPB_TRACE_NEEDS_TURN, 0},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct wait line = ROWS[i].line;
        line.puts = 3;
        CHECK_EQ(wait_for(&line, 1, 60000, ROWS[i].tails), ROWS[i].end);
        check_file(0); /* nobody followed */
        CHECK_EQ(bells.reads, ROWS[i].line.notices != 0);
    }
}

/* A bell that is followed goes on waiting; notices that hang up are none. */
static void test_a_bell_that_is_followed(void)
{
    static const struct wait RINGS[] = {
        {.result = 1, .bell = POLLIN, .puts = 3, .passes_ns = 5 * MS},
        {.result = 1, .bell = POLLIN, .puts = 2, .passes_ns = 5 * MS, .notices = POLLHUP},
        {.result = 0, .puts = 1, .passes_ns = 20 * MS}};
    CHECK_EQ(wait_for(RINGS, 3, 30, 1), MPB_TRACE_TIME_OVER);
    check_file(5);
    CHECK(bells.reads == 2 && bells.looks == 2);
    CHECK(bells.wanted_ms[0] == 30 && bells.wanted_ms[1] == 25 && bells.wanted_ms[2] == 20);
    begin_anew();
    bells.lines = RINGS;
    bells.count = 3;
    bells.interrupts = 2; /* the bell is silenced all the same */
    CHECK_EQ(mpb_tail_wait(&tail, 1, &BELLS, 30), MPB_TRACE_TIME_OVER);
    CHECK_EQ(bells.reads, 4);
    check_file(5);
}

/* One tail that cannot be followed needs a turn; those before and behind it are followed nevertheless. */
static void test_several_tails(void)
{
    static const struct wait RING[] = {{.result = 1, .bell = POLLIN}};
    for (int full = 0; full < 3; full++) {
        struct mpb_trace_tail tails[3];
        struct mpb_trace_tally tallies[3] = {{0}};
        struct mpb_lane lanes[3];
        struct world *worlds[3];
        begin_anew();
        bells.lines = RING;
        bells.count = 1;
        for (int i = 0; i < 3; i++) {
            struct mpb_trace t = {.t0_ns = 5000};
            worlds[i] = new_world(CAPACITY);
            CHECK_EQ(mpb_lane_attach(&lanes[i], worlds[i]->lane, sizeof worlds[i]->lane), 0);
            mpb_lane_put(&lanes[i], &t);
            tails[i] = (struct mpb_trace_tail){&lanes[i], &tallies[i], FILE_FD, HEAD_BYTES, i != full};
        }
        CHECK_EQ(mpb_tail_wait(tails, 3, &BELLS, 60000), MPB_TRACE_NEEDS_TURN);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(tallies[i].count, i != full);
            munmap(worlds[i], sizeof *worlds[i]);
        }
    }
}

int main(void)
{
    test_pieces();
    test_parts_of_a_piece();
    test_a_file_that_fails();
    test_what_comes_meanwhile();
    test_room();
    test_how_long_is_waited();
    test_what_ends_a_wait();
    test_a_bell_that_is_followed();
    test_several_tails();
    printf("trace tail, call by call: %lu checks\n", checks_made);
    return 0;
}
