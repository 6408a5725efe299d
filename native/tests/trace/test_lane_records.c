/* Records of a trace lane, value by value: what they say, which are kept, who may read them and whose a successor marks. */
#include <errno.h>
#include <unistd.h>
#include "tests/trace/lane_world.h"

static struct {
    int fd, calls, interrupts, error;
} bell;

/* The lane's bell: this program writes nothing else by itself. */
ssize_t write(int fd, const void *bytes, size_t count)
{
    uint64_t rung;
    CHECK_EQ(fd, bell.fd);
    CHECK_EQ(count, sizeof rung);
    memcpy(&rung, bytes, sizeof rung);
    CHECK_EQ(rung, 1);
    bell.calls++;
    errno = bell.interrupts-- > 0 ? EINTR : bell.error;
    return errno != 0 ? -1 : (ssize_t)count;
}

/* What a record says of its request, beyond its stages. */
static void test_what_a_record_says(void)
{
    static const struct {
        uint32_t kind, length, answer_bytes;
        uint8_t plane, class, priority;
    } ROWS[] = {
        {MPB_ANSWER_INLINE, 77, 77, 0, 0, 0},    {MPB_ANSWER_EXTENT, 90000, 90000, 1, 1, 5},
        {MPB_ANSWER_NONE, 13, 0, 0, 7, 28},      {MPB_ANSWER_CLOSE, 13, 0, 1, 9, 5},
        {MPB_ANSWER_INLINE, 0, 0, 0, 2 | 16, 8}, {MPB_ANSWER_EXTENT, 1, 1, 2, 3, 14},
    };
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    CHECK_EQ(((struct mpb_lane_header *)(void *)w->lane)->boot_id, 77);
    lane.sample_shift = 9;
    lane.slow_ticks = 9;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    CHECK_EQ(lane.sample_shift, 0); /* everything is kept, until it is said otherwise */
    CHECK_EQ(lane.slow_ticks, MPB_TRACE_NOT_REACHED);
    for (uint32_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_entry *e = &w->entries[0];
        begin(e, i + 1, (int32_t)i);
        e->api_key = (int16_t)(i + 20);
        e->api_version = (int16_t)(i + 3);
        e->listener = (uint16_t)(i + 5);
        e->answer_kind = ROWS[i].kind;
        e->answer_length = ROWS[i].length;
        e->plane = ROWS[i].plane;
        e->ring_class = ROWS[i].class;
        mpb_store_relaxed(&e->attempts, i | 0x300); /* eight bits of them count */
        mpb_trace_commit(&lane, e, 0);
        const struct mpb_trace *t = mpb_lane_peek(&lane, 1).first;
        CHECK_EQ(t->resp_bytes, ROWS[i].answer_bytes);
        CHECK_EQ(t->plane_prio, ROWS[i].priority);
        CHECK_EQ(t->api_key, i + 20);
        CHECK_EQ(t->api_version, i + 3);
        CHECK_EQ(t->listener, i + 5);
        CHECK_EQ(t->attempts, i);
        CHECK_EQ(t->flags, i > 0 ? MPB_TF_REDISPATCHED : 0);
        CHECK_EQ(t->kind, MPB_TRACE_REQUEST);
        mpb_lane_release(&lane, 1);
    }
    static const uint32_t PROCESSORS[][2] = {{0xFFFE, 0xFFFE}, {0xFFFF, 0xFFFF}, {0x10000, 0xFFFF}, {1, 1}};
    for (uint32_t i = 0; i < sizeof PROCESSORS / sizeof *PROCESSORS; i++) {
        lane.header->processor = PROCESSORS[i][0];
        begin(&w->entries[0], 100 + i, 1);
        mpb_trace_commit(&lane, &w->entries[0], 0);
        CHECK_EQ(mpb_lane_peek(&lane, 1).first->proc_id, PROCESSORS[i][1]);
        mpb_lane_release(&lane, 1);
    }
    munmap(w, sizeof *w);
}

/* Powers of two that fit, from one record on. */
static void test_capacities(void)
{
    static const struct {
        uint64_t capacity;
        int formatted, attached;
    } ROWS[] = {{0, -1, -4}, {1, 0, 0}, {2, 0, 0}, {3, -1, -4}, {4, 0, 0}, {6, -1, -4}, {4096, 0, 0}, {8192, -1, -4}};
    struct world *w = new_world(CAPACITY);
    struct mpb_lane_header *h = (void *)w->lane;
    struct mpb_lane lane;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        CHECK_EQ(mpb_lane_format(w->lane, sizeof w->lane, ROWS[i].capacity, 3, 77), ROWS[i].formatted);
        h->capacity = ROWS[i].capacity;
        CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), ROWS[i].attached);
    }
    h->capacity = 1;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof *h - 1), -1);
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof *h), -4); /* a header, and no record behind it */
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof *h + MPB_TRACE_BYTES), 0);
    munmap(w, sizeof *w);
}

/* What a reader may see and where it may go on: `written` and `drained` of a lane of eight. */
static void test_reading(void)
{
    static const struct {
        uint64_t written, drained, max, seen;
    } PEEKS[] = {{0, 0, 9, 0}, {3, 0, 9, 3},   {3, 0, 3, 3},  {3, 0, 2, 2},  {8, 0, 8, 8},
                 {9, 0, 9, 0}, {10, 5, 9, 3},  {10, 5, 2, 2}, {16, 8, 9, 8}, {17, 8, 9, 0} /* more than fit */,
                 {2, 3, 9, 0}, {17, 16, 9, 1}, {15, 7, 9, 1}};
    static const struct {
        uint64_t position;
        bool done;
    } SEEKS[] = {{3, false}, {4, true}, {9, true}, {10, false}, {9, true}, {8, false}};
    struct world *w = new_world(CAPACITY);
    struct mpb_lane_header *h = (void *)w->lane;
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (size_t i = 0; i < sizeof PEEKS / sizeof *PEEKS; i++) {
        h->written = PEEKS[i].written;
        h->drained = PEEKS[i].drained;
        struct mpb_lane_span span = mpb_lane_peek(&lane, PEEKS[i].max);
        CHECK_EQ(span.count, PEEKS[i].seen);
        CHECK_EQ(span.first - lane.records, PEEKS[i].drained % CAPACITY);
    }
    h->written = 9;
    h->drained = 4;
    for (size_t i = 0; i < sizeof SEEKS / sizeof *SEEKS; i++) {
        uint64_t before = mpb_lane_read_counters(&lane).drained;
        CHECK_EQ(mpb_lane_seek(&lane, SEEKS[i].position), SEEKS[i].done);
        CHECK_EQ(mpb_lane_read_counters(&lane).drained, SEEKS[i].done ? SEEKS[i].position : before);
    }
    munmap(w, sizeof *w);
}

/* A record of something else than a request. */
static void test_a_record_that_is_put(void)
{
    struct world *w = new_world(CAPACITY);
    struct mpb_trace record = {.corr_id = 71, .kind = 9};
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (uint64_t i = 0; i < CAPACITY + 2; i++) {
        mpb_lane_put(&lane, &record);
        check_balance(&lane, i + 1);
    }
    CHECK_EQ(mpb_lane_read_counters(&lane).dropped, 2);
    struct mpb_lane_span span = mpb_lane_peek(&lane, 99);
    CHECK_EQ(span.count, CAPACITY);
    for (uint64_t i = 0; i < span.count; i++) {
        CHECK_EQ(span.first[i].corr_id, 71);
        CHECK_EQ(span.first[i].kind, MPB_TRACE_REQUEST);
        CHECK_EQ(span.first[i].seq_lo, i);
    }
    munmap(w, sizeof *w);
}

/* Whoever rings is interrupted, or finds the bell rung: once is enough. The lowest descriptor is one as any other. */
static void test_a_bell(void)
{
    static const struct {
        int fd, interrupts, error, calls;
    } ROWS[] = {{0, 0, 0, 1}, {7, 0, 0, 1}, {7, 3, 0, 4}, {7, 0, EAGAIN, 1}, {7, 2, EAGAIN, 3}, {-1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct world *w = new_world(CAPACITY);
        struct mpb_trace record = {.t0_ns = 1};
        struct mpb_lane lane;
        CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
        lane.bell_fd = bell.fd = ROWS[i].fd;
        bell.calls = 0;
        bell.interrupts = ROWS[i].interrupts;
        bell.error = ROWS[i].error;
        for (int n = 1; n <= CAPACITY + 2; n++) {
            mpb_lane_put(&lane, &record);
            CHECK_EQ(bell.calls, n < CAPACITY / 2 ? 0 : ROWS[i].calls);
        }
        munmap(w, sizeof *w);
    }
}

/* A request takes from the socket to the end of its answer; the time a Fetch lies in its purgatory is what it asked for. */
static void test_what_is_slow(void)
{
    enum { NOT = -1, MOST = -2 }; /* MPB_TRACE_NOT_REACHED and _SATURATED */
    static const struct {
        int64_t waited, enter, leave, done, slow_ticks;
        uint8_t kind;
        bool is_slow;
    } ROWS[] = {
        {0, NOT, NOT, 100, 100, MPB_PURG_NONE, true},
        {0, NOT, NOT, 99, 100, MPB_PURG_NONE, false},
        {NOT, NOT, NOT, 100, 100, MPB_PURG_NONE, true}, /* not measured is no time */
        {NOT, NOT, NOT, 99, 100, MPB_PURG_NONE, false},
        {40, NOT, NOT, 60, 100, MPB_PURG_NONE, true},
        {40, NOT, NOT, 59, 100, MPB_PURG_NONE, false},
        {100, NOT, NOT, NOT, 100, MPB_PURG_NONE, true}, /* nothing was sent */
        {99, NOT, NOT, NOT, 100, MPB_PURG_NONE, false},
        {0, 10, 60, 150, 100, MPB_PURG_FETCH, true},
        {0, 10, 60, 149, 100, MPB_PURG_FETCH, false},
        {0, NOT, 60, 160, 100, MPB_PURG_FETCH, true},
        {0, NOT, 60, 159, 100, MPB_PURG_FETCH, false},
        {0, 10, NOT, 99, 100, MPB_PURG_FETCH, false}, /* it never left */
        {0, 10, NOT, 100, 100, MPB_PURG_FETCH, true},
        {0, 10, 60, 100, 100, MPB_PURG_PRODUCE, true},
        {0, 10, 60, 100, 100, MPB_PURG_CONTROLLER, true},
        {0, NOT, NOT, 0, 0, MPB_PURG_NONE, true},
        {MOST, NOT, NOT, MOST, MOST, MPB_PURG_NONE, true},
        {MOST, NOT, NOT, MOST, NOT, MPB_PURG_NONE, false}, /* nothing is slow */
        {0, NOT, NOT, NOT, NOT, MPB_PURG_NONE, false},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_trace t = {.rx_wait = (uint32_t)ROWS[i].waited, .purg_kind = ROWS[i].kind};
        memset(t.stage, 0xff, sizeof t.stage);
        t.stage[MPB_STAGE_PURG_ENTER] = (uint32_t)ROWS[i].enter;
        t.stage[MPB_STAGE_PURG_LEAVE] = (uint32_t)ROWS[i].leave;
        t.stage[MPB_STAGE_SEND_DONE] = (uint32_t)ROWS[i].done;
        CHECK_EQ(mpb_trace_is_slow(&t, (uint32_t)ROWS[i].slow_ticks), ROWS[i].is_slow);
    }
}

/* What a predecessor decided of a record is forgotten; what the request says of itself stays. */
static void test_a_decision_made_anew(void)
{
    static const uint16_t STAYS = MPB_TF_FOLLOWER | MPB_TF_TLS | MPB_TF_INCREMENTAL_FETCH;
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (uint32_t shift = 0; shift < 16; shift += 15)
        for (uint32_t error = 0; error < 2; error++) {
            struct mpb_entry *e = &w->entries[0];
            begin(e, 1, 1);
            e->error = (int16_t)error;
            mpb_trace_of(e->trace)->flags = STAYS | MPB_TF_KEPT | 0xF000;
            lane.sample_shift = shift;
            uint64_t before = mpb_lane_read_counters(&lane).written;
            mpb_trace_commit(&lane, e, 0);
            if (mpb_lane_read_counters(&lane).written == before)
                continue;
            uint32_t flags = mpb_lane_peek(&lane, 1).first->flags;
            CHECK_EQ(flags, STAYS | (shift > 0 && error != 0 ? MPB_TF_KEPT : 0));
            mpb_lane_release(&lane, 1);
        }
    munmap(w, sizeof *w);
}

/* Without a lane nothing is written down, and without a time the request is nobody's to write down. */
static void test_requests_that_are_not_traced(void)
{
    struct world *w = new_world(CAPACITY), before;
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (int is_traced = 0; is_traced < 2; is_traced++) {
        begin(&w->entries[0], 1, 1);
        mpb_trace_of(w->entries[0].trace)->t0_ns = is_traced ? 1000 : 0;
        memcpy(&before, w, sizeof before);
        mpb_trace_commit(NULL, &w->entries[0], MPB_TF_ABORTED);
        if (!is_traced)
            mpb_trace_commit(&lane, &w->entries[0], MPB_TF_ABORTED);
        CHECK(memcmp(&before, w, sizeof before) == 0);
    }
    munmap(w, sizeof *w);
}

/* While a request is counted its number stands there, with what was counted before it. */
static void test_what_a_commit_leaves(void)
{
    struct world *w = new_world(2);
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (uint64_t i = 0; i < 6; i++) {
        lane.sample_shift = i == 5 ? 15 : 0;
        begin(&w->entries[0], 100 + i, 1); /* two find room, three do not, and the last is sampled out */
        w->entries[0].error = 0;
        mpb_trace_commit(&lane, &w->entries[0], 0);
        CHECK_EQ(lane.header->committing, 100 + i);
        CHECK_EQ(lane.header->committing_base, i);
        CHECK_EQ(mpb_trace_of(w->entries[0].trace)->t0_ns, 0);
        check_balance(&lane, i + 1);
    }
    struct mpb_lane_counters c = mpb_lane_read_counters(&lane);
    CHECK(c.written == 2 && c.dropped == 3 && c.sampled_out == 1 && c.drained == 0);
    mpb_lane_adopt(NULL, &lane); /* one without a table of requests */
    CHECK_EQ(lane.header->committing, 0);
    check_balance(&lane, 6);
    lane.header->dropped++; /* counted, and not finished */
    mpb_lane_adopt(NULL, &lane);
    check_balance(&lane, 7);
    munmap(w, sizeof *w);
}

/* The same requests on every machine, so that two lanes of one run tell of the same ones: of the correlation ids 0 .. 63 of
 * two connections, those that are kept with half of all, a quarter and an eighth. */
static void test_which_requests_are_kept(void)
{
    static const uint64_t KEPT[2][3] = {{0xc3161536c83cc2ac, 0x40160116401c808c, 0x4001c0084},
                                        {0xc113d441fcd49f7c, 0x8100540100d49d28, 0x8000100000d09d28}};
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (uint32_t connection = 0; connection < 2; connection++)
        for (uint32_t shift = 1; shift <= 3; shift++) {
            uint64_t kept = 0;
            lane.sample_shift = shift;
            for (int i = 0; i < 64; i++) {
                begin(&w->entries[0], 1, i * 0x01010101);
                w->entries[0].error = 0;
                w->entries[0].connection_generation = 2 + connection * 0x123456;
                uint64_t before = mpb_lane_read_counters(&lane).written;
                mpb_trace_commit(&lane, &w->entries[0], 0);
                kept |= (mpb_lane_read_counters(&lane).written - before) << i;
                mpb_lane_release(&lane, 1);
            }
            CHECK_EQ(kept, KEPT[connection][shift - 1]);
        }
    munmap(w, sizeof *w);
}

/* Of every processor's rows those that were used are looked at, and no others: six of two processors, three each. */
static void test_whose_rows_a_successor_marks(void)
{
    enum { ROWS = 3 };
    static const struct {
        uint32_t used[2];
        uint8_t marked; /* bit i: row i */
    } CASES[] = {{{0, 0}, 0}, {{1, 0}, 1}, {{2, 1}, 013}, {{3, 3}, 077}, {{ROWS + 1, 2}, 037}, {{0, 9}, 070}};
    static struct mpb_entry entries[3 * ROWS];
    static struct mpb_segment_header header = {.processor_count = 2, .entries_per_processor = ROWS};
    static struct mpb_doorbells doorbells;
    struct mpb_core core = {.header = &header, .doorbells = &doorbells, .entries = entries, .entry_count = 3 * ROWS};
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    atomic_store(&doorbells.processor_mark[2].entries_high, ROWS); /* there is no third */
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        for (uint32_t row = 0; row < 3 * ROWS; row++)
            begin(&entries[row], 55, 1);
        for (int p = 0; p < 2; p++)
            atomic_store(&doorbells.processor_mark[p].entries_high, CASES[i].used[p]);
        lane.header->committing = 55;
        lane.header->committing_base = mpb_lane_read_counters(&lane).written;
        lane.header->written++;
        mpb_lane_adopt(&core, &lane);
        for (uint32_t row = 0; row < 3 * ROWS; row++)
            CHECK_EQ(mpb_trace_of(entries[row].trace)->t0_ns == 0, CASES[i].marked >> row & 1);
    }
    atomic_store(&doorbells.processor_mark[0].entries_high, ROWS);
    begin(&entries[0], 1, 1); /* the very first request of all */
    lane.header->committing = 1;
    lane.header->committing_base = 0;
    mpb_lane_adopt(&core, &lane);
    CHECK_EQ(mpb_trace_of(entries[0].trace)->t0_ns, 0);
    begin(&entries[1], 0, 1); /* and a row of nobody, where no commit was begun */
    mpb_lane_adopt(&core, &lane);
    CHECK_EQ(mpb_trace_of(entries[1].trace)->t0_ns, 1000);
    munmap(w, sizeof *w);
}

int main(void)
{
    test_what_a_record_says();
    test_capacities();
    test_reading();
    test_a_record_that_is_put();
    test_a_bell();
    test_what_is_slow();
    test_a_decision_made_anew();
    test_requests_that_are_not_traced();
    test_what_a_commit_leaves();
    test_which_requests_are_kept();
    test_whose_rows_a_successor_marks();
    printf("lane records: %lu checks\n", checks_made);
    return 0;
}
