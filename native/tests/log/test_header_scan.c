/* Batch headers of a file, read through a window: every size around its bounds, what is cut off, what is no batch, how
 * often the disk is asked; and where an offset is, whatever the index says of it. */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/log_io.h"

enum { WINDOW = 4096, HEADER = MPB_BATCH_HEADER_BYTES, MOST = 64 * 1024 };

static struct fixture f;
static uint8_t content[MOST];
static size_t written;
static int fd;
static long reads;

static int count_reads(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    reads += call == MPB_IO_READ;
    return 0;
}

/* A header and so many bytes behind it. */
static void add(int64_t base, int32_t last_offset_delta, uint32_t payload)
{
    uint8_t *at = content + written;
    CHECK(written + HEADER + payload <= MOST);
    memset(at, 0, HEADER + payload);
    mpb_put_be64(at + MPB_BATCH_BASE_OFFSET, base);
    mpb_put_be32(at + MPB_BATCH_LENGTH, (int32_t)(HEADER + payload - MPB_BATCH_OVERHEAD_BYTES));
    at[MPB_BATCH_MAGIC] = 2;
    mpb_put_be32(at + MPB_BATCH_LAST_OFFSET_DELTA, last_offset_delta);
    mpb_put_be64(at + MPB_BATCH_PRODUCER_ID, -1);
    written += HEADER + payload;
}

static void save(void)
{
    CHECK_EQ(ftruncate(fd, 0), 0);
    CHECK_EQ(pwrite(fd, content, written, 0), written);
}

/* How many batches there are from `position` to `end`, and what comes behind them. */
static int scan(uint64_t position, uint64_t end, int *count)
{
    struct mpb_header_scan scan;
    struct mpb_batch_info info;
    int more;
    uint64_t next = position;
    *count = 0;
    reads = 0;
    mpb_header_scan_begin(&scan, fd, position, end);
    while ((more = mpb_header_scan_next(&scan, &info)) == 1) {
        CHECK_EQ(scan.position, next);
        CHECK_EQ(info.base_offset, mpb_be64(content + scan.position));
        CHECK_EQ(info.batch_bytes, mpb_be32(content + scan.position + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES);
        CHECK(!scan.is_cut_off);
        next += info.batch_bytes;
        ++*count;
    }
    CHECK_EQ(scan.position, next);
    CHECK(scan.is_cut_off == (more != 0 && end > next && end - next < HEADER + 100u));
    return more;
}

/* The second header ends before, at and behind the end of the window that the first one was read with. */
static void test_around_the_window(void)
{
    static const struct {
        uint32_t payload;
        long reads;
    } CASES[] = {{0, 1},
                 {WINDOW - 2 * HEADER - 1, 1},
                 {WINDOW - 2 * HEADER, 1},
                 {WINDOW - 2 * HEADER + 1, 2},
                 {WINDOW - HEADER, 2},
                 {WINDOW, 2}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int count;
        written = 0;
        add(7, 2, CASES[i].payload);
        add(10, 0, 0);
        save();
        CHECK_EQ(scan(0, written, &count), 0);
        CHECK_EQ(count, 2);
        CHECK_EQ(reads, CASES[i].reads);
        CHECK_EQ(scan(HEADER + CASES[i].payload, written, &count), 0);
        CHECK(count == 1 && reads == 1);
        CHECK_EQ(scan(written, written, &count), 0);
        CHECK(count == 0 && reads == 0);
    }
}

static void test_cut_off(void)
{
    for (uint64_t left = 1; left < HEADER + 99; left++) { /* of the last batch */
        int count;
        written = 0;
        add(7, 2, 50);
        add(10, 0, 99);
        save();
        CHECK_EQ(scan(0, HEADER + 50 + left, &count), -EBADMSG);
        CHECK_EQ(count, 1);
    }
}

/* The file is shorter than the end that its partition names. */
static void test_a_shorter_file(void)
{
    struct mpb_header_scan scan;
    struct mpb_batch_info info;
    written = 0;
    add(7, 2, 50);
    add(10, 0, 99);
    save();
    for (int left = 0; left < HEADER; left++) {
        save();
        CHECK_EQ(ftruncate(fd, left), 0);
        mpb_header_scan_begin(&scan, fd, 0, written);
        CHECK_EQ(mpb_header_scan_next(&scan, &info), -EBADMSG);
        CHECK(!scan.is_cut_off);
    }
    save();
    CHECK_EQ(ftruncate(fd, HEADER), 0);
    mpb_header_scan_begin(&scan, fd, 0, written);
    CHECK_EQ(mpb_header_scan_next(&scan, &info), 1);
    mpb_header_scan_begin(&scan, -1, 0, written);
    CHECK_EQ(mpb_header_scan_next(&scan, &info), -EBADF);
}

static void test_no_batch(void)
{
    static const struct {
        int at;
        uint8_t byte;
        int more;
    } CASES[] = {{MPB_BATCH_MAGIC, 1, -EBADMSG},
                 {MPB_BATCH_MAGIC, 3, -EBADMSG},
                 {MPB_BATCH_LENGTH + 3, HEADER - MPB_BATCH_OVERHEAD_BYTES - 1, -EBADMSG},
                 {MPB_BATCH_LENGTH + 3, HEADER - MPB_BATCH_OVERHEAD_BYTES, 1},
                 {MPB_BATCH_LENGTH, 0xff, -EBADMSG}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct mpb_header_scan scan;
        struct mpb_batch_info info;
        written = 0;
        add(7, 2, 50);
        content[CASES[i].at] = CASES[i].byte;
        save();
        mpb_header_scan_begin(&scan, fd, 0, written);
        CHECK_EQ(mpb_header_scan_next(&scan, &info), CASES[i].more);
        CHECK(!scan.is_cut_off);
    }
}

/* ------------------------------------------------------------------ where an offset is */
enum { FIRST = 100, BATCHES = 20, PAYLOAD = 300, BATCH = HEADER + PAYLOAD };

static void put_file(const char *suffix, const void *bytes, size_t length)
{
    char path[64];
    snprintf(path, sizeof path, "t-0/%020d.%s", FIRST, suffix);
    int to = openat(f.log.dir_fd[0], path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(to >= 0);
    CHECK_EQ(pwrite(to, bytes, length, 0), length);
    close(to);
}

/* Batches of two records; the index has one entry, which says (relative, position). */
static void find_all(int32_t relative, int32_t position, bool has_index)
{
    struct mpb_partition_copy copy = {.active_base = FIRST, .position = BATCHES * BATCH};
    uint8_t entry[MPB_INDEX_ENTRY_BYTES];
    copy.index_bytes = has_index ? sizeof entry : 0;
    mpb_put_be32(entry, relative);
    mpb_put_be32(entry + 4, position);
    put_file("index", entry, sizeof entry);
    mpb_segment_close_all(&f.log);
    for (int64_t offset = FIRST - 2; offset <= FIRST + 2 * BATCHES + 1; offset++) {
        struct mpb_batch_info batch;
        uint64_t found = 77;
        int64_t at = offset <= FIRST ? 0 : (offset - FIRST) / 2;
        at = at > BATCHES ? BATCHES : at;
        CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, offset, &found, &batch), 0);
        CHECK_EQ(found, at * BATCH);
        CHECK_EQ(batch.batch_bytes, at < BATCHES ? BATCH : 0);
        CHECK(at == BATCHES || batch.base_offset == FIRST + 2 * at);
        CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, offset, &found, NULL), 0);
        CHECK_EQ(found, at * BATCH);
    }
}

/* With a sound entry the walk begins there: one read of the index, one of the log. */
static void find_quickly(int32_t relative)
{
    struct mpb_partition_copy copy = {.active_base = FIRST, .position = BATCHES * BATCH};
    uint64_t found;
    copy.index_bytes = MPB_INDEX_ENTRY_BYTES;
    find_all(relative, 9 * BATCH, true);
    for (int64_t offset = FIRST + 20; offset <= FIRST + 39; offset += 19) {
        reads = 0;
        CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, offset, &found, NULL), 0);
        CHECK_EQ(reads, 2);
    }
    reads = 0; /* nothing is looked for before the first offset */
    CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, FIRST, &found, NULL), 0);
    CHECK_EQ(reads, 1);
}

/* Sound, of no batch, of a later one, behind the end, of an earlier one: a longer walk, never another answer. */
static void test_whatever_the_index_says(void)
{
    static const int32_t ENTRIES[][2] = {
        {19, 9 * BATCH},  {1, 0},          {39, 19 * BATCH},          {19, 9 * BATCH + 1},
        {19, 10 * BATCH}, {19, 8 * BATCH}, {19, BATCHES * BATCH},     {19, BATCHES * BATCH + 5},
        {19, -5},         {0, 19 * BATCH}, {18, 9 * BATCH},           {17, 9 * BATCH},
        {-1, 9 * BATCH},  {41, 3 * BATCH}, {19, BATCHES * BATCH - 30}};
    written = 0;
    for (int i = 0; i < BATCHES; i++)
        add(FIRST + 2 * i, 1, PAYLOAD);
    put_file("log", content, written);
    put_file("timeindex", content, 0);
    find_all(0, 0, false);
    for (size_t i = 0; i < sizeof ENTRIES / sizeof ENTRIES[0]; i++)
        find_all(ENTRIES[i][0], ENTRIES[i][1], true);
    find_quickly(19);
    find_quickly(18); /* of a batch with one record its first offset is its last */
}

/* What is cut off from outside ends a rolled segment there; in the active one it is damage. */
static void test_a_segment_that_was_cut(void)
{
    struct mpb_partition_copy copy = {.active_base = FIRST, .position = BATCHES * BATCH};
    uint64_t found;
    put_file("index", content, 0);
    put_file("log", content, (BATCHES - 1) * BATCH + 80);
    mpb_segment_close_all(&f.log);
    CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, FIRST + 39, &found, NULL), 0);
    CHECK_EQ(found, (BATCHES - 1) * BATCH); /* its header is there */
    copy.position = (BATCHES - 1) * BATCH + 80;
    CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, FIRST + 39, &found, NULL), -EBADMSG);
    copy.active_base = FIRST + 40;
    mpb_segment_close_all(&f.log);
    CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, FIRST + 39, &found, NULL), 0);
    CHECK_EQ(found, (BATCHES - 1) * BATCH);
    content[2 * BATCH + MPB_BATCH_MAGIC] = 9;
    put_file("log", content, BATCHES * BATCH);
    mpb_segment_close_all(&f.log);
    CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, FIRST + 3, &found, NULL), 0);
    CHECK_EQ(mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, FIRST + 4, &found, NULL), -EBADMSG);
}

int main(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    fd = openat(f.log.dir_fd[0], "batches", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    mpb_io_fault = count_reads;
    test_around_the_window();
    test_cut_off();
    test_a_shorter_file();
    test_no_batch();
    test_whatever_the_index_says();
    test_a_segment_that_was_cut();
    mpb_io_fault = NULL;
    close(fd);
    fixture_close(&f);
    printf("header scan: %lu checks\n", checks_made);
    return 0;
}
