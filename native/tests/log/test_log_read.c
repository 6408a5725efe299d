/* What readers find, by offset and by timestamp, held against a list of the batches: every offset, every timestamp,
 * from everywhere, with indexes and without; and what they are told when a call on a file fails. */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/roll.h"

enum { BATCHES = 18, A_SEGMENT = 5, PAYLOAD = 60, BYTES = MPB_BATCH_HEADER_BYTES + PAYLOAD, TIMES = 12 };
/* By batch; the largest of a segment stands first in it, in the middle, last, twice. */
static const int64_t TIMESTAMPS[BATCHES] = {7, 3, 3, 9, 2, 1, 8, 8, 2, 6, 5, 5, 4, 5, 4, 10, 3, 9};
static const int64_t RISING[BATCHES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
static const int64_t *timestamps = TIMESTAMPS;

struct known {
    int64_t first, last, time, base;
    uint64_t position;
};

static struct fixture f;
static struct known batch[BATCHES];
static struct mpb_partition *row;
static struct mpb_partition_copy *state;
static int64_t end_offset;

static void begin(int32_t index_interval_bytes)
{
    struct mpb_append_options options = FIX_OPTIONS;
    options.segment_bytes = A_SEGMENT * BYTES;
    options.index_interval_bytes = index_interval_bytes;
    fixture_open(&f);
    fixture_partition(&f, 0);
    row = &f.core.partitions[0];
    end_offset = 0;
    for (int i = 0; i < BATCHES; i++) {
        struct batch_spec spec = {.records = 1 + i % 3,
                                  .producer_id = -1,
                                  .timestamp = timestamps[i],
                                  .payload = PAYLOAD,
                                  .mark = (uint8_t)(i + 1)};
        CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).base_offset, end_offset);
        batch[i] = (struct known){.first = end_offset,
                                  .last = end_offset + i % 3,
                                  .time = timestamps[i],
                                  .base = batch[i - i % A_SEGMENT].first,
                                  .position = (uint64_t)(i % A_SEGMENT * BYTES)};
        if (i % A_SEGMENT == 0)
            batch[i].base = end_offset;
        end_offset += spec.records;
    }
    state = &row->copy[mpb_load_relaxed(&row->selector) & 1];
    CHECK_EQ(state->active_base, batch[BATCHES - 1].base);
    CHECK_EQ(state->leo, end_offset);
}

static void end(void) { fixture_close(&f); }

/* Of the segment that a batch is in. */
static void change_file(int of_batch, const char *suffix, off_t bytes)
{
    char path[64];
    mpb_segment_close_all(&f.log);
    snprintf(path, sizeof path, "t-0/%020lld.%s", (long long)batch[of_batch].base, suffix);
    int fd = openat(f.log.dir_fd[0], path, O_RDWR);
    CHECK(fd >= 0);
    CHECK_EQ(bytes < 0 ? unlinkat(f.log.dir_fd[0], path, 0) : ftruncate(fd, bytes), 0);
    close(fd);
}

/* ------------------------------------------------------------------ by offset */
static uint64_t end_of_segment(int64_t base)
{
    uint64_t found = 0;
    for (int i = 0; i < BATCHES; i++)
        if (batch[i].base == base)
            found = batch[i].position + BYTES;
    return found;
}

static void check_find(int64_t offset, int64_t limit, uint32_t max_bytes, bool min_one)
{
    struct mpb_read_plan plan;
    memset(&plan, 0xff, sizeof plan);
    int error = mpb_log_find(&f.log, 0, NULL, offset, limit, max_bytes, min_one, &plan);
    CHECK_EQ(error, offset < state->log_start || offset > end_offset ? MPB_ERR_OFFSET_OUT_OF_RANGE : 0);
    CHECK(plan.ordinal == 0 && plan.truncations == state->truncations && plan.leader_epoch == 3);
    CHECK(plan.log_start == state->log_start && plan.end_offset == end_offset);
    CHECK(plan.high_watermark == state->hw && plan.last_stable == state->lso);
    CHECK_EQ(plan.aborted_end, state->aborted_end);
    if (error != 0 || offset >= (limit < end_offset ? limit : end_offset)) {
        CHECK_EQ(plan.length, 0);
        return;
    }
    int i = 0;
    while (batch[i].last < offset)
        i++;
    uint64_t until = end_of_segment(batch[i].base);
    for (int j = BATCHES - 1; j >= i; j--)
        if (limit < end_offset && batch[j].last >= limit && batch[j].base == batch[i].base)
            until = batch[j].position;
    uint64_t allowed = max_bytes >= BYTES ? max_bytes : min_one ? BYTES : 0;
    uint64_t available = until - batch[i].position;
    CHECK_EQ(plan.base, batch[i].base);
    CHECK_EQ(plan.segment_id, mpb_segment_id(state, batch[i].base));
    CHECK_EQ(plan.position, batch[i].position);
    CHECK_EQ(plan.first_offset, batch[i].first);
    CHECK_EQ(plan.first_batch_bytes, BYTES);
    CHECK_EQ(plan.length, available < allowed ? available : allowed);
}

static void test_every_offset(int32_t index_interval_bytes)
{
    static const uint32_t MOST[] = {0, BYTES - 1, BYTES, BYTES + 1, 3 * BYTES, 1 << 20};
    begin(index_interval_bytes);
    for (int64_t offset = -1; offset <= end_offset + 1; offset++)
        for (int64_t limit = 0; limit <= end_offset + 1; limit++)
            for (int i = 0; i < 6; i++)
                check_find(offset, limit, MOST[i], (offset + limit) % 2 == 0);
    state->log_start = batch[7].first + 1; /* a DeleteRecords within a batch */
    state->aborted_end = 4;
    for (int64_t offset = batch[6].first; offset <= end_offset; offset++)
        check_find(offset, MPB_READ_TO_END, 1 << 20, true);
    end();
}

/* The limits that are in force when it is asked, and who may ask. */
static void test_limits_in_force(void)
{
    struct mpb_read_plan plan;
    const int64_t limits[] = {MPB_READ_TO_HIGH_WATERMARK, MPB_READ_TO_STABLE, MPB_READ_REPLICA_TO_HIGH_WATERMARK,
                              MPB_READ_REPLICA_TO_STABLE, MPB_READ_TO_END};
    begin(0);
    state->hw = batch[3].first;
    state->lso = batch[1].first;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 0, limits[i], 1 << 20, true, &plan), 0);
        CHECK_EQ(plan.length, i == 4 ? A_SEGMENT * BYTES : i % 2 == 0 ? 3 * BYTES : BYTES);
    }
    uint32_t led = state->role;
    state->role = MPB_ROLE_FOLLOWER;
    for (int i = 0; i < 5; i++) {
        bool may = i == 2 || i == 3;
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 0, limits[i], 1 << 20, true, &plan),
                 may ? 0 : MPB_ERR_NOT_LEADER_OR_FOLLOWER);
        CHECK_EQ(plan.end_offset, end_offset);
        CHECK_EQ(plan.length, !may ? 0 : i == 2 ? 3 * BYTES : BYTES);
    }
    state->role = MPB_ROLE_NONE;
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 0, limits[2], 1 << 20, true, &plan), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    state->role = (uint8_t)led;
    static const uint8_t ID[16] = {7}, WRONG[16] = {8};
    int64_t time;
    CHECK_EQ(mpb_log_find(&f.log, 0, ID, 0, limits[4], 1 << 20, true, &plan), 0);
    CHECK(mpb_log_find(&f.log, 0, WRONG, 0, limits[4], 1 << 20, true, &plan) != 0);
    CHECK_EQ(mpb_log_find_time(&f.log, 0, ID, 0, 0, &plan), 0);
    CHECK(mpb_log_find_time(&f.log, 0, WRONG, 0, 0, &plan) != 0);
    CHECK_EQ(mpb_log_largest_time(&f.log, 0, ID, &time), 0);
    CHECK(mpb_log_largest_time(&f.log, 0, WRONG, &time) != 0 && time == -1);
    memset(&plan, 0xff, sizeof plan);
    CHECK(mpb_log_find(&f.log, 5, NULL, 0, limits[4], 1 << 20, true, &plan) != 0); /* a row that nobody used */
    CHECK(plan.length == 0 && plan.end_offset == 0);
    end();
}

/* Where a segment ends before the next one's base, the next one answers; where the last one does, nobody. */
static void test_a_gap_between_segments(void)
{
    struct mpb_read_plan plan;
    begin(1 << 20);
    change_file(0, "log", (A_SEGMENT - 2) * BYTES);
    for (int64_t offset = batch[A_SEGMENT - 2].first; offset < batch[A_SEGMENT].first; offset++) {
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, offset, MPB_READ_TO_END, 1 << 20, true, &plan), 0);
        CHECK_EQ(plan.first_offset, batch[A_SEGMENT].first);
        CHECK_EQ(plan.length, A_SEGMENT * BYTES);
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, offset, batch[A_SEGMENT].first, 1 << 20, true, &plan), 0);
        CHECK_EQ(plan.length, 0); /* not below the limit */
    }
    change_file(A_SEGMENT, "log", 0);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, batch[A_SEGMENT - 1].last, MPB_READ_TO_END, 1 << 20, true, &plan), 0);
    CHECK_EQ(plan.first_offset, batch[2 * A_SEGMENT].first);
    change_file(0, "log", 3 * BYTES - 1); /* a batch that is cut off is none */
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, batch[2].first, MPB_READ_TO_END, 1 << 20, true, &plan), 0);
    CHECK_EQ(plan.first_offset, batch[2 * A_SEGMENT].first);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, batch[2].first, batch[A_SEGMENT].first, 1 << 20, true, &plan), 0);
    CHECK_EQ(plan.length, 0);            /* what is left of it neither */
    change_file(BATCHES - 1, "log", 10); /* but in the active segment everything has been committed */
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, end_offset - 1, MPB_READ_TO_END, 1 << 20, true, &plan),
             MPB_ERR_CORRUPT_MESSAGE);
    end();
}

static void test_bytes(void)
{
    static uint8_t bytes[A_SEGMENT * BYTES];
    struct mpb_read_plan plan;
    uint32_t length = 99;
    begin(0);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, batch[1].first, batch[3].first, 1 << 20, true, &plan), 0);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    CHECK_EQ(length, 2 * BYTES);
    CHECK(bytes[BYTES - 1] == 2 && bytes[BYTES + MPB_BATCH_HEADER_BYTES] == 3 && bytes[2 * BYTES] == 0);
    CHECK_EQ(mpb_load_relaxed(&row->bytes_read), 2 * BYTES);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    CHECK_EQ(mpb_load_relaxed(&row->bytes_read), 4 * BYTES);
    plan.truncations++;
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    CHECK(length == 0 && counted(&f, MPB_C_LOG_READS_OVERTAKEN) == 0); /* it was not even begun */
    plan.truncations--;
    change_file(0, "log", 3 * BYTES); /* just long enough */
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    change_file(0, "log", 3 * BYTES - 1);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(length, 0);
    CHECK_EQ(mpb_load_relaxed(&row->bytes_read), 6 * BYTES);
    CHECK(mpb_log_dir_online(&f.core, 0));                /* somebody else cut it: the disk is sound */
    for (off_t rest = BYTES - 1; rest <= BYTES; rest++) { /* not a byte is left of what was planned */
        mpb_store_relaxed(&f.core.processes[f.log.slot].log_errno, 0);
        change_file(0, "log", rest);
        CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), ERANGE);
    }
    end();
}

/* ------------------------------------------------------------------ by timestamp */
static void check_time(int64_t timestamp, int64_t from)
{
    struct mpb_read_plan plan;
    CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, timestamp, from, &plan), 0);
    from = from > state->log_start ? from : state->log_start;
    int i = 0;
    while (i < BATCHES && (batch[i].last < from || batch[i].time < timestamp))
        i++;
    CHECK_EQ(plan.end_offset, end_offset);
    CHECK_EQ(plan.length, i < BATCHES ? BYTES : 0);
    if (i == BATCHES)
        return;
    CHECK_EQ(plan.first_offset, batch[i].first);
    CHECK_EQ(plan.first_batch_bytes, BYTES);
    CHECK_EQ(plan.position, batch[i].position);
    CHECK_EQ(plan.base, batch[i].base);
    CHECK_EQ(plan.segment_id, mpb_segment_id(state, batch[i].base));
}

static void check_times(void)
{
    for (int64_t timestamp = -1; timestamp < TIMES; timestamp++)
        for (int64_t from = 0; from <= end_offset; from++)
            check_time(timestamp, from);
    int64_t before = state->log_start, largest;
    for (int64_t from = before; from < end_offset; from++) {
        int64_t want = -1;
        for (int i = 0; i < BATCHES; i++)
            if (batch[i].last >= from && batch[i].time > want)
                want = batch[i].time;
        state->log_start = from;
        CHECK_EQ(mpb_log_largest_time(&f.log, 0, NULL, &largest), 0);
        CHECK_EQ(largest, want);
    }
    state->log_start = before;
}

static void test_every_timestamp(int32_t index_interval_bytes)
{
    begin(index_interval_bytes);
    check_times();
    change_file(0, "timeindex", -1); /* whoever has none is looked through */
    change_file(A_SEGMENT, "timeindex", 0);
    change_file(2 * A_SEGMENT, "timeindex", MPB_TIME_INDEX_ENTRY_BYTES - 1);
    change_file(0, "index", -1);
    check_times();
    state->log_start = batch[6].first + 1;
    check_times();
    state->log_start = end_offset; /* nothing but what the active segment knows of itself */
    int64_t largest;
    CHECK_EQ(mpb_log_largest_time(&f.log, 0, NULL, &largest), 0);
    CHECK_EQ(largest, state->max_timestamp);
    end();
}

/* An old segment of which compaction left nothing: what is looked for is in the others. */
static void test_a_segment_without_batches(void)
{
    for (int with_index = 0; with_index < 2; with_index++) {
        begin(with_index ? 0 : 1 << 20);
        change_file(A_SEGMENT, "log", 0);
        for (int i = 0; i < 2; i++)
            change_file(A_SEGMENT, i == 0 ? "index" : "timeindex", 0);
        for (int i = A_SEGMENT; i < 2 * A_SEGMENT; i++)
            batch[i].time = INT64_MIN; /* as if it were not there */
        check_times();
        end();
    }
}

/* The largest timestamps are known without a look at batches: what is damaged is not even found. */
static void test_batches_that_need_no_look(void)
{
    int64_t largest;
    struct mpb_read_plan plan;
    begin(0);
    for (int i = 0; i < BATCHES; i += A_SEGMENT)
        change_file(i, "log", 10);
    CHECK_EQ(mpb_log_largest_time(&f.log, 0, NULL, &largest), 0);
    CHECK_EQ(largest, 10);
    CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, 11, 0, &plan), 0);
    CHECK_EQ(plan.length, 0);
    CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, 10, 0, &plan), MPB_ERR_CORRUPT_MESSAGE);
    state->log_start = 1; /* within the first one's batches */
    CHECK_EQ(mpb_log_largest_time(&f.log, 0, NULL, &largest), MPB_ERR_CORRUPT_MESSAGE);
    end();
}

/* Nor is a batch looked at up to the newest index entry whose time is too small: one that is damaged is not found there. */
static void test_times_begin_behind_an_entry(void)
{
    timestamps = RISING;
    begin(0);
    timestamps = TIMESTAMPS;
    const int first = A_SEGMENT;
    char path[64];
    snprintf(path, sizeof path, "t-0/%020lld.log", (long long)batch[first].base);
    int fd = openat(f.log.dir_fd[0], path, O_RDWR);
    CHECK(fd >= 0);
    for (int i = first; i + 2 < first + A_SEGMENT; i++) { /* the entry of the next batch is where the search begins */
        struct mpb_read_plan plan;
        CHECK_EQ(pwrite(fd, "\7", 1, (off_t)(batch[i].position + MPB_BATCH_MAGIC)), 1);
        for (int64_t from = 0; from <= batch[i + 2].first; from++) {
            CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, batch[i + 2].time, from, &plan), 0);
            CHECK_EQ(plan.first_offset, batch[i + 2].first);
        }
    }
    close(fd);
    end();
}

/* ------------------------------------------------------------------ a call fails */
static int calls_until, failing, failed;

static int fail_once(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    if (calls_until-- != 0)
        return 0;
    failed = 1;
    return failing;
}

enum { FIND, FIND_TIME, LARGEST, READ, KINDS };

static int ask(int kind)
{
    static uint8_t bytes[A_SEGMENT * BYTES];
    struct mpb_read_plan plan = {.truncations = state->truncations, .base = 0, .length = BYTES};
    int64_t largest;
    uint32_t length;
    if (kind == FIND)
        return mpb_log_find(&f.log, 0, NULL, 1, MPB_READ_TO_END, 1 << 20, true, &plan);
    if (kind == FIND_TIME)
        return mpb_log_find_time(&f.log, 0, NULL, 9, 1, &plan);
    return kind == LARGEST ? mpb_log_largest_time(&f.log, 0, NULL, &largest)
                           : mpb_log_read(&f.log, &plan, bytes, &length);
}

/* At each call: the code, whether the directory goes offline, and what is counted. */
static int ask_where_a_call_fails(int kind, int error, int64_t log_start)
{
    int calls = 0;
    begin(0);
    for (failed = 1; failed == 1; calls++) {
        uint64_t before = counted(&f, MPB_C_LOG_IO_ERRORS);
        mpb_segment_close_partition(&f.log, 0);
        f.core.header->offline_log_dirs = 0;
        state->log_start = log_start;
        failed = 0;
        failing = error;
        calls_until = calls;
        mpb_io_fault = fail_once;
        int got = ask(kind);
        mpb_io_fault = NULL;
        bool may_be_gone = error == ENOENT && failed == 1; /* an index: it is empty; a file below log start */
        if (!may_be_gone || (got != 0 && (got != MPB_ERR_OFFSET_OUT_OF_RANGE || log_start == 0)))
            CHECK_EQ(got, failed == 0 ? 0 : error == EBADMSG ? MPB_ERR_CORRUPT_MESSAGE : MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(mpb_log_dir_online(&f.core, 0), error != EIO || failed == 0);
        CHECK_EQ(counted(&f, MPB_C_LOG_IO_ERRORS) - before,
                 got == MPB_ERR_KAFKA_STORAGE_ERROR || got == MPB_ERR_CORRUPT_MESSAGE);
    }
    end();
    return calls;
}

static void test_calls_that_fail(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t log_start = 0; log_start <= 1; log_start++) { /* with a look at batches, and without */
            int calls = ask_where_a_call_fails(kind, EIO, log_start);
            CHECK(calls > (kind == READ ? 2 : 3));
            CHECK_EQ(ask_where_a_call_fails(kind, EBADMSG, log_start), calls);
            CHECK_EQ(ask_where_a_call_fails(kind, ENOMEM, log_start), calls);
            ask_where_a_call_fails(kind, ENOENT, log_start);
        }
}

/* A file that is gone: retention has overtaken the reader, or somebody else took it away. */
static void test_a_file_that_is_gone(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        begin(0);
        state->log_start = kind == LARGEST;
        CHECK_EQ(ask(kind), 0); /* knows which segments there are */
        change_file(0, "log", -1);
        CHECK_EQ(ask(kind), kind == LARGEST ? MPB_ERR_OFFSET_OUT_OF_RANGE : MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK(mpb_log_dir_online(&f.core, 0));
        end();
    }
    begin(0);
    CHECK_EQ(mpb_read_error(&f.log, row, 5, -ENOENT), MPB_ERR_KAFKA_STORAGE_ERROR);
    state->log_start = 5;
    CHECK_EQ(mpb_read_error(&f.log, row, 5, -ENOENT), MPB_ERR_KAFKA_STORAGE_ERROR);
    state->log_start = 6;
    CHECK_EQ(mpb_read_error(&f.log, row, 5, -ENOENT), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(mpb_read_error(&f.log, row, 5, -ENOMEM), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(mpb_read_error(&f.log, row, 5, -EBADMSG), MPB_ERR_CORRUPT_MESSAGE);
    CHECK_EQ(counted(&f, MPB_C_LOG_IO_ERRORS), 4);
    CHECK(!mpb_read_overtaken(&f.log, 0, state->truncations) && mpb_read_overtaken(&f.log, 0, state->truncations + 1));
    end();
}

/* What is truncated while somebody reads it. */
static int truncate_meanwhile(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    state->truncations += 2;
    return 0;
}

static void test_a_read_that_is_overtaken(void)
{
    static uint8_t bytes[BYTES];
    uint32_t length = 99;
    begin(0);
    for (uint64_t times = 1; times <= 2; times++) {
        struct mpb_read_plan plan = {.truncations = state->truncations, .base = 0, .length = BYTES};
        CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0); /* opens the file */
        plan.truncations = state->truncations;
        mpb_io_fault = truncate_meanwhile;
        CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
        mpb_io_fault = NULL;
        CHECK(length == 0 && counted(&f, MPB_C_LOG_READS_OVERTAKEN) == times);
        CHECK_EQ(mpb_load_relaxed(&row->bytes_read), times * BYTES);
    }
    end();
}

/* Retention goes on meanwhile. */
static int raise_log_start(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    state->log_start = batch[A_SEGMENT].first;
    return 0;
}

/* Who had found the batch is given it; who looked into the next segment, because its own was gone, is told that it is. */
static void test_a_find_that_retention_overtakes(void)
{
    struct mpb_read_plan plan;
    for (int gone = 0; gone < 2; gone++)
        for (int64_t offset = batch[1].first; offset <= batch[2].last; offset++) {
            int held = offset > batch[1].last ? 2 : 1;
            begin(0);
            if (gone)
                change_file(0, "log", -1);
            mpb_segment_close_all(&f.log);
            if (f.log.lists[0] != NULL)
                f.log.lists[0]->valid = false;
            mpb_io_fault = raise_log_start;
            int error = mpb_log_find(&f.log, 0, NULL, offset, MPB_READ_TO_END, 1 << 20, true, &plan);
            mpb_io_fault = NULL;
            CHECK_EQ(error, gone ? MPB_ERR_OFFSET_OUT_OF_RANGE : 0);
            CHECK(gone || plan.first_offset == batch[held].first);
            CHECK(!gone || plan.length == 0);
            end();
        }
}

int main(void)
{
    test_every_offset(0);
    test_every_offset(2 * BYTES);
    test_limits_in_force();
    test_a_gap_between_segments();
    test_bytes();
    test_every_timestamp(0);
    test_every_timestamp(1 << 20);
    test_a_segment_without_batches();
    test_batches_that_need_no_look();
    test_times_begin_behind_an_entry();
    test_calls_that_fail();
    test_a_file_that_is_gone();
    test_a_read_that_is_overtaken();
    test_a_find_that_retention_overtakes();
    printf("log reads: %lu checks\n", checks_made);
    return 0;
}
