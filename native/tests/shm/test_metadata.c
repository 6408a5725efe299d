/* The metadata snapshot: one writer changes topic rows and the journal while readers in other threads look; every copy
 * a reader gets is whole, and following the journal leads to exactly what was written last. Run under TSan too. */
#include "tests/stepping/check.h"
#include "shm/metadata.h"
#include <pthread.h>
#include <string.h>

#define ROWS 16
#define JOURNAL 32
#define PARTITIONS 64
#define CHANGES 60000
#define READERS 2

/* For reader threads, which must not all count into one variable. */
#define REQUIRE(condition)                                                            \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static struct mpb_segment_header header;
static struct mpb_inject injects[MPB_INJECT_ROWS];
static struct mpb_core core;
static atomic_bool finished;
static uint64_t copies_read[READERS], rescans[READERS];

static void make_core(void)
{
    core.header = &header;
    core.injects = injects;
    core.topic_count = ROWS;
    core.journal_count = JOURNAL;
    core.partition_count = PARTITIONS;
    mpb_rows_raise(&core, ROWS, 0);
    core.topics = aligned_alloc(64, ROWS * sizeof *core.topics);
    core.journal = calloc(JOURNAL, sizeof *core.journal);
    core.partitions = aligned_alloc(64, (PARTITIONS + 1) * sizeof *core.partitions); /* one that is no row */
    memset(core.topics, 0, ROWS * sizeof *core.topics);
    memset(core.partitions, 0, (PARTITIONS + 1) * sizeof *core.partitions);
}

/* Every byte that belongs to a copy follows from its version, so that a torn one shows. */
static void fill(struct mpb_topic_copy *copy, uint64_t version)
{
    memset(copy, 0, sizeof *copy);
    copy->version = version;
    copy->flags = MPB_TOPIC_EXISTS;
    copy->partition_count = (uint32_t)version;
    copy->name_length = (uint32_t)(version % 249) + 1;
    memset(copy->name, (int)(version & 0x7f), copy->name_length);
    copy->overrides_length = (uint32_t)(version * 37 % (MPB_TOPIC_BLOB + 1));
    memset(copy->overrides, (int)(version & 0xff), copy->overrides_length);
    memset(copy->id, (int)(version >> 3), sizeof copy->id);
}

static void check_whole(const struct mpb_topic_copy *copy)
{
    static _Thread_local struct mpb_topic_copy expected;
    fill(&expected, copy->version);
    size_t bytes = offsetof(struct mpb_topic_copy, overrides);
    REQUIRE(memcmp(copy, &expected, bytes) == 0);
    REQUIRE(memcmp(copy->overrides, expected.overrides, expected.overrides_length) == 0);
}

static void look(uint32_t row, uint64_t seen[ROWS], int reader)
{
    static _Thread_local struct mpb_topic_copy copy;
    uint64_t selector;
    REQUIRE(mpb_topic_read(&core, row, &copy, &selector) == 0);
    if (selector == 0)
        return;
    check_whole(&copy);
    REQUIRE(copy.version >= seen[row]);
    seen[row] = copy.version;
    copies_read[reader]++;
}

static void follow(uint64_t *at, uint64_t seen[ROWS], int reader)
{
    uint32_t rows[8];
    int count = mpb_journal_since(&core, *at, rows, 8, at);
    if (count == MPB_METADATA_RESCAN)
        rescans[reader]++;
    for (uint32_t i = 0; i < (count == MPB_METADATA_RESCAN ? (uint32_t)ROWS : (uint32_t)count); i++)
        look(count == MPB_METADATA_RESCAN ? i : rows[i], seen, reader);
}

static void *read_all(void *argument)
{
    int reader = (int)(intptr_t)argument;
    uint64_t at = 0, seen[ROWS] = {0};
    for (bool last = false; !last;) {
        last = atomic_load(&finished);
        while (at != mpb_metadata_generation(&core))
            follow(&at, seen, reader);
    }
    for (uint32_t row = 0; row < ROWS; row++) { /* what the journal led to is what is there */
        uint64_t before = seen[row];
        look(row, seen, reader);
        REQUIRE(seen[row] == before);
    }
    return NULL;
}

static void test_readers_beside_a_writer(void)
{
    pthread_t readers[READERS];
    uint64_t random = 42;
    static struct mpb_topic_copy next;
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(pthread_create(&readers[i], NULL, read_all, (void *)(intptr_t)i), 0);
    for (uint64_t version = 1; version <= CHANGES; version++) {
        uint32_t row = (uint32_t)(next_random(&random) % ROWS);
        fill(&next, version);
        mpb_topic_write(&core, row, &next);
        CHECK_EQ(mpb_journal_append(&core, row), version);
    }
    atomic_store(&finished, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
        CHECK(copies_read[i] > ROWS);
    }
}

static void test_journal(void)
{
    uint32_t rows[JOURNAL];
    uint64_t reached, start = mpb_metadata_generation(&core);
    CHECK_EQ(mpb_journal_since(&core, start, rows, JOURNAL, &reached), 0);
    mpb_journal_append(&core, 3);
    mpb_journal_append(&core, 5);
    CHECK_EQ(mpb_journal_since(&core, start, rows, 1, &reached), 1);
    CHECK_EQ(rows[0], 3);
    CHECK_EQ(reached, start + 1);
    CHECK_EQ(mpb_journal_since(&core, reached, rows, JOURNAL, &reached), 1);
    CHECK_EQ(rows[0], 5);
    for (uint32_t i = 0; i < JOURNAL - 2; i++)
        mpb_journal_append(&core, i % ROWS);
    CHECK_EQ(mpb_journal_since(&core, start, rows, JOURNAL, &reached), JOURNAL);
    mpb_journal_append(&core, 1);
    CHECK_EQ(mpb_journal_since(&core, start, rows, JOURNAL, &reached), MPB_METADATA_RESCAN);
    CHECK_EQ(reached, start + JOURNAL + 1);
    mpb_journal_skip(&core);
    CHECK_EQ(mpb_journal_since(&core, reached, rows, JOURNAL, &reached), MPB_METADATA_RESCAN);
    mpb_journal_append(&core, ROWS - 1);
    CHECK_EQ(mpb_journal_since(&core, reached, rows, JOURNAL, &reached), 1);
    mpb_journal_append(&core, ROWS); /* no row: the last one is ROWS - 1 */
    CHECK_EQ(mpb_journal_since(&core, reached, rows, JOURNAL, &reached), MPB_METADATA_RESCAN);
}

/* How many rows were ever used: each count goes up by itself, and never down. */
static void test_rows_in_use(void)
{
    static const uint32_t RAISED[][4] = {/* asked, then what there is: topics, partitions */
                                         {ROWS + 2, 0, ROWS + 2, 0},
                                         {ROWS + 1, 5, ROWS + 2, 5},
                                         {ROWS + 3, 4, ROWS + 3, 5},
                                         {0, 0, ROWS + 3, 5}};
    for (size_t i = 0; i < sizeof RAISED / sizeof RAISED[0]; i++) {
        mpb_rows_raise(&core, RAISED[i][0], RAISED[i][1]);
        CHECK_EQ(mpb_topics_high(&core), RAISED[i][2]);
        CHECK_EQ(mpb_partitions_high(&core), RAISED[i][3]);
    }
}

/* The longest overrides fill a copy to its end: what lies behind it, in the table and at the reader, is somebody else's. */
static void test_the_longest_copy_ends_where_it_ends(void)
{
    static struct mpb_topic_copy next, before;
    static struct {
        struct mpb_topic_copy copy;
        uint64_t behind;
    } out;
    uint64_t selector, neighbour = mpb_load_relaxed(&core.topics[3].selector);
    memset(&next, 0x5a, sizeof next);
    next.overrides_length = MPB_TOPIC_BLOB;
    for (int written = 0; written < 2; written++) { /* into the one half, then into the other */
        uint64_t number = mpb_load_relaxed(&core.topics[2].selector);
        bool second = ((number + 1) & 1) != 0;
        before = core.topics[2].copy[!second];
        mpb_topic_write(&core, 2, &next);
        CHECK(memcmp(&core.topics[2].copy[!second], &before, sizeof before) == 0);
        CHECK_EQ(mpb_load_relaxed(&core.topics[3].selector), neighbour);
        out.behind = 77;
        CHECK_EQ(mpb_topic_read(&core, 2, &out.copy, &selector), 0);
        CHECK(memcmp(&out.copy, &next, sizeof next) == 0);
        CHECK_EQ(out.behind, 77);
        CHECK_EQ(selector, number + 1);
        next.version++;
    }
}

/* Words that mean something are written and read, and no others: what lies behind them stays, in the table and at the
 * reader. A length that a torn copy shows leads to no byte behind a copy. */
static void test_how_much_is_copied(void)
{
    enum { HEAD = offsetof(struct mpb_topic_copy, overrides), MARK = 0x5c };
    static const uint32_t LENGTHS[] = {0, 1, 7, 8, 9, 15, 16, 100, MPB_TOPIC_BLOB - 8, MPB_TOPIC_BLOB - 1};
    static struct mpb_topic_copy next;
    static struct {
        struct mpb_topic_copy copy;
        uint64_t behind;
    } out;
    uint64_t selector;
    memset(&next, 0x77, sizeof next);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        size_t bytes = HEAD + (LENGTHS[i] + 7) / 8 * 8;
        struct mpb_topic *topic = &core.topics[5];
        memset(topic->copy, MARK, sizeof topic->copy);
        memset(&out, MARK, sizeof out);
        next.overrides_length = LENGTHS[i];
        mpb_topic_write(&core, 5, &next);
        CHECK_EQ(mpb_topic_read(&core, 5, &out.copy, &selector), 0);
        CHECK_EQ(selector, mpb_load_relaxed(&topic->selector));
        const uint8_t *const copies[] = {(uint8_t *)&topic->copy[selector & 1], (uint8_t *)&out.copy};
        for (int which = 0; which < 2; which++) {
            CHECK(memcmp(copies[which], &next, bytes) == 0);
            for (size_t at = bytes; at < sizeof next; at++)
                CHECK_EQ(copies[which][at], MARK);
        }
        for (size_t at = 0; at < sizeof next; at++)
            CHECK_EQ(((uint8_t *)&topic->copy[~selector & 1])[at], MARK); /* the other one is in force for who looks */
        topic->copy[selector & 1].overrides_length = i % 2 == 0 ? UINT32_MAX : MPB_TOPIC_BLOB + 1;
        out.behind = 77;
        CHECK_EQ(mpb_topic_read(&core, 5, &out.copy, &selector), 0);
        CHECK_EQ(out.behind, 77);
    }
}

/* Changes are counted beyond what a journal word has room for; a word of another change leads nowhere. */
static void test_a_journal_of_many_changes(void)
{
    static const uint64_t STARTS[] = {(1ull << 32) - 5, (1ull << 32) - 1, 1ull << 32, (7ull << 32) - JOURNAL,
                                      1ull << 40};
    static const int BITS[] = {4, 32, 63}; /* a row that is none, and another change's number */
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++) {
        uint32_t rows[JOURNAL + 1];
        uint64_t start = STARTS[i], reached;
        mpb_store_release(&core.header->metadata_generation, start);
        for (uint32_t n = 0; n < 10; n++)
            CHECK_EQ(mpb_journal_append(&core, (n * 7 + 1) % ROWS), start + n + 1);
        for (uint32_t since = 0; since <= 10; since++)
            for (uint32_t most = 0; most <= 11; most++) {
                uint32_t count = 10 - since < most ? 10 - since : most;
                memset(rows, 0x5a, sizeof rows);
                CHECK_EQ(mpb_journal_since(&core, start + since, rows, most, &reached), count);
                CHECK_EQ(reached, start + since + count);
                for (uint32_t n = 0; n <= JOURNAL; n++)
                    CHECK_EQ(rows[n], n < count ? ((since + n) * 7 + 1) % ROWS : 0x5a5a5a5a);
            }
        for (uint32_t n = 0; n < 10; n++) { /* each word is looked at for the change that it names */
            mpb_atomic64 *word = &core.journal[(start + n) % JOURNAL];
            for (size_t bit = 0; bit < sizeof BITS / sizeof *BITS; bit++) {
                *word ^= 1ull << BITS[bit];
                CHECK_EQ(mpb_journal_since(&core, start, rows, JOURNAL, &reached), MPB_METADATA_RESCAN);
                CHECK_EQ(reached, start + 10);
                *word ^= 1ull << BITS[bit];
            }
        }
    }
}

static void make_partition(uint32_t ordinal, uint32_t number, uint8_t id, uint32_t next)
{
    core.partitions[ordinal].partition = number;
    memset(core.partitions[ordinal].topic_id, id, 16);
    mpb_partition_link(&core, ordinal, next);
    mpb_store_release(&core.partitions[ordinal].flags, MPB_PART_EXISTS);
}

static void test_partition_chain(void)
{
    uint8_t id[17] = {0}, other[16];
    uint32_t ordinals[3];
    memset(id, 7, 16);
    id[16] = 0xee;
    memset(other, 8, sizeof other);
    make_partition(9, 0, 7, 4 + 1);
    make_partition(4, 1, 7, 60 + 1);
    make_partition(60, 2, 7, 0);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 3, ordinals), 0);
    CHECK(ordinals[0] == 9 && ordinals[1] == 4 && ordinals[2] == 60);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 2, ordinals), 0);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 4, ordinals), MPB_METADATA_BUSY);
    CHECK_EQ(mpb_topic_partitions(&core, other, 9, 1, ordinals), MPB_METADATA_BUSY);
    CHECK_EQ(mpb_topic_partitions(&core, other, UINT32_MAX, 0, ordinals), 0);     /* of none nothing is asked */
    CHECK_EQ(mpb_topic_partitions(&core, id, 4, 1, ordinals), MPB_METADATA_BUSY); /* that is the second */
    for (int at = 0; at < 16; at++) { /* each byte of an id, and none behind it */
        id[at] ^= 1;
        CHECK_EQ(mpb_topic_partitions(&core, id, 9, 1, ordinals), MPB_METADATA_BUSY);
        id[at] ^= 1;
    }
    make_partition(PARTITIONS - 1, 0, 7, 0);
    CHECK_EQ(mpb_topic_partitions(&core, id, PARTITIONS - 1, 1, ordinals), 0);
    CHECK_EQ(ordinals[0], PARTITIONS - 1);
    make_partition(PARTITIONS, 0, 7, 0); /* behind the table nothing is read */
    CHECK_EQ(mpb_topic_partitions(&core, id, PARTITIONS, 1, ordinals), MPB_METADATA_BUSY);
    mpb_store_release(&core.partitions[60].flags, MPB_PART_DELETED);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 3, ordinals), MPB_METADATA_BUSY);
    mpb_store_release(&core.partitions[60].flags, MPB_PART_EXISTS);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 3, ordinals), 0);
    mpb_partition_link(&core, 4, 9 + 1); /* a loop is no chain */
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 3, ordinals), MPB_METADATA_BUSY);
}

int main(void)
{
    make_core();
    test_readers_beside_a_writer();
    test_journal();
    test_the_longest_copy_ends_where_it_ends();
    test_how_much_is_copied();
    test_partition_chain();
    test_a_journal_of_many_changes();
    test_rows_in_use();
    printf("metadata: %lu checks, %lu + %lu copies read, %lu + %lu rescans\n", checks_made,
           (unsigned long)copies_read[0], (unsigned long)copies_read[1], (unsigned long)rescans[0],
           (unsigned long)rescans[1]);
    return 0;
}
