/* A processor at its bounds: what a freed entry leaves, what is refused or dropped and counted, whose room it takes, whom it
 * wakes, and what the tables beside it (planes, killers, metrics) make of rows that are not theirs. */
#include "tests/request/handler_scene.h"
#include "tests/shm/counted_frees.h"
#include "request/killers.h"
#include "request/request_metrics.h"

static uint32_t pushing_seen; /* by whoever reads the clock meanwhile */

static void see_pushing(void) { pushing_seen |= mpb_load_relaxed(&d.w.core.doorbells->processor_mark[0].pushing); }

static uint64_t counted(uint32_t counter) { return mpb_load_relaxed(&d.w.core.counters[d.p[0].slot].value[counter]); }

/* ------------------------------------------------------------------ what a freed entry leaves */
static void test_what_a_freed_one_leaves(void)
{
    drama_open(&d);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 1, 100), 0);
    CHECK_EQ(mpb_handler_claim(&d.h[0], false), 0);
    struct mpb_entry *e = entry_of(0);
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&e->state));
    uint64_t version = mpb_load_relaxed(&d.w.core.apis[3].version[1]);
    CHECK(mpb_cells_ensure(&d.h[0], 0, 3));
    CHECK(mpb_answer_reserve(&d.h[0], 0, 5000) != NULL);
    mpb_atomic64 *words[] = {&d.w.core.extents[e->answer_extent - 1], &d.w.core.extents[e->cells_extent - 1]};
    mpb_answer_reserved(&d.h[0], 0, 5000);
    CHECK_EQ(mpb_load_relaxed(&e->received), 1);
    CHECK_EQ(mpb_collect(&d.p[0]), 0);
    CHECK(mpb_load_relaxed(words[0]) != 0 && mpb_load_relaxed(words[1]) != 0);
    mpb_entry_free(&d.w.core, 0, d.p[0].slot);
    CHECK(mpb_load_relaxed(words[0]) == 0 && mpb_load_relaxed(words[1]) == 0 && mpb_load_relaxed(&e->received) == 0);
    CHECK_EQ(mpb_load_relaxed(&e->state), mpb_state_word(generation + 1, MPB_E_FREE, d.p[0].slot));
    drama_close(&d);
    drama_open(&d); /* and whoever finishes one accounts for it */
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 1, 100), 0);
    CHECK_EQ(mpb_handler_claim(&d.h[0], false), 0);
    mpb_answer_nothing(&d.h[0], 0, MPB_ANSWER_NONE);
    CHECK_EQ(mpb_collect(&d.p[0]), 0);
    CHECK(mpb_sent(&d.p[0], 0, 1, false));
    CHECK_EQ(mpb_load_relaxed(&d.w.core.apis[3].version[1]), version + 1);
    drama_close(&d);
}

/* Answers for connections of an earlier process are nobody's: counted, and their entries are free. */
static void test_answers_of_a_predecessor(void)
{
    drama_open(&d);
    for (uint32_t id = 0; id < 2; id++) {
        CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, id, 100), id);
        CHECK_EQ(mpb_handler_claim(&d.h[0], false), id);
        mpb_answer_nothing(&d.h[0], id, MPB_ANSWER_NONE);
    }
    replace_processor(&d, 0);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 2, 100), 2);
    CHECK_EQ(entry_of(2)->incarnation, d.p[0].incarnation);
    CHECK_EQ(mpb_handler_claim(&d.h[0], false), 2);
    mpb_answer_nothing(&d.h[0], 2, MPB_ANSWER_NONE);
    uint64_t dropped = counted(MPB_C_DROPPED_ANSWERS);
    CHECK_EQ(mpb_collect(&d.p[0]), 2);
    CHECK_EQ(counted(MPB_C_DROPPED_ANSWERS), dropped + 2);
    CHECK(state_of(&d.w, 0) == MPB_E_FREE && state_of(&d.w, 1) == MPB_E_FREE);
    CHECK_EQ(d.p[0].free_count, 5);
    drama_close(&d);
}

/* A record of a send that succeeded says nothing but what its request said. */
static void test_flags_of_a_record(void)
{
    static _Alignas(64) uint8_t memory[sizeof(struct mpb_lane_header) + 8 * MPB_TRACE_BYTES];
    struct mpb_lane lane;
    drama_open(&d);
    CHECK_EQ(mpb_lane_format(memory, sizeof memory, 8, 0, 7), 0);
    CHECK_EQ(mpb_lane_attach(&lane, memory, sizeof memory), 0);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 1, 100), 0);
    CHECK_EQ(mpb_handler_claim(&d.h[0], false), 0);
    mpb_answer_nothing(&d.h[0], 0, MPB_ANSWER_NONE);
    CHECK_EQ(mpb_collect(&d.p[0]), 0);
    uint16_t flags = mpb_trace_of(entry_of(0)->trace)->flags |= MPB_TF_ACKS;
    d.p[0].lane = &lane;
    CHECK(mpb_sent_at(&d.p[0], 0, 1, 1));
    CHECK_EQ(((const struct mpb_trace *)mpb_lane_peek(&lane, 1).first)->flags, flags);
    d.p[0].lane = NULL;
    drama_close(&d);
}

/* A processor that is closed gives back all that it had, also what it learned; a second time there is nothing. */
static void test_what_is_given_back(void)
{
    struct mpb_arena arena;
    unsigned long before, of_arena;
    drama_open(&d);
    CHECK_EQ(mpb_arena_open(&arena, &d.w.core, 0), 0);
    before = frees;
    mpb_arena_close(&arena);
    of_arena = frees - before;
    for (uint32_t learns = 0; learns < 2; learns++) {
        struct mpb_processor p;
        CHECK_EQ(mpb_processor_open(&p, &d.w.core, 0), 0);
        CHECK(mpb_processor_use(&p, learns ? MPB_SHORTEST : MPB_FAIR));
        before = frees;
        mpb_processor_close(&p);
        CHECK_EQ(frees, before + of_arena + (1 + learns) * FREES_COUNT);
        mpb_processor_close(&p);
        CHECK_EQ(frees, before + of_arena + (1 + learns) * FREES_COUNT);
    }
    drama_close(&d);
}

/* What handlers spent on the request that had the entry before is not this one's. */
static void test_a_new_one_has_taken_no_time(void)
{
    drama_open(&d);
    CHECK(mpb_processor_use(&d.p[0], MPB_FAIR));
    entry_of(0)->service_ns = 77;
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 1, 100), 0);
    CHECK_EQ(entry_of(0)->service_ns, 0);
    drama_close(&d);
}

/* ------------------------------------------------------------------ what is taken in */
static void test_what_is_refused(void)
{
    uint8_t frame[100];
    drama_open(&d);
    make_frame(frame, sizeof frame, 7);
    uint64_t digest = mpb_frame_digest(frame, sizeof frame), refused = counted(MPB_C_FRAMES_REFUSED);
    struct mpb_submission s = plain_submission(1, frame, sizeof frame);
    mpb_store_relaxed(&d.w.core.killers[MPB_KILLER_ROWS].kills_when, 9ull << 48); /* behind the table */
    mpb_store_relaxed(&d.w.core.killers[MPB_KILLER_ROWS].digest, digest);
    mpb_killer_add(&d.w.core, 5ull << 32 | 5, 1, 2);
    CHECK(!mpb_killer_known(&d.w.core, frame, sizeof frame));
    mpb_store_relaxed(&d.w.core.killers[MPB_KILLER_ROWS].digest, 0);
    mpb_killer_add(&d.w.core, digest, 1, 2);
    CHECK_EQ(mpb_submit(&d.p[0], &s), MPB_POISON);
    CHECK_EQ(counted(MPB_C_FRAMES_REFUSED), refused + 1);
    CHECK_EQ(d.p[0].free_count, 6);
    drama_close(&d);
}

/* Where the bytes of a request are: in the entry, in room that is taken for them, or where they were received. */
static void test_where_a_request_lies(void)
{
    static uint8_t frame[3000];
    drama_open(&d);
    make_frame(frame, sizeof frame, 7);
    uint64_t part = mpb_arena_processor(&d.w.core, 0);
    int64_t first = mpb_arena_take(&d.p[0].arena, sizeof frame);
    CHECK_EQ(first, part); /* offset 0: one like others */
    memcpy(d.w.core.arena + first, frame, sizeof frame);
    uint32_t used = d.p[0].arena.units.used;
    struct mpb_submission s = plain_submission(1, d.w.core.arena + first, sizeof frame);
    s.offset = (uint64_t)first;
    CHECK_EQ(mpb_submit(&d.p[0], &s), 0);
    CHECK(entry_of(0)->payload_offset == (uint64_t)first && d.p[0].arena.units.used == used);
    s = plain_submission(1, frame, sizeof frame);
    CHECK_EQ(mpb_submit(&d.p[0], &s), 1);
    CHECK(entry_of(1)->payload_offset != entry_of(0)->payload_offset && d.p[0].arena.units.used == 2 * used);
    CHECK(memcmp(mpb_payload(&d.w.core, entry_of(1)), frame, sizeof frame) == 0);
    mpb_processor_close(&d.p[0]); /* a successor finds what is taken */
    CHECK_EQ(mpb_processor_open(&d.p[0], &d.w.core, 0), 0);
    CHECK_EQ(d.p[0].arena.units.used, 2 * used);
    drama_close(&d);
}

/* Rows of its part, and what is parked there by it. */
static void test_whose_rows(void)
{
    drama_open(&d);
    for (uint32_t i = 5; i < 7; i++) {
        mpb_store_relaxed(&entry_of(i)->state, mpb_state_word(1, MPB_E_FILL, d.p[0].slot));
        CHECK_EQ(mpb_abandon(&d.p[0], i), i == 5);
    }
    mpb_store_relaxed(&entry_of(5)->state, mpb_state_word(1, MPB_E_FILL, d.p[1].slot));
    CHECK(!mpb_abandon(&d.p[1], 5) && mpb_retry(&d.p[1], 5) == MPB_NOT_PARKED);
    drama_close(&d);
}

/* ------------------------------------------------------------------ whose room */
static const struct world_plan three = {3, 4, 0, 6, 4, 2, 2, 64 << 10, 256 << 10};

/* Room is left to each other processor that says that it is about to push, where several rings share the bound; not to
 * itself, not to one that there is not, and nothing where there is one ring. */
static void test_room_for_others(void)
{
    static const struct {
        uint32_t waiting, pushing; /* mask */
        uint32_t discipline, processor;
        bool pushed;
    } ROWS[] = {{3, 0, MPB_FAIR, 1, true},  {3, 1, MPB_FAIR, 1, false}, {3, 4, MPB_FAIR, 1, false},
                {3, 2, MPB_FAIR, 1, true},  {2, 1, MPB_FAIR, 1, true},  {2, 5, MPB_FAIR, 1, false},
                {1, 5, MPB_FAIR, 1, true},  {3, 8, MPB_FAIR, 1, true},  {3, 1, MPB_FAIR, 0, true},
                {3, 2, MPB_FAIR, 0, false}, {3, 5, MPB_FIFO, 1, true},  {4, 0, MPB_FIFO, 1, false},
                {4, 0, MPB_FAIR, 1, false}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        static struct drama many;
        struct mpb_processor p;
        world_open(&many.w, &three);
        drama_open(&many);
        for (int n = 0; n < 2; n++)
            CHECK(mpb_processor_use(&many.p[n], ROWS[i].discipline));
        CHECK_EQ(mpb_processor_open(&p, &many.w.core, 2), 0);
        CHECK(mpb_processor_use(&p, ROWS[i].discipline));
        for (uint32_t n = 0; n < ROWS[i].waiting; n++)
            CHECK(submit(&p, MPB_PLANE_DATA, n, 100) >= 0);
        for (uint32_t n = 0; n < 4; n++)
            mpb_store_relaxed(&many.w.core.doorbells->processor_mark[n].pushing, ROWS[i].pushing >> n & 1);
        int64_t entry = submit(&many.p[ROWS[i].processor], MPB_PLANE_DATA, 9, 100);
        CHECK_EQ(entry >= 0, ROWS[i].pushed);
        mpb_processor_close(&p);
        drama_close(&many);
        world_close(&many.w);
    }
}

/* A processor that is alone leaves no room: its plane takes as many as the bound says, in several rings as in one. */
static void test_all_room_for_one_that_is_alone(void)
{
    static const struct world_plan alone = {1, 4, 0, 6, 4, 2, 2, 64 << 10, 256 << 10};
    for (uint32_t discipline = MPB_FIFO; discipline <= MPB_FAIR; discipline += MPB_FAIR - MPB_FIFO) {
        struct world one;
        struct mpb_processor p;
        world_open(&one, &alone);
        world_reset(&one);
        CHECK_EQ(mpb_processor_open(&p, &one.core, 0), 0);
        CHECK(mpb_processor_use(&p, discipline));
        for (uint32_t id = 0; id < 4; id++)
            CHECK_EQ(submit(&p, MPB_PLANE_DATA, id, 100), id);
        CHECK_EQ(submit(&p, MPB_PLANE_DATA, 4, 100), MPB_PLANE_FULL);
        mpb_processor_close(&p);
        world_close(&one);
    }
}

/* It says so itself while it pushes, and not afterwards; and that it waits for room when there is none. */
static void test_it_says_so_itself(void)
{
    drama_open(&d);
    for (int n = 0; n < 2; n++)
        CHECK(mpb_processor_use(&d.p[n], MPB_FAIR));
    for (uint32_t id = 0; id < 4; id++)
        CHECK(submit(&d.p[1], MPB_PLANE_DATA, id, 100) >= 0);
    CHECK_EQ(atomic_load(&d.w.core.doorbells->want_space), 0);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 5, 100), MPB_PLANE_FULL);
    CHECK_EQ(atomic_load(&d.w.core.doorbells->want_space), 1);
    CHECK(mpb_handler_claim(&d.h[0], false) >= 0);
    pushing_seen = 0;
    script.on_reading = see_pushing;
    CHECK_EQ(mpb_retry(&d.p[0], d.p[0].parked), d.p[0].parked); /* which reads the clock on its way in */
    script.on_reading = NULL;
    CHECK_EQ(pushing_seen, 1);
    CHECK_EQ(mpb_load_relaxed(&d.w.core.doorbells->processor_mark[0].pushing), 0);
    drama_close(&d);
}

/* A ring that has no place though the plane has: nobody saw the request, which stays the processor's. */
static void test_a_ring_without_a_place(void)
{
    drama_open(&d);
    d.w.core.rings[MPB_RING_DATA].capacity = 2;
    for (uint32_t id = 0; id < 2; id++)
        CHECK(submit(&d.p[0], MPB_PLANE_DATA, id, 100) >= 0);
    CHECK_EQ(submit(&d.p[0], MPB_PLANE_DATA, 2, 100), MPB_PLANE_FULL);
    CHECK_EQ(state_of(&d.w, d.p[0].parked), MPB_E_FILL);
    CHECK(mpb_abandon(&d.p[0], d.p[0].parked));
    drama_close(&d);
}

/* Class rings beyond those that were ever in use are not looked into; stale hints of all others are dropped. */
static void test_rings_in_use(void)
{
    for (uint32_t classes = 1; classes < 4; classes++)
        for (uint32_t c = 0; c < 4; c++) {
            drama_open(&d);
            mpb_store_relaxed(&d.w.core.header->plane_classes[MPB_PLANE_DATA], classes);
            struct mpb_ring ring = mpb_ring_view(&d.w.core, MPB_RING_DATA + c);
            CHECK_EQ(mpb_ring_push(&ring, mpb_hint(2, 77)), 0); /* of no present generation */
            CHECK_EQ(mpb_plane_depth(&d.w.core, MPB_PLANE_DATA), c < classes);
            CHECK_EQ(mpb_plane_empty(&d.w.core, MPB_PLANE_DATA), c >= classes);
            CHECK_EQ(mpb_plane_drop_stale(&d.w.core, MPB_PLANE_DATA), 0);
            CHECK_EQ(mpb_ring_depth(&ring), c >= classes);
            drama_close(&d);
        }
}

/* ------------------------------------------------------------------ who is woken */
static void test_each_push_wakes_one(void)
{
    for (uint32_t plane = 0; plane < 2; plane++) {
        drama_open(&d);
        mpb_store_relaxed(&d.w.core.header->handlers_high, 3);
        for (uint32_t h = 0; h < 3; h++)
            mpb_handler_announce(&d.w.core, h);
        for (uint32_t h = 0; h < 2; h++) {
            CHECK(submit(&d.p[0], plane, h, 100) >= 0);
            CHECK(!sleeps(h) && sleeps(h + 1) && d.p[0].unrung[plane] == 0);
        }
        mpb_handler_withdraw(&d.w.core, 2);
        drama_close(&d);
    }
}

/* For what has waited since the last look one is woken, be it the first handler; for what others pushed, nobody. */
static void test_a_second_look_wakes_one(void)
{
    for (uint32_t plane = 0; plane < 2; plane++) {
        open_with_clock(1000000);
        d.p[0].batching = true;
        CHECK(submit(&d.p[1], plane, 1, 100) >= 0);
        for (uint32_t h = 0; h < 3; h++)
            mpb_handler_announce(&d.w.core, h);
        CHECK(!mpb_processor_ring(&d.p[0]));
        CHECK(sleeps(0) && sleeps(1) && sleeps(2));
        d.p[0].look_again = true;
        CHECK(mpb_processor_ring(&d.p[0]));
        CHECK(!sleeps(0) && sleeps(1) && sleeps(2));
        CHECK_EQ(d.p[0].woken_ns[0], plane == MPB_PLANE_DATA ? 1000000 : 0);
        for (uint32_t h = 1; h < 3; h++)
            mpb_handler_withdraw(&d.w.core, h);
        drama_close(&d);
        set_clock(1);
    }
}

/* It stays awake for its own answers alone. */
static void test_whose_answers_keep_it_awake(void)
{
    for (uint32_t answered = 0; answered < 2; answered++) {
        drama_open(&d);
        int64_t entry = submit(&d.p[answered], MPB_PLANE_DATA, 1, 100);
        CHECK_EQ(mpb_handler_claim(&d.h[0], false), entry);
        mpb_answer_nothing(&d.h[0], (uint32_t)entry, MPB_ANSWER_NONE);
        for (uint32_t p = 0; p < 2; p++)
            CHECK_EQ(mpb_processor_prepare_sleep(&d.p[p]), p != answered);
        drama_close(&d);
    }
}

/* ------------------------------------------------------------------ metrics */
static void test_what_is_accounted(void)
{
    struct mpb_api_row *row = &d.w.core.apis[3];
    drama_open(&d);
    struct mpb_entry *e = entry_of(0);
    struct mpb_trace *t = mpb_trace_of(e->trace);
    e->api_key = 3;
    for (int16_t version = -1; version <= MPB_API_VERSIONS + 1; version++) {
        memset((void *)row, 0, sizeof *row);
        e->api_version = version;
        mpb_request_account(&d.w.core, 0, e);
        bool known = version >= 0 && version < MPB_API_VERSIONS - 1;
        CHECK_EQ(mpb_load_relaxed(&row->version[known ? version : MPB_API_VERSIONS - 1]), 1);
        CHECK_EQ(mpb_load_relaxed(&row->error[0].code), 0);
    }
    for (int bits = 0; bits < 32; bits++)
        for (uint64_t t0_ns = 0; t0_ns < 3; t0_ns++)
            for (int lacks = 0; lacks < 3; lacks++) { /* neither, its begin, its end */
                memset((void *)row, 0, sizeof *row);
                memset(t->stage, 0xff, sizeof t->stage);
                t->t0_ns = t0_ns;
                uint32_t ticks = (1u << bits) + 1, bucket = bits < 4 ? 0 : (uint32_t)bits - 3;
                t->stage[MPB_STAGE_ENQUEUED] = lacks == 1 ? MPB_TRACE_NOT_REACHED : 7;
                t->stage[MPB_STAGE_DEQUEUED] = lacks == 2 ? MPB_TRACE_NOT_REACHED : 7 + ticks;
                mpb_request_account(&d.w.core, 0, e);
                bool counts = t0_ns != 0 && lacks == 0;
                bucket = bucket < MPB_TIME_BUCKETS ? bucket : MPB_TIME_BUCKETS - 1;
                CHECK_EQ(mpb_load_relaxed(&row->time[MPB_TIME_REQUEST_QUEUE].ticks), counts ? ticks : 0);
                for (uint32_t b = 0; b < MPB_TIME_BUCKETS; b++)
                    CHECK_EQ(mpb_load_relaxed(&row->time[MPB_TIME_REQUEST_QUEUE].bucket[b]), counts && b == bucket);
                CHECK_EQ(mpb_load_relaxed(&row->time[MPB_TIME_REQUEST_QUEUE + 1].ticks), 0);
            }
    drama_close(&d);
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_what_a_freed_one_leaves();
    test_answers_of_a_predecessor();
    test_flags_of_a_record();
    test_what_is_given_back();
    test_a_new_one_has_taken_no_time();
    test_what_is_refused();
    test_where_a_request_lies();
    test_whose_rows();
    test_room_for_others();
    test_all_room_for_one_that_is_alone();
    test_it_says_so_itself();
    test_a_ring_without_a_place();
    test_rings_in_use();
    test_each_push_wakes_one();
    test_a_second_look_wakes_one();
    test_whose_answers_keep_it_awake();
    test_what_is_accounted();
    world_close(&d.w);
    printf("processor bounds: %lu checks\n", checks_made);
    return 0;
}
