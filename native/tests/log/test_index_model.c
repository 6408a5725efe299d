/* The searches in an index against the plainest one, in indexes of a read's entries, some more and some less, at every key and
 * beside it; and the bytes of a marker, which other implementations read. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/ended.h"
#include "log/offset_index.h"

enum { MOST = 1100, APART = 1 << 21 }; /* keys of all four bytes */

static uint32_t key_of(uint32_t i) { return (i + 1) * APART + i; }

static int open_temporary(void)
{
    int fd = memfd_create("index", 0);
    CHECK(fd >= 0);
    return fd;
}

/* Entries of the offset index and of the time index, whose keys rise alike. */
static void write_entries(int offsets, int times, uint32_t count)
{
    static uint8_t bytes[MOST * MPB_TIME_INDEX_ENTRY_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        mpb_put_be32(bytes + i * MPB_INDEX_ENTRY_BYTES, (int32_t)key_of(i));
        mpb_put_be32(bytes + i * MPB_INDEX_ENTRY_BYTES + 4, (int32_t)(key_of(i) + 5));
    }
    CHECK_EQ(pwrite(offsets, bytes, count * MPB_INDEX_ENTRY_BYTES, 0), count * MPB_INDEX_ENTRY_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        mpb_put_be64(bytes + i * MPB_TIME_INDEX_ENTRY_BYTES, (int64_t)key_of(i) << 20);
        mpb_put_be32(bytes + i * MPB_TIME_INDEX_ENTRY_BYTES + 8, (int32_t)key_of(i));
    }
    CHECK_EQ(pwrite(times, bytes, count * MPB_TIME_INDEX_ENTRY_BYTES, 0), count * MPB_TIME_INDEX_ENTRY_BYTES);
}

/* `at_most`: entries whose key is at most the target. */
static void found_is(int error, const struct mpb_index_hit *hit, uint32_t at_most)
{
    CHECK(error == 0 && hit->found == (at_most > 0) && hit->entries == at_most);
    CHECK(at_most == 0 || hit->relative == key_of(at_most - 1));
}

static void search_all(int offsets, int times, uint32_t count)
{
    const uint64_t bytes = count * MPB_INDEX_ENTRY_BYTES, time_bytes = count * MPB_TIME_INDEX_ENTRY_BYTES;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t beside = 0; beside < 3; beside++) {
            struct mpb_index_hit hit = {0};
            const uint32_t key = key_of(i) + beside - 1, at_most = beside == 0 ? i : i + 1;
            found_is(mpb_offset_index_find(offsets, bytes, key, &hit), &hit, at_most);
            CHECK(at_most == 0 || hit.position == key_of(at_most - 1) + 5);
            hit = (struct mpb_index_hit){0};
            found_is(mpb_time_index_find_offset(times, time_bytes, key, &hit), &hit, at_most);
            hit = (struct mpb_index_hit){0};
            found_is(mpb_time_index_find(times, time_bytes, ((int64_t)key_of(i) << 20) + beside - 1, &hit), &hit,
                     at_most);
            CHECK(at_most == 0 || hit.timestamp == (int64_t)key_of(at_most - 1) << 20);
            hit = (struct mpb_index_hit){0}; /* the first one at or behind a position */
            const uint32_t before = beside == 2 ? i + 1 : i;
            CHECK_EQ(mpb_offset_index_from(offsets, bytes, key + 5, &hit), 0);
            CHECK(hit.entries == before && hit.found == (before < count));
            CHECK(before == count || (hit.relative == key_of(before) && hit.position == key_of(before) + 5));
        }
    struct mpb_index_hit hit = {0};
    CHECK(mpb_offset_index_from(offsets, bytes, 0, &hit) == 0 && hit.found && hit.relative == key_of(0));
    found_is(mpb_time_index_find(times, time_bytes, INT64_MAX, &hit), &hit, count);
}

static void searches(void)
{
    static const uint32_t COUNTS[] = {1, 2, 511, 512, 513, 514, 1024, 1025, MOST};
    for (size_t n = 0; n < sizeof COUNTS / sizeof *COUNTS; n++) {
        int offsets = open_temporary(), times = open_temporary();
        struct mpb_index_hit hit = {0};
        write_entries(offsets, times, COUNTS[n]);
        search_all(offsets, times, COUNTS[n]);
        for (off_t rest = MPB_INDEX_ENTRY_BYTES - 1; rest >= 0; rest -= MPB_INDEX_ENTRY_BYTES - 1) { /* cut off */
            CHECK_EQ(ftruncate(offsets, rest), 0);
            hit.found = true;
            CHECK_EQ(mpb_offset_index_find(offsets, COUNTS[n] * MPB_INDEX_ENTRY_BYTES, 9, &hit), -EBADMSG);
            CHECK(!hit.found);
        }
        hit.entries = 7; /* of another search */
        CHECK(mpb_offset_index_find(offsets, 0, 9, &hit) == 0 && !hit.found && hit.entries == 0);
        close(offsets);
        close(times);
    }
}

/* As Kafka writes it: a control batch of one record, whose key is (version 0, type) and whose value (version 0, epoch of the
 * coordinator). */
static void marker_bytes(bool commit)
{
    const uint8_t record[] = {32, 0, 0, 0, 8, 0, 0, 0, commit, 12, 0, 0, 0x01, 0x02, 0x03, 0x04, 0};
    static struct fixture f;
    uint8_t bytes[MPB_MARKER_BYTES];
    struct mpb_batch_info info;
    struct mpb_read_plan plan;
    struct mpb_append_result result;
    uint32_t length;
    fixture_open(&f);
    fixture_partition(&f, 0);
    const struct mpb_marker marker = {.producer_id = 0x0102030405060708,
                                      .producer_epoch = 9,
                                      .coordinator_epoch = 0x01020304,
                                      .commit = commit,
                                      .now_ms = 0x1112131415,
                                      .leader_epoch = 3,
                                      .entry = MPB_NO_REQUEST};
    mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
    CHECK(result.error == 0 && result.base_offset == 0 && result.end_offset == 1);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, 0, MPB_READ_TO_END, sizeof bytes, true, &plan), 0);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    CHECK(length == sizeof bytes && sizeof bytes == MPB_BATCH_HEADER_BYTES + sizeof record);
    mpb_batch_read(bytes, &info);
    CHECK(mpb_batch_crc_ok(bytes, sizeof bytes) && info.batch_bytes == sizeof bytes && bytes[MPB_BATCH_MAGIC] == 2);
    CHECK_EQ(info.attributes, MPB_ATTRIBUTE_TRANSACTIONAL | MPB_ATTRIBUTE_CONTROL);
    CHECK(info.last_offset_delta == 0 && info.record_count == 1 && info.base_sequence == -1);
    CHECK(info.producer_id == marker.producer_id && info.producer_epoch == 9 && info.leader_epoch == 3);
    CHECK(info.max_timestamp == marker.now_ms && mpb_be64(bytes + MPB_BATCH_BASE_TIMESTAMP) == marker.now_ms);
    CHECK(memcmp(bytes + MPB_BATCH_HEADER_BYTES, record, sizeof record) == 0);
    fixture_close(&f);
}

/* What was cut off holds nothing back, at the front of a log neither. */
static void ended_and_cut(void)
{
    static struct mpb_replicas replicas;
    mpb_ended_note(&replicas, 0, 5, 9);
    CHECK_EQ(mpb_ended_least(&replicas, 0), 5);
    mpb_ended_cut(&replicas, 5);
    CHECK_EQ(mpb_ended_least(&replicas, 0), INT64_MAX);
}

int main(void)
{
    searches();
    marker_bytes(false);
    marker_bytes(true);
    ended_and_cut();
    printf("index_model: %lu checks\n", checks_made);
    return 0;
}
