#include "record/compaction.h"

#include "record/crc32c.h"
#include "record/marker_read.h"

/* Stored compressed records were only looked at from field to field, uncompressed ones also by their lengths. */
static bool read_record(const struct mpb_batch_info *info, const uint8_t *at, const uint8_t *end,
                        struct mpb_record *out)
{
    return mpb_record_read(at, end, info->codec == MPB_CODEC_NONE, out) == 0;
}

/* Uncompressed batches may name any offset delta: whatever a producer wrote, a record lies within its batch, or it would
 * make other producers' newer records look old. */
static int64_t offset_of(const struct mpb_batch_info *info, const struct mpb_record *record)
{
    int32_t delta = record->offset_delta < 0 ? 0 : record->offset_delta;
    return info->base_offset + (delta > info->last_offset_delta ? info->last_offset_delta : delta);
}

/* ------------------------------------------------------------------ aborted transactions */
bool mpb_batch_is_aborted(const struct mpb_aborted_ranges *aborted, const struct mpb_batch_info *info)
{
    size_t low = 0, high = aborted->count; /* those before `low` begin at or before the batch, or are of smaller ids */
    if ((info->attributes & MPB_ATTRIBUTE_TRANSACTIONAL) == 0 || (info->attributes & MPB_ATTRIBUTE_CONTROL) != 0)
        return false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct mpb_aborted_range *range = &aborted->range[middle];
        if (range->producer_id < info->producer_id ||
            (range->producer_id == info->producer_id && range->first_offset <= info->base_offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && aborted->range[low - 1].producer_id == info->producer_id &&
           info->base_offset < aborted->range[low - 1].last_offset;
}

/* ------------------------------------------------------------------ keys */
enum mpb_compaction_stop mpb_compaction_learn_batch(struct mpb_key_map *map, const struct mpb_batch_info *info,
                                                    const uint8_t *records, size_t length, int64_t from)
{
    const uint8_t *at = records, *end = records + length;
    for (int32_t i = 0; i < info->record_count; i++) {
        struct mpb_record record;
        if (!read_record(info, at, end, &record))
            return MPB_COMPACT_CORRUPT;
        at = record.next;
        int64_t offset = offset_of(info, &record);
        if (record.key_len < 0 || offset < from)
            continue;
        if (!mpb_key_map_put(map, record.key, (size_t)record.key_len, offset))
            return MPB_COMPACT_FULL;
    }
    return MPB_COMPACT_END;
}

enum mpb_compaction_stop mpb_compaction_learn(struct mpb_key_map *map, const struct mpb_aborted_ranges *aborted,
                                              const uint8_t *bytes, size_t length, size_t *at, int64_t from,
                                              int64_t until)
{
    struct mpb_batch_scan scan = {bytes, length, *at, true};
    struct mpb_batch_info info;
    size_t need;
    for (;; *at = scan.pos) {
        enum mpb_scan_result found = mpb_batch_scan_next(&scan, &info, &need);
        if (found != MPB_SCAN_BATCH)
            return found == MPB_SCAN_CORRUPT ? MPB_COMPACT_CORRUPT : MPB_COMPACT_END;
        if (info.base_offset >= until)
            return MPB_COMPACT_UNTIL;
        if ((info.attributes & MPB_ATTRIBUTE_CONTROL) != 0 || info.base_offset + info.last_offset_delta < from ||
            mpb_batch_is_aborted(aborted, &info))
            continue;
        if (info.codec != MPB_CODEC_NONE)
            return MPB_COMPACT_COMPRESSED;
        enum mpb_compaction_stop stop = mpb_compaction_learn_batch(map, &info, info.records, info.records_len, from);
        if (stop != MPB_COMPACT_END)
            return stop;
    }
}

/* ------------------------------------------------------------------ batches */
static bool is_last_of_producer(const struct mpb_compaction *rules, const struct mpb_batch_info *info)
{
    size_t low = 0, high = rules->producer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rules->producers[middle].producer_id < info->producer_id)
            low = middle + 1;
        else
            high = middle;
    }
    return info->producer_id >= 0 && low < rules->producer_count &&
           rules->producers[low].producer_id == info->producer_id &&
           rules->producers[low].last_offset <= info->base_offset + info->last_offset_delta;
}

/* A record without a key has no place in a compacted log; one that is newest of its key stays, a tombstone until its
 * horizon has passed. */
static bool stays(const struct mpb_compaction *rules, const struct mpb_batch_info *info,
                  const struct mpb_record *record)
{
    if (record->key_len < 0)
        return false;
    if (mpb_key_map_get(rules->map, record->key, (size_t)record->key_len) > offset_of(info, record))
        return false;
    return record->value_len >= 0 || (info->attributes & MPB_ATTRIBUTE_DELETE_HORIZON) == 0 ||
           rules->now_ms < info->base_timestamp;
}

struct tally {
    int32_t kept;
    bool tombstone; /* among those that stay */
    int64_t max_timestamp;
};

static bool count_those_that_stay(const struct mpb_compaction *rules, const struct mpb_batch_info *info,
                                  const uint8_t *records, size_t length, struct tally *out)
{
    const uint8_t *at = records, *end = records + length;
    *out = (struct tally){0, false, MPB_NO_TIMESTAMP};
    for (int32_t i = 0; i < info->record_count; i++) {
        struct mpb_record record;
        if (!read_record(info, at, end, &record))
            return false;
        at = record.next;
        if (!stays(rules, info, &record))
            continue;
        int64_t timestamp = mpb_record_timestamp(&record, info);
        out->kept++;
        out->tombstone |= record.value_len < 0;
        out->max_timestamp = timestamp > out->max_timestamp ? timestamp : out->max_timestamp;
    }
    return at == end;
}

static uint8_t *put_varlong(uint8_t *out, int64_t value)
{
    uint64_t rest = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; rest >= 0x80; rest >>= 7)
        *out++ = (uint8_t)(rest | 0x80);
    *out++ = (uint8_t)rest;
    return out;
}

static size_t varlong_bytes(int64_t value)
{
    uint8_t bytes[10];
    return (size_t)(put_varlong(bytes, value) - bytes);
}

/* Skips a varint of a record that was read before. */
static const uint8_t *skip_varint(const uint8_t *at)
{
    while (*at++ >= 0x80)
        ;
    return at;
}

/* A record whose timestamp counts from the horizon: attributes, delta, and the rest as it was. */
static uint8_t *put_with_delta(uint8_t *out, const uint8_t *begin, const struct mpb_record *record, int64_t delta)
{
    const uint8_t *attributes = skip_varint(begin);
    const uint8_t *rest = skip_varint(attributes + 1);
    size_t rest_length = (size_t)(record->next - rest);
    out = put_varlong(out, (int64_t)(1 + varlong_bytes(delta) + rest_length));
    *out++ = *attributes;
    out = put_varlong(out, delta);
    memcpy(out, rest, rest_length);
    return out + rest_length;
}

static uint8_t *put_those_that_stay(const struct mpb_compaction *rules, const struct mpb_batch_info *info,
                                    const uint8_t *records, size_t length, bool set_horizon, int64_t horizon_ms,
                                    uint8_t *out)
{
    const uint8_t *at = records, *end = records + length;
    for (int32_t i = 0; i < info->record_count; i++) {
        struct mpb_record record;
        const uint8_t *begin = at;
        read_record(info, at, end, &record);
        at = record.next;
        if (!stays(rules, info, &record))
            continue;
        if (set_horizon) {
            uint64_t delta = (uint64_t)mpb_record_timestamp(&record, info) - (uint64_t)horizon_ms;
            out = put_with_delta(out, begin, &record, (int64_t)delta);
        } else {
            memcpy(out, begin, (size_t)(at - begin));
            out += at - begin;
        }
    }
    return out;
}

void mpb_compaction_seal(uint8_t *batch, size_t length)
{
    mpb_put_be32(batch + MPB_BATCH_LENGTH, (int32_t)(length - MPB_BATCH_OVERHEAD_BYTES));
    mpb_put_be32(batch + MPB_BATCH_CRC,
                 (int32_t)mpb_crc32c(0, batch + MPB_BATCH_ATTRIBUTES, length - MPB_BATCH_ATTRIBUTES));
}

/* Nothing, but for a producer's last batch, which says its sequence. */
static enum mpb_compaction_verdict without_records(const struct mpb_compaction *rules,
                                                   const struct mpb_batch_info *info, const uint8_t *header,
                                                   uint8_t *out, size_t *out_length)
{
    if (!is_last_of_producer(rules, info))
        return MPB_COMPACT_DROP;
    if (info->record_count == 0)
        return MPB_COMPACT_KEEP;
    memcpy(out, header, MPB_BATCH_HEADER_BYTES);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, 0);
    *out_length = MPB_BATCH_HEADER_BYTES;
    mpb_compaction_seal(out, *out_length);
    return MPB_COMPACT_REWRITE;
}

/* ------------------------------------------------------------------ markers */
/* Its one record as it was; readers who are in the middle of the transaction have until then to get there. */
static enum mpb_compaction_verdict begin_its_time(const struct mpb_compaction *rules, const struct mpb_batch_info *info,
                                                  const uint8_t *header, const uint8_t *records, size_t length,
                                                  uint8_t *out, size_t *out_length)
{
    struct mpb_record record;
    int64_t horizon_ms = rules->now_ms + rules->delete_retention_ms;
    if (!read_record(info, records, records + length, &record))
        return MPB_COMPACT_BROKEN;
    uint64_t delta = (uint64_t)mpb_record_timestamp(&record, info) - (uint64_t)horizon_ms;
    memcpy(out, header, MPB_BATCH_HEADER_BYTES);
    uint8_t *end = put_with_delta(out + MPB_BATCH_HEADER_BYTES, records, &record, (int64_t)delta);
    mpb_put_be16(out + MPB_BATCH_ATTRIBUTES, (int16_t)(info->attributes | MPB_ATTRIBUTE_DELETE_HORIZON));
    mpb_put_be64(out + MPB_BATCH_BASE_TIMESTAMP, horizon_ms);
    *out_length = (size_t)(end - out);
    mpb_compaction_seal(out, *out_length);
    return MPB_COMPACT_REWRITE;
}

/* A producer's newest stays: it holds the epoch, and the transaction's end where its last batch stayed. */
static enum mpb_compaction_verdict marker(const struct mpb_compaction *rules, const struct mpb_batch_info *info,
                                          const uint8_t *header, const uint8_t *records, size_t length, uint8_t *out,
                                          size_t *out_length)
{
    int16_t type;
    int32_t coordinator_epoch;
    struct mpb_batch_info whole = *info;
    whole.records = records;
    whole.records_len = length;
    if (rules->open == NULL || !mpb_marker_read(&whole, &type, &coordinator_epoch))
        return MPB_COMPACT_KEEP;
    bool something_left = mpb_producer_set_take(rules->open, info->producer_id);
    if (something_left || is_last_of_producer(rules, info))
        return MPB_COMPACT_KEEP;
    if ((info->attributes & MPB_ATTRIBUTE_DELETE_HORIZON) == 0)
        return begin_its_time(rules, &whole, header, records, length, out, out_length);
    return rules->now_ms < info->base_timestamp ? MPB_COMPACT_KEEP : MPB_COMPACT_DROP;
}

enum mpb_compaction_verdict mpb_compaction_batch(const struct mpb_compaction *rules, const uint8_t *header,
                                                 const uint8_t *records, size_t length, uint8_t *out,
                                                 size_t *out_length)
{
    struct mpb_batch_info info;
    struct tally tally;
    mpb_batch_read(header, &info);
    if ((info.attributes & MPB_ATTRIBUTE_CONTROL) != 0)
        return marker(rules, &info, header, records, length, out, out_length);
    if ((info.attributes & MPB_ATTRIBUTE_TRANSACTIONAL) != 0 && rules->open != NULL)
        mpb_producer_set_add(rules->open, info.producer_id);
    if (mpb_batch_is_aborted(&rules->aborted, &info))
        return without_records(rules, &info, header, out, out_length);
    if (!count_those_that_stay(rules, &info, records, length, &tally))
        return MPB_COMPACT_BROKEN;
    bool set_horizon = tally.tombstone && (info.attributes & MPB_ATTRIBUTE_DELETE_HORIZON) == 0;
    if (tally.kept == 0 && !is_last_of_producer(rules, &info))
        return MPB_COMPACT_DROP;
    if (tally.kept == info.record_count && !set_horizon)
        return MPB_COMPACT_KEEP;
    int64_t horizon_ms = rules->now_ms + rules->delete_retention_ms;
    memcpy(out, header, MPB_BATCH_HEADER_BYTES);
    uint8_t *end = put_those_that_stay(rules, &info, records, length, set_horizon, horizon_ms,
                                       out + MPB_BATCH_HEADER_BYTES);
    if (set_horizon) {
        mpb_put_be16(out + MPB_BATCH_ATTRIBUTES, (int16_t)(info.attributes | MPB_ATTRIBUTE_DELETE_HORIZON));
        mpb_put_be64(out + MPB_BATCH_BASE_TIMESTAMP, horizon_ms);
    }
    if (tally.kept > 0 && (info.attributes & MPB_ATTRIBUTE_LOG_APPEND_TIME) == 0)
        mpb_put_be64(out + MPB_BATCH_MAX_TIMESTAMP, tally.max_timestamp);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, tally.kept);
    *out_length = (size_t)(end - out);
    mpb_compaction_seal(out, *out_length);
    return MPB_COMPACT_REWRITE;
}

/* One uncompressed batch to `out`. False: there is no room for it. */
static bool apply_one(const struct mpb_compaction *rules, const uint8_t *batch, const struct mpb_batch_info *info,
                      uint8_t *out, size_t capacity, size_t *produced, bool *broken)
{
    size_t length = 0;
    if (capacity - *produced < mpb_compaction_room(info->records_len, info->record_count))
        return false;
    switch (mpb_compaction_batch(rules, batch, info->records, info->records_len, out + *produced, &length)) {
    case MPB_COMPACT_KEEP:
        memcpy(out + *produced, batch, info->batch_bytes);
        length = info->batch_bytes;
        break;
    case MPB_COMPACT_BROKEN:
        *broken = true;
        break;
    default:
        break;
    }
    *produced += length;
    return true;
}

enum mpb_compaction_stop mpb_compaction_apply(const struct mpb_compaction *rules, const uint8_t *bytes, size_t length,
                                              size_t *at, uint8_t *out, size_t capacity, size_t *produced)
{
    struct mpb_batch_scan scan = {bytes, length, *at, true};
    struct mpb_batch_info info;
    size_t need;
    bool broken = false;
    for (;; *at = scan.pos) {
        enum mpb_scan_result found = mpb_batch_scan_next(&scan, &info, &need);
        if (found != MPB_SCAN_BATCH)
            return found == MPB_SCAN_CORRUPT ? MPB_COMPACT_CORRUPT : MPB_COMPACT_END;
        if (info.codec != MPB_CODEC_NONE && (info.attributes & MPB_ATTRIBUTE_CONTROL) == 0)
            return MPB_COMPACT_COMPRESSED;
        if (!apply_one(rules, bytes + *at, &info, out, capacity, produced, &broken))
            return MPB_COMPACT_FULL;
        if (broken)
            return MPB_COMPACT_CORRUPT;
    }
}
