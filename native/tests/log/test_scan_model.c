/* What the scan of a start finds in a segment, and the indexes that it makes: what the appends left, in memory and in the
 * files; of a file that is cut off at any byte, or damaged in every seventh that a checksum sees, the batches before; from
 * any batch on, the rest. */
#include "tests/log/append_scenarios.h"

#include "log/log_scan.h"

enum { BATCHES = 39, INTERVAL = 300, MOST = 1 << 14, LAST_EPOCH = 8 };

static struct fixture f;
static struct mpb_batch_info list[BATCHES];
static uint64_t at[BATCHES + 1]; /* where each begins */
static uint8_t whole[MOST];
static int64_t base;
static int fds[MPB_SEGMENT_FILES];
static uint32_t aborts, visited, stop_at;

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

/* The second segment of a log, of batches and markers whose times go up and down. */
static void make_log(void)
{
    static const char *const SUFFIX[] = {"log", "index", "timeindex"};
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_append_result result;
    fixture_open(&f);
    fixture_partition(&f, 0);
    options.index_interval_bytes = INTERVAL;
    for (int32_t i = -3; i < BATCHES; i++) {
        struct batch_spec spec = {.records = 1 + (i + 3) % 3,
                                  .producer_id = -1,
                                  .timestamp = 1000 + 37 * ((i + 3) / 2) % 101, /* some are as late as others */
                                  .payload = (uint32_t)(i + 3) * 29 % 160,
                                  .mark = (uint8_t)i};
        struct mpb_marker marker = {.producer_id = 4,
                                    .commit = i % 4 == 1,
                                    .now_ms = spec.timestamp,
                                    .leader_epoch = -1,
                                    .entry = MPB_NO_REQUEST};
        if (i == 0)
            CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
        if (i % 4 == 3 || i % 4 == 1)
            mpb_append_marker(&f.log, &options, &marker, &result);
        else
            result = append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec);
        CHECK_EQ(result.error, 0);
        aborts += i >= 0 && i % 4 == 3;
    }
    base = now()->active_base;
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) {
        char path[64];
        snprintf(path, sizeof path, "t-0/%020lld.%s", (long long)base, SUFFIX[file]);
        fds[file] = openat(f.log.dir_fd[0], path, O_RDWR);
        CHECK(fds[file] >= 0);
    }
    CHECK(base > 0 && now()->position <= MOST && pread(fds[0], whole, MOST, 0) == (ssize_t)now()->position);
    for (uint32_t i = 0; i < BATCHES; i++) {
        if (i == BATCHES - 1)
            mpb_put_be32(whole + at[i] + MPB_BATCH_LEADER_EPOCH, LAST_EPOCH); /* no checksum covers it */
        mpb_batch_read(whole + at[i], &list[i]);
        at[i + 1] = at[i] + list[i].batch_bytes;
    }
    CHECK_EQ(at[BATCHES], now()->position);
    CHECK_EQ(pwrite(fds[0], whole, at[BATCHES], 0), at[BATCHES]);
}

static int visit(void *context, const struct mpb_batch_info *batch)
{
    const struct mpb_batch_info *expected = &list[*(uint32_t *)context + visited];
    CHECK(batch->base_offset == expected->base_offset && batch->batch_bytes == expected->batch_bytes);
    CHECK(batch->producer_id == expected->producer_id && batch->max_timestamp == expected->max_timestamp);
    return ++visited == stop_at ? 55 : 0;
}

/* From batch `first` on, with what is known of those before. */
static struct mpb_segment_scan scan_from(uint32_t first, bool with_index, int wanted)
{
    struct mpb_segment_scan scan;
    memset(&scan, 0x5a, sizeof scan);
    scan.base_offset = base;
    scan.index_interval_bytes = INTERVAL;
    scan.check_crc = true;
    scan.start_bytes = at[first];
    scan.start_offset = first == 0 ? base : list[first].base_offset;
    scan.max_timestamp = first == 0 ? 9999 : 1050;
    scan.max_timestamp_offset = 77;
    visited = 0;
    CHECK_EQ(mpb_segment_scan(fds[0], with_index ? fds[1] : -1, with_index ? fds[2] : -1, &scan, visit, &first),
             wanted);
    return scan;
}

/* `valid` whole batches, of which those from `first` on were looked at. */
static void found_is(const struct mpb_segment_scan *scan, uint32_t first, uint32_t valid, enum mpb_scan_end end)
{
    int64_t largest = first == 0 ? -1 : 1050, largest_at = first == 0 ? base : 77;
    uint64_t aborted = 0;
    for (uint32_t i = first; i < valid; i++) {
        if (list[i].max_timestamp > largest) {
            largest = list[i].max_timestamp;
            largest_at = list[i].base_offset + list[i].last_offset_delta;
        }
        aborted += list[i].producer_id >= 0 && i % 4 == 3;
    }
    CHECK(scan->end == end && scan->valid_bytes == at[valid] && scan->batches == valid - first &&
          visited == valid - first);
    CHECK_EQ(scan->next_offset, valid > first ? list[valid - 1].base_offset + list[valid - 1].last_offset_delta + 1
                                : first == 0  ? base
                                              : list[first].base_offset);
    CHECK(scan->max_timestamp == largest && scan->max_timestamp_offset == largest_at);
    CHECK_EQ(scan->first_timestamp, valid > first ? list[first].max_timestamp : -1);
    CHECK_EQ(scan->last_leader_epoch, valid > first ? list[valid - 1].leader_epoch : -1);
    CHECK_EQ(scan->aborts, aborted);
}

static void as_the_appends_left_it(void)
{
    uint8_t before[2][MOST], after[MOST];
    ssize_t bytes[2];
    for (int file = 1; file < MPB_SEGMENT_FILES; file++) {
        bytes[file - 1] = pread(fds[file], before[file - 1], MOST, 0);
        CHECK(bytes[file - 1] > 5 * MPB_INDEX_ENTRY_BYTES);
        CHECK_EQ(pwrite(fds[file], "garbage", 7, bytes[file - 1]), 7); /* what an older index had more */
    }
    const struct mpb_segment_scan scan = scan_from(0, true, 0);
    found_is(&scan, 0, BATCHES, MPB_END_CLEAN);
    CHECK(scan.file_bytes == now()->position && scan.valid_bytes == now()->position && scan.next_offset == now()->leo);
    CHECK(scan.max_timestamp == now()->max_timestamp && scan.max_timestamp_offset == now()->max_timestamp_offset);
    CHECK(scan.first_timestamp == now()->first_timestamp && scan.indexed_timestamp == now()->indexed_timestamp);
    CHECK(scan.index_bytes == now()->index_bytes && scan.time_index_bytes == now()->time_index_bytes);
    CHECK_EQ(scan.bytes_since_index, now()->bytes_since_index);
    CHECK(scan.aborts == aborts && scan.last_leader_epoch == LAST_EPOCH);
    for (int file = 1; file < MPB_SEGMENT_FILES; file++) {
        CHECK_EQ(pread(fds[file], after, MOST, 0), bytes[file - 1]);
        CHECK(memcmp(before[file - 1], after, (size_t)bytes[file - 1]) == 0);
    }
}

static void from_every_batch(void)
{
    for (uint32_t first = 0; first < BATCHES; first++) {
        const struct mpb_segment_scan scan = scan_from(first, false, 0);
        found_is(&scan, first, BATCHES, MPB_END_CLEAN);
        stop_at = 1 + first % 3; /* who looks may stop it */
        if (BATCHES - first > stop_at)
            scan_from(first, false, 55);
        stop_at = 0;
    }
}

static void cut_off_anywhere(void)
{
    uint32_t valid = BATCHES;
    for (uint64_t length = at[BATCHES]; length > 0; length--) {
        CHECK_EQ(ftruncate(fds[0], (off_t)length - 1), 0);
        while (at[valid] > length - 1)
            valid--;
        const struct mpb_segment_scan scan = scan_from(0, false, 0);
        CHECK_EQ(scan.file_bytes, length - 1);
        found_is(&scan, 0, valid, at[valid] == length - 1 ? MPB_END_CLEAN : MPB_END_TRUNCATED);
        if (at[valid] < length - 1) { /* nothing but what is cut off is behind the batch that it begins with */
            const struct mpb_segment_scan rest = scan_from(valid, false, 0);
            found_is(&rest, valid, valid, MPB_END_TRUNCATED);
        }
    }
    struct stat status; /* of nothing there is no index */
    scan_from(0, true, 0);
    for (int file = 1; file < MPB_SEGMENT_FILES; file++)
        CHECK(fstat(fds[file], &status) == 0 && status.st_size == 0);
    CHECK_EQ(pwrite(fds[0], whole, at[BATCHES], 0), at[BATCHES]);
}

/* One bit, where the checksum sees it; and offsets, which it does not cover: they may leave a gap, and not go back. */
static void damaged_anywhere(void)
{
    for (uint64_t place = MPB_BATCH_CRC; place < at[BATCHES]; place += 7) {
        uint32_t damaged = 0;
        while (at[damaged + 1] <= place)
            damaged++;
        uint8_t was = whole[place], is = was ^ 4;
        if (place - at[damaged] < MPB_BATCH_MAGIC)
            continue;
        CHECK_EQ(pwrite(fds[0], &is, 1, (off_t)place), 1);
        const struct mpb_segment_scan scan = scan_from(0, false, 0);
        found_is(&scan, 0, damaged, MPB_END_CORRUPT);
        CHECK_EQ(pwrite(fds[0], &was, 1, (off_t)place), 1);
    }
    static const int64_t MOVED[] = {-1, 0, 1};
    const uint32_t last = BATCHES - 1;
    for (size_t i = 0; i < sizeof MOVED / sizeof *MOVED; i++) {
        const int64_t offset = list[last].base_offset;
        uint8_t moved[8];
        list[last].base_offset += MOVED[i];
        mpb_put_be64(moved, list[last].base_offset);
        CHECK_EQ(pwrite(fds[0], moved, sizeof moved, (off_t)at[last]), sizeof moved);
        const struct mpb_segment_scan scan = scan_from(0, false, 0);
        found_is(&scan, 0, MOVED[i] < 0 ? last : BATCHES, MOVED[i] < 0 ? MPB_END_CORRUPT : MPB_END_CLEAN);
        list[last].base_offset = base + INT32_MAX - list[last].last_offset_delta +
                                 MOVED[i]; /* as far as a segment goes */
        mpb_put_be64(moved, list[last].base_offset);
        CHECK_EQ(pwrite(fds[0], moved, sizeof moved, (off_t)at[last]), sizeof moved);
        const struct mpb_segment_scan far = scan_from(0, false, 0);
        found_is(&far, 0, MOVED[i] > 0 ? last : BATCHES, MOVED[i] > 0 ? MPB_END_CORRUPT : MPB_END_CLEAN);
        list[last].base_offset = offset;
    }
}

int main(void)
{
    make_log();
    as_the_appends_left_it();
    from_every_batch();
    damaged_anywhere();
    CHECK_EQ(pwrite(fds[0], whole, at[BATCHES], 0), at[BATCHES]);
    cut_off_anywhere();
    for (int file = 0; file < MPB_SEGMENT_FILES; file++)
        close(fds[file]);
    fixture_close(&f);
    printf("scan_model: %lu checks\n", checks_made);
    return 0;
}
