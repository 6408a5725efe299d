/* What a processor knows of a request that it hands in: when it arrived, and whether somebody who is awake will take it
 * soon. */
#define _GNU_SOURCE
#include "tests/request/request_drama.h"

/* How many requests are left to handler 0, which is awake, before sleeping handler 2 is rung. It took its last request
 * `request_ns` ago, went round its loop `heartbeat_ns` ago (0: never), and we rang it `woken_ns` ago. A look that took
 * too long to tell says nothing: -1. */
static int left_to_it(struct drama *roomy, uint64_t request_ns, uint64_t heartbeat_ns, uint64_t woken_ns)
{
    struct mpb_processor *p = &roomy->p[0];
    struct mpb_process *row = &roomy->w.core.processes[roomy->h[0].slot];
    bool is_rung = false;
    int asked = 0;
    drama_open(roomy);
    p->batching = true;
    mpb_handler_announce(&roomy->w.core, 2);
    while (!is_rung && asked < 12) {
        ask(roomy, 0, MPB_PLANE_DATA, (uint32_t)asked++, 100);
        uint64_t now_ns = mpb_trace_clock_ns();
        mpb_store_relaxed(&row->request_since_ns, request_ns ? now_ns - request_ns : 0);
        mpb_store_relaxed(&row->heartbeat_ns, heartbeat_ns ? now_ns - heartbeat_ns : 0);
        p->woken_ns[0] = woken_ns ? now_ns - woken_ns : 0;
        mpb_processor_ring(p);
        is_rung = (mpb_load_relaxed(&roomy->w.core.doorbells->sleepers) >> 2 & 1) == 0;
        if (mpb_trace_clock_ns() - now_ns > 20000)
            asked = 100;
    }
    p->batching = false;
    drama_close(roomy);
    return asked < 100 ? asked - 1 : -1;
}

static int surely_left(uint64_t request_ns, uint64_t heartbeat_ns, uint64_t woken_ns)
{
    static const struct world_plan plan = {2, 4, 0, 16, 16, 2, 2, 64 << 10, 256 << 10};
    static struct drama roomy;
    int left = -1;
    world_open(&roomy.w, &plan);
    for (int i = 0; i < 10000 && left < 0; i++)
        left = left_to_it(&roomy, request_ns, heartbeat_ns, woken_ns);
    world_close(&roomy.w);
    return left;
}

/* A handler that shows that it is quick gets many, one that was there a while ago few, any other none. */
static void test_requests_left_to_who_is_awake(void)
{
    CHECK_EQ(surely_left(0, 0, 0), 0);
    CHECK_EQ(surely_left(1000, 0, 0), 8);
    CHECK_EQ(surely_left(0, 1000, 0), 8);
    CHECK_EQ(surely_left(500000, 1000, 0), 8);
    CHECK_EQ(surely_left(1000, 500000, 0), 8);
    CHECK_EQ(surely_left(0, 0, 1000), 8);
    CHECK_EQ(surely_left(100000, 0, 0), 2);
    CHECK_EQ(surely_left(0, 100000, 0), 2);
    CHECK_EQ(surely_left(0, 0, 100000), 2);
    CHECK_EQ(surely_left(500000, 500000, 500000), 0);
}

/* When a request's first byte had arrived, and when it was read, stand in its record from the start. */
static void test_a_request_knows_when_it_arrived(void)
{
    static struct drama d;
    uint8_t frame[100];
    world_open(&d.w, &small_plan);
    drama_open(&d);
    make_frame(frame, sizeof frame, 4);
    struct mpb_submission s = {.plane = MPB_PLANE_DATA,
                               .connection = 4,
                               .connection_generation = 1,
                               .frame = frame,
                               .length = sizeof frame,
                               .offset = MPB_PAYLOAD_INLINE,
                               .t0_ns = 64000,
                               .arrival_ns = 64000 - 64 * 9,
                               .frame_done_ns = 64000 + 64 * 5,
                               .client_hash = 77,
                               .inflight = 300};
    int64_t entry = mpb_submit(&d.p[0], &s);
    CHECK(entry >= 0);
    const struct mpb_trace *t = mpb_trace_of(d.w.core.entries[entry].trace);
    CHECK_EQ(t->rx_wait, 9);
    CHECK_EQ(t->stage[MPB_STAGE_FRAME_DONE], 5);
    CHECK_EQ(t->stage[MPB_STAGE_PARSED], 5); /* a small one: no second reading of the clock */
    CHECK_EQ(t->stage[MPB_STAGE_ENQUEUED], 5);
    CHECK_EQ(t->client_hash, 77);
    CHECK_EQ(t->inflight, 255);
    drama_close(&d);
    world_close(&d.w);
}

/* When a handler takes a request that was enqueued 5 ticks after 64 us, having answered another one at `served_ns`; now is
 * so much later that the record has no number for it. */
static uint32_t taken_after(uint64_t served_ns)
{
    static struct drama d;
    uint8_t frame[100];
    world_open(&d.w, &small_plan);
    drama_open(&d);
    make_frame(frame, sizeof frame, 4);
    struct mpb_submission s = {.plane = MPB_PLANE_DATA,
                               .connection = 4,
                               .connection_generation = 1,
                               .frame = frame,
                               .length = sizeof frame,
                               .offset = MPB_PAYLOAD_INLINE,
                               .t0_ns = 64000,
                               .frame_done_ns = 64000 + 64 * 5};
    CHECK(mpb_submit(&d.p[0], &s) >= 0);
    d.h[0].served_ns = served_ns;
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    CHECK(entry >= 0);
    uint32_t taken = mpb_trace_of(d.w.core.entries[entry].trace)->stage[MPB_STAGE_DEQUEUED];
    CHECK_EQ(d.h[0].served_ns, 0); /* good for one request */
    drama_close(&d);
    world_close(&d.w);
    return taken;
}

/* A handler's last reading of the clock is the next request's, but never one from before that was enqueued. */
static void test_a_handler_shares_its_last_look_at_the_clock(void)
{
    CHECK_EQ(taken_after(64000 + 64 * 7), 7);
    CHECK_EQ(taken_after(64000 + 64 * 6), 6);
    CHECK_EQ(taken_after(64000 + 64 * 5), MPB_TRACE_SATURATED);
    CHECK_EQ(taken_after(64000 + 64 * 3), MPB_TRACE_SATURATED);
    CHECK_EQ(taken_after(0), MPB_TRACE_SATURATED);
}

static uint64_t gauge(const struct drama *d, uint32_t counter)
{
    return mpb_load_relaxed(&d->w.core.counters[d->p[0].slot].value[counter]);
}

/* How many entries are in use, and how many bytes wait in them, is seen from outside. */
static void test_what_is_in_use_is_shown(void)
{
    static struct drama d;
    world_open(&d.w, &small_plan);
    drama_open(&d);
    for (uint32_t n = 1; n <= 3; n++) {
        ask(&d, 0, MPB_PLANE_DATA, 3 + n, 100);
        CHECK_EQ(gauge(&d, MPB_C_ENTRIES_IN_USE), n);
        CHECK_EQ(gauge(&d, MPB_C_QUEUED_BYTES), 100 * n);
    }
    drain(&d, ALL_HANDLERS, 3);
    CHECK_EQ(gauge(&d, MPB_C_ENTRIES_IN_USE), 0);
    CHECK_EQ(gauge(&d, MPB_C_QUEUED_BYTES), 0);
    drama_close(&d);
    world_close(&d.w);
}

int main(void)
{
    test_what_is_in_use_is_shown();
    test_requests_left_to_who_is_awake();
    test_a_request_knows_when_it_arrived();
    test_a_handler_shares_its_last_look_at_the_clock();
    printf("requests handed in: %lu checks\n", checks_made);
    return 0;
}
