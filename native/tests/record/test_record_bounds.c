/* Every check of a batch's header at its bound, each field where it stands, and the heads of LZ4 frames: one more or one
 * less of a length, a count or a version is another answer. */
#include "record/crc32c.h"
#include "record/lz4.h"
#include "record/record_batch.h"
#include "record/xxh32.h"
#include "tests/stepping/check.h"
#include "tests/stepping/guarded.h"

enum { H = MPB_BATCH_HEADER_BYTES, OVERHEAD = MPB_BATCH_OVERHEAD_BYTES, MOST = H + 64 };
enum {
    CORRUPT = MPB_ERR_CORRUPT_MESSAGE,
    INVALID = MPB_ERR_INVALID_RECORD,
    UNKNOWN = MPB_ERR_UNKNOWN_SERVER_ERROR,
    LARGE = MPB_ERR_MESSAGE_TOO_LARGE,
    NO_ZSTD = MPB_ERR_UNSUPPORTED_COMPRESSION_TYPE
};

static const struct mpb_batch_rules CLIENT = {.max_message_bytes = 1000, .produce_version = 7, .from_client = true};

static void seal(uint8_t *batch, size_t length)
{
    mpb_put_be32(batch + MPB_BATCH_LENGTH, (int32_t)length - OVERHEAD);
    mpb_put_be32(batch + MPB_BATCH_CRC,
                 (int32_t)mpb_crc32c(0, batch + MPB_BATCH_ATTRIBUTES, length - MPB_BATCH_ATTRIBUTES));
}

/* One record of so many bytes that nobody looks into. */
static size_t make(uint8_t out[MOST], size_t length)
{
    memset(out, 0, MOST);
    out[MPB_BATCH_MAGIC] = 2;
    mpb_put_be64(out + MPB_BATCH_PRODUCER_ID, -1);
    mpb_put_be32(out + MPB_BATCH_BASE_SEQUENCE, -1);
    mpb_put_be32(out + MPB_BATCH_RECORD_COUNT, 1);
    seal(out, length);
    return length;
}

static void fields(void)
{
    uint8_t batch[MOST];
    struct mpb_batch_info info;
    for (int i = 0; i < MOST; i++)
        batch[i] = (uint8_t)(i + 1);
    mpb_put_be32(batch + MPB_BATCH_LENGTH, 100);
    memset(&info, 0xff, sizeof info);
    mpb_batch_read(batch, &info);
    CHECK(info.batch_bytes == 112 && info.records_len == 51 && info.records == batch + H);
    CHECK_EQ(info.base_offset, 0x0102030405060708);
    CHECK(info.leader_epoch == 0x0d0e0f10 && info.crc == 0x12131415 && info.attributes == 0x1617);
    CHECK(info.codec == 7 && info.last_offset_delta == 0x18191a1b);
    CHECK(info.base_timestamp == 0x1c1d1e1f20212223 && info.max_timestamp == 0x2425262728292a2b);
    CHECK(info.producer_id == 0x2c2d2e2f30313233 && info.producer_epoch == 0x3435);
    CHECK(info.base_sequence == 0x36373839 && info.record_count == 0x3a3b3c3d);
    for (int codec = 0; codec < 16; codec++) {
        mpb_put_be16(batch + MPB_BATCH_ATTRIBUTES, (int16_t)codec);
        mpb_batch_read(batch, &info);
        CHECK_EQ(info.codec, codec % 8);
    }
}

/* Whether a request can be read at all: by its first batch's length and format, as far as those have come. */
static void peeked(void)
{
    static const struct {
        int32_t length;
        size_t given;
        uint8_t magic;
        int16_t attributes;
        int error;
        bool transactional;
    } CASES[] = {
        {13, 11, 2, 0, 0, false},
        {13, 12, 2, 0, CORRUPT, false},
        {14, 12, 2, 0, 0, false},
        {-1, 80, 2, 0, CORRUPT, false},
        {13, 80, 0, 0, CORRUPT, false},
        {14, 80, 0, 0, 0, false},
        {68, 16, 3, 0, 0, false}, /* its format has not come */
        {68, 17, 3, 0, CORRUPT, false},
        {68, 80, 3, 0, CORRUPT, false},
        {INT32_MAX - OVERHEAD, 80, 2, MPB_ATTRIBUTE_TRANSACTIONAL, 0, false},
        {INT32_MAX - OVERHEAD + 1, 80, 2, 0, UNKNOWN, false},
        {INT32_MAX, 80, 2, 0, UNKNOWN, false},
        {INT32_MAX, 16, 2, 0, 0, false},
        {68, 80, 2, MPB_ATTRIBUTE_TRANSACTIONAL, 0, true},
        {68, 79, 2, MPB_ATTRIBUTE_TRANSACTIONAL, 0, false}, /* is not whole */
        {68, 80, 1, MPB_ATTRIBUTE_TRANSACTIONAL, 0, false},
        {68, 80, 2, ~MPB_ATTRIBUTE_TRANSACTIONAL, 0, false},
        {68, 80, 2, ~0, 0, true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint8_t batch[MOST];
        bool transactional = !CASES[i].transactional;
        make(batch, 80);
        mpb_put_be32(batch + MPB_BATCH_LENGTH, CASES[i].length);
        mpb_put_be16(batch + MPB_BATCH_ATTRIBUTES, CASES[i].attributes);
        batch[MPB_BATCH_MAGIC] = CASES[i].magic;
        CHECK_EQ(mpb_batch_peek(batch, CASES[i].given, &transactional), CASES[i].error);
        CHECK_EQ(transactional, CASES[i].transactional);
    }
}

/* One batch, of format 2, with a codec that the request's version has; behind it too few bytes for another one. */
static void requests(void)
{
    static const struct {
        size_t length, more;
        uint8_t magic;
        int16_t version, codec;
        int error;
    } CASES[] = {
        {80, 0, 2, 7, 0, 0},       {80, 0, 1, 7, 0, INVALID}, {80, 0, 2, 6, 3, 0},        {80, 0, 2, 6, 4, NO_ZSTD},
        {80, 0, 2, 6, 5, UNKNOWN}, {80, 0, 2, 6, 7, UNKNOWN}, {80, 0, 2, 7, 4, 0},        {80, 0, 2, 7, 5, 0},
        {80, 0, 2, 8, 7, 0},       {80, 11, 2, 7, 0, 0},      {80, 12, 2, 7, 0, CORRUPT}, {51, 0, 2, 7, 0, 0},
        {50, 0, 2, 7, 0, UNKNOWN}, {26, 0, 2, 7, 0, UNKNOWN}, {52, 0, 2, 7, 0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint8_t batch[MOST];
        size_t found = 77;
        const struct mpb_batch_rules rules = {.produce_version = CASES[i].version};
        make(batch, CASES[i].length);
        batch[MPB_BATCH_MAGIC] = CASES[i].magic;
        mpb_put_be16(batch + MPB_BATCH_ATTRIBUTES, CASES[i].codec);
        CHECK_EQ(mpb_batch_check_request(batch, CASES[i].length + CASES[i].more, &rules, &found), CASES[i].error);
        CHECK_EQ(found, CASES[i].length);
        CHECK_EQ(mpb_batch_check_request(batch, CASES[i].length - 1, &rules, &found), INVALID);
        CHECK_EQ(found, 0);
    }
    uint8_t two[2 * MOST];
    size_t found;
    make(two, 80);
    make(two + 80, 60);
    CHECK_EQ(mpb_batch_check_request(two, 80 + 59, &CLIENT, &found), 0); /* the second is not whole */
    CHECK_EQ(mpb_batch_check_request(two, 80 + 60, &CLIENT, &found), INVALID);
}

struct claim {
    bool client;
    int64_t base, producer_id;
    int32_t count, delta, sequence;
    int16_t attributes;
    int error;
};

/* What a client's header may say, and what only the broker's own may. */
static void claims(void)
{
    static const struct claim CASES[] = {
        {true, 0, -1, 1, 0, -1, 0, 0},
        {true, 1, -1, 1, 0, -1, 0, INVALID},
        {true, -1, -1, 1, 0, -1, 0, INVALID},
        {false, 1, -1, 1, 0, -1, 0, 0},
        {true, 0, -1, 0, -1, -1, 0, INVALID},
        {true, 0, -1, 2, 1, -1, 0, 0},
        {true, 0, -1, 2, 0, -1, 0, INVALID},
        {true, 0, -1, 2, 2, -1, 0, INVALID},
        {true, 0, -1, -1, -2, -1, 0, INVALID},
        {true, 0, 0, 1, 0, -1, 0, INVALID},
        {true, 0, 0, 1, 0, 0, 0, 0},
        {true, 0, 1, 1, 0, 5, 0, 0},
        {true, 0, -1, 1, 0, -1, MPB_ATTRIBUTE_CONTROL, INVALID},
        {true, 0, -1, 1, 0, -1, MPB_ATTRIBUTE_TRANSACTIONAL, 0},
        {true, 0, -1, 1, 0, -1, 4, 0},
        {true, 0, -1, 1, 0, -1, 5, UNKNOWN},
        {true, 0, -1, 1, 0, -1, MPB_ATTRIBUTE_LOG_APPEND_TIME, 0},
        {false, 0, -1, 1, 0, -1, MPB_ATTRIBUTE_CONTROL, 0},
        {false, 0, -1, 1, 0, -1, 5, UNKNOWN},
        {false, 0, -1, 0, 0, -1, 0, 0},
        {false, 0, -1, 0, 7, -1, 0, 0}, /* compaction emptied it */
        {false, 0, -1, -1, 0, -1, 0, INVALID},
        {false, 0, -1, 0, -1, -1, 0, INVALID},
        {false, 0, 0, 1, 0, -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct claim *claim = &CASES[i];
        uint8_t batch[MOST];
        struct mpb_batch_info info = {.batch_bytes = 77};
        struct mpb_batch_rules rules = CLIENT;
        rules.from_client = claim->client;
        make(batch, 80);
        mpb_put_be64(batch, claim->base);
        mpb_put_be64(batch + MPB_BATCH_PRODUCER_ID, claim->producer_id);
        mpb_put_be32(batch + MPB_BATCH_RECORD_COUNT, claim->count);
        mpb_put_be32(batch + MPB_BATCH_LAST_OFFSET_DELTA, claim->delta);
        mpb_put_be32(batch + MPB_BATCH_BASE_SEQUENCE, claim->sequence);
        mpb_put_be16(batch + MPB_BATCH_ATTRIBUTES, claim->attributes);
        seal(batch, 80);
        CHECK_EQ(mpb_batch_check_append(batch, 80, &rules, &info), claim->error);
        CHECK_EQ(info.batch_bytes, claim->error == 0 ? 80 : 77); /* filled only when it is sound */
        CHECK_EQ(mpb_batch_check(batch, 80, &rules, &info), claim->error);
    }
}

/* By size: a limit of the topic's, none where there is none; what ends within its header has no checksum that holds. */
static void sizes(void)
{
    static const struct {
        size_t length;
        int32_t limit;
        int error;
    } CASES[] = {{80, 80, 0},      {80, 79, LARGE}, {80, 81, 0},      {80, 1, LARGE},
                 {80, 0, 0},       {80, -1, 0},     {50, 0, UNKNOWN}, {51, 0, CORRUPT},
                 {60, 0, CORRUPT}, {61, 0, 0},      {50, 1, UNKNOWN}, {51, 50, LARGE}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint8_t batch[MOST];
        struct mpb_batch_info info;
        struct mpb_batch_rules rules = CLIENT;
        rules.max_message_bytes = CASES[i].limit;
        make(batch, CASES[i].length);
        CHECK_EQ(mpb_batch_check_append(batch, CASES[i].length, &rules, &info), CASES[i].error);
        CHECK_EQ(mpb_batch_crc_ok(batch, CASES[i].length), CASES[i].length >= H);
        batch[H - 1] ^= 4;
        CHECK(!mpb_batch_crc_ok(batch, CASES[i].length));
    }
}

/* The header under which a batch is stored has a checksum that holds, whichever of its two times changes. */
static void patched(void)
{
    for (int old = 0; old < 2; old++)
        for (int made = 0; made < 2; made++)
            for (int64_t time = 899; time <= 901; time++) {
                uint8_t batch[MOST], want[MOST], header[H];
                make(batch, 80);
                mpb_put_be64(batch + MPB_BATCH_MAX_TIMESTAMP, 900);
                mpb_put_be16(batch + MPB_BATCH_ATTRIBUTES, old ? 0x18 : 0x10);
                seal(batch, 80);
                memcpy(want, batch, MOST);
                mpb_put_be64(want + MPB_BATCH_MAX_TIMESTAMP, time);
                mpb_put_be16(want + MPB_BATCH_ATTRIBUTES, made ? 0x18 : 0x10);
                seal(want, 80);
                memcpy(header, batch, H);
                mpb_batch_patch_timestamp(batch, 80, header, made, time);
                CHECK_EQ(memcmp(header, want, H), 0);
                if (!made)
                    continue;
                mpb_put_be64(want, 1ll << 40);
                mpb_put_be32(want + MPB_BATCH_LEADER_EPOCH, 9);
                mpb_batch_patch_header(batch, 80, header, 1ll << 40, 9, time);
                CHECK_EQ(memcmp(header, want, H), 0);
            }
}

/* A scan stops at what is no batch as soon as the bytes that say so are there, and asks for what it lacks. */
static void scanned(void)
{
    static const struct {
        int64_t base;
        int32_t length, delta, count;
        size_t given;
        enum mpb_scan_result found;
        size_t need;
    } CASES[] = {
        {5, 68, 0, 1, 80, MPB_SCAN_BATCH, 80},
        {5, 68, 0, 1, 79, MPB_SCAN_PARTIAL, 80},
        {5, 68, 0, 1, 17, MPB_SCAN_PARTIAL, 80},
        {5, 68, 0, 1, 16, MPB_SCAN_PARTIAL, H},
        {5, 68, 0, 1, 0, MPB_SCAN_END, H},
        {5, H - OVERHEAD, 0, 0, 80, MPB_SCAN_BATCH, H},
        {5, H - OVERHEAD - 1, 0, 0, 80, MPB_SCAN_CORRUPT, H},
        {5, INT32_MAX - OVERHEAD, 0, 1, 80, MPB_SCAN_PARTIAL, INT32_MAX},
        {5, INT32_MAX - OVERHEAD + 1, 0, 1, 80, MPB_SCAN_CORRUPT, H},
        {0, 68, 0, 1, 80, MPB_SCAN_BATCH, 80},
        {-1, 68, 0, 1, 80, MPB_SCAN_CORRUPT, H},
        {-1, 68, 0, 1, 17, MPB_SCAN_CORRUPT, H},
        {5, 68, -1, 1, 80, MPB_SCAN_CORRUPT, 80},
        {5, 68, -1, 1, H, MPB_SCAN_CORRUPT, 80},
        {5, 68, -1, 1, H - 1, MPB_SCAN_PARTIAL, 80},
        {5, 68, 0, -1, 80, MPB_SCAN_CORRUPT, 80},
        {5, 68, 0, 0, 80, MPB_SCAN_BATCH, 80},
        {INT64_MAX - 1 - 7, 68, 7, 1, 80, MPB_SCAN_BATCH, 80}, /* the end behind it is an offset, too */
        {INT64_MAX - 7, 68, 7, 1, 80, MPB_SCAN_CORRUPT, 80},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int sound = 0; sound < 2; sound++) {
            uint8_t bytes[3 + MOST];
            struct mpb_batch_info info;
            size_t need = 0;
            make(bytes + 3, (size_t)(CASES[i].length == H - OVERHEAD ? H : 80));
            mpb_put_be64(bytes + 3, CASES[i].base);
            mpb_put_be32(bytes + 3 + MPB_BATCH_LAST_OFFSET_DELTA, CASES[i].delta);
            mpb_put_be32(bytes + 3 + MPB_BATCH_RECORD_COUNT, CASES[i].count);
            seal(bytes + 3, CASES[i].length == H - OVERHEAD ? H : 80);
            mpb_put_be32(bytes + 3 + MPB_BATCH_LENGTH, CASES[i].length);
            bytes[3 + MPB_BATCH_CRC] ^= (uint8_t)!sound;
            struct mpb_batch_scan scan = {bytes, 3 + CASES[i].given, 3, true};
            bool damaged = !sound && CASES[i].found == MPB_SCAN_BATCH;
            CHECK_EQ(mpb_batch_scan_next(&scan, &info, &need), damaged ? MPB_SCAN_CORRUPT : CASES[i].found);
            CHECK_EQ(need, CASES[i].need);
            CHECK_EQ(scan.pos, 3 + (CASES[i].found == MPB_SCAN_BATCH && !damaged ? need : 0));
            scan = (struct mpb_batch_scan){bytes, 3 + CASES[i].given, 3, false}; /* nobody asks for the checksum */
            CHECK_EQ(mpb_batch_scan_next(&scan, &info, &need), CASES[i].found);
        }
}

/* ------------------------------------------------------------------ LZ4 */
/* A frame of one block that is stored as it is. */
static size_t frame_of(uint8_t *out, const uint8_t *head, uint32_t magic, uint32_t block)
{
    const uint32_t stored = block | 0x80000000u;
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(magic >> 8 * i);
        out[7 + i] = (uint8_t)(stored >> 8 * i);
    }
    out[4] = head[0];
    out[5] = head[1];
    out[6] = (uint8_t)(mpb_xxh32(0, head, 2) >> 8);
    for (uint32_t i = 0; i < block; i++)
        out[11 + i] = (uint8_t)(i * 7);
    memset(out + 11 + block, 0, 4);
    return 11 + block + 4;
}

/* What Kafka takes: version 1 with blocks that need no other, no reserved bit, one of four sizes, and no larger block. */
static void heads(void)
{
    static uint8_t frame[300000], out[300000];
    static const struct {
        uint8_t head[2];
        uint32_t magic, block;
        bool taken;
    } CASES[] = {
        {{0x60, 0x40}, 0x184D2204, 1, true},       {{0x60, 0x40}, 0x184D2205, 1, false},
        {{0x60, 0x40}, 0x184D2204, 65536, true},   {{0x60, 0x40}, 0x184D2204, 65537, false},
        {{0x60, 0x50}, 0x184D2204, 65537, true},   {{0x60, 0x50}, 0x184D2204, 262144, true},
        {{0x60, 0x50}, 0x184D2204, 262145, false}, {{0x60, 0x70}, 0x184D2204, 262145, true},
        {{0x60, 0x30}, 0x184D2204, 1, false},      {{0x60, 0x80}, 0x184D2204, 1, false},
        {{0x60, 0xf0}, 0x184D2204, 1, false},      {{0x60, 0x41}, 0x184D2204, 1, false},
        {{0x60, 0x48}, 0x184D2204, 1, false},      {{0x60, 0x31}, 0x184D2204, 1, false},
        {{0x40, 0x40}, 0x184D2204, 1, false},      {{0x20, 0x40}, 0x184D2204, 1, false},
        {{0xa0, 0x40}, 0x184D2204, 1, false},      {{0x61, 0x40}, 0x184D2204, 1, false},
        {{0x62, 0x40}, 0x184D2204, 1, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        size_t length = frame_of(frame, CASES[i].head, CASES[i].magic, CASES[i].block);
        CHECK_EQ(mpb_lz4_read(frame, length, out, sizeof out), CASES[i].taken ? (int64_t)CASES[i].block : -1);
        CHECK(!CASES[i].taken || memcmp(out, frame + 11, CASES[i].block) == 0);
        CHECK_EQ(mpb_lz4_read(frame, length, out, CASES[i].block), CASES[i].taken ? (int64_t)CASES[i].block : -1);
        CHECK_EQ(mpb_lz4_read(frame, length, out, CASES[i].block - 1), -1);
        frame[6] ^= 1; /* the head's own checksum */
        CHECK_EQ(mpb_lz4_read(frame, length, out, sizeof out), -1);
    }
    struct guarded guarded = guarded_open(64);
    const uint8_t head[] = {0x60, 0x40};
    size_t length = frame_of(frame, head, 0x184D2204, 9);
    for (size_t given = 0; given <= length; given++) /* cut off anywhere: nothing behind it is read */
        CHECK_EQ(mpb_lz4_read(guarded_copy(&guarded, frame, given), given, out, sizeof out), given < length ? -1 : 9);
}

/* What is no head is not read as one, though a stored block, or the end, could begin where its descriptor is. */
static void no_heads(void)
{
    static const struct {
        uint8_t bytes[4]; /* behind the magic number, which is as it should be where `wrong` is not set */
        uint32_t length, wrong;
    } CASES[] = {{{0, 0, 0, 0}, 0, 0},
                 {{0, 0, 0, 0}, 0, 1},
                 {{0x60, 0x30, 0, 0x80}, 0x3060, 0},
                 {{0x60, 0x41, 0, 0x80}, 0x4160, 0},
                 {{0x60, 0x40, 0, 0x80}, 0x4060, 0}};
    static uint8_t frame[70000], out[70000];
    const uint8_t head[] = {0x60, 0x40};
    CHECK((mpb_xxh32(0, head, 2) >> 8 & 0xff) != 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        CHECK_EQ(mpb_lz4_read(frame, frame_of(frame, head, 0x184D2204, 65536), out, sizeof out), 65536);
        memset(frame, 0, sizeof frame);
        frame_of(frame, head, 0x184D2204 + CASES[i].wrong, 1);
        memcpy(frame + 4, CASES[i].bytes, 4);
        memset(frame + 8, 0, 8);
        CHECK_EQ(mpb_lz4_read(frame, 8 + CASES[i].length + 8, out, sizeof out), -1);
    }
}

/* A frame with one block as it is given. */
static size_t frame_with(uint8_t *out, const uint8_t *block, uint8_t length)
{
    const uint8_t head[] = {0x60, 0x40};
    frame_of(out, head, 0x184D2204, 0);
    const uint8_t word[] = {length, 0, 0, 0};
    memcpy(out + 7, word, 4);
    memcpy(out + 11, block, length);
    memset(out + 11 + length, 0, 4);
    return (size_t)(11 + length + 4);
}

/* Blocks that say more literals or an earlier match than there is, or do not end with literals, are none. */
static void blocks(void)
{
    static const struct {
        uint8_t bytes[24];
        uint8_t length;
        int64_t written;
    } CASES[] = {
        {{0x10, 'x'}, 2, 1},
        {{0x00}, 1, 0},
        {{0x01}, 1, -1},                                                   /* a match at the end */
        {{0x10}, 1, -1},                                                   /* its literal is not there */
        {{0x40, 'a', 'b', 'c', 'd', 4, 0, 0x10, 'x'}, 9, 9},               /* abcd abcd x */
        {{0x40, 'a', 'b', 'c', 'd', 1, 0, 0x10, 'x'}, 9, 9},               /* abcd dddd x */
        {{0x40, 'a', 'b', 'c', 'd', 5, 0, 0x10, 'x'}, 9, -1},              /* before the first byte */
        {{0x40, 'a', 'b', 'c', 'd', 0, 0, 0x10, 'x'}, 9, -1},              /* nowhere */
        {{0x40, 'a', 'b', 'c', 'd', 4, 1, 0x10, 'x'}, 9, -1},              /* 260 bytes before */
        {{0x40, 'a', 'b', 'c', 'd', 4, 0}, 7, -1},                         /* ends with the match */
        {{0x40, 'a', 'b', 'c', 'd', 4}, 6, -1},                            /* half an offset */
        {{0x4f, 'a', 'b', 'c', 'd', 4, 0, 1, 0x10, 'x'}, 10, 25},          /* a match of 15 + 1 + 4 */
        {{0x4f, 'a', 'b', 'c', 'd', 4, 0}, 7, -1},                         /* its length is not there */
        {{0xf0, 0, 'a', 'b'}, 4, -1},                                      /* 15 literals, of which two are there */
        {{0x40, 'a', 'b', 'c', 'd', 1, 0, 0x50, 1, 0, 0x10, 'x'}, 12, -1}, /* five, of which four are there */
    };
    struct guarded guarded = guarded_open(64);
    uint8_t frame[64], out[64];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const int64_t written = CASES[i].written;
        size_t length = frame_with(frame, CASES[i].bytes, CASES[i].length);
        CHECK_EQ(mpb_lz4_read(frame, length, out, sizeof out), written);
        if (written > 0) {
            CHECK_EQ(mpb_lz4_read(frame, length, out, (size_t)written), written);
            CHECK_EQ(mpb_lz4_read(frame, length, out, (size_t)written - 1), -1);
        }
        for (size_t given = 0; given < length; given++) /* nothing behind what is given is read */
            CHECK_EQ(mpb_lz4_read(guarded_copy(&guarded, frame, given), given, out, sizeof out), -1);
    }
}

int main(void)
{
    fields();
    peeked();
    requests();
    claims();
    sizes();
    patched();
    scanned();
    heads();
    no_heads();
    blocks();
    printf("record_bounds: %lu checks\n", checks_made);
    return 0;
}
