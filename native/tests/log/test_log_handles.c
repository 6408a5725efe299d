/* Two processes at one log, each with its own descriptors and lists: what one has open, or is about to read, when the
 * other truncates, rolls or retains; and in which order files go (append rules 10 to 12). */
#include "tests/log/log_fixture.h"

#include <malloc.h>

#include "log/log_io.h"
#include "log/retain.h"
#include "log/roll.h"
#include "log/truncate.h"
#include "log/partition_life.h"

enum { BATCHES_OF_A_SEGMENT = 6 };

static struct fixture f;
static struct mpb_log other; /* of the other process */

static struct mpb_partition_copy state(void)
{
    struct mpb_partition_copy copy;
    CHECK_EQ(mpb_partition_snapshot(&f.log, 0, &copy), 0);
    return copy;
}

static int64_t append(struct mpb_log *log, uint8_t mark)
{
    struct mpb_append_options options = FIX_OPTIONS;
    struct batch_spec spec = {.records = 1, .producer_id = -1, .timestamp = 1000, .payload = 60, .mark = mark};
    options.segment_bytes = (int32_t)(BATCHES_OF_A_SEGMENT * (MPB_BATCH_HEADER_BYTES + spec.payload));
    struct mpb_append_result result = append_batch(log, &options, 0, MPB_NO_REQUEST, 0, &spec);
    CHECK_EQ(result.error, 0);
    return result.base_offset;
}

static void append_until(struct mpb_log *log, int64_t end, uint8_t mark)
{
    while (append(log, mark) + 1 < end)
        ;
}

/* The mark of the record at `offset`, as a reader gets it. */
static uint8_t mark_at(struct mpb_log *log, int64_t offset)
{
    struct mpb_read_plan plan;
    uint8_t bytes[4096];
    uint32_t length;
    CHECK_EQ(mpb_log_find(log, 0, NULL, offset, MPB_READ_TO_END, sizeof bytes, true, &plan), 0);
    CHECK_EQ(plan.first_offset, offset);
    CHECK_EQ(mpb_log_read(log, &plan, bytes, &length), 0);
    return bytes[MPB_BATCH_HEADER_BYTES];
}

static void begin(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_handle(&f, &other, MPB_SLOT_HANDLERS + 1);
}

static void end(void)
{
    mpb_log_close(&other);
    fixture_close(&f);
}

/* A file that is unlinked and made again under its name is another file: what is open of the first is used no more. */
static void test_a_segment_made_again(void)
{
    begin();
    append_until(&f.log, BATCHES_OF_A_SEGMENT + 2, 1);
    CHECK_EQ(state().active_base, BATCHES_OF_A_SEGMENT);
    append_until(&other, BATCHES_OF_A_SEGMENT + 3, 2); /* both have the second segment open */
    CHECK_EQ(mpb_truncate(&other, 0, 2), 0);           /* and it is gone */
    append_until(&other, BATCHES_OF_A_SEGMENT + 1, 3); /* and is there again */
    CHECK_EQ(state().active_base, BATCHES_OF_A_SEGMENT);
    CHECK_EQ(append(&f.log, 4), BATCHES_OF_A_SEGMENT + 1);
    struct mpb_log fresh; /* has nothing open */
    fixture_handle(&f, &fresh, MPB_SLOT_HANDLERS + 2);
    CHECK_EQ(mark_at(&fresh, BATCHES_OF_A_SEGMENT), 3);
    CHECK_EQ(mark_at(&fresh, BATCHES_OF_A_SEGMENT + 1), 4);
    mpb_log_close(&fresh);
    end();
}

static void take_back_and_append(void)
{
    CHECK_EQ(mpb_truncate(&other, 0, 1), 0);
    append_until(&other, 4, 9);
}

static int truncate_before_the_read(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_READ) {
        mpb_io_fault = NULL;
        take_back_and_append();
    }
    return 0;
}

/* Bytes that a truncation took back, and another append put there, are never given out under the first one's offsets. */
static void test_a_truncation_overtakes_a_reader(bool while_reading)
{
    struct mpb_read_plan plan;
    uint8_t bytes[4096];
    uint32_t length;
    begin();
    append_until(&f.log, 4, 1);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 2, MPB_READ_TO_END, sizeof bytes, true, &plan), 0);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    CHECK_EQ(bytes[MPB_BATCH_HEADER_BYTES], 1);
    if (while_reading)
        mpb_io_fault = truncate_before_the_read;
    else
        take_back_and_append();
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    CHECK_EQ(length, 0);
    CHECK(mpb_io_fault == NULL);
    CHECK_EQ(mark_at(&f.log, 2), 9);
    end();
}

/* A file above the active base is a roll that nobody committed: it is not read. One of ours is empty; what holds anything is
 * somebody's, and while it has the name that a roll needs, appends fail, and nothing else. */
static void test_a_roll_that_was_never_committed(void)
{
    begin();
    append_until(&f.log, BATCHES_OF_A_SEGMENT, 1);
    CHECK_EQ(mpb_segment_create(&other, &f.core.partitions[0], BATCHES_OF_A_SEGMENT), 0);
    int fd = openat(f.log.dir_fd[0], "t-0/00000000000000000006.log", O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "garbage", 7, 4000) == 7);
    close(fd);
    const struct mpb_segment_list *list;
    struct mpb_partition_copy now = state();
    CHECK_EQ(mpb_segment_list_get(&f.log, &f.core.partitions[0], &now, &list), 0);
    CHECK_EQ(list->count, 1);
    struct mpb_append_options options = FIX_OPTIONS;
    struct batch_spec spec = {.records = 1, .producer_id = -1, .timestamp = 1000, .payload = 60, .mark = 2};
    struct stat status;
    options.segment_bytes = (int32_t)now.position;
    for (int tries = 0; tries < 2; tries++) {
        CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK(mpb_log_dir_online(&f.core, 0) && mark_at(&f.log, 0) == 1);
        CHECK_EQ(fstatat(f.log.dir_fd[0], "t-0/00000000000000000006.log", &status, 0), 0);
        CHECK_EQ(status.st_size, 4007);
    }
    CHECK_EQ(unlinkat(f.log.dir_fd[0], "t-0/00000000000000000006.log", 0), 0);
    CHECK_EQ(append(&f.log, 2), BATCHES_OF_A_SEGMENT);
    CHECK_EQ(mark_at(&other, BATCHES_OF_A_SEGMENT), 2);
    CHECK_EQ(state().position, MPB_BATCH_HEADER_BYTES + 60);
    CHECK_EQ(fstatat(f.log.dir_fd[0], "t-0/00000000000000000006.log", &status, 0), 0);
    CHECK_EQ(status.st_size, state().position);
    end();
}

enum { SEGMENTS = 4 };
static long files_gone;
static bool oldest_first;

static bool is_there(int segment, const char *suffix)
{
    char path[64];
    snprintf(path, sizeof path, "t-0/%020d.%s", segment * BATCHES_OF_A_SEGMENT, suffix);
    return faccessat(f.log.dir_fd[0], path, F_OK, 0) == 0;
}

/* Before each step of a removal: no log is missing between those that are there, and no index is alone. Who finds the
 * files with nothing else left, after a machine's crash, then finds a log without a gap. */
static int look_at_what_is_left(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call != MPB_IO_UNLINK && call != MPB_IO_RENAME)
        return 0;
    for (int i = 0; i < SEGMENTS; i++) {
        int next = oldest_first ? i + 1 : i - 1; /* taken away later */
        CHECK(is_there(i, "log") || (!is_there(i, "index") && !is_there(i, "timeindex")));
        CHECK(!is_there(i, "log") || next < 0 || next == SEGMENTS || is_there(next, "log"));
    }
    files_gone++;
    return 0;
}

static void test_files_go_in_order(bool truncation)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = 0, .now_ms = 9000};
    uint32_t count;
    begin();
    append_until(&f.log, (SEGMENTS - 1) * BATCHES_OF_A_SEGMENT + 1, 1);
    CHECK_EQ(state().segment_count, SEGMENTS);
    files_gone = 0;
    oldest_first = !truncation;
    mpb_io_fault = look_at_what_is_left;
    CHECK_EQ(truncation ? mpb_truncate(&f.log, 0, 2) : mpb_retain(&f.log, 0, &rules, removed, &count), 0);
    mpb_io_fault = NULL;
    CHECK(files_gone >= 3 * (SEGMENTS - 1));
    end();
}

static int64_t start_at_first_rename;

static int note_log_start(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_RENAME && start_at_first_rename < 0)
        start_at_first_rename = state().log_start;
    return 0;
}

/* Log start has moved before the first file is taken away: nobody is sent to a file that is gone. */
static void test_log_start_moves_first(void)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = 0, .now_ms = 9000};
    uint32_t count;
    begin();
    append_until(&f.log, 3 * BATCHES_OF_A_SEGMENT, 1);
    start_at_first_rename = -1;
    mpb_io_fault = note_log_start;
    CHECK_EQ(mpb_retain(&other, 0, &rules, removed, &count), 0);
    mpb_io_fault = NULL;
    CHECK(count >= 2 && removed[0] == 0 && removed[1] == BATCHES_OF_A_SEGMENT);
    CHECK_EQ(start_at_first_rename, state().log_start);
    CHECK(state().log_start >= 2 * BATCHES_OF_A_SEGMENT);
    struct mpb_read_plan plan;
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 1, MPB_READ_TO_END, 100, true, &plan), MPB_ERR_OFFSET_OUT_OF_RANGE);
    end();
}

/* ------------------------------------------------------------------ something happens while an offset is looked for */
static int calls_until;
static bool by_retention;

/* Takes away the segment that is looked for: the one above it stays. */
static void take_away(void)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = -1, .now_ms = 9000};
    uint32_t count;
    CHECK_EQ(mpb_partition_set_log_start(&other, 0, BATCHES_OF_A_SEGMENT), 0);
    CHECK_EQ(mpb_retain(&other, 0, &rules, removed, &count), 0);
    CHECK_EQ(count, 1);
}

static int overtake(enum mpb_io_call call, size_t *limit)
{
    (void)call;
    (void)limit;
    if (calls_until-- > 0)
        return 0;
    mpb_io_fault = NULL;
    if (by_retention)
        take_away();
    else
        take_back_and_append();
    return 0;
}

/* At each call on files that a reader with nothing open makes. It finds what it looked for, or hears that this is over:
 * never the records of other offsets, and never that the directory is broken. */
static void test_a_find_is_overtaken(bool retention)
{
    int64_t offset = retention ? 2 : BATCHES_OF_A_SEGMENT + 1;
    bool again = true, told = false;
    for (int at = 0; again; at++) {
        struct mpb_read_plan plan;
        struct mpb_log fresh;
        uint8_t bytes[4096];
        uint32_t length;
        begin();
        append_until(&f.log, 3 * BATCHES_OF_A_SEGMENT, 1);
        fixture_handle(&f, &fresh, MPB_SLOT_HANDLERS + 2);
        calls_until = at;
        by_retention = retention;
        mpb_io_fault = overtake;
        int error = mpb_log_find(&fresh, 0, NULL, offset, MPB_READ_TO_END, 200, true, &plan);
        again = mpb_io_fault == NULL; /* it came so far */
        mpb_io_fault = NULL;
        if (error == 0 && again) {
            CHECK_EQ(plan.first_offset, offset);
            CHECK(retention || mpb_log_read(&fresh, &plan, bytes, &length) == MPB_ERR_NOT_LEADER_OR_FOLLOWER);
        } else if (error != 0) {
            CHECK_EQ(error, retention ? MPB_ERR_OFFSET_OUT_OF_RANGE : MPB_ERR_NOT_LEADER_OR_FOLLOWER);
            told = true;
        }
        mpb_log_close(&fresh);
        end();
    }
    CHECK(told);
}

/* Places of a process's cache whose files are gone, one way or another, are given back when it looks. */
static void test_stale_descriptors(void)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = MPB_BATCH_HEADER_BYTES, .now_ms = 9000};
    uint32_t count;
    begin();
    no_descriptor_lost(&f);
    append_until(&f.log, (SEGMENTS - 1) * BATCHES_OF_A_SEGMENT + 1, 1);
    for (int i = 0; i < SEGMENTS; i++)
        CHECK_EQ(mark_at(&other, i * BATCHES_OF_A_SEGMENT), 1);
    CHECK_EQ(mpb_segment_close_stale(&other), 0);
    CHECK_EQ(mpb_retain(&f.log, 0, &rules, removed, &count), 0);
    CHECK_EQ(mpb_segment_close_stale(&other), count);
    CHECK_EQ(mark_at(&other, (SEGMENTS - 1) * BATCHES_OF_A_SEGMENT), 1);
    CHECK_EQ(mpb_segment_close_stale(&other), 0);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, MPB_PART_DELETED, MPB_PART_EXISTS | MPB_PART_ONLINE), 0);
    CHECK_EQ(mpb_segment_close_stale(&other), 1); /* and the row is used no more */
    no_descriptor_lost(&f);
    end();
}

/* ------------------------------------------------------------------ what is given back, and what is not read */
/* The allocator keeps some of what it gets back, but not more every time. */
static void test_all_memory_is_given_back(void)
{
    size_t used = 0;
    begin();
    append_until(&f.log, (SEGMENTS - 1) * BATCHES_OF_A_SEGMENT + 1, 1);
    for (int life = 0; life < 60; life++) {
        struct mpb_log fresh;
        fixture_handle(&f, &fresh, MPB_SLOT_HANDLERS + 2);
        CHECK_EQ(mark_at(&fresh, 2), 1);
        mpb_log_close(&fresh);
        CHECK(fresh.lists == NULL && fresh.open_segments == NULL && fresh.dir_count == 0);
        mpb_log_close(&fresh); /* once more: nothing is left */
        if (life == 30)
            used = mallinfo2().uordblks;
    }
    CHECK_EQ(mallinfo2().uordblks, used);
    end();
}

static int reads;

static int count_reads(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    reads += call == MPB_IO_READ;
    return 0;
}

/* Reads of a truncation that takes the last batch of so many segments. */
static int reads_of_a_truncation(int segments)
{
    begin();
    append_until(&f.log, segments * BATCHES_OF_A_SEGMENT, 1);
    reads = 0;
    mpb_io_fault = count_reads;
    CHECK_EQ(mpb_truncate(&f.log, 0, segments * BATCHES_OF_A_SEGMENT - 1), 0);
    mpb_io_fault = NULL;
    end();
    return reads;
}

/* A log without transactions has none to find again: a truncation looks at its last segment alone. */
static void test_a_truncation_reads_the_end(void) { CHECK_EQ(reads_of_a_truncation(1), reads_of_a_truncation(9)); }

int main(void)
{
    test_all_memory_is_given_back();
    test_a_truncation_reads_the_end();
    test_a_find_is_overtaken(true);
    test_a_find_is_overtaken(false);
    test_a_segment_made_again();
    test_a_truncation_overtakes_a_reader(false);
    test_a_truncation_overtakes_a_reader(true);
    test_a_roll_that_was_never_committed();
    test_files_go_in_order(true);
    test_files_go_in_order(false);
    test_log_start_moves_first();
    test_stale_descriptors();
    printf("log handles: %lu checks\n", checks_made);
    return 0;
}
