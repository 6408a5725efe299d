/* Writes that stop in the middle because the process dies, at every fifth prefix of every write (LONG=1: at every one);
 * and calls that fail: a full disk for a while, a broken disk for good, from the k-th call on, and every call once with
 * every errno that passes. The operation is then tried again, as a client would, and everything must be as if nothing had
 * happened. Counts what it injected and fails at zero. */
#include "tests/log/append_scenarios.h"
#include <errno.h>
#include <limits.h>
#include "log/epoch_scan.h"
#include "log/io_error.h"
#include "log/log_io.h"
#include "tests/stepping/stepper.h"

static struct trial trial;

/* A follower with transactions in each of four segments, one of them open all the way: what is left of them is read again
 * from the beginning. */
static void prepare_transactions_in_segments(struct fixture *f)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0);
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_append_result result;
    fixture_replicate(f);
    fixture_partition(f, 0);
    for (int64_t producer = 4; producer > 0; producer--)
        CHECK_EQ(mpb_txn_verify(&f->log, 0, NULL, producer, 0, MPB_NO_GUARD), 0);
    for (int i = 0; i < 12; i++) {
        struct batch_spec spec = in_transaction(i % 3 == 0 ? 4 : 1 + i / 3 % 3, i % 3 == 0 ? i / 3 * 2 : i % 3 * 2 - 2,
                                                (uint8_t)(20 + i));
        struct mpb_marker marker = {
            .producer_id = spec.producer_id, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
        spec.sequence = i == 10 ? 4 : i == 11 ? 6 : spec.sequence; /* the producer of the first segment once more */
        CHECK_EQ(append_batch(&f->log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        if (i == 2 || i == 5 || i == 8)
            mpb_append_marker(&f->log, &options, &marker, &result);
        if (i == 2 || i == 5 || i == 8)
            CHECK_EQ(result.error, 0);
        if (i % 3 == 2 && i < 11)
            CHECK_EQ(mpb_roll(&f->log, 0, 7000), 0);
        if (i == 8)
            CHECK_EQ(mpb_txn_verify(&f->log, 0, NULL, 1, 0, MPB_NO_GUARD), 0);
    }
    CHECK_EQ(mpb_partition_in_force(&f->core.partitions[0])->segment_count, 4);
    CHECK_EQ(mpb_partition_in_force(&f->core.partitions[0])->open_transactions, 2);
    CHECK_EQ(mpb_become(&f->log, 0, &role), 0);
}

/* The third segment loses its marker: producer 3's transaction is open again. */
static void run_truncate_segments(struct mpb_log *log) { truncate_to(log, 20); }

static void run_epoch_scan(struct mpb_log *log)
{
    struct mpb_epoch_start found[4];
    uint32_t count = 0;
    int error = mpb_partition_lock(log, 0);
    if (error == 0) {
        error = mpb_epoch_scan(log, 0, 9, found, 4, &count);
        mpb_partition_unlock(log, 0);
    }
    CHECK(error != 0 || (count == 1 && found[0].epoch == 3 && found[0].offset == 9));
    note(error);
}

/* Only here: what single steps would take too long for. */
static const struct scenario LONG_ONES[] = {
    {"truncation of transactions in segments", prepare_transactions_in_segments, run_truncate_segments, 0, true},
    {"scan of epochs", prepare_transactions_in_segments, run_epoch_scan, 0, true},
};

/* What the hook does: fails calls [first, last) with `error`, or tears write `first` after `limit` bytes. */
static struct {
    long call, first, last, injected;
    int error;
    size_t limit;
    bool tear;
    bool condemned;        /* a call failed that takes the log directory offline */
    enum mpb_io_call kind; /* of the last call that failed */
} fault;

static int inject(enum mpb_io_call call, size_t *limit)
{
    if (fault.tear && call != MPB_IO_WRITE)
        return 0;
    long number = fault.call++;
    if (number < fault.first || number >= fault.last || (fault.tear && fault.limit >= *limit))
        return 0;
    fault.injected++;
    fault.kind = call;
    fault.condemned |= mpb_io_error_condemns(-fault.error, call == MPB_IO_SYNC);
    if (!fault.tear)
        return fault.error;
    *limit = fault.limit;
    return 0;
}

static void torn_victim(void *argument)
{
    mpb_io_fault = inject;
    trial_process(argument);
}

/* True if the victim died in write `number` after `limit` bytes. */
static bool tear(long number, size_t limit)
{
    trial_reset(&trial, &trial.before);
    trial.slot = MPB_SLOT_HANDLERS;
    trial.repair_first = false;
    memset(&fault, 0, sizeof fault);
    fault.first = number;
    fault.last = number + 1;
    fault.limit = limit;
    fault.tear = true;
    bool died = run_unstepped(torn_victim, &trial);
    trial.slot = MPB_SLOT_HANDLERS + 1;
    trial.repair_first = limit % 2 == 0;
    trial_complete(&trial);
    world_compare(&trial.f, &trial.want);
    return died;
}

static size_t torn_every; /* bytes */

static long tear_all(void)
{
    long torn = 0;
    for (long number = 0; tear(number, 0); number++) {
        for (size_t limit = 1; tear(number, limit); limit += torn_every)
            torn++;
    }
    return torn;
}

/* What is written down of a failure is the failure itself, not what came of going on after it, and of which partition. */
static void noted_as_it_was(int error)
{
    const struct mpb_process *self = &trial.f.core.processes[trial.slot];
    uint32_t row = mpb_load_relaxed(&self->log_errno_row);
    CHECK_EQ(mpb_load_relaxed(&self->log_errno), error);
    CHECK(row == 1 || (row == 0 && trial.f.moves) || (row <= 5 && trial.scenario->cells > 1));
}

/* Append rule 4: whoever failed has undone what it did, before it let go of the lock. */
static void nothing_left_undone(void)
{
    mpb_io_fault = NULL;
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++)
        if (mpb_load_relaxed(&trial.f.core.partitions[i].flags) != 0)
            partition_is_whole(&trial.f, &trial.f.core.partitions[i]);
    mpb_io_fault = inject;
}

/* A single failure that the operation itself gets over: an interrupted call is made again, and whoever lacks descriptors
 * closes those of its cache. */
static bool survives(long count, int error)
{
    return count == 1 && (error == EINTR || (mpb_io_error_wants_descriptors(-error) &&
                                             (fault.kind == MPB_IO_OPEN || fault.kind == MPB_IO_LIST)));
}

/* Fails `count` calls from the k-th on, then tries again. Returns how many calls failed. */
static long fail(long first, long count, int error)
{
    trial_reset(&trial, &trial.before);
    trial.slot = MPB_SLOT_HANDLERS;
    trial.repair_first = false;
    memset(&fault, 0, sizeof fault);
    fault.first = first;
    fault.last = first + count;
    fault.error = error;
    mpb_io_fault = inject;
    trial_process(&trial);
    if (fault.injected > 0 && !(survives(count, error) && scenario_error == 0)) {
        bool old_dir_failed = trial.f.moves && trial.f.core.partitions[0].log_dir == 1 && error == EIO;
        CHECK(scenario_error == MPB_ERR_KAFKA_STORAGE_ERROR || (old_dir_failed && scenario_error == 0));
        CHECK(error != EINTR);
    }
    if (scenario_error == MPB_ERR_KAFKA_STORAGE_ERROR)
        noted_as_it_was(error);
    if (trial.scenario->cells > 0 && count == 1 && fault.injected == 1)
        nothing_left_undone();
    for (int again = 0; again < 3 && fault.call < fault.last; again++)
        trial_process(&trial); /* answered from the cells, or failing in the repair */
    mpb_io_fault = NULL;
    if (trial.f.moves && !mpb_log_dir_online(&trial.f.core, 0) && trial.f.core.partitions[0].log_dir == 1) {
        world_is_whole(&trial.f); /* moved; what was left behind is for a start to find */
        return fault.injected;
    }
    if (fault.injected > 0) {
        CHECK_EQ(mpb_load_relaxed(&trial.f.core.header->offline_log_dirs) != 0, fault.condemned);
        if (fault.condemned) /* what a new start does */
            mpb_store_release(&trial.f.core.header->offline_log_dirs, 0);
        for (uint32_t cell = 0; cell < trial.scenario->cells; cell++) { /* a new request for what was refused */
            struct mpb_cell *c = mpb_cell_find(&trial.f.core, SCENARIO_ENTRY, cell,
                                               mpb_entry_fill_number(&trial.f.core, SCENARIO_ENTRY));
            if (c->error != 0)
                mpb_store_release(&c->tag, 0);
        }
        if (first % 2 == 0)
            trial.slot++;
    }
    trial_complete(&trial);
    world_compare(&trial.f, &trial.want);
    no_descriptor_lost(&trial.f);
    return fault.injected;
}

static long fail_all(int error)
{
    long injected = 0;
    for (long count = 1; count <= (error == EIO || SAMPLE > 1 ? 1 : 4); count++)
        for (long first = 0;; first++) {
            long n = fail(first, error == EIO ? LONG_MAX / 2 : count, error);
            if (n == 0)
                break;
            injected += n;
        }
    return injected;
}

/* Every call once. */
static long fail_each(int error)
{
    long injected = 0;
    for (long first = 0;; first++) {
        long n = fail(first, 1, error);
        if (n == 0)
            return injected;
        injected += n;
    }
}

int main(void)
{
    static const int PASSING[] = {EMFILE, ENFILE, ENOMEM, EINTR, EAGAIN, EDQUOT};
    long torn = 0, full = 0, broken = 0, passing = 0;
    if (!KILLS_WORK) {
        puts("append faults: NOT RUN under the thread sanitizer");
        return 0;
    }
    torn_every = getenv("LONG") != NULL ? 1 : SAMPLE > 1 ? SAMPLE : 5;
    const int number = SCENARIO_COUNT + (int)(sizeof LONG_ONES / sizeof *LONG_ONES);
    for (int i = 0; i < number; i++) {
        trial_begin(&trial, i < SCENARIO_COUNT ? &SCENARIOS[i] : &LONG_ONES[i - SCENARIO_COUNT]);
        torn += tear_all();
        full += fail_all(ENOSPC);
        broken += fail_all(EIO);
        for (size_t n = 0; n < sizeof PASSING / sizeof *PASSING; n++)
            passing += fail_each(PASSING[n]);
        trial_end(&trial);
    }
    CHECK(torn > 4000 / (long)torn_every && full > 50 && broken > 100 && passing > 300);
    printf("append faults: %ld torn writes, %ld calls with ENOSPC, %ld with EIO, %ld that pass, %lu checks\n", torn,
           full, broken, passing, checks_made);
    return 0;
}
