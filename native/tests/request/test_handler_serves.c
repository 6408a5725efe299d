/* What a handler does without Python: it looks at what moved, serves what can be served, and rings for all of it at once. */
#include "tests/request/handler_scene.h"

/* ------------------------------------------------------------------ pokes */
static uint64_t rows_seen[MPB_NATIVE_WAITS];
static int looks[MPB_NATIVE_WAITS];
static int64_t due_ms[MPB_NATIVE_WAITS];
static bool look_asks;

static void look(void *with, uint64_t rows)
{
    if (look_asks) /* what comes while it looks, queued long before now */
        trace_of(asked(0, MPB_PLANE_DATA, 2))->stage[MPB_STAGE_ENQUEUED] = 0;
    look_asks = false;
    size_t which = (size_t)((uint64_t *)with - rows_seen);
    rows_seen[which] = rows;
    looks[which]++;
}

static void wait_natively(struct mpb_handler *h)
{
    memset(looks, 0, sizeof looks);
    for (int i = 0; i < MPB_NATIVE_WAITS; i++) {
        due_ms[i] = INT64_MAX;
        h->waits[i] = (struct mpb_native_waits){look, &rows_seen[i], &due_ms[i]};
    }
}

/* The poke is taken once; which rows moved are taken with it if it says that some did; and whoever waits natively for rows is
 * told of them, modulo 64, or of all. */
static void test_what_a_poke_brings(void)
{
    static const uint64_t POKES[] = {0, MPB_POKE_SCAN, MPB_POKE_COMMAND, MPB_POKE_DIRTY,
                                     MPB_POKE_DIRTY | MPB_POKE_SCAN};
    static const uint64_t WORDS[][3] = {
        {0, 0, 0}, {1, 0, 0}, {0, 0, 2}, {12, 16, 1ull << 63}}; /* first, second, last */
    for (size_t p = 0; p < sizeof POKES / sizeof *POKES; p++)
        for (size_t m = 0; m < sizeof WORDS / sizeof *WORDS; m++)
            for (int without = -1; without < MPB_NATIVE_WAITS; without++) {
                static const uint32_t AT[] = {0, 1, MPB_DIRTY_WORDS - 1};
                uint64_t moved[MPB_DIRTY_WORDS + 1], rows = POKES[p] & MPB_POKE_SCAN ? UINT64_MAX : 0;
                bool takes = POKES[p] & MPB_POKE_DIRTY;
                open_with_clock(1);
                struct mpb_handler *h = &d.h[1];
                mpb_atomic64 *dirty = d.w.core.doorbells->dirty[1];
                wait_natively(h);
                if (without >= 0)
                    h->waits[without].look_again = NULL;
                for (int i = 0; i < 3; i++)
                    atomic_store(&dirty[AT[i]], WORDS[m][i]);
                atomic_store(&dirty[MPB_DIRTY_WORDS], 5); /* the next handler's */
                atomic_store(poke_of(1), POKES[p]);
                memset(moved, 0x5a, sizeof moved);
                CHECK_EQ(mpb_handler_take_poke(h, moved), POKES[p]);
                CHECK_EQ(atomic_load(poke_of(1)), 0);
                for (uint32_t w = 0; w < MPB_DIRTY_WORDS; w++) {
                    uint64_t there = w < 2 ? WORDS[m][w] : w == MPB_DIRTY_WORDS - 1 ? WORDS[m][2] : 0;
                    CHECK_EQ(moved[w], takes ? there : 0);
                    CHECK_EQ(atomic_load(&dirty[w]), takes ? 0 : there);
                    rows |= moved[w];
                }
                CHECK(moved[MPB_DIRTY_WORDS] == 0x5a5a5a5a5a5a5a5a && atomic_load(&dirty[MPB_DIRTY_WORDS]) == 5);
                for (int i = 0; i < MPB_NATIVE_WAITS; i++) {
                    CHECK_EQ(looks[i], rows != 0 && i != without);
                    CHECK(looks[i] == 0 || rows_seen[i] == rows);
                }
                drama_close(&d);
            }
}

/* ------------------------------------------------------------------ served here */
static struct {
    struct mpb_handler *h;
    bool leaves, answers, saw_serving, takes_time, rung; /* the last: its processor, while others are served */
    uint64_t ended_ns;
    int calls, fetch_calls;
} served;

static bool serve_one(uint32_t entry)
{
    served.saw_serving = served.h->serving;
    if (served.takes_time)
        served.h->io_done_ns = served.ended_ns;
    if (!served.leaves && served.answers)
        mpb_answer_nothing(served.h, entry, MPB_ANSWER_NONE);
    uint32_t processor = entry / d.w.core.header->entries_per_processor;
    served.rung |= atomic_load(&d.w.core.doorbells->processor[processor].asleep) == 0;
    served.h->io_done_ns = 0;
    return !served.leaves;
}

static bool serve(void *with, uint32_t entry)
{
    CHECK(with == &served);
    served.calls++;
    return serve_one(entry);
}

static bool serve_fetch(void *with, uint32_t entry)
{
    CHECK(with == &served.calls);
    served.fetch_calls++;
    return serve_one(entry);
}

static struct mpb_handler *serving(uint32_t handler)
{
    struct mpb_handler *h = &d.h[handler];
    memset(&served, 0, sizeof served);
    served.h = h;
    served.answers = true;
    h->serve = serve;
    h->serve_with = &served;
    h->serve_fetch = serve_fetch;
    h->serve_fetch_with = &served.calls;
    atomic_store(poke_of(handler), 0);
    return h;
}

/* Fetch has a server of its own; where there is none, or it leaves the request, the caller gets it, taken in hand. */
static void test_who_serves(void)
{
    for (int fetch = 0; fetch < 2; fetch++)
        for (int way = 0; way < 3; way++) { /* served, left, nobody serves */
            open_with_clock(1);
            struct mpb_handler *h = serving(0);
            uint32_t entry = asked(0, MPB_PLANE_DATA, 1);
            entry_of(entry)->api_key = fetch ? 1 : 3;
            served.leaves = way == 1;
            if (way == 2 && fetch)
                h->serve_fetch = NULL;
            if (way == 2 && !fetch)
                h->serve = NULL;
            h->served_ns = 9;
            CHECK_EQ(mpb_handler_serve_or_claim(h, false, UINT64_MAX), way == 0 ? MPB_CLAIM_NOTHING : (int64_t)entry);
            CHECK_EQ(served.calls, way < 2 && !fetch);
            CHECK_EQ(served.fetch_calls, way < 2 && fetch);
            CHECK_EQ(served.saw_serving, way < 2);
            CHECK(!h->serving && h->served_ns == 0 && !h->holding);
            CHECK_EQ(in_hand(0), way == 0 ? 0 : entry + 1);
            drama_close(&d);
        }
}

/* Several are served one after the other, and each processor is rung once for all of its own, at the end. */
static void test_many_are_served(void)
{
    open_with_clock(1000);
    struct mpb_handler *h = serving(0);
    for (uint32_t p = 0; p < 2; p++)
        asked(p, MPB_PLANE_DATA, p);
    uint32_t group = asked(0, MPB_PLANE_DATA, 12); /* goes to the coordinator meanwhile */
    for (uint32_t p = 0; p < 2; p++)
        atomic_store(&d.w.core.doorbells->processor[p].asleep, 1);
    uint64_t wakes = counted_of(0, MPB_C_PROCESSOR_WAKES), answers = counted_of(0, MPB_C_REQUESTS_ANSWERED);
    CHECK_EQ(mpb_handler_serve_or_claim(h, false, UINT64_MAX), MPB_CLAIM_NOTHING);
    CHECK(served.calls == 2 && !served.rung);
    CHECK_EQ(state_of(&d.w, group), MPB_E_HANDED);
    CHECK_EQ(counted_of(0, MPB_C_PROCESSOR_WAKES), wakes + 2);
    CHECK_EQ(counted_of(0, MPB_C_REQUESTS_ANSWERED), answers + 2);
    for (uint32_t p = 0; p < 2; p++)
        CHECK_EQ(atomic_load(&d.w.core.doorbells->processor[p].asleep), 0);
    CHECK(h->unrung == 0 && h->unrung_answers == 0);
    drama_close(&d);
}

/* The end of one is the beginning of the next: one reading of the clock for both, but not for the first. */
static void test_readings_of_the_clock(void)
{
    for (uint64_t ended_ns = 64; ended_ns <= 65; ended_ns++) /* 64 may be before they were queued: read again */
        for (int first = 0; first < 2; first++) {
            open_with_clock(1000);
            struct mpb_handler *h = serving(0);
            served.takes_time = true;
            served.ended_ns = ended_ns;
            for (uint32_t id = 0; id < 3; id++) /* queued at 1, in a tick of 64 */
                trace_of(asked(0, MPB_PLANE_DATA, id))->stage[MPB_STAGE_ENQUEUED] = 0;
            h->served_ns = 900; /* of a call before: not now */
            served.leaves = first;
            script.monotonic_reads = 0;
            mpb_handler_serve_or_claim(h, false, UINT64_MAX);
            bool shared = !first && ended_ns == 65;
            CHECK_EQ(h->taken_ns, shared ? 65 : 1000);
            CHECK_EQ(script.monotonic_reads, first || shared ? 1 : 3);
            drama_close(&d);
        }
}

/* It goes on until so late that the caller has something to do. */
static void test_until_when_it_serves(void)
{
    for (uint64_t until_ns = 999; until_ns <= 1001; until_ns++) {
        open_with_clock(1000);
        struct mpb_handler *h = serving(0);
        for (uint32_t id = 0; id < 3; id++)
            asked(0, MPB_PLANE_DATA, id);
        bool enough = until_ns <= 1000;
        CHECK_EQ(mpb_handler_serve_or_claim(h, false, until_ns), enough ? MPB_CLAIM_ENOUGH : MPB_CLAIM_NOTHING);
        CHECK_EQ(served.calls, enough ? 1 : 3);
        CHECK(!h->holding);
        drama_close(&d);
    }
}

/* Rows that moved are looked at without Python, if nothing of Python's waits, and it need not look at once. */
static void test_looks_without_python(void)
{
    static const struct {
        uint64_t poke;
        bool python_waits, needs_python;
        uint32_t handler;
        bool natively;
    } ROWS[] = {{MPB_POKE_DIRTY, false, false, 0, true},
                {MPB_POKE_DIRTY, true, false, 0, false},
                {MPB_POKE_DIRTY, false, false, COORDINATOR, false},
                {MPB_POKE_DIRTY | MPB_POKE_SCAN, false, false, 0, false},
                {MPB_POKE_SCAN, false, false, 0, false},
                {MPB_POKE_DIRTY, false, true, 0, false}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_with_clock(1000);
        uint32_t index = ROWS[i].handler;
        struct mpb_handler *h = serving(index);
        wait_natively(h);
        h->python_waits = ROWS[i].python_waits;
        due_ms[1] = ROWS[i].needs_python ? INT64_MIN : 5;
        atomic_store(poke_of(index), ROWS[i].poke);
        atomic_store(&d.w.core.doorbells->dirty[index][3], 6);
        int64_t want = ROWS[i].natively ? MPB_CLAIM_NOTHING : MPB_CLAIM_POKED;
        CHECK_EQ(mpb_handler_serve_or_claim(h, false, UINT64_MAX), want);
        bool looked = ROWS[i].natively || ROWS[i].needs_python;
        CHECK_EQ(looks[0], looked);
        CHECK_EQ(looks[1], looked);
        CHECK(!looked || (rows_seen[0] == 6 && rows_seen[1] == 6));
        CHECK_EQ(atomic_load(poke_of(index)), looked ? 0 : ROWS[i].poke);
        CHECK_EQ(atomic_load(&d.w.core.doorbells->dirty[index][3]), looked ? 0 : 6);
        drama_close(&d);
    }
}

/* A look takes time: what is taken behind it begins by the clock, not when the request before it had ended. */
static void test_a_look_takes_time(void)
{
    open_with_clock(3000);
    struct mpb_handler *h = serving(0);
    wait_natively(h);
    h->python_waits = false;
    due_ms[0] = 5;
    look_asks = served.takes_time = true;
    served.ended_ns = 2000;
    asked(0, MPB_PLANE_DATA, 1);
    entry_of(0)->api_key = 3;
    atomic_store(poke_of(0), MPB_POKE_DIRTY);
    atomic_store(&d.w.core.doorbells->dirty[0][0], 1);
    CHECK_EQ(mpb_handler_serve_or_claim(h, false, UINT64_MAX), MPB_CLAIM_NOTHING);
    CHECK_EQ(served.calls, 2);
    CHECK_EQ(h->taken_ns, 3000);
    drama_close(&d);
}

/* The coordinator holds its answers back while more was handed to it; others do not. */
static void test_who_holds_answers_back(void)
{
    for (int who = 0; who < 2; who++)
        for (uint32_t more = 0; more < 2; more++) {
            open_with_clock(1000);
            struct mpb_handler *h = serving(who == 0 ? COORDINATOR : 1);
            served.leaves = true;
            for (uint32_t n = 0; n <= more; n++)
                CHECK(mpb_handler_hand_over(&d.h[0], claimed(12 + n)));
            asked(0, MPB_PLANE_DATA, 1);
            h->unrung = 1;
            atomic_store(&d.w.core.doorbells->processor[0].asleep, 1);
            CHECK(mpb_handler_serve_or_claim(h, false, UINT64_MAX) >= 0);
            bool holds = who == 0 && more == 1;
            CHECK_EQ(h->holding, holds);
            CHECK_EQ(atomic_load(&d.w.core.doorbells->processor[0].asleep), holds);
            CHECK_EQ(h->unrung, holds);
            drama_close(&d);
        }
    for (int more = 0; more < 2; more++) { /* it takes nothing, though more is there: it was poked */
        open_with_clock(1000);
        struct mpb_handler *h = serving(COORDINATOR);
        if (more)
            CHECK(mpb_handler_hand_over(&d.h[0], claimed(12)));
        atomic_store(poke_of(COORDINATOR), MPB_POKE_SCAN);
        CHECK_EQ(mpb_handler_serve_or_claim(h, false, UINT64_MAX), MPB_CLAIM_POKED);
        CHECK(!h->holding);
        drama_close(&d);
    }
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_what_a_poke_brings();
    test_who_serves();
    test_many_are_served();
    test_readings_of_the_clock();
    test_until_when_it_serves();
    test_looks_without_python();
    test_a_look_takes_time();
    test_who_holds_answers_back();
    world_close(&d.w);
    printf("handler serves: %lu checks\n", checks_made);
    return 0;
}
