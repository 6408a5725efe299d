/* Look-ups in offset and time index against the plainest search: at every entry and beside it, in indexes of fewer and of more
 * entries than one read takes, with keys of few bits and of all. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "log/log.h"
#include "log/offset_index.h"
#include "record/record_batch.h"
#include "tests/stepping/check.h"

#define MOST 2100

static uint32_t apart; /* the keys of two entries, by at least 3 */

static uint32_t offset_of(uint64_t i) { return apart * (uint32_t)i + 2; }
static uint32_t position_of(uint64_t i) { return apart * (uint32_t)i; }
static int64_t time_of(uint64_t i) { return (int64_t)offset_of(i) << 20; }

static int index_file(uint64_t entries, bool of_times)
{
    static uint8_t bytes[(MOST + 1) * MPB_TIME_INDEX_ENTRY_BYTES];
    size_t entry_bytes = of_times ? MPB_TIME_INDEX_ENTRY_BYTES : MPB_INDEX_ENTRY_BYTES;
    int fd = memfd_create("index", 0);
    CHECK(fd >= 0);
    for (uint64_t i = 0; i < entries; i++) {
        uint8_t *entry = bytes + i * entry_bytes;
        if (of_times)
            mpb_put_be64(entry, time_of(i));
        mpb_put_be32(entry + (of_times ? 8 : 0), (int32_t)offset_of(i));
        if (!of_times)
            mpb_put_be32(entry + 4, (int32_t)position_of(i));
    }
    CHECK_EQ(pwrite(fd, bytes, entries * entry_bytes, 0), (int64_t)(entries * entry_bytes));
    return fd;
}

/* What was in it before is of another search. */
static const struct mpb_index_hit DIRTY = {
    .found = true, .entries = 7, .relative = 77, .position = 77, .timestamp = 77};

/* `wanted`: entries whose key is at most the target. */
static void is_found(int error, const struct mpb_index_hit *hit, uint64_t wanted)
{
    CHECK_EQ(error, 0);
    CHECK_EQ(hit->entries, wanted);
    CHECK_EQ(hit->found, wanted > 0);
    CHECK(wanted == 0 || hit->relative == offset_of(wanted - 1));
}

static void look(int fd, int times_fd, uint64_t entries, uint32_t target, int64_t time, uint64_t wanted)
{
    const uint64_t bytes = entries * MPB_INDEX_ENTRY_BYTES, time_bytes = entries * MPB_TIME_INDEX_ENTRY_BYTES;
    struct mpb_index_hit hit = DIRTY;
    is_found(mpb_offset_index_find(fd, bytes, target, &hit), &hit, wanted);
    CHECK(wanted == 0 || hit.position == position_of(wanted - 1));
    hit = DIRTY;
    is_found(mpb_time_index_find(times_fd, time_bytes, time, &hit), &hit, wanted);
    CHECK(wanted == 0 || hit.timestamp == time_of(wanted - 1));
    hit = DIRTY;
    is_found(mpb_time_index_find_offset(times_fd, time_bytes, target, &hit), &hit, wanted);
}

/* The first one at or behind a position: `before` are not. */
static void look_from(int fd, uint64_t entries, uint64_t position, uint64_t before)
{
    struct mpb_index_hit hit = {0};
    CHECK_EQ(mpb_offset_index_from(fd, entries * MPB_INDEX_ENTRY_BYTES, position, &hit), 0);
    CHECK_EQ(hit.entries, before);
    CHECK_EQ(hit.found, before < entries);
    CHECK(before == entries || (hit.relative == offset_of(before) && hit.position == position_of(before)));
}

static void of_length(uint64_t entries)
{
    int fd = index_file(entries + 1, false), times_fd = index_file(entries + 1, true); /* the last is not committed */
    for (uint64_t i = 0; i <= entries; i++)
        for (int beside = -1; beside <= 1; beside++) {
            uint64_t wanted = beside < 0 ? i : i + 1, before = beside > 0 ? i + 1 : i;
            wanted = wanted < entries ? wanted : entries;
            look(fd, times_fd, entries, offset_of(i) + (uint32_t)beside, time_of(i) + beside, wanted);
            if (i > 0 || beside >= 0)
                look_from(fd, entries, position_of(i) + (uint32_t)beside, before < entries ? before : entries);
        }
    look(fd, times_fd, entries, 0, INT64_MIN, 0);
    look(fd, times_fd, entries, UINT32_MAX, INT64_MAX, entries);
    look_from(fd, entries, 0, 0);
    close(fd);
    close(times_fd);
}

/* What is shorter than its committed length is no index. */
static void cut_off(void)
{
    static const off_t RESTS[] = {600 * MPB_INDEX_ENTRY_BYTES, MPB_INDEX_ENTRY_BYTES - 1, 0};
    int fd = index_file(600, false);
    for (size_t i = 0; i < sizeof RESTS / sizeof *RESTS; i++) {
        struct mpb_index_hit hit = DIRTY;
        CHECK_EQ(ftruncate(fd, RESTS[i]), 0);
        CHECK_EQ(mpb_offset_index_find(fd, 700 * MPB_INDEX_ENTRY_BYTES, 9, &hit), -EBADMSG);
        CHECK(!hit.found);
        hit = DIRTY;
        CHECK_EQ(mpb_offset_index_from(fd, 700 * MPB_INDEX_ENTRY_BYTES, 9, &hit), -EBADMSG);
        CHECK(!hit.found);
    }
    close(fd);
}

int main(void)
{
    static const uint64_t lengths[] = {0, 1, 2, 3, 511, 512, 513, 514, 1024, 1025, MOST};
    static const uint32_t distances[] = {3, 2000003}; /* up to keys of all four bytes */
    for (size_t n = 0; n < sizeof distances / sizeof *distances; n++) {
        apart = distances[n];
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            of_length(lengths[i]);
    }
    cut_off();
    printf("index look-ups: %lu checks\n", checks_made);
    return 0;
}
