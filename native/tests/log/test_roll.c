/* When a segment is full, at each bound, and what a roll writes: the last entry of the index of times, and the row of a new,
 * empty segment. */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/partition_row.h"
#include "log/roll.h"

static long calls, fail_at;

static int fail_one(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    return calls++ == fail_at ? ENOMEM : 0;
}

struct full {
    uint64_t position;
    uint32_t index_bytes, time_index_bytes, batch_bytes;
    int64_t leo;
    int32_t last_offset_delta;
    bool due;
};

/* A segment of 1000 bytes at most whose indexes have 80, and which begins at offset 100. */
static void test_when_it_is_full(void)
{
    static const struct full CASES[] = {
        {900, 0, 0, 100, 150, 0, false},
        {901, 0, 0, 100, 150, 0, true},
        {900, 0, 0, 101, 150, 0, true},
        {1, 0, 0, 1000, 150, 0, true},
        {0, 0, 0, 2000, 150, 0, false}, /* whatever an empty one is to take */
        {0, 80, 80, 2000, 1LL << 40, 0, false},
        {900, 72, 0, 100, 150, 0, false},
        {900, 73, 0, 100, 150, 0, true},
        {900, 80, 0, 100, 150, 0, true},
        {900, 0, 56, 100, 150, 0, false}, /* room for two entries: one is written at the roll */
        {900, 0, 57, 100, 150, 0, true},
        {900, 0, 68, 100, 150, 0, true},
        {900, 0, 0, 100, 100LL + INT32_MAX, 0, false},
        {900, 0, 0, 100, 101LL + INT32_MAX, 0, true},
        {900, 0, 0, 100, 90LL + INT32_MAX, 10, false},
        {900, 0, 0, 100, 90LL + INT32_MAX, 11, true},
    };
    struct mpb_append_options options = FIX_OPTIONS;
    options.segment_bytes = 1000;
    options.index_max_bytes = 80;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct mpb_partition_copy now = {.active_base = 100,
                                         .position = CASES[i].position,
                                         .index_bytes = CASES[i].index_bytes,
                                         .time_index_bytes = CASES[i].time_index_bytes,
                                         .leo = CASES[i].leo,
                                         .first_timestamp = -1};
        struct mpb_batch_info batch = {.batch_bytes = CASES[i].batch_bytes,
                                       .last_offset_delta = CASES[i].last_offset_delta};
        CHECK_EQ(mpb_roll_is_due(&now, &options, &batch, 50, 60), CASES[i].due);
    }
}

/* By the batches' clock if the first one had a time that was not in the future, else by the broker's. */
static void test_when_it_is_old(void)
{
    static const struct {
        int64_t first, created, largest, now;
        bool due; /* older than 100 ms */
    } CASES[] = {
        {500, 900, 600, 5000, false},  {500, 900, 601, 5000, true}, /* the batches' clock */
        {500, 900, 601, 600, false},   {500, 900, 700, 601, true},  /* a batch of the future counts as one of now */
        {0, 900, 100, 5000, false},    {0, 900, 101, 5000, true},
        {900, 900, 1000, 5000, false}, {900, 900, 1001, 5000, true},
        {901, 900, 1000, 5000, false}, {901, 900, 1001, 5000, true}, /* begun in the future: since it was made */
        {-1, 900, 50, 1000, false},    {-1, 900, 50, 1001, true},
        {-1, 900, 5000, 1000, false},  {500, 900, -1, 5000, false},
        {500, 900, -70, 5000, false},  {901, 900, -70, 5000, false},
        {0, 0, 101, 102, true},        {0, 0, 100, 101, false},
    };
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_batch_info batch = {.batch_bytes = 100};
    options.segment_ms = 100;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct mpb_partition_copy now = {
            .position = 100, .first_timestamp = CASES[i].first, .segment_created_ms = CASES[i].created};
        CHECK_EQ(mpb_roll_is_due(&now, &options, &batch, CASES[i].largest, CASES[i].now), CASES[i].due);
        now.position = 0;
        CHECK(!mpb_roll_is_due(&now, &options, &batch, CASES[i].largest, CASES[i].now));
    }
}

/* Times below zero count as -1. */
static void test_times_below_zero(void)
{
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_batch_info batch = {.batch_bytes = 100};
    struct mpb_partition_copy now = {.position = 100, .first_timestamp = 0, .segment_created_ms = 0};
    options.segment_ms = -2;
    CHECK(mpb_roll_is_due(&now, &options, &batch, -1, 50));
    CHECK(mpb_roll_is_due(&now, &options, &batch, -70, 50));
    options.segment_ms = -1;
    CHECK(!mpb_roll_is_due(&now, &options, &batch, -1, 50));
    CHECK(mpb_roll_is_due(&now, &options, &batch, 0, 50));
}

static int64_t length_of(const struct fixture *f, int64_t base, const char *suffix)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "t-0/%020lld.%s", (long long)base, suffix);
    return fstatat(f->log.dir_fd[0], path, &status, 0) == 0 ? status.st_size : -1;
}

static void put(struct fixture *f, int64_t timestamp)
{
    struct batch_spec spec = {.records = 3, .producer_id = -1, .timestamp = timestamp, .payload = 60, .mark = 5};
    struct mpb_append_options options = FIX_OPTIONS;
    options.index_interval_bytes = 100;
    CHECK_EQ(append_batch(&f->log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
}

static void check_rolled(struct fixture *f, const struct mpb_partition_copy *before)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(&f->core.partitions[0]);
    struct mpb_partition_copy want = *before;
    want.active_base = before->leo;
    want.segment_id = mpb_load_relaxed(&f->core.partitions[0].selector);
    want.position = 0;
    want.index_bytes = want.time_index_bytes = want.txn_index_bytes = want.bytes_since_index = 0;
    want.max_timestamp = want.max_timestamp_offset = want.first_timestamp = want.indexed_timestamp = -1;
    want.segment_created_ms = 8000;
    want.segment_count++;
    CHECK(memcmp(now, &want, sizeof want) == 0);
    CHECK_EQ(length_of(f, before->leo, "log"), 0);
    CHECK_EQ(length_of(f, before->leo, "index"), 0);
    CHECK_EQ(length_of(f, before->leo, "timeindex"), 0);
    CHECK_EQ(mpb_load_relaxed(&f->core.partitions[0].intent.word), 0);
}

/* An entry for each batch behind the first: its last offset, and where it begins. */
static void check_index(const struct fixture *f, int batches)
{
    uint8_t entry[MPB_INDEX_ENTRY_BYTES];
    int fd = openat(f->log.dir_fd[0], "t-0/00000000000000000000.index", O_RDONLY);
    for (int i = 1; i < batches; i++) {
        CHECK_EQ(pread(fd, entry, sizeof entry, (i - 1) * MPB_INDEX_ENTRY_BYTES), sizeof entry);
        CHECK_EQ(mpb_be32(entry), 3 * i + 2);
        CHECK_EQ(mpb_be32(entry + 4), i * (MPB_BATCH_HEADER_BYTES + 60));
    }
    close(fd);
}

/* `times` in order; the old segment's index of times has so many entries behind the roll. */
static void roll_behind(const int64_t *times, int batches, uint32_t entries)
{
    struct fixture f;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
    CHECK_EQ(mpb_partition_in_force(&f.core.partitions[0])->segment_count, 1); /* an empty one stays */
    CHECK_EQ(counted(&f, MPB_C_LOG_ROLLS), 0);
    for (int i = 0; i < batches; i++)
        put(&f, times[i]);
    const struct mpb_partition_copy before = *mpb_partition_in_force(&f.core.partitions[0]);
    CHECK_EQ(mpb_roll(&f.log, 0, 8000), 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_ROLLS), 1);
    check_rolled(&f, &before);
    CHECK_EQ(length_of(&f, 0, "timeindex"), entries * MPB_TIME_INDEX_ENTRY_BYTES);
    CHECK_EQ(length_of(&f, 0, "index"), (batches - 1) * MPB_INDEX_ENTRY_BYTES);
    check_index(&f, batches);
    if (entries > 0) {
        uint8_t entry[MPB_TIME_INDEX_ENTRY_BYTES];
        int fd = openat(f.log.dir_fd[0], "t-0/00000000000000000000.timeindex", O_RDONLY);
        CHECK_EQ(pread(fd, entry, sizeof entry, (entries - 1) * MPB_TIME_INDEX_ENTRY_BYTES), sizeof entry);
        close(fd);
        CHECK_EQ(mpb_be64(entry), before.max_timestamp);
        CHECK_EQ(mpb_be32(entry + 8), before.max_timestamp_offset);
    }
    no_descriptor_lost(&f);
    fixture_close(&f);
}

static void test_what_a_roll_writes(void)
{
    static const int64_t ONE[] = {50}, NONE[] = {-1, -1}, KNOWN[] = {50, 40}, NEW[] = {50, 60, 55},
                         LAST[] = {50, 60, 61};
    roll_behind(ONE, 1, 1);
    roll_behind(NONE, 2, 0);
    roll_behind(KNOWN, 2, 1);
    roll_behind(NEW, 3, 1);
    roll_behind(LAST, 3, 2);
}

/* A roll that failed has changed nothing; the next one does all. */
static void test_failed_calls(void)
{
    bool failed = true;
    for (fail_at = 0; failed; fail_at++) {
        struct fixture f;
        fixture_open(&f);
        fixture_partition(&f, 0);
        put(&f, 50);
        mpb_segment_close_all(&f.log);
        struct mpb_partition_copy before = *mpb_partition_in_force(&f.core.partitions[0]);
        calls = 0;
        mpb_io_fault = fail_one;
        int error = mpb_roll(&f.log, 0, 8000);
        mpb_io_fault = NULL;
        failed = calls > fail_at;
        CHECK_EQ(error, failed ? MPB_ERR_KAFKA_STORAGE_ERROR : 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), failed ? ENOMEM : 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].intent.word), 0);
        if (failed) {
            CHECK(memcmp(mpb_partition_in_force(&f.core.partitions[0]), &before, sizeof before) == 0);
            CHECK_EQ(mpb_roll(&f.log, 0, 8000), 0);
        }
        check_rolled(&f, &before);
        no_descriptor_lost(&f);
        fixture_close(&f);
    }
    CHECK(fail_at > 5);
}

int main(void)
{
    test_when_it_is_full();
    test_when_it_is_old();
    test_times_below_zero();
    test_what_a_roll_writes();
    test_failed_calls();
    printf("roll: %lu checks\n", checks_made);
    return 0;
}
