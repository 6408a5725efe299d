/* A follower's connection while nothing is out of the ordinary: what comes in pieces, what is left to Python, which ends
 * are told next, and what a failed append leaves. The socket and the clocks are the test's own. */
#include "tests/log/log_fixture.h"
#include <sys/socket.h>
#include <time.h>
#include "replication/steady_fetch.h"
#include "tests/replication/steady_answer.h"

enum { FD = 77, EPOCH = 5, SESSION = 31, CORRELATION = 9, TOPIC = 7, PARTITIONS = 2, HEAD = 4 };
enum { WALL_S = 1700000000, WALL_NS = 123999999, MONOTONIC_S = 70, MONOTONIC_NS = 5 };

static struct fixture f;
static struct mpb_steady_fetch fetch;
static struct mpb_steady_partition expected[PARTITIONS]; /* once a turn is over */
static struct told_part told[PARTITIONS];
static uint8_t batches[PARTITIONS][512];

/* ------------------------------------------------------------------ the socket and the clocks */
static struct {
    const uint8_t *bytes;
    size_t left;
    int error, interrupts; /* how the next calls end when nothing has come: 0 is the end of the stream */
    int before;            /* what errno says of earlier calls: who succeeds does not touch it */
} coming;
static struct {
    uint8_t bytes[MPB_STEADY_REQUEST_BYTES];
    int calls, interrupts, error; /* 0: no error, `takes` bytes */
    size_t takes, length;
} going;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    bool is_wall = clock == CLOCK_REALTIME;
    *out = (struct timespec){.tv_sec = is_wall ? WALL_S : MONOTONIC_S, .tv_nsec = is_wall ? WALL_NS : MONOTONIC_NS};
    return 0;
}

ssize_t recv(int fd, void *into, size_t bytes, int flags)
{
    CHECK(fd == FD && flags == MSG_DONTWAIT);
    CHECK_EQ((uint8_t *)into - fetch.answer, fetch.filled);
    CHECK_EQ(bytes, MPB_STEADY_ANSWER_BYTES - fetch.filled);
    errno = coming.before;
    if (coming.interrupts-- > 0 || (coming.left == 0 && coming.error != 0)) {
        errno = coming.interrupts >= 0 ? EINTR : coming.error;
        return -1;
    }
    size_t taken = coming.left < bytes ? coming.left : bytes;
    if (taken > 0)
        memcpy(into, coming.bytes, taken);
    coming.bytes += taken;
    coming.left -= taken;
    return (ssize_t)taken;
}

ssize_t send(int fd, const void *bytes, size_t count, int flags)
{
    CHECK(fd == FD && flags == (MSG_NOSIGNAL | MSG_DONTWAIT) && bytes == fetch.request);
    going.calls++;
    errno = EINTR; /* of an earlier call, where this one succeeds */
    if (going.interrupts-- > 0)
        return -1;
    if (going.error != 0) {
        errno = going.error;
        return -1;
    }
    memcpy(going.bytes, bytes, count);
    going.length = count;
    return (ssize_t)(going.takes < count ? going.takes : count);
}

static enum mpb_steady turn_with(const uint8_t *bytes, size_t count)
{
    coming.bytes = bytes;
    coming.left = count;
    return mpb_steady_turn(&fetch);
}

/* ------------------------------------------------------------------ a follower of two partitions */
static void begin(void)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, EPOCH, 0);
    fixture_open(&f);
    fixture_replicate(&f);
    memset(&fetch, 0, sizeof fetch);
    memset(&coming, 0, sizeof coming);
    memset(&going, 0, sizeof going);
    going.takes = SIZE_MAX;
    coming.error = EAGAIN;
    fetch.log = &f.log;
    fetch.fd = FD;
    fetch.is_asked = true;
    fetch.asked_ns = 3;
    fetch.answers = 40;
    fetch.session = (struct mpb_steady_session){.correlation_id = CORRELATION,
                                                .session_id = SESSION,
                                                .session_epoch = 4,
                                                .count = PARTITIONS,
                                                .partitions = fetch.partitions};
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        char dir[16];
        snprintf(dir, sizeof dir, "t-%u", i);
        struct mpb_partition_identity identity = {.partition = i, .dir = dir};
        memset(identity.topic_id, TOPIC, TOPIC_ID_BYTES);
        CHECK_EQ(mpb_partition_create(&f.log, i, &identity, 3, 1000), 0);
        CHECK_EQ(mpb_become(&f.log, i, &role), 0);
        fetch.partitions[i] = (struct mpb_steady_partition){.ordinal = i,
                                                            .partition = (int32_t)i,
                                                            .leader_epoch = EPOCH,
                                                            .last_epoch = -1,
                                                            .error = -7,
                                                            .leader_hw = -1,
                                                            .options = FIX_OPTIONS};
        memset(fetch.partitions[i].topic_id, TOPIC, TOPIC_ID_BYTES);
        told[i] = (struct told_part){.topic = TOPIC, .partition = (int32_t)i, .preferred = -1};
    }
    memcpy(expected, fetch.partitions, sizeof expected);
}

/* A batch of two records at this offset. */
static void lead(int i, int64_t offset, int32_t epoch)
{
    const struct batch_spec spec = {.producer_id = -1, .records = 2, .timestamp = 1000, .payload = 60};
    told[i].bytes = (uint32_t)make_batch(batches[i], &spec);
    told[i].records = batches[i];
    mpb_put_be64(batches[i] + MPB_BATCH_BASE_OFFSET, offset);
    mpb_put_be32(batches[i] + MPB_BATCH_LEADER_EPOCH, epoch);
}

/* The frame with its length, of `count` parts from the first on. */
static const uint8_t *framed(uint32_t count)
{
    static uint8_t frame[HEAD + sizeof answer];
    const struct told_answer all = {
        .correlation_id = fetch.session.correlation_id, .session_id = SESSION, .parts = count};
    put_answer(&all, told);
    mpb_put_be32(frame, (int32_t)length);
    memcpy(frame + HEAD, answer, length);
    return frame;
}

static enum mpb_steady answer_whole(uint32_t count)
{
    const uint8_t *frame = framed(count);
    return turn_with(frame, HEAD + length);
}

static const struct mpb_partition_copy *now(uint32_t ordinal)
{
    return mpb_partition_in_force(&f.core.partitions[ordinal]);
}

/* The ends stand as they are expected, and what was asked with them, or nothing, left as it is expected to. */
static void check_ends(bool is_asked)
{
    static uint8_t frame[MPB_STEADY_REQUEST_BYTES];
    for (int i = 0; i < PARTITIONS; i++) {
        const struct mpb_steady_partition *one = &fetch.partitions[i], *want = &expected[i];
        CHECK_EQ(one->offset, want->offset);
        CHECK_EQ(one->last_epoch, want->last_epoch);
        CHECK_EQ(one->log_start, want->log_start);
        CHECK_EQ(one->leader_hw, want->leader_hw);
        CHECK_EQ(one->error, want->error);
        CHECK_EQ(one->untold, want->untold && !is_asked);
    }
    CHECK_EQ(fetch.is_asked, is_asked);
    CHECK_EQ(fetch.filled, 0);
    CHECK_EQ(fetch.answers, 41);
    CHECK_EQ(fetch.asked_ns, is_asked ? MONOTONIC_S * 1000000000ull + MONOTONIC_NS : 3);
    CHECK_EQ(going.calls, is_asked);
    struct mpb_steady_session session = fetch.session;
    session.correlation_id = CORRELATION;
    session.session_epoch = 4;
    session.partitions = expected;
    if (!is_asked) {
        CHECK(fetch.session.correlation_id == CORRELATION && fetch.session.session_epoch == 4);
        return;
    }
    CHECK_EQ(going.length, mpb_steady_write(&session, frame));
    CHECK(memcmp(going.bytes, frame, going.length) == 0);
    CHECK(fetch.request_length == going.length && fetch.unsent == 0);
    CHECK(fetch.session.correlation_id == CORRELATION + 1 && fetch.session.session_epoch == 5);
}

/* ------------------------------------------------------------------ what an answer moves */
static void nothing_is_new(void)
{
    begin();
    CHECK_EQ(answer_whole(0), MPB_STEADY_WAITS);
    check_ends(true);
    fixture_close(&f);
    begin(); /* said of partitions, and no news: nobody is told of them again */
    CHECK_EQ(answer_whole(PARTITIONS), MPB_STEADY_WAITS);
    for (int i = 0; i < PARTITIONS; i++)
        expected[i].leader_hw = expected[i].error = 0;
    check_ends(true);
    fixture_close(&f);
}

static void records_are_appended(void)
{
    begin();
    lead(1, 0, 4);
    told[1].high_watermark = 1;
    fetch.partitions[0].leader_hw = expected[0].leader_hw = 8;
    fetch.partitions[0].untold = expected[0].untold = true; /* what was not told yet still is to be */
    told[0].high_watermark = 9;
    CHECK_EQ(answer_whole(PARTITIONS), MPB_STEADY_WAITS);
    expected[0].leader_hw = 9; /* of more than is here */
    expected[0].error = expected[1].error = 0;
    expected[1].leader_hw = 1;
    expected[1].offset = 2;
    expected[1].last_epoch = 4;
    expected[1].untold = true;
    check_ends(true);
    CHECK(now(1)->leo == 2 && now(1)->hw == 1 && now(0)->leo == 0 && now(0)->hw == 0);
    CHECK_EQ(f.core.partitions[1].intent.written_ms, WALL_S * 1000ll + WALL_NS / 1000000);
    fixture_close(&f);
}

/* Either of the three by itself is news for the leader. */
static void what_is_told(void)
{
    for (int which = 0; which < 4; which++) {
        begin();
        lead(0, 0, 4);
        told[0].high_watermark = 2;
        CHECK_EQ(answer_whole(1), MPB_STEADY_WAITS);
        expected[0] = fetch.partitions[0];
        fetch.session.correlation_id = CORRELATION;
        fetch.session.session_epoch = 4;
        fetch.answers = 40;
        going.calls = 0;
        told[0].bytes = 0;
        if (which == 1) { /* the log is where it was, and this row knew better */
            lead(0, 2, 4);
            expected[0].offset = 4;
        } else if (which == 2) {
            fetch.partitions[0].last_epoch = 3;
        } else if (which == 3) {
            told[0].log_start = expected[0].log_start = 1;
        }
        expected[0].untold = which > 0;
        CHECK_EQ(answer_whole(1), MPB_STEADY_WAITS);
        check_ends(true);
        CHECK_EQ(now(0)->log_start, which == 3);
        fixture_close(&f);
    }
}

/* The topic's settings are those of its row: two records fill a segment. */
static void options_of_the_partition(void)
{
    begin();
    fetch.partitions[0].options.segment_bytes = MPB_BATCH_HEADER_BYTES + 60;
    for (int64_t offset = 0; offset < 4; offset += 2) {
        lead(0, offset, 4);
        CHECK_EQ(answer_whole(1), MPB_STEADY_WAITS);
    }
    CHECK(now(0)->segment_count == 2 && now(0)->active_base == 2);
    CHECK_EQ(now(0)->segment_created_ms, WALL_S * 1000ll + WALL_NS / 1000000);
    fixture_close(&f);
}

/* An append that fails ends the steady state, whichever it is: the others of the answer are done, nothing is asked. */
static void an_append_that_fails(void)
{
    enum { FENCED, ANOTHER_TOPIC, DAMAGED, DAMAGED_SECOND, CASES };
    for (int which = 0; which < CASES; which++)
        for (int bad = 0; bad < PARTITIONS; bad++) {
            begin();
            for (int i = 0; i < PARTITIONS; i++) {
                lead(i, 0, 4);
                told[i].high_watermark = 2;
                expected[i].leader_hw = 2;
                if (i == bad && which != DAMAGED_SECOND)
                    continue;
                expected[i].offset = 2;
                expected[i].last_epoch = 4;
                expected[i].untold = true;
                expected[i].error = 0;
            }
            expected[bad].error = MPB_ERR_FENCED_LEADER_EPOCH;
            if (which == FENCED)
                fetch.partitions[bad].leader_epoch--;
            if (which == ANOTHER_TOPIC) {
                f.core.partitions[bad].topic_id[15]++;
                expected[bad].error = MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            }
            if (which >= DAMAGED)
                expected[bad].error = MPB_ERR_CORRUPT_MESSAGE;
            if (which == DAMAGED)
                batches[bad][told[bad].bytes - 1] ^= 1;
            if (which == DAMAGED_SECOND) { /* the first stays, and is to be told */
                memcpy(batches[bad] + told[bad].bytes, batches[bad], told[bad].bytes);
                told[bad].bytes *= 2;
                mpb_put_be64(batches[bad] + told[bad].bytes / 2 + MPB_BATCH_BASE_OFFSET, 2);
                batches[bad][told[bad].bytes - 1] ^= 1;
            }
            CHECK_EQ(answer_whole(PARTITIONS), MPB_STEADY_FAILED);
            check_ends(false);
            CHECK_EQ(now(1 - (uint32_t)bad)->leo, 2);
            if (which == ANOTHER_TOPIC)
                f.core.partitions[bad].topic_id[15]--;
            fixture_close(&f);
        }
}

/* ------------------------------------------------------------------ pieces */
/* Python goes on with what has come. */
static void check_left(size_t filled)
{
    CHECK_EQ(fetch.filled, filled);
    CHECK(fetch.is_asked && fetch.answers == 40 && fetch.asked_ns == 3 && going.calls == 0);
}

static void an_answer_in_pieces(void)
{
    begin();
    lead(0, 0, 4);
    const uint8_t *frame = framed(1);
    size_t whole = HEAD + length;
    for (size_t at = 0; at + 1 < whole; at++) {
        CHECK_EQ(turn_with(frame + at, 1), MPB_STEADY_WAITS);
        check_left(at + 1);
        CHECK_EQ(turn_with(NULL, 0), MPB_STEADY_WAITS); /* nothing more yet */
        check_left(at + 1);
    }
    coming.interrupts = 2;
    CHECK_EQ(turn_with(frame + whole - 1, 1), MPB_STEADY_WAITS);
    CHECK_EQ(coming.interrupts, -1);
    CHECK(fetch.filled == 0 && fetch.answers == 41 && going.calls == 1 && now(0)->leo == 2);
    fixture_close(&f);
}

static void an_end(void)
{
    static const int ERRORS[] = {0, 0, 0, ECONNRESET, ETIMEDOUT, EBADF};
    static const int BEFORE[] = {0, EINTR, EAGAIN, EINTR, EAGAIN, 0};
    begin();
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++) {
        coming.error = ERRORS[i];
        coming.before = BEFORE[i];
        CHECK_EQ(turn_with(NULL, 0), MPB_STEADY_LEFT);
        check_left(0);
    }
    fixture_close(&f);
}

/* What a length in front may say, and what comes behind it. */
static void lengths(void)
{
    static const struct {
        int32_t says;
        size_t comes;
        enum mpb_steady then;
    } ROWS[] = {
        {INT32_MIN, 4, MPB_STEADY_LEFT},
        {-1, 4, MPB_STEADY_LEFT},
        {-1, 3, MPB_STEADY_WAITS}, /* not there yet */
        {0, 4, MPB_STEADY_LEFT},
        {1, 4, MPB_STEADY_WAITS},
        {1, 5, MPB_STEADY_LEFT}, /* whole, and no answer */
        {1, 6, MPB_STEADY_LEFT},
        {100, 103, MPB_STEADY_WAITS},
        {100, 105, MPB_STEADY_LEFT}, /* something behind it */
        {MPB_STEADY_ANSWER_BYTES - HEAD, 40, MPB_STEADY_WAITS},
        {MPB_STEADY_ANSWER_BYTES - HEAD, MPB_STEADY_ANSWER_BYTES - 1, MPB_STEADY_WAITS},
        {MPB_STEADY_ANSWER_BYTES - HEAD + 1, 40, MPB_STEADY_LEFT},
        {INT32_MAX, 4, MPB_STEADY_LEFT},
    };
    static uint8_t bytes[MPB_STEADY_ANSWER_BYTES];
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        begin();
        mpb_put_be32(bytes, ROWS[i].says);
        CHECK_EQ(turn_with(bytes, ROWS[i].comes), ROWS[i].then);
        check_left(ROWS[i].comes);
        fixture_close(&f);
    }
}

/* A whole answer with something behind it is left as it came: nothing of it is served. */
static void what_is_behind_an_answer(void)
{
    static uint8_t frame[HEAD + sizeof answer];
    begin();
    lead(0, 0, 4);
    memcpy(frame, framed(1), HEAD + length);
    CHECK_EQ(turn_with(frame, HEAD + length + 1), MPB_STEADY_LEFT);
    check_left(HEAD + length + 1);
    CHECK_EQ(now(0)->leo, 0);
    fixture_close(&f);
}

/* The request goes as far as the socket takes it; Python sends the rest. */
static void a_request_in_pieces(void)
{
    static const struct {
        size_t takes;
        int error, interrupts;
    } ROWS[] = {{SIZE_MAX, 0, 0}, {SIZE_MAX, 0, 3}, {1, 0, 0}, {20, 0, 1}, {0, 0, 0}, {0, EAGAIN, 0}, {0, EPIPE, 2}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        begin();
        going.takes = ROWS[i].takes;
        going.error = ROWS[i].error;
        going.interrupts = ROWS[i].interrupts;
        CHECK_EQ(answer_whole(0), ROWS[i].takes == SIZE_MAX ? MPB_STEADY_WAITS : MPB_STEADY_LEFT);
        CHECK_EQ(going.calls, ROWS[i].interrupts + 1);
        CHECK(fetch.is_asked && fetch.answers == 41 && fetch.filled == 0 && fetch.request_length > 40);
        CHECK_EQ(fetch.unsent, ROWS[i].takes == SIZE_MAX ? 0 : fetch.request_length - ROWS[i].takes);
        fixture_close(&f);
    }
}

int main(void)
{
    nothing_is_new();
    records_are_appended();
    what_is_told();
    options_of_the_partition();
    an_append_that_fails();
    an_answer_in_pieces();
    an_end();
    lengths();
    what_is_behind_an_answer();
    a_request_in_pieces();
    printf("steady fetch: %lu checks\n", checks_made);
    return 0;
}
