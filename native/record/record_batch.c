/* Batch headers: what a leader checks, patches and scans. The order of the checks and their codes are those that
 * Apache Kafka 3.9 answers to the same bytes, including the ones where it answers UNKNOWN_SERVER_ERROR because a read
 * ran past the end: tests/unit/record/test_validation.py has the table. */
#include "record/record_batch.h"

#include "record/crc32c.h"

/* The smallest value of the length field in any format: what follows it in a format-0 message without key or value. */
#define MIN_LENGTH_FIELD 14
#define LAST_PRODUCER_ID_BYTE 51
#define FIRST_VERSION_WITH_ZSTD 7

void mpb_batch_read(const uint8_t *p, struct mpb_batch_info *info)
{
    info->batch_bytes = (uint32_t)mpb_be32(p + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES;
    info->records = p + MPB_BATCH_HEADER_BYTES;
    info->records_len = info->batch_bytes - MPB_BATCH_HEADER_BYTES;
    info->crc = (uint32_t)mpb_be32(p + MPB_BATCH_CRC);
    info->base_offset = mpb_be64(p + MPB_BATCH_BASE_OFFSET);
    info->base_timestamp = mpb_be64(p + MPB_BATCH_BASE_TIMESTAMP);
    info->max_timestamp = mpb_be64(p + MPB_BATCH_MAX_TIMESTAMP);
    info->producer_id = mpb_be64(p + MPB_BATCH_PRODUCER_ID);
    info->leader_epoch = mpb_be32(p + MPB_BATCH_LEADER_EPOCH);
    info->last_offset_delta = mpb_be32(p + MPB_BATCH_LAST_OFFSET_DELTA);
    info->base_sequence = mpb_be32(p + MPB_BATCH_BASE_SEQUENCE);
    info->record_count = mpb_be32(p + MPB_BATCH_RECORD_COUNT);
    info->producer_epoch = mpb_be16(p + MPB_BATCH_PRODUCER_EPOCH);
    info->attributes = mpb_be16(p + MPB_BATCH_ATTRIBUTES);
    info->codec = info->attributes & MPB_CODEC_MASK;
}

bool mpb_batch_crc_ok(const uint8_t *p, size_t batch_len)
{
    if (batch_len < MPB_BATCH_HEADER_BYTES)
        return false;
    return mpb_crc32c(0, p + MPB_BATCH_ATTRIBUTES, batch_len - MPB_BATCH_ATTRIBUTES) ==
           (uint32_t)mpb_be32(p + MPB_BATCH_CRC);
}

/* Sets *batch_len to the bytes of the batch or old message at `p`, to 0 if there are too few bytes for one. */
static int next_batch(const uint8_t *p, size_t len, size_t *batch_len)
{
    *batch_len = 0;
    if (len < MPB_BATCH_OVERHEAD_BYTES)
        return MPB_ERR_NONE;
    int32_t length = mpb_be32(p + MPB_BATCH_LENGTH);
    if (length < MIN_LENGTH_FIELD)
        return MPB_ERR_CORRUPT_MESSAGE;
    if (len <= MPB_BATCH_MAGIC)
        return MPB_ERR_NONE;
    if (p[MPB_BATCH_MAGIC] > 2)
        return MPB_ERR_CORRUPT_MESSAGE;
    if (length > INT32_MAX - MPB_BATCH_OVERHEAD_BYTES)
        return MPB_ERR_UNKNOWN_SERVER_ERROR;
    if ((size_t)length + MPB_BATCH_OVERHEAD_BYTES <= len)
        *batch_len = (size_t)length + MPB_BATCH_OVERHEAD_BYTES;
    return MPB_ERR_NONE;
}

int mpb_batch_peek(const uint8_t *p, size_t len, bool *transactional)
{
    size_t batch_len;
    *transactional = false;
    int error = next_batch(p, len, &batch_len);
    if (error || !batch_len || p[MPB_BATCH_MAGIC] < 2)
        return error;
    *transactional = mpb_be16(p + MPB_BATCH_ATTRIBUTES) & MPB_ATTRIBUTE_TRANSACTIONAL;
    return MPB_ERR_NONE;
}

int mpb_batch_check_request(const uint8_t *p, size_t len, const struct mpb_batch_rules *rules, size_t *batch_len)
{
    size_t second_len;
    int error = next_batch(p, len, batch_len);
    if (error)
        return error;
    if (!*batch_len || p[MPB_BATCH_MAGIC] != 2)
        return MPB_ERR_INVALID_RECORD;
    if (rules->produce_version < FIRST_VERSION_WITH_ZSTD) {
        int codec = mpb_be16(p + MPB_BATCH_ATTRIBUTES) & MPB_CODEC_MASK;
        if (codec > MPB_CODEC_ZSTD)
            return MPB_ERR_UNKNOWN_SERVER_ERROR;
        if (codec == MPB_CODEC_ZSTD)
            return MPB_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    }
    error = next_batch(p + *batch_len, len - *batch_len, &second_len);
    if (error || second_len)
        return error ? error : MPB_ERR_INVALID_RECORD;
    return *batch_len < LAST_PRODUCER_ID_BYTE ? MPB_ERR_UNKNOWN_SERVER_ERROR : MPB_ERR_NONE;
}

int mpb_batch_check_append(const uint8_t *p, size_t batch_len, const struct mpb_batch_rules *rules,
                           struct mpb_batch_info *out)
{
    struct mpb_batch_info info;
    if (batch_len < LAST_PRODUCER_ID_BYTE)
        return MPB_ERR_UNKNOWN_SERVER_ERROR;
    if (rules->from_client && mpb_be64(p + MPB_BATCH_BASE_OFFSET) != 0)
        return MPB_ERR_INVALID_RECORD;
    if (rules->max_message_bytes > 0 && batch_len > (size_t)rules->max_message_bytes)
        return MPB_ERR_MESSAGE_TOO_LARGE;
    if (!mpb_batch_crc_ok(p, batch_len))
        return MPB_ERR_CORRUPT_MESSAGE;
    mpb_batch_read(p, &info);
    if (info.codec > MPB_CODEC_ZSTD)
        return MPB_ERR_UNKNOWN_SERVER_ERROR;
    if (rules->from_client) {
        if (info.record_count <= 0 || info.last_offset_delta != info.record_count - 1)
            return MPB_ERR_INVALID_RECORD;
        if (info.attributes & MPB_ATTRIBUTE_CONTROL)
            return MPB_ERR_INVALID_RECORD;
        if (info.producer_id >= 0 && info.base_sequence < 0)
            return MPB_ERR_INVALID_RECORD;
    } else if (info.record_count < 0 || info.last_offset_delta < 0) {
        return MPB_ERR_INVALID_RECORD;
    }
    *out = info;
    return MPB_ERR_NONE;
}

int mpb_batch_check(const uint8_t *p, size_t len, const struct mpb_batch_rules *rules, struct mpb_batch_info *out)
{
    bool transactional;
    size_t batch_len;
    int error = mpb_batch_peek(p, len, &transactional);
    if (!error)
        error = mpb_batch_check_request(p, len, rules, &batch_len);
    return error ? error : mpb_batch_check_append(p, batch_len, rules, out);
}

void mpb_batch_patch_timestamp(const uint8_t *batch, size_t len, uint8_t header[MPB_BATCH_HEADER_BYTES],
                               bool log_append_time, int64_t max_timestamp_ms)
{
    int16_t old = mpb_be16(header + MPB_BATCH_ATTRIBUTES);
    int16_t attributes = (int16_t)((old & ~MPB_ATTRIBUTE_LOG_APPEND_TIME) |
                                   (log_append_time ? MPB_ATTRIBUTE_LOG_APPEND_TIME : 0));
    if (attributes == old && mpb_be64(header + MPB_BATCH_MAX_TIMESTAMP) == max_timestamp_ms)
        return;
    mpb_put_be16(header + MPB_BATCH_ATTRIBUTES, attributes);
    mpb_put_be64(header + MPB_BATCH_MAX_TIMESTAMP, max_timestamp_ms);
    uint32_t crc = mpb_crc32c(0, header + MPB_BATCH_ATTRIBUTES, MPB_BATCH_HEADER_BYTES - MPB_BATCH_ATTRIBUTES);
    crc = mpb_crc32c(crc, batch + MPB_BATCH_HEADER_BYTES, len - MPB_BATCH_HEADER_BYTES);
    mpb_put_be32(header + MPB_BATCH_CRC, (int32_t)crc);
}

void mpb_batch_patch_header(const uint8_t *batch, size_t len, uint8_t out[MPB_BATCH_HEADER_BYTES], int64_t base_offset,
                            int32_t leader_epoch, int64_t log_append_time_ms)
{
    memcpy(out, batch, MPB_BATCH_HEADER_BYTES);
    mpb_put_be64(out + MPB_BATCH_BASE_OFFSET, base_offset);
    mpb_put_be32(out + MPB_BATCH_LEADER_EPOCH, leader_epoch);
    if (log_append_time_ms != MPB_NO_TIMESTAMP)
        mpb_batch_patch_timestamp(batch, len, out, true, log_append_time_ms);
}

enum mpb_scan_result mpb_batch_scan_next(struct mpb_batch_scan *scan, struct mpb_batch_info *out, size_t *need)
{
    const uint8_t *p = scan->data + scan->pos;
    size_t left = scan->len - scan->pos;
    *need = MPB_BATCH_HEADER_BYTES;
    if (!left)
        return MPB_SCAN_END;
    if (left <= MPB_BATCH_MAGIC)
        return MPB_SCAN_PARTIAL;
    int32_t length = mpb_be32(p + MPB_BATCH_LENGTH);
    if (p[MPB_BATCH_MAGIC] != 2 || length < MPB_BATCH_HEADER_BYTES - MPB_BATCH_OVERHEAD_BYTES ||
        length > INT32_MAX - MPB_BATCH_OVERHEAD_BYTES || mpb_be64(p + MPB_BATCH_BASE_OFFSET) < 0)
        return MPB_SCAN_CORRUPT;
    *need = (size_t)length + MPB_BATCH_OVERHEAD_BYTES;
    if (left >= MPB_BATCH_HEADER_BYTES) {
        mpb_batch_read(p, out);
        if (out->last_offset_delta < 0 || out->record_count < 0 ||
            out->base_offset > INT64_MAX - 1 - out->last_offset_delta)
            return MPB_SCAN_CORRUPT;
    }
    if (left < *need)
        return MPB_SCAN_PARTIAL;
    if (scan->check_crc && !mpb_batch_crc_ok(p, *need))
        return MPB_SCAN_CORRUPT;
    scan->pos += *need;
    return MPB_SCAN_BATCH;
}
