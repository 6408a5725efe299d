/* Which segments go, at each bound: by time, by size, by log start; what the row and its watchers are told; what a damaged
 * index is not believed. And log starts that are asked for and written down. */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/delete_records.h"
#include "log/log_io.h"
#include "log/retain.h"
#include "log/roll.h"
#include "shm/doorbell.h"
#include "shm/metadata.h"

enum { BATCHES = 14, A_SEGMENT = 4, PAYLOAD = 60, BYTES = MPB_BATCH_HEADER_BYTES + PAYLOAD, SEGMENTS = 4 };
enum { WRITTEN_S = 9, WRITTEN_MS = 9000 }; /* when every file was last written */
/* The largest of a segment: nothing behind 0, second, later than it was written, none at all in the active one. */
static const int64_t TIMESTAMPS[BATCHES] = {0, -1, -1, -1, 30, 200, 40, 50, 9500, 60, 70, 80, -1, -1};

static struct fixture f;
static struct mpb_partition *row;
static int64_t bases[SEGMENTS];
static int64_t removed[MPB_RETAIN_MAX_REMOVED];
static uint32_t count;
static int64_t active_time = -1; /* of the last batch but one */
static long calls, fail_at;

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row); }
static struct mpb_partition_copy *mutable_now(void) { return &row->copy[mpb_load_relaxed(&row->selector) & 1]; }

static int fail_one(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    return calls++ == fail_at ? ENOMEM : 0;
}

static bool is_there(int segment, const char *suffix)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "t-0/%020lld.%s", (long long)bases[segment], suffix);
    return fstatat(f.log.dir_fd[0], path, &status, 0) == 0;
}

static void set_written(int segment)
{
    char path[64];
    const struct timespec times[2] = {{.tv_sec = WRITTEN_S}, {.tv_sec = WRITTEN_S}};
    snprintf(path, sizeof path, "t-0/%020lld.log", (long long)bases[segment]);
    CHECK_EQ(utimensat(f.log.dir_fd[0], path, times, 0), 0);
}

static void begin(void)
{
    struct mpb_append_options options = FIX_OPTIONS;
    options.segment_bytes = A_SEGMENT * BYTES;
    options.index_interval_bytes = 0;
    fixture_open(&f);
    fixture_partition(&f, 0);
    row = &f.core.partitions[0];
    for (int i = 0; i < BATCHES; i++) {
        struct batch_spec spec = {.records = 2,
                                  .producer_id = -1,
                                  .timestamp = i == BATCHES - 2 ? active_time : TIMESTAMPS[i],
                                  .payload = PAYLOAD,
                                  .mark = (uint8_t)(i + 1)};
        int64_t base = append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).base_offset;
        if (i % A_SEGMENT == 0)
            bases[i / A_SEGMENT] = base;
    }
    for (int segment = 0; segment < SEGMENTS; segment++)
        set_written(segment);
    CHECK_EQ(now()->segment_count, SEGMENTS);
    mpb_watch_partition(&f.core, 0, 2);
}

static int retain(int64_t ms, int64_t bytes, int64_t now_ms)
{
    const struct mpb_retain_rules rules = {.retention_ms = ms, .retention_bytes = bytes, .now_ms = now_ms};
    return mpb_retain(&f.log, 0, &rules, removed, &count);
}

/* The first `gone` are; `emptied`: the active one as well, for which there is a new one. */
static void check_gone(uint32_t gone, bool emptied, int64_t start)
{
    uint32_t left = SEGMENTS - gone + emptied;
    CHECK_EQ(count, gone);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        CHECK(i >= gone || removed[i] == bases[i]);
        CHECK_EQ(is_there((int)i, "log"), i >= gone);
        CHECK_EQ(is_there((int)i, "log.deleted"), i < gone);
        CHECK_EQ(is_there((int)i, "timeindex"), i >= gone);
        CHECK_EQ(is_there((int)i, "timeindex.deleted"), i < gone);
    }
    CHECK_EQ(now()->segment_count, left);
    CHECK_EQ(now()->log_start, start);
    CHECK_EQ(now()->log_bytes, emptied ? 0 : (BATCHES - (int)gone * A_SEGMENT) * BYTES);
    CHECK_EQ(now()->leo, 2 * BATCHES);
    CHECK_EQ(mpb_load_relaxed(&row->watchers) == 0, gone > 0); /* told if an end moved */
    mpb_segment_close_all(&f.log);
}

static void test_by_time(void)
{
    static const struct {
        int64_t ms, now_ms;
        uint32_t gone;
        bool emptied;
    } CASES[] = {
        {1000, 1000, 0, false},
        {1000, 1001, 1, false},
        {1000, 1200, 1, false},
        {1000, 1201, 2, false},
        {1000, WRITTEN_MS + 1000, 2, false}, /* what lies in the future is not believed */
        {1000, WRITTEN_MS + 1001, 4, true},
        {0, WRITTEN_MS, 2, false},
        {0, 0, 0, false},
        {0, 1, 1, false},
        {-1, WRITTEN_MS + 99000, 0, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        CHECK_EQ(retain(CASES[i].ms, -1, CASES[i].now_ms), 0);
        check_gone(CASES[i].gone, CASES[i].emptied, CASES[i].emptied ? 2 * BATCHES : bases[CASES[i].gone]);
        no_descriptor_lost(&f);
        fixture_close(&f);
    }
}

/* The active segment is as old as its largest timestamp, or as its file if that is older, or if it has none. */
static void test_the_age_of_the_active_segment(void)
{
    static const struct {
        int64_t largest, now_ms;
        bool emptied;
    } CASES[] = {{0, 10001, true},     {1, 10001, true},      {9000, 10001, true},  {9001, 10001, false},
                 {-1, 10001, false},   {-1, 21000, false},    {-1, 21001, true},    {25000, 21000, false},
                 {25000, 21001, true}, {19999, 20999, false}, {19999, 21000, true}, {20000, 21000, false},
                 {20000, 21001, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        active_time = CASES[i].largest;
        begin();
        const struct timespec times[2] = {{.tv_sec = 20}, {.tv_sec = 20}};
        char path[64];
        snprintf(path, sizeof path, "t-0/%020lld.log", (long long)bases[SEGMENTS - 1]);
        CHECK_EQ(utimensat(f.log.dir_fd[0], path, times, 0), 0);
        CHECK_EQ(retain(1000, -1, CASES[i].now_ms), 0);
        check_gone(CASES[i].emptied ? 4 : 3, CASES[i].emptied, CASES[i].emptied ? 2 * BATCHES : bases[3]);
        fixture_close(&f);
    }
    active_time = -1;
}

static void empty_or_remove(int segment, bool empty)
{
    char path[64];
    struct mpb_read_plan plan;
    snprintf(path, sizeof path, "t-0/%020lld.log", (long long)bases[segment]);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, now()->log_start, MPB_READ_TO_END, 100, true, &plan),
             0); /* the list is known */
    mpb_segment_close_all(&f.log);
    if (!empty) {
        CHECK_EQ(unlinkat(f.log.dir_fd[0], path, 0), 0);
        return;
    }
    int fd = openat(f.log.dir_fd[0], path, O_RDWR);
    CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
    close(fd);
    set_written(segment);
}

/* An old segment without a record, as compaction may leave it, goes like any other. */
static void test_an_empty_segment(void)
{
    begin();
    empty_or_remove(1, true);
    mutable_now()->log_bytes -= A_SEGMENT * BYTES;
    CHECK_EQ(retain(1000, -1, WRITTEN_MS + 1001), 0);
    CHECK(count == SEGMENTS && now()->log_bytes == 0 && now()->segment_count == 1);
    fixture_close(&f);
}

/* Nor is one kept whose index of times is gone, or has no entry: it is as old as its file. */
static void test_no_index_of_times(void)
{
    for (int is_there_empty = 0; is_there_empty < 2; is_there_empty++)
        for (int late = 0; late < 2; late++) {
            char path[64];
            begin();
            mpb_segment_close_all(&f.log);
            snprintf(path, sizeof path, "t-0/%020lld.timeindex", (long long)bases[1]);
            CHECK_EQ(unlinkat(f.log.dir_fd[0], path, 0), 0);
            if (is_there_empty)
                close(openat(f.log.dir_fd[0], path, O_CREAT | O_RDWR, 0644));
            CHECK_EQ(retain(1000, -1, WRITTEN_MS + 1000 + late), 0);
            CHECK_EQ(count, late ? SEGMENTS : 1);
            CHECK_EQ(now()->segment_count, late ? 1 : SEGMENTS - 1);
            fixture_close(&f);
        }
}

/* A segment whose log is gone: below log start, and off the books, a run that died was there before. Else it is missed, by the
 * rule of size, too, which looks into no file. */
static void test_a_segment_that_is_gone(void)
{
    for (int way = 0; way < 4; way++) {
        bool off_the_books = way & 1, by_size = way & 2;
        begin();
        if (off_the_books) {
            mutable_now()->log_start = bases[1];
            mutable_now()->segment_count--;
            mutable_now()->log_bytes -= A_SEGMENT * BYTES;
        } else {
            mutable_now()->log_start = bases[1] - 1;
        }
        empty_or_remove(0, false);
        int error = by_size ? retain(-1, 6 * BYTES, 1300) : retain(1000, -1, 1300);
        CHECK_EQ(error, off_the_books ? 0 : MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(now()->log_bytes, off_the_books ? 6 * BYTES : BATCHES * BYTES);
        CHECK_EQ(now()->segment_count, off_the_books ? 2 : SEGMENTS);
        fixture_close(&f);
    }
}

static void test_by_size(void)
{
    static const struct {
        int64_t bytes;
        uint32_t gone;
        bool emptied;
    } CASES[] = {{14 * BYTES, 0, false}, {10 * BYTES + 1, 0, false}, {10 * BYTES, 1, false}, {6 * BYTES + 1, 1, false},
                 {6 * BYTES, 2, false},  {2 * BYTES, 3, false},      {1, 3, false},          {0, 4, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        CHECK_EQ(retain(-1, CASES[i].bytes, 50), 0);
        check_gone(CASES[i].gone, CASES[i].emptied, CASES[i].emptied ? 2 * BATCHES : bases[CASES[i].gone]);
        fixture_close(&f);
    }
}

/* By log start, whatever the limits; above the high watermark nothing, and the last stable offset comes along. */
static void test_by_log_start_and_high_watermark(void)
{
    static const struct {
        int64_t start, hw, lso;
        int64_t ms;
        uint32_t gone;
        int64_t end_start, end_lso;
    } CASES[] = {{7, 28, 28, -1, 0, 7, 28},   {8, 28, 28, -1, 1, 8, 28}, {15, 28, 28, -1, 1, 15, 28},
                 {16, 28, 28, -1, 2, 16, 28}, {0, 7, 7, 0, 0, 0, 7},     {0, 8, 8, 0, 1, 8, 8},
                 {0, 23, 3, 0, 2, 16, 16},    {0, 23, 20, 0, 2, 16, 20}, {0, 24, 3, 0, 3, 24, 24},
                 {24, 28, 25, -1, 3, 24, 25}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        mutable_now()->log_start = CASES[i].start;
        mutable_now()->hw = CASES[i].hw;
        mutable_now()->lso = CASES[i].lso;
        CHECK_EQ(retain(CASES[i].ms, -1, 99000), 0);
        check_gone(CASES[i].gone, false, CASES[i].end_start);
        CHECK_EQ(now()->lso, CASES[i].end_lso);
        CHECK_EQ(now()->hw, CASES[i].hw);
        fixture_close(&f);
    }
}

/* Puts an entry in the place of the last one of a segment's index of times. */
static void damage(int segment, int64_t timestamp, int32_t relative)
{
    char path[64];
    uint8_t entry[MPB_TIME_INDEX_ENTRY_BYTES];
    struct stat status;
    snprintf(path, sizeof path, "t-0/%020lld.timeindex", (long long)bases[segment]);
    int fd = openat(f.log.dir_fd[0], path, O_RDWR);
    CHECK(fd >= 0 && fstat(fd, &status) == 0 && status.st_size >= (off_t)sizeof entry);
    mpb_put_be64(entry, timestamp);
    mpb_put_be32(entry + 8, relative);
    CHECK_EQ(pwrite(fd, entry, sizeof entry, status.st_size - (off_t)sizeof entry), sizeof entry);
    close(fd);
    mpb_segment_close_all(&f.log);
}

/* An entry counts if its batch has that time; else the segment is as old as its file. */
static void test_damaged_times(void)
{
    static const struct {
        int64_t timestamp;
        int32_t relative;
        bool gone; /* the second segment, at an age between its times and its file's */
    } CASES[] = {{200, 3, true}, {200, 2, true}, {200, 1, false}, {200, 4, false}, {199, 3, false},
                 {30, 1, true},  {50, 7, true},  {50, 8, false},  {-1, 3, false},  {9001, 3, false}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        damage(1, CASES[i].timestamp, CASES[i].relative);
        CHECK_EQ(retain(1000, -1, 5000), 0);
        check_gone(CASES[i].gone ? 2 : 1, false, bases[CASES[i].gone ? 2 : 1]);
        fixture_close(&f);
    }
}

/* Whoever died behind the commit left segments below log start that are off the books: they go, and are counted once. */
static void test_behind_a_death(void)
{
    for (uint32_t dead = 1; dead < SEGMENTS; dead++) {
        begin();
        mutable_now()->log_start = bases[dead];
        mutable_now()->segment_count = SEGMENTS - dead;
        mutable_now()->log_bytes = (BATCHES - (int)dead * A_SEGMENT) * BYTES;
        if (dead == 2) { /* its log is renamed, and the rest of the first segment not */
            char from[64], to[80];
            snprintf(from, sizeof from, "t-0/%020lld.log", (long long)bases[0]);
            snprintf(to, sizeof to, "%s.deleted", from);
            CHECK_EQ(renameat(f.log.dir_fd[0], from, f.log.dir_fd[0], to), 0);
        }
        CHECK_EQ(retain(-1, -1, 99000), 0);
        CHECK_EQ(now()->segment_count, SEGMENTS - dead);
        CHECK_EQ(now()->log_bytes, (BATCHES - (int)dead * A_SEGMENT) * BYTES);
        CHECK_EQ(now()->log_start, bases[dead]);
        for (uint32_t i = 0; i < SEGMENTS; i++)
            CHECK_EQ(is_there((int)i, "log"), i >= dead);
        fixture_close(&f);
    }
}

/* A call that failed is told of, but where an index is held against its batch: that segment is as old as its file. The
 * next run takes the rest. */
static void test_failed_calls(void)
{
    bool failed = true;
    uint32_t told = 0;
    for (fail_at = 0; failed; fail_at++) {
        begin();
        mpb_segment_close_all(&f.log);
        calls = 0;
        mpb_io_fault = fail_one;
        int error = retain(1000, -1, WRITTEN_MS + 1001);
        mpb_io_fault = NULL;
        failed = calls > fail_at;
        CHECK(error == 0 || (failed && error == MPB_ERR_KAFKA_STORAGE_ERROR));
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), error != 0 ? ENOMEM : 0);
        told += error != 0;
        uint32_t before = count;
        CHECK_EQ(retain(1000, -1, WRITTEN_MS + 1001), 0);
        CHECK_EQ(before + count, SEGMENTS);
        CHECK(now()->log_start == 2 * BATCHES && now()->segment_count == 1 && now()->log_bytes == 0);
        no_descriptor_lost(&f);
        fixture_close(&f);
    }
    CHECK(told > 55 && fail_at < told + 25);
}

/* ------------------------------------------------------------------ DeleteRecords */
static void test_log_start_is_asked_for(void)
{
    static const struct {
        int64_t offset;
        int error;
        int64_t start, lso;
        bool moved;
    } CASES[] = {{-2, MPB_ERR_OFFSET_OUT_OF_RANGE, -1, 4, false},
                 {21, MPB_ERR_OFFSET_OUT_OF_RANGE, -1, 4, false},
                 {0, 0, 0, 4, false},
                 {3, 0, 3, 4, true},
                 {2, 0, 3, 4, false},
                 {5, 0, 5, 5, true},
                 {MPB_TO_HIGH_WATERMARK, 0, 20, 20, true},
                 {20, 0, 20, 20, false}};
    uint32_t out[4], next = 0;
    begin();
    mutable_now()->hw = 20;
    mutable_now()->lso = 4;
    int64_t asked = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int64_t start = -1;
        mpb_watch_partition(&f.core, 0, 2);
        CHECK_EQ(mpb_delete_records(&f.log, 0, NULL, CASES[i].offset, &start), CASES[i].error);
        CHECK_EQ(start, CASES[i].start);
        CHECK_EQ(mpb_load_relaxed(&row->watchers) == 0, CASES[i].moved);
        asked = start > asked ? start : asked;
        CHECK_EQ(mpb_load_relaxed(&row->start_asked), asked);
        CHECK(now()->log_start == asked && now()->lso == CASES[i].lso && now()->hw == 20);
        next = 0;
        CHECK_EQ(mpb_starts_asked(&f.log, &next, out, 4), asked > 0);
    }
    fixture_close(&f);
}

static void test_log_starts_are_written_down(void)
{
    uint32_t out[FIX_PARTITIONS], next = 0;
    int64_t start;
    static const uint8_t WRONG[16] = {8};
    fixture_open(&f);
    for (uint32_t p = 0; p < 6; p++)
        fixture_partition(&f, p);
    for (uint32_t p = 0; p < FIX_PARTITIONS; p++)
        mpb_store_relaxed(&f.core.partitions[p].start_asked, p % 2 == 0 ? 5 : 0);
    mpb_rows_raise(&f.core, 0, 6);
    CHECK_EQ(mpb_starts_asked(&f.log, &next, out, 2), 2);
    CHECK(out[0] == 0 && out[1] == 2 && next == 3);
    CHECK_EQ(mpb_starts_asked(&f.log, &next, out, 2), 1);
    CHECK(out[0] == 4 && next == 6);
    mpb_watch_partition(&f.core, 2, 2);
    CHECK_EQ(mpb_start_written(&f.log, 2, WRONG, 5), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    CHECK(mpb_load_relaxed(&f.core.partitions[2].watchers) != 0);
    static const int64_t WRITTEN[][2] = {{4, 4}, {3, 4}, {5, 5}};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(mpb_start_written(&f.log, 2, NULL, WRITTEN[i][0]), 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[2].start_written), WRITTEN[i][1]);
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[2].watchers), 0);
        next = 0;
        CHECK_EQ(mpb_starts_asked(&f.log, &next, out, 6), i < 2 ? 3 : 2);
    }
    CHECK_EQ(mpb_delete_records(&f.log, 3, WRONG, 0, &start), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    f.core.partitions[3].copy[mpb_load_relaxed(&f.core.partitions[3].selector) & 1].role = MPB_ROLE_FOLLOWER;
    CHECK_EQ(mpb_delete_records(&f.log, 3, NULL, 0, &start), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    fixture_close(&f);
}

int main(void)
{
    test_by_time();
    test_the_age_of_the_active_segment();
    test_an_empty_segment();
    test_no_index_of_times();
    test_a_segment_that_is_gone();
    test_by_size();
    test_by_log_start_and_high_watermark();
    test_damaged_times();
    test_behind_a_death();
    test_failed_calls();
    test_log_start_is_asked_for();
    test_log_starts_are_written_down();
    printf("retain: %lu checks\n", checks_made);
    return 0;
}
