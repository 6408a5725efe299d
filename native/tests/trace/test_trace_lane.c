/* Trace lane: accounting, a reader beside a writer (meant for SAN=thread), and SIGKILL at every single instruction of
 * a commit and of its recovery: each request is accounted for exactly once. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/trace/lane_world.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WITH_STEPS 0 /* a sanitizer's own instructions would be counted, by the million */
#else
#define WITH_STEPS 1
#endif

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

/* Rung when a record makes the lane half full, whoever is full already or was never asked. */
static void test_a_bell_when_it_is_half_full(void)
{
    static const struct {
        uint64_t put, rings, release; /* release: after it */
    } ROWS[] = {
        {CAPACITY / 2 - 1, 0, 0},
        {1, 1, 0},
        {1, 0, 0},
        {CAPACITY, 0, 1},
        {9, 0, CAPACITY},
        {CAPACITY / 2, 1, 1},
        {1, 1, 2},
        {2, 1, 3},
        {CAPACITY, 1, CAPACITY / 2},
        {1, 0, CAPACITY},
    };
    struct world *w = new_world(CAPACITY);
    struct mpb_lane lane;
    struct mpb_trace record = {.t0_ns = 1};
    uint64_t seen;
    CHECK_EQ(mpb_lane_attach(&lane, w->lane, sizeof w->lane), 0);
    CHECK_EQ(lane.bell_fd, -1);
    for (int i = 0; i < CAPACITY; i++)
        mpb_lane_put(&lane, &record);
    mpb_lane_release(&lane, CAPACITY);
    lane.bell_fd = eventfd(0, EFD_NONBLOCK);
    CHECK(lane.bell_fd >= 0);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        for (uint64_t n = 0; n < ROWS[i].put; n++)
            mpb_lane_put(&lane, &record);
        CHECK_EQ(read(lane.bell_fd, &seen, sizeof seen), ROWS[i].rings ? 8 : -1);
        CHECK(ROWS[i].rings == 0 || seen == ROWS[i].rings);
        mpb_lane_release(&lane, ROWS[i].release);
    }
    seen = UINT64_MAX - 1; /* no more goes in, and nobody waits for it */
    CHECK_EQ(write(lane.bell_fd, &seen, sizeof seen), 8);
    for (int i = 0; i < CAPACITY; i++)
        mpb_lane_put(&lane, &record);
    CHECK_EQ(mpb_lane_peek(&lane, CAPACITY).count + mpb_lane_read_counters(&lane).drained % CAPACITY, CAPACITY);
    close(lane.bell_fd);
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
    test_full_lane_drops_and_counts();
    test_a_bell_when_it_is_half_full();
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
