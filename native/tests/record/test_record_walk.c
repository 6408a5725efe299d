/* The walk over a batch's records beside a second one, written from the format's description (Kafka's "Record": varints
 * are zig-zag, null is -1) and from what record_batch.h promises: records of all kinds, sound and with changed bytes, at
 * the end of memory, under rules at their bounds. test_record_walk [rounds] [seed] */
#include "tests/stepping/check.h"
#include "tests/stepping/guarded.h"
#include "record/marker_read.h"
#include "record/record_batch.h"

#define MOST 512
#define NOW INT64_C(1000000)

static uint64_t state;

static uint32_t pick(uint32_t below) { return random_below(&state, below); }

/* ------------------------------------------------------------------ the second walk */
struct reader {
    const uint8_t *bytes;
    size_t at, end;
};

/* A number of at most `most` bytes, of which the lowest `width` bits count. */
static bool number(struct reader *r, int most, int width, int64_t *out)
{
    unsigned __int128 sum = 0, place = 1;
    for (int i = 0; i < most; i++, place *= 128) {
        if (r->at >= r->end)
            return false;
        uint8_t byte = r->bytes[r->at++];
        sum += byte % 128 * place;
        if (byte / 128 == 0) {
            uint64_t low = width == 64 ? (uint64_t)sum : (uint64_t)sum % ((uint64_t)1 << 32);
            *out = low % 2 == 0 ? (int64_t)(low / 2) : -(int64_t)(low / 2) - 1;
            return true;
        }
    }
    return false;
}

static bool counted(struct reader *r, int64_t *length, size_t *begin)
{
    if (!number(r, 5, 32, length))
        return false;
    *begin = r->at;
    if (*length > (int64_t)(r->end - r->at))
        return false;
    r->at += *length > 0 ? (size_t)*length : 0;
    return true;
}

struct walked {
    int64_t timestamp_delta, offset_delta, key_length, value_length, header_count;
    size_t key, value, headers;
};

static int walk(struct reader *r, bool exact, struct walked *out)
{
    int64_t body, length;
    size_t begin = r->at, all = r->end, skipped;
    if (!number(r, 5, 32, &body)) /* five bytes that all go on are no number; fewer are a number cut off */
        return exact && all - begin >= 5 ? MPB_ERR_UNKNOWN_SERVER_ERROR : MPB_ERR_INVALID_RECORD;
    if (exact && (body < 0 || body > (int64_t)(all - r->at)))
        return MPB_ERR_INVALID_RECORD;
    if (exact)
        r->end = r->at + (size_t)body;
    if (r->at == r->end)
        return MPB_ERR_INVALID_RECORD;
    r->at++; /* attributes */
    bool good = number(r, 10, 64, &out->timestamp_delta) && number(r, 5, 32, &out->offset_delta) &&
                counted(r, &out->key_length, &out->key) && counted(r, &out->value_length, &out->value) &&
                number(r, 5, 32, &out->header_count) && out->header_count >= 0 &&
                out->header_count <= (int64_t)(r->end - r->at);
    out->headers = r->at;
    for (int64_t i = 0; good && i < out->header_count; i++)
        good = counted(r, &length, &skipped) && length >= 0 && counted(r, &length, &skipped);
    good = good && (!exact || r->at == r->end);
    r->end = all;
    return good ? MPB_ERR_NONE : MPB_ERR_INVALID_RECORD;
}

/* ------------------------------------------------------------------ records */
struct written {
    uint8_t bytes[MOST];
    size_t length;
};

static void put_number(struct written *w, int64_t value)
{
    uint64_t rest = value < 0 ? (uint64_t)(-(value + 1)) * 2 + 1 : (uint64_t)value * 2;
    for (; rest >= 128; rest /= 128)
        w->bytes[w->length++] = (uint8_t)(rest % 128 + 128);
    w->bytes[w->length++] = (uint8_t)rest;
}

static void put_bytes(struct written *w, int64_t length)
{
    put_number(w, length);
    for (int64_t i = 0; i < length; i++)
        w->bytes[w->length++] = (uint8_t)pick(256);
}

static const int64_t DELTAS[] = {0, 0, 0, 1, -1, 63, 64, -64, -65, 1001, -1001, NOW, INT32_MAX, INT64_MAX, INT64_MIN};

static void put_record(struct written *w, int64_t offset_delta)
{
    struct written body = {.length = 1};
    put_number(&body, DELTAS[pick(sizeof DELTAS / sizeof *DELTAS)]);
    put_number(&body, pick(20) ? offset_delta : (int64_t)(int32_t)next_random(&state));
    put_bytes(&body, pick(4) ? (int64_t)pick(4) : pick(4) ? -1 : -2);
    put_bytes(&body, pick(4) ? (int64_t)pick(70) : -1);
    int64_t headers = pick(3) ? 0 : pick(3);
    put_number(&body, headers);
    for (int64_t i = 0; i < headers; i++) {
        put_bytes(&body, pick(20) ? (int64_t)pick(4) : -1);
        put_bytes(&body, (int64_t)pick(5) - 1);
    }
    put_number(w, (int64_t)body.length + (pick(20) ? 0 : (int64_t)pick(3) - 1));
    memcpy(w->bytes + w->length, body.bytes, body.length);
    w->length += body.length;
}

static void compare_records(const uint8_t *bytes, size_t length, bool exact)
{
    struct reader r = {bytes, 0, length};
    const uint8_t *at = bytes;
    for (int error = 0; error == 0 && r.at < length;) {
        struct walked wanted;
        struct mpb_record got;
        error = walk(&r, exact, &wanted);
        CHECK_EQ(mpb_record_read(at, bytes + length, exact, &got), error);
        if (error != 0)
            return;
        CHECK_EQ(got.timestamp_delta, wanted.timestamp_delta);
        CHECK_EQ(got.offset_delta, wanted.offset_delta);
        CHECK_EQ(got.key_len, wanted.key_length);
        CHECK_EQ(got.value_len, wanted.value_length);
        CHECK_EQ(got.header_count, wanted.header_count);
        CHECK(got.key == bytes + wanted.key && got.value == bytes + wanted.value);
        CHECK(got.headers == bytes + wanted.headers && got.next == bytes + r.at);
        at = got.next;
    }
}

/* ------------------------------------------------------------------ what a leader says of them */
static int refusal(const struct walked *record, int64_t timestamp, const struct mpb_batch_info *info,
                   const struct mpb_batch_rules *rules)
{
    bool stamped = (info->attributes & MPB_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    if (rules->compacted && record->key_length < 0)
        return MPB_ERR_INVALID_RECORD;
    if (rules->log_append_time || timestamp == MPB_NO_TIMESTAMP)
        return stamped ? MPB_ERR_INVALID_TIMESTAMP : 0;
    __int128 age = (__int128)rules->now_ms - timestamp;
    if (age > INT64_MAX) /* Kafka's numbers wrap (far_times) */
        age -= (__int128)1 << 64;
    bool early = age > 0 && age > rules->timestamp_before_max_ms;
    bool late = age < 0 && age > INT64_MIN && -age > rules->timestamp_after_max_ms;
    return early || late ? MPB_ERR_INVALID_TIMESTAMP : 0;
}

struct judged {
    int error, refused;
    struct mpb_records_info info;
    struct mpb_refused_record list[8];
};

static int64_t time_of(const struct walked *record, const struct mpb_batch_info *info)
{
    return info->attributes & MPB_ATTRIBUTE_LOG_APPEND_TIME
               ? info->max_timestamp
               : (int64_t)((uint64_t)info->base_timestamp + (uint64_t)record->timestamp_delta);
}

/* What cannot be read counts for most, then a timestamp, then a key that is missing; the first record refused is named. */
static struct judged judge(const uint8_t *bytes, size_t length, const struct mpb_batch_info *info,
                           const struct mpb_batch_rules *rules)
{
    struct judged j = {0, 0, {MPB_NO_TIMESTAMP, -1, -1}, {{0}}};
    struct reader r = {bytes, 0, length};
    bool in_order = true, untimely = false, keyless = false;
    for (int32_t i = 0; i < info->record_count; i++) {
        struct walked record;
        j.error = walk(&r, info->codec == 0, &record);
        if (j.error != 0) {
            j.info.bad_record = i;
            j.refused = 0;
            return j;
        }
        in_order = in_order && record.offset_delta == i;
        int64_t timestamp = time_of(&record, info);
        int error = refusal(&record, timestamp, info, rules);
        if (error == 0 && timestamp > j.info.max_timestamp) {
            j.info.max_timestamp = timestamp;
            j.info.max_timestamp_delta = i;
        }
        untimely = untimely || error == MPB_ERR_INVALID_TIMESTAMP;
        keyless = keyless || error == MPB_ERR_INVALID_RECORD;
        if (error != 0 && j.refused == 0)
            j.info.bad_record = i;
        if (error != 0)
            j.list[j.refused++] = (struct mpb_refused_record){i, error, timestamp};
    }
    bool whole = r.at == length;
    if (!whole) {
        j.info.bad_record = info->record_count;
        j.refused = 0;
    }
    j.error = !whole                          ? MPB_ERR_INVALID_RECORD
              : untimely                      ? MPB_ERR_INVALID_TIMESTAMP
              : keyless                       ? MPB_ERR_INVALID_RECORD
              : info->codec != 0 && !in_order ? MPB_ERR_UNKNOWN_SERVER_ERROR
                                              : 0;
    return j;
}

/* Whether nothing is refused. */
static bool compare_judgement(const uint8_t *bytes, size_t length, const struct mpb_batch_info *info)
{
    static const int64_t bounds[] = {0, 1, 1000, 1001, INT64_MAX};
    struct mpb_batch_rules rules = {.compacted = pick(3) == 0,
                                    .log_append_time = pick(4) == 0,
                                    .now_ms = NOW + pick(3),
                                    .timestamp_before_max_ms = bounds[pick(5)],
                                    .timestamp_after_max_ms = bounds[pick(5)]};
    struct judged wanted = judge(bytes, length, info, &rules);
    struct mpb_records_info got;
    CHECK_EQ(mpb_records_check(bytes, length, info, &rules, &got), wanted.error);
    CHECK_EQ(got.bad_record, wanted.info.bad_record);
    if (wanted.error == 0) {
        CHECK_EQ(got.max_timestamp, wanted.info.max_timestamp);
        CHECK_EQ(got.max_timestamp_delta, wanted.info.max_timestamp_delta);
    }
    struct mpb_refused_record list[9];
    int32_t most = (int32_t)pick(5);
    memset(list, 0x5a, sizeof list);
    CHECK_EQ(mpb_records_refused(bytes, length, info, &rules, list, most), wanted.refused);
    for (int32_t i = 0; i < most && i < wanted.refused; i++) {
        CHECK_EQ(list[i].index, wanted.list[i].index);
        CHECK_EQ(list[i].error, wanted.list[i].error);
        CHECK_EQ(list[i].timestamp, wanted.list[i].timestamp);
    }
    CHECK_EQ(list[most].index, 0x5a5a5a5a); /* no more than there is room for */
    return wanted.error == 0;
}

/* The first record that is as new as that. */
static void compare_search(const uint8_t *bytes, size_t length, const struct mpb_batch_info *info, int64_t target)
{
    struct reader r = {bytes, 0, length};
    int32_t delta = 0, wanted_delta = 0;
    int64_t timestamp = 0, wanted_timestamp = 0;
    int wanted = 1;
    for (int32_t i = 0; i < info->record_count && r.at < length && wanted == 1; i++) {
        struct walked record;
        if (walk(&r, false, &record) != 0) {
            wanted = MPB_ERR_INVALID_RECORD;
            break;
        }
        wanted_timestamp = time_of(&record, info);
        wanted_delta = (int32_t)record.offset_delta;
        wanted = wanted_timestamp >= target ? 0 : 1;
    }
    CHECK_EQ(mpb_records_find_timestamp(bytes, length, info, target, &delta, &timestamp), wanted);
    if (wanted == 0) {
        CHECK_EQ(delta, wanted_delta);
        CHECK_EQ(timestamp, wanted_timestamp);
    }
}

static bool one_round(const struct guarded *memory)
{
    struct written w = {.length = 0};
    int32_t count = (int32_t)pick(4);
    for (int32_t i = 0; i < count; i++)
        put_record(&w, i);
    if (pick(4) == 0 && w.length > 0)
        w.bytes[pick((uint32_t)w.length)] = (uint8_t)(pick(2) ? pick(256) : pick(2) ? 0xff : 0x80);
    if (pick(8) == 0)
        w.length = pick((uint32_t)w.length + 1);
    if (pick(8) == 0) /* numbers that do not end */
        for (uint32_t i = 0, more = pick(12); i < more; i++)
            w.bytes[w.length++] = 0xff;
    struct mpb_batch_info info = {
        .base_timestamp = pick(8) ? NOW - 1 + (int64_t)pick(3) : -1,
        .max_timestamp = NOW - 1001 + (int64_t)pick(3),
        .record_count = count + (pick(8) ? 0 : (int32_t)pick(3) - 1),
        .attributes = pick(4) ? 0 : MPB_ATTRIBUTE_LOG_APPEND_TIME,
        .codec = pick(2) ? MPB_CODEC_NONE : MPB_CODEC_GZIP,
    };
    const uint8_t *bytes = guarded_copy(memory, w.bytes, w.length);
    compare_records(bytes, w.length, true);
    compare_records(bytes, w.length, false);
    const bool sound = compare_judgement(bytes, w.length, &info);
    compare_search(bytes, w.length, &info, NOW - 2 + (int64_t)pick(4));
    return sound;
}

/* Numbers at the bounds of their widths, and one byte too long. */
static void bounds_of_numbers(const struct guarded *memory)
{
    static const struct {
        const char *bytes; /* of the timestamp delta */
        size_t length;
        int error;
        int64_t value;
    } rows[] = {{"\x7f", 1, 0, -64},
                {"\x80\x01", 2, 0, 64},
                {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, 0, INT64_MIN},
                {"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, 0, INT64_MAX},
                {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\0", 11, MPB_ERR_INVALID_RECORD, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t bytes[32] = {0};
        size_t length = 2 + rows[i].length + 4;
        struct mpb_record record;
        bytes[0] = (uint8_t)(2 * (length - 1));
        memcpy(bytes + 2, rows[i].bytes, rows[i].length);
        memcpy(bytes + 2 + rows[i].length, "\0\1\1\0", 4);
        CHECK_EQ(mpb_record_read(guarded_copy(memory, bytes, length), memory->end, true, &record), rows[i].error);
        if (rows[i].error == 0)
            CHECK_EQ(record.timestamp_delta, rows[i].value);
    }
}

/* At the bounds of what a difference holds, and beyond: an age that is too large counts as one to come, and the largest of all
 * as none. */
static void far_times(void)
{
    static const struct {
        int64_t timestamp, before_max, after_max;
        bool refused;
    } rows[] = {{NOW - INT64_MAX, INT64_MAX, 0, false},
                {NOW - INT64_MAX, INT64_MAX - 1, INT64_MAX, true},
                {NOW - INT64_MAX - 1, 0, 0, false},
                {NOW - INT64_MAX - 2, 0, INT64_MAX, false},
                {NOW - INT64_MAX - 2, INT64_MAX, INT64_MAX - 1, true},
                {INT64_MIN, 0, INT64_MAX - NOW + 1, false},
                {INT64_MIN, INT64_MAX, INT64_MAX - NOW, true},
                {INT64_MAX, 0, INT64_MAX - NOW, false},
                {INT64_MAX, INT64_MAX, INT64_MAX - NOW - 1, true}};
    static const uint8_t record[] = {14, 0, 0, 0, 2, 'k', 1, 0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mpb_batch_info info = {.base_timestamp = rows[i].timestamp, .record_count = 1};
        const struct mpb_batch_rules rules = {
            .now_ms = NOW, .timestamp_before_max_ms = rows[i].before_max, .timestamp_after_max_ms = rows[i].after_max};
        struct mpb_records_info got;
        CHECK_EQ(mpb_records_check(record, sizeof record, &info, &rules, &got),
                 rows[i].refused ? MPB_ERR_INVALID_TIMESTAMP : 0);
    }
}

/* A header's key is there, its value may be null; -1 is the answer to whatever does not fit. */
static void single_headers(const struct guarded *memory)
{
    static const struct {
        const char *bytes;
        size_t length;
        int error;
        int32_t key_length, value_length;
    } rows[] = {{"\2k\2v", 4, 0, 1, 1},
                {"\2k\1", 3, 0, 1, -1},
                {"\0\0", 2, 0, 0, 0},
                {"\4kl\6vwx", 7, 0, 2, 3},
                {"\1\2v", 3, -1, 0, 0},
                {"\2k\4v", 4, -1, 0, 0},
                {"\4k", 2, -1, 0, 0},
                {"\2k", 2, -1, 0, 0},
                {"", 0, -1, 0, 0},
                {"\2k\x80", 3, -1, 0, 0},
                {"\2k\xff\xff\xff\xff\xff", 7, -1, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t *begin = guarded_copy(memory, rows[i].bytes, rows[i].length), *at = begin, *key, *value;
        int32_t key_length, value_length;
        CHECK_EQ(mpb_record_header_read(&at, memory->end, &key_length, &key, &value_length, &value), rows[i].error);
        if (rows[i].error != 0)
            continue;
        CHECK(at == memory->end && key_length == rows[i].key_length && value_length == rows[i].value_length);
        CHECK(key == begin + 1 && value == key + key_length + 1);
    }
}

/* A marker's key is version and type, its value version and the coordinator's epoch; of whatever else is in a control
 * batch, nobody may think that it ended a transaction. */
static void markers(const struct guarded *memory)
{
    static const struct {
        int16_t attributes;
        int32_t count;
        int64_t key_length, value_length;
        uint8_t type;
        bool is_one;
    } rows[] = {{0x20, 1, 4, 6, 1, true},  {0x30, 1, 4, 6, 0, true},  {0x20, 1, 4, 5, 1, true},
                {0x20, 1, 5, 7, 1, true},  {0x20, 1, 3, 6, 0, false}, {0x20, 1, 4, 6, 2, false},
                {0, 1, 4, 6, 1, false},    {0x20, 0, 4, 6, 1, false}, {0x20, 2, 4, 6, 1, false},
                {0x21, 1, 4, 6, 1, false}, {0x20, 1, 4, -1, 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct written body = {.length = 0}, w = {.length = 0};
        memcpy(body.bytes, "\0\0\0", body.length = 3);
        put_number(&body, rows[i].key_length);
        memset(body.bytes + body.length, 0, (size_t)rows[i].key_length);
        body.bytes[body.length + 3] = rows[i].type;
        body.length += (size_t)rows[i].key_length;
        put_number(&body, rows[i].value_length);
        if (rows[i].value_length > 0) {
            memcpy(body.bytes + body.length, "\0\0\1\2\3\4\5", (size_t)rows[i].value_length);
            body.length += (size_t)rows[i].value_length;
        }
        body.bytes[body.length++] = 0;
        put_number(&w, (int64_t)body.length);
        memcpy(w.bytes + w.length, body.bytes, body.length);
        w.length += body.length;
        struct mpb_batch_info info = {.records = guarded_copy(memory, w.bytes, w.length),
                                      .records_len = w.length,
                                      .attributes = rows[i].attributes,
                                      .codec = rows[i].attributes & MPB_CODEC_MASK,
                                      .record_count = rows[i].count};
        int16_t type = 77;
        int32_t epoch = 77;
        CHECK_EQ(mpb_marker_read(&info, &type, &epoch), rows[i].is_one);
        CHECK_EQ(mpb_is_abort(&info), rows[i].is_one && rows[i].type == 0);
        CHECK_EQ(epoch, rows[i].is_one && rows[i].value_length >= 6 ? 0x01020304 : -1);
        if (rows[i].is_one)
            CHECK_EQ(type, rows[i].type);
    }
    struct mpb_batch_info empty = {.records = memory->end, .attributes = 0x20, .record_count = 1};
    int16_t type = 77;
    int32_t epoch = 77;
    CHECK(!mpb_marker_read(&empty, &type, &epoch) && type == -1 && epoch == -1);
}

int main(int argc, char **argv)
{
    unsigned long sound = 0, rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 3;
    struct guarded memory = guarded_open(MOST);
    bounds_of_numbers(&memory);
    far_times();
    single_headers(&memory);
    markers(&memory);
    for (unsigned long i = 0; i < rounds; i++)
        sound += one_round(&memory);
    CHECK(sound > rounds / 20 && sound < rounds);
    printf("record walk: %lu checks in %lu rounds, %lu of sound records\n", checks_made, rounds, sound);
    return 0;
}
