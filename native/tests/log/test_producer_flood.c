/* The table of producers under a flood of ids: the flood's own rows go, an honest producer is never refused while a row of
 * somebody who wrote once could be freed, and a batch costs a bounded number of looks, however large the table is. */
#include "tests/log/log_fixture.h"

#include "log/producer_room.h"
#include "log/transaction.h"

enum { LARGE = 32768, MAX_LOOKS = MPB_PRODUCER_CHAIN_ROWS + 256 + 8 + 64, HONEST = 5 };

static struct fixture f;
static uint64_t most_looks; /* of one batch */

static struct mpb_append_result produce(uint32_t ordinal, int64_t id, int32_t sequence)
{
    static uint8_t bytes[MPB_BATCH_HEADER_BYTES + 40];
    struct batch_spec spec = {.records = 1, .producer_id = id, .sequence = sequence, .timestamp = 100, .payload = 40};
    struct mpb_batch_info info;
    struct mpb_append_result result;
    static int64_t now_ms = 5000;
    make_batch(bytes, &spec);
    mpb_batch_read(bytes, &info);
    struct mpb_append_request request = {.ordinal = ordinal,
                                         .entry = MPB_NO_REQUEST,
                                         .batch = bytes,
                                         .info = &info,
                                         .max_timestamp = MPB_RECORDS_UNSEEN,
                                         .now_ms = ++now_ms,
                                         .leader_epoch = -1};
    uint64_t before = f.log.producer_looks;
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    uint64_t looks = f.log.producer_looks - before;
    most_looks = looks > most_looks ? looks : most_looks;
    return result;
}

static void begin(uint32_t rows)
{
    most_looks = 0;
    fixture_open(&f);
    munmap(f.core.producers, FIX_PRODUCERS * sizeof *f.core.producers);
    f.core.producers = shared_bytes(rows * sizeof *f.core.producers);
    f.core.producer_count = rows;
    for (uint32_t p = 0; p < FIX_PARTITIONS; p++)
        fixture_partition(&f, p);
}

static void end(void)
{
    munmap(f.core.producers, f.core.producer_count * sizeof *f.core.producers);
    f.core.producers = shared_bytes(FIX_PRODUCERS * sizeof *f.core.producers);
    fixture_close(&f);
}

static uint32_t rows_of(uint32_t ordinal)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < f.core.producer_count; i++)
        rows += mpb_load_relaxed(&f.core.producers[i].owner) == (uint64_t)ordinal + 1;
    return rows;
}

static void test_a_flood_goes_round_in_its_own_rows(void)
{
    begin(LARGE);
    for (int32_t sequence = 0; sequence < 2; sequence++)
        for (int64_t id = 0; id < HONEST; id++)
            CHECK_EQ(produce(0, id, sequence).error, 0);
    CHECK_EQ(produce(1, 7, 0).error, 0);
    for (int64_t i = 0; i < 2 * LARGE; i++) {
        CHECK_EQ(produce(0, 1000 + i, 0).error, 0);
        if (i % 4096 == 0)
            CHECK_EQ(produce(0, i / 4096 % HONEST, 2 + (int32_t)(i / 4096 / HONEST)).error, 0);
    }
    CHECK(rows_of(0) <= MPB_PRODUCER_CHAINS * MPB_PRODUCER_CHAIN_ROWS);
    CHECK(most_looks <= MAX_LOOKS);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), HONEST + 2 * LARGE - rows_of(0));
    for (int64_t id = 0; id < HONEST; id++)
        CHECK(produce(0, id, 1).duplicate);
    CHECK(produce(1, 7, 0).duplicate); /* a single batch, and its partition is not flooded */
    CHECK(produce(0, 1000 + 2 * LARGE - 1, 0).duplicate);
    CHECK(!produce(0, 1000, 0).duplicate); /* longest ago */
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_FULL), 0);
    end();
}

/* One in a transaction that wrote a single batch stays, whatever comes behind it in its chain; when it has ended, it goes. */
static void test_a_flood_forgets_no_transaction(void)
{
    static const struct mpb_txn_epochs VERIFIED = {0, MPB_NO_EPOCH, 0},
                                       NONE = {MPB_NO_EPOCH, MPB_NO_EPOCH, MPB_NO_EPOCH};
    begin(LARGE);
    CHECK_EQ(produce(0, 5, 0).error, 0);
    uint32_t at = mpb_producer_find(&f.core, &f.core.partitions[0], 5);
    CHECK(at != 0);
    for (int64_t round = 0; round < 3; round++) { /* it has records, it may get some, it has ended */
        mpb_txn_restore(&f.core.producers[at - 1], round == 1 ? VERIFIED : NONE, round == 0 ? 0 : -1, 6000);
        for (int64_t i = 1; i <= 2 * MPB_PRODUCER_CHAIN_ROWS; i++)
            CHECK_EQ(produce(0, 5 + (i + round * LARGE) * MPB_PRODUCER_CHAINS, 0).error, 0);
        CHECK_EQ(mpb_producer_find(&f.core, &f.core.partitions[0], 5), round < 2 ? at : 0);
    }
    end();
}

/* A row that is freed for somebody else stands in no chain any more: what was behind it is found, and it is not. */
static void test_a_freed_row_leaves_its_chain(void)
{
    begin(FIX_PRODUCERS);
    for (int64_t i = 0; i < FIX_PRODUCERS / 2; i++)
        CHECK_EQ(produce(1, i, 0).error, 0);
    for (uint32_t row = 0, left = rows_of(1); row < FIX_PRODUCERS; row++) {
        int64_t written_ms;
        bool again;
        if (mpb_load_relaxed(&f.core.producers[row].owner) != 2)
            continue;
        CHECK(mpb_producer_time(&f.core, row, &written_ms, &again) && !again);
        CHECK(mpb_producer_forget(&f.core, row, 1, written_ms, false));
        for (uint32_t chain = 0; chain < MPB_PRODUCER_CHAINS; chain++)
            for (uint32_t at = mpb_load_relaxed(&f.core.partitions[1].producer_chain[chain]); at != 0;
                 at = mpb_load_relaxed(&f.core.producers[at - 1].next)) {
                CHECK(at != row + 1);
                CHECK_EQ(mpb_load_relaxed(&f.core.producers[at - 1].owner), 2);
            }
        CHECK_EQ(rows_of(1), --left);
    }
    CHECK_EQ(rows_of(1), 0);
    end();
}

/* Wherever in its chain it stands: the others stay. */
static void test_a_row_leaves_a_chain_of_several(void)
{
    enum { SEVERAL = 4 };
    for (int64_t gone = 0; gone < SEVERAL; gone++) {
        int64_t written_ms;
        bool again;
        begin(FIX_PRODUCERS);
        const struct mpb_partition *row = &f.core.partitions[1];
        for (int64_t i = 0; i < SEVERAL; i++)
            CHECK_EQ(produce(1, 5 + i * MPB_PRODUCER_CHAINS, 0).error, 0);
        uint32_t at = mpb_producer_find(&f.core, row, 5 + gone * MPB_PRODUCER_CHAINS);
        CHECK(at != 0 && mpb_producer_time(&f.core, at - 1, &written_ms, &again));
        CHECK(mpb_producer_forget(&f.core, at - 1, 1, written_ms, false));
        for (int64_t i = 0; i < SEVERAL; i++)
            CHECK_EQ(mpb_producer_find(&f.core, row, 5 + i * MPB_PRODUCER_CHAINS) == 0, i == gone);
        end();
    }
}

/* Each of the table's rows is another partition's: the one that wrote longest ago goes. */
static void test_a_new_producer_gets_a_row_of_another_partition(void)
{
    begin(FIX_PRODUCERS);
    CHECK_EQ(produce(1, 0, 0).error, 0);
    CHECK_EQ(produce(1, 0, 1).error, 0);
    for (int64_t i = 1; i < FIX_PRODUCERS; i++)
        CHECK_EQ(produce(1, i, 0).error, 0);
    CHECK_EQ(produce(0, 7, 0).error, 0);
    CHECK_EQ(produce(0, 7, 1).error, 0);
    CHECK(produce(0, 7, 0).duplicate);
    CHECK_EQ(rows_of(0), 1);
    CHECK(produce(1, 0, 0).duplicate && produce(1, 2, 0).duplicate && produce(1, FIX_PRODUCERS - 1, 0).duplicate);
    for (int64_t i = 100; i < 100 + 3 * FIX_PRODUCERS; i++) /* a flood of partition 2: round and round */
        CHECK_EQ(produce(2, i, 0).error, 0);
    CHECK(produce(0, 7, 1).duplicate && produce(1, 0, 1).duplicate);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED),
             FIX_PRODUCERS + 1 + 3 * FIX_PRODUCERS - rows_of(0) - rows_of(1) - rows_of(2));
    CHECK(most_looks <= MAX_LOOKS);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_FULL), 0);
    end();
}

/* Each of its ids writes twice, so that nobody wrote once: the flood's rows go all the same, being most of those that one comes
 * by. Who writes now and then stays, no new one is refused, and no batch looks through the table. */
static void test_a_flood_that_writes_twice(void)
{
    begin(LARGE);
    for (int64_t i = 0; i < 2 * LARGE; i++) {
        CHECK_EQ(produce(0, 1000 + i, 0).error, 0);
        CHECK_EQ(produce(0, 1000 + i, 1).error, 0);
        if (i % 512 == 0)
            CHECK_EQ(produce(1, 7, (int32_t)(i / 512)).error, 0);
        if (i % 4096 == 0)
            CHECK_EQ(produce(1, 1000 + i, 0).error, 0);
    }
    CHECK(produce(1, 7, 2 * LARGE / 512 - 1).duplicate && produce(1, 7, 2 * LARGE / 512 - 5).duplicate);
    CHECK(produce(0, 1000 + 2 * LARGE - 1, 1).duplicate);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_FULL), 0);
    CHECK(rows_of(0) + rows_of(1) >= LARGE - 1);
    CHECK(most_looks <= LARGE / MPB_PRODUCER_CHAINS + 8 * (MPB_PRODUCER_CHAIN_ROWS + 512));
    end();
}

static void open_or_end(uint32_t ordinal, bool open)
{
    static const struct mpb_txn_epochs VERIFIED = {0, MPB_NO_EPOCH, 0},
                                       NONE = {MPB_NO_EPOCH, MPB_NO_EPOCH, MPB_NO_EPOCH};
    for (uint32_t i = 0; i < f.core.producer_count; i++)
        if (mpb_load_relaxed(&f.core.producers[i].owner) == (uint64_t)ordinal + 1)
            mpb_txn_store_epochs(&f.core.producers[i], open ? VERIFIED : NONE);
}

/* All are in transactions: there is nothing to free here, and whoever asks again costs little. */
static void test_a_table_of_producers_at_work_refuses(void)
{
    begin(LARGE);
    for (int64_t i = 0; i < LARGE; i++)
        CHECK_EQ(produce((uint32_t)(i % FIX_PARTITIONS), i / FIX_PARTITIONS, 0).error, 0);
    for (uint32_t ordinal = 0; ordinal < FIX_PARTITIONS; ordinal++)
        open_or_end(ordinal, true);
    CHECK_EQ(produce(0, LARGE, 0).error, MPB_ERR_THROTTLING_QUOTA_EXCEEDED);
    for (int i = 0; i < LARGE / 256; i++) /* until this process has seen them all */
        CHECK_EQ(produce(0, LARGE, 0).error, MPB_ERR_THROTTLING_QUOTA_EXCEEDED);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_FULL), 1 + LARGE / 256);
    most_looks = 0;
    CHECK_EQ(produce(0, LARGE, 0).error, MPB_ERR_THROTTLING_QUOTA_EXCEEDED);
    CHECK(most_looks <= LARGE / FIX_PARTITIONS / MPB_PRODUCER_CHAINS + 8); /* its chain */
    open_or_end(3, false);
    CHECK_EQ(mpb_partition_lock(&f.log, 3), 0);
    CHECK(mpb_producers_expire(&f.log, 3, INT64_MAX, INT64_MAX) > 0);
    mpb_partition_unlock(&f.log, 3);
    CHECK_EQ(produce(0, LARGE, 0).error, 0);
    end();
}

/* Of those that wrote again the one that was idle for longest, among so many; one that wrote once goes before all of them. */
static void test_who_wrote_again_goes_last(void)
{
    enum { ROWS = 1200, LOOKS = 64, MOST = 512, ONCE = 900 };
    begin(ROWS);
    for (int64_t id = 0; id < ROWS; id++)
        for (int32_t sequence = 0; sequence <= (id != ONCE); sequence++)
            CHECK_EQ(produce(0, id, sequence).error, 0);
    uint64_t before = f.log.producer_looks;
    f.log.room_hint = 0;
    CHECK(mpb_producers_make_room(&f.log) && f.log.producer_looks - before == MOST && f.log.room_hint == MOST);
    CHECK_EQ(mpb_load_relaxed(&f.core.producers[0].owner), 0);
    CHECK_EQ(produce(0, 1, 2).error, 0); /* a while ago no more */
    uint32_t kept = mpb_producer_find(&f.core, &f.core.partitions[0], 1) - 1;
    f.log.room_hint = 1;
    CHECK(mpb_producers_make_room(&f.log) && f.log.producer_hint != kept);
    f.log.room_hint = mpb_producer_find(&f.core, &f.core.partitions[0], ONCE) - MOST;
    before = f.log.producer_looks;
    CHECK(mpb_producers_make_room(&f.log) && f.log.producer_looks - before == MOST);
    CHECK_EQ(mpb_producer_find(&f.core, &f.core.partitions[0], ONCE), 0);
    end();
}

/* Of a process that died between taking a row and chaining it. */
static void test_a_lost_row_is_found(void)
{
    begin(FIX_PRODUCERS);
    for (int64_t i = 0; i < FIX_PRODUCERS - 1; i++) {
        CHECK_EQ(produce(1, i, 0).error, 0);
        CHECK_EQ(produce(1, i, 1).error, 0);
    }
    CHECK_EQ(produce(1, FIX_PRODUCERS, 0).error, 0);
    for (uint32_t chain = 0; chain < MPB_PRODUCER_CHAINS; chain++) {
        mpb_atomic32 *link = &f.core.partitions[1].producer_chain[chain];
        uint32_t at = mpb_load_relaxed(link);
        if (at != 0 && mpb_load_relaxed(&f.core.producers[at - 1].count) == 1)
            mpb_store_relaxed(link, mpb_load_relaxed(&f.core.producers[at - 1].next));
    }
    CHECK_EQ(produce(0, 7, 0).error, 0);
    CHECK_EQ(produce(0, 7, 1).error, 0);
    CHECK_EQ(rows_of(0), 1);
    end();
}

/* Nor does anybody have to go for a row that a dead process freed and said nothing of, while the table has only just been
 * found full: it is looked for a good while. */
static void test_a_row_freed_in_silence_is_taken_first(void)
{
    enum { ROWS = 300, FREED = 100 };
    begin(ROWS);
    mpb_store_release(&f.core.producers[FREED].owner, 2);
    for (int64_t i = 0; i < ROWS - 1; i++)
        CHECK_EQ(produce(0, i, 0).error, 0);
    CHECK_EQ(rows_of(0), ROWS - 1);
    mpb_store_release(&f.core.producers[FREED].owner, 0);
    CHECK_EQ(produce(0, ROWS, 0).error, 0);
    CHECK_EQ(rows_of(0), ROWS);
    end();
}

/* Where no row was ever used nobody is at work in one: no look is worth it until a row is freed. */
static void test_an_empty_table_has_no_room(void)
{
    begin(FIX_PRODUCERS);
    CHECK_EQ(f.core.header->producers_high, 0);
    CHECK(!mpb_producers_have_no_room(&f.log) && !mpb_producers_make_room(&f.log));
    for (int i = 0; i < 3; i++)
        CHECK(mpb_producers_have_no_room(&f.log) && f.log.room_pause == UINT32_MAX);
    f.core.header->producers_freed++;
    CHECK(!mpb_producers_have_no_room(&f.log));
    end();
}

/* The one that wrote longest ago of the rows behind the last look; one of a partition at work is left alone, and if all
 * are, all of them were looked at. */
static void test_where_room_is_looked_for(void)
{
    enum { ROWS = 600, LOOKS = 64 };
    begin(ROWS);
    for (int64_t id = 0; id < ROWS; id++)
        CHECK_EQ(produce((uint32_t)id & 1, id, 0).error, 0);
    for (uint32_t round = 0; round < 2; round++) {
        uint64_t before = f.log.producer_looks;
        f.log.room_hint = round * LOOKS;
        CHECK(mpb_producers_make_room(&f.log));
        CHECK_EQ(f.log.producer_looks - before, LOOKS);
        CHECK(f.log.producer_hint == round * LOOKS && f.log.room_hint == (round + 1) * LOOKS && f.log.room_pause == 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.producers[round * LOOKS].owner), 0);
        CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), round + 1);
    }
    f.log.room_hint = 0; /* a free one: nothing else is looked at */
    uint64_t before = f.log.producer_looks;
    CHECK(mpb_producers_make_room(&f.log) && f.log.producer_hint == 0 && f.log.producer_looks - before == 1);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), 2);
    f.log.room_hint = LOOKS + 2; /* behind both free ones */
    mpb_store_relaxed(&f.core.partitions[0].busy_since_ns, 1);
    CHECK(mpb_producers_make_room(&f.log));
    CHECK(f.log.producer_hint == LOOKS + 3 && rows_of(0) == ROWS / 2 - 2 && rows_of(1) == ROWS / 2 - 1);
    end();
    begin(ROWS);
    for (int64_t id = 0; id < ROWS; id++)
        CHECK_EQ(produce((uint32_t)id & 1, id, 0).error, 0);
    mpb_store_relaxed(&f.core.partitions[0].busy_since_ns, 1);
    mpb_store_relaxed(&f.core.partitions[1].busy_since_ns, 1);
    before = f.log.producer_looks;
    f.log.room_hint = ROWS - 1;
    CHECK(!mpb_producers_make_room(&f.log));
    CHECK(f.log.producer_looks - before == ROWS && f.log.room_hint == ROWS - 1);
    uint32_t pause = f.log.room_pause;
    CHECK(pause > 0 && pause < UINT32_MAX);
    CHECK(mpb_producers_have_no_room(&f.log) && f.log.room_pause == pause - 1);
    end();
}

/* A row of a partition that is none, as nothing but damage makes it, is nobody's to give. */
static void test_rows_of_no_partition(void)
{
    begin(FIX_PRODUCERS);
    for (int64_t id = 0; id < FIX_PRODUCERS; id++)
        CHECK_EQ(produce(0, id, 0).error, 0);
    for (uint32_t i = 0; i < FIX_PRODUCERS; i++)
        mpb_store_relaxed(&f.core.producers[i].owner, FIX_PARTITIONS + 1);
    CHECK(!mpb_producers_make_room(&f.log) && f.log.room_pause == UINT32_MAX);
    mpb_store_relaxed(&f.core.producers[5].owner, 1);
    CHECK(mpb_producers_make_room(&f.log) && f.log.producer_hint == 5 && f.log.room_pause == 0);
    CHECK_EQ(mpb_load_relaxed(&f.core.producers[5].owner), 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), 1);
    end();
}

int main(void)
{
    test_a_flood_goes_round_in_its_own_rows();
    test_a_flood_forgets_no_transaction();
    test_a_new_producer_gets_a_row_of_another_partition();
    test_a_freed_row_leaves_its_chain();
    test_a_row_leaves_a_chain_of_several();
    test_a_flood_that_writes_twice();
    test_who_wrote_again_goes_last();
    test_a_table_of_producers_at_work_refuses();
    test_a_lost_row_is_found();
    test_a_row_freed_in_silence_is_taken_first();
    test_an_empty_table_has_no_room();
    test_where_room_is_looked_for();
    test_rows_of_no_partition();
    printf("producer flood: %lu checks\n", checks_made);
    return 0;
}
