/* What is done under a partition's lock, and that it is free again behind it: looks, snapshots while the log is cut or the
 * lock is held, a flush that finds it held; rows of producers that a verification may take; sizes of a process's cache. */
#include "tests/log/append_scenarios.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "log/log_flush.h"
#include "log/log_io.h"
#include "log/producer.h"
#include "log/transaction.h"
#include "shm/doorbell.h"
#include "shm/metadata.h"
#include "tests/log/failing_calls.h"
#include "tests/stepping/guarded.h"

enum { WAITER = 9 };

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }

static bool rung(void)
{
    bool found = mpb_load_acquire(&row()->watchers) == 0;
    mpb_watch_partition(&f.core, 0, WAITER);
    return found;
}

/* Who lets go rings only if somebody found it busy meanwhile; who looks whether it is still busy lets go, too. */
static void marks(void)
{
    static const uint64_t MARKS[] = {1, 2, UINT64_MAX};
    fixture_open(&f);
    fixture_partition(&f, 0);
    rung();
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    mpb_partition_unlock(&f.log, 0);
    CHECK(!rung() && !mpb_partition_is_busy(&f.log, 0) && !rung());
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
        mpb_store_relaxed(&row()->busy_since_ns, MARKS[i]);
        mpb_partition_unlock(&f.log, 0);
        CHECK(rung() && mpb_load_relaxed(&row()->busy_since_ns) == 0);
        mpb_store_relaxed(&row()->busy_since_ns, MARKS[i]);
        CHECK(!mpb_partition_is_busy(&f.log, 0));
        CHECK(rung() && mpb_load_relaxed(&row()->busy_since_ns) == 0);
        fixture_is_free(&f, 0);
    }
    fixture_close(&f);
}

/* Who finds the row another's, or gone, has let go as well. */
static void free_behind_a_refusal(void)
{
    static const uint8_t WRONG[16] = {8};
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_partition_lock_usable(&f.log, 0, WRONG), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fixture_is_free(&f, 0);
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, 1), MPB_ERR_OFFSET_OUT_OF_RANGE);
    fixture_is_free(&f, 0);
    CHECK_EQ(mpb_truncate(&f.log, 0, -1), MPB_ERR_OFFSET_OUT_OF_RANGE);
    fixture_is_free(&f, 0);
    CHECK_EQ(mpb_truncate_follower(&f.log, 0, 0, 3, 7000), MPB_ERR_FENCED_LEADER_EPOCH);
    fixture_is_free(&f, 0);
    CHECK_EQ(mpb_start_at(&f.log, 0, 5, 3, 7000), MPB_ERR_FENCED_LEADER_EPOCH);
    fixture_is_free(&f, 0);
    int64_t start = -1;
    CHECK_EQ(mpb_delete_records(&f.log, 0, NULL, 1, &start), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(start, -1);
    fixture_is_free(&f, 0);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, 0, MPB_PART_ONLINE), 0);
    fixture_is_free(&f, 0);
    CHECK_EQ(mpb_partition_lock_usable(&f.log, 0, NULL), MPB_ERR_KAFKA_STORAGE_ERROR);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

static uint64_t monotonic_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static bool is_held(void)
{
    int status;
    pid_t other = fork();
    if (other == 0)
        _exit(mpb_partition_lock(&f.log, 0) == MPB_ERR_REQUEST_TIMED_OUT);
    CHECK_EQ(waitpid(other, &status, 0), other);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* Who finds it usable holds it. The first one that finds it busy waits a while; of a holder that died it is inherited. */
static void held_and_waited_for(void)
{
    static const uint8_t OURS[16] = {7};
    int status;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_partition_lock_usable(&f.log, 0, OURS), 0);
    CHECK(is_held());
    mpb_partition_unlock(&f.log, 0);
    const struct fixture_holder holder = fixture_hold(&f, 0);
    mpb_store_relaxed(&row()->busy_since_ns, 0);
    uint64_t begun = monotonic_ns();
    CHECK_EQ(mpb_partition_lock(&f.log, 0), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK(monotonic_ns() - begun >= (MPB_LOCK_WAIT_MS - 1) * 1000000ull);
    CHECK(mpb_load_relaxed(&row()->busy_since_ns) >= begun &&
          mpb_load_relaxed(&row()->busy_since_ns) <= monotonic_ns());
    fixture_let_go(&holder);
    pid_t dies = fork();
    if (dies == 0)
        _exit(mpb_partition_lock(&f.log, 0));
    CHECK(waitpid(dies, &status, 0) == dies && status == 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_LOCKS_INHERITED), 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    mpb_partition_unlock(&f.log, 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_LOCKS_INHERITED), 1);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

static long sleeps(void)
{
    struct rusage used;
    CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_nvcsw;
}

/* Where it is known to be busy nobody waits for it again: a handler tries for every request that waits aside. Sleeps are
 * counted: time would also count what a busy machine takes. */
static void found_busy_before(void)
{
    enum { CALLS = 20 };
    fixture_open(&f);
    fixture_partition(&f, 0);
    const struct fixture_holder holder = fixture_hold(&f, 0);
    const uint64_t since_ns = monotonic_ns();
    mpb_store_relaxed(&row()->busy_since_ns, since_ns);
    const long before = sleeps();
    for (int i = 0; i < CALLS; i++)
        CHECK_EQ(mpb_partition_lock(&f.log, 0), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK(sleeps() - before < CALLS / 2);
    CHECK_EQ(counted(&f, MPB_C_LOG_LOCKS_BUSY), CALLS);
    CHECK_EQ(mpb_load_relaxed(&row()->busy_since_ns), since_ns);
    fixture_let_go(&holder);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

/* A lock that nobody alive holds ends its finder, who looks for the holder only once it has been busy for long. */
static void a_lost_lock(void)
{
    static const struct {
        uint64_t busy_ms;
        bool ends;
    } CASES[] = {{0, false}, {1, false}, {2 * MPB_LOCK_LOST_AFTER_MS, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int status;
        fixture_open(&f);
        fixture_partition(&f, 0);
        pid_t gone = fork();
        if (gone == 0)
            _exit(0);
        CHECK_EQ(waitpid(gone, &status, 0), gone);
        mpb_store_release(&f.core.processes[5].pid, (uint32_t)getpid());
        row()->lock.__data.__lock = gone;
        for (int tries = 0; tries < 5; tries++) { /* a finder that had to wait for its processor is late */
            pid_t finder = fork();
            if (finder == 0) {
                uint64_t since_ns = monotonic_ns() - CASES[i].busy_ms * 1000000;
                mpb_store_relaxed(&row()->busy_since_ns, CASES[i].busy_ms == 0 ? 0 : since_ns);
                _exit(mpb_partition_lock(&f.log, 0) != MPB_ERR_REQUEST_TIMED_OUT);
            }
            CHECK_EQ(waitpid(finder, &status, 0), finder);
            if (!!WIFSIGNALED(status) == CASES[i].ends)
                break;
        }
        CHECK_EQ(!!WIFSIGNALED(status), CASES[i].ends);
        CHECK_EQ(CASES[i].ends ? WTERMSIG(status) : WEXITSTATUS(status), CASES[i].ends ? SIGABRT : 0);
        row()->lock.__data.__lock = 0;
        fixture_close(&f);
    }
}

/* Of the rows that were ever made those with an intent of that slot, and slot 0 left nothing where there is none. */
static void what_a_slot_left(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 2);
    CHECK_EQ(mpb_load_relaxed(&f.core.header->partitions_high), 3);
    CHECK_EQ(mpb_repair_slot(&f.log, 0), 0);
    for (int at = 2; at < 4; at++)
        mpb_store_release(&f.core.partitions[at].intent.word, (uint64_t)MPB_INTENT_ROLL << 24 | 30);
    f.core.partitions[2].intent.target = mpb_load_relaxed(&f.core.partitions[2].selector);
    CHECK_EQ(mpb_repair_slot(&f.log, 31), 0);
    CHECK_EQ(mpb_repair_slot(&f.log, 30), 1);
    CHECK(mpb_load_relaxed(&f.core.partitions[2].intent.word) == 0 && mpb_repair_slot(&f.log, 30) == 0);
    fixture_close(&f);
}

/* Of a name no more is read than it has. */
static void names(void)
{
    struct guarded guarded = guarded_open(16);
    const struct mpb_partition_copy state = {.segment_count = 1};
    struct mpb_partition_identity identity = {.dir = (const char *)guarded_copy(&guarded, "named-7", 8)};
    fixture_open(&f);
    CHECK_EQ(mpb_partition_create(&f.log, 0, &identity, 3, 1000), 0);
    CHECK(strcmp(row()->dir, "named-7") == 0 && row()->dir_length == 7);
    identity.dir++;
    CHECK_EQ(mpb_partition_publish(&f.log, 0, &identity, &state), 0);
    CHECK(strcmp(row()->dir, "amed-7") == 0 && row()->dir_length == 6);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ snapshots */
/* While the log is cut no copy counts: who wants to know takes the lock, behind which the repair has been made. */
static void snapshots(void)
{
    const struct batch_spec spec = numbered(-1, 0, 1);
    struct mpb_partition_copy seen;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    CHECK(mpb_partition_snapshot(&f.log, 0, &seen) == 0 && seen.leo == 2);
    CHECK_EQ(counted(&f, MPB_C_LOG_SNAPSHOTS_LOCKED), 0);
    struct mpb_partition_copy *in_force = &row()->copy[mpb_load_relaxed(&row()->selector) & 1];
    in_force->truncations++;
    memset(&seen, 0, sizeof seen);
    CHECK(mpb_partition_snapshot(&f.log, 0, &seen) == 0 && memcmp(&seen, in_force, sizeof seen) == 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_SNAPSHOTS_LOCKED), 1);
    fixture_is_free(&f, 0);
    const struct fixture_holder holder = fixture_hold(&f, 0);
    CHECK_EQ(mpb_partition_snapshot(&f.log, 0, &seen), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK(counted(&f, MPB_C_LOG_SNAPSHOTS_LOCKED) > 2); /* not at the first try */
    CHECK_EQ(counted(&f, MPB_C_LOG_SNAPSHOTS_LOCKED), 1 + counted(&f, MPB_C_LOG_LOCKS_BUSY));
    fixture_let_go(&holder);
    in_force->truncations++;
    uint64_t locked = counted(&f, MPB_C_LOG_SNAPSHOTS_LOCKED);
    CHECK(mpb_partition_snapshot(&f.log, 0, &seen) == 0 && seen.truncations == in_force->truncations);
    CHECK_EQ(counted(&f, MPB_C_LOG_SNAPSHOTS_LOCKED), locked);
    in_force = &row()->copy[mpb_load_relaxed(&row()->selector) & 1];
    CHECK_EQ(memcmp(&seen, in_force, sizeof seen), 0); /* all of it, both halves */
    f.core.partitions[5].copy[0].truncations = 1;
    CHECK_EQ(mpb_partition_snapshot(&f.log, 5, &seen), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION); /* that has no lock yet */
    fixture_close(&f);
}

/* ------------------------------------------------------------------ flushes */
static struct fixture_holder holder_meanwhile;

static int hold_meanwhile(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_SYNC) {
        mpb_io_fault = NULL;
        holder_meanwhile = fixture_hold(&f, 0);
    }
    return 0;
}

/* What was synced is written into the row under its lock, or not at all. */
static void a_flush_of_a_busy_partition(void)
{
    const struct batch_spec spec = numbered(-1, 0, 1);
    int64_t flushed = 77;
    uint32_t out[2] = {7, 7}, next = 0;
    fixture_open(&f);
    fixture_partition(&f, 0);
    mpb_rows_raise(&f.core, 1, 1);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    mpb_io_fault = hold_meanwhile;
    CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK(mpb_io_fault == NULL && flushed == 0 && mpb_load_relaxed(&row()->flushed_offset) == 0);
    CHECK(mpb_log_unflushed(&f.log, false, &next, out, 2) == 0 && next == 1); /* it is still busy */
    CHECK_EQ(mpb_log_set_flushed(&f.log, 0, 1), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK_EQ(mpb_load_relaxed(&row()->flushed_offset), 0);
    fixture_let_go(&holder_meanwhile);
    next = 0;
    CHECK(mpb_log_unflushed(&f.log, false, &next, out, 2) == 1 && out[0] == 0 && out[1] == 7);
    CHECK(mpb_log_flush(&f.log, 0, &flushed) == 0 && flushed == 2);
    fixture_is_free(&f, 0);
    next = 0;
    CHECK(mpb_log_unflushed(&f.log, false, &next, out, 2) == 0 && next == 1);
    CHECK_EQ(mpb_log_set_flushed(&f.log, 0, 1), 0);
    CHECK_EQ(mpb_load_relaxed(&row()->flushed_offset), 1);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

static int64_t flushed_meanwhile;

static int flush_meanwhile(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_SYNC) {
        mpb_io_fault = NULL;
        mpb_store_release(&row()->flushed_offset, (uint64_t)flushed_meanwhile);
    }
    return 0;
}

/* Another process has flushed more meanwhile: that is not taken back, and is what the caller hears. */
static void two_flushes(void)
{
    static const int64_t MEANWHILE[] = {3, 4, 5};
    const struct batch_spec spec = numbered(-1, 0, 1);
    for (int i = 0; i < 3; i++) {
        int64_t flushed = 77;
        fixture_open(&f);
        fixture_partition(&f, 0);
        for (int batch = 0; batch < 2; batch++)
            CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        flushed_meanwhile = MEANWHILE[i];
        mpb_io_fault = flush_meanwhile;
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
        const int64_t most = MEANWHILE[i] > 4 ? MEANWHILE[i] : 4;
        CHECK(mpb_io_fault == NULL && flushed == most && (int64_t)mpb_load_relaxed(&row()->flushed_offset) == most);
        fixture_close(&f);
    }
}

/* A partition whose directory is offline, deleted or not there is told of as such, and nothing is synced. */
static void flushes_refused(void)
{
    const struct batch_spec spec = numbered(-1, 0, 1);
    int64_t flushed = 77;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    let_fail(MPB_IO_SYNC, 0, EIO, 9);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, 0, MPB_PART_ONLINE), 0);
    CHECK(mpb_log_flush(&f.log, 0, &flushed) == MPB_ERR_KAFKA_STORAGE_ERROR && flushed == 0);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, MPB_PART_DELETED, 0), 0);
    CHECK(mpb_log_flush(&f.log, 0, &flushed) == MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION && flushed == 0);
    CHECK_EQ(failing_calls.failed, 0);
    mpb_io_fault = NULL;
    fixture_close(&f);
}

/* One call that finds no descriptor, whichever: what is cached is given back, and the flush goes on. */
static void a_flush_at_the_limit_of_descriptors(void)
{
    const struct batch_spec spec = numbered(-1, 0, 1);
    for (int cold = 0; cold < 2; cold++)
        for (int good = 0; good < 3; good++) {
            int64_t flushed;
            fixture_open(&f);
            fixture_partition(&f, 0);
            CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
            if (cold)
                mpb_segment_close_partition(&f.log, 0);
            const uint32_t open = open_descriptors();
            let_fail(MPB_IO_OPEN, good, good % 2 == 0 ? EMFILE : ENFILE, 1);
            CHECK(mpb_log_flush(&f.log, 0, &flushed) == 0 && flushed == 2);
            mpb_io_fault = NULL;
            CHECK_EQ(failing_calls.failed, good < 2 + cold);
            CHECK(open_descriptors() <= open + (uint32_t)cold);
            fixture_close(&f);
        }
}

/* ------------------------------------------------------------------ rows of producers */
/* A verification takes the row of its chain's producer that wrote once, though others wrote longer ago. */
static void verified_in_anothers_row(void)
{
    const struct batch_spec spec = numbered(7, 0, 1);
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    for (int i = 0; i < FIX_PRODUCERS - 1; i++) {
        struct batch_spec other = numbered(100 + i, 0, 40);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 1, MPB_NO_REQUEST, 0, &other).error, 0);
    }
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 7 + MPB_PRODUCER_CHAINS, 2, MPB_NO_GUARD), 0);
    CHECK_EQ(mpb_producer_find(&f.core, row(), 7), 0);
    uint32_t at = mpb_producer_find(&f.core, row(), 7 + MPB_PRODUCER_CHAINS);
    CHECK(at != 0 && mpb_txn_epochs_of(&f.core.producers[at - 1]).verified == 2);
    for (int i = 0; i < FIX_PRODUCERS - 1; i++)
        CHECK(mpb_producer_find(&f.core, &f.core.partitions[1], 100 + i) != 0);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

/* Where another partition's has to go, the second try has room; one that is no leader is asked nothing. */
static void verified_by_making_room(void)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0);
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    for (int i = 0; i < FIX_PRODUCERS; i++) {
        struct batch_spec other = numbered(100 + i, 0, 40);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 1, MPB_NO_REQUEST, 0, &other).error, 0);
    }
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 7, 2, MPB_NO_GUARD), 0);
    CHECK(mpb_producer_find(&f.core, row(), 7) != 0 && counted(&f, MPB_C_LOG_PRODUCERS_FULL) == 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), 1);
    fixture_is_free(&f, 0);
    fixture_close(&f);
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 7, 2, MPB_NO_GUARD), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    CHECK_EQ(mpb_producer_find(&f.core, row(), 7), 0);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ a process's cache */
/* Places come in whole sets, and there is one set at least. */
static void sizes_of_the_cache(void)
{
    static const struct {
        uint32_t asked, sets;
    } CASES[] = {{0, 1}, {1, 1}, {MPB_SEGMENT_WAYS, 1}, {MPB_SEGMENT_WAYS + 1, 2}, {64, 64 / MPB_SEGMENT_WAYS}};
    fixture_open(&f);
    const char *dirs[MPB_MAX_LOG_DIRS + 1];
    for (int i = 0; i <= MPB_MAX_LOG_DIRS; i++)
        dirs[i] = f.dir;
    const uint32_t open = open_descriptors();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct mpb_log log;
        uint32_t bad = 9;
        CHECK_EQ(mpb_log_open(&log, &f.core, MPB_MAX_SLOTS - 1, dirs, 1, CASES[i].asked, &bad), 0);
        CHECK(log.segment_sets == CASES[i].sets && log.slot == MPB_MAX_SLOTS - 1 && log.core == &f.core && bad == 0);
        mpb_log_close(&log);
    }
    struct mpb_log log;
    uint32_t bad = 9;
    CHECK_EQ(mpb_log_open(&log, &f.core, 0, dirs, MPB_MAX_LOG_DIRS, 1, &bad), 0);
    CHECK_EQ(log.dir_count, MPB_MAX_LOG_DIRS);
    mpb_log_close(&log);
    CHECK_EQ(mpb_log_open(&log, &f.core, 0, dirs, MPB_MAX_LOG_DIRS + 1, 1, &bad), -EINVAL);
    CHECK_EQ(mpb_log_open(&log, &f.core, MPB_MAX_SLOTS, dirs, 1, 1, &bad), -EINVAL);
    CHECK(log.core == NULL && log.open_segments == NULL && log.lists == NULL && log.dir_count == 0);
    CHECK_EQ(open_descriptors(), open);
    let_fail(MPB_IO_OPEN, 1, ENOSPC, 1); /* says nothing of the directory */
    CHECK_EQ(mpb_log_open(&log, &f.core, 0, dirs, 2, 1, &bad), -ENOSPC);
    mpb_io_fault = NULL;
    CHECK(bad == 1 && mpb_log_dir_online(&f.core, 1) && open_descriptors() == open);
    fixture_close(&f);
}

/* Segments are spread over the sets: some for each, none of which has to make room; of any partition. */
static void use_of_the_cache(void)
{
    enum { SEGMENTS = 20, PARTITION = 5 };
    fixture_open(&f);
    fixture_partition(&f, PARTITION);
    const struct mpb_partition *of = &f.core.partitions[PARTITION];
    const struct mpb_partition_copy copy = {.active_base = 1 << 30, .segment_id = 1};
    int fds[SEGMENTS];
    for (int i = 0; i < SEGMENTS; i++)
        CHECK_EQ(mpb_segment_create(&f.log, of, 100 * i), 0);
    for (int round = 0; round < 2; round++) {
        let_fail(MPB_IO_OPEN, 0, 0, INT_MAX); /* none fails: they are counted */
        for (int i = 0; i < SEGMENTS; i++) {
            int fd = mpb_segment_fd(&f.log, of, &copy, 100 * i, MPB_FILE_LOG);
            CHECK(fd >= 0 && (round == 0 || fd == fds[i]));
            fds[i] = fd;
        }
        CHECK_EQ(failing_calls.failed, round == 0 ? SEGMENTS : 0);
    }
    mpb_io_fault = NULL;
    fixture_close(&f);
}

int main(void)
{
    marks();
    free_behind_a_refusal();
    held_and_waited_for();
    found_busy_before();
    a_lost_lock();
    what_a_slot_left();
    names();
    snapshots();
    a_flush_of_a_busy_partition();
    two_flushes();
    flushes_refused();
    a_flush_at_the_limit_of_descriptors();
    verified_in_anothers_row();
    verified_by_making_room();
    sizes_of_the_cache();
    use_of_the_cache();
    printf("lock_free_again: %lu checks\n", checks_made);
    return 0;
}
