/* The append, its files and the ways to read them, in one process: offsets, indexes, rolls, look-ups by offset and by
 * timestamp, result cells, duplicates, sequences, truncation, retention. */
#include "tests/log/log_fixture.h"
#include "log/log_flush.h"
#include "log/log_io.h"
#include "log/offset_index.h"
#include "log/retain.h"
#include "log/roll.h"
#include "log/truncate.h"
#include "shm/doorbell.h"

static const struct batch_spec PLAIN = {.records = 1, .producer_id = -1, .timestamp = 100, .payload = 40, .mark = 'a'};

static struct mpb_partition_copy state(struct fixture *f, uint32_t ordinal)
{
    struct mpb_partition_copy copy;
    CHECK_EQ(mpb_partition_snapshot(&f->log, ordinal, &copy), 0);
    return copy;
}

static void test_append_and_read(void)
{
    struct fixture f;
    struct mpb_read_plan plan;
    uint8_t bytes[4096];
    uint32_t length;
    fixture_open(&f);
    fixture_partition(&f, 1);
    for (int i = 0; i < 10; i++) {
        struct batch_spec spec = PLAIN;
        spec.records = 2;
        spec.mark = (uint8_t)('a' + i);
        struct mpb_append_result r = append_batch(&f.log, &FIX_OPTIONS, 1, MPB_NO_REQUEST, 0, &spec);
        CHECK_EQ(r.error, 0);
        CHECK_EQ(r.base_offset, 2 * i);
        CHECK_EQ(r.end_offset, 2 * i + 2);
        CHECK_EQ(r.append_time_ms, -1);
        CHECK_EQ(r.leader_epoch, 3);
    }
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 7, MPB_READ_TO_HIGH_WATERMARK, 250, true, &plan), 0);
    CHECK_EQ(plan.position, 3 * 101);
    CHECK_EQ(plan.length, 250);
    CHECK_EQ(plan.high_watermark, 20);
    CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
    CHECK_EQ(length, 250);
    CHECK_EQ(f.log.core->partitions[1].bytes_read, 250);
    CHECK_EQ(mpb_partition_in_force(&f.log.core->partitions[1])->bytes_in, 10 * 101);
    CHECK_EQ(mpb_partition_in_force(&f.log.core->partitions[1])->records_in, 20);
    CHECK_EQ(mpb_be64(bytes), 6);
    CHECK_EQ(mpb_be32(bytes + MPB_BATCH_LEADER_EPOCH), 3);
    CHECK_EQ(bytes[MPB_BATCH_HEADER_BYTES], 'd');
    CHECK(mpb_batch_crc_ok(bytes, 101));
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 19, MPB_READ_TO_HIGH_WATERMARK, 10, true, &plan), 0);
    CHECK_EQ(plan.length, 101);
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 19, MPB_READ_TO_HIGH_WATERMARK, 10, false, &plan), 0);
    CHECK_EQ(plan.length, 0);
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 20, MPB_READ_TO_HIGH_WATERMARK, 10, true, &plan), 0);
    CHECK_EQ(plan.length, 0);
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 21, MPB_READ_TO_HIGH_WATERMARK, 10, true, &plan),
             MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 7, MPB_READ_REPLICA_TO_HIGH_WATERMARK, 250, true, &plan), 0);
    CHECK_EQ(plan.length, 250);
    CHECK_EQ(mpb_log_find(&f.log, 2, NULL, 0, MPB_READ_TO_END, 10, true, &plan), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    CHECK_EQ(mpb_partition_set_high_watermark(&f.log, 1, 5), 0);
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 0, MPB_READ_TO_HIGH_WATERMARK, 9999, true, &plan), 0);
    CHECK_EQ(plan.length, 202); /* the batch that holds offset 5 is not below it */
    CHECK_EQ(mpb_log_find(&f.log, 1, NULL, 6, MPB_READ_TO_END, 9999, true, &plan), 0);
    CHECK_EQ(plan.length, 707);
    fixture_close(&f);
}

/* Every batch is found by each of its offsets and by its timestamp, through both indexes and over many segments. */
static void test_lookups(void)
{
    struct fixture f;
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_read_plan plan;
    uint8_t header[MPB_BATCH_HEADER_BYTES];
    enum { BATCHES = 3000 };
    options.segment_bytes = 60000;
    options.index_interval_bytes = 300;
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (int i = 0; i < BATCHES; i++) {
        struct batch_spec spec = PLAIN;
        spec.records = 3;
        spec.timestamp = 1000 + 10 * (int64_t)i;
        spec.payload = 30 + (uint32_t)(i * 7 % 200);
        CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).base_offset, 3 * i);
    }
    CHECK(state(&f, 0).segment_count > 5);
    CHECK_EQ(counted(&f, MPB_C_LOG_ROLLS), state(&f, 0).segment_count - 1);
    for (int i = 0; i < 3 * BATCHES; i++) {
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, i, MPB_READ_TO_END, 0, true, &plan), 0);
        int fd = mpb_segment_fd(&f.log, &f.core.partitions[0], &(struct mpb_partition_copy){.active_base = -1},
                                plan.base, MPB_FILE_LOG);
        CHECK_EQ(mpb_io_read(fd, header, sizeof header, plan.position), sizeof header);
        CHECK_EQ(mpb_be64(header), i - i % 3);
    }
    for (int i = 0; i < BATCHES; i++)
        for (int late = -9; late <= 0; late += 9) {
            CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, 1000 + 10 * i + late, 0, &plan), 0);
            int fd = mpb_segment_fd(&f.log, &f.core.partitions[0], &(struct mpb_partition_copy){.active_base = -1},
                                    plan.base, MPB_FILE_LOG);
            CHECK_EQ(mpb_io_read(fd, header, sizeof header, plan.position), sizeof header);
            CHECK_EQ(mpb_be64(header), 3 * i);
        }
    CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, 1000 + 10 * BATCHES, 0, &plan), 0);
    CHECK_EQ(plan.length, 0);
    CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, 0, 300, &plan), 0);
    CHECK(plan.length > 0);
    fixture_close(&f);
}

static void test_cells(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    uint64_t fill = fixture_fill(&f, 2, 3);
    struct mpb_append_result first = append_batch(&f.log, &FIX_OPTIONS, 0, 2, 0, &PLAIN);
    struct mpb_append_result other = append_batch(&f.log, &FIX_OPTIONS, 1, 2, 2, &PLAIN);
    CHECK(!first.replayed && !other.replayed);
    CHECK_EQ(mpb_load_acquire(&f.core.entries[2].cell.tag), fill);
    struct mpb_cell *cell = mpb_cell_find(&f.core, 2, 2, fill);
    CHECK_EQ(cell->ordinal, 1);
    CHECK_EQ(cell->end_offset, 1);
    struct mpb_append_result again = append_batch(&f.log, &FIX_OPTIONS, 0, 2, 0, &PLAIN);
    CHECK(again.replayed);
    CHECK_EQ(again.base_offset, 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_REPLAYS), 1);
    CHECK_EQ(state(&f, 0).leo, 1);
    fixture_fill(&f, 2, 3);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, 2, 0, &PLAIN).base_offset, 1);
    CHECK(mpb_cell_find(&f.core, 2, 3, fill) == NULL);
    CHECK(mpb_cell_find(&f.core, FIX_ENTRIES, 0, fill) == NULL);
    fixture_close(&f);
}

static struct mpb_append_result produce(struct fixture *f, int64_t id, int16_t epoch, int32_t sequence, int32_t records)
{
    struct batch_spec spec = PLAIN;
    spec.producer_id = id;
    spec.epoch = epoch;
    spec.sequence = sequence;
    spec.records = records;
    return append_batch(&f->log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec);
}

static void test_producers(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(produce(&f, 9, 0, 4, 2).base_offset, 0); /* nothing known: any sequence */
    for (int i = 0; i < 6; i++)
        CHECK_EQ(produce(&f, 9, 0, 6 + 2 * i, 2).base_offset, 2 + 2 * i);
    for (int i = 1; i < 6; i++) {
        struct mpb_append_result r = produce(&f, 9, 0, 6 + 2 * i, 2);
        CHECK(r.duplicate && r.error == 0);
        CHECK_EQ(r.base_offset, 2 + 2 * i);
        CHECK_EQ(r.end_offset, 4 + 2 * i);
    }
    CHECK_EQ(produce(&f, 9, 0, 6, 2).error, MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER); /* older than the five kept */
    CHECK_EQ(produce(&f, 9, 0, 19, 1).error, MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    CHECK_EQ(produce(&f, 9, 1, 5, 1).error, MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    CHECK_EQ(produce(&f, 9, 1, 0, 1).base_offset, 14);
    CHECK_EQ(produce(&f, 9, 0, 16, 2).error, MPB_ERR_INVALID_PRODUCER_EPOCH);
    CHECK_EQ(produce(&f, 9 + MPB_PRODUCER_CHAINS, 0, INT32_MAX - 1, 4).base_offset, 15); /* wraps: next is 2 */
    CHECK_EQ(produce(&f, 9 + MPB_PRODUCER_CHAINS, 0, 2, 1).base_offset, 19);
    CHECK_EQ(state(&f, 0).leo, 20);
    for (int i = 100; i < 98 + FIX_PRODUCERS; i++)
        CHECK_EQ(produce(&f, i, 0, 0, 1).error, 0);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    CHECK_EQ(mpb_producers_expire(&f.log, 0, 5000, 5000), 0); /* by the clock of the append, not by the batches' */
    CHECK_EQ(mpb_producers_expire(&f.log, 0, 5000, 5001), FIX_PRODUCERS - 2); /* two wrote more than one batch */
    CHECK_EQ(mpb_producers_expire(&f.log, 0, 5001, 5001), 2);
    mpb_partition_unlock(&f.log, 0);
    CHECK_EQ(produce(&f, 7000, 0, 55, 1).error, 0);
    fixture_close(&f);
}

/* Taken from a partition is only who wrote one batch, then, and has had no other since. */
static void test_a_row_that_is_taken_away(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(produce(&f, 9, 0, 0, 1).error, 0);
    CHECK_EQ(produce(&f, 9 + MPB_PRODUCER_CHAINS, 0, 0, 1).error, 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    uint32_t index = mpb_producer_find(&f.core, &f.core.partitions[0], 9) - 1;
    CHECK(!mpb_producer_forget(&f.core, index, 1, 5000, false)); /* another's */
    CHECK(!mpb_producer_forget(&f.core, index, 0, 4999, false));
    mpb_partition_unlock(&f.log, 0);
    CHECK_EQ(produce(&f, 9, 0, 1, 1).error, 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    CHECK(!mpb_producer_forget(&f.core, index, 0, 5000, false)); /* it wrote again */
    CHECK(!mpb_producer_free_lost(&f.core, index, 0) && !mpb_producer_free_lost(&f.core, index, 1));
    index = mpb_producer_find(&f.core, &f.core.partitions[0], 9 + MPB_PRODUCER_CHAINS) - 1;
    CHECK(mpb_producer_forget(&f.core, index, 0, 5000, false));
    CHECK(!mpb_producer_forget(&f.core, index, 0, 5000, false)); /* gone */
    CHECK_EQ(mpb_producer_find(&f.core, &f.core.partitions[0], 9 + MPB_PRODUCER_CHAINS), 0);
    CHECK(mpb_producer_find(&f.core, &f.core.partitions[0], 9) != 0);
    mpb_partition_unlock(&f.log, 0);
    fixture_close(&f);
}

/* Whether who waited for the partition was rung: no longer among its watchers, and told where to look. */
static bool rung(struct fixture *f, uint32_t ordinal, uint32_t waiter)
{
    uint64_t bit = 1ull << ordinal % 64;
    bool told = (mpb_load_acquire(&f->core.doorbells->dirty[waiter][ordinal / 64]) & bit) != 0;
    bool poked = (mpb_load_acquire(&f->core.doorbells->handler[waiter].poke) & MPB_POKE_DIRTY) != 0;
    CHECK_EQ(told, poked);
    CHECK_EQ(told, mpb_load_acquire(&f->core.partitions[ordinal].watchers) == 0);
    mpb_store_release(&f->core.doorbells->dirty[waiter][ordinal / 64], 0);
    mpb_store_release(&f->core.doorbells->handler[waiter].poke, 0);
    mpb_watch_partition(&f->core, ordinal, waiter);
    return told;
}

/* Every change that a parked fetch or produce may wait for rings it; a look does not. */
static void test_who_waits_is_rung(void)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = 0, .now_ms = 9000};
    struct mpb_read_plan plan;
    struct fixture f;
    uint32_t count;
    enum { WAITER = 9, ORDINAL = 2 };
    fixture_open(&f);
    fixture_partition(&f, ORDINAL);
    mpb_watch_partition(&f.core, ORDINAL, WAITER);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, ORDINAL, MPB_NO_REQUEST, 0, &PLAIN).error, 0);
        CHECK(rung(&f, ORDINAL, WAITER));
        if (i == 3)
            CHECK_EQ(mpb_roll(&f.log, ORDINAL, 2000), 0);
    }
    CHECK_EQ(mpb_log_find(&f.log, ORDINAL, NULL, 0, MPB_READ_TO_END, 10, true, &plan), 0);
    CHECK(!rung(&f, ORDINAL, WAITER));
    CHECK_EQ(mpb_partition_set_high_watermark(&f.log, ORDINAL, 5), 0);
    CHECK(rung(&f, ORDINAL, WAITER));
    CHECK_EQ(mpb_partition_set_log_start(&f.log, ORDINAL, 1), 0);
    CHECK(rung(&f, ORDINAL, WAITER));
    CHECK_EQ(mpb_truncate(&f.log, ORDINAL, 5), 0);
    CHECK(rung(&f, ORDINAL, WAITER));
    CHECK_EQ(mpb_retain(&f.log, ORDINAL, &rules, removed, &count), 0);
    CHECK(count > 0 && rung(&f, ORDINAL, WAITER));
    CHECK_EQ(mpb_partition_set_flags(&f.log, ORDINAL, MPB_PART_DELETED, MPB_PART_EXISTS), 0);
    CHECK(rung(&f, ORDINAL, WAITER));
    fixture_close(&f);
}

int main(void)
{
    test_append_and_read();
    test_lookups();
    test_cells();
    test_producers();
    test_a_row_that_is_taken_away();
    test_who_waits_is_rung();
    printf("append: %lu checks\n", checks_made);
    return 0;
}
