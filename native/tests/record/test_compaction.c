/* Compaction over bytes: the hash by its published vectors, the map with keys that collide and when it is full, and what is
 * left of batches: newest records, tombstones before and after their horizon, a producer's last batch, lies of producers. */
#include <stdlib.h>
#include <string.h>
#include "record/compaction.h"
#include "record/marker_read.h"
#include "record/crc32c.h"
#include "tests/stepping/check.h"

#define NOW 1000000
#define RETENTION 5000

static const uint64_t SEED[2] = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
static const struct mpb_aborted_ranges NONE_ABORTED;

static void test_hash_of_the_reference(void)
{
    static const struct {
        size_t length;
        uint8_t hash[16];
    } vectors[] = {
        /* of the reference implementation: key 00..0f, input 00 01 02 ... */
        {0, {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}},
        {1, {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}},
        {15, {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9}}};
    uint8_t input[64];
    for (uint8_t i = 0; i < sizeof input; i++)
        input[i] = i;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        uint64_t hash[2];
        mpb_sip_hash(SEED, input, vectors[i].length, hash);
        CHECK_EQ(memcmp(hash, vectors[i].hash, sizeof hash), 0);
    }
}

static void test_map(void)
{
    struct mpb_key_map map;
    CHECK(!mpb_key_map_open(&map, 8, 8, SEED)); /* a search in a full table would not end */
    CHECK(mpb_key_map_open(&map, 8, 7, SEED));
    for (uint8_t key = 0; key < 7; key++) /* eight places: they collide */
        CHECK(mpb_key_map_put(&map, &key, 1, key * 10));
    uint8_t eighth = 7;
    CHECK(!mpb_key_map_put(&map, &eighth, 1, 70));
    CHECK_EQ(mpb_key_map_get(&map, &eighth, 1), -1);
    for (uint8_t key = 0; key < 7; key++) {
        CHECK(mpb_key_map_put(&map, &key, 1, 5)); /* known keys go on being taken; the greatest offset stays */
        CHECK_EQ(mpb_key_map_get(&map, &key, 1), key * 10 > 5 ? key * 10 : 5);
    }
    CHECK_EQ(map.count, 7);
    CHECK(mpb_key_map_get(&map, NULL, 0) == -1); /* an empty key is a key like others */
    mpb_key_map_close(&map);
}

/* ------------------------------------------------------------------ batches */
struct spec {
    int64_t base, producer_id;
    int16_t attributes;
    const char *records; /* "k=v": value v of key k; "k-": tombstone; "?": no key; a delta d before it: "3k=v" */
};

static size_t put_record(uint8_t *out, int32_t delta, const char **text)
{
    uint8_t body[64], *at = body;
    *at++ = 0;                    /* attributes */
    *at++ = (uint8_t)(delta * 2); /* timestamp delta: as the offset's */
    *at++ = (uint8_t)(delta * 2);
    char key = *(*text)++;
    if (key == '?') {
        *at++ = 1; /* null */
    } else {
        *at++ = 2;
        *at++ = (uint8_t)key;
    }
    char kind = *(*text)++;
    if (kind == '-') {
        *at++ = 1;
    } else {
        *at++ = 2;
        *at++ = (uint8_t)*(*text)++;
    }
    *at++ = 0; /* headers */
    out[0] = (uint8_t)((at - body) * 2);
    memcpy(out + 1, body, (size_t)(at - body));
    return (size_t)(at - body) + 1;
}

static size_t make(uint8_t *out, const struct spec *spec)
{
    size_t length = MPB_BATCH_HEADER_BYTES;
    int32_t count = 0, delta = 0;
    memset(out, 0, MPB_BATCH_HEADER_BYTES);
    for (const char *text = spec->records; *text != '\0'; count++, delta++) {
        if (*text >= '0' && *text <= '9')
            delta = *text++ - '0';
        length += put_record(out + length, delta, &text);
    }
    mpb_put_be64(out, spec->base);
    out[MPB_BATCH_MAGIC] = 2;
    mpb_put_be16(out + MPB_BATCH_ATTRIBUTES, spec->attributes);
    mpb_put_be32(out + MPB_BATCH_LAST_OFFSET_DELTA, count - 1);
    mpb_put_be64(out + MPB_BATCH_BASE_TIMESTAMP, 500);
    mpb_put_be64(out + MPB_BATCH_MAX_TIMESTAMP, 500 + count - 1);
    mpb_put_be64(out + MPB_BATCH_PRODUCER_ID, spec->producer_id);
    mpb_put_be32(out + MPB_BATCH_BASE_SEQUENCE, 40);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, count);
    mpb_compaction_seal(out, length);
    return length;
}

static size_t make_all(uint8_t *out, const struct spec *specs, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += make(out + length, &specs[i]);
    return length;
}

/* What is left, as text: "base[offset key value@timestamp,...]". */
static void tell(char *text, const uint8_t *bytes, size_t length)
{
    struct mpb_batch_scan scan = {bytes, length, 0, true};
    struct mpb_batch_info info;
    size_t need;
    enum mpb_scan_result found;
    *text = '\0';
    while ((found = mpb_batch_scan_next(&scan, &info, &need)) == MPB_SCAN_BATCH) {
        const uint8_t *at = info.records, *end = at + info.records_len;
        text += sprintf(text, "%lld[", (long long)info.base_offset);
        for (int32_t i = 0; i < info.record_count; i++) {
            struct mpb_record record;
            CHECK_EQ(mpb_record_read(at, end, true, &record), 0);
            at = record.next;
            text += sprintf(text, "%s%d%c%c@%lld", i > 0 ? "," : "", record.offset_delta,
                            record.key_len < 0 ? '?' : record.key[0], record.value_len < 0 ? '-' : record.value[0],
                            (long long)mpb_record_timestamp(&record, &info));
        }
        CHECK(at == end);
        text += sprintf(text, "]");
    }
    CHECK_EQ(found, MPB_SCAN_END);
}

struct run {
    struct mpb_key_map map;
    struct mpb_compaction rules;
    uint8_t in[4096], out[8192];
    size_t length, produced;
    char left[1024];
};

static void compact(struct run *r, const struct spec *specs, size_t count, int64_t from)
{
    size_t at = 0;
    r->length = make_all(r->in, specs, count);
    CHECK(mpb_key_map_open(&r->map, 64, 60, SEED));
    CHECK_EQ(mpb_compaction_learn(&r->map, &NONE_ABORTED, r->in, r->length, &at, from, INT64_MAX), MPB_COMPACT_END);
    CHECK_EQ(at, r->length);
    r->rules.map = &r->map;
    at = r->produced = 0;
    CHECK_EQ(mpb_compaction_apply(&r->rules, r->in, r->length, &at, r->out, sizeof r->out, &r->produced),
             MPB_COMPACT_END);
    CHECK_EQ(at, r->length);
    tell(r->left, r->out, r->produced);
    mpb_key_map_close(&r->map);
}

static void expect(const struct spec *specs, size_t count, int64_t from, const char *left)
{
    static struct run r;
    memset(&r, 0, sizeof r);
    r.rules.now_ms = NOW;
    r.rules.delete_retention_ms = RETENTION;
    compact(&r, specs, count, from);
    if (strcmp(r.left, left) != 0)
        fprintf(stderr, "left %s, wanted %s\n", r.left, left);
    CHECK(strcmp(r.left, left) == 0);
}
#define EXPECT(left, from, ...)                                      \
    do {                                                             \
        const struct spec specs[] = {__VA_ARGS__};                   \
        expect(specs, sizeof specs / sizeof *specs, (from), (left)); \
    } while (0)

static void test_newest_of_each_key(void)
{
    EXPECT("0[1b2@501]2[0a3@500]", 0, {0, -1, 0, "a=1b=2"}, {2, -1, 0, "a=3"});
    EXPECT("0[2a3@502]", 0, {0, -1, 0, "a=1a=2a=3"}); /* within one batch */
    EXPECT("1[0b1@500]2[0a2@500]", 0, {0, -1, 0, "a=1"}, {1, -1, 0, "b=1"}, {2, -1, 0, "a=2"});
    EXPECT("0[0a1@500]1[0b1@500]", 0, {0, -1, 0, "a=1"}, {1, -1, 0, "b=1"});            /* nothing to do: as it is */
    EXPECT("0[0a1@500,1a2@501]2[0b1@500]", 2, {0, -1, 0, "a=1a=2"}, {2, -1, 0, "b=1"}); /* keys are learnt from 2 on */
    EXPECT("0[1b1@501]", 0, {0, -1, 0, "?=1b=1"}); /* without a key it has no place */
}

static void test_producers_lies_about_offsets_stay_their_own(void)
{
    EXPECT("0[0b0@500]2[0a9@500]", 0, {0, -1, 0, "b=0"}, {1, -1, 0, "9a=1"}, {2, -1, 0, "a=9"});
}

static void test_control_batches_stay(void)
{
    static struct run r;
    struct spec control = {3, 7, MPB_ATTRIBUTE_CONTROL | MPB_ATTRIBUTE_TRANSACTIONAL, "a=1"};
    const struct spec specs[] = {control, {4, -1, 0, "a=2"}};
    memset(&r, 0, sizeof r);
    r.rules.now_ms = NOW;
    compact(&r, specs, 2, 0);
    CHECK(strcmp(r.left, "3[0a1@500]4[0a2@500]") == 0);
}

static void test_the_last_batch_of_a_producer_stays_without_records(void)
{
    static struct run r;
    static const struct mpb_producer_end ends[] = {{5, 4}, {7, 1}, {9, 9}};
    const struct spec specs[] = {{0, 7, 0, "a=1a=2"}, {2, 7, 0, "a=3"}, {3, 5, 0, "a=4a=5"}, {5, -1, 0, "a=6"}};
    memset(&r, 0, sizeof r);
    r.rules.now_ms = NOW;
    r.rules.producers = ends;
    r.rules.producer_count = 3;
    compact(&r, specs, 4, 0);
    CHECK(strcmp(r.left, "0[]2[]3[]5[0a6@500]") == 0); /* 2: at or behind what is known of producer 7 */
    struct mpb_batch_info info;
    mpb_batch_read(r.out, &info);
    CHECK_EQ(info.batch_bytes, MPB_BATCH_HEADER_BYTES);
    CHECK_EQ(info.last_offset_delta, 1);
    CHECK_EQ(info.base_sequence, 40);
    CHECK_EQ(info.max_timestamp, 501); /* of a batch without records: as it was */
}

static void test_tombstones_go_when_their_horizon_has_passed(void)
{
    static struct run r;
    uint8_t first[4096];
    const struct spec specs[] = {{0, -1, 0, "a=1b=1"}, {2, -1, 0, "a-c=1"}};
    memset(&r, 0, sizeof r);
    r.rules.now_ms = NOW;
    r.rules.delete_retention_ms = RETENTION;
    compact(&r, specs, 2, 0);
    CHECK(strcmp(r.left, "0[1b1@501]2[0a-@500,1c1@501]") == 0); /* the tombstone stays, with its own time */
    size_t length = r.produced, at = 0;
    memcpy(first, r.out, length);
    struct mpb_batch_info info;
    mpb_batch_read(first + MPB_BATCH_HEADER_BYTES + (size_t)first[MPB_BATCH_HEADER_BYTES] / 2 + 1, &info);
    CHECK_EQ(info.attributes, MPB_ATTRIBUTE_DELETE_HORIZON);
    CHECK_EQ(info.base_timestamp, NOW + RETENTION);
    CHECK_EQ(info.max_timestamp, 501);
    for (int64_t late = -1; late <= 0; late++) {
        CHECK(mpb_key_map_open(&r.map, 64, 60, SEED));
        r.rules.now_ms = NOW + RETENTION + late;
        at = r.produced = 0;
        CHECK_EQ(mpb_compaction_learn(&r.map, &NONE_ABORTED, first, length, &at, 0, INT64_MAX), MPB_COMPACT_END);
        at = 0;
        CHECK_EQ(mpb_compaction_apply(&r.rules, first, length, &at, r.out, sizeof r.out, &r.produced), MPB_COMPACT_END);
        tell(r.left, r.out, r.produced);
        CHECK(strcmp(r.left, late < 0 ? "0[1b1@501]2[0a-@500,1c1@501]" : "0[1b1@501]2[1c1@501]") == 0);
        mpb_key_map_close(&r.map);
    }
}

static size_t make_marker(uint8_t *out, int64_t offset, int64_t producer_id, bool commit)
{
    static const uint8_t record[] = {32, 0, 0, 0, 8, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 9, 0};
    size_t length = MPB_BATCH_HEADER_BYTES + sizeof record;
    memset(out, 0, MPB_BATCH_HEADER_BYTES);
    mpb_put_be64(out, offset);
    out[MPB_BATCH_MAGIC] = 2;
    mpb_put_be16(out + MPB_BATCH_ATTRIBUTES, MPB_ATTRIBUTE_CONTROL | MPB_ATTRIBUTE_TRANSACTIONAL);
    mpb_put_be64(out + MPB_BATCH_BASE_TIMESTAMP, 700);
    mpb_put_be64(out + MPB_BATCH_MAX_TIMESTAMP, 700);
    mpb_put_be64(out + MPB_BATCH_PRODUCER_ID, producer_id);
    mpb_put_be32(out + MPB_BATCH_BASE_SEQUENCE, -1);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, 1);
    memcpy(out + MPB_BATCH_HEADER_BYTES, record, sizeof record);
    out[MPB_BATCH_HEADER_BYTES + 8] = commit;
    mpb_compaction_seal(out, length);
    return length;
}

/* Batches as text: the offset, and C or A for markers, h where one has a horizon. A marker's own time never changes. */
static void show(char *text, const uint8_t *bytes, size_t length)
{
    struct mpb_batch_scan scan = {bytes, length, 0, true};
    struct mpb_batch_info info;
    size_t need;
    while (mpb_batch_scan_next(&scan, &info, &need) == MPB_SCAN_BATCH) {
        int16_t type;
        int32_t epoch;
        bool is_marker = mpb_marker_read(&info, &type, &epoch), waits = info.attributes & MPB_ATTRIBUTE_DELETE_HORIZON;
        text += sprintf(text, "%lld%s%s ", (long long)info.base_offset,
                        !is_marker  ? ""
                        : type == 1 ? "C"
                                    : "A",
                        is_marker && waits ? "h" : "");
        struct mpb_record record;
        if (is_marker && mpb_record_read(info.records, info.records + info.records_len, true, &record) == 0)
            CHECK_EQ(mpb_record_timestamp(&record, &info), 700);
        CHECK(!is_marker || (epoch == 9 && info.max_timestamp == 700));
        CHECK(!is_marker || (waits ? info.base_timestamp > NOW : info.base_timestamp == 700));
    }
    CHECK_EQ(scan.pos, length);
}

struct log_bytes {
    uint8_t bytes[4096];
    size_t length;
};

/* One pass over a log, from its beginning, into itself. */
static void pass(struct log_bytes *log, int64_t now_ms, const struct mpb_producer_end *ends, size_t count,
                 const char *left)
{
    static uint8_t out[8192];
    struct mpb_key_map map;
    struct mpb_producer_set open = {0};
    struct mpb_compaction rules = {.map = &map,
                                   .now_ms = now_ms,
                                   .delete_retention_ms = RETENTION,
                                   .producers = ends,
                                   .producer_count = count,
                                   .open = &open};
    size_t at = 0, produced = 0;
    char text[1024] = "";
    CHECK(mpb_key_map_open(&map, 64, 60, SEED));
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, log->bytes, log->length, &at, 0, INT64_MAX), MPB_COMPACT_END);
    at = 0;
    /* no room for the marker at the end at first: it is asked about twice */
    while (mpb_compaction_apply(&rules, log->bytes, log->length, &at, out, log->length + 20, &produced) ==
           MPB_COMPACT_FULL) {
        enum mpb_compaction_stop stop = mpb_compaction_apply(&rules, log->bytes, log->length, &at, out, sizeof out,
                                                             &produced);
        CHECK_EQ(stop, MPB_COMPACT_END);
    }
    mpb_key_map_close(&map);
    mpb_producer_set_close(&open);
    memcpy(log->bytes, out, produced);
    log->length = produced;
    show(text, out, produced);
    if (strcmp(text, left) != 0)
        fprintf(stderr, "left %s, wanted %s\n", text, left);
    CHECK(strcmp(text, left) == 0);
}

static void put(struct log_bytes *log, int64_t offset, int64_t producer_id, const char *records)
{
    struct spec spec = {offset, producer_id, producer_id < 0 ? 0 : MPB_ATTRIBUTE_TRANSACTIONAL, records};
    log->length += make(log->bytes + log->length, &spec);
}

static void end(struct log_bytes *log, int64_t offset, int64_t producer_id, bool commit)
{
    log->length += make_marker(log->bytes + log->length, offset, producer_id, commit);
}

static void test_a_marker_goes_some_time_after_the_last_of_its_transaction(void)
{
    static struct log_bytes log;
    static const struct mpb_producer_end ends[] = {{7, 8}};
    log.length = 0;
    put(&log, 0, 5, "a=1");
    put(&log, 1, 7, "b=1");
    end(&log, 2, 7, true);
    put(&log, 3, 7, "c=1");
    end(&log, 4, 5, true);
    end(&log, 5, 7, false);
    put(&log, 6, -1, "a=2b=2");
    put(&log, 8, 7, "d=1");
    end(&log, 9, 7, true);
    pass(&log, NOW, ends, 1, "2C 3 4C 5A 6 8 9C ");   /* their records went with this pass */
    pass(&log, NOW, ends, 1, "2Ch 3 4Ch 5A 6 8 9C "); /* 5: its transaction's record is newest of its key */
    pass(&log, NOW + RETENTION - 1, ends, 1, "2Ch 3 4Ch 5A 6 8 9C "); /* not yet */
    pass(&log, NOW + RETENTION, ends, 1, "3 5A 6 8 9C ");
    pass(&log, NOW + 9 * RETENTION, ends, 1, "3 5A 6 8 9C ");
}

/* While it is known: without it, its epoch and how its last transaction ended would be unknown after a loss of all else. */
static void test_the_newest_marker_of_a_producer_stays_while_it_is_known(void)
{
    static struct log_bytes log;
    static const struct mpb_producer_end known[] = {{3, 2}, {5, -1}, {7, 3}};
    log.length = 0;
    end(&log, 0, 5, true);
    end(&log, 2, 3, false);
    end(&log, 3, 4, true);
    end(&log, 4, 7, true);
    pass(&log, NOW, known, 3, "0C 2A 3Ch 4C ");
    pass(&log, NOW + RETENTION, known + 1, 2, "0C 2Ah 4C ");
}

static void test_without_an_order_markers_stay(void)
{
    static struct run r;
    memset(&r, 0, sizeof r);
    size_t at = 0, length = make_marker(r.in, 3, 7, true);
    CHECK(mpb_key_map_open(&r.map, 64, 60, SEED));
    struct mpb_compaction rules = {.map = &r.map, .now_ms = NOW};
    CHECK_EQ(mpb_compaction_apply(&rules, r.in, length, &at, r.out, sizeof r.out, &r.produced), MPB_COMPACT_END);
    CHECK(r.produced == length && memcmp(r.in, r.out, length) == 0);
    mpb_key_map_close(&r.map);
}

/* Under the address sanitizer bytes are moved one by one: ids come in order, and only the last ones are taken out. */
#ifdef __SANITIZE_ADDRESS__
enum { MOVED_PRODUCERS = 512, PRODUCER_STEP = 1 };
#else
enum { MOVED_PRODUCERS = MPB_MOST_IN_PRODUCER_SET, PRODUCER_STEP = 7919 };
#endif

static void test_a_set_of_producers(void)
{
    struct mpb_producer_set set = {0};
    for (int64_t i = 0; i < MPB_MOST_IN_PRODUCER_SET; i++) {
        mpb_producer_set_add(&set, i * PRODUCER_STEP % 65536);
        mpb_producer_set_add(&set, i * PRODUCER_STEP % 65536);
    }
    CHECK(set.count == MPB_MOST_IN_PRODUCER_SET && !set.incomplete);
    CHECK(!mpb_producer_set_take(&set, -1) && !mpb_producer_set_take(&set, 65536));
    const int64_t first = MPB_MOST_IN_PRODUCER_SET - MOVED_PRODUCERS;
    for (int64_t i = first; i < MPB_MOST_IN_PRODUCER_SET; i += 2)
        CHECK(mpb_producer_set_take(&set, i) && !mpb_producer_set_take(&set, i));
    for (int64_t i = first + 1; i < MPB_MOST_IN_PRODUCER_SET; i += 2)
        CHECK_EQ(set.id[first + (i - first) / 2], i);
    for (int64_t i = first; i < MPB_MOST_IN_PRODUCER_SET; i += 2)
        mpb_producer_set_add(&set, i);
    CHECK(!set.incomplete);
    mpb_producer_set_add(&set, 70000);
    CHECK(set.incomplete && set.count == MPB_MOST_IN_PRODUCER_SET);
    CHECK(mpb_producer_set_take(&set, 70000) && mpb_producer_set_take(&set, 80000)); /* either may have been in */
    mpb_producer_set_close(&set);
    CHECK(set.id == NULL && set.count == 0 && !set.incomplete);
}

static void test_where_it_stops(void)
{
    struct mpb_key_map map;
    uint8_t bytes[1024], out[64];
    const struct spec specs[] = {{0, -1, 0, "a=1"}, {1, -1, MPB_CODEC_LZ4, "b=1"}, {2, -1, 0, "c=1"}};
    size_t length = make_all(bytes, specs, 3), at = 0;
    CHECK(mpb_key_map_open(&map, 8, 2, SEED));
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, bytes, length, &at, 0, INT64_MAX), MPB_COMPACT_COMPRESSED);
    size_t one = at;
    CHECK_EQ(mpb_be64(bytes + at), 1);
    struct mpb_batch_info info;
    mpb_batch_read(bytes + at, &info);
    CHECK_EQ(mpb_compaction_learn_batch(&map, &info, info.records, info.records_len, 0), MPB_COMPACT_END);
    at += info.batch_bytes;
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, bytes, length, &at, 0, INT64_MAX), MPB_COMPACT_FULL);
    CHECK_EQ(mpb_be64(bytes + at), 2);
    at = 0;
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, bytes, length, &at, 0, 1), MPB_COMPACT_UNTIL);
    CHECK_EQ(at, one);
    at = 0;
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, bytes, one - 1, &at, 0, INT64_MAX),
             MPB_COMPACT_END); /* not whole yet */
    CHECK_EQ(at, 0);
    bytes[one - 1] ^= 1;
    CHECK_EQ(mpb_compaction_learn(&map, &NONE_ABORTED, bytes, length, &at, 0, INT64_MAX), MPB_COMPACT_CORRUPT);
    bytes[one - 1] ^= 1;
    struct mpb_compaction rules = {.map = &map, .now_ms = NOW};
    size_t produced = 0;
    CHECK_EQ(mpb_compaction_apply(&rules, bytes, length, &at, out, sizeof out, &produced), MPB_COMPACT_FULL);
    CHECK_EQ(produced, 0);
    mpb_key_map_close(&map);
}

/* Only batches of a transaction are: neither its marker, nor what its producer wrote outside of it. */
static void test_what_was_aborted(void)
{
    static const struct mpb_aborted_range RANGES[] = {{5, 10, 20}, {5, 30, 40}, {7, 12, 15}};
    static const struct {
        int64_t producer_id, offset;
        bool aborted;
    } ROWS[] = {{5, 9, false},  {5, 10, true},  {5, 19, true},  {5, 20, false}, {5, 29, false}, {5, 30, true},
                {5, 40, false}, {6, 12, false}, {7, 11, false}, {7, 12, true},  {7, 14, true},  {7, 15, false}};
    const struct mpb_aborted_ranges ranges = {RANGES, sizeof RANGES / sizeof *RANGES};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_batch_info info = {.producer_id = ROWS[i].producer_id, .base_offset = ROWS[i].offset};
        CHECK(!mpb_batch_is_aborted(&ranges, &info));
        info.attributes = MPB_ATTRIBUTE_TRANSACTIONAL;
        CHECK_EQ(mpb_batch_is_aborted(&ranges, &info), ROWS[i].aborted);
        CHECK(!mpb_batch_is_aborted(&NONE_ABORTED, &info));
        info.attributes |= MPB_ATTRIBUTE_CONTROL;
        CHECK(!mpb_batch_is_aborted(&ranges, &info));
    }
}

int main(void)
{
    test_what_was_aborted();
    test_hash_of_the_reference();
    test_map();
    test_newest_of_each_key();
    test_producers_lies_about_offsets_stay_their_own();
    test_control_batches_stay();
    test_the_last_batch_of_a_producer_stays_without_records();
    test_tombstones_go_when_their_horizon_has_passed();
    test_a_marker_goes_some_time_after_the_last_of_its_transaction();
    test_the_newest_marker_of_a_producer_stays_while_it_is_known();
    test_without_an_order_markers_stay();
    test_a_set_of_producers();
    test_where_it_stops();
    printf("compaction: %lu checks\n", checks_made);
    return 0;
}
