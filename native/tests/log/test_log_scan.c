/* Start-up's scan of a segment, with every one of its calls failing in turn, and with its process dying inside every
 * write of an index: the log is never touched, an I/O error is never taken for a damaged file, and the next scan finds
 * what a first one would have found. Counts what it injected and fails at zero. */
#include "tests/log/log_fixture.h"

#include <errno.h>
#include "log/log_io.h"
#include "log/log_scan.h"
#include "tests/stepping/stepper.h"

enum { BATCHES = 300, PAYLOAD = 8000, INTERVAL = 60000, FILE_BYTES = 3 << 20 }; /* three windows of the scan */

struct contents {
    size_t length[MPB_SEGMENT_FILES];
    uint8_t bytes[MPB_SEGMENT_FILES][FILE_BYTES];
};

static const char *const PATHS[MPB_SEGMENT_FILES] = {
    "t-0/00000000000000000000.log",
    "t-0/00000000000000000000.index",
    "t-0/00000000000000000000.timeindex",
};

static struct fixture f;
static int fds[MPB_SEGMENT_FILES]; /* open all the time: some file systems sync a file that was emptied and closed */
static struct mpb_segment_scan want;
static struct contents intact, now, appended;

/* Fails calls from number `first` on with `error`, or tears write `first` after `limit` bytes. */
static struct {
    long call, first, injected;
    int error;
    size_t limit;
    bool tear;
    uint32_t kinds; /* bit = enum mpb_io_call */
} fault;

static int inject(enum mpb_io_call call, size_t *limit)
{
    if (fault.tear && call != MPB_IO_WRITE)
        return 0;
    long number = fault.call++;
    if (number < fault.first || (fault.tear && (number > fault.first || fault.limit >= *limit)))
        return 0;
    fault.injected++;
    fault.kinds |= 1u << call;
    if (fault.tear)
        *limit = fault.limit;
    return fault.tear ? 0 : fault.error;
}

static void read_contents(struct contents *out)
{
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) {
        ssize_t n = pread(fds[file], out->bytes[file], FILE_BYTES, 0);
        CHECK(n >= 0 && n < FILE_BYTES);
        out->length[file] = (size_t)n;
    }
}

static void same_file(enum mpb_segment_file file)
{
    CHECK_EQ(now.length[file], intact.length[file]);
    CHECK_EQ(memcmp(now.bytes[file], intact.bytes[file], now.length[file]), 0);
}

static int scan(struct mpb_segment_scan *out)
{
    memset(out, 0, sizeof *out);
    out->index_interval_bytes = INTERVAL;
    out->check_crc = true;
    return mpb_segment_scan(fds[MPB_FILE_LOG], fds[MPB_FILE_INDEX], fds[MPB_FILE_TIME_INDEX], out, NULL, NULL);
}

/* A second scan, with nothing in its way, finds what the first one in this log found. */
static void scan_again(void)
{
    struct mpb_segment_scan found;
    mpb_io_fault = NULL;
    CHECK_EQ(scan(&found), 0);
    CHECK_EQ(memcmp(&found, &want, sizeof found), 0);
    read_contents(&now);
    for (int file = 0; file < MPB_SEGMENT_FILES; file++)
        same_file((enum mpb_segment_file)file);
}

static long fail_every_call(int error)
{
    struct mpb_segment_scan found;
    long calls = 0;
    for (fault.injected = 1; fault.injected > 0; calls++) {
        uint32_t kinds = fault.kinds;
        memset(&fault, 0, sizeof fault);
        fault.kinds = kinds;
        fault.first = calls;
        fault.error = error;
        mpb_io_fault = inject;
        int status = scan(&found);
        CHECK_EQ(status, fault.injected > 0 ? -error : 0);
        read_contents(&now);
        same_file(MPB_FILE_LOG);
        scan_again();
    }
    CHECK_EQ(fault.kinds, 1u << MPB_IO_READ | 1u << MPB_IO_WRITE | 1u << MPB_IO_TRUNCATE | 1u << MPB_IO_STATUS);
    return calls - 1;
}

static void torn_victim(void *argument)
{
    (void)argument;
    struct mpb_segment_scan found;
    mpb_io_fault = inject;
    scan(&found);
}

static long tear_index_writes(void)
{
    long torn = 0;
    for (long number = 0;; number += 7)
        for (size_t limit = 0;; limit += 3) {
            memset(&fault, 0, sizeof fault);
            fault.first = number;
            fault.limit = limit;
            fault.tear = true;
            bool died = run_unstepped(torn_victim, NULL);
            if (!died && limit == 0)
                return torn; /* there is no such write */
            if (!died)
                break;
            torn++;
            scan_again();
        }
}

static void make_log(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    struct mpb_append_options options = FIX_OPTIONS;
    options.segment_bytes = FILE_BYTES;
    options.index_interval_bytes = INTERVAL;
    for (int i = 0; i < BATCHES; i++) {
        struct batch_spec spec = {
            .records = 2, .producer_id = -1, .timestamp = 1000 + i, .payload = PAYLOAD, .mark = (uint8_t)(i % 250)};
        CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    }
    for (int file = 0; file < MPB_SEGMENT_FILES; file++)
        CHECK((fds[file] = openat(f.log.dir_fd[0], PATHS[file], O_RDWR)) >= 0);
}

/* Takes the last bytes off, as a machine's crash may. */
static void cut_off(uint64_t bytes)
{
    CHECK_EQ(ftruncate(fds[MPB_FILE_LOG], (off_t)(intact.length[MPB_FILE_LOG] - bytes)), 0);
}

static off_t shrunk_to;

static int shrink(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_READ && fault.call++ == 1)
        CHECK_EQ(ftruncate(fds[MPB_FILE_LOG], shrunk_to), 0);
    return 0;
}

/* A file that somebody cuts meanwhile is an I/O error, not a log that ends there. */
static void cut_while_scanning(void)
{
    static const off_t RESTS[] = {1 << 20, 1000000}; /* a part of the batch that comes next, and not even that */
    struct mpb_segment_scan found;
    for (size_t i = 0; i < sizeof RESTS / sizeof *RESTS; i++) {
        const size_t length = intact.length[MPB_FILE_LOG];
        CHECK_EQ(pwrite(fds[MPB_FILE_LOG], intact.bytes[MPB_FILE_LOG], length, 0), (ssize_t)length);
        memset(&fault, 0, sizeof fault);
        shrunk_to = RESTS[i];
        mpb_io_fault = shrink;
        CHECK_EQ(scan(&found), -EIO);
        mpb_io_fault = NULL;
        CHECK(fault.call >= 2);
    }
}

/* Returns how many calls failed and how many writes were torn. */
static long all_faults(enum mpb_scan_end end, uint64_t batches)
{
    static const uint8_t STALE[480];
    for (int file = MPB_FILE_INDEX; file < MPB_SEGMENT_FILES; file++) /* what stands in an index must not matter */
        CHECK_EQ(pwrite(fds[file], STALE, sizeof STALE, (off_t)appended.length[file]), sizeof STALE);
    CHECK_EQ(scan(&want), 0);
    CHECK_EQ(want.end, end);
    CHECK_EQ(want.batches, batches);
    CHECK(want.index_bytes > 200 && want.time_index_bytes > 200);
    read_contents(&intact);
    long injected = fail_every_call(EIO) + fail_every_call(ENOSPC);
    return injected + (KILLS_WORK ? tear_index_writes() : 0);
}

int main(void)
{
    make_log();
    read_contents(&appended);
    long injected = all_faults(MPB_END_CLEAN, BATCHES);
    intact = appended;
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) /* the scan writes the indexes as the appends did */
        same_file((enum mpb_segment_file)file);
    cut_off(PAYLOAD / 2);
    injected += all_faults(MPB_END_TRUNCATED, BATCHES - 1);
    cut_while_scanning();
    for (int file = 0; file < MPB_SEGMENT_FILES; file++)
        close(fds[file]);
    fixture_close(&f);
    CHECK(injected > (KILLS_WORK ? 300 : 200));
    printf("log scan: %ld calls failed or torn, %lu checks\n", injected, checks_made);
    return 0;
}
