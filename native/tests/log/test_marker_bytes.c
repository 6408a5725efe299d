/* The bytes of a marker, which other implementations read. */
#include "tests/log/append_scenarios.h"

#include "log/log_read.h"

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

int main(void)
{
    marker_bytes(false);
    marker_bytes(true);
    printf("marker_bytes: %lu checks\n", checks_made);
    return 0;
}
