/* Which request a handler takes, whom it gives it to, what it says that it took, and how it answers: each rule of handler.h
 * with its counters, bells and marks. */
#include "tests/request/handler_scene.h"
#include "request/handed.h"

/* ------------------------------------------------------------------ what is taken */
/* Control first; then what it was poked for, unless that can wait; then data. The coordinator takes what is handed. */
static void test_what_is_taken_first(void)
{
    enum { DATA = 1, CONTROL = 2, HANDED = 4 };
    static const uint64_t POKES[] = {0, MPB_POKE_DIRTY, MPB_POKE_SCAN, MPB_POKE_DIRTY | MPB_POKE_COMMAND};
    for (int there = 0; there < 8; there++)
        for (int who = 0; who < 4; who++) /* anything, control alone, reserved, the coordinator */
            for (int p = 0; p < 4; p++)
                for (int other_first = 0; other_first < 2; other_first++) { /* whose entry is number 0 */
                    open_with_clock(5000);
                    uint32_t index = who == 3 ? COORDINATOR : 1, data = 99, control = 99, handed = 99;
                    struct mpb_handler *h = &d.h[index];
                    if (there & HANDED) {
                        handed = claimed(12); /* for a group */
                        CHECK(mpb_handler_hand_over(&d.h[0], handed));
                    }
                    if (other_first && (there & CONTROL))
                        control = asked(0, MPB_PLANE_CONTROL, 2);
                    if (there & DATA)
                        data = asked(0, MPB_PLANE_DATA, 1);
                    if (!other_first && (there & CONTROL))
                        control = asked(0, MPB_PLANE_CONTROL, 2);
                    h->reserved = who == 2;
                    atomic_store(poke_of(index), POKES[p]);
                    h->dirty_since_ns = 7;
                    h->taken_ns = 7;
                    uint64_t claims = counted_of(index, MPB_C_REQUESTS_CLAIMED);
                    int64_t none = POKES[p] != 0 ? MPB_CLAIM_POKED : MPB_CLAIM_NOTHING, want = none;
                    if (who == 3)
                        want = (there & HANDED) && p == 0 ? handed : none;
                    else if (there & CONTROL)
                        want = control;
                    else if (who == 0 && (there & DATA) && p < 2)
                        want = data;
                    CHECK_EQ(mpb_handler_claim(h, who == 1), want);
                    CHECK_EQ(in_hand(index), want >= 0 ? want + 1 : 0);
                    CHECK_EQ(counted_of(index, MPB_C_REQUESTS_CLAIMED), claims + (who != 3 && want >= 0));
                    CHECK_EQ(atomic_load(poke_of(index)), POKES[p]);
                    if (want >= 0) {
                        CHECK_EQ(h->taken_ns, 5000);
                        CHECK_EQ(trace_of((uint32_t)want)->handler_id, index);
                        CHECK_EQ(trace_of((uint32_t)want)->stage[MPB_STAGE_DEQUEUED], 4999 >> MPB_TRACE_TICK_SHIFT);
                    }
                    if (who == 0 &&
                        (there & CONTROL) == 0) /* since when it knows that rows moved: forgotten, or kept */
                        CHECK_EQ(h->dirty_since_ns, p == 1 && want >= 0 ? 7 : 0);
                    drama_close(&d);
                }
}

/* A poke that says that rows moved waits for data, for 200 us from the first one on that was taken meanwhile. */
static void test_how_long_a_dirty_poke_waits(void)
{
    static const struct {
        int64_t taken_ns; /* when the request before was */
        bool data_goes_on;
    } ROWS[] = {{1000000 + 199999, true}, {1000000 + 200000, false}, {1000000 + 200001, false}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_with_clock(1000000);
        struct mpb_handler *h = &d.h[0];
        for (uint32_t id = 0; id < 4; id++)
            asked(id & 1, MPB_PLANE_DATA, id);
        CHECK(mpb_handler_claim(h, false) >= 0);
        CHECK_EQ(h->dirty_since_ns, 0);
        atomic_store(poke_of(0), MPB_POKE_DIRTY);
        set_clock(ROWS[i].taken_ns);
        CHECK(mpb_handler_claim(h, false) >= 0); /* the first with the poke: it began when the one before was taken */
        CHECK_EQ(h->dirty_since_ns, 1000000);
        CHECK_EQ(h->taken_ns, ROWS[i].taken_ns);
        int64_t entry = mpb_handler_claim(h, false);
        CHECK_EQ(entry >= 0, ROWS[i].data_goes_on);
        CHECK(entry >= 0 || entry == MPB_CLAIM_POKED);
        CHECK_EQ(h->dirty_since_ns, ROWS[i].data_goes_on ? 1000000 : 0);
        drama_close(&d);
    }
}

/* Whoever takes a request makes room: who waited for it in this plane is rung. */
static void test_who_waited_for_room_is_rung(void)
{
    for (uint32_t plane = 0; plane < 2; plane++) {
        uint32_t bound = plane == MPB_PLANE_DATA ? 4 : 2;
        open_with_clock(1);
        for (uint32_t id = 0; id < bound; id++)
            asked(0, plane, id);
        mpb_want_space(&d.w.core, plane, 1);
        mpb_want_space(&d.w.core, 1 - plane, 0);
        atomic_store(&d.w.core.doorbells->processor[1].asleep, 1);
        CHECK(mpb_handler_claim(&d.h[0], false) >= 0);
        CHECK_EQ(atomic_load(&d.w.core.doorbells->want_space), 1ull << 32 * (1 - plane));
        CHECK_EQ(atomic_load(&d.w.core.doorbells->processor[1].asleep), 0);
        drama_close(&d);
    }
}

/* ------------------------------------------------------------------ given to others */
/* API keys have one bit each, of 128; no other key is looked up. */
static void test_which_keys_are_handed_over(void)
{
    static const int16_t KEYS[] = {0,   1,   2,   62,  63,  64,  65,  66,  79, 126,
                                   127, 128, 129, 131, 191, 192, 193, 257, -1, -2};
    static const struct {
        uint64_t set[2];
        int go_count;
        int16_t go[12];
    } SETS[] = {{{1, 0}, 1, {0}},
                {{2, 0}, 1, {1}},
                {{0, 1}, 1, {64}},
                {{0, 2}, 1, {65}},
                {{1ull << 63, 0}, 1, {63}},
                {{0, 1ull << 63}, 1, {127}},
                {{1ull << 62, 1ull << 62}, 2, {62, 126}},
                {{~0ull, ~0ull}, 11, {0, 1, 2, 62, 63, 64, 65, 66, 79, 126, 127}},
                {{~3ull, ~0x8003ull}, 6, {2, 62, 63, 66, 126, 127}}};
    for (size_t s = 0; s < sizeof SETS / sizeof *SETS; s++)
        for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
            open_with_clock(1);
            uint32_t entry = claimed(1);
            entry_of(entry)->api_key = KEYS[i];
            memcpy(d.h[0].hands_over, SETS[s].set, sizeof SETS[s].set);
            bool goes = false;
            for (int g = 0; g < SETS[s].go_count; g++)
                goes |= SETS[s].go[g] == KEYS[i];
            CHECK_EQ(mpb_handler_hand_over(&d.h[0], entry), goes);
            CHECK_EQ(state_of(&d.w, entry), goes ? MPB_E_HANDED : MPB_E_CLAIMED);
            drama_close(&d);
        }
}

static void test_handed_over(void)
{
    open_with_clock(1);
    uint32_t entry = claimed(12);
    asked(1, MPB_PLANE_DATA, 7);
    const struct mpb_process *row = &d.w.core.processes[d.h[0].slot];
    uint64_t word = state_word(entry, MPB_E_HANDED, 0), before = counted_of(0, MPB_C_REQUESTS_HANDED);
    mpb_handler_announce(&d.w.core, COORDINATOR);
    mpb_handler_announce(&d.w.core, 1);
    mpb_handler_give_to_coordinator(&d.h[0], entry);
    CHECK_EQ(mpb_load_relaxed(&entry_of(entry)->state), word);
    CHECK_EQ(counted_of(0, MPB_C_REQUESTS_HANDED), before + 1);
    CHECK(in_hand(0) == 0 && mpb_load_relaxed(&row->request) == 0);
    CHECK(!sleeps(COORDINATOR) && sleeps(1));
    CHECK_EQ(mpb_handler_claim(&d.h[COORDINATOR], false), entry);
    CHECK_EQ(mpb_handler_claim(&d.h[COORDINATOR], false), MPB_CLAIM_NOTHING);

    uint64_t requeued = state_word(entry, MPB_E_REQUEUED, COORDINATOR);
    before = counted_of(COORDINATOR, MPB_C_REQUESTS_GIVEN_BACK);
    struct mpb_trace *t = trace_of(entry);
    t->stage[MPB_STAGE_LOCAL_DONE] = 5;
    mpb_handler_give_back(&d.h[COORDINATOR], entry);
    CHECK_EQ(mpb_load_relaxed(&entry_of(entry)->state), requeued);
    CHECK_EQ(counted_of(COORDINATOR, MPB_C_REQUESTS_GIVEN_BACK), before + 1);
    CHECK(in_hand(COORDINATOR) == 0 && !sleeps(1));
    CHECK_EQ(mpb_load_relaxed(&d.w.core.processes[d.h[COORDINATOR].slot].request), 0);
    CHECK_EQ(t->stage[MPB_STAGE_LOCAL_DONE], MPB_TRACE_NOT_REACHED); /* its stages are those of who answers it */
    CHECK_EQ(t->stage[MPB_STAGE_DEQUEUED], MPB_TRACE_NOT_REACHED);
    asked(0, MPB_PLANE_DATA, 9);
    CHECK_EQ(mpb_handler_claim(&d.h[1], false), entry); /* before all others */
    drama_close(&d);
}

/* What the coordinator's repair put back goes before what was handed since; entry 0 is one like others. */
static void test_the_order_of_what_is_handed(void)
{
    open_with_clock(1);
    for (uint32_t id = 12; id < 14; id++)
        CHECK(mpb_handler_hand_over(&d.h[0], claimed(id)));
    CHECK_EQ(mpb_handler_claim(&d.h[COORDINATOR], false), 0);
    CHECK(mpb_handler_hand_over(&d.h[0], claimed(14)));
    mpb_store_release(&entry_of(0)->state, state_word(0, MPB_E_REQUEUED, COORDINATOR));
    mpb_handed_requeue(&d.w.core, 0);
    for (int64_t entry = 0; entry < 3; entry++) {
        CHECK(!mpb_handed_empty(&d.w.core));
        CHECK_EQ(mpb_handed_take(&d.w.core, d.h[COORDINATOR].slot), entry);
    }
    CHECK(mpb_handed_empty(&d.w.core) && mpb_handed_take(&d.w.core, 9) == -1);
    drama_close(&d);
}

/* Whoever is the coordinator is rung, and told before that requests will come; where there is none, nobody is. */
static void test_who_is_rung_as_the_coordinator(void)
{
    uint32_t coordinator = d.w.core.header->coordinator;
    for (uint32_t one = 0; one <= CAST; one++) {
        open_with_clock(1);
        for (uint32_t h = 0; h < CAST; h++)
            mpb_handler_announce(&d.w.core, h);
        d.w.core.header->coordinator = one;
        mpb_store_relaxed(&d.w.core.header->coordinator_wanted, 0);
        mpb_want_coordinator(&d.w.core);
        CHECK_EQ(mpb_load_relaxed(&d.w.core.header->coordinator_wanted), 1);
        for (uint32_t h = 0; h < CAST; h++)
            CHECK_EQ(sleeps(h), h + 1 != one);
        d.w.core.header->coordinator = coordinator;
        drama_close(&d);
    }
}

/* Who leaves without having taken what is there wakes another one for it; the coordinator takes none of it anyway. */
static void test_what_is_passed_on(void)
{
    for (int there = 0; there < 4; there++)
        for (int who = 0; who < 2; who++) {
            open_with_clock(1);
            mpb_store_relaxed(&d.w.core.header->handlers_high, 3);
            d.w.core.header->reserved_handlers = 1; /* handler 0: control wakes it, data another one */
            if (there & 1)
                asked(0, MPB_PLANE_DATA, 1);
            if (there & 2)
                asked(0, MPB_PLANE_CONTROL, 2);
            mpb_handler_announce(&d.w.core, 0);
            mpb_handler_announce(&d.w.core, 1);
            mpb_handler_pass_on(&d.h[who == 0 ? 2 : COORDINATOR]);
            CHECK_EQ(sleeps(1), who == 1 || (there & 1) == 0);
            CHECK_EQ(sleeps(0), who == 1 || (there & 2) == 0);
            d.w.core.header->reserved_handlers = 0;
            drama_close(&d);
        }
}

/* ------------------------------------------------------------------ what it took */
/* What a discipline that wants to know is told: at least a nanosecond, at most half of what the entry can count. */
static void test_what_a_request_took(void)
{
    static const struct {
        int64_t ends_ns;
        uint32_t told_ns;
    } ROWS[] = {{1000, 1},
                {999, 1},
                {1001, 1},
                {1002, 2},
                {5000, 4000},
                {1000 + 2000000000, 2000000000},
                {1000 + 0x7ffffffell, 0x7ffffffe},
                {1000 + 0x80000000ll, 0x7fffffff},
                {10000000000, 0x7fffffff}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int way = 0; way < 4; way++) { /* parked or answered; of the data plane or not */
            open_with_clock(1000);
            struct mpb_handler *h = &d.h[0];
            h->chooser.discipline = MPB_FAIR;
            uint32_t entry = asked(0, way >> 1 ? MPB_PLANE_CONTROL : MPB_PLANE_DATA, 1);
            CHECK_EQ(mpb_handler_claim(h, false), entry);
            entry_of(entry)->ring_class = 2;
            entry_of(entry)->service_ns = 3;
            set_clock(ROWS[i].ends_ns);
            int64_t deficit = h->chooser.deficit_ns[2];
            if (way & 1)
                mpb_park(h, entry, MPB_PARKED_FETCH);
            else
                mpb_answer_nothing(h, entry, MPB_ANSWER_NONE);
            CHECK_EQ(entry_of(entry)->service_ns, 3 + ROWS[i].told_ns);
            int64_t charged = deficit - h->chooser.deficit_ns[2];
            CHECK_EQ(charged, way >> 1 ? 0 : ROWS[i].ends_ns > 1000 ? ROWS[i].ends_ns - 1000 : 1);
            CHECK_EQ(in_hand(0), 0);
            if (way & 1) { /* and what is not in hand costs nothing */
                mpb_answer_nothing(h, entry, MPB_ANSWER_NONE);
                CHECK_EQ(entry_of(entry)->service_ns, 3 + ROWS[i].told_ns);
            }
            drama_close(&d);
        }
}

/* ------------------------------------------------------------------ sleeping */
static void test_a_sleeper_can_be_seen(void)
{
    open_with_clock(1000);
    struct mpb_handler *h = &d.h[0];
    set_clock(1700);
    sleepers_seen = heartbeat_seen = 0;
    CHECK_EQ(mpb_handler_wait(h, false, 1), MPB_SLEPT_TIMEOUT);
    CHECK(sleepers_seen & 1);
    CHECK_EQ(heartbeat_seen, 1700);
    drama_close(&d);
}

/* ------------------------------------------------------------------ answers */
/* Whichever way it is given, an answer is one: final, hinted, counted, its request put down. */
static void test_ways_to_answer(void)
{
    for (int way = 0; way < 4; way++) {
        static const uint8_t bytes[200];
        open_with_clock(1);
        struct mpb_handler *h = &d.h[0];
        uint32_t entry = claimed(1);
        struct mpb_entry *e = entry_of(entry);
        uint64_t before = counted_of(0, MPB_C_REQUESTS_ANSWERED);
        e->answer_length = 77;
        if (way == 0) {
            mpb_answer_nothing(h, entry, MPB_ANSWER_NONE);
        } else if (way == 1) {
            int64_t token = mpb_extent_take(&h->extents, 200);
            CHECK(mpb_answer_token(h, entry, MPB_ANSWER_CLOSE, (uint32_t)token, 200));
        } else if (way == 2) {
            CHECK(mpb_answer_reserve(h, entry, 200) != NULL);
            mpb_answer_reserved(h, entry, 200);
        } else {
            CHECK(mpb_answer_bytes(h, entry, MPB_ANSWER_INLINE, bytes, 200));
        }
        CHECK_EQ(e->answer_length, way == 0 ? 0 : 200);
        CHECK_EQ(counted_of(0, MPB_C_REQUESTS_ANSWERED), before + 1);
        CHECK_EQ(in_hand(0), 0);
        CHECK_EQ(mpb_collect(&d.p[0]), entry);
        drama_close(&d);
    }
}

static void test_room_that_is_given_back(void)
{
    open_with_clock(1);
    struct mpb_handler *h = &d.h[0];
    uint32_t entry = claimed(1);
    CHECK(mpb_answer_reserve(h, entry, 5000) != NULL);
    struct mpb_entry *e = entry_of(entry);
    mpb_atomic64 *word = &d.w.core.extents[e->answer_extent - 1];
    CHECK(mpb_load_relaxed(word) != 0);
    mpb_answer_unreserve(h, entry);
    CHECK(mpb_load_relaxed(word) == 0 && e->answer_extent == MPB_NO_EXTENT);
    uint32_t next = claimed(2);
    CHECK(mpb_answer_reserve(h, next, 5000) != NULL);
    CHECK(&d.w.core.extents[entry_of(next)->answer_extent - 1] == word && mpb_load_relaxed(word) != 0);
    mpb_answer_unreserve(h, entry); /* which has none: that word is another one's now */
    CHECK(mpb_load_relaxed(word) != 0 && entry_of(next)->answer_extent != MPB_NO_EXTENT);
    drama_close(&d);
}

/* Cells take exactly the room that they need, in the handler's own part; what a dead handler linked, and never counted, is
 * given up first, also where nothing takes its place. */
static void test_room_for_cells(void)
{
    static const struct world_plan wide = {2, 4, 0, 6, 4, 2, 2, 64 << 10, 8 << 20};
    static struct drama large;
    world_open(&large.w, &wide);
    drama_open(&large);
    struct mpb_handler *h = &large.h[0];
    CHECK(submit(&large.p[0], MPB_PLANE_DATA, 1, 100) >= 0);
    uint32_t entry = (uint32_t)mpb_handler_claim(h, false), units = MPB_UNIT_BYTES / sizeof(struct mpb_cell);
    struct mpb_entry *e = &large.w.core.entries[entry];
    uint64_t part = mpb_arena_handler(&large.w.core, 0);
    CHECK(mpb_cells_ensure(h, entry, units + 1)); /* one in the entry */
    CHECK_EQ(h->extents.units.used, 1);
    CHECK_EQ(e->cells_offset, part);
    e->cell_count = 0; /* killed before it counted them */
    CHECK(mpb_cells_ensure(h, entry, units + 2));
    CHECK_EQ(e->cells_offset, part);
    CHECK_EQ(h->extents.units.used, 2); /* the first one's is free */
    e->cell_count = 0;
    uint32_t fresh = h->extents.fresh, free_count = h->extents.free_count;
    uint32_t linked = e->cells_extent;
    h->extents.fresh = MPB_EXTENTS_PER_HANDLER;
    h->extents.free_count = 0;
    struct mpb_extents kept = h->extents;
    h->extents.held_count = 0; /* nor any to be found */
    CHECK(!mpb_cells_ensure(h, entry, 3));
    CHECK_EQ(e->cells_extent, MPB_NO_EXTENT);
    CHECK_EQ(mpb_load_relaxed(&large.w.core.extents[linked - 1]), 0);
    h->extents.held_count = kept.held_count;
    h->extents.fresh = fresh;
    h->extents.free_count = free_count;
    mpb_extents_idle(&h->extents, 0);
    CHECK(!mpb_cells_ensure(h, entry, 65537));
    CHECK(mpb_cells_ensure(h, entry, 65536)); /* as many as there may be */
    CHECK_EQ(e->cell_count, 65536);
    CHECK_EQ(mpb_cell(&large.w.core, entry, 65535) - mpb_cell(&large.w.core, entry, 1), 65534);
    drama_close(&large);
    world_close(&large.w);
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_what_is_taken_first();
    test_how_long_a_dirty_poke_waits();
    test_who_waited_for_room_is_rung();
    test_which_keys_are_handed_over();
    test_handed_over();
    test_the_order_of_what_is_handed();
    test_who_is_rung_as_the_coordinator();
    test_what_is_passed_on();
    test_what_a_request_took();
    test_a_sleeper_can_be_seen();
    test_ways_to_answer();
    test_room_that_is_given_back();
    test_room_for_cells();
    world_close(&d.w);
    printf("handler claims: %lu checks\n", checks_made);
    return 0;
}
