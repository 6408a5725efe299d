/* One cleaned segment in the place of several: what readers see before, between and behind the two commits, what is not
 * swapped, and what is taken off the books. */
#include "tests/log/append_scenarios.h"
#include "log/log_io.h"
#include "shm/inject.h"
#include "tests/stepping/stepper.h"

static struct fixture f;

static int64_t first_offset_from(int64_t offset)
{
    struct mpb_read_plan plan;
    uint8_t bytes[4096];
    uint32_t length;
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, offset, MPB_READ_TO_END, 200, true, &plan), 0);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    CHECK_EQ(mpb_be64(bytes), plan.first_offset);
    CHECK(mpb_batch_crc_ok(bytes, (size_t)mpb_be32(bytes + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES));
    return plan.first_offset;
}

static const struct mpb_partition_copy *state(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

static void check_swapped(void)
{
    CHECK_EQ(first_offset_from(0), 0);
    CHECK_EQ(first_offset_from(2), 30); /* what lies between was compacted away */
    CHECK_EQ(first_offset_from(31), 30);
    CHECK_EQ(first_offset_from(32), 32);
    CHECK_EQ(state()->truncations, 4);
    CHECK_EQ(state()->segment_count, 3);
    CHECK_EQ(state()->log_bytes, 2 * 121 + 14 * 121);
    CHECK_EQ(state()->log_start, 0);
    CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].intent.word), 0);
}

static void open_prepared(void)
{
    fixture_open(&f);
    prepare_swap(&f);
    CHECK_EQ(first_offset_from(2), 2); /* the old files are open in this process's cache */
}

static void test_readers_before_and_after(void)
{
    struct mpb_read_plan plan;
    uint8_t bytes[4096];
    uint32_t length;
    open_prepared();
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 2, MPB_READ_TO_END, 200, true, &plan), 0);
    CHECK_EQ(mpb_swap(&f.log, 0, NULL, 0, SWAP_END, 2), 0);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), MPB_ERR_NOT_LEADER_OR_FOLLOWER); /* plan again */
    check_swapped();
    fixture_close(&f);
}

static void swap_in_a_child(void *argument)
{
    (void)argument;
    f.log.slot = MPB_SLOT_HANDLERS + 1;
    mpb_swap(&f.log, 0, NULL, 0, SWAP_END, 2);
}

static void test_readers_after_a_death_in_the_middle(void)
{
    static const char *const POINTS[] = {"swap.committed", "swap.retired:1", "swap.renamed:1",
                                         "swap.renamed:2", "swap.renamed:3", "swap.finished"};
    for (size_t i = 0; i < sizeof POINTS / sizeof *POINTS; i++) {
        open_prepared();
        CHECK_EQ(mpb_inject_arm(&f.core, POINTS[i]), 0);
        CHECK(run_unstepped(swap_in_a_child, NULL));
        mpb_inject_clear(&f.core);
        CHECK_EQ(state()->truncations, i < 5 ? 3 : 4);
        CHECK_EQ(first_offset_from(2), 30); /* this reader repaired it, unless it was done */
        CHECK_EQ(mpb_repair_slot(&f.log, MPB_SLOT_HANDLERS + 1), i == 5);
        check_swapped();
        fixture_close(&f);
    }
}

static void refused(int64_t base, int64_t end, uint32_t truncations)
{
    CHECK_EQ(mpb_swap(&f.log, 0, NULL, base, end, truncations), MPB_SWAP_CHANGED);
    CHECK_EQ(first_offset_from(2), 2);
    CHECK_EQ(state()->truncations, 2);
    CHECK_EQ(state()->segment_count, 4);
}

static void test_what_is_not_swapped(void)
{
    open_prepared();
    refused(0, SWAP_END, 4); /* the log is another one by now */
    struct mpb_log other;    /* of a process that has not looked at this partition yet */
    fixture_handle(&f, &other, MPB_SLOT_HANDLERS + 1);
    CHECK_EQ(mpb_swap(&other, 0, NULL, 0, SWAP_END, 4), MPB_SWAP_CHANGED);
    mpb_log_close(&other);
    refused(2, SWAP_END, 2); /* no segment begins there */
    refused(0, SWAP_END + 2, 2);
    refused(16, SWAP_END, 2); /* there is nothing to swap in */
    refused(0, 60, 2);        /* beyond the active segment's base */
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, 16), 0);
    CHECK_EQ(mpb_swap(&f.log, 0, NULL, 0, SWAP_END, 2), MPB_SWAP_CHANGED); /* retention is at it */
    CHECK_EQ(mpb_swap(&f.log, 3, NULL, 0, SWAP_END, 2), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fixture_close(&f);
}

static void test_appends_go_on(void)
{
    struct mpb_append_options options = small_segments();
    struct batch_spec spec = numbered(1, 20, 99);
    open_prepared();
    CHECK_EQ(mpb_swap(&f.log, 0, NULL, 0, SWAP_END, 2), 0);
    CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).base_offset, 60);
    CHECK_EQ(first_offset_from(60), 60);
    CHECK_EQ(mpb_truncate(&f.log, 0, 31), 0); /* into the cleaned segment */
    CHECK_EQ(state()->truncations, 6);
    CHECK_EQ(state()->leo, 31);
    CHECK_EQ(state()->position, 121); /* the batch at 30 holds offset 31 */
    fixture_close(&f);
}

/* An empty log in the place of the last segment but one. */
static void put_empty(int64_t base)
{
    static const char *const SUFFIX[] = {"log", "index", "timeindex"};
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) {
        char path[64];
        snprintf(path, sizeof path, "t-0/%020lld.%s.compacted", (long long)base, SUFFIX[file]);
        int fd = openat(f.log.dir_fd[0], path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
        CHECK(fd >= 0);
        close(fd);
    }
}

/* Up to the active segment, of which nothing was left: that may be, unless log start is at it. */
static void test_nothing_is_left_before_the_active_segment(void)
{
    for (int64_t start = 47; start <= 49; start++) {
        fixture_open(&f);
        prepare_segments(&f);
        put_empty(SWAP_END);
        CHECK_EQ(state()->active_base, 48);
        CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, start), 0);
        CHECK_EQ(mpb_swap(&f.log, 0, NULL, SWAP_END, 48, 2), start < 48 ? 0 : MPB_SWAP_CHANGED);
        CHECK_EQ(state()->log_bytes, (start < 48 ? 22 : 30) * 121);
        CHECK_EQ(state()->segment_count, 4);
        CHECK_EQ(state()->truncations, start < 48 ? 4 : 2);
        CHECK_EQ(first_offset_from(start), start == 49 ? 48 : start < 48 ? 48 : start);
        fixture_close(&f);
    }
}

/* Old segments of which an earlier cleaning left nothing are counted like others. */
static void test_empty_ones_go_too(void)
{
    for (int64_t empty = 0; empty <= 16; empty += 16) {
        char path[64];
        open_prepared();
        mpb_segment_close_all(&f.log);
        snprintf(path, sizeof path, "t-0/%020lld.log", (long long)empty);
        int fd = openat(f.log.dir_fd[0], path, O_RDWR | O_TRUNC);
        CHECK(fd >= 0);
        close(fd);
        struct mpb_partition *row = &f.core.partitions[0];
        row->copy[mpb_load_relaxed(&row->selector) & 1].log_bytes -= 8 * 121;
        CHECK_EQ(mpb_swap(&f.log, 0, NULL, 0, SWAP_END, 2), 0);
        check_swapped();
        fixture_close(&f);
    }
}

static long calls, fail_at;

static int fail_one(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    return calls++ == fail_at ? ENOMEM : 0;
}

/* A call that failed is told of, whichever it was. Before the first commit nothing is changed, and the next attempt goes
 * all the way; behind it whoever comes next ends the swap. */
static void test_failed_calls(void)
{
    uint32_t before = 0, behind = 0;
    bool failed = true;
    for (fail_at = 0; failed; fail_at++) {
        open_prepared();
        mpb_segment_close_all(&f.log);
        f.log.lists[0]->valid = false;
        calls = 0;
        mpb_io_fault = fail_one;
        int error = mpb_swap(&f.log, 0, NULL, 0, SWAP_END, 2);
        mpb_io_fault = NULL;
        failed = calls > fail_at;
        CHECK_EQ(error, failed ? MPB_ERR_KAFKA_STORAGE_ERROR : 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), failed ? ENOMEM : 0);
        bool is_begun = state()->truncations != 2;
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].intent.word) != 0, failed && is_begun);
        before += failed && !is_begun;
        behind += failed && is_begun;
        if (!is_begun) {
            CHECK(first_offset_from(2) == 2 && state()->segment_count == 4 && state()->log_bytes == 30 * 121);
            CHECK_EQ(mpb_swap(&f.log, 0, NULL, 0, SWAP_END, 2), 0);
        }
        check_swapped();
        no_descriptor_lost(&f);
        fixture_close(&f);
    }
    CHECK(before >= 5 && behind >= 7);
}

int main(void)
{
    test_readers_before_and_after();
    test_what_is_not_swapped();
    test_appends_go_on();
    test_nothing_is_left_before_the_active_segment();
    test_empty_ones_go_too();
    test_failed_calls();
    if (KILLS_WORK)
        test_readers_after_a_death_in_the_middle();
    printf("swap: %lu checks\n", checks_made);
    return 0;
}
