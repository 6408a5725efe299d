/* Fetch frames of every version, field by field: each field is read from where the version has it, a frame that ends anywhere
 * before its end is none, and what is not ordinary is left with its reason. */
#include "fetch/fetch_request.h"
#include "tests/stepping/check.h"
#include <string.h>

enum { PARTITIONS = 300, TOPICS = 3 };

/* What a frame is made of; the numbers differ so that none is taken for another. */
struct asked {
    int16_t version, client_length; /* -1: null */
    int32_t replica, max_wait_ms, min_bytes, max_bytes;
    int8_t isolation;
    int32_t topics, partitions; /* so many of each; partitions 0, 1, … */
    int32_t said_topics, said_partitions;
    int32_t partition_of_first, part_max_bytes;
    int32_t forgotten, forgotten_partitions, said_forgotten;
    const char *name; /* of the first topic; NULL: a known one */
    int32_t rack_length;
    int state_tags; /* 0: none, 1: who follows, 2: another one, 3: both, 4: who follows twice as long */
    int32_t follower;
    bool same_topic_twice, null_name;
};

static const struct asked ORDINARY = {.client_length = 3,
                                      .replica = -1,
                                      .max_wait_ms = 101,
                                      .min_bytes = 102,
                                      .max_bytes = 103,
                                      .isolation = 1,
                                      .topics = 2,
                                      .partitions = 2,
                                      .said_topics = -2,
                                      .said_partitions = -2,
                                      .part_max_bytes = 110,
                                      .forgotten = 2,
                                      .forgotten_partitions = 2,
                                      .said_forgotten = -2,
                                      .follower = 5};

static struct mpb_native_topics topics;
static uint8_t frame[1 << 16];
static size_t length;
static struct mpb_fetch_request request;

/* ------------------------------------------------------------------ writing */
static void put(uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        frame[length++] = (uint8_t)(value >> (8 * i));
}

static void put_varint(uint32_t value)
{
    for (; value >= 128; value >>= 7)
        frame[length++] = (uint8_t)(value | 128);
    frame[length++] = (uint8_t)value;
}

static bool is_flexible(const struct asked *a) { return a->version >= 12; }

static void put_count(const struct asked *a, int32_t count, int bytes)
{
    if (is_flexible(a))
        put_varint((uint32_t)(count + 1));
    else
        put((uint64_t)(int64_t)count, bytes);
}

static void put_tags(const struct asked *a)
{
    if (is_flexible(a))
        put(0, 1);
}

static void topic_name(char name[8], int number)
{
    memcpy(name, "topic-0", 8);
    name[6] = (char)('0' + number);
}

static void put_topic(const struct asked *a, int number, const char *other)
{
    char name[8];
    if (a->version >= 13) {
        memset(frame + length, other != NULL ? 0x77 : 1 + number, 16);
        length += 16;
        return;
    }
    if (a->null_name) {
        put_count(a, -1, 2);
        return;
    }
    topic_name(name, number);
    const char *put_name = other != NULL ? other : name;
    put_count(a, (int32_t)strlen(put_name), 2);
    memcpy(frame + length, put_name, strlen(put_name));
    length += strlen(put_name);
}

static void put_state(const struct asked *a)
{
    if (!is_flexible(a))
        return;
    put_varint(a->state_tags == 0 ? 0 : a->state_tags == 3 ? 2 : 1);
    if (a->state_tags == 1 || a->state_tags >= 3) {
        put_varint(1);
        put_varint(a->state_tags == 4 ? 14 : 13);
        put((uint64_t)(int64_t)a->follower, 4);
        put(0x1122334455667788, 8);
        put(0, a->state_tags == 4 ? 2 : 1);
    }
    if (a->state_tags == 2 || a->state_tags == 3) {
        put_varint(9);
        put_varint(1);
        put(7, 1);
    }
}

static void write_frame(const struct asked *a)
{
    length = 0;
    put(1, 2);
    put((uint64_t)a->version, 2);
    put(77, 4);
    put((uint64_t)(int64_t)a->client_length, 2);
    for (int i = 0; i < a->client_length; i++)
        put('c', 1);
    put_tags(a);
    if (a->version < 15)
        put((uint64_t)(int64_t)a->replica, 4);
    put((uint64_t)(int64_t)a->max_wait_ms, 4);
    put((uint64_t)(int64_t)a->min_bytes, 4);
    put((uint64_t)(int64_t)a->max_bytes, 4);
    put((uint64_t)(int64_t)a->isolation, 1);
    if (a->version >= 7) {
        put(201, 4);
        put(202, 4);
    }
    put_count(a, a->said_topics != -2 ? a->said_topics : a->topics, 4);
    for (int t = 0; t < a->topics; t++) {
        put_topic(a, a->same_topic_twice ? 0 : t, t == 0 ? a->name : NULL);
        put_count(a, a->said_partitions != -2 ? a->said_partitions : a->partitions, 4);
        for (int p = 0; p < a->partitions; p++) {
            uint32_t number = (uint32_t)(10 * t + p);
            put((uint64_t)(int64_t)(p == 0 ? a->partition_of_first : p), 4);
            if (a->version >= 9)
                put(300 + number, 4);
            put(400ull << 32 | number, 8);
            if (a->version >= 12)
                put(500 + number, 4);
            if (a->version >= 5)
                put(600ull << 32 | number, 8);
            put((uint64_t)(int64_t)a->part_max_bytes, 4);
            put_tags(a);
        }
        put_tags(a);
    }
    if (a->version >= 7) {
        put_count(a, a->said_forgotten != -2 ? a->said_forgotten : a->forgotten, 4);
        for (int t = 0; t < a->forgotten; t++) {
            put_topic(a, t, NULL);
            put_count(a, a->forgotten_partitions, 4);
            for (int p = 0; p < a->forgotten_partitions; p++)
                put((uint64_t)(70 + 10 * t + p), 4);
            put_tags(a);
        }
    }
    if (a->version >= 11) {
        put_count(a, a->rack_length, 2);
        for (int i = 0; i < a->rack_length; i++)
            put('r', 1);
    }
    put_state(a);
}

/* From memory of exactly this size, for the address sanitizer. */
static enum mpb_fetch_left read_first(size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    CHECK(copy != NULL);
    memcpy(copy + 1, frame, bytes);
    enum mpb_fetch_left left = mpb_fetch_read(&topics, copy + 1, bytes, &request);
    free(copy);
    return left;
}

static enum mpb_fetch_left read_frame(const struct asked *a)
{
    write_frame(a);
    return read_first(length);
}

/* ------------------------------------------------------------------ tests */
static void check_topic(const struct mpb_native_topic *topic, int number)
{
    char name[8];
    topic_name(name, number);
    CHECK(topic != NULL && topic->name_length == 7 && memcmp(topic->name, name, 7) == 0);
}

static void test_every_field(int16_t version)
{
    struct asked a = ORDINARY;
    a.version = version;
    for (int client_length = -1; client_length <= 3; client_length += 2) {
        a.client_length = (int16_t)client_length;
        memset(&request, 0x5a, sizeof request);
        CHECK_EQ(read_frame(&a), MPB_FETCH_SERVE);
        CHECK_EQ(request.version, version);
        CHECK(request.max_wait_ms == 101 && request.min_bytes == 102 && request.max_bytes == 103);
        CHECK(request.isolation == 1 && request.replica == -1 && request.replica_epoch == -1);
        CHECK_EQ(request.session_id, version >= 7 ? 201 : 0);
        CHECK_EQ(request.session_epoch, version >= 7 ? 202 : -1);
        CHECK(request.asked_count == 4 && request.count == 0);
        for (int i = 0; i < 4; i++) {
            const struct mpb_session_partition *asked = &request.asked[i].asked;
            int number = 10 * (i / 2) + i % 2;
            check_topic(request.asked[i].topic, i / 2);
            CHECK_EQ(asked->partition, i % 2);
            CHECK_EQ(asked->leader_epoch, version >= 9 ? 300 + number : -1);
            CHECK_EQ(asked->fetch_offset, (400ll << 32) + number);
            CHECK_EQ(asked->last_epoch, version >= 12 ? 500 + number : -1);
            CHECK_EQ(asked->asked_log_start, version >= 5 ? (600ll << 32) + number : -1);
            CHECK_EQ(asked->max_bytes, 110);
            CHECK(asked->high_watermark == -1 && asked->log_start == -1);
        }
        CHECK_EQ(request.forgotten_count, version >= 7 ? 4 : 0);
        for (uint32_t i = 0; i < request.forgotten_count; i++) {
            check_topic(request.forgotten[i].topic, (int)i / 2);
            CHECK_EQ(request.forgotten[i].asked.partition, 70 + 10 * (i / 2) + i % 2);
        }
        for (size_t cut = 0; cut < length; cut++)
            CHECK_EQ(read_first(cut), MPB_FETCH_LEFT_FRAME);
    }
}

/* An ordinary request but for what `r` says; 0, false and NULL say nothing. */
static struct asked differing(const struct asked *r, int16_t version)
{
    struct asked a = ORDINARY;
    a.version = version;
#define TAKE(field, unset)   \
    if (r->field != (unset)) \
    a.field = r->field
    TAKE(replica, 0);
    TAKE(isolation, 0);
    TAKE(client_length, 0);
    TAKE(max_bytes, 0);
    TAKE(part_max_bytes, 0);
    TAKE(said_topics, 0);
    TAKE(said_partitions, 0);
    TAKE(partition_of_first, 0);
    TAKE(same_topic_twice, false);
    TAKE(name, NULL);
    TAKE(said_forgotten, 0);
    TAKE(forgotten_partitions, 0);
    TAKE(rack_length, 0);
    TAKE(topics, 0);
    TAKE(partitions, 0);
    TAKE(state_tags, 0);
    if (r->state_tags != 0)
        a.follower = r->follower;
    TAKE(forgotten, 0);
    return a;
}

/* One thing differs from an ordinary request. `from`: the first version that has it. */
static void test_what_is_not_ordinary(int16_t version)
{
    static const char EMPTY[] = "", STRANGE[] = "strange";
    struct {
        int from, to;
        enum mpb_fetch_left left;
        struct asked a;
    } rows[] = {
#define ROW(from, to, left, ...)        \
    {                                   \
        from, to, left, { __VA_ARGS__ } \
    }
        ROW(4, 14, MPB_FETCH_LEFT_FRAME, .replica = -2),
        ROW(4, 17, MPB_FETCH_LEFT_FRAME, .isolation = 2),
        ROW(4, 17, MPB_FETCH_LEFT_FRAME, .isolation = -1),
        ROW(4, 17, MPB_FETCH_LEFT_FRAME, .client_length = -2),
        ROW(4, 17, MPB_FETCH_LEFT_FRAME, .max_bytes = -1),
        ROW(4, 17, MPB_FETCH_LEFT_FRAME, .part_max_bytes = -1),
        ROW(4, 17, MPB_FETCH_LEFT_FRAME, .said_topics = -1),
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .said_topics = MPB_FETCH_PARTITIONS + 1),
        ROW(4, 6, MPB_FETCH_LEFT_FRAME, .said_topics = MPB_FETCH_PARTITIONS),
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .said_partitions = -1),
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .said_partitions = MPB_FETCH_PARTITIONS + 1),
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .partition_of_first = -1),
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .partition_of_first = PARTITIONS),
        ROW(4, 17, MPB_FETCH_SERVE, .partition_of_first = PARTITIONS - 1),
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .partition_of_first = 1), /* twice */
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .same_topic_twice = true),
        ROW(4, 17, MPB_FETCH_LEFT_TOPIC, .name = STRANGE),
        ROW(4, 12, MPB_FETCH_LEFT_TOPIC, .name = EMPTY),
        ROW(7, 17, MPB_FETCH_LEFT_FRAME, .said_forgotten = -1),
        ROW(7, 17, MPB_FETCH_LEFT_PARTITIONS, .said_forgotten = MPB_FETCH_PARTITIONS + 1),
        ROW(7, 10, MPB_FETCH_LEFT_FRAME, .said_forgotten = MPB_FETCH_PARTITIONS),
        ROW(7, 17, MPB_FETCH_SERVE, .forgotten = 2, .forgotten_partitions = MPB_FETCH_PARTITIONS / 2),
        ROW(7, 17, MPB_FETCH_LEFT_PARTITIONS, .forgotten = 2, .forgotten_partitions = MPB_FETCH_PARTITIONS / 2 + 1),
        ROW(7, 17, MPB_FETCH_SERVE, .forgotten = 1, .forgotten_partitions = MPB_FETCH_PARTITIONS),
        ROW(11, 17, MPB_FETCH_LEFT_FRAME, .rack_length = 1),
        ROW(11, 17, MPB_FETCH_LEFT_FRAME, .rack_length = -1),
        ROW(4, 17, MPB_FETCH_SERVE, .topics = 1, .partitions = MPB_FETCH_PARTITIONS),
        ROW(4, 17, MPB_FETCH_SERVE, .topics = 2, .partitions = MPB_FETCH_PARTITIONS / 2),
        ROW(4, 17, MPB_FETCH_LEFT_PARTITIONS, .topics = 2, .partitions = MPB_FETCH_PARTITIONS / 2 + 1),
        ROW(12, 17, MPB_FETCH_SERVE, .state_tags = 2), /* a tag that nobody knows */
        ROW(12, 17, MPB_FETCH_SERVE, .state_tags = 1, .follower = 5),
        ROW(12, 17, MPB_FETCH_SERVE, .state_tags = 1, .follower = 0),
        ROW(12, 17, MPB_FETCH_SERVE, .state_tags = 1, .follower = -1),
        ROW(12, 17, MPB_FETCH_LEFT_FRAME, .state_tags = 1, .follower = -2),
        ROW(12, 17, MPB_FETCH_LEFT_FRAME, .state_tags = 3, .follower = 5),
        ROW(12, 17, MPB_FETCH_LEFT_FRAME, .state_tags = 4, .follower = 5),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked a = differing(&rows[i].a, version);
        if (version < rows[i].from || version > rows[i].to)
            continue;
        CHECK_EQ(read_frame(&a), rows[i].left);
        bool follows = rows[i].left == MPB_FETCH_SERVE && a.state_tags == 1;
        if (rows[i].left == MPB_FETCH_SERVE) {
            CHECK_EQ(request.replica, follows ? a.follower : -1);
            CHECK_EQ(request.replica_epoch, follows ? 0x1122334455667788 : -1);
            CHECK_EQ(request.asked_count, a.topics * a.partitions);
        }
    }
}

/* Those that a row above cannot say: zero is what it takes for "as usual". */
static void test_nothing_at_all(int16_t version)
{
    struct asked a = ORDINARY;
    a.version = version;
    a.topics = a.forgotten = 0;
    CHECK_EQ(read_frame(&a), MPB_FETCH_SERVE);
    CHECK(request.asked_count == 0 && request.forgotten_count == 0);
    a = ORDINARY;
    a.version = version;
    a.replica = 0;
    CHECK_EQ(read_frame(&a), version < 15 ? MPB_FETCH_LEFT_FRAME : MPB_FETCH_SERVE);
    a = ORDINARY;
    a.version = version;
    a.said_partitions = 0;
    CHECK_EQ(read_frame(&a), MPB_FETCH_LEFT_PARTITIONS);
    a = ORDINARY;
    a.version = version;
    a.isolation = 0;
    a.max_bytes = a.part_max_bytes = a.max_wait_ms = a.min_bytes = 0;
    CHECK_EQ(read_frame(&a), MPB_FETCH_SERVE);
    CHECK(request.isolation == 0 && request.max_bytes == 0 && request.max_wait_ms == 0 && request.min_bytes == 0);
    CHECK_EQ(request.asked[0].asked.max_bytes, 0);
    a.forgotten_partitions = 0;
    CHECK_EQ(read_frame(&a), MPB_FETCH_SERVE);
    a.partitions = 1;
    a.same_topic_twice = true;
    CHECK_EQ(read_frame(&a), MPB_FETCH_LEFT_PARTITIONS);
    a.same_topic_twice = false;
    a.null_name = true;
    CHECK_EQ(read_frame(&a), version >= 13 ? MPB_FETCH_SERVE : MPB_FETCH_LEFT_FRAME);
    a.null_name = false;
    a.partitions = 2;
    a.name = "topic-1"; /* the second one twice, by another way */
    a.forgotten = 0;
    CHECK_EQ(read_frame(&a), version >= 13 ? MPB_FETCH_LEFT_TOPIC : MPB_FETCH_LEFT_PARTITIONS);
}

static void test_versions(void)
{
    struct asked a = ORDINARY;
    for (int16_t version = -1; version < 20; version++) {
        a.version = version;
        CHECK_EQ(read_frame(&a), version >= 4 && version <= 17 ? MPB_FETCH_SERVE : MPB_FETCH_LEFT_FRAME);
    }
}

int main(void)
{
    static const struct mpb_append_options OPTIONS = {0};
    static const struct mpb_batch_rules RULES = {0};
    uint32_t ordinals[PARTITIONS];
    for (uint32_t i = 0; i < PARTITIONS; i++)
        ordinals[i] = i;
    for (int t = 0; t < TOPICS; t++) {
        char name[8];
        uint8_t id[16];
        topic_name(name, t);
        memset(id, 1 + t, sizeof id);
        CHECK(mpb_native_add(&topics, (uint8_t *)name, 7, id, ordinals, PARTITIONS, &OPTIONS, &RULES) != NULL);
    }
    for (int16_t version = 4; version <= 17; version++) {
        test_every_field(version);
        test_what_is_not_ordinary(version);
        test_nothing_at_all(version);
    }
    test_versions();
    mpb_native_forget(&topics);
    printf("fetch request: %lu checks\n", checks_made);
    return 0;
}
