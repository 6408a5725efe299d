/* The request path without kills: what each call promises, bounds, parking, poison, answers of dead processors, and
 * requests through threads whose waits have no time limit: a lost wake-up hangs the test (also under ThreadSanitizer). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <poll.h>
#include <unistd.h>
#include "shm/arena.h"
#include "shm/waits.h"
#include "request/killers.h"
#include "tests/request/request_drama.h"

static struct drama d;

static void test_bounds_of_planes(void)
{
    drama_open(&d);
    d.scene = "bounds";
    refill(&d);
    for (uint32_t id = 0; id < 2; id++)
        ask(&d, (int)id, MPB_PLANE_CONTROL, id, 100);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_CONTROL, 2, 100), MPB_PLANE_FULL);
    CHECK_EQ(mpb_load_relaxed(&d.w.core.doorbells->want_space), 1ull << 32);
    uint32_t parked = d.p[0].parked;
    ask(&d, 0, MPB_PLANE_DATA, 4, 100); /* the other plane is not concerned */
    CHECK_EQ(mpb_retry(&d.p[0], parked), MPB_PLANE_FULL);
    execute(&d, &d.h[0], mpb_handler_claim(&d.h[0], true));
    CHECK_EQ(mpb_load_relaxed(&d.w.core.doorbells->want_space), 0); /* down to half: whoever waits is rung */
    CHECK_EQ(mpb_retry(&d.p[0], parked), parked);
    CHECK_EQ(mpb_retry(&d.p[0], parked), MPB_NOT_PARKED);
    d.submitted[2] = d.must_answer[2] = 1;
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

/* Two class rings: handlers of `fifo` empty the first one first, and the plane's bound counts over both. */
static void test_classes_of_a_plane(void)
{
    struct mpb_core *core = &d.w.core;
    drama_open(&d);
    d.scene = "classes";
    mpb_plane_raise_classes(core, MPB_PLANE_DATA, 2);
    uint32_t id = 4;
    for (; mpb_plane_depth(core, MPB_PLANE_DATA) < core->header->plane_bound[MPB_PLANE_DATA]; id++)
        ask(&d, 0, MPB_PLANE_DATA, id, 100);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, id, 100), MPB_PLANE_FULL);
    d.submitted[id] = d.must_answer[id] = 1;
    uint32_t other = d.p[0].parked;
    core->entries[other].ring_class = 1;
    CHECK_EQ(mpb_retry(&d.p[0], other), MPB_PLANE_FULL);
    execute(&d, &d.h[0], mpb_handler_claim(&d.h[0], false));
    CHECK_EQ(mpb_retry(&d.p[0], other), other);
    CHECK_EQ(mpb_plane_depth(core, MPB_PLANE_DATA), core->header->plane_bound[MPB_PLANE_DATA]);
    for (uint32_t i = 5; i < id; i++) {
        int64_t entry = mpb_handler_claim(&d.h[0], false);
        CHECK(entry >= 0 && entry != other);
        execute(&d, &d.h[0], entry);
    }
    CHECK(!mpb_plane_empty(core, MPB_PLANE_DATA));
    execute(&d, &d.h[0], mpb_handler_claim(&d.h[0], false));
    CHECK(mpb_plane_empty(core, MPB_PLANE_DATA));
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

/* That partitions moved is looked at behind the requests that are there, or after MPB_DIRTY_WAITS_NS; all else at once. */
static void test_a_look_at_what_moved_waits_for_requests(void)
{
    drama_open(&d);
    d.scene = "moved";
    struct mpb_handler *h = &d.h[0];
    mpb_atomic64 *poke = &d.w.core.doorbells->handler[0].poke;
    for (uint32_t id = 4; id < 8; id++)
        ask(&d, (int)id % 2, MPB_PLANE_DATA, id, 100);
    mpb_poke_handler(&d.w.core, 0, MPB_POKE_DIRTY, h->slot);
    execute(&d, h, mpb_handler_claim(h, false));
    CHECK_EQ(mpb_handler_claim(h, true), MPB_CLAIM_POKED);
    CHECK_EQ(h->dirty_since_ns, 0);
    execute(&d, h, mpb_handler_claim(h, false));
    CHECK(h->dirty_since_ns != 0 && h->dirty_since_ns <= h->taken_ns);
    h->dirty_since_ns = h->taken_ns - MPB_DIRTY_WAITS_NS;
    CHECK_EQ(mpb_handler_claim(h, false), MPB_CLAIM_POKED);
    CHECK_EQ(h->dirty_since_ns, 0);
    h->dirty_since_ns = h->taken_ns - MPB_DIRTY_WAITS_NS + 1;
    execute(&d, h, mpb_handler_claim(h, false));
    for (uint64_t more = MPB_POKE_SCAN; more <= MPB_POKE_COMMAND; more <<= 1) {
        mpb_store_relaxed(poke, MPB_POKE_DIRTY | more);
        CHECK_EQ(mpb_handler_claim(h, false), MPB_CLAIM_POKED);
    }
    mpb_store_relaxed(poke, 0);
    h->dirty_since_ns = 1; /* looked at meanwhile: the next time counts from then */
    execute(&d, h, mpb_handler_claim(h, false));
    CHECK_EQ(h->dirty_since_ns, 0);
    mpb_store_relaxed(poke, MPB_POKE_DIRTY);
    CHECK_EQ(mpb_handler_claim(h, false), MPB_CLAIM_POKED);
    mpb_store_relaxed(poke, 0);
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

/* A handler that stopped between claiming a request and removing its hint holds no room back. */
static void test_a_stale_head_is_no_bound(void)
{
    drama_open(&d);
    d.scene = "stale head";
    for (uint32_t id = 4; id < 8; id++)
        ask(&d, (int)id % 2, MPB_PLANE_DATA, id, 100);
    mpb_atomic64 *state = &d.w.core.entries[0].state;
    CHECK_EQ(id_of(&d, 0), 4);
    mpb_store_release(state, mpb_state_word(mpb_state_generation(*state), MPB_E_CLAIMED, d.h[0].slot));
    ask(&d, 0, MPB_PLANE_DATA, 8, 100);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 10, 100), MPB_PLANE_FULL);
    CHECK(mpb_abandon(&d.p[0], d.p[0].parked));
    execute(&d, &d.h[0], 0);
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

static void test_entries_and_arena_run_out(void)
{
    drama_open(&d);
    d.scene = "out of";
    int64_t big = mpb_arena_take(&d.p[0].arena, 60 << 10);
    CHECK(big >= 0);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 2, 5000), MPB_NO_SPACE);
    CHECK(mpb_arena_give(&d.p[0].arena, (uint64_t)big, 60 << 10));
    CHECK(!mpb_arena_give(&d.p[0].arena, (uint64_t)big, 60 << 10));
    for (uint32_t i = 0; i < 6; i++) {
        int64_t entry = submit(&d.p[0], i < 4 ? MPB_PLANE_DATA : MPB_PLANE_CONTROL, 2 * i, 100);
        CHECK(entry >= 0);
        d.submitted[2 * i] = 1;
    }
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 20, 100), MPB_NO_ENTRY);
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

/* While something is in flight a processor looks for answers by itself: nobody may have rung for them. */
static void test_sleeps_while_requests_are_in_flight(void)
{
    static const struct {
        int after_ms, sleeps_ms;
    } STEPS[] = {{0, 5}, {5, 5}, {10, 10}, {20, 20}, {299, 299}, {301, 300}};
    const uint64_t begin = 1000000000;
    drama_open(&d);
    d.scene = "doze";
    CHECK_EQ(mpb_processor_doze_ms(&d.p[0], begin, 300), 300);
    for (int round = 0; round < 2; round++) {
        ask(&d, 0, MPB_PLANE_DATA, 2 + 2 * (uint32_t)round, 100);
        for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
            CHECK_EQ(mpb_processor_doze_ms(&d.p[0], begin + (uint64_t)STEPS[i].after_ms * 1000000, 300),
                     STEPS[i].sleeps_ms);
    }
    drain(&d, ALL_HANDLERS, 3);
    CHECK_EQ(mpb_processor_doze_ms(&d.p[0], begin, 300), 300);
    drama_close(&d);
}

/* A handler that dies three times over one request; at the second it should no more be executed, at the third it is
 * closed without anybody. What is parked is not counted. */
/* What a request waits for stands in its entry, and by the trace's own number in its record. */
static void test_parked_kinds(void)
{
    static const struct {
        enum mpb_parked_kind kind;
        uint8_t traced;
    } kinds[] = {{MPB_PARKED_PRODUCE, MPB_PURG_PRODUCE},
                 {MPB_PARKED_FETCH, MPB_PURG_FETCH},
                 {MPB_PARKED_CONTROLLER, MPB_PURG_CONTROLLER},
                 {MPB_PARKED_COORDINATOR, MPB_PURG_JOIN}};
    drama_open(&d);
    d.scene = "parked kinds";
    ask(&d, 0, MPB_PLANE_DATA, 4, 100);
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    struct mpb_entry *e = &d.w.core.entries[entry];
    mpb_trace_of(e->trace)->t0_ns = 1; /* traced */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        mpb_park(&d.h[0], (uint32_t)entry, kinds[i].kind);
        CHECK_EQ(e->parked_kind, kinds[i].kind);
        CHECK_EQ(mpb_trace_of(e->trace)->purg_kind, kinds[i].traced);
        mpb_resume(&d.h[0], (uint32_t)entry);
    }
    drama_close(&d);
}

static void test_poison(void)
{
    struct mpb_recovery done;
    drama_open(&d);
    d.scene = "poison";
    ask(&d, 0, MPB_PLANE_DATA, 4, 100);
    ask(&d, 1, MPB_PLANE_DATA, 5, 100);
    int64_t parked = mpb_handler_claim(&d.h[0], false);
    mpb_park(&d.h[0], (uint32_t)parked, MPB_PARKED_FETCH);
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    CHECK_EQ(id_of(&d, entry), 5);
    for (uint32_t deaths = 1; deaths <= 2; deaths++) {
        replace_handler(&d, 0);
        mpb_recover_handler(&d.h[0], &done);
        CHECK_EQ(done.requeued, deaths == 1 ? 2 : 1);
        mpb_recover_handler(&d.h[0], &done); /* again: nothing */
        CHECK_EQ(done.requeued + done.hinted + done.closed, 0);
        CHECK_EQ(mpb_attempts(&d.w.core.entries[entry]), deaths);
        CHECK_EQ(mpb_attempts(&d.w.core.entries[parked]), 0);
        CHECK_EQ(d.w.core.entries[parked].parked_kind, MPB_PARKED_FETCH);
        atomic_exchange(&d.w.core.doorbells->handler[0].poke, 0);
        if (deaths == 1)
            execute(&d, &d.h[1],
                    (atomic_exchange(&d.w.core.doorbells->handler[1].poke, 0), mpb_handler_claim(&d.h[1], false)));
        CHECK_EQ(mpb_handler_claim(&d.h[0], false), entry);
    }
    CHECK(mpb_killer_known(&d.w.core, d.w.core.entries[entry].payload_bytes, 100));
    CHECK_EQ(submit(&d.p[1], MPB_PLANE_DATA, 5, 100), MPB_POISON);
    replace_handler(&d, 0);
    mpb_recover_handler(&d.h[0], &done);
    CHECK_EQ(done.closed, 1);
    CHECK_EQ(d.w.core.entries[entry].answer_kind, MPB_ANSWER_CLOSE);
    drain(&d, ALL_HANDLERS, 3);
    CHECK_EQ(d.answered[5], 1);
    drama_close(&d);
}

static void test_answers_of_a_dead_processor_are_dropped(void)
{
    struct mpb_recovery done;
    drama_open(&d);
    d.scene = "dropped";
    ask(&d, 0, MPB_PLANE_DATA, 6, 2000);
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    replace_processor(&d, 0);
    mpb_recover_processor(&d.p[0], &done);
    CHECK_EQ(d.p[0].queued_bytes, 2000); /* still held by the handler */
    CHECK_EQ(d.p[0].arena.units.used, 2);
    execute(&d, &d.h[0], entry);
    CHECK_EQ(mpb_collect(&d.p[0]), -1);
    CHECK_EQ(d.answered[6], 0);
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

static void test_units(void)
{
    struct mpb_units units;
    CHECK_EQ(mpb_units_open(&units, 1000 << 10, 1024, false), 0);
    uint64_t seed = 7;
    struct {
        uint32_t first, n;
    } held[64] = {{0, 0}};
    uint32_t used = 0;
    for (int i = 0; i < 200000; i++) {
        uint32_t at = (uint32_t)(next_random(&seed) % 64);
        if (held[at].n != 0) {
            CHECK(mpb_units_give(&units, held[at].first, held[at].n));
            used -= held[at].n;
            held[at].n = 0;
        } else {
            uint32_t n = 1 + (uint32_t)(next_random(&seed) % (i % 5 == 0 ? 200 : 20));
            int64_t first = mpb_units_take(&units, n);
            CHECK(first >= 0 || used + n + 400 > 1000 || n > 20);
            for (int other = 0; first >= 0 && other < 64; other++)
                CHECK(held[other].n == 0 || held[other].first + held[other].n <= first ||
                      held[other].first >= first + n);
            held[at].first = (uint32_t)first;
            held[at].n = first < 0 ? 0 : n;
            used += held[at].n;
        }
        CHECK_EQ(units.used, used);
    }
    CHECK_EQ(mpb_units_take(&units, 1001), -1);
    CHECK(!mpb_units_give(&units, 999, 2));
    mpb_units_close(&units);
}

/* Memory above the watermark goes back to the kernel once nothing there was in use for a while; what is in use never. */
static void test_punching(void)
{
    struct mpb_units units;
    const uint64_t part_bytes = 1 << 20, keep = 256 << 10, idle = 5000;
    uint8_t *part = mmap(NULL, part_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(part != MAP_FAILED);
    CHECK_EQ(mpb_units_open(&units, part_bytes, 1024, false), 0);
    memset(part, 7, part_bytes);
    int64_t low = mpb_units_take(&units, 100), high = mpb_units_take(&units, 500), top = mpb_units_take(&units, 100);
    CHECK(low == 0 && high == 100 && top == 600);
    CHECK(mpb_units_give(&units, 600, 100));
    CHECK_EQ(mpb_units_punch(&units, part, keep, 10000, idle), 0); /* in use above the watermark until now */
    CHECK(mpb_units_give(&units, 100, 500));
    CHECK_EQ(mpb_units_punch(&units, part, keep, 14999, idle), 0);
    CHECK_EQ(mpb_units_punch(&units, part, keep, 15000, idle), part_bytes - keep);
    CHECK_EQ(mpb_units_punch(&units, part, keep, 99999, idle), 0);
    CHECK(part[0] == 7 && part[keep - 1] == 7 && part[keep] == 0 && part[part_bytes - 1] == 0);
    CHECK_EQ(mpb_units_take(&units, 300), 100);
    memset(part + (100 << 10), 8, 300 << 10);
    CHECK_EQ(mpb_units_punch(&units, part, keep, 200000, idle), 0);
    CHECK(mpb_units_give(&units, 100, 300));
    CHECK_EQ(mpb_units_punch(&units, part, keep, 300000, idle), (400 << 10) - keep);
    mpb_units_close(&units);
    munmap(part, part_bytes);
}

static void test_extents_run_out_and_come_back(void)
{
    drama_open(&d);
    struct mpb_extents *e = &d.h[0].extents; /* 256 KiB: 16 units */
    int64_t all = mpb_extent_take(e, 256 << 10);
    CHECK(all >= 0);
    CHECK_EQ(mpb_extent_take(e, 1), -1);
    CHECK_EQ(mpb_extent_take(e, 257 << 10), -1);
    uint32_t number = mpb_extent_link(e, (uint32_t)all, 5, 1);
    mpb_extent_free(&d.w.core, number, 4); /* not its entry: nothing happens */
    CHECK_EQ(mpb_extent_take(e, 1), -1);
    mpb_extent_free(&d.w.core, number, 5);
    mpb_extent_free(&d.w.core, number, 5);
    int64_t one = mpb_extent_take(e, 1);
    CHECK(one >= 0);
    CHECK(mpb_extent_release(e, (uint32_t)one));
    CHECK(!mpb_extent_release(e, (uint32_t)one));
    drama_close(&d);
}

static void test_nobody_takes_more_than_a_quarter_of_what_is_free(void)
{
    drama_open(&d);
    struct mpb_extents *e = &d.h[0].extents; /* 256 KiB: 16 units */
    CHECK_EQ(mpb_extent_room(e, 1000), 1000);
    CHECK_EQ(mpb_extent_room(e, 64 << 10), 64 << 10);
    CHECK_EQ(mpb_extent_room(e, UINT64_MAX), 64 << 10);
    int64_t half = mpb_extent_take(e, 128 << 10);
    CHECK(!mpb_extents_crowded(e));
    CHECK_EQ(mpb_extent_room(e, UINT64_MAX), 32 << 10);
    int64_t rest = mpb_extent_take(e, 128 << 10);
    CHECK(mpb_extents_crowded(e));
    CHECK_EQ(mpb_extent_room(e, 1), 0);
    uint32_t number = mpb_extent_link(e, (uint32_t)half, 5, 1);
    mpb_extent_free(&d.w.core, number, 5); /* the processor has sent it; the handler has not looked yet */
    CHECK_EQ(mpb_extent_room(e, UINT64_MAX), 32 << 10);
    CHECK(mpb_extent_release(e, (uint32_t)rest));
    drama_close(&d);
}

/* ------------------------------------------------------------------ nobody may miss a wake */
#ifdef __SANITIZE_THREAD__
#define REQUESTS 3000
#else
#define REQUESTS 20000
#endif
static mpb_atomic32 stop;
static mpb_atomic64 answered_all;

static void *handler_thread(void *argument)
{
    struct mpb_handler *h = argument;
    static const uint8_t bytes[300];
    while (mpb_load_acquire(&stop) == 0) {
        int64_t entry = mpb_handler_claim(h, false);
        if (entry == MPB_CLAIM_POKED) {
            atomic_exchange(&h->core->doorbells->handler[h->index].poke, 0);
            continue;
        }
        if (entry == MPB_CLAIM_NOTHING) {
            mpb_handler_wait(h, false, -1);
            continue;
        }
        if (entry % 3 == 0)
            sched_yield();
        if (!mpb_answer_bytes(h, (uint32_t)entry, MPB_ANSWER_INLINE, bytes, entry % 2 ? 300 : 20))
            abort();
    }
    return NULL;
}

static void *processor_thread(void *argument)
{
    struct mpb_processor *p = argument;
    struct pollfd fd = {.fd = p->core->eventfds[p->index], .events = POLLIN};
    uint64_t seed = p->index + 1, rung;
    uint32_t parked = UINT32_MAX;
    for (uint32_t sent = 0, finished = 0; finished < REQUESTS;) {
        for (int64_t entry; (entry = mpb_collect(p)) >= 0; finished++)
            mpb_sent(p, (uint32_t)entry, 1, false);
        if (parked != UINT32_MAX && mpb_retry(p, parked) >= 0)
            parked = UINT32_MAX;
        while (parked == UINT32_MAX && sent < REQUESTS && next_random(&seed) % 4) {
            int64_t entry = submit(p, next_random(&seed) % 8 ? MPB_PLANE_DATA : MPB_PLANE_CONTROL, 2, 200);
            if (entry == MPB_NO_ENTRY)
                break;
            sent++;
            if (entry == MPB_PLANE_FULL)
                parked = p->parked;
        }
        if ((finished < sent || parked != UINT32_MAX) && mpb_processor_prepare_sleep(p)) {
            poll(&fd, 1, -1);
            if (read(fd.fd, &rung, sizeof rung) < 0)
                abort();
        }
        mpb_processor_cancel_sleep(p);
    }
    mpb_add_relaxed(&answered_all, REQUESTS);
    return NULL;
}

static void test_no_wake_is_lost(uint32_t reserved)
{
    pthread_t processors[2], handlers[3];
    drama_open(&d);
    d.w.core.header->reserved_handlers = reserved;
    mpb_store_relaxed(&stop, 0);
    for (int i = 0; i < 3; i++) {
        d.h[i].reserved = (uint32_t)i < reserved;
        pthread_create(&handlers[i], NULL, handler_thread, &d.h[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&processors[i], NULL, processor_thread, &d.p[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(processors[i], NULL);
    mpb_store_release(&stop, 1);
    mpb_ring_everybody(&d.w.core);
    for (int i = 0; i < 3; i++)
        pthread_join(handlers[i], NULL);
    check_rest(&d);
    d.w.core.header->reserved_handlers = 0;
    drama_close(&d);
}

/* ------------------------------------------------------------------ a wake that nobody answers */
static bool asleep(uint32_t handler) { return mpb_load_relaxed(&d.w.core.doorbells->sleepers) >> handler & 1; }

/* Who was woken for a request does not come, dead or stopped: the processor looks again and wakes another. */
static void test_who_was_woken_and_does_not_come(uint32_t plane)
{
    drama_open(&d);
    struct mpb_processor *p = &d.p[0];
    p->batching = true;
    mpb_handler_announce(&d.w.core, 2);
    ask(&d, 0, plane, 4, 100);
    CHECK(asleep(2));
    CHECK(mpb_processor_ring(p)); /* look again */
    CHECK(!asleep(2));
    mpb_handler_announce(&d.w.core, 1);
    usleep(1000); /* longer than anybody is trusted to be on its way */
    mpb_processor_ring(p);
    CHECK(!asleep(1));
    p->batching = false;
    drama_close(&d);
}

static void *wait_for_control(void *handler)
{
    mpb_handler_wait(handler, true, -1);
    return NULL;
}

/* A wake for data that met a handler which waits for control requests only goes to one that takes data. */
static void test_a_wake_that_met_the_wrong_one_is_passed_on(void)
{
    pthread_t thread;
    drama_open(&d);
    mpb_handler_announce(&d.w.core, 1);
    pthread_create(&thread, NULL, wait_for_control, &d.h[0]);
    while (mpb_load_acquire(&d.w.core.processes[d.h[0].slot].wait) != MPB_WAIT_CONTROL_REQUEST)
        sched_yield();
    ask(&d, 0, MPB_PLANE_DATA, 4, 100);
    pthread_join(thread, NULL);
    CHECK(!asleep(0) && !asleep(1));
    drama_close(&d);
}

/* Takes the coordinator's next request, which must be `id`, and answers it. */
static void coordinate(uint32_t id)
{
    int64_t entry = mpb_handler_claim(&d.h[COORDINATOR], false);
    CHECK(entry >= 0);
    CHECK_EQ(id_of(&d, entry), id);
    execute(&d, &d.h[COORDINATOR], entry);
}

static void hand_over(uint32_t id)
{
    ask(&d, (int)id % 2, MPB_PLANE_DATA, id, 100);
    CHECK(mpb_handler_hand_over(&d.h[0], (uint32_t)mpb_handler_claim(&d.h[0], false)));
}

/* What a dead coordinator held is served before what was handed over since, and by its successor alone. */
static void test_handed_requests_go_back_to_the_coordinator(void)
{
    struct mpb_recovery done;
    drama_open(&d);
    d.scene = "handed";
    hand_over(12);
    CHECK_EQ(mpb_load_relaxed(&d.w.core.doorbells->handler_mark[0].in_hand), 0);
    CHECK_EQ(mpb_handler_claim(&d.h[1], false), MPB_CLAIM_NOTHING);
    CHECK(mpb_handler_claim(&d.h[COORDINATOR], false) >= 0);
    hand_over(13);
    hand_over(28);
    replace_handler(&d, COORDINATOR);
    mpb_recover_handler(&d.h[COORDINATOR], &done);
    CHECK_EQ(done.requeued, 1);
    atomic_exchange(&d.w.core.doorbells->handler[0].poke, 0);
    CHECK_EQ(mpb_handler_claim(&d.h[0], false), MPB_CLAIM_NOTHING);
    atomic_exchange(&d.w.core.doorbells->handler[COORDINATOR].poke, 0);
    coordinate(12);
    coordinate(13);
    coordinate(28);
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

/* What the coordinator gives back any request handler takes, once, and before what came since. */
static void test_given_back_requests_go_on_with_the_handlers(void)
{
    drama_open(&d);
    d.scene = "given back";
    hand_over(12);
    int64_t entry = mpb_handler_claim(&d.h[COORDINATOR], false);
    ask(&d, 0, MPB_PLANE_DATA, 1, 100);
    mpb_handler_give_back(&d.h[COORDINATOR], (uint32_t)entry);
    CHECK_EQ(mpb_load_relaxed(&d.w.core.doorbells->handler_mark[COORDINATOR].in_hand), 0);
    CHECK_EQ(mpb_handler_claim(&d.h[COORDINATOR], false), MPB_CLAIM_NOTHING);
    CHECK_EQ(mpb_handler_claim(&d.h[1], false), entry);
    CHECK(!mpb_handler_owns(&d.h[COORDINATOR], (uint32_t)entry, mpb_state_generation(d.w.core.entries[entry].state)));
    CHECK(mpb_handler_hand_over(&d.h[1], (uint32_t)entry)); /* these are for the coordinator alone */
    coordinate(12);
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

/* A coordinator that does not come holds no plane back: its ring has room for every entry. */
static void test_handing_over_never_waits(void)
{
    drama_open(&d);
    d.scene = "nobody coordinates";
    for (uint32_t i = 0; i < d.w.core.entry_count; i++)
        hand_over((i / 4 * 16 + 12 + i % 4) % MAX_IDS);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 1, 100), MPB_NO_ENTRY);
    drain(&d, ALL_HANDLERS, 3);
    check_rest(&d);
    drama_close(&d);
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_units();
    test_punching();
    test_bounds_of_planes();
    test_classes_of_a_plane();
    test_a_look_at_what_moved_waits_for_requests();
    test_a_stale_head_is_no_bound();
    test_entries_and_arena_run_out();
    test_sleeps_while_requests_are_in_flight();
    test_who_was_woken_and_does_not_come(MPB_PLANE_DATA);
    test_who_was_woken_and_does_not_come(MPB_PLANE_CONTROL);
    test_a_wake_that_met_the_wrong_one_is_passed_on();
    test_parked_kinds();
    test_handed_requests_go_back_to_the_coordinator();
    test_given_back_requests_go_on_with_the_handlers();
    test_handing_over_never_waits();
    test_poison();
    test_answers_of_a_dead_processor_are_dropped();
    test_extents_run_out_and_come_back();
    test_nobody_takes_more_than_a_quarter_of_what_is_free();
    for (int i = 0; i < 2; i++)
        d.w.core.eventfds[i] = eventfd(0, EFD_CLOEXEC);
    d.scene = "threads";
    test_no_wake_is_lost(0);
    test_no_wake_is_lost(1);
    CHECK_EQ(answered_all, 4 * REQUESTS);
    printf("request path: %lu checks, %d requests through sleeping threads\n", checks_made, 4 * REQUESTS);
    return 0;
}
