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

static void make_partition(uint32_t ordinal, uint32_t number, uint8_t id, uint32_t next)
{
    core.partitions[ordinal].partition = number;
    memset(core.partitions[ordinal].topic_id, id, 16);
    mpb_partition_link(&core, ordinal, next);
    mpb_store_release(&core.partitions[ordinal].flags, MPB_PART_EXISTS);
}

static void test_partition_chain(void)
{
    uint8_t id[16], other[16];
    uint32_t ordinals[3];
    memset(id, 7, sizeof id);
    memset(other, 8, sizeof other);
    make_partition(9, 0, 7, 4 + 1);
    make_partition(4, 1, 7, 60 + 1);
    make_partition(60, 2, 7, 0);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 3, ordinals), 0);
    CHECK(ordinals[0] == 9 && ordinals[1] == 4 && ordinals[2] == 60);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 2, ordinals), 0);
    CHECK_EQ(mpb_topic_partitions(&core, id, 9, 4, ordinals), MPB_METADATA_BUSY);
    CHECK_EQ(mpb_topic_partitions(&core, other, 9, 1, ordinals), MPB_METADATA_BUSY);
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
    test_partition_chain();
    test_rows_in_use();
    printf("metadata: %lu checks, %lu + %lu copies read, %lu + %lu rescans\n", checks_made,
           (unsigned long)copies_read[0], (unsigned long)copies_read[1], (unsigned long)rescans[0],
           (unsigned long)rescans[1]);
    return 0;
}
