/* A truncation at every batch: the row says what it said when the log had come to that batch for the first time, but for
 * what only grows; the files are as long as the row says, and what was appended once can be appended again. */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/retain.h"
#include "log/roll.h"
#include "log/truncate.h"

enum { BATCHES = 15, A_SEGMENT = 5, PAYLOAD = 60, BYTES = MPB_BATCH_HEADER_BYTES + PAYLOAD };
/* The largest of a segment stands in its middle, first, and last; some are had twice. */
static const int64_t TIMESTAMPS[BATCHES] = {4, 9, 9, 3, 5, 12, 6, 7, 12, 1, 2, 2, 3, 8, 11};

static struct fixture f;
static struct mpb_partition *row;
static struct mpb_append_options options;
static struct mpb_partition_copy was[BATCHES + 1]; /* before each batch, and at the end */
static bool timeless;                              /* no batch has a timestamp: no index of times has an entry */
static long calls, fail_at;

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row); }

static int64_t time_of(int i) { return timeless ? -1 : TIMESTAMPS[i]; }

static int fail_one(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    return calls++ == fail_at ? ENOMEM : 0;
}

static void put(int i)
{
    struct batch_spec spec = {
        .records = 1 + i % 3, .producer_id = -1, .timestamp = time_of(i), .payload = PAYLOAD, .mark = (uint8_t)(i + 1)};
    struct mpb_append_result result = append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec);
    CHECK_EQ(result.error, 0);
    CHECK_EQ(result.base_offset, was[i].leo);
}

/* `interval`: an index entry is written when more bytes came. */
static void begin(int32_t interval)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    row = &f.core.partitions[0];
    options = FIX_OPTIONS;
    options.segment_bytes = A_SEGMENT * BYTES;
    options.index_interval_bytes = interval;
    for (int i = 0; i < BATCHES; i++) {
        was[i] = *now();
        put(i);
    }
    was[BATCHES] = *now();
}

/* Where a segment ends the log was there twice: before its roll, and never behind it without a batch. A truncation leaves
 * the segment that began there, empty. */
static bool is_emptied(int at) { return at % A_SEGMENT == 0; }

static int64_t length_of(int64_t base, const char *suffix)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "t-0/%020lld.%s", (long long)base, suffix);
    return fstatat(f.log.dir_fd[0], path, &status, 0) == 0 ? status.st_size : -1;
}

/* Entries of a segment's time index, in file order, that speak of offsets below `end`; *last: timestamp of the last one. */
static uint32_t times_below(int64_t base, int64_t end, int64_t *last)
{
    char path[64];
    uint8_t entry[MPB_TIME_INDEX_ENTRY_BYTES];
    uint32_t count = 0;
    snprintf(path, sizeof path, "t-0/%020lld.timeindex", (long long)base);
    int fd = openat(f.log.dir_fd[0], path, O_RDONLY);
    CHECK(fd >= 0);
    *last = -1;
    while (read(fd, entry, sizeof entry) == (ssize_t)sizeof entry && base + mpb_be32(entry + 8) < end) {
        *last = mpb_be64(entry);
        count++;
    }
    close(fd);
    return count;
}

static void check_times(int at, const struct mpb_partition_copy *copy)
{
    int first = at - at % A_SEGMENT;
    int64_t largest = -1, offset = -1;
    for (int i = first; i < at; i++)
        if (time_of(i) > largest) {
            largest = time_of(i);
            offset = was[i].leo + i % 3;
        }
    CHECK_EQ(copy->max_timestamp, largest);
    CHECK_EQ(copy->max_timestamp_offset, offset);
    CHECK_EQ(copy->first_timestamp, is_emptied(at) ? -1 : time_of(first));
}

static void check_row(int at, uint32_t truncations)
{
    struct mpb_partition_copy copy = *now(), want = was[at];
    int64_t base = want.active_base;
    if (is_emptied(at) && at > 0) {
        base = was[at].leo;
        want.position = want.index_bytes = want.bytes_since_index = 0;
        want.segment_count++;
    }
    CHECK(copy.leo == want.leo && copy.hw == want.leo && copy.lso == want.leo && copy.log_start == 0);
    CHECK_EQ(copy.active_base, base);
    CHECK_EQ(copy.position, want.position);
    CHECK_EQ(copy.index_bytes, want.index_bytes);
    CHECK_EQ(copy.bytes_since_index, want.bytes_since_index);
    CHECK_EQ(copy.log_bytes, at * BYTES);
    CHECK_EQ(copy.segment_count, want.segment_count);
    CHECK_EQ(copy.truncations, truncations);
    CHECK(copy.txn_index_bytes == 0 && copy.aborted_end == 0 && copy.open_transactions == 0);
    CHECK(copy.bytes_in == BATCHES * BYTES && copy.leader_epoch == want.leader_epoch);
    CHECK_EQ(copy.segment_id, mpb_load_relaxed(&row->selector));
    check_times(at, &copy);
}

/* An entry of a later batch may name an earlier one's time: it stays. */
static void cut_at(int at)
{
    int64_t last, base = is_emptied(at) ? was[at].leo : was[at].active_base;
    uint32_t times = times_below(base, was[at].leo, &last);
    CHECK_EQ(mpb_truncate(&f.log, 0, was[at].leo), 0);
    CHECK_EQ(now()->time_index_bytes, times * MPB_TIME_INDEX_ENTRY_BYTES);
    CHECK_EQ(now()->indexed_timestamp, last);
}

static void check_files(void)
{
    struct mpb_partition_copy copy = *now();
    CHECK_EQ(length_of(copy.active_base, "log"), copy.position);
    CHECK_EQ(length_of(copy.active_base, "index"), copy.index_bytes);
    CHECK_EQ(length_of(copy.active_base, "timeindex"), copy.time_index_bytes);
    for (int i = 0; i <= BATCHES; i += A_SEGMENT) {
        CHECK_EQ(length_of(was[i].leo, "log") >= 0, was[i].leo <= copy.active_base);
        CHECK_EQ(length_of(was[i].leo, "timeindex") >= 0, was[i].leo <= copy.active_base);
    }
}

static void check_again(int at)
{
    for (int i = at; i < BATCHES; i++)
        put(i);
    CHECK(now()->leo == was[BATCHES].leo && now()->position == was[BATCHES].position);
    CHECK_EQ(now()->log_bytes, was[BATCHES].log_bytes);
    CHECK_EQ(now()->segment_count, was[BATCHES].segment_count);
    CHECK_EQ(now()->max_timestamp, was[BATCHES].max_timestamp);
    CHECK_EQ(now()->max_timestamp_offset, was[BATCHES].max_timestamp_offset);
}

static void test_at_every_batch(int32_t interval)
{
    for (int at = 0; at < BATCHES; at++) {
        begin(interval);
        uint64_t flushed = (uint64_t)was[7].leo;
        mpb_store_relaxed(&row->flushed_offset, flushed);
        cut_at(at);
        CHECK_EQ(mpb_load_relaxed(&row->flushed_offset), at < 7 ? (uint64_t)was[at].leo : flushed);
        CHECK_EQ(mpb_load_relaxed(&row->intent.word), 0);
        check_row(at, was[BATCHES].truncations + 2);
        check_files();
        check_again(at);
        no_descriptor_lost(&f);
        fixture_close(&f);
    }
}

/* A call that failed is told of, whichever it is; the next truncation does all. The active segment is empty. */
static void test_failed_calls(int at)
{
    bool failed = true;
    for (fail_at = 0; failed; fail_at++) {
        begin(0);
        CHECK_EQ(mpb_roll(&f.log, 0, 6000), 0);
        mpb_segment_close_all(&f.log);
        calls = 0;
        mpb_io_fault = fail_one;
        int error = mpb_truncate(&f.log, 0, was[at].leo);
        mpb_io_fault = NULL;
        failed = calls > fail_at;
        CHECK_EQ(error, failed ? MPB_ERR_KAFKA_STORAGE_ERROR : 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), failed ? ENOMEM : 0);
        CHECK(mpb_log_dir_online(&f.core, 0));
        CHECK_EQ(mpb_truncate(&f.log, 0, was[at].leo), 0);
        check_row(at, was[BATCHES].truncations + 2);
        check_files();
        no_descriptor_lost(&f);
        fixture_close(&f);
    }
    CHECK(fail_at > 12);
}

/* Nothing is cut at the end, beyond it, and below log start; what is above the new end comes down to it. */
static void test_where_nothing_is_cut(void)
{
    begin(0);
    struct mpb_partition_copy *copy = &row->copy[mpb_load_relaxed(&row->selector) & 1];
    copy->log_start = was[2].leo;
    copy->hw = was[9].leo;
    copy->lso = was[3].leo;
    copy->aborted_end = was[8].leo;
    const struct mpb_partition_copy before = *copy;
    CHECK_EQ(mpb_truncate(&f.log, 0, before.leo), 0);
    CHECK_EQ(mpb_truncate(&f.log, 0, before.leo + 1), 0);
    CHECK_EQ(mpb_truncate(&f.log, 0, before.log_start - 1), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK(memcmp(now(), &before, sizeof before) == 0);
    static const struct {
        int at, hw, lso, aborted_end;
    } CUT[] = {{12, 9, 3, 8}, {9, 9, 3, 8}, {8, 8, 3, 8}, {7, 7, 3, 7}, {3, 3, 3, 3}, {2, 2, 2, 2}};
    for (size_t i = 0; i < sizeof CUT / sizeof CUT[0]; i++) {
        CHECK_EQ(mpb_truncate(&f.log, 0, was[CUT[i].at].leo), 0);
        CHECK_EQ(now()->log_start, before.log_start);
        CHECK_EQ(now()->hw, was[CUT[i].hw].leo);
        CHECK_EQ(now()->lso, was[CUT[i].lso].leo);
        CHECK_EQ(now()->aborted_end, was[CUT[i].aborted_end].leo);
        CHECK_EQ(now()->truncations, before.truncations + 2 * (i + 1));
    }
    fixture_close(&f);
}

/* A follower in epoch 6; epochs 4 and 5 began at batches 4 and 8, and the oldest segment is gone. */
static void begin_follower(void)
{
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    row = &f.core.partitions[0];
    for (int i = 0; i < BATCHES; i++) {
        const struct mpb_new_role leader = fixture_role(MPB_ROLE_LEADER, i / 4 + 3, 1);
        was[i] = *now();
        if (i == 4 || i == 8)
            CHECK_EQ(mpb_become(&f.log, 0, &leader), 0);
        put(i);
    }
    was[BATCHES] = *now();
    const struct mpb_retain_rules all_below = {.retention_bytes = -1, .retention_ms = -1, .now_ms = 5000};
    int64_t removed[MPB_RETAIN_MAX_REMOVED];
    uint32_t count;
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, was[A_SEGMENT + 2].leo), 0);
    CHECK_EQ(mpb_retain(&f.log, 0, &all_below, removed, &count), 0);
    CHECK_EQ(count, 1);
    const struct mpb_new_role follower = fixture_role(MPB_ROLE_FOLLOWER, 6, 0);
    CHECK_EQ(mpb_become(&f.log, 0, &follower), 0);
}

/* What a follower cuts: below log start what its oldest segment still has; below that its log begins anew. */
static void test_of_a_follower(void)
{
    static const struct {
        int at, before, epoch, error; /* `before`: so much below the batch; batches that are left */
        int left, start, epochs;
    } CUT[] = {
        {12, 0, 5, MPB_ERR_FENCED_LEADER_EPOCH, 15, 7, 3},
        {12, 0, 7, MPB_ERR_FENCED_LEADER_EPOCH, 15, 7, 3},
        {0, 1, 6, MPB_ERR_OFFSET_OUT_OF_RANGE, 15, 7, 3},
        {15, -1, 6, 0, 15, 7, 3},
        {15, 0, 6, 0, 15, 7, 3},
        {9, 0, 6, 0, 9, 7, 3},
        {8, 0, 6, 0, 8, 7, 2},
        {7, 0, 6, 0, 7, 7, 2},
        {6, 0, 6, 0, 6, 6, 2},
        {5, 0, 6, 0, 5, 5, 2},
        {4, 0, 6, 0, 4, 4, 0},
        {0, 0, 6, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof CUT / sizeof CUT[0]; i++) {
        begin_follower();
        CHECK_EQ(mpb_truncate_follower(&f.log, 0, was[CUT[i].at].leo - CUT[i].before, CUT[i].epoch, 9000),
                 CUT[i].error);
        CHECK_EQ(now()->leo, was[CUT[i].left].leo);
        CHECK_EQ(now()->log_start, was[CUT[i].start].leo);
        CHECK_EQ(now()->epochs, CUT[i].epochs);
        CHECK_EQ(now()->segment_created_ms,
                 CUT[i].at < 5 && CUT[i].error == 0 ? 9000 : was[BATCHES].segment_created_ms);
        fixture_close(&f);
    }
}

/* The epoch in force began at the end, without a record: asked for the end, a follower forgets it; beyond, it keeps it. */
static void test_an_epoch_without_records(void)
{
    const struct mpb_new_role leader = fixture_role(MPB_ROLE_LEADER, 6, 1),
                              follower = fixture_role(MPB_ROLE_FOLLOWER, 7, 0);
    begin_follower();
    CHECK_EQ(mpb_stop(&f.log, 0), 0);
    CHECK_EQ(mpb_become(&f.log, 0, &leader), 0);
    CHECK_EQ(mpb_become(&f.log, 0, &follower), 0);
    CHECK_EQ(now()->epochs, 4);
    uint64_t selector = mpb_load_relaxed(&row->selector);
    CHECK_EQ(mpb_truncate_follower(&f.log, 0, now()->leo + 1, 7, 9000), 0);
    CHECK(now()->epochs == 4 && mpb_load_relaxed(&row->selector) == selector);
    CHECK_EQ(mpb_truncate_follower(&f.log, 0, now()->leo, 7, 9000), 0);
    CHECK(now()->epochs == 3 && mpb_load_relaxed(&row->selector) == selector + 1);
    fixture_close(&f);
}

int main(void)
{
    static const int32_t INTERVALS[] = {0, BYTES, 3 * BYTES, 1 << 20};
    for (size_t i = 0; i < sizeof INTERVALS / sizeof INTERVALS[0]; i++)
        for (int without = 0; without < 2; without++) {
            timeless = without;
            test_at_every_batch(INTERVALS[i]);
        }
    timeless = false;
    test_failed_calls(3);
    test_failed_calls(10);
    test_where_nothing_is_cut();
    test_of_a_follower();
    test_an_epoch_without_records();
    printf("truncate: %lu checks\n", checks_made);
    return 0;
}
