/* A processor's end of the request path value by value, with clocks that say what a script says: what an entry holds when it
 * is queued, what is counted, which clock an answer is collected by, how much is left to handlers that are awake. */
#include "tests/request/handler_scene.h"
#include "record/crc32c.h"
#include "record/wire.h"

static uint64_t counted(uint32_t counter) { return mpb_load_relaxed(&d.w.core.counters[d.p[0].slot].value[counter]); }

/* ------------------------------------------------------------------ names */
static void test_the_hash_of_a_name(void)
{
    static const struct {
        int name_bytes; /* announced */
        uint32_t length, hashed;
    } ROWS[] = {{3, 13, 3}, {3, 40, 3}, {3, 12, 0},   {0, 40, 0},  {-1, 40, 0},         {1, 11, 1},      {1, 10, 0},
                {1, 9, 0},  {1, 8, 0},  {30, 40, 30}, {31, 40, 0}, {0x100, 300, 0x100}, {0x7fff, 300, 0}};
    uint8_t frame[300];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 5 + 1);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        mpb_put_be16(frame + 8, (uint16_t)ROWS[i].name_bytes);
        uint32_t wanted = ROWS[i].hashed == 0 ? 0 : mpb_crc32c(0, frame + 10, ROWS[i].hashed);
        CHECK_EQ(mpb_client_hash(frame, ROWS[i].length), wanted);
    }
}

/* ------------------------------------------------------------------ an entry */
static struct mpb_submission submission(const uint8_t *frame, uint32_t length)
{
    return (struct mpb_submission){.plane = MPB_PLANE_DATA,
                                   .listener = 513,
                                   .connection = 21,
                                   .connection_generation = 22,
                                   .frame = frame,
                                   .length = length,
                                   .offset = MPB_PAYLOAD_INLINE,
                                   .t0_ns = 64 * 10,
                                   .frame_done_ns = 64 * 15,
                                   .arrival_ns = 64 * 7,
                                   .client_hash = 99,
                                   .inflight = 4};
}

static void test_what_an_entry_holds(void)
{
    static const uint32_t LENGTHS[] = {8, 100, MPB_INLINE_PAYLOAD, MPB_INLINE_PAYLOAD + 1, 5000};
    static uint8_t frame[5000];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 3 + 1);
    memcpy(frame, (uint8_t[]){1, 2, 3, 4, 0x81, 0x92, 0xa3, 0xb4}, 8);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        open_with_clock(64 * 30);
        uint32_t length = LENGTHS[i];
        bool inside = length <= MPB_INLINE_PAYLOAD;
        struct mpb_submission s = submission(frame, length);
        uint64_t received = counted(MPB_C_REQUESTS_RECEIVED), bytes = counted(MPB_C_BYTES_RECEIVED);
        struct mpb_entry *e = &d.w.core.entries[0];
        e->answer_length = e->answer_extent = e->cells_extent = e->cell_count = 5; /* of the request before */
        e->answer_offset = e->cells_offset = e->fill_number = 5;
        e->answer_kind = MPB_ANSWER_CLOSE;
        e->parked_kind = MPB_PARKED_FETCH;
        e->error = 5;
        e->ring_class = 5;
        mpb_store_relaxed(&e->attempts, 5);
        mpb_store_relaxed(&e->phase, MPB_PHASE_NOTHING + 1);
        CHECK_EQ(mpb_submit(&d.p[0], &s), 0);
        CHECK(e->answer_length == 0 && e->answer_extent == 0 && e->answer_offset == 0 && e->error == 0);
        CHECK(e->cells_extent == 0 && e->cells_offset == 0 && e->cell_count == 0 && e->parked_kind == MPB_PARKED_NOT);
        CHECK(e->answer_kind == MPB_ANSWER_NONE && mpb_load_relaxed(&e->attempts) == 0);
        CHECK(mpb_load_relaxed(&e->phase) == MPB_PHASE_NOTHING && e->incarnation == d.p[0].incarnation);
        CHECK_EQ(e->fill_number, 1);
        CHECK_EQ(e->payload_length, length);
        CHECK_EQ(e->payload_units, inside ? 0 : (length + 1023) / 1024);
        CHECK_EQ(e->payload_offset == MPB_PAYLOAD_INLINE, inside);
        CHECK(memcmp(mpb_payload(&d.w.core, e), frame, length) == 0);
        CHECK(e->connection == 21 && e->connection_generation == 22 && e->listener == 513 && e->plane == 0);
        CHECK_EQ(e->api_key, 0x102);
        CHECK_EQ(e->api_version, 0x304);
        CHECK_EQ(e->correlation_id, (int32_t)0x8192a3b4);
        CHECK_EQ(e->ring_class, 0);
        CHECK_EQ(mpb_state_of(mpb_load_acquire(&e->state)), MPB_E_QUEUED);
        CHECK_EQ(mpb_load_acquire(&d.w.core.doorbells->processor_mark[0].entries_high), 1);
        CHECK_EQ(counted(MPB_C_REQUESTS_RECEIVED), received + 1);
        CHECK_EQ(counted(MPB_C_BYTES_RECEIVED), bytes + length + 4);
        CHECK_EQ(counted(MPB_C_QUEUED_BYTES), length);
        CHECK_EQ(counted(MPB_C_ENTRIES_IN_USE), 1);
        CHECK_EQ(mpb_load_relaxed(&e->received), 1);
        const struct mpb_trace *t = trace_of(0);
        CHECK(t->t0_ns == 64 * 10 && t->client_hash == 99 && t->inflight == 4);
        CHECK_EQ(t->rx_wait, 3);
        CHECK_EQ(t->stage[MPB_STAGE_FRAME_DONE], 5);
        CHECK_EQ(t->stage[MPB_STAGE_PARSED], inside ? 5 : 20); /* to copy a long one takes time */
        CHECK_EQ(t->stage[MPB_STAGE_ENQUEUED], inside ? 5 : 20);
        CHECK_EQ(script.monotonic_reads, !inside);
        CHECK_EQ(t->req_q, 0);
        drama_close(&d);
    }
}

/* Of the trace's name, its counts, and a clock that is behind the frame's. */
static void test_what_a_trace_holds(void)
{
    static const struct {
        uint32_t hash, inflight, counts;
        uint64_t t0_ns, done_ns;
        uint32_t parsed;
    } ROWS[] = {{7, 255, 255, 640, 640, 0},
                {7, 256, 255, 640, 704, 1},
                {0, 0, 0, 640, 576, 20},
                {UINT32_MAX, 1, 1, 640, 704, 1},
                {7, 5, 0, 0, 704, 0}};
    uint8_t frame[20] = {0, 3, 0, 1, 0, 0, 0, 1, 0, 2, 'a', 'b'};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_with_clock(64 * 30);
        struct mpb_submission s = submission(frame, sizeof frame);
        s.client_hash = ROWS[i].hash;
        s.inflight = ROWS[i].inflight;
        s.t0_ns = ROWS[i].t0_ns;
        s.frame_done_ns = ROWS[i].done_ns;
        CHECK_EQ(mpb_submit(&d.p[0], &s), 0);
        bool traced = ROWS[i].t0_ns != 0;
        CHECK_EQ(trace_of(0)->t0_ns, ROWS[i].t0_ns);
        if (traced) {
            CHECK_EQ(trace_of(0)->stage[MPB_STAGE_PARSED], ROWS[i].parsed);
            CHECK_EQ(trace_of(0)->stage[MPB_STAGE_ENQUEUED], ROWS[i].parsed);
            CHECK_EQ(trace_of(0)->inflight, ROWS[i].counts);
            CHECK_EQ(trace_of(0)->client_hash,
                     ROWS[i].hash == UINT32_MAX ? mpb_crc32c(0, (uint8_t *)"ab", 2) : ROWS[i].hash);
        }
        CHECK_EQ(d.p[0].filled_ns, !traced ? 0 : ROWS[i].done_ns >= ROWS[i].t0_ns ? ROWS[i].done_ns : 64 * 30);
        drama_close(&d);
    }
}

/* Entries are used again, from the lowest; the marks of both tables go up with them, never down. */
static void test_which_entries_are_used(void)
{
    open_with_clock(1);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(submit(&d.p[1], MPB_PLANE_DATA, i, 100), 6 + i);
    mpb_atomic32 *high = &d.w.core.doorbells->processor_mark[1].entries_high;
    CHECK_EQ(mpb_load_acquire(high), 4);
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    CHECK_EQ(entry, 6);
    CHECK_EQ(trace_of(9)->req_q, 3);
    mpb_answer_nothing(&d.h[0], (uint32_t)entry, MPB_ANSWER_NONE);
    CHECK_EQ(mpb_collect(&d.p[1]), entry);
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&d.w.core.entries[6].state));
    CHECK(!mpb_sent(&d.p[0], 6, 1, false) && !mpb_sent(&d.p[1], 7, 1, false) && !mpb_sent(&d.p[1], 12, 1, false));
    CHECK(mpb_sent(&d.p[1], 6, 1, false));
    CHECK(!mpb_sent(&d.p[1], 6, 1, false));
    CHECK_EQ(mpb_state_generation(mpb_load_relaxed(&d.w.core.entries[6].state)), generation + 1);
    CHECK_EQ(submit(&d.p[1], MPB_PLANE_DATA, 9, 100), 6);
    CHECK_EQ(mpb_load_acquire(high), 4);
    /* What its successor finds: three and one, and rows behind the mark are not even looked at. */
    mpb_store_release(&d.w.core.entries[10].state, mpb_state_word(1, MPB_E_QUEUED, d.p[1].slot));
    d.w.core.entries[10].payload_length = 77;
    mpb_processor_rebuild(&d.p[1]);
    CHECK_EQ(d.p[1].free_count, 2);
    CHECK_EQ(d.p[1].queued_bytes, 400);
    CHECK(d.p[1].free_stack[0] == 11 && d.p[1].free_stack[1] == 10);
    mpb_store_release(high, 5);
    mpb_processor_rebuild(&d.p[1]);
    CHECK(d.p[1].free_count == 1 && d.p[1].free_stack[0] == 11 && d.p[1].queued_bytes == 477);
    mpb_store_release(high, 99); /* a mark that nobody can have set */
    mpb_processor_rebuild(&d.p[1]);
    CHECK(d.p[1].free_count == 1 && d.p[1].queued_bytes == 477);
    drama_close(&d);
}

static void test_a_new_processor(void)
{
    struct mpb_processor p;
    open_with_clock(1);
    for (uint32_t index = 0; index < 2; index++) {
        memset((void *)&p, 0x5a, sizeof p);
        mpb_store_release(&d.w.core.processes[MPB_SLOT_PROCESSORS + index].incarnation, 30 + index);
        CHECK_EQ(mpb_processor_open(&p, &d.w.core, index), 0);
        CHECK(p.index == index && p.slot == MPB_SLOT_PROCESSORS + index && p.incarnation == 30 + index);
        CHECK(p.entries == 6 && p.first_entry == 6 * index && p.free_count == 6 && p.queued_bytes == 0);
        CHECK(!p.batching && p.lane == NULL && p.expected == NULL && p.collected_ns == 0 && p.discipline == 0);
        for (uint32_t i = 0; i < 6; i++)
            CHECK_EQ(p.free_stack[i], p.first_entry + 5 - i);
        for (uint32_t discipline = 0; discipline < MPB_DISCIPLINES; discipline++) {
            CHECK(mpb_processor_use(&p, discipline));
            CHECK_EQ(p.discipline, discipline);
            CHECK(mpb_plane_classes(&d.w.core, MPB_PLANE_DATA) >= mpb_discipline_classes(discipline));
            CHECK_EQ(p.expected != NULL, discipline >= MPB_SHORTEST);
        }
        const struct mpb_expected *learned = p.expected;
        CHECK(mpb_processor_use(&p, MPB_SHORTEST) && p.expected == learned); /* what it knows stays */
        mpb_processor_close(&p);
        CHECK(p.free_stack == NULL && p.expected == NULL && p.arena.units.bits == NULL);
        mpb_processor_close(&p);
    }
    drama_close(&d);
}

/* ------------------------------------------------------------------ counting */
/* A mark says which counter is about to go up, and to what: a successor finishes what was begun and nothing else. */
static void test_a_count_that_was_begun(void)
{
    enum { RECEIVED = 1 << 29, FINISHED = 1 << 30, MOST = RECEIVED - 1 };
    static const struct {
        uint32_t mark;
        uint64_t received, finished, received_after, finished_after;
        uint32_t mark_after;
    } ROWS[] = {
        {0, 5, 6, 5, 6, 0},
        {1, 5, 6, 5, 6, 1},
        {RECEIVED | 6, 5, 6, 6, 6, 1},
        {RECEIVED | 6, 6, 6, 6, 6, 1},
        {FINISHED | 7, 5, 6, 5, 7, 0},
        {FINISHED | 7, 5, 7, 5, 7, 0},
        {RECEIVED, MOST, 1, MOST + 1ull, 1, 1}, /* the count is longer than the mark */
        {RECEIVED, MOST + 1ull, 1, MOST + 1ull, 1, 1},
        {FINISHED | 3, 1, (5ull << 29) + 2, 1, (5ull << 29) + 3, 0},
        {FINISHED | 3, 1, (5ull << 29) + 3, 1, (5ull << 29) + 3, 0},
    };
    open_with_clock(1);
    mpb_atomic64 *values = d.w.core.counters[d.p[0].slot].value;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_entry *entry = &d.w.core.entries[3];
        mpb_store_relaxed(&entry->received, ROWS[i].mark);
        mpb_store_relaxed(&values[MPB_C_REQUESTS_RECEIVED], ROWS[i].received);
        mpb_store_relaxed(&values[MPB_C_REQUESTS_FINISHED], ROWS[i].finished);
        mpb_settle_count(&d.w.core, d.p[0].slot, entry);
        CHECK_EQ(counted(MPB_C_REQUESTS_RECEIVED), ROWS[i].received_after);
        CHECK_EQ(counted(MPB_C_REQUESTS_FINISHED), ROWS[i].finished_after);
        CHECK_EQ(mpb_load_relaxed(&entry->received), ROWS[i].mark_after);
    }
    mpb_count_finished(&d.p[0], &d.w.core.entries[3]);
    CHECK_EQ(counted(MPB_C_REQUESTS_FINISHED), (5ull << 29) + 4);
    CHECK_EQ(mpb_load_relaxed(&d.w.core.entries[3].received), 0);
    drama_close(&d);
}

/* A successor settles what its predecessor began to count, whatever becomes of the entry, in all that were ever used and in
 * nobody else's. */
static void test_whose_counts_are_settled(void)
{
    enum { RECEIVED = 1 << 29 };
    static const struct {
        uint32_t high, row;
        bool settled;
    } ROWS[] = {{2, 0, true}, {2, 1, true}, {2, 2, false}, {6, 5, true}, {6, 6, false}}; /* 6 is the next one's */
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++)
        for (uint32_t state = MPB_E_FREE; state <= MPB_E_HANDED; state++) {
            struct mpb_recovery done;
            open_with_clock(1);
            mpb_store_release(&d.w.core.doorbells->processor_mark[0].entries_high, ROWS[r].high);
            uint64_t before = counted(MPB_C_REQUESTS_RECEIVED);
            uint32_t begun = RECEIVED | (uint32_t)(before + 1);
            struct mpb_entry *e = &d.w.core.entries[ROWS[r].row];
            mpb_store_relaxed(&e->state, mpb_state_word(1, state, d.h[0].slot));
            mpb_store_relaxed(&e->received, begun);
            mpb_recover_processor(&d.p[0], &done);
            CHECK_EQ(counted(MPB_C_REQUESTS_RECEIVED), before + ROWS[r].settled);
            CHECK_EQ(mpb_load_relaxed(&e->received), ROWS[r].settled ? 1 : begun);
            drama_close(&d);
        }
}

/* ------------------------------------------------------------------ answers */
static int64_t answered(uint32_t id, uint64_t t0_ns, uint32_t answered_ticks)
{
    uint8_t frame[100];
    make_frame(frame, sizeof frame, id);
    struct mpb_submission s = submission(frame, sizeof frame);
    s.t0_ns = t0_ns;
    CHECK(mpb_submit(&d.p[0], &s) >= 0);
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    CHECK(mpb_answer_bytes(&d.h[0], (uint32_t)entry, MPB_ANSWER_INLINE, frame, 30));
    mpb_trace_of(d.w.core.entries[entry].trace)->stage[MPB_STAGE_RESP_ENQ] = answered_ticks;
    return entry;
}

/* The clock says 64 * 100; a reading of 64 * 50 is shared unless the answer came after it. Records began at 64. */
static void test_which_clock_an_answer_is_collected_by(void)
{
    static const struct {
        uint64_t t0_ns, known_ns;
        uint32_t answered, told, uses;
        bool reads;
    } ROWS[] = {{64, 64 * 50, 40, 49, 8, false}, {64, 64 * 50, 49, 49, 8, false},
                {64, 64 * 50, 50, 99, 1, true},  {64, 64 * 50, MPB_TRACE_NOT_REACHED, 99, 1, true},
                {64, 0, 40, 99, 1, true},        {0, 64 * 50, 40, 0, 7, false}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        open_with_clock(64 * 100);
        int64_t entry = answered(1, ROWS[i].t0_ns, ROWS[i].answered);
        d.p[0].collected_ns = ROWS[i].known_ns;
        d.p[0].collected_uses = 7;
        script.monotonic_reads = 0;
        CHECK_EQ(mpb_collect(&d.p[0]), entry);
        CHECK_EQ(trace_of((uint32_t)entry)->stage[MPB_STAGE_RESP_DEQ], ROWS[i].told);
        CHECK_EQ(d.p[0].collected_uses, ROWS[i].uses);
        CHECK_EQ(script.monotonic_reads, ROWS[i].reads);
        CHECK_EQ(d.p[0].collected_ns, ROWS[i].reads ? 64 * 100 : ROWS[i].known_ns);
        CHECK_EQ(mpb_collect(&d.p[0]), -1); /* nothing is there: the next one looks anew */
        CHECK_EQ(d.p[0].collected_ns, 0);
        CHECK(mpb_sent(&d.p[0], (uint32_t)entry, 1, false));
        drama_close(&d);
    }
    open_with_clock(700);
    for (uint32_t uses = 0; uses < 7; uses++) {
        mpb_processor_looked(&d.p[0], 500);
        CHECK_EQ(d.p[0].collected_uses, 0);
        d.p[0].collected_uses = uses;
        CHECK_EQ(mpb_processor_now_ns(&d.p[0]), uses <= MPB_COLLECTED_USES ? 500 : 700);
    }
    mpb_processor_looked(&d.p[0], 0);
    CHECK_EQ(mpb_processor_now_ns(&d.p[0]), 700);
    drama_close(&d);
}

/* What a send leaves: bytes and a record, if it is known when it began and ended. */
static void test_what_a_send_leaves(void)
{
    static const struct {
        uint64_t begun_ns, done_ns;
        bool aborted_record;
    } ROWS[] = {{64 * 3, 64 * 5, false}, {0, 64 * 5, false}, {64 * 3, 0, true}, {0, 0, true}};
    static _Alignas(64) uint8_t memory[sizeof(struct mpb_lane_header) + 8 * MPB_TRACE_BYTES];
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_lane lane;
        open_with_clock(64 * 100);
        memset(memory, 0, sizeof memory);
        CHECK_EQ(mpb_lane_format(memory, sizeof memory, 8, 0, 7), 0);
        CHECK_EQ(mpb_lane_attach(&lane, memory, sizeof memory), 0);
        int64_t entry = answered(1, 64, 40);
        uint64_t sent = counted(MPB_C_BYTES_SENT), finished = counted(MPB_C_REQUESTS_FINISHED);
        CHECK_EQ(mpb_collect(&d.p[0]), entry);
        d.p[0].lane = &lane;
        d.p[0].collected_ns = 5;
        CHECK(mpb_sent_at(&d.p[0], (uint32_t)entry, ROWS[i].begun_ns, ROWS[i].done_ns));
        CHECK_EQ(d.p[0].collected_ns, 0);
        CHECK_EQ(counted(MPB_C_BYTES_SENT) - sent, ROWS[i].done_ns != 0 ? 30 : 0);
        CHECK_EQ(counted(MPB_C_REQUESTS_FINISHED), finished + 1);
        CHECK_EQ(counted(MPB_C_QUEUED_BYTES), 0);
        CHECK_EQ(counted(MPB_C_ENTRIES_IN_USE), 0);
        const struct mpb_trace *t = mpb_lane_peek(&lane, 1).first;
        CHECK_EQ(mpb_lane_read_counters(&lane).written, 1);
        CHECK_EQ(t->stage[MPB_STAGE_SEND_START], ROWS[i].begun_ns != 0 ? 2 : MPB_TRACE_NOT_REACHED);
        CHECK_EQ(t->stage[MPB_STAGE_SEND_DONE], ROWS[i].done_ns != 0 ? 4 : MPB_TRACE_NOT_REACHED);
        CHECK_EQ((t->flags & MPB_TF_ABORTED) != 0, ROWS[i].aborted_record);
        d.p[0].lane = NULL;
        drama_close(&d);
    }
    for (int way = 0; way < 4; way++) { /* aborted or not; traced or not: who does not trace reads no clock */
        struct mpb_lane lane;
        bool aborted = way & 1, traced = way >> 1;
        open_with_clock(64 * 100);
        memset(memory, 0, sizeof memory);
        CHECK_EQ(mpb_lane_format(memory, sizeof memory, 8, 0, 7), 0);
        CHECK_EQ(mpb_lane_attach(&lane, memory, sizeof memory), 0);
        int64_t entry = answered(1, 64, 40);
        CHECK_EQ(mpb_collect(&d.p[0]), entry);
        d.p[0].lane = traced ? &lane : NULL;
        uint64_t sent = counted(MPB_C_BYTES_SENT);
        script.monotonic_reads = 0;
        CHECK(mpb_sent(&d.p[0], (uint32_t)entry, 64, aborted));
        CHECK_EQ(script.monotonic_reads, traced && !aborted);
        CHECK_EQ(counted(MPB_C_BYTES_SENT) - sent, aborted ? 0 : 30);
        d.p[0].lane = NULL;
        drama_close(&d);
    }
}

/* ------------------------------------------------------------------ who is woken */
/* Waiting requests are left to a handler that is awake: eight while it was woken, or showed itself, less than 30 us ago, two
 * for 300 us, none later. The others sleep; one wake serves eight. */
static void test_how_much_is_left_to_who_is_awake(void)
{
    static const struct {
        int64_t woken_ago_ns, since_ago_ns, heartbeat_ago_ns;
        uint32_t left; /* requests that nobody is woken for */
    } ROWS[] = {
        {29999, 900000, 900000, 8},  {900000, 29999, 900000, 8},  {900000, 900000, 29999, 8},
        {30000, 900000, 900000, 2},  {900000, 30000, 900000, 2},  {900000, 900000, 30000, 2},
        {299999, 900000, 900000, 2}, {900000, 299999, 900000, 2}, {900000, 900000, 299999, 2},
        {300000, 300000, 300000, 0},
    };
    static const struct world_plan wide = {2, 4, 0, 16, 12, 2, 2, 64 << 10, 256 << 10};
    static struct drama many;
    world_open(&many.w, &wide);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (uint32_t waiting = 1; waiting <= 10; waiting++) {
            memset(&script, 0, sizeof script);
            script.monotonic_ns[0] = 1000000;
            script.monotonic_lines = 1;
            drama_open(&many);
            struct mpb_process *row = &many.w.core.processes[many.h[0].slot];
            mpb_store_relaxed(&row->request_since_ns, (uint64_t)(1000000 - ROWS[i].since_ago_ns));
            mpb_store_relaxed(&row->heartbeat_ns, (uint64_t)(1000000 - ROWS[i].heartbeat_ago_ns));
            many.p[0].woken_ns[0] = (uint64_t)(1000000 - ROWS[i].woken_ago_ns);
            for (uint32_t h = 1; h < 3; h++) /* who fell asleep a moment ago takes nothing all the same */
                mpb_store_relaxed(&many.w.core.processes[many.h[h].slot].heartbeat_ns, 999999);
            mpb_handler_announce(&many.w.core, 1);
            mpb_handler_announce(&many.w.core, 2);
            many.p[0].batching = true;
            for (uint32_t n = 0; n < waiting; n++)
                CHECK(submit(&many.p[0], MPB_PLANE_DATA, n, 100) >= 0);
            CHECK_EQ(many.p[0].unrung[MPB_PLANE_DATA], waiting);
            CHECK(mpb_processor_ring(&many.p[0]));
            CHECK(many.p[0].look_again && many.p[0].unrung[MPB_PLANE_DATA] == 0);
            uint32_t woken = 2 - (uint32_t)__builtin_popcountll(atomic_load(&many.w.core.doorbells->sleepers));
            uint32_t wakes = waiting <= ROWS[i].left ? 0 : (waiting - ROWS[i].left + 7) / 8;
            CHECK_EQ(woken, wakes);
            for (uint32_t h = 1; h < 3; h++)
                CHECK_EQ(many.p[0].woken_ns[h] == 1000000,
                         (atomic_load(&many.w.core.doorbells->sleepers) >> h & 1) == 0);
            drama_close(&many);
        }
    world_close(&many.w);
}

/* Nothing waits, or nobody sleeps: then there is no reason to look again. */
static void test_when_to_look_again(void)
{
    for (uint32_t plane = 0; plane < 2; plane++) {
        open_with_clock(1000000);
        d.p[0].batching = true;
        CHECK(!mpb_processor_ring(&d.p[0]));
        mpb_handler_announce(&d.w.core, 1);
        CHECK(submit(&d.p[0], plane, 1, 100) >= 0);
        CHECK(d.p[0].unrung[plane] == 1 && d.p[0].unrung[1 - plane] == 0 && d.p[0].pushed);
        CHECK(mpb_processor_ring(&d.p[0]));
        CHECK_EQ(atomic_load(&d.w.core.doorbells->sleepers) >> 1 & 1, 0);
        mpb_handler_announce(&d.w.core, 2); /* who was woken has not come: the other one is woken, if it is long ago */
        script.monotonic_ns[0] = 1300000;
        CHECK(mpb_processor_ring(&d.p[0]));
        CHECK_EQ(atomic_load(&d.w.core.doorbells->sleepers) >> 2 & 1, 0);
        script.monotonic_ns[0] = 1600000;
        CHECK_EQ(mpb_processor_ring(&d.p[0]), plane == MPB_PLANE_CONTROL); /* nobody sleeps any more */
        CHECK(mpb_handler_claim(&d.h[1], false) >= 0);
        CHECK(!mpb_processor_ring(&d.p[0]));
        mpb_handler_withdraw(&d.w.core, 1);
        drama_close(&d);
    }
}

/* As long as a request is under way, at first 5 ms, then twice as long as it slept by then. */
static void test_how_long_it_dozes(void)
{
    static const struct {
        bool pushed;
        uint64_t now_ms, left; /* free entries of six */
        int timeout_ms, told;
    } ROWS[] = {{true, 100, 5, 1000, 5},     {false, 105, 5, 1000, 5}, {false, 106, 5, 1000, 6},
                {false, 140, 5, 1000, 40},   {false, 140, 5, 40, 40},  {false, 140, 5, 39, 39},
                {false, 140, 6, 1000, 1000}, {false, 140, 5, 3, 3},    {true, 200, 5, 1000, 5},
                {false, 260, 5, 1000, 60}};
    open_with_clock(1);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        d.p[0].pushed = ROWS[i].pushed;
        d.p[0].free_count = (uint32_t)ROWS[i].left;
        CHECK_EQ(mpb_processor_doze_ms(&d.p[0], ROWS[i].now_ms * 1000000, ROWS[i].timeout_ms), ROWS[i].told);
        CHECK(!d.p[0].pushed);
    }
    d.p[0].free_count = 6;
    CHECK(mpb_processor_prepare_sleep(&d.p[0]));
    CHECK_EQ(atomic_load(&d.w.core.doorbells->processor[0].asleep), 1);
    mpb_processor_cancel_sleep(&d.p[0]);
    CHECK_EQ(atomic_load(&d.w.core.doorbells->processor[0].asleep), 0);
    answered(1, 64, 40);
    CHECK(!mpb_processor_prepare_sleep(&d.p[0]));
    CHECK_EQ(atomic_load(&d.w.core.doorbells->processor[0].asleep), 0);
    drama_close(&d);
}

/* ------------------------------------------------------------------ refusals */
static void test_what_is_counted_when_there_is_no_room(void)
{
    uint8_t frame[9000];
    make_frame(frame, sizeof frame, 1);
    open_with_clock(1);
    struct mpb_submission s = submission(frame, 100), long_one = submission(frame, 9000);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(mpb_submit(&d.p[0], &s), i);
    CHECK_EQ(mpb_submit(&d.p[0], &s), MPB_PLANE_FULL);
    CHECK_EQ(d.p[0].parked, 4);
    CHECK_EQ(counted(MPB_C_PLANE_FULL), 1);
    CHECK_EQ(counted(MPB_C_QUEUED_BYTES), 500);
    CHECK_EQ(mpb_retry(&d.p[0], 3), MPB_NOT_PARKED);
    CHECK_EQ(mpb_retry(&d.p[0], 6), MPB_NOT_PARKED);
    CHECK(!mpb_abandon(&d.p[0], 3) && !mpb_abandon(&d.p[1], 4));
    int64_t all = mpb_arena_take(&d.p[0].arena, 60 << 10);
    CHECK_EQ(mpb_submit(&d.p[0], &long_one), MPB_NO_SPACE);
    CHECK_EQ(counted(MPB_C_NO_ARENA_SPACE), 1);
    CHECK_EQ(d.p[0].free_count, 1);
    CHECK(mpb_arena_give(&d.p[0].arena, (uint64_t)all, 60 << 10));
    CHECK_EQ(mpb_submit(&d.p[0], &long_one), MPB_PLANE_FULL);
    CHECK_EQ(d.p[0].arena.units.used, 9);
    CHECK_EQ(mpb_submit(&d.p[0], &s), MPB_NO_ENTRY);
    CHECK_EQ(counted(MPB_C_NO_ENTRY), 1);
    CHECK(mpb_abandon(&d.p[0], 5));
    CHECK_EQ(d.p[0].arena.units.used, 0);
    CHECK_EQ(counted(MPB_C_QUEUED_BYTES), 500);
    CHECK(mpb_handler_claim(&d.h[0], false) >= 0);
    script.monotonic_ns[0] = 64 * 30;
    CHECK_EQ(mpb_retry(&d.p[0], 4), 4);
    CHECK_EQ(trace_of(4)->stage[MPB_STAGE_ENQUEUED], 20); /* when it got in, not when it was refused */
    drama_close(&d);
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_the_hash_of_a_name();
    test_what_an_entry_holds();
    test_what_a_trace_holds();
    test_which_entries_are_used();
    test_a_new_processor();
    test_a_count_that_was_begun();
    test_whose_counts_are_settled();
    test_which_clock_an_answer_is_collected_by();
    test_what_a_send_leaves();
    test_how_much_is_left_to_who_is_awake();
    test_when_to_look_again();
    test_how_long_it_dozes();
    test_what_is_counted_when_there_is_no_room();
    world_close(&d.w);
    printf("processor values: %lu checks\n", checks_made);
    return 0;
}
