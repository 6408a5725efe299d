/* Framing of one connection: random streams of frames, good and hostile, cut at random places, read through a socketpair.
 * What comes out is compared with the stream; the buffers are of their exact size for the address sanitizer.
 * test_connection [streams] [seed] */
#include "tests/stepping/check.h"
#include "network/connection.h"
#include "record/wire.h"
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAM_BYTES 60000u
#define MAX_BYTES 20000u

static uint8_t stream[STREAM_BYTES], scratch[MPB_RECEIVE_BYTES];
static struct mpb_arrivals arrivals;
static int32_t lengths[STREAM_BYTES / 4];

/* Frames until one is hostile or the stream is full; returns its bytes, and how many frames are whole. A stream without a
 * hostile one has a good length for `hostile`. */
static uint32_t make_stream(uint64_t *seed, uint32_t *count, int32_t *hostile)
{
    uint32_t at = 0;
    *count = 0;
    *hostile = MPB_MIN_FRAME_BYTES;
    while (at + 4 + MAX_BYTES < STREAM_BYTES) {
        uint64_t dice = next_random(seed);
        int32_t length = MPB_MIN_FRAME_BYTES + (int32_t)(dice >> 32 & (dice % 8 ? 63 : 8191));
        if (dice % 50 == 0) {
            static const int32_t bad[] = {-1, INT32_MIN, 0, 7, MAX_BYTES + 1, INT32_MAX};
            *hostile = bad[(dice >> 8) % 6];
            mpb_put_be32(stream + at, (uint32_t)*hostile);
            return at + 4;
        }
        mpb_put_be32(stream + at, (uint32_t)length);
        for (int32_t i = 0; i < length; i++)
            stream[at + 4 + (uint32_t)i] = (uint8_t)(at + (uint32_t)i * 7);
        lengths[(*count)++] = length;
        at += 4 + (uint32_t)length;
    }
    return at;
}

/* Takes every frame that is here; returns how many, or -1 at a hostile one. */
static int take_all(struct mpb_connection *c, uint32_t *at, uint32_t first, int32_t hostile)
{
    const uint8_t *frame = NULL;
    int32_t length = 0;
    int taken = 0;
    for (;;) {
        bool ready = mpb_connection_has_frame(c);
        enum mpb_frame found = mpb_connection_frame(c, MAX_BYTES, &frame, &length);
        if (found == MPB_FRAME_INVALID) {
            CHECK_EQ(length, hostile);
            return -1;
        }
        CHECK_EQ(ready, found == MPB_FRAME_WHOLE);
        if (found == MPB_FRAME_PART)
            return taken;
        CHECK_EQ(length, lengths[first + (uint32_t)taken]);
        CHECK(memcmp(frame, stream + *at + 4, (size_t)length) == 0);
        CHECK_EQ(mpb_connection_wants_arena(c), 0);
        mpb_connection_take(c, (uint32_t)length + 4);
        *at += (uint32_t)length + 4;
        taken++;
    }
}

static void run_stream(uint64_t *seed)
{
    int ends[2];
    int32_t hostile;
    uint32_t count, sent = 0, at = 0, seen = 0, size = make_stream(seed, &count, &hostile);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    struct mpb_connection c = {.fd = ends[0], .readable = true};
    bool refused = false;
    while (sent < size && !refused) {
        uint32_t piece = 1 + (uint32_t)(next_random(seed) % (sent % 3 ? 9000 : 5));
        if (piece > size - sent)
            piece = size - sent;
        CHECK_EQ(write(ends[1], stream + sent, piece), piece);
        sent += piece;
        CHECK_EQ(mpb_connection_receive(&c, scratch, sent, &arrivals), MPB_RECEIVED);
        CHECK(!c.readable);
        CHECK_EQ(mpb_connection_receive(&c, scratch, sent, &arrivals), MPB_RECEIVED_NOTHING);
        int taken = take_all(&c, &at, seen, hostile);
        refused = taken < 0;
        seen += taken > 0 ? (uint32_t)taken : 0;
        CHECK(refused || mpb_connection_buffered(&c) == sent - at);
    }
    CHECK_EQ(refused, hostile != MPB_MIN_FRAME_BYTES);
    CHECK(refused || (seen == count && c.buffer == NULL)); /* an idle connection holds no memory */
    close(ends[1]);
    CHECK_EQ(mpb_connection_receive(&c, scratch, 1, &arrivals), MPB_CONNECTION_LOST);
    mpb_connection_close(&c);
    close(ends[0]);
}

/* The arena is wanted from an eighth of the frame on, at most 1 MiB; the buffer grows no faster than bytes arrive. */
static void large_frame(uint32_t length, uint32_t needed)
{
    uint8_t *bytes = calloc(1, needed + 4);
    struct mpb_connection c = {.buffer = bytes, .capacity = needed + 4};
    mpb_put_be32(bytes, length);
    for (c.end = 0; c.end < needed + 4; c.end += c.end < 8 ? 1 : needed / 7 + 1)
        CHECK_EQ(mpb_connection_wants_arena(&c), 0);
    c.end = needed + 3;
    CHECK_EQ(mpb_connection_wants_arena(&c), 0);
    c.end = needed + 4;
    CHECK_EQ(mpb_connection_wants_arena(&c), length);
    mpb_connection_close(&c);
}

/* Bytes lie in the socket for so long; when they were sent and read. */
struct waited {
    uint64_t before, now;
};

static struct waited let_wait(struct mpb_connection *c, int sending, struct mpb_arrivals *wanted, useconds_t us)
{
    struct waited at = {.before = mpb_trace_clock_ns()};
    CHECK_EQ(write(sending, "\0\0\0", 3), 3);
    usleep(us);
    at.now = mpb_trace_clock_ns();
    /* a caller whose moment is old, as one that lost its core meanwhile: no arrival moves with it */
    CHECK_EQ(mpb_connection_receive(c, scratch, at.before, wanted), MPB_RECEIVED);
    return at;
}

/* The kernel stamps packets some time after the first socket of a machine has asked for it: until a worker of its own has
 * run, what has no stamp gets one when it is read. */
static void wait_for_stamps(int fd, int sending)
{
    struct mpb_connection c = {.fd = fd, .readable = true};
    struct mpb_arrivals wanted = {.wanted = true};
    uint64_t late = 1;
    for (int tries = 0; late != 0 && tries < 1000; tries++) {
        struct waited at = let_wait(&c, sending, &wanted, 10000);
        late = c.later_arrival_ns + 5000000 > at.now;
    }
    CHECK_EQ(late, 0);
    mpb_connection_close(&c);
}

/* The kernel's stamp of bytes that lie in the socket for a while, on the clock of everything else. */
static void arrival(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0), sending = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(bind(listening, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(listen(listening, 1), 0);
    if (setsockopt(listening, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) != 0)
        return; /* this platform gives none */
    CHECK_EQ(getsockname(listening, (struct sockaddr *)&at, &size), 0);
    CHECK_EQ(connect(sending, (struct sockaddr *)&at, sizeof at), 0);
    struct mpb_connection c = {.fd = accept(listening, NULL, NULL), .readable = true}; /* the option is inherited */
    struct mpb_arrivals wanted = {.wanted = true};
    CHECK(c.fd >= 0);
    wait_for_stamps(c.fd, sending);
    for (int round = 0; round < 3; round++) {
        struct waited then = let_wait(&c, sending, &wanted, 30000);
        CHECK(c.later_arrival_ns + 1000000 > then.before);
        CHECK(c.later_arrival_ns + 10000000 < then.now);
        CHECK_EQ(c.first_arrival_ns == c.later_arrival_ns, round == 0);
    }
    mpb_connection_close(&c);
    close(c.fd);
    close(sending);
    close(listening);
}

static void introductions(void)
{
    struct mpb_connection c = {.fd = -1};
    uint32_t bytes;
    uint8_t frame[2000] = {0, 3, 0, 1, 0, 0, 0, 9, 0, 1, 'a'};
    CHECK(!mpb_connection_introduces(&c, frame, 11, 0)); /* no client id */
    CHECK(mpb_connection_introduces(&c, frame, sizeof frame, 7));
    CHECK(!mpb_connection_introduces(&c, frame, 11, 7)); /* the same again */
    uint8_t *first = mpb_connection_take_introduction(&c, &bytes);
    CHECK(first != NULL && bytes == MPB_INTRODUCTION_BYTES && first[10] == 'a');
    free(first);
    CHECK(mpb_connection_take_introduction(&c, &bytes) == NULL && bytes == 0);
    for (uint32_t hash = 8; hash < 100; hash++) /* a client that changes its id all the time is told of for a while */
        CHECK_EQ(mpb_connection_introduces(&c, frame, 11, hash), hash < 7 + MPB_MAX_INTRODUCTIONS);
    c.introductions = 0;
    frame[1] = MPB_API_VERSIONS_KEY;
    CHECK(!mpb_connection_introduces(&c, frame, 11, 99));
    frame[3] = 3;
    CHECK(mpb_connection_introduces(&c, frame, 8, 99));
    mpb_connection_close(&c);
}

int main(int argc, char **argv)
{
    long streams = argc > 1 ? atol(argv[1]) : 300;
    uint64_t seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 20261121;
    for (long i = 0; i < streams; i++)
        run_stream(&seed);
    large_frame(MPB_SMALL_FRAME_BYTES + 8, (MPB_SMALL_FRAME_BYTES + 8) / 8);
    large_frame(1u << 20, 1u << 17);
    large_frame(100u << 20, 1u << 20);
    arrival();
    introductions();
    printf("%lu checks over %ld streams\n", checks_made, streams);
    return 0;
}
