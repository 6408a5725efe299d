/* A repair beside a naive reading of its rules (recover.h, docs/request-rules.md 12 to 16): shared memory is filled with
 * entries in any state, owned and hinted by anybody, as kills may leave them; then every word, ring, counter and bell is what
 * the rules say, and nothing else is touched. */
#include "tests/stepping/scripted_calls.h"
#include "request/killers.h"
#include "request/request_metrics.h"
#include "shm/counters.h"
#include "tests/shm/shm_world.h"
#include "trace/trace_record.h"

enum { PROCESSORS = 3, EACH = 43, ENTRIES = PROCESSORS * EACH, COMMANDS = 70, HANDLERS = 4, COORDINATOR = 3 };
enum { NO_RING = 99, LANE_RECORDS = 256 };

/* Rows of more than two words of bits, the last one's alone in the third. */
static const struct world_plan plan = {PROCESSORS, HANDLERS, 0, EACH, 140, 140, COMMANDS, 64 << 10, 256 << 10};
static struct world w;
static uint64_t seed = 20261127;

/* Rings of entries, and how many of a row's hints each holds. */
static const uint32_t RINGS[] = {MPB_RING_CONTROL,     MPB_RING_CONTROL + MPB_CLASS_REQUEUED,
                                 MPB_RING_DATA,        MPB_RING_DATA + 1,
                                 MPB_RING_DATA + 2,    MPB_RING_DATA + 3,
                                 MPB_RING_DATA + 6,    MPB_RING_DATA + MPB_CLASS_REQUEUED,
                                 MPB_RING_COORDINATOR, MPB_RING_COORDINATOR_REQUEUED,
                                 MPB_RING_RESPONSE,    MPB_RING_RESPONSE + 1,
                                 MPB_RING_RESPONSE + 2};
enum { RING_COUNT = sizeof RINGS / sizeof *RINGS };
static uint32_t classes; /* class rings of the data plane that were ever in use */

static uint32_t woken; /* processors that answers are hinted to */

struct model { /* of an entry */
    uint64_t state;
    bool hinted[RING_COUNT];
};
static struct model before[ENTRIES], after[ENTRIES];
static uint32_t depth[RING_COUNT];

static uint64_t counted(uint32_t slot, uint32_t counter)
{
    return mpb_load_relaxed(&w.core.counters[slot].value[counter]);
}

static bool one_in(uint32_t n) { return (next_random(&seed) >> 20) % n == 0; }

static int ring_at(uint32_t ring)
{
    for (int i = 0; i < RING_COUNT; i++)
        if (RINGS[i] == ring)
            return i;
    return -1;
}

static void hint(uint32_t i, uint32_t ring)
{
    struct mpb_ring view = mpb_ring_view(&w.core, ring);
    CHECK_EQ(mpb_ring_push(&view, mpb_hint(i, mpb_state_generation(before[i].state))), 0);
    before[i].hinted[ring_at(ring)] = true;
    depth[ring_at(ring)]++;
}

static bool is_used(uint32_t i)
{
    return i % EACH < mpb_load_relaxed(&w.core.doorbells->processor_mark[i / EACH].entries_high);
}

/* Everything anew: who owns what, in which state, and which of a row's hints are there. `owners`: those it is drawn from. */
static void draw(const uint32_t *owners, uint32_t owner_count)
{
    world_reset(&w);
    memset((void *)w.core.counters, 0, MPB_MAX_SLOTS * sizeof *w.core.counters);
    memset(depth, 0, sizeof depth);
    memset(before, 0, sizeof before);
    classes = 1 + (uint32_t)(next_random(&seed) >> 30) % 4;
    mpb_store_relaxed(&w.core.header->plane_classes[MPB_PLANE_DATA], classes);
    w.core.header->processor_count = PROCESSORS;
    mpb_store_relaxed(&w.core.header->handlers_high, COORDINATOR);
    for (uint32_t p = 0; p < PROCESSORS; p++) {
        static const uint32_t HIGHS[] = {0, 1, 20, EACH - 1, EACH, EACH, EACH, EACH + 7};
        mpb_store_relaxed(&w.core.doorbells->processor_mark[p].entries_high, HIGHS[next_random(&seed) >> 40 & 7]);
    }
    for (uint32_t i = 0; i < ENTRIES; i++) {
        struct mpb_entry *e = &w.core.entries[i];
        uint32_t state = (uint32_t)(next_random(&seed) >> 33) & 7;
        uint32_t owner = owners[(next_random(&seed) >> 33) % owner_count];
        before[i].state = mpb_state_word(100 + i, state, owner);
        mpb_store_relaxed(&e->state, before[i].state);
        e->fill_number = 1000 + i;
        e->plane = one_in(2);
        e->api_key = 3;
        e->payload_offset = MPB_PAYLOAD_INLINE;
        e->payload_length = 20;
        e->answer_kind = 77;
        e->answer_length = 78;
        mpb_trace_of(e->trace)->t0_ns = 1;
        mpb_trace_of(e->trace)->stage[MPB_STAGE_DEQUEUED] = 5;
        mpb_store_relaxed(&e->received, 1);
        uint32_t at = (uint32_t)(next_random(&seed) >> 35) % (RING_COUNT + 4);
        if (at < RING_COUNT - 3)
            hint(i, RINGS[at]);
        else if (at < RING_COUNT)
            hint(i, MPB_RING_RESPONSE + i / EACH);
    }
    memcpy(after, before, sizeof after);
}

/* Leaves nothing but ones where the repair's tables will be: it must not believe them. */
__attribute__((noinline)) static void dirty_stack(void)
{
    volatile uint8_t bytes[128 << 10];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0xff;
}

static bool is_queued(const struct model *m)
{
    bool found = m->hinted[ring_at(MPB_RING_CONTROL)] || m->hinted[ring_at(MPB_RING_CONTROL + MPB_CLASS_REQUEUED)] ||
                 m->hinted[ring_at(MPB_RING_DATA + MPB_CLASS_REQUEUED)];
    for (uint32_t c = 0; c < classes; c++)
        found |= c < 4 && m->hinted[ring_at(MPB_RING_DATA + c)];
    return found;
}

static bool is_handed(const struct model *m)
{
    return m->hinted[ring_at(MPB_RING_COORDINATOR)] || m->hinted[ring_at(MPB_RING_COORDINATOR_REQUEUED)];
}

/* A hint of its present generation; those of the one before are stale, and gone from `hinted`. */
static void expect_hint(uint32_t i, uint32_t ring, uint32_t generation)
{
    if (generation != mpb_state_generation(before[i].state))
        memset(after[i].hinted, 0, sizeof after[i].hinted);
    after[i].hinted[ring_at(ring)] = true;
    depth[ring_at(ring)]++;
    if (ring >= MPB_RING_RESPONSE)
        woken |= 1u << (ring - MPB_RING_RESPONSE);
}

static void check_all(void)
{
    for (uint32_t i = 0; i < ENTRIES; i++)
        CHECK_EQ(mpb_load_relaxed(&w.core.entries[i].state), after[i].state);
    for (int r = 0; r < RING_COUNT; r++) {
        uint64_t present[ENTRIES / 64 + 1] = {0};
        struct mpb_ring ring = mpb_ring_view(&w.core, RINGS[r]);
        mpb_ring_scan(&ring, present);
        CHECK_EQ(mpb_ring_depth(&ring), depth[r]);
        for (uint32_t i = 0; i < ENTRIES; i++)
            CHECK_EQ(present[i / 64] >> i % 64 & 1, after[i].hinted[r]);
    }
    for (uint32_t h = 0; h < HANDLERS; h++)
        CHECK(mpb_load_relaxed(&w.core.doorbells->handler[h].poke) & MPB_POKE_SCAN);
}

/* ------------------------------------------------------------------ handler */
static void expect_put_back(uint32_t i, uint32_t slot, bool closes, struct mpb_recovery *told)
{
    uint32_t generation = mpb_state_generation(before[i].state), plane = w.core.entries[i].plane;
    if (closes) {
        after[i].state = mpb_state_word(generation, MPB_E_DONE, slot);
        expect_hint(i, MPB_RING_RESPONSE + i / EACH, generation);
        told->closed++;
        return;
    }
    after[i].state = mpb_state_word(generation + 1, MPB_E_REQUEUED, slot);
    expect_hint(
        i, slot == MPB_SLOT_COORDINATOR ? MPB_RING_COORDINATOR_REQUEUED : mpb_plane_ring(plane, MPB_CLASS_REQUEUED),
        generation + 1);
    told->requeued++;
}

static void expect_of_handler(uint32_t i, uint32_t slot, bool closes, struct mpb_recovery *told)
{
    struct model *m = &before[i];
    uint32_t generation = mpb_state_generation(m->state), plane = w.core.entries[i].plane;
    bool is_coordinator = slot == MPB_SLOT_COORDINATOR;
    if (mpb_state_owner(m->state) != slot || !is_used(i) || i / EACH >= w.core.header->processor_count)
        return;
    uint32_t ring = NO_RING;
    switch (mpb_state_of(m->state)) {
    case MPB_E_CLAIMED:
        expect_put_back(i, slot, closes, told);
        break;
    case MPB_E_REQUEUED:
        if (is_coordinator && !is_handed(m))
            ring = MPB_RING_COORDINATOR_REQUEUED;
        if (!is_coordinator && !is_queued(m))
            ring = mpb_plane_ring(plane, MPB_CLASS_REQUEUED);
        break;
    case MPB_E_HANDED:
        ring = is_handed(m) ? NO_RING : MPB_RING_COORDINATOR;
        break;
    case MPB_E_DONE:
        ring = m->hinted[ring_at(MPB_RING_RESPONSE + i / EACH)] ? NO_RING : MPB_RING_RESPONSE + i / EACH;
        break;
    default:
        break;
    }
    if (ring != NO_RING) {
        expect_hint(i, ring, generation);
        told->hinted++;
    }
}

/* One of the claimed is in hand, and some are of requests that killed before. */
static uint32_t draw_deaths(uint32_t slot, uint32_t handler, bool closes[ENTRIES])
{
    uint32_t in_hand = UINT32_MAX;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t deaths = (uint32_t)(next_random(&seed) >> 33) & 3;
        bool is_mine = before[i].state == mpb_state_word(100 + i, MPB_E_CLAIMED, slot) && is_used(i);
        mpb_store_relaxed(&w.core.entries[i].attempts, deaths);
        if (is_mine && in_hand == UINT32_MAX && i > 20) {
            in_hand = i;
            deaths++;
        }
        closes[i] = deaths >= MPB_ATTEMPTS_LAST;
    }
    mpb_store_relaxed(&w.core.doorbells->handler_mark[handler].in_hand, in_hand + 1);
    return in_hand;
}

static void check_entry_of(uint32_t i, bool closes)
{
    const struct mpb_entry *e = &w.core.entries[i];
    const struct mpb_trace *t = mpb_trace_of(w.core.entries[i].trace);
    bool was_claimed = before[i].state != after[i].state;
    CHECK_EQ(e->answer_kind, was_claimed && closes ? MPB_ANSWER_CLOSE : 77);
    CHECK_EQ(e->answer_length, was_claimed ? 0 : 78);
    CHECK_EQ(e->error, was_claimed && closes ? -1 : 0);
    CHECK_EQ(t->flags & MPB_TF_REDISPATCHED, was_claimed ? MPB_TF_REDISPATCHED : 0);
    CHECK_EQ(t->stage[MPB_STAGE_DEQUEUED], was_claimed && !closes ? MPB_TRACE_NOT_REACHED : 5);
}

static void test_a_handler(void)
{
    static const uint32_t OWNERS[] = {MPB_SLOT_HANDLERS,     MPB_SLOT_HANDLERS,    MPB_SLOT_HANDLERS,
                                      MPB_SLOT_HANDLERS + 1, MPB_SLOT_COORDINATOR, MPB_SLOT_COORDINATOR,
                                      MPB_SLOT_PROCESSORS};
    for (int round = 0; round < 40; round++) {
        uint32_t index = round % 2 ? COORDINATOR : 0, slot = mpb_handler_slot(&w.core, index);
        struct mpb_recovery told = {0}, done = {9, 9, 9, 9, 9};
        struct mpb_handler h;
        bool closes[ENTRIES];
        draw(OWNERS, sizeof OWNERS / sizeof *OWNERS);
        uint32_t in_hand = draw_deaths(slot, index, closes);
        w.core.header->processor_count = round % 8 < 2 ? PROCESSORS - 1 : PROCESSORS;
        woken = 0;
        for (uint32_t i = 0; i < ENTRIES; i++)
            expect_of_handler(i, slot, closes[i], &told);
        CHECK_EQ(mpb_handler_open(&h, &w.core, index), 0);
        mpb_store_relaxed(&w.core.header->handlers_high, COORDINATOR);
        mpb_handler_announce(&w.core, index);
        for (uint32_t p = 0; p < PROCESSORS; p++)
            atomic_store(&w.core.doorbells->processor[p].asleep, 1);
        dirty_stack();
        mpb_recover_handler(&h, &done);
        check_all();
        CHECK(memcmp(&done, &told, sizeof done) == 0);
        CHECK_EQ(counted(slot, MPB_C_REQUEUED), told.requeued);
        CHECK_EQ(counted(slot, MPB_C_POISONED), told.closed);
        CHECK_EQ(counted(slot, MPB_C_PROCESSOR_WAKES), __builtin_popcount(woken));
        CHECK_EQ(counted(slot, MPB_C_RECOVERIES), 1);
        CHECK_EQ(mpb_load_relaxed(&w.core.doorbells->handler_mark[index].in_hand), 0);
        CHECK_EQ(atomic_load(&w.core.doorbells->sleepers), 0);
        for (uint32_t i = 0; i < ENTRIES; i++) {
            if (mpb_state_of(before[i].state) == MPB_E_CLAIMED)
                check_entry_of(i, closes[i]);
            uint32_t deaths = mpb_load_relaxed(&w.core.entries[i].attempts);
            CHECK_EQ(deaths >> 8, i == in_hand && i / EACH < w.core.header->processor_count ? 101 + i : 0);
        }
        mpb_handler_close(&h);
    }
}

/* ------------------------------------------------------------------ deaths in hand */
/* Each death is counted once, for the generation in hand, up to what eight bits hold. */
static void test_deaths_are_counted_once(void)
{
    static const struct {
        uint32_t generation, seen, now;
        bool closes, is_killer;
    } ROWS[] = {{0, 0, 1 << 8 | 1, false, false},
                {0, 1 << 8 | 1, 1 << 8 | 1, false, false}, /* a repair that was killed has counted it */
                {1, 1 << 8 | 1, 2 << 8 | 2, false, true},
                {1, 2 << 8 | 2, 2 << 8 | 2, false, false}, /* and remembered it */
                {2, 2 << 8 | 2, 3 << 8 | 3, true, false},
                {7, 3, 8 << 8 | 4, true, false},
                {7, 1, 8 << 8 | 2, false, true},
                {0xfffffe, 1, 0xffffff00 | 2, false, true},
                {0xffffff, 1 << 8, 1, false, false}, /* the mark has 24 bits */
                {0x1000004, 4 << 8 | 9, 5 << 8 | 10, true, false},
                {0x1000004, 5 << 8 | 9, 5 << 8 | 9, true, false},
                {7, 0xfe, 8 << 8 | 0xff, true, false},
                {7, 0xff, 8 << 8 | 0xff, true, false}};
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++)
        for (int64_t wall_ns = 1700000000000000000; wall_ns <= 1700000000999000000; wall_ns += 999000000) {
            struct mpb_recovery done;
            struct mpb_handler h;
            static const uint32_t OWNERS[] = {MPB_SLOT_PROCESSORS};
            draw(OWNERS, 1);
            script.wall_ns[0] = wall_ns;
            mpb_store_relaxed(&w.core.doorbells->processor_mark[0].entries_high, 1);
            struct mpb_entry *e = &w.core.entries[0];
            mpb_store_relaxed(&e->state, mpb_state_word(ROWS[r].generation, MPB_E_CLAIMED, MPB_SLOT_HANDLERS));
            mpb_store_relaxed(&e->attempts, ROWS[r].seen);
            mpb_store_relaxed(&w.core.doorbells->handler_mark[0].in_hand, 1);
            make_frame(e->payload_bytes, 20, 5);
            CHECK_EQ(mpb_handler_open(&h, &w.core, 0), 0);
            mpb_recover_handler(&h, &done);
            CHECK_EQ(mpb_load_relaxed(&e->attempts), ROWS[r].now);
            CHECK(done.closed == ROWS[r].closes && done.requeued == !ROWS[r].closes);
            CHECK_EQ(mpb_killer_known(&w.core, e->payload_bytes, 20), ROWS[r].is_killer);
            uint64_t when = 2ull << 48 | (uint64_t)wall_ns / 1000000;
            CHECK_EQ(mpb_load_relaxed(&w.core.killers[0].kills_when), ROWS[r].is_killer ? when : 0);
            mpb_handler_close(&h);
        }
}

/* What may be in a log is not closed over it, however often it killed: its next run finds what was appended. */
static void test_an_append_that_was_begun(void)
{
    for (int row = -1; row < 3; row++)
        for (uint32_t attempts = 2; attempts < 5; attempts++) {
            static const uint32_t OWNERS[] = {MPB_SLOT_PROCESSORS};
            struct mpb_recovery done;
            struct mpb_handler h;
            draw(OWNERS, 1);
            mpb_store_relaxed(&w.core.doorbells->processor_mark[0].entries_high, EACH);
            mpb_store_relaxed(&w.core.header->partitions_high, 3);
            struct mpb_entry *e = &w.core.entries[4];
            mpb_store_relaxed(&e->state, mpb_state_word(1, MPB_E_CLAIMED, MPB_SLOT_HANDLERS));
            mpb_store_relaxed(&e->attempts, attempts);
            if (row >= 0) {
                struct mpb_intent *intent = &w.core.partitions[row].intent;
                mpb_store_relaxed(&intent->word, (uint64_t)MPB_INTENT_APPEND << 24);
                intent->entry = 4;
                intent->fill_number = e->fill_number;
            }
            CHECK_EQ(mpb_handler_open(&h, &w.core, 0), 0);
            mpb_recover_handler(&h, &done);
            CHECK_EQ(done.closed, row < 0 && attempts >= 3);
            CHECK_EQ(done.requeued, row >= 0 || attempts < 3);
            mpb_handler_close(&h);
            memset((void *)w.core.partitions, 0, 3 * sizeof *w.core.partitions);
        }
}

/* Room of answers that were never final is free, also where another handler had taken it; cells stay for the next run. */
static void test_room_of_answers(void)
{
    static const uint32_t OWNERS[] = {MPB_SLOT_PROCESSORS};
    struct mpb_recovery done;
    struct mpb_handler h[2];
    draw(OWNERS, 1);
    mpb_store_relaxed(&w.core.doorbells->processor_mark[0].entries_high, EACH);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_EQ(mpb_handler_open(&h[i], &w.core, i), 0);
    uint32_t numbers[4];
    for (uint32_t i = 0; i < 4; i++) { /* an answer, another's, cells, and one that nobody names */
        struct mpb_extents *from = &h[i == 1].extents;
        int64_t token = mpb_extent_take(from, MPB_UNIT_BYTES * (i + 1));
        CHECK(token >= 0);
        mpb_store_relaxed(&w.core.entries[i].state, mpb_state_word(1, MPB_E_CLAIMED, MPB_SLOT_HANDLERS));
        numbers[i] = mpb_extent_link(from, (uint32_t)token, i, 1);
    }
    w.core.entries[0].answer_extent = numbers[0];
    w.core.entries[1].answer_extent = numbers[1];
    w.core.entries[2].cells_extent = numbers[2];
    mpb_recover_handler(&h[0], &done);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(mpb_load_relaxed(&w.core.extents[numbers[i] - 1]) != 0, i == 2);
        CHECK_EQ(w.core.entries[i].answer_extent, MPB_NO_EXTENT);
    }
    CHECK_EQ(w.core.entries[2].cells_extent, numbers[2]);
    CHECK_EQ(h[0].extents.units.used, 3);
    for (uint32_t i = 0; i < 2; i++)
        mpb_handler_close(&h[i]);
}

/* ------------------------------------------------------------------ processor */
static struct mpb_lane lane;

static void open_lane(void)
{
    static _Alignas(64) uint8_t memory[sizeof(struct mpb_lane_header) + LANE_RECORDS * MPB_TRACE_BYTES];
    memset(memory, 0, sizeof memory);
    CHECK_EQ(mpb_lane_format(memory, sizeof memory, LANE_RECORDS, 0, 7), 0);
    CHECK_EQ(mpb_lane_attach(&lane, memory, sizeof memory), 0);
}

static void test_a_processor(void)
{
    static const uint32_t OWNERS[] = {MPB_SLOT_PROCESSORS, MPB_SLOT_PROCESSORS + 1, MPB_SLOT_PROCESSORS + 1,
                                      MPB_SLOT_PROCESSORS + 2, MPB_SLOT_HANDLERS};
    for (uint32_t round = 0; round < 40; round++) {
        uint32_t index = round % PROCESSORS, slot = MPB_SLOT_PROCESSORS + index, finished = 0, freed = 0, in_use = 0;
        struct mpb_recovery done = {9, 9, 9, 9, 9};
        struct mpb_processor p;
        draw(OWNERS, sizeof OWNERS / sizeof *OWNERS);
        open_lane();
        uint64_t answered = mpb_load_relaxed(&w.core.apis[index * MPB_API_ROWS + 3].version[0]);
        for (uint32_t i = 0; i < ENTRIES; i++) {
            uint64_t state = before[i].state;
            bool is_of_part = i / EACH == index && is_used(i);
            uint32_t received = (uint32_t)(next_random(&seed) >> 33) & 1;
            mpb_store_relaxed(&w.core.entries[i].received, received);
            bool goes = is_of_part && mpb_state_owner(state) == slot &&
                        (mpb_state_of(state) == MPB_E_FILL || mpb_state_of(state) == MPB_E_SENDING ||
                         (mpb_state_of(state) == MPB_E_QUEUED && !is_queued(&before[i])));
            if (goes) {
                after[i].state = mpb_state_word(mpb_state_generation(state) + 1, MPB_E_FREE, slot);
                memset(after[i].hinted, 0, sizeof after[i].hinted);
                finished += received;
                freed++;
            }
            in_use += is_of_part && mpb_state_of(after[i].state) != MPB_E_FREE;
        }
        CHECK_EQ(mpb_processor_open(&p, &w.core, index), 0);
        p.lane = &lane;
        mpb_store_relaxed(&w.core.doorbells->processor_mark[index].pushing, 1);
        atomic_store(&w.core.doorbells->processor[index].asleep, 1);
        atomic_store(&w.core.doorbells->want_space, UINT64_MAX);
        dirty_stack();
        mpb_recover_processor(&p, &done);
        check_all();
        CHECK(done.freed == freed && done.requeued == 0 && done.hinted == 0 && done.closed == 0 && done.dropped == 0);
        CHECK_EQ(counted(slot, MPB_C_REQUESTS_FINISHED), finished);
        CHECK_EQ(counted(slot, MPB_C_RECOVERIES), 1);
        CHECK_EQ(mpb_load_relaxed(&w.core.apis[index * MPB_API_ROWS + 3].version[0]) - answered, finished);
        CHECK_EQ(mpb_lane_read_counters(&lane).written, finished);
        if (finished > 0)
            CHECK(((const struct mpb_trace *)mpb_lane_peek(&lane, 1).first)->flags & MPB_TF_ABORTED);
        CHECK_EQ(p.free_count, EACH - in_use);
        CHECK_EQ(p.queued_bytes, 20 * in_use);
        CHECK_EQ(counted(slot, MPB_C_QUEUED_BYTES), 20 * in_use);
        CHECK_EQ(counted(slot, MPB_C_ENTRIES_IN_USE), in_use);
        CHECK_EQ(atomic_load(&w.core.doorbells->want_space), UINT64_MAX & ~(0x100000001ull << index));
        CHECK_EQ(atomic_load(&w.core.doorbells->processor[index].asleep), 0);
        CHECK_EQ(mpb_load_relaxed(&w.core.doorbells->processor_mark[index].pushing), 0);
        mpb_processor_close(&p);
    }
}

/* As many rows as there can be, the last few of which fill up the tables of the repair: nothing behind them is touched, as
 * a sanitizer sees. */
static void test_the_most_rows(void)
{
    static const uint32_t OWNERS[] = {MPB_SLOT_PROCESSORS};
    for (uint32_t rows = (1u << MPB_INDEX_BITS) - 66; rows <= (1u << MPB_INDEX_BITS) - 2; rows++) {
        struct mpb_recovery done;
        struct mpb_processor p;
        struct mpb_handler h;
        draw(OWNERS, 1);
        for (uint32_t processor = 0; processor < PROCESSORS; processor++)
            mpb_store_relaxed(&w.core.doorbells->processor_mark[processor].entries_high, 0);
        CHECK_EQ(mpb_processor_open(&p, &w.core, 0), 0);
        CHECK_EQ(mpb_handler_open(&h, &w.core, 0), 0);
        w.core.entry_count = rows; /* no other one is ever looked at: none was used */
        mpb_recover_processor(&p, &done);
        mpb_recover_handler(&h, &done);
        w.core.entry_count = ENTRIES;
        CHECK_EQ(counted(MPB_SLOT_PROCESSORS, MPB_C_RECOVERIES) + counted(MPB_SLOT_HANDLERS, MPB_C_RECOVERIES), 2);
        mpb_handler_close(&h);
        mpb_processor_close(&p);
    }
}

/* ------------------------------------------------------------------ controller */
/* What it had claimed, and what an earlier repair put back without a hint, is hinted; in its own ring of commands, beside
 * which a ring of entries lies. */
static void test_a_controller(void)
{
    static const uint32_t OWNERS[] = {MPB_SLOT_HANDLERS};
    enum { ROWS = COMMANDS - 1 };
    static const uint32_t CONTROLLERS[] = {MPB_SLOT_CONTROLLER, MPB_SLOT_CLUSTER_CONTROLLER};
    for (int round = 0; round < 40; round++) {
        uint32_t self = CONTROLLERS[round % 2];
        uint64_t states[COMMANDS];
        struct mpb_recovery done = {9, 9, 9, 9, 9};
        uint32_t told = 0, waiting = 0;
        bool hinted[COMMANDS] = {false};
        draw(OWNERS, 1);
        struct mpb_ring_ctl *unused = &w.core.rings[MPB_RING_DATA + 5],
                            *cluster = &w.core.rings[MPB_RING_CLUSTER_CONTROLLER];
        cluster->capacity = unused->capacity;
        cluster->slots_first = unused->slots_first;
        unused->capacity = 0;
        for (uint32_t i = 0; i < COMMANDS; i++) {
            uint32_t state = (uint32_t)(next_random(&seed) >> 33) % 6, generation = 7 + i;
            uint32_t owner = CONTROLLERS[one_in(2)];
            mpb_store_relaxed(&w.core.commands[i].state, mpb_state_word(generation, state, owner));
            hinted[i] = one_in(4) && i < ROWS && (state == MPB_E_REQUEUED || state == MPB_E_QUEUED);
            struct mpb_ring ring = mpb_ring_view(&w.core, mpb_command_ring(self));
            if (hinted[i])
                CHECK_EQ(mpb_ring_push(&ring, mpb_hint(i, generation)), 0);
            waiting += hinted[i];
            bool comes = owner == self && i < ROWS &&
                         (state == MPB_E_CLAIMED || (state == MPB_E_REQUEUED && !hinted[i]));
            generation += comes && state == MPB_E_CLAIMED;
            told += comes;
            states[i] = mpb_state_word(generation, comes ? MPB_E_REQUEUED : state, owner);
            hinted[i] |= comes;
        }
        w.core.command_count = ROWS;
        dirty_stack();
        mpb_recover_controller(&w.core, self, &done);
        uint64_t present[COMMANDS / 64 + 1] = {0};
        struct mpb_ring ring = mpb_ring_view(&w.core, mpb_command_ring(self));
        mpb_ring_scan(&ring, present);
        w.core.command_count = COMMANDS;
        CHECK_EQ(mpb_ring_depth(&ring), waiting + told);
        CHECK(done.requeued == told && done.hinted == 0 && done.closed == 0 && done.freed == 0 && done.dropped == 0);
        for (uint32_t i = 0; i < COMMANDS; i++) {
            CHECK_EQ(mpb_load_relaxed(&w.core.commands[i].state), states[i]);
            CHECK_EQ(present[i / 64] >> i % 64 & 1, hinted[i]);
        }
        CHECK_EQ(counted(self, MPB_C_RECOVERIES), 1);
        CHECK(mpb_load_relaxed(&w.core.doorbells->handler[1].poke) & MPB_POKE_SCAN);
    }
}

int main(void)
{
    script.monotonic_ns[0] = script.wall_ns[0] = 1000;
    script.monotonic_lines = script.wall_lines = 1;
    world_open(&w, &plan);
    test_a_handler();
    test_deaths_are_counted_once();
    test_an_append_that_was_begun();
    test_room_of_answers();
    test_a_processor();
    test_the_most_rows();
    test_a_controller();
    world_close(&w);
    printf("recover values: %lu checks\n", checks_made);
    return 0;
}
