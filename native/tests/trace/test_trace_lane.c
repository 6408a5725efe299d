/* Trace lane: accounting, a reader beside a writer (meant for SAN=thread), and SIGKILL at every single instruction of
 * a commit and of its recovery: each request is accounted for exactly once. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/stepping/check.h"
#include "trace/trace_lane.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WITH_STEPS 0 /* a sanitizer's own instructions would be counted, by the million */
#else
#define WITH_STEPS 1
#endif
#define CAPACITY 8
#define ENTRIES 4

struct world { /* shared between the test and the processes it kills */
    struct mpb_entry entries[ENTRIES];
    _Alignas(64) uint8_t lane[sizeof(struct mpb_lane_header) + 4096 * MPB_TRACE_BYTES];
};

static struct world *new_world(uint64_t capacity)
{
    struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(w != MAP_FAILED);
    CHECK_EQ(mpb_lane_format(w->lane, sizeof w->lane, capacity, 3, 77), 0);
    return w;
}

static void begin(struct mpb_entry *e, uint64_t fill, int32_t correlation)
{
    e->fill_number = fill;
    e->correlation_id = correlation;
    e->connection = 5;
    e->connection_generation = 2;
    e->payload_length = 100;
    e->api_key = 1;
    e->error = correlation % 3 == 0 ? 3 : 0;
    mpb_trace_begin(e->trace, 1000);
    mpb_trace_stamp(e->trace, MPB_STAGE_SEND_DONE, 1000 + 64 * (uint64_t)correlation);
}

static void check_balance(const struct mpb_lane *lane, uint64_t finished)
{
    struct mpb_lane_counters c = mpb_lane_read_counters(lane);
    CHECK_EQ(c.finished, finished);
    CHECK_EQ(c.written + c.dropped + c.sampled_out, finished);
}

static void test_stamps(void)
{
    _Alignas(8) uint8_t trace[MPB_TRACE_BYTES];
    struct mpb_trace *t = mpb_trace_of(trace);
    mpb_trace_begin(trace, 1000);
    CHECK_EQ(t->stage[MPB_STAGE_PARSED], MPB_TRACE_NOT_REACHED);
    mpb_trace_stamp(trace, MPB_STAGE_PARSED, 1000 + 64 * 9 + 63);
    CHECK_EQ(t->stage[MPB_STAGE_PARSED], 9);
    mpb_trace_stamp(trace, MPB_STAGE_PARSED, 10);
    CHECK_EQ(t->stage[MPB_STAGE_PARSED], 0);
    mpb_trace_stamp(trace, MPB_STAGE_PARSED, 1000 + 0xFFFFFFFEull * 64);
    CHECK_EQ(t->stage[MPB_STAGE_PARSED], MPB_TRACE_SATURATED);
    CHECK(t->flags & MPB_TF_SATURATED);
    CHECK_EQ(t->rx_wait, MPB_TRACE_NOT_REACHED);
    mpb_trace_arrived(trace, 0); /* not known */
    CHECK_EQ(t->rx_wait, MPB_TRACE_NOT_REACHED);
    mpb_trace_arrived(trace, 1000 - 64 * 5);
    CHECK_EQ(t->rx_wait, 5);
    mpb_trace_arrived(trace, 70000); /* while it was read, by another clock */
    CHECK_EQ(t->rx_wait, 0);
    for (int stage = 0; stage < MPB_TRACE_STAGES; stage++)
        mpb_trace_stamp(trace, stage, 2000);
    t->purg_kind = MPB_PURG_PRODUCE;
    t->flags = MPB_TF_PURG_TIMEOUT | 3;
    mpb_trace_again(trace); /* another handler begins anew: how it came to the first one stays */
    for (int stage = 0; stage < MPB_TRACE_STAGES; stage++)
        CHECK_EQ(t->stage[stage] == MPB_TRACE_NOT_REACHED, stage >= MPB_STAGE_DEQUEUED);
    CHECK(t->flags == (MPB_TF_REDISPATCHED | 3) && t->purg_kind == MPB_PURG_NONE);
    mpb_trace_begin(trace, 0);
    t->stage[0] = 4;
    mpb_trace_stamp(trace, 0, 5000);
    mpb_trace_mark(trace, 0);
    CHECK_EQ(t->stage[0], 4);
}

static void test_full_lane_drops_and_counts(void)
{
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    for (int i = 1; i <= CAPACITY + 3; i++) {
        begin(&w->entries[0], (uint64_t)i, i);
        mpb_trace_commit(&lane, &w->entries[0], 0);
        mpb_trace_commit(&lane, &w->entries[0], 0); /* twice: counted once */
        check_balance(&lane, (uint64_t)i);
    }
    CHECK_EQ(mpb_lane_read_counters(&lane).dropped, 3);
    struct mpb_lane_span span = mpb_lane_peek(&lane, 5);
    CHECK_EQ(span.count, 5);
    CHECK_EQ(span.first[4].corr_id, 5);
    CHECK_EQ(span.first[4].seq_lo, 4);
    CHECK_EQ(span.first[4].req_bytes, 104);
    CHECK_EQ(span.first[4].conn_id, 3u << 27 | 2);
    CHECK_EQ(span.first[4].proc_id, 3);
    CHECK_EQ(span.first[2].error, 3);
    CHECK_EQ(span.first[4].stage[MPB_STAGE_SEND_DONE], 5);
    mpb_lane_release(&lane, 5);
    begin(&w->entries[0], 99, 99);
    mpb_trace_commit(&lane, &w->entries[0], MPB_TF_ABORTED);
    CHECK_EQ(mpb_lane_peek(&lane, 100).count, 3); /* up to the wrap */
    mpb_lane_release(&lane, 3);
    CHECK_EQ(mpb_lane_peek(&lane, 100).first->flags & MPB_TF_ABORTED, MPB_TF_ABORTED);
    mpb_lane_release(&lane, 100); /* more than there is */
    CHECK_EQ(mpb_lane_peek(&lane, 100).count, 0);
    CHECK(!mpb_lane_seek(&lane, 0));
    munmap(w, sizeof *w);
}

static void test_sampling_is_accounted(void)
{
    struct world *w = new_world(4096);
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    lane.sample_shift = 2;
    for (int i = 1; i <= 3000; i++) {
        begin(&w->entries[0], (uint64_t)i, i);
        mpb_trace_commit(&lane, &w->entries[0], 0);
    }
    struct mpb_lane_counters c = mpb_lane_read_counters(&lane);
    check_balance(&lane, 3000);
    CHECK(c.sampled_out > 1200 && c.sampled_out < 1800); /* a third are errors and kept; of 2,000 a quarter is kept */
    const struct mpb_trace *kept = mpb_lane_peek(&lane, 4096).first;
    uint64_t weights = 0;
    for (uint64_t i = 0; i < c.written; i++) {
        CHECK_EQ(kept[i].flags >> MPB_TF_SAMPLE_SHIFT, kept[i].error ? 0 : 2);
        CHECK_EQ(!!(kept[i].flags & MPB_TF_KEPT), kept[i].error != 0);
        weights += 1u << (kept[i].flags >> MPB_TF_SAMPLE_SHIFT);
    }
    CHECK(weights > 2700 && weights < 3300); /* an estimate of 3,000 */
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

/* Clients count their requests in steps of their own; none may be kept all the time, or never. */
static void test_sampling_follows_no_pattern(void)
{
    static const uint32_t steps[] = {1, 2, 256, 512, 65536, 0x01000000};
    struct world *w = new_world(4096);
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    lane.sample_shift = 4;
    for (size_t s = 0; s < 2 * sizeof steps / sizeof *steps; s++) {
        uint64_t before = mpb_lane_read_counters(&lane).written;
        for (uint32_t i = 0; i < 3200; i++) {
            struct mpb_entry *e = &w->entries[0];
            begin(e, i + 1, (int32_t)(i * steps[s / 2]));
            e->error = 0;
            e->connection_generation = s % 2 ? 2 + i / 100 : 2; /* one connection, or a new one after 100 requests */
            mpb_trace_commit(&lane, e, 0);
            mpb_lane_release(&lane, 1);
        }
        uint64_t kept = mpb_lane_read_counters(&lane).written - before;
        CHECK(steps[s / 2] == 0x01000000 || (kept > 120 && kept < 280)); /* this one has 256 names for 3,200 requests */
    }
    munmap(w, sizeof *w);
}

static struct mpb_entry *ordinary(struct world *w)
{
    struct mpb_entry *e = &w->entries[0];
    begin(e, w->entries[1].fill_number++ + 1, 4);
    e->plane = 0;
    mpb_store_relaxed(&e->attempts, 0);
    return e;
}

static bool is_kept(struct mpb_lane *lane, struct mpb_entry *e, uint16_t flags)
{
    struct mpb_lane_counters before = mpb_lane_read_counters(lane), after;
    mpb_trace_commit(lane, e, flags);
    after = mpb_lane_read_counters(lane);
    CHECK_EQ(after.written + after.sampled_out, before.written + before.sampled_out + 1);
    if (after.written == before.written)
        return false;
    const struct mpb_trace *t = mpb_lane_peek(lane, 1).first;
    CHECK_EQ(t->flags & ~flags & (MPB_TF_KEPT | 0xF000), MPB_TF_KEPT); /* and stands for itself alone */
    mpb_lane_release(lane, 1);
    return true;
}

static void test_what_is_kept_in_any_case(void)
{
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    struct mpb_entry *e;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    lane.sample_shift = 15;
    lane.slow_ticks = 1000;
    CHECK(!is_kept(&lane, ordinary(w), 0));
    CHECK(is_kept(&lane, ordinary(w), MPB_TF_ABORTED));
    (e = ordinary(w))->error = 7;
    CHECK(is_kept(&lane, e, 0));
    (e = ordinary(w))->plane = 1;
    CHECK(is_kept(&lane, e, 0));
    mpb_store_relaxed(&(e = ordinary(w))->attempts, 1);
    CHECK(is_kept(&lane, e, 0));
    for (uint8_t kind = MPB_PURG_PRODUCE; kind <= MPB_PURG_CONTROLLER; kind++) {
        e = ordinary(w);
        mpb_trace_of(e->trace)->purg_kind = kind;
        mpb_trace_of(e->trace)->flags |= MPB_TF_PURG_TIMEOUT;
        CHECK_EQ(is_kept(&lane, e, 0), kind != MPB_PURG_FETCH);
    }
    for (uint32_t taken = 998; taken < 1002; taken++) {
        uint32_t wait = taken - 500;
        mpb_trace_of((e = ordinary(w))->trace)->stage[MPB_STAGE_SEND_DONE] = taken;
        CHECK_EQ(is_kept(&lane, e, 0), taken >= 1000);
        e = ordinary(w); /* half of it in the socket */
        mpb_trace_of(e->trace)->rx_wait = wait;
        mpb_trace_of(e->trace)->stage[MPB_STAGE_SEND_DONE] = 500;
        CHECK_EQ(is_kept(&lane, e, 0), taken >= 1000);
        e = ordinary(w); /* a long poll */
        struct mpb_trace *t = mpb_trace_of(e->trace);
        t->purg_kind = MPB_PURG_FETCH;
        t->stage[MPB_STAGE_PURG_ENTER] = 10;
        t->stage[MPB_STAGE_PURG_LEAVE] = 90010;
        t->stage[MPB_STAGE_SEND_DONE] = 90000 + taken;
        CHECK_EQ(is_kept(&lane, e, 0), taken >= 1000);
    }
    lane.slow_ticks = MPB_TRACE_NOT_REACHED;
    mpb_trace_of((e = ordinary(w))->trace)->stage[MPB_STAGE_SEND_DONE] = MPB_TRACE_SATURATED;
    CHECK(!is_kept(&lane, e, 0));
    munmap(w, sizeof *w);
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

static void test_broken_headers_are_refused(void)
{
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, 100), -1);
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof(struct mpb_lane_header) + 100), -4);
    struct mpb_lane_header *h = (void *)w->lane;
    h->capacity = 12;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), -4);
    h->version = 900;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), -3);
    h->magic = 0;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), -2);
    CHECK_EQ(mpb_lane_format(w->lane, 64, CAPACITY, 0, 0), -1);
    munmap(w, sizeof *w);
}

/* ---- a reader beside a writer */
#define REQUESTS 200000
static void *write_all(void *arg)
{
    struct world *w = arg;
    struct mpb_lane lane;
    if (mpb_lane_attach(&lane, w->lane, sizeof w->lane) != 0)
        abort();
    for (int i = 1; i <= REQUESTS; i++) {
        begin(&w->entries[0], (uint64_t)i, i);
        mpb_trace_commit(&lane, &w->entries[0], 0);
    }
    return NULL;
}

static void test_reader_beside_writer(void)
{
    struct world *w = new_world(64);
    struct mpb_lane lane;
    pthread_t writer;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    CHECK_EQ(pthread_create(&writer, NULL, write_all, w), 0);
    uint64_t read = 0, finished = 0;
    int32_t last = 0;
    while (finished < REQUESTS) {
        struct mpb_lane_counters c = mpb_lane_read_counters(&lane);
        CHECK(c.finished <= c.written + c.dropped + c.sampled_out);
        finished = c.finished;
        struct mpb_lane_span span = mpb_lane_peek(&lane, 16);
        for (uint64_t i = 0; i < span.count; i++) {
            CHECK_EQ(span.first[i].seq_lo, (uint32_t)read++);
            CHECK(span.first[i].corr_id > last);
            last = span.first[i].corr_id;
            CHECK_EQ(span.first[i].stage[MPB_STAGE_SEND_DONE], last);
        }
        mpb_lane_release(&lane, span.count);
    }
    pthread_join(writer, NULL);
    while (mpb_lane_peek(&lane, 64).count > 0) {
        read += mpb_lane_peek(&lane, 64).count;
        mpb_lane_release(&lane, mpb_lane_peek(&lane, 64).count);
    }
    CHECK_EQ(mpb_lane_read_counters(&lane).written, read);
    check_balance(&lane, REQUESTS);
    munmap(w, sizeof *w);
}

/* ---- killed at every instruction */
static struct mpb_core core_of(struct world *w)
{
    static struct mpb_segment_header header = {.processor_count = 1, .entries_per_processor = ENTRIES};
    static struct mpb_doorbells doorbells;
    struct mpb_core core = {.header = &header, .doorbells = &doorbells, .entries = w->entries, .entry_count = ENTRIES};
    atomic_store(&doorbells.processor_mark[0].entries_high, ENTRIES);
    return core;
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

/* What one kill leaves: a record that was counted is not written again, one that was not is still to be. */
static void test_a_successor_marks_what_was_counted(void)
{
    for (uint64_t counted = 0; counted <= 1; counted++) {
        struct world *w = new_world(CAPACITY);
        struct mpb_core core = core_of(w);
        struct mpb_lane lane;
        CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
        for (int i = 0; i < ENTRIES; i++)
            begin(&w->entries[i], (uint64_t)(100 + i), i + 1);
        lane.header->committing = 102;
        lane.header->written = counted;
        mpb_lane_adopt(&core, &lane);
        for (int i = 0; i < ENTRIES; i++)
            CHECK_EQ(mpb_trace_of(w->entries[i].trace)->t0_ns, counted && i == 2 ? 0 : 1000);
        CHECK_EQ(lane.header->committing, 0);
        check_balance(&lane, counted);
        munmap(w, sizeof *w);
    }
}

static unsigned long kill_points;
static uint32_t shift_before, shift_after; /* of whoever commits first, and of its successors */

static void commit_all(struct world *w,
                       uint32_t shift) /* what a processor does, and its successor with what it finds */
{
    struct mpb_core core = core_of(w);
    struct mpb_lane lane;
    if (mpb_lane_attach(&lane, w->lane, sizeof w->lane) != 0)
        _exit(3);
    lane.sample_shift = shift;
    mpb_lane_adopt(&core, &lane);
    for (int i = ENTRIES - 1; i >= 0; i--) /* another order than the requests had: recovery promises none */
        mpb_trace_commit(&lane, &w->entries[i], 0);
}

/* A process killed after an instruction leaves the shared memory as it was at that instruction: so one child runs
 * commit_all step by step, and after every `stride` steps `at_each` gets a copy of what a kill would have left. */
static void at_every_step(struct world *w, uint64_t capacity, long stride, void (*at_each)(struct world *, uint64_t))
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        commit_all(w, shift_before);
        raise(SIGSTOP);
        _exit(0);
    }
    struct world *left = new_world(capacity);
    CHECK_EQ(waitpid(child, &status, 0), child);
    for (long step = 0;; step++) {
        if (step % stride == 0) {
            memcpy(left, w, offsetof(struct world, lane) + mpb_lane_bytes(capacity));
            at_each(left, capacity);
        }
        CHECK_EQ(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSTOPPED(status));
        if (WSTOPSIG(status) == SIGSTOP)
            break;
        kill_points++;
    }
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, &status, 0), child);
    munmap(left, sizeof *left);
}

static void check_each_once(struct world *w)
{
    struct mpb_lane lane;
    int seen[ENTRIES + 1] = {0};
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    check_balance(&lane, ENTRIES);
    struct mpb_lane_span span = mpb_lane_peek(&lane, 100);
    struct mpb_lane_counters c = mpb_lane_read_counters(&lane);
    CHECK_EQ(span.count, c.written);
    for (uint64_t i = 0; i < span.count; i++) {
        const struct mpb_trace *t = &span.first[i];
        uint32_t shift = t->flags >> MPB_TF_SAMPLE_SHIFT;
        CHECK_EQ(seen[t->corr_id]++, 0);
        CHECK(shift == (t->error ? 0 : shift_before) || shift == (t->error ? 0 : shift_after));
    }
    CHECK_EQ(c.written + c.dropped + c.sampled_out, ENTRIES);
    CHECK(c.sampled_out == 0 || shift_before + shift_after > 0);
}

static void recover(struct world *w, uint64_t capacity)
{
    (void)capacity;
    commit_all(w, shift_after);
    check_each_once(w);
}

static void kill_recovery_too(struct world *w, uint64_t capacity) { at_every_step(w, capacity, 1, recover); }

static void test_kill_at_every_instruction(uint64_t capacity, long stride, void (*at_each)(struct world *, uint64_t))
{
    struct world *w = new_world(capacity);
    for (int i = 0; i < ENTRIES; i++)
        begin(&w->entries[i], (uint64_t)(100 + i), i + 1);
    at_every_step(w, capacity, stride, at_each);
    recover(w, capacity);
    munmap(w, sizeof *w);
}

int main(void)
{
    test_stamps();
    test_a_successor_marks_what_was_counted();
    test_whose_rows_a_successor_marks();
    test_what_a_record_says();
    test_capacities();
    test_reading();
    test_a_record_that_is_put();
    test_which_requests_are_kept();
    test_full_lane_drops_and_counts();
    test_sampling_is_accounted();
    test_sampling_follows_no_pattern();
    test_what_is_kept_in_any_case();
    test_broken_headers_are_refused();
    test_reader_beside_writer();
    if (WITH_STEPS) {
        test_kill_at_every_instruction(CAPACITY, 1, recover);
        test_kill_at_every_instruction(2, 1, recover); /* half of the requests are dropped */
        test_kill_at_every_instruction(CAPACITY, 31, kill_recovery_too);
        shift_before = 1; /* sampling, and another one after the restart */
        shift_after = 2;
        test_kill_at_every_instruction(CAPACITY, 1, recover);
        test_kill_at_every_instruction(CAPACITY, 31, kill_recovery_too);
        CHECK(kill_points > 1000);
    }
    printf("trace lane: %lu checks, killed at %lu instructions\n", checks_made, kill_points);
    return 0;
}
