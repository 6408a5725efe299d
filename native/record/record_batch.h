/* Record batches of format v2 (magic 2; KIP-98): header fields, the checks a leader makes before an append, offset
 * assignment in a private copy of the header, and scanning of stored batches. Pure functions over bytes: no state, no
 * allocation, any process. Every field is big-endian. Results are Kafka error codes (kafka_errors.h).
 *
 *   0        8        12      16   17     21          23           27        35       43        51     53       57     61
 *   | base   | batch  | leader| mag| CRC  | attributes| last offset| base    | max    | producer| pro. | base   | record|
 *   | offset | length | epoch | ic | -32C |           | delta      | timest. | timest.| id      | epoch| sequ.  | count | records
 *                                         |<------------------------- covered by the CRC ------------------------------
 */
#ifndef MPB_RECORD_BATCH_H
#define MPB_RECORD_BATCH_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "record/kafka_errors.h"

enum {
    MPB_BATCH_BASE_OFFSET = 0,
    MPB_BATCH_LENGTH = 8, /* bytes after this field */
    MPB_BATCH_LEADER_EPOCH = 12,
    MPB_BATCH_MAGIC = 16, /* at the same place in formats 0 and 1 */
    MPB_BATCH_CRC = 17,
    MPB_BATCH_ATTRIBUTES = 21,
    MPB_BATCH_LAST_OFFSET_DELTA = 23,
    MPB_BATCH_BASE_TIMESTAMP = 27,
    MPB_BATCH_MAX_TIMESTAMP = 35,
    MPB_BATCH_PRODUCER_ID = 43,
    MPB_BATCH_PRODUCER_EPOCH = 51,
    MPB_BATCH_BASE_SEQUENCE = 53,
    MPB_BATCH_RECORD_COUNT = 57,
    MPB_BATCH_HEADER_BYTES = 61,
    MPB_BATCH_OVERHEAD_BYTES = 12, /* base offset and length: what the length field does not count */
};

enum {
    MPB_CODEC_MASK = 0x07,
    MPB_CODEC_NONE = 0,
    MPB_CODEC_GZIP = 1,
    MPB_CODEC_SNAPPY = 2,
    MPB_CODEC_LZ4 = 3,
    MPB_CODEC_ZSTD = 4, /* the last one: 5 to 7 mean nothing */
    MPB_ATTRIBUTE_LOG_APPEND_TIME = 0x08,
    MPB_ATTRIBUTE_TRANSACTIONAL = 0x10,
    MPB_ATTRIBUTE_CONTROL = 0x20,
    MPB_ATTRIBUTE_DELETE_HORIZON = 0x40,
};

#define MPB_NO_TIMESTAMP (-1)

/* What the topic and the request allow. Times in milliseconds since 1970. */
struct mpb_batch_rules {
    int32_t max_message_bytes; /* of one batch, header included; 0 or less: no limit (follower, recovery) */
    int16_t produce_version;   /* zstd needs 7 or more */
    bool from_client;          /* false: a coordinator or the broker itself, which may write control batches */
    bool compacted;            /* cleanup.policy has compact: every record needs a key */
    bool log_append_time;      /* message.timestamp.type=LogAppendTime */
    int64_t now_ms;
    int64_t timestamp_before_max_ms; /* how far a record's time may lie before now_ms */
    int64_t timestamp_after_max_ms;
};

struct mpb_batch_info {
    const uint8_t *records; /* into the caller's buffer; compressed if codec is not 0 */
    size_t records_len;
    uint32_t batch_bytes; /* header and records */
    uint32_t crc;
    int64_t base_offset;
    int64_t base_timestamp; /* or the delete horizon, by attribute */
    int64_t max_timestamp;
    int64_t producer_id; /* -1: none */
    int32_t leader_epoch;
    int32_t last_offset_delta;
    int32_t base_sequence;
    int32_t record_count;
    int16_t producer_epoch;
    int16_t attributes;
    uint8_t codec;
};

struct mpb_records_info {
    int64_t max_timestamp;       /* MPB_NO_TIMESTAMP if no record has one */
    int32_t max_timestamp_delta; /* offset delta of the first record that has it; -1 if none */
    int32_t bad_record;          /* index of the first record refused; -1 if none */
};

struct mpb_refused_record {
    int32_t index;
    int32_t error;
    int64_t timestamp;
};

static inline int64_t mpb_be64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return (int64_t)be64toh(v);
}

static inline int32_t mpb_be32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return (int32_t)be32toh(v);
}

static inline int16_t mpb_be16(const uint8_t *p) { return (int16_t)(p[0] << 8 | p[1]); }

static inline void mpb_put_be64(uint8_t *p, int64_t v)
{
    uint64_t big = htobe64((uint64_t)v);
    memcpy(p, &big, 8);
}

static inline void mpb_put_be32(uint8_t *p, int32_t v)
{
    uint32_t big = htobe32((uint32_t)v);
    memcpy(p, &big, 4);
}

static inline void mpb_put_be16(uint8_t *p, int16_t v)
{
    p[0] = (uint8_t)((uint16_t)v >> 8);
    p[1] = (uint8_t)v;
}

/* Reads the 61 header bytes at `p` into `info` without judging them; `records_len` follows the length field, which
 * the caller has compared with what it holds. */
void mpb_batch_read(const uint8_t *p, struct mpb_batch_info *info);

/* Kafka's order of checks has three steps with other checks between them, so they are three functions.
 *
 * 1. Before authorization: can the first batch be read at all, and is it transactional? An error fails every partition
 * of the request. No batch at all is not an error yet. */
int mpb_batch_peek(const uint8_t *p, size_t len, bool *transactional);

/* 2. Before the partition is looked up: exactly one batch, of format 2, with an allowed codec. Bytes after the batch
 * that are too few for another one are left out of *batch_len and not stored, as Kafka does. The error
 * UNKNOWN_SERVER_ERROR (an unknown codec before version 7) fails every partition. */
int mpb_batch_check_request(const uint8_t *p, size_t len, const struct mpb_batch_rules *rules, size_t *batch_len);

/* 3. At the append, on that one batch: base offset, size, checksum, codec, counts, control, sequence. */
int mpb_batch_check_append(const uint8_t *p, size_t batch_len, const struct mpb_batch_rules *rules,
                           struct mpb_batch_info *out);

/* All three, in that order. `out` is filled only when the result is 0. */
int mpb_batch_check(const uint8_t *p, size_t len, const struct mpb_batch_rules *rules, struct mpb_batch_info *out);

/* 4. Walks the records of a checked batch: `len` bytes, decompressed if the batch's codec is not 0, must hold exactly
 * info->record_count records. Like Kafka it looks less closely at compressed records (their lengths only have to lead
 * from field to field) but wants consecutive offsets there; of uncompressed ones it wants exact lengths and takes any
 * offset deltas. `out` is filled when the result is 0; bad_record also with INVALID_RECORD and INVALID_TIMESTAMP. */
int mpb_records_check(const uint8_t *records, size_t len, const struct mpb_batch_info *info,
                      const struct mpb_batch_rules *rules, struct mpb_records_info *out);

/* Which records step 4 refuses for what they say, INVALID_RECORD without a key or INVALID_TIMESTAMP: the first `most` of
 * them into `out`. Returns how many there are; 0 also when one of them cannot be read. */
int32_t mpb_records_refused(const uint8_t *records, size_t len, const struct mpb_batch_info *info,
                            const struct mpb_batch_rules *rules, struct mpb_refused_record *out, int32_t most);

/* Writes the header under which `batch` is stored into `out`: base offset and leader epoch set; timestamp type and max
 * timestamp set to log append time unless `log_append_time_ms` is -1. The CRC is recomputed only if it must be. */
void mpb_batch_patch_header(const uint8_t *batch, size_t len, uint8_t out[MPB_BATCH_HEADER_BYTES], int64_t base_offset,
                            int32_t leader_epoch, int64_t log_append_time_ms);

/* Sets timestamp type and max timestamp in a header copied from `batch`, and its CRC if that changed anything: a
 * leader stores the time it found in the records, not the one the producer claims. */
void mpb_batch_patch_timestamp(const uint8_t *batch, size_t len, uint8_t header[MPB_BATCH_HEADER_BYTES],
                               bool log_append_time, int64_t max_timestamp_ms);

/* Stored batches one after the other. `pos` moves past each batch found and stays where a scan ended. */
struct mpb_batch_scan {
    const uint8_t *data;
    size_t len;
    size_t pos;
    bool check_crc;
};

enum mpb_scan_result {
    MPB_SCAN_BATCH,   /* `out` is filled */
    MPB_SCAN_END,     /* no bytes left */
    MPB_SCAN_PARTIAL, /* the batch at `pos` needs *need bytes, more than the buffer holds */
    MPB_SCAN_CORRUPT, /* what stands at `pos` is no batch of format 2 */
};

enum mpb_scan_result mpb_batch_scan_next(struct mpb_batch_scan *scan, struct mpb_batch_info *out, size_t *need);

/* True if the batch's stored CRC is that of its bytes. */
bool mpb_batch_crc_ok(const uint8_t *p, size_t batch_len);

/* One record within uncompressed records, for checks and for readers that look for an offset or a timestamp. */
struct mpb_record {
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t header_count;
    int32_t key_len;   /* negative: null */
    int32_t value_len; /* negative: null */
    const uint8_t *key;
    const uint8_t *value;
    const uint8_t *headers; /* the first one */
    const uint8_t *next;    /* the record after this one */
};

/* Reads and bounds the record at `p`, header fields included. With `exact`, the record's own length must be that of
 * its fields. Returns 0, INVALID_RECORD, or (exact only) UNKNOWN_SERVER_ERROR where the length is no number. */
int mpb_record_read(const uint8_t *p, const uint8_t *end, bool exact, struct mpb_record *out);

/* Reads one header's key and value at *at and moves it on. Returns 0, or -1 when they do not fit before `end`. */
int mpb_record_header_read(const uint8_t **at, const uint8_t *end, int32_t *key_len, const uint8_t **key,
                           int32_t *value_len, const uint8_t **value);

/* Milliseconds since 1970: the batch's for log append time, else base timestamp and delta. */
int64_t mpb_record_timestamp(const struct mpb_record *record, const struct mpb_batch_info *info);

/* Looks in the uncompressed records of a stored batch for the first one whose timestamp is at least `target_ms`.
 * Returns 0, INVALID_RECORD if the records cannot be read that far, or 1 if there is none. */
int mpb_records_find_timestamp(const uint8_t *records, size_t len, const struct mpb_batch_info *info, int64_t target_ms,
                               int32_t *offset_delta, int64_t *timestamp);

#endif
