/* A process whose standard input is closed gets descriptor 0 for some file of the log: one like any other. Every opening of
 * every operation gets it in turn, and all is as ever. */
#include "tests/log/append_scenarios.h"

#include "log/aborted.h"
#include "log/epoch_scan.h"
#include "log/log_flush.h"
#include "log/log_io.h"

static struct trial trial;
static long opened, zero_at;
static long given; /* how often a file had it */

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/* Takes it away again, so that nobody gets it. */
static void occupy_zero(void)
{
    if (is_open(0))
        return;
    CHECK_EQ(open("/dev/null", O_RDONLY), 0);
}

static int give_zero(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_OPEN && opened++ == zero_at) {
        close(0);
        given++;
    }
    return 0;
}

/* False behind the last opening. */
static bool with_zero_at(long number, void (*run)(void))
{
    mpb_segment_close_all(&trial.f.log);
    occupy_zero();
    opened = 0;
    zero_at = number;
    mpb_io_fault = give_zero;
    run();
    mpb_io_fault = NULL;
    mpb_segment_close_all(&trial.f.log);
    CHECK(!is_open(0) == (opened > number)); /* whoever had it has closed it */
    occupy_zero();
    return opened > number;
}

static void complete(void) { trial_complete(&trial); }

static void test_scenario(const struct scenario *scenario)
{
    trial_begin(&trial, scenario);
    for (long number = 0, more = true; more; number++) {
        trial_reset(&trial, &trial.before);
        trial.slot = MPB_SLOT_HANDLERS;
        trial.repair_first = false;
        more = with_zero_at(number, complete);
        world_compare(&trial.f, &trial.want);
    }
    trial_end(&trial);
}

/* ------------------------------------------------------------------ what only looks */
static void look(void)
{
    struct mpb_read_plan plan;
    struct mpb_aborted aborted[8];
    struct mpb_epoch_start epochs[4];
    uint8_t bytes[512];
    uint32_t length, count;
    int64_t flushed, time;
    const struct mpb_partition_copy *now = mpb_partition_in_force(&trial.f.core.partitions[0]);
    for (int64_t offset = 3; offset < now->leo; offset += 5) {
        CHECK_EQ(mpb_log_find(&trial.f.log, 0, NULL, offset, MPB_READ_TO_END, 200, true, &plan), 0);
        CHECK_EQ(mpb_log_read(&trial.f.log, &plan, bytes, &length), 0);
        CHECK(length > 0 && plan.first_offset <= offset && mpb_be64(bytes) == plan.first_offset);
    }
    mpb_segment_close_all(&trial.f.log);
    CHECK_EQ(mpb_log_find_time(&trial.f.log, 0, NULL, 1020, 5, &plan), 0);
    CHECK(plan.length > 0 && plan.first_offset == 38);
    mpb_segment_close_all(&trial.f.log);
    CHECK_EQ(mpb_log_largest_time(&trial.f.log, 0, NULL, &time), 0);
    CHECK_EQ(time, 1030);
    mpb_segment_close_all(&trial.f.log);
    CHECK_EQ(mpb_log_find(&trial.f.log, 0, NULL, 3, MPB_READ_TO_END, 5000, true, &plan), 0);
    CHECK_EQ(mpb_log_aborted(&trial.f.log, &plan, 3, aborted, 8, &count), 0);
    CHECK_EQ(mpb_epoch_scan(&trial.f.log, 0, 0, epochs, 4, &count), 0);
    CHECK(count == 1 && epochs[0].epoch == 3);
    mpb_segment_close_all(&trial.f.log);
    mpb_store_relaxed(&trial.f.core.partitions[0].flushed_offset, 0);
    CHECK_EQ(mpb_log_flush(&trial.f.log, 0, &flushed), 0);
    CHECK_EQ(flushed, now->leo);
}

/* Of the transactions of prepare_transactions, one aborted before. */
static void look_for_aborted(void)
{
    struct mpb_read_plan plan;
    struct mpb_aborted aborted[8];
    uint32_t count;
    CHECK_EQ(mpb_log_find(&trial.f.log, 0, NULL, 0, MPB_READ_TO_END, 5000, true, &plan), 0);
    mpb_segment_close_all(&trial.f.log);
    CHECK_EQ(mpb_log_aborted(&trial.f.log, &plan, 0, aborted, 8, &count), 0);
    CHECK(count == 1 && aborted[0].producer_id == 3);
}

static void test_a_look_for_aborted(void)
{
    memset(&trial, 0, sizeof trial);
    fixture_open(&trial.f);
    prepare_transactions(&trial.f);
    for (long number = 0, more = true; more; number++)
        more = with_zero_at(number, look_for_aborted);
    fixture_close(&trial.f);
}

static void test_looks(void)
{
    memset(&trial, 0, sizeof trial);
    fixture_open(&trial.f);
    prepare_segments(&trial.f);
    CHECK_EQ(mpb_partition_set_log_start(&trial.f.log, 0, 3), 0); /* within the oldest segment */
    for (long number = 0, more = true; more; number++) {
        if (trial.f.log.lists[0] != NULL)
            trial.f.log.lists[0]->valid = false;
        more = with_zero_at(number, look);
    }
    fixture_close(&trial.f);
}

static void test_opening(void)
{
    struct fixture f;
    struct mpb_log log;
    uint32_t bad;
    fixture_open(&f);
    const char *dirs[] = {f.dir, f.dir};
    for (int number = 0; number < 2; number++) {
        occupy_zero();
        opened = 0;
        zero_at = number;
        mpb_io_fault = give_zero;
        CHECK_EQ(mpb_log_open(&log, &f.core, MPB_SLOT_HANDLERS + 1, dirs, 2, 64, &bad), 0);
        mpb_io_fault = NULL;
        CHECK_EQ(log.dir_fd[number], 0);
        mpb_log_close(&log);
        CHECK(!is_open(0));
    }
    occupy_zero();
    fixture_close(&f);
}

int main(void)
{
    occupy_zero();
    for (int i = 0; i < SCENARIO_COUNT; i++)
        test_scenario(&SCENARIOS[i]);
    test_looks();
    test_a_look_for_aborted();
    test_opening();
    printf("descriptor zero: %ld files had it\n", given);
    return 0;
}
