/* Produce frames of every version, field by field: each field is read from where the version has it, a frame that ends anywhere
 * before its end is none, and what is not ordinary is left with its reason. And the table of topics that are served so. */
#include "produce/produce_request.h"
#include "tests/shm/counted_frees.h"
#include "tests/stepping/refused.h"
#include "tests/produce/produce_frames.h"

enum { PARTITIONS = 40, TOPICS = 40, BATCH = MPB_BATCH_HEADER_BYTES + 7 + ASK_VALUE_BYTES };

struct asked {
    int16_t client_length, acks;
    int32_t transactional_length; /* -1: null */
    int32_t topics, partitions;   /* so many of each; partitions 0, 1, … */
    int32_t said_topics, said_partitions;
    int32_t partition_of_first, records_length /* -2: what the batch has */;
    int first_topic;
    bool strange, same_topic_twice, nameless;
};

static const struct asked ORDINARY = {.client_length = 3,
                                      .acks = -1,
                                      .transactional_length = -1,
                                      .topics = 2,
                                      .partitions = 2,
                                      .said_topics = -2,
                                      .said_partitions = -2,
                                      .records_length = -2};

static struct mpb_native_topics topics;
static struct mpb_native_topic *known[TOPICS];
static uint8_t frame[1 << 16], batch[BATCH];
static size_t length;
static int16_t version;
static struct mpb_produce_request request;

/* ------------------------------------------------------------------ writing */
static void put(uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        frame[length++] = (uint8_t)(value >> (8 * i));
}

static void put_count(int32_t count, int bytes)
{
    if (version < 9) {
        put((uint64_t)(int64_t)count, bytes);
        return;
    }
    uint32_t value = (uint32_t)(count + 1);
    for (; value >= 128; value >>= 7)
        frame[length++] = (uint8_t)(value | 128);
    frame[length++] = (uint8_t)value;
}

static void put_bytes(int byte, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        put((uint64_t)byte, 1);
}

static void put_tags(void)
{
    if (version >= 9)
        put(0, 1);
}

static void put_topic(int number, bool strange)
{
    if (version >= 13) {
        put_bytes(strange ? 0xee : number + 1, 16);
        return;
    }
    char name[24];
    snprintf(name, sizeof name, strange ? "strange" : "topic-%d", number);
    put_count((int32_t)strlen(name), 2);
    memcpy(frame + length, name, strlen(name));
    length += strlen(name);
}

static void write_frame(const struct asked *a)
{
    length = 0;
    put(0, 2);
    put((uint64_t)version, 2);
    put(77, 4);
    put((uint64_t)(int64_t)a->client_length, 2);
    put_bytes('c', a->client_length);
    put_tags();
    put_count(a->transactional_length, 2);
    put_bytes('t', a->transactional_length);
    put((uint64_t)(int64_t)a->acks, 2);
    put(1234567, 4);
    put_count(a->said_topics != -2 ? a->said_topics : a->topics, 4);
    for (int t = 0; t < a->topics; t++) {
        if (a->nameless)
            put_count(-1, 2);
        else
            put_topic(a->first_topic + (a->same_topic_twice ? 0 : t), t == 0 && a->strange);
        put_count(a->said_partitions != -2 ? a->said_partitions : a->partitions, 4);
        for (int p = 0; p < a->partitions; p++) {
            put((uint64_t)(int64_t)(p == 0 ? a->partition_of_first : p), 4);
            put_count(a->records_length != -2 ? a->records_length : BATCH, 4);
            memcpy(frame + length, batch, BATCH);
            length += a->records_length != -2 ? (size_t)(a->records_length > 0 ? a->records_length : 0) : BATCH;
            put_tags();
        }
        put_tags();
    }
    put_tags();
}

/* From memory of exactly this size, for the address sanitizer. */
static enum mpb_left read_first(size_t bytes)
{
    static uint8_t *copy;
    free(copy);
    copy = malloc(bytes + 1);
    CHECK(copy != NULL);
    memcpy(copy + 1, frame, bytes);
    return mpb_produce_read(&topics, copy + 1, bytes, &request);
}

static enum mpb_left read_frame(const struct asked *a)
{
    write_frame(a);
    return read_first(length);
}

static void make_batch(int64_t producer_id, int16_t epoch, bool transactional, int32_t last_delta)
{
    const struct ask ask = {.id = 1};
    ask_batch(batch, &ask);
    mpb_put_be64(batch + MPB_BATCH_PRODUCER_ID, producer_id);
    mpb_put_be16(batch + MPB_BATCH_PRODUCER_EPOCH, epoch);
    mpb_put_be16(batch + MPB_BATCH_ATTRIBUTES, transactional ? MPB_ATTRIBUTE_TRANSACTIONAL : 0);
    mpb_put_be32(batch + MPB_BATCH_LAST_OFFSET_DELTA, last_delta);
}

/* ------------------------------------------------------------------ frames */
static void test_every_field(void)
{
    struct asked a = ORDINARY;
    for (int way = 0; way < 12; way++) {
        a.client_length = (int16_t)(way % 3 - 1);
        a.acks = (int16_t)(way / 3 % 3 - 1);
        a.transactional_length = way / 6 == 0 ? -1 : 4 * (way % 2);
        memset(&request, 0x5a, sizeof request);
        make_batch(-1, -1, false, way);
        CHECK_EQ(read_frame(&a), MPB_SERVE);
        CHECK(request.version == version && request.acks == a.acks && request.timeout_ms == 1234567);
        CHECK(request.count == 4 && request.topics == 2 && request.producer_id == -1);
        CHECK_EQ(request.transactional, a.transactional_length >= 0);
        CHECK_EQ(request.records, 4 * (way + 1));
        for (int i = 0; i < 4; i++) {
            CHECK(request.parts[i].topic == known[i / 2]);
            CHECK_EQ(request.parts[i].index, i % 2);
            CHECK_EQ(request.parts[i].batch_len, BATCH);
            CHECK(memcmp(request.parts[i].records, batch, BATCH) == 0);
        }
        CHECK(request.parts[0].parts_of_topic == 2 && request.parts[2].parts_of_topic == 2);
        for (size_t cut = 0; cut < length; cut++)
            CHECK_EQ(read_first(cut), MPB_LEFT_FRAME);
    }
    make_batch(-1, -1, false, -1); /* a batch that says that it has none */
    CHECK_EQ(read_frame(&a), MPB_SERVE);
    CHECK_EQ(request.records, 0);
}

/* Its name is null, which none may be: no topic that is not known, but a frame that is none. */
static void test_a_topic_without_a_name(void)
{
    struct asked a = ORDINARY;
    a.nameless = true;
    make_batch(-1, -1, false, 0);
    CHECK_EQ(read_frame(&ORDINARY), MPB_SERVE);
    if (version < 13)
        CHECK_EQ(read_frame(&a), MPB_LEFT_FRAME);
}

static void test_what_is_not_ordinary(void)
{
    enum { MOST = MPB_NATIVE_PARTITIONS };
    struct {
        enum mpb_left left;
        int32_t value;
        size_t field; /* offset of an int32_t, an int16_t or a bool */
        size_t size;
    } rows[] = {
#define ROW(left, field, value) {left, value, offsetof(struct asked, field), sizeof ORDINARY.field}
        ROW(MPB_LEFT_FRAME, acks, -2),
        ROW(MPB_SERVE, acks, -1),
        ROW(MPB_SERVE, acks, 1),
        ROW(MPB_LEFT_FRAME, acks, 2),
        ROW(MPB_LEFT_FRAME, client_length, -2),
        ROW(MPB_SERVE, client_length, 0),
        ROW(MPB_LEFT_FRAME, said_topics, 0),
        ROW(MPB_LEFT_FRAME, said_topics, -1),
        ROW(MPB_LEFT_FRAME, said_topics, MOST),
        ROW(MPB_LEFT_PARTITIONS, said_topics, MOST + 1),
        ROW(MPB_LEFT_FRAME, said_partitions, 0),
        ROW(MPB_LEFT_FRAME, said_partitions, -1),
        ROW(MPB_LEFT_PARTITIONS, said_partitions, MOST + 1),
        ROW(MPB_LEFT_PARTITIONS, partition_of_first, -1),
        ROW(MPB_LEFT_PARTITIONS, partition_of_first, 1), /* twice */
        ROW(MPB_SERVE, partition_of_first, PARTITIONS - 1),
        ROW(MPB_LEFT_PARTITIONS, partition_of_first, PARTITIONS),
        ROW(MPB_LEFT_BATCH, records_length, -1),
        ROW(MPB_LEFT_BATCH, records_length, 0),
        ROW(MPB_LEFT_BATCH, records_length, BATCH - 1),
        ROW(MPB_LEFT_TOPIC, strange, 1),
        ROW(MPB_LEFT_PARTITIONS, same_topic_twice, 1),
        ROW(MPB_SERVE, partitions, MOST / 2),
        ROW(MPB_LEFT_PARTITIONS, partitions, MOST / 2 + 1),
        ROW(MPB_SERVE, topics, MOST / 2),
        ROW(MPB_LEFT_PARTITIONS, topics, MOST / 2 + 1),
        ROW(MPB_LEFT_PARTITIONS, topics, MOST),
        ROW(MPB_LEFT_TOPIC, first_topic, TOPICS - 1), /* one whose settings want Python */
    };
    make_batch(-1, -1, false, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked a = ORDINARY;
        memcpy((uint8_t *)&a + rows[i].field, &rows[i].value, rows[i].size);
        CHECK_EQ(read_frame(&a), rows[i].left);
        if (rows[i].left == MPB_SERVE)
            CHECK_EQ(request.count, a.topics * a.partitions);
    }
    struct asked a = ORDINARY;
    a.topics = MOST;
    a.partitions = 1;
    CHECK_EQ(read_frame(&a), MPB_SERVE);
    a.topics = 1;
    a.partitions = MOST;
    CHECK_EQ(read_frame(&a), MPB_SERVE);
    a.topics = 2; /* twice, with a partition each */
    a.partitions = 1;
    a.same_topic_twice = true;
    CHECK_EQ(read_frame(&a), MPB_LEFT_PARTITIONS);
}

/* A transactional id covers the batches of one producer in one epoch; without one there are none. */
static void test_whose_batches_they_are(void)
{
    static const struct {
        bool id, transactional;
        int64_t producer[2];
        int16_t epoch[2];
        enum mpb_left left;
        int64_t told;
    } ROWS[] = {
        {false, false, {5, 6}, {0, 0}, MPB_SERVE, -1},
        {true, false, {5, 6}, {0, 0}, MPB_SERVE, -1},
        {false, true, {5, 5}, {0, 0}, MPB_LEFT_TRANSACTION, -1},
        {true, true, {5, 5}, {3, 3}, MPB_SERVE, 5},
        {true, true, {0, 0}, {3, 3}, MPB_SERVE, 0},
        {true, true, {0, 5}, {3, 3}, MPB_LEFT_TRANSACTION, 0},
        {true, true, {5, 0}, {3, 3}, MPB_LEFT_TRANSACTION, 5},
        {true, true, {5, 6}, {3, 3}, MPB_LEFT_TRANSACTION, 5},
        {true, true, {5, 5}, {3, 4}, MPB_LEFT_TRANSACTION, 5},
        {true, true, {-1, 5}, {3, 4}, MPB_SERVE, 5},
        {true, true, {5, -1}, {3, 4}, MPB_SERVE, 5},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct asked a = ORDINARY;
        uint8_t *second;
        a.topics = 1;
        a.transactional_length = ROWS[i].id ? 2 : -1;
        make_batch(ROWS[i].producer[0], ROWS[i].epoch[0], ROWS[i].transactional, 0);
        write_frame(&a);
        make_batch(ROWS[i].producer[1], ROWS[i].epoch[1], ROWS[i].transactional, 0);
        second = frame + length - BATCH - (version >= 9 ? 3 : 0);
        memcpy(second, batch, BATCH);
        CHECK_EQ(read_first(length), ROWS[i].left);
        CHECK_EQ(request.producer_id, ROWS[i].told);
        CHECK(ROWS[i].told < 0 || request.producer_epoch == (ROWS[i].producer[0] < 0 ? 4 : 3));
    }
}

/* One batch of format 2, with a codec that the version may use. */
static void test_batches(void)
{
    for (int codec = 0; codec < 6; codec++) {
        make_batch(-1, -1, false, 0);
        mpb_put_be16(batch + MPB_BATCH_ATTRIBUTES, (int16_t)codec);
        CHECK_EQ(read_frame(&ORDINARY), version < 7 && codec >= 4 ? MPB_LEFT_BATCH : MPB_SERVE);
    }
    for (uint8_t magic = 0; magic < 4; magic++) {
        make_batch(-1, -1, false, 0);
        batch[MPB_BATCH_MAGIC] = magic;
        CHECK_EQ(read_frame(&ORDINARY), magic == 2 ? MPB_SERVE : MPB_LEFT_BATCH);
    }
    static const struct {
        int32_t said; /* bytes of the batch, behind its length */
        enum mpb_left left;
    } ROWS[] = {{BATCH - 12, MPB_SERVE}, {BATCH - 11, MPB_LEFT_BATCH}, {BATCH - 13, MPB_SERVE}, {-1, MPB_LEFT_BATCH}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        make_batch(-1, -1, false, 0);
        mpb_put_be32(batch + MPB_BATCH_LENGTH, ROWS[i].said);
        CHECK_EQ(read_frame(&ORDINARY), ROWS[i].left);
    }
    struct asked a = ORDINARY;
    for (int32_t bytes = MPB_BATCH_HEADER_BYTES - 1; bytes <= MPB_BATCH_HEADER_BYTES; bytes++) {
        make_batch(-1, -1, false, 0);
        mpb_put_be32(batch + MPB_BATCH_LENGTH, bytes - 12);
        a.records_length = bytes;
        CHECK_EQ(read_frame(&a), bytes < MPB_BATCH_HEADER_BYTES ? MPB_LEFT_BATCH : MPB_SERVE);
    }
}

static void test_versions(void)
{
    make_batch(-1, -1, false, 0);
    for (version = -1; version < 16; version++)
        CHECK_EQ(read_frame(&ORDINARY), version >= 3 && version <= 13 ? MPB_SERVE : MPB_LEFT_FRAME);
}

/* ------------------------------------------------------------------ topics */
static struct mpb_native_topic *add(const char *name, uint32_t name_length, uint8_t id, uint32_t partitions,
                                    int64_t flush_messages)
{
    static uint32_t ordinals[MPB_NATIVE_TOPIC_PARTITIONS + 1];
    const struct mpb_append_options options = {.flush_messages = flush_messages, .segment_bytes = 4711};
    const struct mpb_batch_rules rules = {.max_message_bytes = 815};
    uint8_t bytes[16];
    memset(bytes, id, sizeof bytes);
    for (uint32_t i = 0; i < partitions; i++)
        ordinals[i] = 1000 * id + i;
    return mpb_native_add(&topics, (const uint8_t *)name, name_length, bytes, ordinals, partitions, &options, &rules);
}

static void make_topics(void)
{
    for (int i = 0; i < TOPICS; i++) {
        char name[24];
        snprintf(name, sizeof name, "topic-%d", i);
        known[i] = add(name, (uint32_t)strlen(name), (uint8_t)(i + 1), PARTITIONS, INT64_MAX);
        CHECK(known[i] != NULL && !known[i]->produces);
        known[i]->produces = i < TOPICS - 1;
    }
}

static void test_topics(void)
{
    static char name[260];
    uint8_t id[16];
    memset(name, 'n', sizeof name);
    memset(id, 200, sizeof id);
    CHECK(add(name, 0, 200, 1, 1) == NULL && add(name, 251, 200, 1, 1) == NULL);
    CHECK(add(name, 5, 200, 0, 1) == NULL && add(name, 5, 200, MPB_NATIVE_TOPIC_PARTITIONS + 1, 1) == NULL);
    CHECK_EQ(topics.count, 0);
    struct mpb_native_topic *one = add(name, 250, 200, MPB_NATIVE_TOPIC_PARTITIONS, 1);
    CHECK(one != NULL && topics.count == 1 && one->name_length == 250 && memcmp(one->name, name, 250) == 0);
    CHECK_EQ(one->hash, mpb_crc32c(0, name, 250));
    CHECK(one->partition_count == MPB_NATIVE_TOPIC_PARTITIONS && memcmp(one->id, id, 16) == 0);
    CHECK(one->append.segment_bytes == 4711 && one->rules.max_message_bytes == 815 && !one->produces && !one->is_zstd);
    for (uint32_t i = 0; i < MPB_NATIVE_TOPIC_PARTITIONS; i++)
        CHECK_EQ(one->ordinals[i], 200000 + i);
    CHECK(!mpb_native_may_produce(one));
    one->append.flush_messages = INT64_MAX;
    CHECK(mpb_native_may_produce(one));
    CHECK(mpb_native_by_name(&topics, (uint8_t *)name, 250) == one && mpb_native_by_id(&topics, id) == one);
    CHECK(mpb_native_by_name(&topics, (uint8_t *)name, 249) == NULL);
    CHECK(add(name, 250, 201, 1, 1) == NULL);                 /* known */
    struct mpb_native_topic *other = add(name, 5, 200, 1, 1); /* another one with its id: the first keeps that */
    CHECK(other != NULL && topics.count == 2 && mpb_native_by_id(&topics, id) == one);
    unsigned long before = frees;
    mpb_native_forget(&topics);
    CHECK_EQ(frees, before + 4 * FREES_COUNT); /* two topics and their partitions */
    CHECK(topics.count == 0 && mpb_native_by_name(&topics, (uint8_t *)name, 250) == NULL);
    CHECK(mpb_native_by_id(&topics, id) == NULL);
}

/* Without memory for it, or for its partitions, a topic is not known, and nothing of it is left. */
static void test_no_memory_for_a_topic(void)
{
    for (enum allocation kind = BY_MALLOC; kind <= BY_CALLOC && CAN_REFUSE; kind++) {
        const unsigned long before = frees;
        refuse(kind, 0);
        const struct mpb_native_topic *made = add("topic", 5, 200, 3, 1);
        refuse(NO_ALLOCATION, 0);
        CHECK(made == NULL && topics.count == 0);
        CHECK_EQ(frees, before + FREES_COUNT); /* of the two there is one */
        CHECK(mpb_native_by_name(&topics, (const uint8_t *)"topic", 5) == NULL);
    }
    CHECK(add("topic", 5, 200, 3, 1) != NULL);
    mpb_native_forget(&topics);
}

/* Half of the places, whatever their hashes: each is found, by name and by the same beginning of an id. */
static void test_many_topics(void)
{
    const struct mpb_append_options options = {0};
    const struct mpb_batch_rules rules = {0};
    const uint32_t ordinal = 7;
    uint8_t id[16] = {0, 0, 3, 0xfe};
    for (uint32_t i = 0; i <= MPB_NATIVE_TOPICS / 2; i++) {
        uint8_t name[4] = {'t', (uint8_t)(i >> 8), (uint8_t)i, 0};
        id[8] = (uint8_t)(i >> 8);
        id[9] = (uint8_t)i;
        const struct mpb_native_topic *made = mpb_native_add(&topics, name, 4, id, &ordinal, 1, &options, &rules);
        CHECK_EQ(made != NULL, i < MPB_NATIVE_TOPICS / 2);
        CHECK(mpb_native_by_name(&topics, name, 4) == made && mpb_native_by_id(&topics, id) == made);
    }
    for (uint32_t i = 0; i < MPB_NATIVE_TOPICS / 2; i++) {
        uint8_t name[4] = {'t', (uint8_t)(i >> 8), (uint8_t)i, 0};
        id[8] = (uint8_t)(i >> 8);
        id[9] = (uint8_t)i;
        CHECK(mpb_native_by_name(&topics, name, 4) == mpb_native_by_id(&topics, id));
    }
    mpb_native_forget(&topics);
}

/* Where a walk begins is where the hash, or the id, says; and it comes to all places: with half of them taken, all at even
 * ones, a name that is not there is looked for at odd ones as well. */
static void test_places(void)
{
    const struct mpb_append_options options = {0};
    const struct mpb_batch_rules rules = {0};
    const uint32_t ordinal = 7;
    uint32_t added = 0;
    for (uint32_t i = 0; added < MPB_NATIVE_TOPICS / 2; i++) {
        uint8_t name[4] = {'t', (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}, id[16] = {0};
        uint32_t hash = mpb_crc32c(0, name, 4);
        if (hash & 1)
            continue;
        mpb_put_be32(id, (int32_t)(added + 3));
        struct mpb_native_topic *topic = mpb_native_add(&topics, name, 4, id, &ordinal, 1, &options, &rules);
        CHECK(topic != NULL);
        if (added == 0)
            CHECK(topics.by_name[hash & (MPB_NATIVE_TOPICS - 1)] == topic && topics.by_id[3] == topic);
        added++;
    }
    for (uint32_t i = 0; i < MPB_NATIVE_TOPICS; i++) /* every other place is taken */
        CHECK_EQ(topics.by_name[i] != NULL, i % 2 == 0);
    for (uint32_t i = 0; i < 64; i++) {
        uint8_t name[2] = {'n', (uint8_t)i};
        CHECK(mpb_native_by_name(&topics, name, 2) == NULL);
    }
    mpb_native_forget(&topics);
    for (uint32_t i = 0; i < MPB_NATIVE_TOPICS; i++)
        CHECK(topics.by_name[i] == NULL && topics.by_id[i] == NULL);
    uint8_t name[2] = {'n', 0}, id[16] = {0};
    while ((mpb_crc32c(0, name, 2) & 1) == 0)
        name[1]++;
    uint32_t place = mpb_crc32c(0, name, 2) & (MPB_NATIVE_TOPICS - 1);
    CHECK(mpb_native_add(&topics, name, 2, id, &ordinal, 1, &options, &rules) == topics.by_name[place]);
    mpb_native_forget(&topics);
}

/* All places are forgotten, the first as the last, and nothing behind them. */
static void test_what_is_forgotten(void)
{
    static struct {
        struct mpb_native_topics topics;
        void *behind;
    } table;
    struct mpb_native_topic *one = calloc(1, sizeof *one), *last = calloc(1, sizeof *last);
    table.behind = &table;
    table.topics.by_name[0] = table.topics.by_id[0] = one;
    table.topics.by_name[MPB_NATIVE_TOPICS - 1] = table.topics.by_id[MPB_NATIVE_TOPICS - 1] = last;
    table.topics.count = 2;
    mpb_native_forget(&table.topics);
    CHECK(table.topics.by_name[0] == NULL && table.topics.by_id[0] == NULL && table.topics.count == 0);
    CHECK(table.topics.by_name[MPB_NATIVE_TOPICS - 1] == NULL && table.topics.by_id[MPB_NATIVE_TOPICS - 1] == NULL);
    CHECK(table.behind == &table);
}

int main(void)
{
    test_topics();
    test_no_memory_for_a_topic();
    test_many_topics();
    test_places();
    test_what_is_forgotten();
    make_topics();
    for (version = 3; version <= 13; version++) {
        test_every_field();
        test_a_topic_without_a_name();
        test_what_is_not_ordinary();
        test_whose_batches_they_are();
        test_batches();
    }
    test_versions();
    mpb_native_forget(&topics);
    read_first(0);
    printf("produce request: %lu checks\n", checks_made);
    return 0;
}
