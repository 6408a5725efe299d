/* Look-ups in offset and time index against the plainest search: every entry, and what lies between two, in indexes of
 * fewer and of more entries than one read takes. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "log/log.h"
#include "log/offset_index.h"
#include "record/record_batch.h"
#include "tests/stepping/check.h"

#define MOST 2100

/* Entry i: relative offset and timestamp 3 i + 2, position 5 i. */
static int64_t offset_of(int64_t i) { return 3 * i + 2; }

static int index_file(uint64_t entries, bool of_times)
{
    size_t entry_bytes = of_times ? MPB_TIME_INDEX_ENTRY_BYTES : MPB_INDEX_ENTRY_BYTES;
    int fd = memfd_create("index", 0);
    uint8_t entry[MPB_TIME_INDEX_ENTRY_BYTES];
    for (uint64_t i = 0; i < entries; i++) {
        if (of_times)
            mpb_put_be64(entry, offset_of((int64_t)i));
        mpb_put_be32(entry + (of_times ? 8 : 0), (int32_t)offset_of((int64_t)i));
        if (!of_times)
            mpb_put_be32(entry + 4, (int32_t)(5 * i));
        CHECK_EQ(pwrite(fd, entry, entry_bytes, (off_t)(i * entry_bytes)), (int64_t)entry_bytes);
    }
    return fd;
}

/* Of the entries at most `target` by `offset_of`: their number. */
static uint64_t at_most(uint64_t entries, int64_t target)
{
    return target < 2 ? 0 : (uint64_t)(target - 2) / 3 + 1 < entries ? (uint64_t)(target - 2) / 3 + 1 : entries;
}

static void look(int fd, int times_fd, uint64_t entries, uint32_t target)
{
    struct mpb_index_hit hit = {0}, timed = {0}, placed = {0};
    uint64_t wanted = at_most(entries, target);
    CHECK_EQ(mpb_offset_index_find(fd, entries * MPB_INDEX_ENTRY_BYTES, target, &hit), 0);
    CHECK_EQ(mpb_time_index_find(times_fd, entries * MPB_TIME_INDEX_ENTRY_BYTES, target, &timed), 0);
    CHECK_EQ(mpb_time_index_find_offset(times_fd, entries * MPB_TIME_INDEX_ENTRY_BYTES, target, &placed), 0);
    CHECK_EQ(hit.entries, wanted);
    CHECK_EQ(timed.entries, wanted);
    CHECK_EQ(placed.entries, wanted);
    CHECK_EQ(hit.found, wanted > 0);
    CHECK_EQ(timed.found, wanted > 0);
    if (wanted > 0) {
        CHECK_EQ(hit.relative, offset_of((int64_t)wanted - 1));
        CHECK_EQ(hit.position, 5 * (wanted - 1));
        CHECK_EQ(timed.timestamp, offset_of((int64_t)wanted - 1));
        CHECK_EQ(timed.relative, offset_of((int64_t)wanted - 1));
        CHECK_EQ(placed.relative, offset_of((int64_t)wanted - 1));
    }
}

static void look_from(int fd, uint64_t entries, uint64_t position)
{
    struct mpb_index_hit hit = {0};
    uint64_t before = (position + 4) / 5 < entries ? (position + 4) / 5 : entries;
    CHECK_EQ(mpb_offset_index_from(fd, entries * MPB_INDEX_ENTRY_BYTES, position, &hit), 0);
    CHECK_EQ(hit.entries, before);
    CHECK_EQ(hit.found, before < entries);
    if (before < entries) {
        CHECK_EQ(hit.relative, offset_of((int64_t)before));
        CHECK_EQ(hit.position, 5 * before);
    }
}

static void of_length(uint64_t entries)
{
    int fd = index_file(entries + 1, false), times_fd = index_file(entries + 1, true); /* the last is not committed */
    uint32_t end = 3 * (uint32_t)entries + 4, step = entries > 20 ? 7 : 1;
    for (uint32_t target = 0; target < end; target += step)
        look(fd, times_fd, entries, target);
    for (uint64_t position = 0; position < 5 * entries + 3; position += step)
        look_from(fd, entries, position);
    close(fd);
    close(times_fd);
}

/* What is shorter than its committed length is no index. */
static void cut_off(void)
{
    struct mpb_index_hit hit = {0};
    int fd = index_file(600, false);
    CHECK(mpb_offset_index_find(fd, 700 * MPB_INDEX_ENTRY_BYTES, 1, &hit) < 0);
    CHECK(!hit.found);
    CHECK(mpb_offset_index_from(fd, 700 * MPB_INDEX_ENTRY_BYTES, 1, &hit) < 0);
    close(fd);
}

int main(void)
{
    static const uint64_t lengths[] = {0, 1, 2, 3, 511, 512, 513, 514, 1024, 1025, MOST};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        of_length(lengths[i]);
    cut_off();
    printf("index look-ups: %lu checks\n", checks_made);
    return 0;
}
