/* What compaction makes of one batch, byte by byte: what is left alone, which times are written, for whom a batch stays
 * empty, and where it stops; and the table of keys, place by place. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mincore */
#endif
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record/compaction.h"
#include "record/crc32c.h"
#include "tests/stepping/check.h"

enum { H = MPB_BATCH_HEADER_BYTES, NOW = 1000000, RETENTION = 5000, BASE_TIME = 500, HORIZON = NOW + RETENTION };

static const uint64_t SEED[2] = {3, 4};
static const struct mpb_aborted_ranges NONE_ABORTED;

struct record {
    const char *key; /* NULL: none */
    const char *value;
    int64_t timestamp;
    int32_t delta;  /* of the offset */
    int length_off; /* its own length says so much more */
};

static uint8_t *put_varlong(uint8_t *out, int64_t value)
{
    uint64_t rest = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; rest > 127; rest >>= 7)
        *out++ = (uint8_t)(rest % 128 + 128);
    *out++ = (uint8_t)rest;
    return out;
}

static uint8_t *put_text(uint8_t *out, const char *text)
{
    out = put_varlong(out, text == NULL ? -1 : (int64_t)strlen(text));
    if (text == NULL)
        return out;
    memcpy(out, text, strlen(text));
    return out + strlen(text);
}

static size_t put_record(uint8_t *out, const struct record *record, int64_t base_time)
{
    uint8_t body[256], *at = body;
    *at++ = 0;
    at = put_varlong(at, record->timestamp - base_time);
    at = put_varlong(at, record->delta);
    at = put_text(at, record->key);
    at = put_text(at, record->value);
    *at++ = 0;
    uint8_t *begin = put_varlong(out, at - body + record->length_off);
    memcpy(begin, body, (size_t)(at - body));
    return (size_t)(begin - out + (at - body));
}

struct batch {
    int64_t base, producer_id, base_time, max_time;
    int16_t attributes;
    int32_t last_delta, count;
    struct record records[3];
};

static size_t make(uint8_t *out, const struct batch *batch, int32_t records)
{
    size_t length = H;
    memset(out, 0, H);
    for (int32_t i = 0; i < records; i++)
        length += put_record(out + length, &batch->records[i], batch->base_time);
    mpb_put_be64(out, batch->base);
    mpb_put_be32(out + MPB_BATCH_LEADER_EPOCH, 12);
    out[MPB_BATCH_MAGIC] = 2;
    mpb_put_be16(out + MPB_BATCH_ATTRIBUTES, batch->attributes);
    mpb_put_be32(out + MPB_BATCH_LAST_OFFSET_DELTA, batch->last_delta);
    mpb_put_be64(out + MPB_BATCH_BASE_TIMESTAMP, batch->base_time);
    mpb_put_be64(out + MPB_BATCH_MAX_TIMESTAMP, batch->max_time);
    mpb_put_be64(out + MPB_BATCH_PRODUCER_ID, batch->producer_id);
    mpb_put_be16(out + MPB_BATCH_PRODUCER_EPOCH, 6);
    mpb_put_be32(out + MPB_BATCH_BASE_SEQUENCE, 40);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, batch->count);
    mpb_compaction_seal(out, length);
    return length;
}

static struct mpb_key_map map;
static uint8_t in[2048], out[4096], want[2048];
static size_t produced;

static struct mpb_compaction rules_of(void)
{
    return (struct mpb_compaction){.map = &map, .now_ms = NOW, .delete_retention_ms = RETENTION};
}

static void newest(const char *key, int64_t offset)
{
    CHECK(mpb_key_map_put(&map, (const uint8_t *)key, strlen(key), offset));
}

static void begin(void) { CHECK(mpb_key_map_open(&map, 64, 60, SEED)); }

static enum mpb_compaction_stop apply(const struct mpb_compaction *rules, size_t length, size_t *at)
{
    *at = produced = 0;
    memset(out, 0xa5, sizeof out);
    return mpb_compaction_apply(rules, in, length, at, out, sizeof out, &produced);
}

/* One batch that is looked at becomes another one, or nothing: `left` NULL. */
static void becomes(const struct mpb_compaction *rules, const struct batch *batch, const struct batch *left)
{
    size_t at, length = make(in, batch, batch->count);
    CHECK_EQ(apply(rules, length, &at), MPB_COMPACT_END);
    CHECK_EQ(at, length);
    size_t wanted = left == NULL ? 0 : make(want, left, left->count);
    CHECK_EQ(produced, wanted);
    CHECK_EQ(memcmp(out, want, wanted), 0);
}

static const struct batch TWO = {.base = 10,
                                 .producer_id = -1,
                                 .base_time = BASE_TIME,
                                 .max_time = 700,
                                 .last_delta = 1,
                                 .count = 2,
                                 .records = {{"a", "1", 700, 0, 0}, {"b", "2", 600, 1, 0}}};

/* Where nothing goes not a byte is another; of what stays, the bytes are those it had, and the largest time is its own. */
static void without_tombstones(void)
{
    struct mpb_compaction rules = rules_of();
    begin();
    becomes(&rules, &TWO, &TWO);
    struct batch left = TWO;
    newest("a", 99);
    left.count = 1;
    left.records[0] = TWO.records[1];
    left.max_time = 600;
    becomes(&rules, &TWO, &left);
    struct batch by_broker = TWO; /* its times are the broker's: the largest is that of all */
    by_broker.attributes = left.attributes = MPB_ATTRIBUTE_LOG_APPEND_TIME;
    left.max_time = 700;
    becomes(&rules, &by_broker, &left);
    newest("b", 99);
    becomes(&rules, &TWO, NULL);
    struct batch keyless = TWO;
    keyless.records[0].key = keyless.records[1].key = NULL;
    becomes(&rules, &keyless, NULL);
    keyless = TWO;
    keyless.records[0].key = ""; /* which is a key */
    keyless.records[1].key = "c";
    keyless.records[1].value = ""; /* which is a value */
    becomes(&rules, &keyless, &keyless);
    size_t at = 0, length = make(in, &keyless, 2);
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, in, length, &at, 0, INT64_MAX), MPB_COMPACT_END);
    CHECK_EQ(mpb_key_map_get(&map, (const uint8_t *)"", 0), 10);
    mpb_key_map_close(&map);
}

/* The offset of a record is within its batch, whatever its producer wrote. */
static void offsets(void)
{
    static const struct {
        int32_t delta;
        int64_t offset;
    } CASES[] = {{-5, 10}, {0, 10}, {1, 11}, {3, 13}, {4, 13}, {INT32_MAX, 13}};
    struct mpb_compaction rules = rules_of();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int64_t other = CASES[i].offset - 1; other <= CASES[i].offset + 1; other++) {
            struct batch one = TWO;
            one.count = 1;
            one.last_delta = 3;
            one.records[0].delta = CASES[i].delta;
            begin();
            newest("a", other);
            becomes(&rules, &one, other <= CASES[i].offset ? &one : NULL);
            size_t at = 0, length = make(in, &one, 1);
            CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, in, length, &at, 0, INT64_MAX), MPB_COMPACT_END);
            CHECK_EQ(mpb_key_map_get(&map, (const uint8_t *)"a", 1), other > CASES[i].offset ? other : CASES[i].offset);
            mpb_key_map_close(&map);
        }
}

/* A tombstone gets its horizon once, from which the times of its batch count then; behind it, it goes. Numbers of every
 * length, below and above the horizon. */
static void tombstones(void)
{
    static const int64_t TIMES[] = {0,    1,    63,      64,      65,        127,       128,      8191,
                                    8192, 8193, 1 << 20, 1 << 21, 1ll << 34, 1ll << 41, 1ll << 55};
    struct mpb_compaction rules = rules_of();
    begin();
    for (size_t i = 0; i < 2 * sizeof TIMES / sizeof *TIMES; i++) {
        struct batch batch = TWO, left;
        int64_t time = HORIZON + (i % 2 == 0 ? TIMES[i / 2] : -TIMES[i / 2]);
        batch.records[0].value = NULL;
        batch.records[0].timestamp = time;
        batch.max_time = time > 600 ? time : 600;
        left = batch;
        left.base_time = HORIZON;
        left.attributes = MPB_ATTRIBUTE_DELETE_HORIZON;
        becomes(&rules, &batch, &left);
    }
    struct batch old = TWO;
    old.attributes = MPB_ATTRIBUTE_DELETE_HORIZON;
    old.records[0].value = NULL;
    old.records[1].value = ""; /* which is a value */
    for (old.base_time = NOW - 1; old.base_time <= NOW + 1; old.base_time++) {
        struct batch left = old;
        if (old.base_time <= NOW) {
            left.count = 1;
            left.records[0] = old.records[1];
            left.max_time = 600;
        }
        becomes(&rules, &old, &left);
    }
    mpb_key_map_close(&map);
}

/* Of a record that is as long as that its length takes a second byte, all of it stays. */
static void long_records(void)
{
    struct mpb_compaction rules = rules_of();
    char value[80] = "";
    begin();
    for (size_t length = 40; length < 70; length++) {
        struct batch batch = TWO, left;
        memset(value, 'v', length);
        value[length] = '\0';
        batch.records[0].value = NULL;
        batch.records[1].value = value;
        left = batch;
        left.base_time = HORIZON;
        left.attributes = MPB_ATTRIBUTE_DELETE_HORIZON;
        becomes(&rules, &batch, &left);
    }
    mpb_key_map_close(&map);
}

/* A producer's last batch stays without its records, of producer 0, too, and what is empty stays as it is; so do those of an
 * aborted transaction. Only a transactional batch makes its producer one of whom something is left. */
static void last_batches(void)
{
    static const struct mpb_producer_end ENDS[] = {{0, 11}, {3, 11}, {5, 12}, {9, 10}};
    static const struct {
        int64_t producer_id;
        bool stays;
    } CASES[] = {{-1, false}, {0, true}, {1, false}, {3, true}, {4, false}, {5, false}, {9, true}, {10, false}};
    static const struct mpb_aborted_range ABORTED[] = {{0, 5, 20}, {3, 5, 20}, {4, 5, 20}};
    struct mpb_producer_set open = {0};
    for (int aborted = 0; aborted < 2; aborted++)
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            struct mpb_compaction rules = rules_of();
            struct batch batch = TWO, left;
            rules.producers = ENDS;
            rules.producer_count = 4;
            rules.open = &open;
            begin();
            batch.producer_id = CASES[i].producer_id;
            if (aborted) {
                rules.aborted = (struct mpb_aborted_ranges){ABORTED, 3};
                batch.attributes = MPB_ATTRIBUTE_TRANSACTIONAL;
            }
            bool goes = (aborted && batch.producer_id >= 0 && batch.producer_id <= 4 && batch.producer_id != 1);
            if (!goes) {
                newest("a", 99);
                newest("b", 99);
            }
            left = batch;
            left.count = 0;
            becomes(&rules, &batch, CASES[i].stays ? &left : NULL);
            becomes(&rules, &left, CASES[i].stays ? &left : NULL); /* looked at again */
            batch.count = 1;
            becomes(&rules, &batch, CASES[i].stays ? &left : NULL);
            CHECK_EQ(open.count, aborted);
            CHECK_EQ(mpb_producer_set_take(&open, batch.producer_id), aborted);
            mpb_key_map_close(&map);
        }
    mpb_producer_set_close(&open);
}

/* Uncompressed records have the length that they say, or the batch is damaged; of compressed ones it is not looked at. */
static void lengths(void)
{
    for (int off = -1; off <= 1; off++) {
        struct batch batch = TWO;
        struct mpb_batch_info info;
        struct mpb_compaction rules = rules_of();
        size_t at, length;
        batch.records[1].length_off = off;
        begin();
        length = make(in, &batch, 2);
        CHECK_EQ(apply(&rules, length, &at), off == 0 ? MPB_COMPACT_END : MPB_COMPACT_CORRUPT);
        CHECK(at == (off == 0 ? length : 0) && produced == at);
        mpb_batch_read(in, &info);
        CHECK_EQ(mpb_compaction_learn_batch(&map, &info, info.records, info.records_len, 0),
                 off == 0 ? MPB_COMPACT_END : MPB_COMPACT_CORRUPT);
        info.codec = MPB_CODEC_LZ4;
        CHECK_EQ(mpb_compaction_learn_batch(&map, &info, info.records, info.records_len, 0), MPB_COMPACT_END);
        CHECK_EQ(map.count, 2);
        mpb_key_map_close(&map);
    }
    for (int32_t count = 1; count <= 3; count++) { /* two records are there, whatever the header says */
        struct batch batch = TWO;
        struct mpb_compaction rules = rules_of();
        size_t at, length;
        batch.count = count;
        begin();
        length = make(in, &batch, 2);
        CHECK_EQ(apply(&rules, length, &at), count == 2 ? MPB_COMPACT_END : MPB_COMPACT_CORRUPT);
        CHECK_EQ(at, count == 2 ? length : 0);
        mpb_key_map_close(&map);
    }
}

/* Compressed batches are left to the caller, if they hold anything that counts; markers never are. For a batch there is
 * room, or not. */
static void stops(void)
{
    struct mpb_compaction rules = rules_of();
    struct batch batch = TWO;
    size_t at = 0, length;
    begin();
    batch.attributes = MPB_CODEC_GZIP;
    length = make(in, &batch, 2);
    CHECK_EQ(apply(&rules, length, &at), MPB_COMPACT_COMPRESSED);
    CHECK(at == 0 && produced == 0);
    for (int64_t from = 10; from <= 12; from++) {
        at = 0;
        CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, in, length, &at, from, INT64_MAX),
                 from < 12 ? MPB_COMPACT_COMPRESSED : MPB_COMPACT_END);
        CHECK_EQ(at, from < 12 ? 0 : length);
    }
    batch.attributes = MPB_CODEC_GZIP | MPB_ATTRIBUTE_CONTROL;
    length = make(in, &batch, 2);
    at = 0;
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, in, length, &at, 0, INT64_MAX), MPB_COMPACT_END);
    CHECK(at == length && map.count == 0);
    CHECK_EQ(apply(&rules, length, &at), MPB_COMPACT_END);
    CHECK(at == length && produced == length && memcmp(out, in, length) == 0);
    length = make(in, &TWO, 2);
    for (int64_t from = 10; from <= 12; from++) { /* of what begins before it, only the rest */
        struct mpb_key_map other;
        CHECK(mpb_key_map_open(&other, 64, 60, SEED));
        at = 0;
        CHECK_EQ(mpb_compaction_learn(&other, &NONE_ABORTED, in, length, &at, from, INT64_MAX), MPB_COMPACT_END);
        CHECK(at == length && other.count == (uint64_t)(12 - from));
        mpb_key_map_close(&other);
    }
    const size_t room = mpb_compaction_room(length - H, 2);
    CHECK(room == length + 20 && mpb_compaction_room(7, 0) == H + 7 && mpb_compaction_room(7, -1) == H + 7);
    for (size_t capacity = room - 1; capacity <= room + 1; capacity++) {
        at = produced = 0;
        CHECK_EQ(mpb_compaction_apply(&rules, in, length, &at, out, capacity, &produced),
                 capacity < room ? MPB_COMPACT_FULL : MPB_COMPACT_END);
        CHECK(produced == (capacity < room ? 0 : length) && at == produced);
    }
    memcpy(in + length, in, length);
    for (size_t capacity = length + room - 1; capacity <= length + room; capacity++) { /* of two, for the second */
        at = produced = 0;
        CHECK_EQ(mpb_compaction_apply(&rules, in, 2 * length, &at, out, capacity, &produced),
                 capacity < length + room ? MPB_COMPACT_FULL : MPB_COMPACT_END);
        CHECK(produced == (capacity < length + room ? length : 2 * length) && at == produced);
    }
    in[length - 2] ^= 1; /* the last record's value: only the checksum says so */
    CHECK_EQ(apply(&rules, length, &at), MPB_COMPACT_CORRUPT);
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, in, length, &at, 0, INT64_MAX), MPB_COMPACT_CORRUPT);
    CHECK(at == 0 && map.count == 0);
    mpb_key_map_close(&map);
}

/* A marker whose record is handed in apart from its header, as the caller does with a compressed one. */
static void a_marker_in_two_places(void)
{
    static const uint8_t KEY[] = {0, 0, 0, 1}, VALUE[] = {0, 0, 0, 0, 0, 9};
    struct mpb_producer_set open = {0};
    struct mpb_compaction rules = rules_of();
    uint8_t header[H], records[32] = {0}, *at = records;
    struct mpb_batch_info info;
    struct mpb_record record;
    size_t length;
    begin();
    make(header, &(struct batch){.base = 10, .producer_id = 4, .base_time = BASE_TIME, .attributes = 0x30, .count = 1},
         0);
    *at++ = 16 * 2;
    at += 3;
    *at++ = sizeof KEY * 2;
    memcpy(at, KEY, sizeof KEY);
    at += sizeof KEY;
    *at++ = sizeof VALUE * 2;
    memcpy(at, VALUE, sizeof VALUE);
    at += sizeof VALUE + 1;
    const size_t bytes = (size_t)(at - records);
    CHECK_EQ(mpb_compaction_batch(&rules, header, records, bytes, out, &length),
             MPB_COMPACT_KEEP); /* no order is known */
    rules.open = &open;
    mpb_producer_set_add(&open, 4);
    CHECK_EQ(mpb_compaction_batch(&rules, header, records, bytes, out, &length), MPB_COMPACT_KEEP);
    CHECK_EQ(open.count, 0);
    CHECK_EQ(mpb_compaction_batch(&rules, header, records, bytes, out, &length), MPB_COMPACT_REWRITE);
    mpb_batch_read(out, &info);
    CHECK(info.batch_bytes == length && info.record_count == 1 && mpb_batch_crc_ok(out, length));
    CHECK(info.attributes == 0x70 && info.base_timestamp == HORIZON && info.producer_id == 4);
    CHECK_EQ(mpb_record_read(info.records, info.records + info.records_len, true, &record), 0);
    CHECK(mpb_record_timestamp(&record, &info) == BASE_TIME && record.next == info.records + info.records_len);
    CHECK(record.key_len == 4 && memcmp(record.key, KEY, 4) == 0);
    CHECK(record.value_len == 6 && memcmp(record.value, VALUE, 6) == 0);
    for (int64_t horizon = NOW - 1; horizon <= NOW + 1; horizon++) {
        mpb_put_be16(header + MPB_BATCH_ATTRIBUTES, 0x70);
        mpb_put_be64(header + MPB_BATCH_BASE_TIMESTAMP, horizon);
        CHECK_EQ(mpb_compaction_batch(&rules, header, records, bytes, out, &length),
                 horizon > NOW ? MPB_COMPACT_KEEP : MPB_COMPACT_DROP);
    }
    mpb_producer_set_close(&open);
    mpb_key_map_close(&map);
}

/* ------------------------------------------------------------------ the table of keys */
/* Every key lies in the table, at the first place behind its hash that was free, around the end; as many as are counted. */
static void places(void)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const uint64_t seeds[2] = {seed, 7 * seed};
        struct mpb_key_map keys;
        CHECK(mpb_key_map_open(&keys, 8, 7, seeds));
        for (uint64_t key = 0; key < 7; key++) {
            uint64_t hash[2], at, used = 0;
            CHECK(mpb_key_map_put(&keys, (const uint8_t *)&key, sizeof key, (int64_t)key));
            mpb_sip_hash(seeds, (const uint8_t *)&key, sizeof key, hash);
            for (at = hash[0] % 8; keys.places[at].hash[0] != hash[0]; at = (at + 1) % 8)
                CHECK(keys.places[at].next != 0);
            CHECK(keys.places[at].hash[1] == hash[1] && keys.places[at].next == (int64_t)key + 1);
            for (int i = 0; i < 8; i++)
                used += keys.places[i].next != 0;
            CHECK(used == key + 1 && keys.count == used);
        }
        for (uint64_t key = 7; key < 20; key++) { /* a search for what is not there ends */
            CHECK_EQ(mpb_key_map_get(&keys, (const uint8_t *)&key, sizeof key), -1);
            CHECK(!mpb_key_map_put(&keys, (const uint8_t *)&key, sizeof key, 5));
        }
        mpb_key_map_close(&keys);
    }
}

/* Keys of eight bytes are told apart by each of them, and by their length. */
static void keys_of_words(void)
{
    static uint64_t hashes[8 * 256 + 18 + 17][2];
    uint8_t bytes[17 + 17] = {0}, *key = bytes + 17;
    int count = 0;
    for (size_t length = 0; length <= 17; length++)
        mpb_sip_hash(SEED, key, length, hashes[count++]);
    for (int at = 0; at < 17; at++) {
        key[at] = 1;
        mpb_sip_hash(SEED, key, 17, hashes[count++]);
        key[at] = 0;
    }
    for (int at = 0; at < 8; at++)
        for (int byte = 1; byte < 256; byte++) {
            key[at] = (uint8_t)byte;
            mpb_sip_hash(SEED, key, 8, hashes[count++]);
            key[at] = 0;
        }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            CHECK(hashes[i][0] != hashes[j][0] || hashes[i][1] != hashes[j][1]);
}

/* A key is found by both halves of its hash; a place with another half is another key's. */
static void halves(void)
{
    struct mpb_key_map keys;
    CHECK(mpb_key_map_open(&keys, 8, 7, SEED));
    CHECK(mpb_key_map_put(&keys, (const uint8_t *)"k", 1, 41) && mpb_key_map_put(&keys, (const uint8_t *)"k", 1, 40));
    for (int at = 0; at < 8; at++)
        for (int half = 0; keys.places[at].next != 0 && half < 2; half++) {
            CHECK_EQ(mpb_key_map_get(&keys, (const uint8_t *)"k", 1), 41);
            keys.places[at].hash[half] ^= 1;
            CHECK_EQ(mpb_key_map_get(&keys, (const uint8_t *)"k", 1), -1);
            keys.places[at].hash[half] ^= 1;
        }
    mpb_key_map_close(&keys);
    CHECK(mpb_key_map_open(&keys, 1, 0, SEED)); /* with room for none */
    CHECK(!mpb_key_map_put(&keys, (const uint8_t *)"k", 1, 0));
    mpb_key_map_close(&keys);
}

/* A set that is closed keeps nothing. */
static void sets(void)
{
    size_t used = 0;
    for (int i = 0; i < 20; i++) {
        struct mpb_producer_set set = {0};
        for (int64_t id = 0; id < 100; id++)
            mpb_producer_set_add(&set, id);
        mpb_producer_set_close(&set);
        CHECK(set.id == NULL && set.count == 0 && set.room == 0);
        if (i == 9)
            used = mallinfo2().uordblks; /* the allocator keeps some of what it gets back, but not more every time */
    }
    CHECK_EQ(mallinfo2().uordblks, used);
}

/* Its memory is given back, once. */
static void memory(void)
{
    struct mpb_key_map keys;
    unsigned char resident;
    CHECK(!mpb_key_map_open(&keys, 0, 0, SEED) && keys.places == NULL);
    CHECK(!mpb_key_map_open(&keys, 4, 5, SEED) && !mpb_key_map_open(&keys, 4, 4, SEED));
    mpb_key_map_close(&keys);
    CHECK(mpb_key_map_open(&keys, 100000, 99999, SEED));
    void *at = keys.places;
    CHECK_EQ(mincore(at, (size_t)sysconf(_SC_PAGESIZE), &resident), 0);
    mpb_key_map_close(&keys);
    CHECK(keys.places == NULL && mincore(at, (size_t)sysconf(_SC_PAGESIZE), &resident) == -1 && errno == ENOMEM);
    mpb_key_map_close(&keys);
}

int main(void)
{
    without_tombstones();
    offsets();
    tombstones();
    long_records();
    last_batches();
    lengths();
    stops();
    a_marker_in_two_places();
    places();
    keys_of_words();
    halves();
    sets();
    memory();
    printf("compaction_values: %lu checks\n", checks_made);
    return 0;
}
