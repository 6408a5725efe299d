/* A request handler value by value, with clocks that say what a script says: its marks, whose clock counts, how long it was
 * idle, what it refuses when there is no room, and that it gives back then what it took. */
#include "tests/request/handler_scene.h"

static uint64_t counted(uint32_t counter) { return counted_of(0, counter); }

/* Somebody may wait for each that was ever opened; for the coordinator there is a place of its own. */
static void test_the_highest_that_was_opened(void)
{
    static const struct {
        uint32_t before, index, after;
    } ROWS[] = {{0, 0, 1}, {0, 2, 3}, {1, 0, 1}, {3, 0, 3}, {2, 2, 3}, {3, 2, 3}, {5, 2, 5}, {0, COORDINATOR, 0}};
    open_with_clock(1);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_handler h;
        memset((void *)&h, 0x5a, sizeof h);
        mpb_store_relaxed(&d.w.core.header->handlers_high, ROWS[i].before);
        mpb_store_relaxed(&d.w.core.processes[mpb_handler_slot(&d.w.core, ROWS[i].index)].incarnation,
                          40 + (uint32_t)i);
        CHECK_EQ(mpb_handler_open(&h, &d.w.core, ROWS[i].index), 0);
        CHECK_EQ(mpb_load_relaxed(&d.w.core.header->handlers_high), ROWS[i].after);
        CHECK_EQ(h.incarnation, 40 + i);
        CHECK_EQ(h.index, ROWS[i].index);
        CHECK_EQ(h.is_coordinator, ROWS[i].index == COORDINATOR);
        CHECK(h.python_waits && !h.reserved && h.unrung == 0 && h.serve == NULL && h.awake_since_ns == 1);
        mpb_handler_close(&h);
    }
    for (uint32_t index = 0; index < 3; index++) {
        struct mpb_handler h;
        d.w.core.header->reserved_handlers = 2;
        CHECK_EQ(mpb_handler_open(&h, &d.w.core, index), 0);
        CHECK_EQ(h.reserved, (mpb_reserved_mask(&d.w.core) >> index & 1) != 0);
        mpb_handler_close(&h);
    }
    d.w.core.header->reserved_handlers = 0;
    drama_close(&d);
}

/* The last request's end is the next one's beginning, unless it came later: a request that was read from the socket at 6,400
 * and queued 10 ticks (of 64 ns) behind that. */
static void test_whose_clock_counts(void)
{
    static const struct {
        uint64_t served_ns;
        bool traced, reads;
    } ROWS[] = {{0, true, true},     {7040, true, true},  {7103, true, true},
                {7104, true, false}, {9000, true, false}, {9000, false, true}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_with_clock(50000);
        uint32_t entry = claimed(1);
        struct mpb_trace *t = mpb_trace_of(d.w.core.entries[entry].trace);
        t->t0_ns = ROWS[i].traced ? 6400 : 0;
        t->stage[MPB_STAGE_ENQUEUED] = 10;
        mpb_park(&d.h[0], entry, MPB_PARKED_PRODUCE);
        t->stage[MPB_STAGE_ENQUEUED] = 10;
        d.h[0].served_ns = ROWS[i].served_ns;
        mpb_resume(&d.h[0], entry);
        CHECK_EQ(d.h[0].taken_ns, ROWS[i].reads ? 50000 : ROWS[i].served_ns);
        CHECK_EQ(d.h[0].served_ns, 0);
        const struct mpb_process *row = &d.w.core.processes[d.h[0].slot];
        CHECK_EQ(mpb_load_relaxed(&row->request_since_ns), d.h[0].taken_ns);
        CHECK_EQ(mpb_load_relaxed(&row->heartbeat_ns), d.h[0].taken_ns);
        const struct mpb_entry *e = &d.w.core.entries[entry];
        CHECK_EQ(mpb_load_relaxed(&row->request),
                 (uint64_t)(entry + 1) << 32 | (uint64_t)(uint16_t)e->api_key << 16 | (uint16_t)e->api_version);
        mpb_answer_nothing(&d.h[0], entry, MPB_ANSWER_NONE);
        CHECK_EQ(mpb_load_relaxed(&row->request), 0);
        drama_close(&d);
    }
}

/* What waits in which purgatory, and since when it does not any more. */
static void test_where_a_request_waits(void)
{
    static const struct {
        enum mpb_parked_kind kind;
        uint8_t told;
    } ROWS[] = {{MPB_PARKED_NOT, MPB_PURG_NONE},
                {MPB_PARKED_PRODUCE, MPB_PURG_PRODUCE},
                {MPB_PARKED_FETCH, MPB_PURG_FETCH},
                {MPB_PARKED_CONTROLLER, MPB_PURG_CONTROLLER},
                {MPB_PARKED_COORDINATOR, MPB_PURG_JOIN}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int traced = 0; traced < 2; traced++) {
            open_with_clock(1 + 64 * 5);
            uint32_t entry = claimed(1);
            struct mpb_trace *t = mpb_trace_of(d.w.core.entries[entry].trace);
            t->t0_ns = (uint64_t)traced;
            uint64_t before = counted(MPB_C_REQUESTS_PARKED);
            mpb_park(&d.h[0], entry, ROWS[i].kind);
            CHECK_EQ(d.w.core.entries[entry].parked_kind, ROWS[i].kind);
            CHECK_EQ(counted(MPB_C_REQUESTS_PARKED), before + 1);
            CHECK_EQ(t->purg_kind, traced ? ROWS[i].told : MPB_PURG_NONE);
            CHECK_EQ(t->stage[MPB_STAGE_LOCAL_DONE], traced ? 5 : MPB_TRACE_NOT_REACHED);
            CHECK_EQ(t->stage[MPB_STAGE_PURG_ENTER], traced ? 5 : MPB_TRACE_NOT_REACHED);
            script.monotonic_ns[0] = 1 + 64 * 9;
            mpb_resume(&d.h[0], entry);
            CHECK_EQ(t->stage[MPB_STAGE_PURG_LEAVE], traced ? 9 : MPB_TRACE_NOT_REACHED);
            script.monotonic_ns[0] = 1 + 64 * 12;
            mpb_answer_nothing(&d.h[0], entry, MPB_ANSWER_NONE);
            CHECK_EQ(t->stage[MPB_STAGE_LOCAL_DONE], traced ? 5 : MPB_TRACE_NOT_REACHED);
            CHECK_EQ(t->stage[MPB_STAGE_PURG_LEAVE], traced ? 9 : MPB_TRACE_NOT_REACHED);
            CHECK_EQ(t->stage[MPB_STAGE_RESP_ENQ], traced ? 12 : MPB_TRACE_NOT_REACHED);
            drama_close(&d);
        }
}

/* Answered at once, or out of a purgatory that it never left; by the clock, or by the moment when its log was written. */
static void test_when_an_answer_is_there(void)
{
    for (int way = 0; way < 4; way++) {
        bool parked = way & 1, known = way >> 1;
        open_with_clock(1 + 64 * 5);
        uint32_t entry = claimed(1);
        struct mpb_trace *t = mpb_trace_of(d.w.core.entries[entry].trace);
        if (parked)
            mpb_park(&d.h[0], entry, MPB_PARKED_FETCH);
        script.monotonic_ns[0] = 1 + 64 * 20;
        script.monotonic_reads = 0;
        d.h[0].io_done_ns = known ? 1 + 64 * 8 : 0;
        mpb_answer_nothing(&d.h[0], entry, MPB_ANSWER_NONE);
        uint32_t at = known ? 8 : 20;
        CHECK_EQ(script.monotonic_reads, known ? 0 : 1);
        CHECK_EQ(t->stage[MPB_STAGE_LOCAL_DONE], parked ? 5 : at);
        CHECK_EQ(t->stage[MPB_STAGE_PURG_LEAVE], parked ? at : MPB_TRACE_NOT_REACHED);
        CHECK_EQ(t->stage[MPB_STAGE_RESP_ENQ], at);
        CHECK_EQ(t->resp_q, 0);
        drama_close(&d);
    }
    open_with_clock(1);
    for (uint32_t i = 0; i < 3; i++) { /* as many as are there before it */
        uint32_t entry = claimed(i);
        mpb_answer_nothing(&d.h[0], entry, MPB_ANSWER_NONE);
        CHECK_EQ(mpb_trace_of(d.w.core.entries[entry].trace)->resp_q, i);
    }
    drama_close(&d);
}

/* At once, unless it goes on to serve others or holds back what it says: then after some answers, and a new count begins. */
static void test_when_the_processor_is_rung(void)
{
    for (int way = 0; way < 4; way++) {
        open_with_clock(1);
        struct mpb_handler *h = &d.h[0];
        mpb_atomic64 *asleep = &d.w.core.doorbells->processor[0].asleep;
        h->serving = way & 1;
        h->holding = way >> 1;
        for (uint32_t n = 1; n <= 2 * MPB_UNRUNG_ANSWERS + 1; n++) {
            uint32_t entry = claimed(n), held = way == 0 ? 0 : n % MPB_UNRUNG_ANSWERS;
            bool rings = way == 0 || held == 0;
            atomic_store(asleep, 1);
            h->io_done_ns = 70 + n;
            h->served_ns = 3;
            uint64_t wakes = counted(MPB_C_PROCESSOR_WAKES);
            mpb_answer_nothing(h, entry, MPB_ANSWER_NONE);
            CHECK_EQ(atomic_load(asleep), !rings);
            CHECK_EQ(counted(MPB_C_PROCESSOR_WAKES), wakes + rings);
            CHECK_EQ(h->unrung, held != 0);
            CHECK_EQ(h->unrung_answers, held);
            CHECK_EQ(h->served_ns, way == 0 ? 3 : rings ? 0 : 70 + n);
            mpb_collect(&d.p[0]);
            CHECK(mpb_sent(&d.p[0], entry, 1, false));
        }
        mpb_handler_ring_held(h);
        CHECK_EQ(atomic_load(asleep), 0);
        CHECK(!h->holding && h->unrung == 0 && h->unrung_answers == 0);
        h->served_ns = 5;
        mpb_handler_ring_held(h); /* nobody has to hear: nothing takes time */
        CHECK_EQ(h->served_ns, 5);
        drama_close(&d);
    }
}

/* ------------------------------------------------------------------ waiting */
static void test_busy_and_idle(void)
{
    struct mpb_process *row;
    open_with_clock(1000);
    row = &d.w.core.processes[d.h[0].slot];
    mpb_store_relaxed(&row->busy_ns, 7);
    mpb_store_relaxed(&row->idle_ns, 9);
    d.h[0].awake_since_ns = 1000;
    script.monotonic_ns[0] = 1300;
    script.monotonic_ns[1] = 2000;
    script.monotonic_ns[2] = 2005;
    script.monotonic_ns[3] = 2105;
    script.monotonic_lines = 4;
    CHECK_EQ(mpb_handler_wait(&d.h[0], false, 1), MPB_SLEPT_TIMEOUT);
    CHECK_EQ(mpb_load_relaxed(&row->busy_ns), 7 + 300);
    CHECK_EQ(mpb_load_relaxed(&row->idle_ns), 9 + 700);
    CHECK(d.h[0].awake_since_ns == 2000 && mpb_load_relaxed(&row->heartbeat_ns) == 2000);
    CHECK_EQ(mpb_load_relaxed(&row->wait), MPB_WAIT_NONE);
    CHECK_EQ(mpb_handler_wait(&d.h[0], true, 1), MPB_SLEPT_TIMEOUT);
    CHECK_EQ(mpb_load_relaxed(&row->busy_ns), 7 + 305);
    CHECK_EQ(mpb_load_relaxed(&row->idle_ns), 9 + 800);
    CHECK_EQ(mpb_load_relaxed(&row->heartbeat_ns), 2105);
    drama_close(&d);
}

/* Who has something to do does not sleep; who may take no data, though it might have been rung for some, passes it on. */
static void test_what_keeps_awake(void)
{
    enum { POKE = 1, DATA = 2, CONTROL = 4, HANDED = 8 };
    for (int there = 0; there < 16; there++)
        for (int who = 0; who < 4; who++) { /* all, control alone, reserved, the coordinator */
            open_with_clock(1000);
            struct mpb_handler *h = &d.h[who == 3 ? COORDINATOR : 1];
            if (there & HANDED) {
                uint32_t entry = claimed(12); /* for a group */
                mpb_handler_give_to_coordinator(&d.h[0], entry);
            }
            if (there & DATA)
                CHECK(submit(&d.p[0], MPB_PLANE_DATA, 1, 100) >= 0);
            if (there & CONTROL)
                CHECK(submit(&d.p[0], MPB_PLANE_CONTROL, 2, 100) >= 0);
            h->reserved = who == 2;
            atomic_exchange(&d.w.core.doorbells->handler[h->index].poke, there & POKE ? MPB_POKE_SCAN : 0);
            int keeps = POKE | (who == 3 ? HANDED : who == 0 ? DATA | CONTROL : CONTROL);
            uint64_t other = 1 << 2, me = 1ull << h->index;
            mpb_handler_announce(&d.w.core, 2);
            script.monotonic_reads = 0;
            wait_seen = 0;
            CHECK_EQ(mpb_handler_wait(h, who == 1, 1), there & keeps ? MPB_SLEPT_WORK : MPB_SLEPT_TIMEOUT);
            CHECK_EQ(script.monotonic_reads, there & keeps ? 0 : 2);
            CHECK_EQ(atomic_load(&d.w.core.doorbells->sleepers) & me, 0);
            static const uint32_t WAITS[] = {MPB_WAIT_REQUEST, MPB_WAIT_CONTROL_REQUEST, MPB_WAIT_CONTROL_REQUEST,
                                             MPB_WAIT_HANDED};
            CHECK_EQ(wait_seen, there & keeps ? 0 : WAITS[who]);
            bool passed_on = who == 1 && (there & keeps) == 0 && (there & DATA);
            CHECK_EQ(atomic_load(&d.w.core.doorbells->sleepers) & other, passed_on ? 0 : other);
            mpb_handler_withdraw(&d.w.core, 2);
            drama_close(&d);
        }
}

/* ------------------------------------------------------------------ no room */
static void test_no_word_for_an_answer(void)
{
    uint8_t bytes[5000];
    memset(bytes, 7, sizeof bytes);
    open_with_clock(1);
    struct mpb_handler *h = &d.h[0];
    uint32_t entry = claimed(1), fresh = h->extents.fresh, used = h->extents.units.used;
    int64_t token = mpb_extent_take(&h->extents, 100);
    CHECK(token >= 0);
    uint32_t units = h->extents.units.used;
    h->extents.fresh = MPB_EXTENTS_PER_HANDLER;
    uint64_t refused = counted(MPB_C_NO_ANSWER_SPACE), answered = counted(MPB_C_REQUESTS_ANSWERED);
    struct mpb_entry *e = &d.w.core.entries[entry];
    uint32_t kind = e->answer_kind, length = e->answer_length;
    CHECK(!mpb_answer_token(h, entry, MPB_ANSWER_INLINE, (uint32_t)token, 100));
    CHECK(mpb_answer_reserve(h, entry, MPB_INLINE_ANSWER + 1) == NULL);
    CHECK(!mpb_answer_bytes(h, entry, MPB_ANSWER_INLINE, bytes, sizeof bytes));
    CHECK_EQ(counted(MPB_C_NO_ANSWER_SPACE), refused + 1);
    CHECK(!mpb_cells_ensure(h, entry, 2));
    CHECK_EQ(h->extents.units.used, units); /* what they took they gave back */
    CHECK(e->answer_kind == kind && e->answer_length == length && e->answer_extent == MPB_NO_EXTENT);
    CHECK(e->cell_count == 0 && e->cells_extent == MPB_NO_EXTENT && counted(MPB_C_REQUESTS_ANSWERED) == answered);
    CHECK(mpb_handler_owns(h, entry, mpb_state_generation(mpb_load_relaxed(&e->state))));
    h->extents.fresh = fresh;
    CHECK(mpb_answer_token(h, entry, MPB_ANSWER_INLINE, (uint32_t)token, 100));
    CHECK_EQ(e->answer_kind, MPB_ANSWER_EXTENT);
    CHECK_EQ(e->answer_length, 100);
    CHECK_EQ(e->answer_offset, mpb_extent_offset(&h->extents, (uint32_t)token));
    CHECK(h->extents.units.used > used);
    drama_close(&d);
}

/* In the entry as long as it fits there. */
static void test_where_an_answer_lies(void)
{
    static const struct {
        uint32_t length, kind, told;
    } ROWS[] = {{MPB_INLINE_ANSWER, MPB_ANSWER_INLINE, MPB_ANSWER_INLINE},
                {MPB_INLINE_ANSWER + 1, MPB_ANSWER_INLINE, MPB_ANSWER_EXTENT},
                {MPB_INLINE_ANSWER, MPB_ANSWER_CLOSE, MPB_ANSWER_CLOSE},
                {MPB_INLINE_ANSWER + 1, MPB_ANSWER_CLOSE, MPB_ANSWER_CLOSE}};
    static uint8_t bytes[MPB_INLINE_ANSWER + 1];
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int steps = 0; steps < 2; steps++) {
            if (steps == 1 && ROWS[i].kind == MPB_ANSWER_CLOSE)
                continue;
            open_with_clock(1);
            uint32_t entry = claimed(1);
            const struct mpb_entry *e = &d.w.core.entries[entry];
            bool inside = ROWS[i].length <= MPB_INLINE_ANSWER;
            memset(bytes, 60 + (int)i, sizeof bytes);
            if (steps == 0) {
                CHECK(mpb_answer_bytes(&d.h[0], entry, ROWS[i].kind, bytes, ROWS[i].length));
            } else {
                uint8_t *room = mpb_answer_reserve(&d.h[0], entry, ROWS[i].length);
                CHECK(room != NULL);
                memcpy(room, bytes, ROWS[i].length);
                mpb_answer_reserved(&d.h[0], entry, ROWS[i].length);
            }
            CHECK_EQ(e->answer_kind, ROWS[i].told);
            CHECK_EQ(e->answer_length, ROWS[i].length);
            CHECK_EQ(e->answer_extent == MPB_NO_EXTENT, inside);
            const uint8_t *found = inside ? e->answer_bytes : d.w.core.arena + e->answer_offset;
            CHECK(memcmp(found, bytes, ROWS[i].length) == 0);
            drama_close(&d);
        }
}

/* One cell lies in the entry, more behind it in the arena; a second asker finds what the first one made. */
static void test_cells(void)
{
    static const struct {
        uint32_t asked, again;
        bool made, enough;
    } ROWS[] = {{0, 1, false, true},     {1, 1, true, true},      {1, 2, true, false},
                {3, 3, true, true},      {3, 4, true, false},     {3, 1, true, true},
                {65537, 1, false, true}, {65536, 1, false, true}, {200000, 1, false, true}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_with_clock(1);
        uint32_t entry = claimed(1), units = d.h[0].extents.units.used;
        struct mpb_entry *e = &d.w.core.entries[entry];
        memset(d.w.core.arena + mpb_arena_handler(&d.w.core, 0), 0x5a, 4096); /* somebody's old bytes */
        CHECK_EQ(mpb_cells_ensure(&d.h[0], entry, ROWS[i].asked), ROWS[i].made);
        CHECK_EQ(e->cell_count, ROWS[i].made ? ROWS[i].asked : 0);
        CHECK_EQ(e->cells_extent != MPB_NO_EXTENT, ROWS[i].made && ROWS[i].asked > 1);
        CHECK_EQ(d.h[0].extents.units.used == units, e->cells_extent == MPB_NO_EXTENT);
        for (uint32_t n = 0; n < e->cell_count; n++) {
            struct mpb_cell *cell = mpb_cell(&d.w.core, entry, n);
            uint8_t *first = d.w.core.arena + e->cells_offset;
            CHECK((uint8_t *)cell == (n == 0 ? (uint8_t *)&e->cell : first + (n - 1) * sizeof *cell));
            for (size_t byte = 0; n > 0 && byte < sizeof *cell; byte++)
                CHECK_EQ(((uint8_t *)cell)[byte], 0);
        }
        CHECK(mpb_cell(&d.w.core, entry, e->cell_count) == NULL);
        CHECK_EQ(mpb_cells_ensure(&d.h[0], entry, ROWS[i].again), ROWS[i].enough);
        drama_close(&d);
    }
}

/* ------------------------------------------------------------------ whose it is */
static void test_whose_an_entry_is(void)
{
    open_with_clock(1);
    uint32_t entry = claimed(1), generation = mpb_state_generation(mpb_load_relaxed(&d.w.core.entries[entry].state));
    CHECK(mpb_handler_owns(&d.h[0], entry, generation));
    CHECK(!mpb_handler_owns(&d.h[0], entry, generation + 1) && !mpb_handler_owns(&d.h[1], entry, generation));
    CHECK(!mpb_handler_owns(&d.h[0], entry + 1, generation));
    uint32_t count = d.w.core.entry_count; /* it lies behind the table: nobody looks */
    d.w.core.entry_count = entry;
    CHECK(!mpb_handler_owns(&d.h[0], entry, generation));
    d.w.core.entry_count = entry + 1;
    CHECK(mpb_handler_owns(&d.h[0], entry, generation));
    d.w.core.entry_count = count;
    drama_close(&d);
}

static void look_never(void *with, uint64_t rows)
{
    (void)with;
    (void)rows;
}

static void test_when_python_has_to_look(void)
{
    static const int64_t ROWS[][3] = {{5, 9, 5}, {9, 5, 5}, {INT64_MIN, 3, INT64_MIN}, {INT64_MAX, 4, 4}};
    open_with_clock(1);
    struct mpb_handler *h = &d.h[0];
    CHECK_EQ(mpb_handler_due_ms(h), INT64_MAX);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        for (int waits = 0; waits < MPB_NATIVE_WAITS; waits++)
            h->waits[waits] = (struct mpb_native_waits){look_never, NULL, &ROWS[i][waits]};
        CHECK_EQ(mpb_handler_due_ms(h), ROWS[i][2]);
        h->waits[0].look_again = NULL;
        CHECK_EQ(mpb_handler_due_ms(h), ROWS[i][1]);
    }
    drama_close(&d);
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_the_highest_that_was_opened();
    test_whose_clock_counts();
    test_where_a_request_waits();
    test_when_an_answer_is_there();
    test_when_the_processor_is_rung();
    test_busy_and_idle();
    test_what_keeps_awake();
    test_no_word_for_an_answer();
    test_where_an_answer_lies();
    test_cells();
    test_whose_an_entry_is();
    test_when_python_has_to_look();
    world_close(&d.w);
    printf("handler values: %lu checks\n", checks_made);
    return 0;
}
