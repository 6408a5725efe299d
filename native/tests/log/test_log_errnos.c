/* Every call of a flush, a read, a search by time, the making of a partition and a handle's opening fails once with every
 * errno. Those that pass condemn nothing and cost at most this one operation: the next works. What is broken condemns the
 * log directory, a full disk only where a sync failed (io_error.h). No descriptor is lost, no record either. */
#include "tests/log/append_scenarios.h"

#include <errno.h>
#include <sys/stat.h>

#include "log/io_error.h"
#include "log/log_flush.h"
#include "log/log_io.h"
#include "shm/metadata.h"
#include "tests/shm/counted_frees.h"
#include "tests/stepping/refused.h"

enum { RECORDS = 60, NEW_PARTITION = 5 };

static const int ERRNOS[] = {EMFILE, ENFILE, ENOMEM, EINTR, EAGAIN, ENOSPC, EDQUOT, ENOENT, EIO, EROFS};
static struct fixture f;
static long call_count, fail_at;
static int fail_with;
static uint32_t kinds_seen;
static int64_t read_from;

static int inject(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    kinds_seen |= 1u << call;
    if (call_count++ != fail_at)
        return 0;
    return fail_with;
}

static int flush(void)
{
    int64_t flushed;
    int error = mpb_log_flush(&f.log, 0, &flushed);
    CHECK(error != 0 || flushed == RECORDS);
    CHECK(error == 0 || flushed == 0); /* what was not synced is not said to be */
    return error;
}

/* Every batch from the first to the last, each under its own offset. */
static int read_all(void)
{
    for (int64_t offset = read_from; offset < RECORDS; offset += 2) {
        struct mpb_read_plan plan;
        uint8_t bytes[256];
        uint32_t length;
        int error = mpb_log_find(&f.log, 0, NULL, offset, MPB_READ_TO_END, MPB_BATCH_HEADER_BYTES + 60, true, &plan);
        if (error == 0)
            error = mpb_log_read(&f.log, &plan, bytes, &length);
        if (error != 0)
            return error;
        CHECK_EQ(plan.first_offset, offset);
        CHECK_EQ(bytes[MPB_BATCH_HEADER_BYTES], 1 + offset / 2);
    }
    return 0;
}

static int find_by_time(void)
{
    for (int64_t mark = 1; mark <= RECORDS / 2; mark += 5) {
        struct mpb_read_plan plan;
        int error = mpb_log_find_time(&f.log, 0, NULL, 1000 + mark, 0, &plan);
        if (error != 0)
            return error;
        CHECK_EQ(plan.first_offset, 2 * (mark - 1));
    }
    return 0;
}

/* The first segment's from its batches: the log begins within it. */
static int find_largest_time(void)
{
    int64_t largest;
    int error = mpb_log_largest_time(&f.log, 0, NULL, &largest);
    if (error == 0)
        CHECK_EQ(largest, 1000 + RECORDS / 2);
    return error;
}

static int create(void)
{
    struct mpb_partition_identity identity = {.topic_id = {9}, .partition = 0, .dir = "new-0"};
    unlinkat(f.log.dir_fd[0], "new-0/00000000000000000000.log", 0); /* a log with records is not made anew */
    int error = mpb_partition_create(&f.log, NEW_PARTITION, &identity, 3, 1000);
    struct batch_spec spec = numbered(-1, 0, 1);
    mpb_io_fault = NULL;
    if (error == 0)
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, NEW_PARTITION, MPB_NO_REQUEST, 0, &spec).error, 0);
    else
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[NEW_PARTITION].flags), 0);
    return error;
}

/* A new process's handle: opened, or not at all. */
static int open_handle(void)
{
    struct mpb_log other;
    const char *dirs[] = {f.dir};
    uint32_t bad;
    int error = mpb_log_open(&other, &f.core, MPB_SLOT_HANDLERS + 1, dirs, 1, 64, &bad);
    if (error == 0)
        mpb_log_close(&other);
    return error;
}

/* Returns false when there is no such call. */
static bool fail_one(int (*operation)(void), long which, int error)
{
    struct log_world *before = (struct log_world *)shared_bytes(sizeof *before);
    world_save(&f, before);
    mpb_segment_close_all(&f.log);
    call_count = 0;
    fail_at = which;
    fail_with = error;
    mpb_io_fault = inject;
    int answer = operation();
    mpb_io_fault = NULL;
    bool failed = call_count > which, online = mpb_log_dir_online(&f.core, 0);
    bool reads = operation == read_all || operation == find_by_time || operation == find_largest_time;
    bool condemns = mpb_io_error_condemns(-error, operation == flush) && !(error == ENOENT && reads);
    if (!failed || error == EINTR)
        CHECK_EQ(answer, 0);
    if (failed && operation == open_handle && error != EINTR)
        CHECK_EQ(answer, -error);
    if (failed && operation != open_handle && !online)
        CHECK(condemns && answer == MPB_ERR_KAFKA_STORAGE_ERROR);
    if (failed && operation != open_handle && answer != 0)
        CHECK_EQ(online, !condemns);
    if (failed && mpb_io_error_class(-error) == MPB_IO_BROKEN)
        CHECK(answer != 0);
    if (answer == MPB_ERR_KAFKA_STORAGE_ERROR) /* noted as it was, not as what came of going on */
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), error);
    mpb_store_release(&f.core.header->offline_log_dirs, 0); /* what a new start does */
    CHECK_EQ(operation(), 0);
    CHECK_EQ(read_all(), 0);
    no_descriptor_lost(&f);
    world_restore(&f, before);
    munmap(before, sizeof *before);
    return failed;
}

static long fail_all(int (*operation)(void), uint32_t kinds)
{
    long calls = 0;
    kinds_seen = 0;
    for (size_t n = 0; n < sizeof ERRNOS / sizeof *ERRNOS; n++)
        for (long which = 0; fail_one(operation, which, ERRNOS[n]); which++)
            calls++;
    CHECK_EQ(kinds_seen & kinds, kinds);
    return calls;
}

static void the_table(void)
{
    static const int PASSING[] = {EMFILE, ENFILE, ENOMEM, EINTR, EAGAIN};
    for (size_t n = 0; n < sizeof PASSING / sizeof *PASSING; n++) {
        CHECK(!mpb_io_error_condemns(-PASSING[n], true) && !mpb_io_error_condemns(-PASSING[n], false));
        CHECK_EQ(mpb_io_error_class(-PASSING[n]), MPB_IO_PASSING);
    }
    CHECK(!mpb_io_error_condemns(-ENOSPC, false) && mpb_io_error_condemns(-ENOSPC, true));
    CHECK(!mpb_io_error_condemns(-EDQUOT, false) && mpb_io_error_condemns(-EDQUOT, true));
    CHECK(mpb_io_error_condemns(-EIO, false) && mpb_io_error_condemns(-EROFS, false) &&
          !mpb_io_error_condemns(0, true));
    static const int OTHERS[] = {EEXIST, ENOTEMPTY, EISDIR, ENOTDIR, ELOOP}; /* something else has the name */
    for (size_t n = 0; n < sizeof OTHERS / sizeof *OTHERS; n++)
        CHECK(!mpb_io_error_condemns(-OTHERS[n], true) && mpb_io_error_class(-OTHERS[n]) == MPB_IO_CONTENT);
    CHECK(!mpb_io_error_condemns(-EBADMSG, true) && !mpb_io_error_wants_descriptors(ENFILE)); /* descriptor 23 */
}

/* What retention goes by; and a descriptor that is none is an error, not a call without an end. */
static void the_status(void)
{
    const struct timespec times[] = {{.tv_sec = 1}, {.tv_sec = 1700000000, .tv_nsec = 250999999}};
    struct mpb_io_status status;
    int fd = memfd_create("status", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 3) == 0 && futimens(fd, times) == 0);
    CHECK_EQ(mpb_io_status(fd, &status), 0);
    CHECK_EQ(status.bytes, 3);
    CHECK_EQ(status.modified_ms, 1700000000250);
    close(fd);
    CHECK_EQ(mpb_io_status(fd, &status), -EBADF);
}

/* Whole sets of descriptors, at least one; no more directories and slots than there are places for. */
static void handles_that_are_asked_for(void)
{
    static const uint32_t SETS[][2] = {{0, 1}, {1, 1}, {8, 1}, {9, 2}, {16, 2}, {17, 3}};
    const char *dirs[MPB_MAX_LOG_DIRS + 1];
    char nowhere[sizeof f.dir + 10];
    struct mpb_log other;
    uint32_t bad = 7;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        dirs[i] = f.dir;
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++) {
        CHECK_EQ(mpb_log_open(&other, &f.core, 0, dirs, 1, SETS[i][0], &bad), 0);
        CHECK_EQ(other.segment_sets, SETS[i][1]);
        mpb_log_close(&other);
    }
    CHECK_EQ(mpb_log_open(&other, &f.core, 0, dirs, MPB_MAX_LOG_DIRS, 8, &bad), 0);
    CHECK_EQ(other.dir_count, MPB_MAX_LOG_DIRS);
    mpb_log_close(&other);
    CHECK_EQ(mpb_log_open(&other, &f.core, 0, dirs, MPB_MAX_LOG_DIRS + 1, 8, &bad), -EINVAL);
    CHECK_EQ(mpb_log_open(&other, &f.core, MPB_MAX_SLOTS - 1, dirs, 1, 8, &bad), 0);
    mpb_log_close(&other);
    CHECK_EQ(mpb_log_open(&other, &f.core, MPB_MAX_SLOTS, dirs, 1, 8, &bad), -EINVAL);
    for (int good = 0; good < 2 && CAN_REFUSE; good++) { /* of the two tables that a handle needs */
        unsigned long before = frees;
        refuse(BY_CALLOC, good);
        int error = mpb_log_open(&other, &f.core, 0, dirs, 1, 8, &bad);
        refuse(NO_ALLOCATION, 0);
        CHECK_EQ(error, -ENOMEM);
        CHECK_EQ(frees, before + (unsigned long)good);
    }
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", f.dir);
    dirs[0] = dirs[2] = nowhere; /* the first holds the store; others may be lacking */
    CHECK_EQ(mpb_log_open(&other, &f.core, 0, dirs, 1, 8, &bad), -ENOENT);
    CHECK_EQ(bad, 0);
    dirs[0] = f.dir;
    CHECK_EQ(mpb_log_open(&other, &f.core, 0, dirs, 3, 8, &bad), 0);
    CHECK(other.dir_fd[0] >= 0 && other.dir_fd[1] >= 0 && other.dir_fd[2] == -1);
    CHECK(mpb_log_dir_online(&f.core, 1) && !mpb_log_dir_online(&f.core, 2));
    mpb_log_close(&other);
    mpb_store_release(&f.core.header->offline_log_dirs, 2); /* by somebody else: it is not even looked at */
    CHECK_EQ(mpb_log_open(&other, &f.core, 0, dirs, 2, 8, &bad), 0);
    CHECK(other.dir_fd[0] >= 0 && other.dir_fd[1] == -1);
    mpb_log_close(&other);
    mpb_store_release(&f.core.header->offline_log_dirs, 0);
}

int main(void)
{
    the_table();
    the_status();
    fixture_open(&f);
    handles_that_are_asked_for();
    prepare_segments(&f);
    mpb_rows_raise(&f.core, 1, FIX_PARTITIONS);
    long calls = fail_all(flush, 1u << MPB_IO_OPEN | 1u << MPB_IO_SYNC | 1u << MPB_IO_LIST);
    calls += fail_all(read_all, 1u << MPB_IO_OPEN | 1u << MPB_IO_READ | 1u << MPB_IO_LIST | 1u << MPB_IO_STATUS);
    calls += fail_all(find_by_time, 1u << MPB_IO_OPEN | 1u << MPB_IO_READ | 1u << MPB_IO_LIST);
    calls += fail_all(create, 1u << MPB_IO_OPEN | 1u << MPB_IO_MAKE_DIR);
    calls += fail_all(open_handle, 1u << MPB_IO_OPEN);
    read_from = 2;
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, read_from), 0);
    calls += fail_all(find_largest_time, 1u << MPB_IO_OPEN | 1u << MPB_IO_READ | 1u << MPB_IO_LIST);
    CHECK(calls > 500);
    fixture_close(&f);
    printf("log errnos: %ld calls that failed, %lu checks\n", calls, checks_made);
    return 0;
}
