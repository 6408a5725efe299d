/* Queueing disciplines, without kills (those are scenes of test_request_steps.c): which request is next under each, shares,
 * what a switch does to requests that wait, the bound over all classes with processors that push at the same time. */
#define _GNU_SOURCE
#include <pthread.h>
#include "tests/request/request_drama.h"

static struct drama d;
static uint32_t last_id;
static uint64_t rounds_full;

enum {
    PRODUCE = 0,
    FETCH = 1,
    LEADER_AND_ISR = 4,
    STOP_REPLICA = 5,
    UPDATE_METADATA = 6,
    HEARTBEAT = 12,
    METADATA = 3
};

/* A request of this API, with a client of this hash, that arrived then. Its id, which counts up. */
static uint32_t send_on(int processor, uint32_t plane, int16_t key, uint32_t length, uint32_t client,
                        uint64_t arrived_ns)
{
    uint8_t frame[8192];
    uint32_t id = ++last_id;
    make_frame(frame, length, id);
    frame[1] = (uint8_t)key;
    struct mpb_submission s = {.plane = plane,
                               .connection = id,
                               .connection_generation = 1,
                               .frame = frame,
                               .length = length,
                               .offset = MPB_PAYLOAD_INLINE,
                               .t0_ns = arrived_ns,
                               .frame_done_ns = arrived_ns,
                               .client_hash = client};
    CHECK(mpb_submit(&d.p[processor], &s) >= 0);
    return id;
}

static uint32_t send(int processor, int16_t key, uint32_t length, uint32_t client, uint64_t arrived_ns)
{
    return send_on(processor, MPB_PLANE_DATA, key, length, client, arrived_ns);
}

static int64_t claim_of(int handler)
{
    int64_t entry = mpb_handler_claim(&d.h[handler], false);
    CHECK(entry >= 0);
    return entry;
}

static void send_answers(void)
{
    int64_t entry;
    for (int p = 0; p < 2; p++)
        while ((entry = mpb_collect(&d.p[p])) >= 0)
            CHECK(mpb_sent(&d.p[p], (uint32_t)entry, 1, false));
}

/* Takes and answers the next request as if that had lasted `took_ns`, whoever had the core meanwhile; its id. */
static uint32_t next_taking(int handler, uint64_t took_ns)
{
    int64_t entry = claim_of(handler);
    uint32_t id = id_of(&d, entry);
    d.h[handler].taken_ns = mpb_trace_clock_ns() - took_ns;
    mpb_answer_nothing(&d.h[handler], (uint32_t)entry, MPB_ANSWER_NONE);
    send_answers();
    return id;
}

static uint32_t next(void) { return next_taking(0, 0); }

static void open_under(uint32_t discipline)
{
    drama_open(&d);
    d.scene = "disciplines";
    last_id = 0;
    use(&d, discipline);
}

static void close_at_rest(void)
{
    CHECK(mpb_plane_empty(&d.w.core, MPB_PLANE_DATA));
    send_answers();
    check_rest(&d);
    drama_close(&d);
}

static void test_by_arrival(void)
{
    for (uint32_t discipline = MPB_FIFO; discipline <= MPB_PLANE_ALONE; discipline++) {
        open_under(discipline);
        CHECK_EQ(mpb_plane_classes(&d.w.core, MPB_PLANE_DATA), 1);
        for (uint32_t i = 0; i < 4; i++)
            send((int)i % 2, i == 3 ? LEADER_AND_ISR : PRODUCE, 100, i, 100 - i);
        for (uint32_t i = 1; i <= 4; i++)
            CHECK_EQ(next(), i);
        close_at_rest();
    }
}

/* On the control plane, whatever the discipline of the processors: by rank, size or the time that is written in
 * them these would go the other way round. */
static void test_control_requests_by_arrival(void)
{
    for (uint32_t discipline = MPB_FIFO; discipline < MPB_DISCIPLINES; discipline++) {
        open_under(discipline);
        uint32_t data = send(0, LEADER_AND_ISR, 100, 1, 1);
        uint32_t first = send_on(0, MPB_PLANE_CONTROL, UPDATE_METADATA, 2000, 2, 400);
        uint32_t second = send_on(1, MPB_PLANE_CONTROL, STOP_REPLICA, 1000, 3, 300);
        CHECK_EQ(next(), first);
        uint32_t third = send_on(0, MPB_PLANE_CONTROL, LEADER_AND_ISR, 100, 4, 200); /* there is room for two */
        CHECK_EQ(next(), second);
        CHECK_EQ(next(), third);
        CHECK_EQ(next(), data);
        CHECK_EQ(mpb_plane_classes(&d.w.core, MPB_PLANE_CONTROL), 1);
        close_at_rest();
    }
}

static void test_ranks_of_control_requests(void)
{
    open_under(MPB_PRIORITY);
    uint32_t data = send(0, PRODUCE, 100, 1, 1), update = send(1, UPDATE_METADATA, 100, 1, 2);
    uint32_t stop = send(0, STOP_REPLICA, 100, 1, 3), leader = send(1, LEADER_AND_ISR, 100, 1, 4);
    CHECK_EQ(next(), leader);
    CHECK_EQ(next(), stop);
    CHECK_EQ(next(), update);
    CHECK_EQ(next(), data);
    close_at_rest();
}

/* Each one that is taken counts for the shares, also the request in the first entry; a look in vain does not. */
static void test_what_counts_for_the_shares(void)
{
    open_under(MPB_PRIORITY);
    struct mpb_chooser *chooser = &d.h[0].chooser;
    uint32_t before = chooser->takes;
    CHECK_EQ(mpb_handler_claim(&d.h[0], false), -1);
    CHECK_EQ(chooser->takes, before);
    for (uint32_t i = 1; i <= 3; i++) {
        send(0, PRODUCE, 100, 1, 1);
        int64_t entry = claim_of(0);
        CHECK_EQ(entry, 0);
        CHECK_EQ(chooser->takes, before + i);
        mpb_answer_nothing(&d.h[0], (uint32_t)entry, MPB_ANSWER_NONE);
        send_answers();
    }
    uint32_t classes = mpb_plane_classes(&d.w.core, MPB_PLANE_DATA), of_produce = MPB_CLASSES;
    CHECK(classes > 1);
    for (uint32_t last = 0; last < classes; last++) { /* whose the share before was */
        chooser->takes = MPB_SHARE - 1;
        chooser->share_of = last;
        send(0, PRODUCE, 100, 1, 1);
        next();
        CHECK_EQ(chooser->takes, 0);
        CHECK(of_produce == MPB_CLASSES || chooser->share_of == of_produce);
        of_produce = chooser->share_of;
    }
    close_at_rest();
}

/* While control requests keep coming, every eighth request is of another class that waits. */
static void test_nobody_starves(void)
{
    open_under(MPB_PRIORITY);
    uint32_t data[2] = {send(0, PRODUCE, 100, 1, 1), send(0, FETCH, 100, 1, 1)}, served = 0, takes = 0;
    send(1, LEADER_AND_ISR, 100, 1, 2);
    while (served < 2) {
        send(1, LEADER_AND_ISR, 100, 1, 2);
        if (next() == data[served])
            served++;
        CHECK(++takes <= 2 * 2 * MPB_SHARE); /* two classes wait: each has one in two shares */
    }
    CHECK(takes > MPB_SHARE);
    for (int i = 0; i < 3; i++)
        next();
    close_at_rest();
}

static void test_earliest_deadline(void)
{
    const uint64_t ms = 1000000;
    open_under(MPB_DEADLINE);
    uint32_t admin = send(0, METADATA, 100, 1, 1000 * ms), fetch = send(1, FETCH, 100, 1, 1000 * ms);
    uint32_t produce = send(0, PRODUCE, 100, 1, 1000 * ms), group = send(1, HEARTBEAT, 100, 1, 1015 * ms);
    CHECK_EQ(next(), produce); /* due at 1,020; 1,025; 1,050; 1,100 */
    CHECK_EQ(next(), group);
    uint32_t late = send(0, PRODUCE, 100, 1, 1081 * ms);
    CHECK_EQ(next(), fetch);
    CHECK_EQ(next(), admin); /* it waited long enough to go before a class that may wait less */
    CHECK_EQ(next(), late);
    CHECK(mpb_processor_use(&d.p[0], MPB_DEADLINE_REST)); /* a listener that keeps `fifo`, beside */
    uint32_t rest = send(0, PRODUCE, 100, 1, 2000 * ms);
    uint32_t own = send(1, PRODUCE, 100, 1, 2079 * ms), own_late = send(1, PRODUCE, 100, 1, 2081 * ms);
    CHECK_EQ(next(), own);
    CHECK_EQ(next(), rest);
    CHECK_EQ(next(), own_late);
    close_at_rest();
}

/* What a request of this API and size takes is measured, and goes by that the next time. */
static void test_shortest_learns(void)
{
    open_under(MPB_SHORTEST);
    send(0, PRODUCE, 100, 1, 1);
    next_taking(0, 9000000);
    send(0, FETCH, 100, 1, 1);
    next_taking(0, 100000);
    send(0, PRODUCE, 2000, 1, 1); /* another size is another matter */
    next_taking(0, 20000);
    uint32_t slow = send(0, PRODUCE, 100, 1, 1), unknown = send(0, METADATA, 100, 1, 1);
    uint32_t middle = send(0, FETCH, 100, 1, 1), fast = send(0, PRODUCE, 2000, 1, 1);
    CHECK_EQ(next_taking(0, 20000), fast);
    CHECK_EQ(next_taking(0, 100000), middle);
    CHECK_EQ(next_taking(0, 1), unknown);
    CHECK_EQ(next_taking(0, 9000000), slow);
    for (int i = 0; i < 60; i++) { /* it became fast: that is learned as well */
        send(0, PRODUCE, 100, 1, 1);
        next_taking(0, 5000);
    }
    send(0, FETCH, 100, 1, 1);
    uint32_t now_fast = send(0, PRODUCE, 100, 1, 1);
    d.h[0].chooser.takes = 0;
    CHECK_EQ(next(), now_fast);
    next();
    close_at_rest();
}

/* By API and size, in steps of four; an eighth of what is new each time. */
static void test_what_is_learned(void)
{
    static struct mpb_expected expected;
    static const struct {
        uint32_t bytes, size, took, learned;
    } STEPS[] = {
        {0, 0, 8000, 8000}, {255, 0, 16000, 9000},   {256, 1, 700, 700}, {1023, 1, 0, 700},
        {1024, 2, 5, 5},    {4095, 2, 13, 6},        {4096, 3, 1, 1},    {(1 << 20) - 1, 6, 7, 7},
        {1 << 20, 7, 9, 9}, {UINT32_MAX, 7, 16, 10},
    };
    static const uint32_t CLASS_FROM_NS[] = {0, 1, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22};
    struct mpb_entry entry = {.api_key = FETCH};
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        entry.payload_length = STEPS[i].bytes;
        entry.service_ns = STEPS[i].took;
        mpb_expected_learn(&expected, &entry);
        CHECK_EQ(expected.ns[FETCH][STEPS[i].size], STEPS[i].learned);
    }
    entry.api_key = MPB_LEARNED_APIS; /* nothing is kept of it */
    mpb_expected_learn(&expected, &entry);
    CHECK_EQ(mpb_class_of(MPB_SHORTEST, &entry, 0, 1, &expected), 0);
    entry.api_key = MPB_LEARNED_APIS - 1;
    for (uint32_t class = 1; class < MPB_CLASSES; class++) {
        expected.ns[MPB_LEARNED_APIS - 1][7] = CLASS_FROM_NS[class];
        CHECK_EQ(mpb_class_of(MPB_SHORTEST, &entry, 0, 1, &expected), class);
        if (class > 1) {
            expected.ns[MPB_LEARNED_APIS - 1][7] = CLASS_FROM_NS[class] - 1;
            CHECK_EQ(mpb_class_of(MPB_SHORTEST, &entry, 0, 1, &expected), class - 1);
        }
    }
    CHECK_EQ(mpb_class_of(MPB_SHORTEST, &entry, 0, 1, NULL), 0);
}

/* The time a request waits with others is not what it takes. */
static void test_parked_time_is_not_charged(void)
{
    open_under(MPB_SHORTEST);
    send(0, FETCH, 100, 1, 1);
    int64_t entry = claim_of(0);
    d.h[0].taken_ns -= 30000;
    mpb_park(&d.h[0], (uint32_t)entry, MPB_PARKED_FETCH);
    d.h[0].taken_ns -= 1000000000; /* and meanwhile it does other things */
    mpb_resume(&d.h[0], (uint32_t)entry);
    d.h[0].taken_ns -= 20000;
    mpb_answer_nothing(&d.h[0], (uint32_t)entry, MPB_ANSWER_NONE);
    uint32_t spent = d.w.core.entries[entry].service_ns;
    CHECK(spent >= 50000 && spent < 500000000);
    close_at_rest();
}

/* Two clients that differ in class. */
static void two_clients(uint32_t clients[2])
{
    struct mpb_entry entry = {0};
    clients[0] = 1;
    for (clients[1] = 2;
         mpb_class_of(MPB_FAIR, &entry, clients[1], 1, NULL) == mpb_class_of(MPB_FAIR, &entry, 1, 1, NULL);)
        clients[1]++;
}

/* One client's requests take ten times as long: it gets a tenth of the other's requests, and half of the time. */
static void test_fair_by_time(void)
{
    uint32_t clients[2], served[2] = {0}, of[MAX_IDS * 64] = {0};
    two_clients(clients);
    open_under(MPB_FAIR);
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < 2; n++)
            of[send(i, PRODUCE, 100, clients[i], 1)] = (uint32_t)i;
    for (int n = 0; n < 1100; n++) {
        int64_t entry = claim_of(0);
        uint32_t who = of[id_of(&d, entry)];
        served[who]++;
        d.h[0].taken_ns = mpb_trace_clock_ns() - (who == 0 ? 1000000 : 100000);
        mpb_answer_nothing(&d.h[0], (uint32_t)entry, MPB_ANSWER_NONE);
        CHECK_EQ(mpb_collect(&d.p[who]), entry);
        CHECK(mpb_sent(&d.p[who], (uint32_t)entry, 1, false));
        of[send((int)who, PRODUCE, 100, clients[who], 1)] = who; /* each has always two waiting */
    }
    CHECK(served[0] >= 90 && served[0] <= 110);
    for (int n = 0; n < 4; n++)
        next();
    close_at_rest();
}

/* Who was away gets no more for it than who just began, and a debt is not forgotten by being away for a moment. */
static void test_fair_after_a_pause(void)
{
    uint32_t clients[2];
    two_clients(clients);
    open_under(MPB_FAIR);
    send(0, PRODUCE, 100, clients[0], 1);
    next_taking(0, 50 * MPB_QUANTUM_NS);
    uint32_t debtor = send(0, PRODUCE, 100, clients[0], 1);
    for (int n = 0; n < 20; n++) {
        uint32_t other = send(1, PRODUCE, 100, clients[1], 1);
        CHECK_EQ(next_taking(0, MPB_QUANTUM_NS), other);
    }
    CHECK_EQ(next_taking(0, 0), debtor); /* alone, it need not wait for its debt */
    for (int n = 0; n < 200; n++) {
        send(0, PRODUCE, 100, clients[0], 1);
        next_taking(0, MPB_QUANTUM_NS);
    }
    for (uint32_t c = 0; c < MPB_CLASSES; c++) /* nobody saved up */
        CHECK(d.h[0].chooser.deficit_ns[c] <= MPB_QUANTUM_NS);
    close_at_rest();
}

static void test_clients_meet_for_a_while_only(void)
{
    struct mpb_entry entry = {.connection = 7};
    uint32_t apart = 0, used = 0;
    for (uint64_t epoch = 0; epoch < 64; epoch++) {
        uint64_t now = epoch << MPB_PERTURB_SHIFT;
        uint32_t one = mpb_class_of(MPB_FAIR, &entry, 11, now, NULL);
        CHECK(one >= 1 && one < MPB_CLASSES);
        used |= 1u << one;
        apart += one != mpb_class_of(MPB_FAIR, &entry, 12, now, NULL);
    }
    CHECK_EQ(used, 0x7e);
    CHECK(apart > 32);
    uint32_t nameless = mpb_class_of(MPB_FAIR, &entry, 0, 1, NULL), others = 0;
    for (entry.connection = 8; entry.connection < 16; entry.connection++)
        others += mpb_class_of(MPB_FAIR, &entry, 0, 1, NULL) != nameless;
    CHECK(others > 0); /* told apart by connection */
}

/* Every discipline serves what waits of every other one, and new requests beside. */
static void test_switches(void)
{
    for (uint32_t before = 0; before < MPB_DISCIPLINES; before++)
        for (uint32_t after = 0; after < MPB_DISCIPLINES; after++) {
            uint64_t seen = 0;
            open_under(before);
            send(0, LEADER_AND_ISR, 100, 3, 5);
            send(1, PRODUCE, 100, 1, 6);
            use(&d, after);
            send(0, FETCH, 100, 2, 7);
            for (int i = 0; i < 40; i++) { /* one keeps coming: what waited does not wait for ever */
                send(1, PRODUCE, 100, 1, 8 + (uint64_t)i * 10000000);
                seen |= 1ull << next();
            }
            CHECK((seen & 0xe) == 0xe);
            for (int i = 0; i < 3; i++)
                seen |= 1ull << next();
            CHECK_EQ(seen, (1ull << 44) - 2);
            close_at_rest();
        }
}

/* ------------------------------------------------------------------ the bound over all classes */
enum { ROUNDS = 4000 };
static pthread_barrier_t round_begins, round_ends;

/* Fills the plane together with the other one; who is told that it is full has seen it so twice. */
static void *pusher(void *argument)
{
    struct mpb_processor *p = argument;
    uint8_t frame[100];
    make_frame(frame, sizeof frame, 1);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        int64_t entry = 0;
        pthread_barrier_wait(&round_begins);
        for (uint32_t i = 0; entry != MPB_PLANE_FULL; i++) {
            struct mpb_submission s = {.connection = n,
                                       .connection_generation = 1,
                                       .frame = frame,
                                       .length = sizeof frame,
                                       .offset = MPB_PAYLOAD_INLINE,
                                       .t0_ns = 1,
                                       .client_hash = n * 8 + i + 1};
            entry = mpb_submit(p, &s);
        }
        mpb_abandon(p, p->parked);
        pthread_barrier_wait(&round_ends);
    }
    return NULL;
}

/* Two processors that push into different rings at the same moment never hold more than the bound, and nearly always
 * exactly that: both may have left the last place to the other, then their next try takes it. */
static void test_the_bound_holds_for_all(void)
{
    pthread_t pushers[2];
    uint64_t bound = d.w.core.header->plane_bound[MPB_PLANE_DATA], full = 0, waiting;
    open_under(MPB_FAIR);
    CHECK_EQ(pthread_barrier_init(&round_begins, NULL, 3) | pthread_barrier_init(&round_ends, NULL, 3), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&pushers[i], NULL, pusher, &d.p[i]), 0);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        pthread_barrier_wait(&round_begins);
        pthread_barrier_wait(&round_ends);
        waiting = mpb_plane_depth(&d.w.core, MPB_PLANE_DATA);
        CHECK(waiting <= bound && waiting > 0);
        full += waiting == bound;
        for (; waiting > 0; waiting--)
            mpb_answer_nothing(&d.h[0], (uint32_t)claim_of(0), MPB_ANSWER_NONE);
        send_answers();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(pushers[i], NULL);
    CHECK(full > ROUNDS / 2);
    rounds_full = full;
    close_at_rest();
}

/* One that is about to push has its place: the others leave it, and take it when it gives up. */
static void test_room_for_who_is_about_to_push(void)
{
    mpb_atomic32 *other = &d.w.core.doorbells->processor_mark[1].pushing;
    open_under(MPB_FAIR);
    for (uint32_t i = 0; i < 3; i++)
        send(0, PRODUCE, 100, i, 1);
    mpb_store_release(other, 1);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 9, 100), MPB_PLANE_FULL);
    CHECK_EQ(mpb_retry(&d.p[0], d.p[0].parked), MPB_PLANE_FULL);
    struct mpb_recovery done;
    replace_processor(&d, 1); /* it died there: its successor needs no place */
    mpb_recover_processor(&d.p[1], &done);
    CHECK_EQ(mpb_load_acquire(other), 0);
    CHECK_EQ(mpb_retry(&d.p[0], d.p[0].parked), d.p[0].parked);
    CHECK_EQ(submit(&d.p[1], MPB_PLANE_DATA, 10, 100), MPB_PLANE_FULL);
    CHECK(mpb_abandon(&d.p[1], d.p[1].parked));
    for (int h = 0; h < CAST; h++)
        atomic_exchange(&d.w.core.doorbells->handler[h].poke, 0);
    for (int i = 0; i < 4; i++)
        next();
    close_at_rest();
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_by_arrival();
    test_control_requests_by_arrival();
    test_ranks_of_control_requests();
    test_what_counts_for_the_shares();
    test_nobody_starves();
    test_earliest_deadline();
    test_shortest_learns();
    test_what_is_learned();
    test_parked_time_is_not_charged();
    test_fair_by_time();
    test_fair_after_a_pause();
    test_clients_meet_for_a_while_only();
    test_switches();
    test_room_for_who_is_about_to_push();
    test_the_bound_holds_for_all();
    printf("disciplines: %lu checks, two processors filled a plane to its bound %llu times in %d\n", checks_made,
           (unsigned long long)rounds_full, ROUNDS);
    return 0;
}
