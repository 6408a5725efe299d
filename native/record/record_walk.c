/* The records inside a batch. Each field is a zig-zag varint or bytes counted by one; nothing is read beyond `end`,
 * and a count leads to no allocation. */
#include "record/record_batch.h"

/* A varint takes at most 5 bytes, a varlong at most 10; bits beyond the width are dropped. 0 and *out, or -1. */
static inline int read_varlong(const uint8_t **p, const uint8_t *end, int max_bytes, int64_t *out)
{
    uint64_t v = 0;
    const uint8_t *q = *p;
    for (int i = 0; i < max_bytes; i++) {
        if (q == end)
            return -1;
        uint8_t byte = *q++;
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *p = q;
            *out = (int64_t)(v >> 1 ^ (0 - (v & 1)));
            return 0;
        }
    }
    return -1;
}

static inline int read_varint(const uint8_t **p, const uint8_t *end, int32_t *out)
{
    uint32_t v = 0;
    const uint8_t *q = *p;
    for (int i = 0; i < 5; i++) {
        if (q == end)
            return -1;
        uint8_t byte = *q++;
        v |= (uint32_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *p = q;
            *out = (int32_t)(v >> 1 ^ (0 - (v & 1)));
            return 0;
        }
    }
    return -1;
}

/* A length and that many bytes; a negative length is null and has none. */
static inline int read_bytes(const uint8_t **p, const uint8_t *end, int32_t *len, const uint8_t **bytes)
{
    if (read_varint(p, end, len))
        return -1;
    *bytes = *p;
    if (*len > 0) {
        if (*len > end - *p)
            return -1;
        *p += *len;
    }
    return 0;
}

int mpb_record_header_read(const uint8_t **at, const uint8_t *end, int32_t *key_len, const uint8_t **key,
                           int32_t *value_len, const uint8_t **value)
{
    if (read_bytes(at, end, key_len, key) || *key_len < 0)
        return -1;
    return read_bytes(at, end, value_len, value);
}

static int read_headers(const uint8_t **p, const uint8_t *end, int32_t count)
{
    int32_t key_len, value_len;
    const uint8_t *key, *value;
    if (count < 0 || count > end - *p)
        return -1;
    for (int32_t i = 0; i < count; i++)
        if (mpb_record_header_read(p, end, &key_len, &key, &value_len, &value))
            return -1;
    return 0;
}

int mpb_record_read(const uint8_t *p, const uint8_t *end, bool exact, struct mpb_record *out)
{
    int32_t body_len;
    const uint8_t *at = p;
    if (read_varint(&at, end, &body_len))
        return exact && end - p >= 5 ? MPB_ERR_UNKNOWN_SERVER_ERROR : MPB_ERR_INVALID_RECORD;
    const uint8_t *body = at;
    if (exact) {
        if (body_len < 0 || body_len > end - body)
            return MPB_ERR_INVALID_RECORD;
        end = body + body_len;
    }
    if (at == end)
        return MPB_ERR_INVALID_RECORD;
    at++; /* attributes of a record: unused */
    if (read_varlong(&at, end, 10, &out->timestamp_delta) || read_varint(&at, end, &out->offset_delta) ||
        read_bytes(&at, end, &out->key_len, &out->key) || read_bytes(&at, end, &out->value_len, &out->value) ||
        read_varint(&at, end, &out->header_count))
        return MPB_ERR_INVALID_RECORD;
    out->headers = at;
    if (read_headers(&at, end, out->header_count))
        return MPB_ERR_INVALID_RECORD;
    if (exact && at != end)
        return MPB_ERR_INVALID_RECORD;
    out->next = at;
    return MPB_ERR_NONE;
}

/* Differences wrap like Kafka's, so that any 64 bits a client sends have a defined answer. */
static int64_t wrapping_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

int64_t mpb_record_timestamp(const struct mpb_record *record, const struct mpb_batch_info *info)
{
    if (info->attributes & MPB_ATTRIBUTE_LOG_APPEND_TIME)
        return info->max_timestamp;
    return (int64_t)((uint64_t)info->base_timestamp + (uint64_t)record->timestamp_delta);
}

static int check_timestamp(int64_t timestamp, bool batch_log_append_time, const struct mpb_batch_rules *rules)
{
    if (rules->log_append_time || timestamp == MPB_NO_TIMESTAMP)
        return batch_log_append_time ? MPB_ERR_INVALID_TIMESTAMP : MPB_ERR_NONE;
    int64_t age = wrapping_sub(rules->now_ms, timestamp);
    if (age > 0 && age > rules->timestamp_before_max_ms)
        return MPB_ERR_INVALID_TIMESTAMP;
    if (age < 0 && wrapping_sub(0, age) > rules->timestamp_after_max_ms)
        return MPB_ERR_INVALID_TIMESTAMP;
    return MPB_ERR_NONE;
}

/* What a record says, as opposed to how it is built. */
static int check_record(const struct mpb_record *record, int64_t timestamp, const struct mpb_batch_info *info,
                        const struct mpb_batch_rules *rules)
{
    if (rules->compacted && record->key_len < 0)
        return MPB_ERR_INVALID_RECORD;
    return check_timestamp(timestamp, (info->attributes & MPB_ATTRIBUTE_LOG_APPEND_TIME) != 0, rules);
}

int32_t mpb_records_refused(const uint8_t *records, size_t len, const struct mpb_batch_info *info,
                            const struct mpb_batch_rules *rules, struct mpb_refused_record *out, int32_t most)
{
    const uint8_t *p = records, *end = records + len;
    int32_t found = 0;
    for (int32_t i = 0; i < info->record_count; i++) {
        struct mpb_record record;
        if (mpb_record_read(p, end, info->codec == MPB_CODEC_NONE, &record))
            return 0;
        p = record.next;
        int64_t timestamp = mpb_record_timestamp(&record, info);
        int error = check_record(&record, timestamp, info, rules);
        if (error && found++ < most)
            out[found - 1] = (struct mpb_refused_record){i, error, timestamp};
    }
    return p == end ? found : 0;
}

int mpb_records_check(const uint8_t *records, size_t len, const struct mpb_batch_info *info,
                      const struct mpb_batch_rules *rules, struct mpb_records_info *out)
{
    const uint8_t *p = records, *end = records + len;
    const bool exact = info->codec == MPB_CODEC_NONE;
    bool offsets_consecutive = true;
    int refused = MPB_ERR_NONE; /* by what a record says; a broken structure further on counts for more */
    *out = (struct mpb_records_info){MPB_NO_TIMESTAMP, -1, -1};
    for (int32_t i = 0; i < info->record_count; i++) {
        struct mpb_record record;
        int error = mpb_record_read(p, end, exact, &record);
        if (error) {
            out->bad_record = i;
            return error;
        }
        p = record.next;
        offsets_consecutive &= record.offset_delta == i;
        int64_t timestamp = mpb_record_timestamp(&record, info);
        error = check_record(&record, timestamp, info, rules);
        if (error) {
            if (out->bad_record < 0)
                out->bad_record = i;
            if (refused != MPB_ERR_INVALID_TIMESTAMP)
                refused = error;
        } else if (timestamp > out->max_timestamp) {
            out->max_timestamp = timestamp;
            out->max_timestamp_delta = i;
        }
    }
    if (p != end) {
        out->bad_record = info->record_count;
        return MPB_ERR_INVALID_RECORD;
    }
    if (refused)
        return refused;
    return exact || offsets_consecutive ? MPB_ERR_NONE : MPB_ERR_UNKNOWN_SERVER_ERROR;
}

int mpb_records_find_timestamp(const uint8_t *records, size_t len, const struct mpb_batch_info *info, int64_t target_ms,
                               int32_t *offset_delta, int64_t *timestamp)
{
    const uint8_t *p = records, *end = records + len;
    for (int32_t i = 0; i < info->record_count && p < end; i++) {
        struct mpb_record record;
        if (mpb_record_read(p, end, false, &record))
            return MPB_ERR_INVALID_RECORD;
        *timestamp = mpb_record_timestamp(&record, info);
        *offset_delta = record.offset_delta;
        if (*timestamp >= target_ms)
            return MPB_ERR_NONE;
        p = record.next;
    }
    return 1;
}
