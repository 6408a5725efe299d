/* Two processes on one partition, one of them stopped after each of its instructions while the other one works, then going
 * on late: a repair or a live append or roll, beside a live handler, the log keeper or another repair. The second one
 * waits for nobody: it does its work or is told that the partition is busy, and other partitions do not notice. When
 * the first has gone on, both have happened, once.
 *
 * LONG=1: after every instruction, else a sample. A second death in the middle of a repair is in test_append_steps. */
#include "tests/log/append_scenarios.h"
#include "tests/stepping/stepper.h"
#include "tests/stepping/stepping.h"
#include "log/log_flush.h"
#include "shm/inject.h"

enum { DEAD_ENTRY = 1, LIVE_ENTRY = 2, OTHER_ENTRY = 3, ASIDE_ENTRY = 4, RECORDS = 2, BEFORE = 6 };

static struct fixture f;
static struct mpb_log first_log, second_log;
static struct frozen frozen;
static int first_error, second_error;

static struct batch_spec marked(uint8_t mark)
{
    return (struct batch_spec){.records = RECORDS, .producer_id = -1, .timestamp = 5000, .payload = 60, .mark = mark};
}

static int append(struct mpb_log *log, uint32_t ordinal, uint32_t entry)
{
    struct batch_spec spec = marked((uint8_t)(100 + entry));
    return append_batch(log, &FIX_OPTIONS, ordinal, entry, 0, &spec).error;
}

static int repair(struct mpb_log *log)
{
    int error = mpb_partition_lock(log, 0);
    if (error == 0)
        mpb_partition_unlock(log, 0);
    return error;
}

static int retain(struct mpb_log *log)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = 1, .now_ms = 9000};
    uint32_t count;
    return mpb_retain(log, 0, &rules, removed, &count);
}

static int flush(struct mpb_log *log)
{
    int64_t flushed;
    return mpb_log_flush(log, 0, &flushed);
}

static int live_append(struct mpb_log *log) { return append(log, 0, LIVE_ENTRY); }
static int other_append(struct mpb_log *log) { return append(log, 0, OTHER_ENTRY); }
static int roll(struct mpb_log *log) { return mpb_roll(log, 0, 7000); }

struct stopped { /* who is stopped */
    const char *name;
    int (*run)(struct mpb_log *log);
    const char *died_at; /* where a handler died before, appending for DEAD_ENTRY; NULL: nobody died */
    bool committed;      /* what it appended is in the log */
};
static const struct stopped STOPPED[] = {
    {"a repair that undoes", repair, "append.log_written", false},
    {"a repair that finishes", repair, "append.committed", true},
    {"a live append", live_append, NULL, false},
    {"a live append that repairs", live_append, "append.committed", true},
    {"a roll", roll, NULL, false},
};

struct beside { /* who works beside it */
    const char *name;
    int (*run)(struct mpb_log *log);
};
static const struct beside BESIDE[] = {
    {"a handler", other_append}, {"retention", retain}, {"a flush", flush}, {"another repair", repair}};

static void die_in_append(void *unused)
{
    (void)unused;
    append(&f.log, 0, DEAD_ENTRY);
}

static void prepare(const struct stopped *stopped)
{
    fixture_open(&f);
    for (uint32_t p = 0; p < 2; p++)
        fixture_partition(&f, p);
    for (uint32_t i = 0; i < BEFORE; i++) {
        struct batch_spec spec = marked((uint8_t)(i + 1));
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    }
    for (uint32_t entry = DEAD_ENTRY; entry <= ASIDE_ENTRY; entry++)
        fixture_fill(&f, entry, 1);
    fixture_handle(&f, &first_log, MPB_SLOT_HANDLERS + 1);
    fixture_handle(&f, &second_log, MPB_SLOT_HANDLERS + 2);
    if (stopped->died_at == NULL)
        return;
    mpb_inject_arm(&f.core, stopped->died_at);
    CHECK(run_unstepped(die_in_append, NULL));
    mpb_inject_clear(&f.core);
}

static void run_first(void *stopped) { first_error = ((const struct stopped *)stopped)->run(&first_log); }

/* The cell is filled once, and the batch stands where it says. */
static void is_appended(uint32_t entry)
{
    const struct mpb_cell *cell = &f.core.entries[entry].cell;
    struct mpb_read_plan plan;
    uint8_t bytes[512];
    uint32_t length;
    CHECK_EQ(mpb_load_relaxed(&cell->tag), f.core.entries[entry].fill_number);
    CHECK_EQ(cell->error, 0);
    if (cell->base_offset < mpb_partition_in_force(&f.core.partitions[0])->log_start)
        return; /* retention took it away */
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, cell->base_offset, MPB_READ_TO_END, 1, true, &plan), 0);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    CHECK_EQ(plan.first_offset, cell->base_offset);
    CHECK_EQ(bytes[MPB_BATCH_HEADER_BYTES], 100 + entry);
}

static void check_both(const struct stopped *stopped, const struct beside *beside)
{
    int64_t batches = BEFORE + stopped->committed;
    CHECK_EQ(first_error, 0);
    CHECK_EQ(second_error, 0);
    world_is_whole(&f);
    if (stopped->committed)
        is_appended(DEAD_ENTRY);
    if (stopped->run == live_append) {
        is_appended(LIVE_ENTRY);
        batches++;
    }
    if (beside->run == other_append) {
        is_appended(OTHER_ENTRY);
        batches++;
    }
    CHECK_EQ(mpb_partition_in_force(&f.core.partitions[0])->leo, batches * RECORDS);
    CHECK_EQ(mpb_partition_in_force(&f.core.partitions[1])->leo, RECORDS);
    CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].busy_since_ns), 0);
}

/* Returns whether the first one was stopped: false, it ended before. */
static bool stop_at(const struct stopped *stopped, const struct beside *beside, long at, long *busy)
{
    first_error = -1;
    freeze_at(&frozen, run_first, (void *)(uintptr_t)stopped, at);
    bool ended = frozen.ended;
    second_error = beside->run(&second_log);
    CHECK_EQ(append(&second_log, 1, ASIDE_ENTRY), 0); /* another partition: at once */
    thaw(&frozen);
    *busy += second_error == MPB_ERR_REQUEST_TIMED_OUT;
    if (second_error == MPB_ERR_REQUEST_TIMED_OUT)
        second_error = beside->run(&second_log);
    if (first_error == MPB_ERR_REQUEST_TIMED_OUT) /* it was stopped before it had the lock */
        first_error = stopped->run(&first_log);
    check_both(stopped, beside);
    return !ended;
}

static void pair(const struct stopped *stopped, const struct beside *beside, long stride, struct log_world *world)
{
    long stops = 0, busy = 0;
    prepare(stopped);
    world_save(&f, world);
    trail_forget(&frozen.trail);
    for (long at = 1; stop_at(stopped, beside, at, &busy); at += stride, stops++) {
        world_restore(&f, world);
        memset(f.core.doorbells, 0, sizeof *f.core.doorbells);
        mpb_segment_close_all(&first_log);
        mpb_segment_close_all(&second_log);
    }
    CHECK(stops > 5 && busy > 3);
    printf("  %-28s %-16s stopped at %4ld instructions, busy %4ld times\n", stopped->name, beside->name, stops, busy);
    mpb_log_close(&first_log);
    mpb_log_close(&second_log);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    static struct log_world world;
    (void)argc;
    if (!STEPPING) {
        puts("append pairs: NOT RUN here");
        return 0;
    }
    bind_now(argv);
    stepping_install();
    long stride = getenv("LONG") != NULL ? 1 : 53;
    for (size_t s = 0; s < sizeof STOPPED / sizeof *STOPPED; s++)
        for (size_t b = 0; b < sizeof BESIDE / sizeof *BESIDE; b++)
            pair(&STOPPED[s], &BESIDE[b], stride, &world);
    printf("append pairs: %lu checks\n", checks_made);
    return 0;
}
