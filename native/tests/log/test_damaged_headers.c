/* What no checksum covers, length and offset of each batch, damaged in turn: how far a start reads, strictly and where
 * nothing is given up; what a reader finds behind it, with indexes of every density; and that the damage is counted. */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/header_scan.h"
#include "log/log_scan.h"
#include "record/crc32c.h"

enum { FIRST = 100, BATCHES = 12, RECORDS = 2, HEADER = MPB_BATCH_HEADER_BYTES, BATCH = HEADER + 40 };
enum { WINDOW = 1 << 20, MOST = WINDOW + 4 * BATCH, NEVER = 99 };

static struct fixture f;
static uint8_t content[MOST];
static size_t written;
static int fds[MPB_SEGMENT_FILES];
static int64_t visited[BATCHES];
static int visits;

static void add(int64_t base, uint32_t bytes)
{
    uint8_t *at = content + written;
    memset(at, 0, bytes);
    mpb_put_be64(at + MPB_BATCH_BASE_OFFSET, base);
    mpb_put_be32(at + MPB_BATCH_LENGTH, (int32_t)bytes - MPB_BATCH_OVERHEAD_BYTES);
    at[MPB_BATCH_MAGIC] = 2;
    mpb_put_be32(at + MPB_BATCH_LAST_OFFSET_DELTA, RECORDS - 1);
    mpb_put_be32(at + MPB_BATCH_RECORD_COUNT, RECORDS);
    mpb_put_be64(at + MPB_BATCH_PRODUCER_ID, -1);
    mpb_put_be32(at + MPB_BATCH_CRC, (int32_t)mpb_crc32c(0, at + MPB_BATCH_ATTRIBUTES, bytes - MPB_BATCH_ATTRIBUTES));
    written += bytes;
}

static void save(void)
{
    CHECK_EQ(ftruncate(fds[MPB_FILE_LOG], 0), 0);
    CHECK_EQ(pwrite(fds[MPB_FILE_LOG], content, written, 0), written);
}

/* Batches without a gap; every `each`th one has an entry. */
static void make(int each)
{
    written = 0;
    CHECK_EQ(ftruncate(fds[MPB_FILE_INDEX], 0), 0);
    for (int i = 0, entries = 0; i < BATCHES; i++) {
        uint8_t entry[MPB_INDEX_ENTRY_BYTES];
        add(FIRST + i * RECORDS, BATCH);
        mpb_put_be32(entry, i * RECORDS + RECORDS - 1);
        mpb_put_be32(entry + 4, i * BATCH);
        if (i % each == each - 1)
            CHECK_EQ(pwrite(fds[MPB_FILE_INDEX], entry, sizeof entry, entries++ * (off_t)sizeof entry), sizeof entry);
    }
}

/* ------------------------------------------------------------------ a start */
static int visit(void *context, const struct mpb_batch_info *batch)
{
    (void)context;
    visited[visits++] = batch->base_offset;
    return 0;
}

static struct mpb_segment_scan scan(bool check_crc)
{
    struct mpb_segment_scan out = {
        .base_offset = FIRST, .start_offset = FIRST, .index_interval_bytes = 2 * BATCH, .check_crc = check_crc};
    visits = 0;
    CHECK_EQ(mpb_segment_scan(fds[MPB_FILE_LOG], fds[MPB_FILE_INDEX], fds[MPB_FILE_TIME_INDEX], &out, visit, NULL), 0);
    return out;
}

static void moved(int damaged, int64_t by)
{
    make(1);
    uint8_t sound[MPB_INDEX_ENTRY_BYTES * BATCHES] = {0}, found[sizeof sound] = {0};
    save();
    uint32_t index_bytes = scan(true).index_bytes;
    CHECK(index_bytes > 2 * MPB_INDEX_ENTRY_BYTES && pread(fds[MPB_FILE_INDEX], sound, sizeof sound, 0) > 0);
    mpb_put_be64(content + damaged * BATCH, FIRST + damaged * RECORDS + by);
    save();
    struct mpb_segment_scan strict = scan(true);
    CHECK(strict.end == MPB_END_CORRUPT && visits == damaged);
    CHECK(strict.valid_bytes == (uint64_t)damaged * BATCH && strict.next_offset == FIRST + damaged * RECORDS);
    struct mpb_segment_scan all = scan(false);
    CHECK(all.end == MPB_END_CLEAN && all.valid_bytes == written && visits == BATCHES);
    CHECK_EQ(all.next_offset, FIRST + BATCHES * RECORDS);
    for (int i = 0; i < BATCHES; i++)
        CHECK_EQ(visited[i], FIRST + i * RECORDS);
    CHECK(all.index_bytes == index_bytes && pread(fds[MPB_FILE_INDEX], found, sizeof found, 0) > 0);
    CHECK_EQ(memcmp(found, sound, sizeof sound), 0);
}

/* The header behind it decides, wherever the window ends; what is no batch decides nothing, nor do a few bytes. */
static void test_around_the_window(void)
{
    for (uint32_t left = 0; left <= HEADER + 1; left++) {
        written = 0;
        add(FIRST + 50, WINDOW - left);
        add(FIRST + RECORDS, HEADER + left % 3);
        save();
        CHECK(scan(true).end == MPB_END_CORRUPT && visits == 0);
        CHECK(scan(false).end == MPB_END_CLEAN && visits == 2 && visited[0] == FIRST);
        content[WINDOW - left + MPB_BATCH_MAGIC] = 1;
        save();
        CHECK(scan(true).end == MPB_END_CORRUPT && visits == 1 && visited[0] == FIRST + 50);
        written = WINDOW - left + HEADER - 1;
        content[WINDOW - left + MPB_BATCH_MAGIC] = 2;
        save();
        CHECK(scan(false).end == MPB_END_TRUNCATED && visits == 1 && visited[0] == FIRST + 50);
    }
}

/* Offsets that compaction left out are no damage, and records that come twice are: nobody takes them for more. */
static void test_gaps_and_repetitions(void)
{
    written = 0;
    for (int i = 0; i < BATCHES; i++)
        add(FIRST + 7 + i * 3, BATCH);
    save();
    CHECK(scan(true).end == MPB_END_CLEAN && visits == BATCHES && visited[0] == FIRST + 7);
    make(1);
    add(FIRST, BATCH);
    add(FIRST + RECORDS, BATCH);
    save();
    struct mpb_segment_scan twice = scan(false);
    CHECK(twice.end == MPB_END_CORRUPT && visits == BATCHES && twice.next_offset == FIRST + BATCHES * RECORDS);
}

/* ------------------------------------------------------------------ a reader */
static int find(int64_t offset, bool active, uint64_t *position, struct mpb_batch_info *batch)
{
    struct mpb_partition_copy copy = {.active_base = active ? FIRST : 100000, .position = written};
    mpb_segment_close_all(&f.log);
    return mpb_segment_find(&f.log, &f.core.partitions[0], &copy, FIRST, offset, position, batch);
}

/* `damaged` says that it is longer than all the rest: the walk goes on at the next entry behind it. */
static void a_length(int damaged, int each)
{
    make(each);
    mpb_put_be32(content + damaged * BATCH + MPB_BATCH_LENGTH, 1 << 28);
    save();
    int again = damaged + 1;
    while (again < BATCHES && again % each != each - 1)
        again++;
    for (int64_t offset = FIRST; offset < FIRST + BATCHES * RECORDS; offset++) {
        struct mpb_batch_info batch;
        uint64_t position = 77, before = counted(&f, MPB_C_LOG_IO_ERRORS);
        int wanted = (int)(offset - FIRST) / RECORDS;
        if (wanted >= damaged && wanted < again)
            wanted = again;
        CHECK_EQ(find(offset, false, &position, &batch), 0);
        CHECK_EQ(position, (wanted < BATCHES ? wanted : damaged) * BATCH);
        CHECK_EQ(batch.batch_bytes, wanted < BATCHES ? BATCH : 0);
        CHECK(wanted == BATCHES || batch.base_offset == FIRST + wanted * RECORDS);
        bool passes = offset >= FIRST + damaged * RECORDS && (again == BATCHES || offset < FIRST + again * RECORDS + 1);
        CHECK_EQ(counted(&f, MPB_C_LOG_IO_ERRORS) > before, passes); /* but with an entry at or below it, none */
        CHECK_EQ(find(offset, false, &position, NULL), 0);
        CHECK_EQ(position, (wanted < BATCHES ? wanted : damaged) * BATCH);
    }
    uint64_t position;
    CHECK_EQ(find(FIRST + damaged * RECORDS, true, &position, NULL), -EBADMSG);
}

/* Entries that point at no batch, or at another one than they say, are passed over. */
static void test_entries_behind_the_damage(void)
{
    static const struct {
        int32_t relative, position;
    } ENTRIES[] = {{4, 4 * BATCH}, {5, 5 * BATCH - 1}, {6, 5 * BATCH}, {13, 6 * BATCH}, {15, 99 * BATCH}};
    struct mpb_batch_info batch;
    uint64_t position;
    make(NEVER);
    mpb_put_be32(content + BATCH + MPB_BATCH_LENGTH, 1 << 28);
    mpb_put_be64(content + 4 * BATCH, FIRST - RECORDS); /* what it claims lies below the segment */
    save();
    for (int i = 0; i < 5; i++) {
        uint8_t entry[MPB_INDEX_ENTRY_BYTES];
        mpb_put_be32(entry, ENTRIES[i].relative);
        mpb_put_be32(entry + 4, ENTRIES[i].position);
        CHECK_EQ(pwrite(fds[MPB_FILE_INDEX], entry, sizeof entry, i * (off_t)sizeof entry), sizeof entry);
    }
    CHECK_EQ(find(FIRST + RECORDS, false, &position, &batch), 0);
    CHECK(position == 6 * BATCH && batch.base_offset == FIRST + 6 * RECORDS);
    CHECK_EQ(find(FIRST + 9 * RECORDS, false, &position, &batch), 0);
    CHECK_EQ(position, 9 * BATCH);
    mpb_put_be32(content + 8 * BATCH + MPB_BATCH_LENGTH, 1 << 28); /* and a second one, with nothing behind it */
    save();
    CHECK_EQ(find(FIRST + 8 * RECORDS, false, &position, &batch), 0);
    CHECK(position == 8 * BATCH && batch.batch_bytes == 0);
}

/* Who asks for what is in it is told so, and all others get theirs. */
static void an_offset(int damaged, int64_t by)
{
    make(NEVER);
    mpb_put_be64(content + damaged * BATCH, FIRST + damaged * RECORDS + by);
    save();
    for (int64_t offset = FIRST; offset < FIRST + BATCHES * RECORDS; offset++) {
        struct mpb_batch_info batch;
        uint64_t position = 77;
        int wanted = (int)(offset - FIRST) / RECORDS;
        int error = find(offset, damaged % 2, &position, &batch);
        CHECK_EQ(error, wanted == damaged && by > 0 ? -EBADMSG : 0);
        wanted += wanted == damaged;
        CHECK(error != 0 || (position == (uint64_t)wanted * BATCH && batch.base_offset == FIRST + wanted * RECORDS));
        CHECK_EQ(find(offset, damaged % 2, &position, NULL), 0); /* a limit: what is below it ends there */
        CHECK_EQ(position, wanted * BATCH);
    }
}

/* Claims just what the next one has. */
static void test_an_offset_that_comes_twice(void)
{
    struct mpb_batch_info batch;
    uint64_t position;
    make(NEVER);
    mpb_put_be64(content + 3 * BATCH, FIRST + 4 * RECORDS);
    save();
    CHECK_EQ(find(FIRST + 3 * RECORDS, true, &position, &batch), -EBADMSG);
}

int main(void)
{
    static const char *const SUFFIX[] = {"log", "index", "timeindex"};
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) {
        char path[64];
        snprintf(path, sizeof path, "t-0/%020d.%s", FIRST, SUFFIX[file]);
        fds[file] = openat(f.log.dir_fd[0], path, O_RDWR | O_CREAT, 0600);
        CHECK(fds[file] >= 0);
    }
    static const int64_t MOVED[] = {-50, -1, 1, 5, 1 << 20, INT64_C(1) << 40};
    for (int damaged = 0; damaged < BATCHES - 1; damaged++)
        for (size_t i = 0; i < sizeof MOVED / sizeof *MOVED; i++) {
            moved(damaged, MOVED[i]);
            if (MOVED[i] < -1 || MOVED[i] > BATCHES * RECORDS)
                an_offset(damaged, MOVED[i]);
        }
    test_around_the_window();
    test_gaps_and_repetitions();
    for (int damaged = 0; damaged < BATCHES; damaged++)
        for (int each = 1; each <= 5; each++)
            a_length(damaged, each == 5 ? NEVER : each);
    test_entries_behind_the_damage();
    test_an_offset_that_comes_twice();
    for (int file = 0; file < MPB_SEGMENT_FILES; file++)
        close(fds[file]);
    fixture_close(&f);
    printf("damaged_headers: %lu checks\n", checks_made);
    return 0;
}
