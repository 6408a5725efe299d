/* Which receives are asked when their bytes arrived, and which borrow the wait of the one before: with a kernel that does
 * what a script says, and as a sample of a long stream whose true waits are known. */
#include "tests/stepping/scripted_calls.h"
#include "network/connection.h"

#define SECOND 1000000000ull
#define BORROWED(ns) ((ns) | MPB_ARRIVAL_BORROWED)

static uint8_t scratch[MPB_RECEIVE_BYTES];

/* One receive at `now_ns` of bytes that arrived `waited_ns` before (of both clocks, which are the same here); returns
 * the arrival that is noted. */
static uint64_t receive(struct mpb_connection *c, struct mpb_arrivals *arrivals, uint64_t now_ns, uint64_t waited_ns,
                        int bytes)
{
    memset(&script, 0, sizeof script);
    script.received[0].result = bytes;
    script.received[0].arrived_ns = (int64_t)(now_ns - waited_ns);
    script.receive_lines = 1;
    arrivals->sampled_ns = now_ns;
    CHECK_EQ(mpb_connection_receive(c, scratch, now_ns, arrivals), bytes > 0 ? MPB_RECEIVED : MPB_RECEIVED_NOTHING);
    c->start = c->end = 0; /* all frames of it were taken */
    return c->later_arrival_ns;
}

static void test_who_is_asked(void)
{
    enum { STAMP, BORROW, NOTHING };
    static const struct {
        uint64_t after_ns, waited_ns;
        int bytes;
        uint32_t may_borrow; /* before it */
        int how;
        bool lends; /* the next one may borrow */
    } ROWS[] = {
        {0, 300, 5, 0, STAMP, false},                /* the first of all: since when, nobody knows */
        {MPB_BORROW_NS, 400, 5, 0, STAMP, false},    /* late */
        {MPB_BORROW_NS - 1, 500, 5, 0, STAMP, true}, /* close behind the one before */
        {MPB_BORROW_NS - 1, 77, 5, 2, BORROW, true}, /* what it waited itself is not asked */
        {10, 77, 5, 1, BORROW, false},               /* the last that may */
        {10, 88, 5, 0, STAMP, true},
        {MPB_BORROW_NS, 99, 5, 7, STAMP, false}, /* late: may have waited for long, lends nothing */
        {10, MPB_BORROW_NS, 5, 0, STAMP, false}, /* impossible: a step of the wall clock */
        {10, MPB_BORROW_NS - 1, 5, 0, STAMP, true},
        {10, 55, MPB_RECEIVE_BYTES, 3, BORROW, false}, /* there is more: as long as nobody knows */
        {10, 66, MPB_RECEIVE_BYTES, 0, STAMP, false},
        {10, 0, -EAGAIN, 4, NOTHING, true},
        {10, 0, -EAGAIN, 0, NOTHING, false},
    };
    struct mpb_arrivals arrivals = {.wanted = true, .chance = 4}; /* draws of 1 and more follow */
    struct mpb_connection c = {.fd = 77};
    uint64_t now_ns = 5 * SECOND, waited_ns = 0;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        now_ns += ROWS[i].after_ns;
        c.may_borrow = ROWS[i].may_borrow;
        arrivals.chance = 4;
        bool plain = ROWS[i].may_borrow > 0 && ROWS[i].after_ns < MPB_BORROW_NS;
        uint64_t found_ns = receive(&c, &arrivals, now_ns, ROWS[i].waited_ns, ROWS[i].bytes);
        CHECK_EQ(script.plain_receives, plain);
        if (ROWS[i].how == STAMP)
            waited_ns = ROWS[i].waited_ns;
        if (ROWS[i].how == STAMP)
            CHECK_EQ(found_ns, now_ns - waited_ns);
        if (ROWS[i].how == BORROW)
            CHECK_EQ(found_ns, BORROWED(now_ns - waited_ns));
        CHECK_EQ(c.may_borrow > 0, ROWS[i].lends);
    }
    mpb_connection_close(&c);
}

/* A kernel that gives no stamp: nothing is lent. */
static void test_nothing_to_lend(void)
{
    struct mpb_arrivals arrivals = {.wanted = true};
    struct mpb_connection c = {.fd = 77};
    for (uint64_t n = 1; n < 20; n++) {
        memset(&script, 0, sizeof script);
        script.received[0].result = 1;
        script.received[0].type = SCM_RIGHTS;
        script.receive_lines = 1;
        arrivals.sampled_ns = SECOND;
        CHECK_EQ(mpb_connection_receive(&c, scratch, SECOND + 100 * n, &arrivals), MPB_RECEIVED);
        CHECK(c.later_arrival_ns == 0 && c.may_borrow == 0 && script.plain_receives == 0);
    }
    mpb_connection_close(&c);
}

/* The first frame's arrival is that of its first byte, borrowed or not. */
static void test_a_frame_in_two_parts(void)
{
    struct mpb_arrivals arrivals = {.wanted = true};
    struct mpb_connection c = {.fd = 77, .later_ns = SECOND, .waited_ns = 30, .may_borrow = 1};
    CHECK_EQ(receive(&c, &arrivals, SECOND + 100, 9, 3), BORROWED(SECOND + 70));
    CHECK_EQ(c.first_arrival_ns, BORROWED(SECOND + 70));
    c.end = 3; /* not taken yet */
    CHECK_EQ(receive(&c, &arrivals, SECOND + 200, 10, 3), SECOND + 190);
    CHECK_EQ(c.first_arrival_ns, BORROWED(SECOND + 70));
    mpb_connection_close(&c);
}

/* Two connections that are read in turn, 20 and 200 us late, with a wait above the bound now and then: the sum of each is
 * right to some percent, every long wait is there once, and one of four and a half receives was stamped. */
static void test_what_a_sample_says(void)
{
    enum { ROUNDS = 40000, RARE = 500 };
    struct mpb_arrivals arrivals = {.wanted = true};
    struct mpb_connection of[2] = {{.fd = 77}, {.fd = 77}};
    double noted_ns[2] = {0}, true_ns[2] = {0};
    unsigned stamped = 0, longest = 0, noise = 12345, draws[8] = {0};
    uint64_t now_ns = SECOND;
    for (unsigned n = 0; n < ROUNDS; n++) {
        bool rare = n % RARE == RARE - 1;
        now_ns += rare ? 9 * MPB_BORROW_NS : 220000;
        for (int k = 0; k < 2; k++) {
            noise = noise * 1103515245u + 12345u;
            uint64_t waited_ns = rare ? 8 * MPB_BORROW_NS : (k ? 200000 : 20000) * (uint64_t)(noise >> 16 & 255) / 256;
            uint64_t arrival_ns = receive(&of[k], &arrivals, now_ns, waited_ns, 100);
            uint64_t found_ns = now_ns - (arrival_ns & ~MPB_ARRIVAL_BORROWED);
            stamped += script.plain_receives == 0;
            draws[of[k].may_borrow & 7] += script.plain_receives == 0;
            longest += found_ns >= MPB_BORROW_NS;
            noted_ns[k] += rare ? 0 : (double)found_ns;
            true_ns[k] += rare ? 0 : (double)waited_ns;
        }
    }
    CHECK_EQ(longest, 2 * ROUNDS / RARE);
    for (int k = 0; k < 2; k++)
        CHECK(noted_ns[k] > 0.97 * true_ns[k] && noted_ns[k] < 1.03 * true_ns[k]);
    CHECK(stamped > 2 * ROUNDS * 21 / 100 && stamped < 2 * ROUNDS * 24 / 100);
    for (int gap = 0; gap < 8; gap++)
        CHECK(draws[gap] > stamped / 10 && draws[gap] < stamped * 3 / 20);
    for (int k = 0; k < 2; k++)
        mpb_connection_close(&of[k]);
}

int main(void)
{
    test_who_is_asked();
    test_nothing_to_lend();
    test_a_frame_in_two_parts();
    test_what_a_sample_says();
    printf("borrowed arrivals: %lu checks\n", checks_made);
    return 0;
}
