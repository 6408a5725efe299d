#include "log/marker.h"

#include <string.h>

#include "record/marker_read.h"
#include "record/crc32c.h"

enum { KEY_AT = 5, KEY_BYTES = 4, VALUE_AT = KEY_AT + KEY_BYTES + 1, VALUE_BYTES = 6, RECORD_BYTES = 17 };
_Static_assert(MPB_BATCH_HEADER_BYTES + RECORD_BYTES == MPB_MARKER_BYTES, "a marker has one record");

/* Of one byte each, as zigzag: length, attributes, timestamp delta, offset delta, length of the key; then the key. */
static void write_record(uint8_t *p, const struct mpb_marker *marker)
{
    memset(p, 0, RECORD_BYTES);
    p[0] = (RECORD_BYTES - 1) * 2;
    p[KEY_AT - 1] = KEY_BYTES * 2;
    mpb_put_be16(p + KEY_AT + 2, marker->commit ? MPB_MARKER_COMMIT : MPB_MARKER_ABORT);
    p[VALUE_AT - 1] = VALUE_BYTES * 2;
    mpb_put_be32(p + VALUE_AT + 2, marker->coordinator_epoch);
}

static void write_marker(uint8_t p[MPB_MARKER_BYTES], const struct mpb_marker *marker)
{
    memset(p, 0, MPB_BATCH_HEADER_BYTES);
    mpb_put_be32(p + MPB_BATCH_LENGTH, MPB_MARKER_BYTES - MPB_BATCH_OVERHEAD_BYTES);
    p[MPB_BATCH_MAGIC] = 2;
    mpb_put_be16(p + MPB_BATCH_ATTRIBUTES, MPB_ATTRIBUTE_TRANSACTIONAL | MPB_ATTRIBUTE_CONTROL);
    mpb_put_be64(p + MPB_BATCH_BASE_TIMESTAMP, marker->now_ms);
    mpb_put_be64(p + MPB_BATCH_MAX_TIMESTAMP, marker->now_ms);
    mpb_put_be64(p + MPB_BATCH_PRODUCER_ID, marker->producer_id);
    mpb_put_be16(p + MPB_BATCH_PRODUCER_EPOCH, marker->producer_epoch);
    mpb_put_be32(p + MPB_BATCH_BASE_SEQUENCE, -1);
    mpb_put_be32(p + MPB_BATCH_RECORD_COUNT, 1);
    write_record(p + MPB_BATCH_HEADER_BYTES, marker);
    uint32_t crc = mpb_crc32c(0, p + MPB_BATCH_ATTRIBUTES, MPB_MARKER_BYTES - MPB_BATCH_ATTRIBUTES);
    mpb_put_be32(p + MPB_BATCH_CRC, (int32_t)crc);
}

void mpb_append_marker(struct mpb_log *log, const struct mpb_append_options *options, const struct mpb_marker *marker,
                       struct mpb_append_result *out)
{
    uint8_t bytes[MPB_MARKER_BYTES];
    struct mpb_batch_info info;
    write_marker(bytes, marker);
    mpb_batch_read(bytes, &info);
    struct mpb_append_request request = {.ordinal = marker->ordinal,
                                         .entry = marker->entry,
                                         .cell = marker->cell,
                                         .batch = bytes,
                                         .info = &info,
                                         .max_timestamp = MPB_RECORDS_UNSEEN,
                                         .now_ms = marker->now_ms,
                                         .leader_epoch = marker->leader_epoch,
                                         .acks = -1,
                                         .topic_id = marker->topic_id,
                                         .marker = marker->commit ? MPB_BATCH_COMMIT : MPB_BATCH_ABORT,
                                         .coordinator_epoch = marker->coordinator_epoch};
    mpb_append(log, options, &request, out);
}
