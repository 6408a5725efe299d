/* Header checks, patches, scanning and the record walk, and all of them on mutated bytes in buffers of their
 * exact size, so that the address sanitizer sees any read beyond them. test_record_batch [frames] [seed] */
#include "tests/stepping/check.h"
#include "record/crc32c.h"
#include "record/record_batch.h"

static const struct mpb_batch_rules RULES = {
    .max_message_bytes = 1048588,
    .produce_version = 7,
    .from_client = true,
    .now_ms = 1000000,
    .timestamp_before_max_ms = INT64_MAX,
    .timestamp_after_max_ms = INT64_MAX,
};

/* Two records: key "k", value "v" and "w", timestamps 900000 and 900005. */
static const uint8_t RECORDS[] = {16, 0, 0, 0, 2, 'k', 2, 'v', 0, 16, 0, 10, 2, 2, 'k', 2, 'w', 0};

static void seal(uint8_t *batch, size_t len)
{
    mpb_put_be32(batch + MPB_BATCH_LENGTH, (int32_t)len - MPB_BATCH_OVERHEAD_BYTES);
    mpb_put_be32(batch + MPB_BATCH_CRC,
                 (int32_t)mpb_crc32c(0, batch + MPB_BATCH_ATTRIBUTES, len - MPB_BATCH_ATTRIBUTES));
}

static size_t good_batch(uint8_t *batch)
{
    memset(batch, 0, MPB_BATCH_HEADER_BYTES);
    mpb_put_be32(batch + MPB_BATCH_LEADER_EPOCH, -1);
    batch[MPB_BATCH_MAGIC] = 2;
    mpb_put_be32(batch + MPB_BATCH_LAST_OFFSET_DELTA, 1);
    mpb_put_be64(batch + MPB_BATCH_BASE_TIMESTAMP, 900000);
    mpb_put_be64(batch + MPB_BATCH_MAX_TIMESTAMP, 900005);
    mpb_put_be64(batch + MPB_BATCH_PRODUCER_ID, -1);
    mpb_put_be16(batch + MPB_BATCH_PRODUCER_EPOCH, -1);
    mpb_put_be32(batch + MPB_BATCH_BASE_SEQUENCE, -1);
    mpb_put_be32(batch + MPB_BATCH_RECORD_COUNT, 2);
    memcpy(batch + MPB_BATCH_HEADER_BYTES, RECORDS, sizeof RECORDS);
    seal(batch, MPB_BATCH_HEADER_BYTES + sizeof RECORDS);
    return MPB_BATCH_HEADER_BYTES + sizeof RECORDS;
}

static void test_check_and_walk(void)
{
    uint8_t batch[128];
    struct mpb_batch_info info;
    struct mpb_records_info records;
    size_t len = good_batch(batch);
    CHECK_EQ(mpb_batch_check(batch, len, &RULES, &info), 0);
    CHECK_EQ(info.batch_bytes, len);
    CHECK_EQ(info.records_len, sizeof RECORDS);
    CHECK_EQ(info.record_count, 2);
    CHECK_EQ(info.producer_id, -1);
    CHECK_EQ(info.max_timestamp, 900005);
    CHECK_EQ(mpb_records_check(info.records, info.records_len, &info, &RULES, &records), 0);
    CHECK_EQ(records.max_timestamp, 900005);
    CHECK_EQ(records.max_timestamp_delta, 1);
    CHECK_EQ(records.bad_record, -1);
    struct mpb_batch_rules narrow = RULES;
    narrow.timestamp_before_max_ms = 99996;
    CHECK_EQ(mpb_records_check(info.records, info.records_len, &info, &narrow, &records), MPB_ERR_INVALID_TIMESTAMP);
    CHECK_EQ(records.bad_record, 0);
    struct mpb_refused_record refused[2];
    CHECK_EQ(mpb_records_refused(info.records, info.records_len, &info, &RULES, refused, 2), 0);
    CHECK_EQ(mpb_records_refused(info.records, info.records_len, &info, &narrow, refused, 2), 1);
    CHECK_EQ(refused[0].index, 0);
    CHECK_EQ(refused[0].error, MPB_ERR_INVALID_TIMESTAMP);
    CHECK_EQ(refused[0].timestamp, 900000);
    CHECK_EQ(mpb_records_refused(info.records, info.records_len - 1, &info, &narrow, refused, 2), 0);
    narrow.timestamp_before_max_ms = 1;
    CHECK_EQ(mpb_records_refused(info.records, info.records_len, &info, &narrow, refused, 1), 2);
    CHECK_EQ(mpb_records_check(info.records, info.records_len - 1, &info, &RULES, &records), MPB_ERR_INVALID_RECORD);
    CHECK_EQ(records.bad_record, 1);
    batch[len - 1] ^= 1;
    CHECK_EQ(mpb_batch_check(batch, len, &RULES, &info), MPB_ERR_CORRUPT_MESSAGE);
    batch[MPB_BATCH_MAGIC] = 1;
    CHECK_EQ(mpb_batch_check(batch, len, &RULES, &info), MPB_ERR_INVALID_RECORD);
}

static void test_patch(void)
{
    uint8_t batch[128], header[MPB_BATCH_HEADER_BYTES], stored[128];
    struct mpb_batch_info info;
    size_t len = good_batch(batch);
    mpb_batch_patch_header(batch, len, header, 1234567890123, 7, MPB_NO_TIMESTAMP);
    memcpy(stored, batch, len);
    memcpy(stored, header, sizeof header);
    CHECK(mpb_batch_crc_ok(stored, len));
    mpb_batch_read(stored, &info);
    CHECK_EQ(info.base_offset, 1234567890123);
    CHECK_EQ(info.leader_epoch, 7);
    CHECK_EQ(info.attributes, 0);
    mpb_batch_patch_header(batch, len, header, 5, 7, 1000000);
    memcpy(stored, header, sizeof header);
    CHECK(mpb_batch_crc_ok(stored, len));
    mpb_batch_read(stored, &info);
    CHECK_EQ(info.attributes, MPB_ATTRIBUTE_LOG_APPEND_TIME);
    CHECK_EQ(info.max_timestamp, 1000000);
    mpb_batch_patch_timestamp(batch, len, header, false, 900005);
    memcpy(stored, header, sizeof header);
    CHECK(mpb_batch_crc_ok(stored, len));
    CHECK_EQ(mpb_be32(stored + MPB_BATCH_CRC), mpb_be32(batch + MPB_BATCH_CRC));
}

static void test_scan(void)
{
    uint8_t log[400];
    struct mpb_batch_info info;
    size_t len = good_batch(log), need;
    for (size_t i = 1; i < 3; i++)
        mpb_batch_patch_header(memcpy(log + i * len, log, len), len, log + i * len, (int64_t)(2 * i), 0,
                               MPB_NO_TIMESTAMP);
    struct mpb_batch_scan scan = {log, 3 * len, 0, true};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(mpb_batch_scan_next(&scan, &info, &need), MPB_SCAN_BATCH);
        CHECK_EQ(info.base_offset, 2 * i);
    }
    CHECK_EQ(mpb_batch_scan_next(&scan, &info, &need), MPB_SCAN_END);
    for (size_t cut = 1; cut < len; cut++) {
        scan = (struct mpb_batch_scan){log, 2 * len + cut, 2 * len, true};
        CHECK_EQ(mpb_batch_scan_next(&scan, &info, &need), MPB_SCAN_PARTIAL);
        CHECK_EQ(need, cut <= MPB_BATCH_MAGIC ? MPB_BATCH_HEADER_BYTES : len);
        CHECK_EQ(scan.pos, 2 * len);
    }
    log[2 * len - 1] ^= 1;
    scan = (struct mpb_batch_scan){log, 3 * len, len, true};
    CHECK_EQ(mpb_batch_scan_next(&scan, &info, &need), MPB_SCAN_CORRUPT);
    CHECK_EQ(scan.pos, len);
    memset(log, 0, sizeof log);
    scan = (struct mpb_batch_scan){log, sizeof log, 0, true};
    CHECK_EQ(mpb_batch_scan_next(&scan, &info, &need), MPB_SCAN_CORRUPT);
}

/* A mutated batch in a buffer of exactly its size; two of three get their length and checksum put right again, so
 * that the walk behind the checksum is reached. Returns whether the whole batch was accepted. */
static int fuzz_once(uint64_t *state)
{
    uint8_t source[256];
    size_t len = good_batch(source);
    int changes = (int)(next_random(state) % 4);
    while (changes--)
        source[next_random(state) % len] = (uint8_t)next_random(state);
    if (next_random(state) % 4 == 0)
        len = next_random(state) % (len + 1);
    uint8_t *exact = malloc(len ? len : 1);
    memcpy(exact, source, len);
    if (len >= MPB_BATCH_HEADER_BYTES && next_random(state) % 3)
        seal(exact, len);
    struct mpb_batch_info info;
    struct mpb_records_info records;
    size_t need;
    struct mpb_batch_scan scan = {exact, len, 0, next_random(state) % 2};
    while (mpb_batch_scan_next(&scan, &info, &need) == MPB_SCAN_BATCH)
        CHECK(scan.pos <= len);
    int error = mpb_batch_check(exact, len, &RULES, &info);
    if (!error) {
        CHECK(info.records + info.records_len <= exact + len);
        int32_t delta;
        int64_t timestamp;
        mpb_records_find_timestamp(info.records, info.records_len, &info, INT64_MAX, &delta, &timestamp);
        error = mpb_records_check(info.records, info.records_len, &info, &RULES, &records);
    }
    free(exact);
    return !error;
}

int main(int argc, char **argv)
{
    unsigned long frames = argc > 1 ? strtoul(argv[1], NULL, 10) : 300000, accepted = 0;
    uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 1;
    test_check_and_walk();
    test_patch();
    test_scan();
    for (unsigned long i = 0; i < frames; i++)
        accepted += (unsigned long)fuzz_once(&state);
    CHECK(accepted > frames / 50 && accepted < frames);
    printf("record_batch: %lu checks, %lu mutated batches, %lu accepted (crc32c %s)\n", checks_made, frames, accepted,
           mpb_crc32c_implementation());
    return 0;
}
