/* What an append leaves for others, value by value: the intent from which a repair would redo it, whom it rings, what the
 * state says of each batch, and a partition that is free again whatever the answer was. */
#include "tests/log/append_scenarios.h"

#include "log/log_io.h"
#include "log/producer.h"
#include "log/transaction.h"
#include "shm/doorbell.h"
#include "tests/log/failing_calls.h"

enum { ENTRY = 2, CELL = 1, WAITER = 9, BYTES = MPB_BATCH_HEADER_BYTES + 60 };

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }
static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row()); }

/* ------------------------------------------------------------------ the intent */
static struct mpb_intent seen;
static uint64_t seen_selector;
static int writes;

static int note_intent(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_WRITE && writes++ == 0) {
        memcpy(&seen, &row()->intent, sizeof seen);
        seen_selector = mpb_load_relaxed(&row()->selector);
    }
    return 0;
}

static struct mpb_append_result append_watched(const struct batch_spec *spec, bool log_append_time)
{
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_batch_info info;
    struct mpb_append_request request = fixture_request(spec, &info);
    struct mpb_append_result result;
    options.log_append_time = log_append_time;
    request.entry = ENTRY;
    request.cell = CELL;
    request.now_ms = 5432;
    writes = 0;
    mpb_io_fault = note_intent;
    mpb_append(&f.log, &options, &request, &result);
    mpb_io_fault = NULL;
    CHECK_EQ(writes, 1);
    return result;
}

/* Before the first byte is written the intent says all that a successor needs: result cell, batch and producer. */
static void intents(void)
{
    struct batch_spec first = numbered(-1, 0, 1), second = numbered(7, 30, 2), third = in_transaction(8, 0, 3);
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &first).error, 0);
    uint64_t fill = fixture_fill(&f, ENTRY, 2);
    second.records = 5;
    CHECK_EQ(append_watched(&second, false).base_offset, 2);
    CHECK_EQ(mpb_load_relaxed(&seen.word), (uint64_t)MPB_INTENT_APPEND << 24 | f.log.slot);
    CHECK(seen.fill_number == fill && seen.entry == ENTRY && seen.cell == CELL);
    CHECK(seen.target == seen_selector + 1 && seen.target == mpb_load_relaxed(&row()->selector));
    CHECK(seen.base_offset == 2 && seen.last_offset == 6 && seen.position == BYTES && seen.length == BYTES);
    CHECK_EQ(seen.producer_row, mpb_producer_find(&f.core, row(), 7));
    CHECK(seen.producer_id == 7 && seen.producer_epoch == 0 && seen.batch_kind == MPB_BATCH_PLAIN);
    CHECK(seen.first_sequence == 30 && seen.last_sequence == 34);
    CHECK(seen.timestamp_ms == 1002 && seen.append_time_ms == -1 && seen.written_ms == 5432);
    fill = fixture_fill(&f, ENTRY, 2);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 8, 0, MPB_NO_GUARD), 0);
    CHECK_EQ(append_watched(&third, true).base_offset, 7);
    CHECK(seen.fill_number == fill && seen.base_offset == 7 && seen.last_offset == 8 && seen.position == 2 * BYTES);
    CHECK(seen.producer_id == 8 && seen.batch_kind == MPB_BATCH_IN_TRANSACTION);
    CHECK_EQ(seen.producer_row, mpb_producer_find(&f.core, row(), 8));
    CHECK(seen.timestamp_ms == 5432 && seen.append_time_ms == 5432 && seen.written_ms == 5432);
    fixture_fill(&f, ENTRY, 2);
    CHECK_EQ(append_watched(&first, false).base_offset, 9);
    CHECK(seen.producer_row == 0 && seen.producer_id == -1 && seen.batch_kind == MPB_BATCH_PLAIN);
    fixture_close(&f);
}

/* Of a marker the intent has its kind and its coordinator's epoch, too. */
static void intents_of_markers(void)
{
    for (int commit = 0; commit < 2; commit++) {
        struct batch_spec spec = in_transaction(8, 0, 3);
        struct mpb_marker marker = {.producer_id = 8,
                                    .coordinator_epoch = 17,
                                    .commit = commit,
                                    .now_ms = 6000,
                                    .leader_epoch = -1,
                                    .entry = ENTRY,
                                    .cell = CELL};
        struct mpb_append_result result;
        fixture_open(&f);
        fixture_partition(&f, 0);
        CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 8, 0, MPB_NO_GUARD), 0);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        uint64_t fill = fixture_fill(&f, ENTRY, 2);
        writes = 0;
        mpb_io_fault = note_intent;
        mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
        mpb_io_fault = NULL;
        CHECK(result.error == 0 && result.base_offset == 2 && result.end_offset == 3);
        CHECK(seen.batch_kind == (commit ? MPB_BATCH_COMMIT : MPB_BATCH_ABORT) && seen.coordinator_epoch == 17);
        CHECK(seen.fill_number == fill && seen.entry == ENTRY && seen.cell == CELL);
        CHECK(seen.base_offset == 2 && seen.last_offset == 2 && seen.length == MPB_MARKER_BYTES);
        CHECK(seen.timestamp_ms == 6000 && seen.written_ms == 6000 && seen.append_time_ms == -1);
        CHECK_EQ(mpb_cell_find(&f.core, ENTRY, CELL, fill)->end_offset, 3);
        CHECK_EQ(now()->txn_index_bytes, commit ? 0 : MPB_TXN_INDEX_ENTRY_BYTES);
        CHECK_EQ(writes, commit ? 1 : 2);
        fixture_close(&f);
    }
}

static int opens_seen;

static int note_intent_of_a_roll(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call == MPB_IO_OPEN && opens_seen++ == 0)
        memcpy(&seen, &row()->intent, sizeof seen);
    return 0;
}

/* Before a roll makes its first file, the intent names the segment that a successor would take away. */
static void intents_of_rolls(void)
{
    const struct batch_spec spec = numbered(-1, 0, 1);
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (int64_t leo = 2; leo <= 4; leo += 2) {
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        CHECK(mpb_segment_fd(&f.log, row(), now(), now()->active_base, MPB_FILE_TIME_INDEX) >= 0);
        const uint64_t selector = mpb_load_relaxed(&row()->selector);
        opens_seen = 0;
        mpb_io_fault = note_intent_of_a_roll;
        CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
        mpb_io_fault = NULL;
        CHECK(opens_seen == MPB_SEGMENT_FILES && seen.base_offset == leo && seen.target == selector + 1);
        CHECK_EQ(mpb_load_relaxed(&seen.word), (uint64_t)MPB_INTENT_ROLL << 24 | f.log.slot);
    }
    fixture_close(&f);
}

/* ------------------------------------------------------------------ who is not verified */
/* No answer at all: the caller asks the coordinator and comes again; till then the cell is empty and the lock free. */
static void not_verified(void)
{
    struct mpb_append_options options = FIX_OPTIONS;
    const struct batch_spec spec = in_transaction(8, 0, 3), old = in_transaction(8, 2, 4);
    struct mpb_append_result result = {0};
    fixture_open(&f);
    fixture_partition(&f, 0);
    options.log_append_time = true;
    uint64_t fill = fixture_fill(&f, ENTRY, 2);
    for (uint32_t ready = 0; ready < 2; ready++) {
        mpb_store_relaxed(&f.core.header->transactions_ready, ready);
        result = append_batch(&f.log, &options, 0, ENTRY, CELL, &spec);
        CHECK(result.unverified && !result.replayed && !result.duplicate && !result.waits);
        CHECK_EQ(result.error, ready ? MPB_ERR_INVALID_TXN_STATE : MPB_ERR_NOT_ENOUGH_REPLICAS);
        CHECK(result.base_offset == -1 && result.end_offset == -1 && result.append_time_ms == -1);
        CHECK(!mpb_cell_read(&f.core, ENTRY, CELL, fill, &result) && now()->leo == 0);
        fixture_is_free(&f, 0);
    }
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 8, 3, MPB_NO_GUARD), 0);
    struct batch_spec newer = spec;
    newer.epoch = 3;
    result = append_batch(&f.log, &options, 0, ENTRY, CELL, &newer);
    CHECK(result.error == 0 && !result.unverified && result.base_offset == 0 && result.append_time_ms == 5000);
    fill = fixture_fill(&f, ENTRY, 2);
    result = append_batch(&f.log, &options, 0, ENTRY, CELL, &old); /* of an epoch that is over */
    CHECK(result.error == MPB_ERR_INVALID_PRODUCER_EPOCH && !result.unverified && result.append_time_ms == -1);
    CHECK(mpb_cell_read(&f.core, ENTRY, CELL, fill, &result) && result.error == MPB_ERR_INVALID_PRODUCER_EPOCH);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

/* Whatever is answered, and whoever answers, the lock is free behind it. */
static void free_behind_every_answer(void)
{
    const struct batch_spec first = numbered(7, 0, 1), gap = numbered(7, 9, 2);
    struct mpb_append_request request = {.entry = ENTRY, .cell = CELL};
    struct mpb_append_result result;
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_fill(&f, ENTRY, 2);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, ENTRY, CELL, &first).error, 0);
    fixture_is_free(&f, 0);
    CHECK(append_batch(&f.log, &FIX_OPTIONS, 0, ENTRY, CELL, &first).replayed);
    fixture_is_free(&f, 0);
    CHECK(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &first).duplicate);
    fixture_is_free(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &gap).error,
             MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    fixture_is_free(&f, 0);
    mpb_append_not_synced(&f.log, &request, MPB_ERR_KAFKA_STORAGE_ERROR, &result);
    fixture_is_free(&f, 0);
    mpb_append_refuse(&f.log, &request, MPB_ERR_INVALID_RECORD, &result);
    fixture_is_free(&f, 0);
    fixture_fill(&f, ENTRY, 2);
    mpb_append_refuse(&f.log, &request, MPB_ERR_INVALID_RECORD, &result);
    fixture_is_free(&f, 0);
    let_fail(MPB_IO_WRITE, 0, ENOSPC, 1);
    struct batch_spec second = numbered(7, 2, 2);
    result = append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &second);
    mpb_io_fault = NULL;
    CHECK(result.error == MPB_ERR_KAFKA_STORAGE_ERROR && result.base_offset == -1 && result.end_offset == -1);
    fixture_is_free(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &second).base_offset, 2);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ who is rung */
enum rung { NOBODY = 0, READERS = 1, WAITERS = 2 };

/* Who waited for the partition, and for replicas of it, and is no longer on its list; both are put on it again. */
static int rung(void)
{
    int found = (mpb_load_acquire(&row()->watchers) == 0 ? READERS : NOBODY) |
                (mpb_load_acquire(&row()->ack_watchers) == 0 ? WAITERS : NOBODY);
    mpb_watch_partition(&f.core, 0, WAITER);
    mpb_watch_acknowledged(&f.core, 0, WAITER + 1);
    return found;
}

static struct mpb_append_result with_acks(int16_t acks, const struct batch_spec *spec)
{
    struct mpb_batch_info info;
    struct mpb_append_request request = fixture_request(spec, &info);
    struct mpb_append_result result;
    request.acks = acks;
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    return result;
}

/* Readers hear of every append, who waits for replicas only of one that needs no more of them; of what is not written
 * nobody does. */
static void who_is_rung(void)
{
    fixture_open(&f);
    prepare_leader_of_three(&f);
    const struct batch_spec one = numbered(9, 0, 45), again = numbered(9, 0, 45), gap = numbered(9, 9, 45);
    rung();
    CHECK(with_acks(-1, &one).waits && rung() == READERS);
    CHECK(with_acks(-1, &again).duplicate && rung() == NOBODY);
    CHECK(with_acks(-1, &gap).error != 0 && rung() == NOBODY);
    const struct batch_spec plain = numbered(-1, 0, 46);
    CHECK(with_acks(1, &plain).error == 0 && rung() == (READERS | WAITERS));
    const struct mpb_isr_proposal alone = {.leader_epoch = 4, .partition_epoch = 5, .isr = {FIX_SELF}, .isr_count = 1};
    CHECK_EQ(mpb_isr_answered(&f.log, &alone, 0), 0);
    rung();
    struct mpb_append_result result = with_acks(-1, &plain);
    CHECK(result.error == 0 && !result.waits && rung() == (READERS | WAITERS));
    fixture_close(&f);
}

/* A follower's reader is rung by what it has new, and by the ends alone; by an answer that was refused it is not. */
static void who_is_rung_by_a_follower(void)
{
    uint8_t bytes[1024];
    const struct batch_spec spec = numbered(-1, 0, 46);
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_follower_appended out;
    fixture_open(&f);
    prepare_follower(&f);
    struct mpb_follower_append request = {
        .leader_epoch = 5, .offset = now()->leo, .records = bytes, .length = make_batch(bytes, &spec), .now_ms = 6000};
    mpb_put_be64(bytes, now()->leo);
    mpb_put_be32(bytes + MPB_BATCH_LEADER_EPOCH, 4);
    rung();
    mpb_append_follower(&f.log, &options, &request, &out);
    CHECK(out.error == 0 && out.batches == 1 && rung() == (READERS | WAITERS));
    mpb_append_follower(&f.log, &options, &request, &out);
    CHECK(out.error == MPB_ERR_OFFSET_OUT_OF_RANGE && out.batches == 0 && rung() == NOBODY);
    request.offset = now()->leo;
    request.length = 0;
    mpb_append_follower(&f.log, &options, &request, &out);
    CHECK(out.error == 0 && out.batches == 0 && rung() == (READERS | WAITERS));
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ what the state counts */
/* Each batch: bytes and records that came in, the largest time and where, and how far the last index entry is behind. */
static void what_is_counted(void)
{
    static const struct {
        int32_t records;
        uint32_t payload;
        int64_t timestamp;
        int64_t max_timestamp, at, first;
        uint32_t since_index, index_entries;
    } CASES[] = {
        {2, 60, 50, 50, 1, 50, BYTES, 0},         {3, 60, 40, 50, 1, 50, 2 * BYTES, 0},
        {1, 60, 50, 50, 1, 50, 3 * BYTES, 0}, /* as much as the interval: no entry yet */
        {4, 61, 70, 70, 9, 50, BYTES + 1, 1}, /* 3 * BYTES lay behind the last entry */
        {1, 60, 69, 70, 9, 50, 2 * BYTES + 1, 1},
    };
    struct mpb_append_options options = FIX_OPTIONS;
    fixture_open(&f);
    fixture_partition(&f, 0);
    options.index_interval_bytes = 3 * BYTES - 1;
    uint64_t bytes = 0, records = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct batch_spec spec = {.records = CASES[i].records,
                                        .producer_id = -1,
                                        .timestamp = CASES[i].timestamp,
                                        .payload = CASES[i].payload,
                                        .mark = (uint8_t)i};
        CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        bytes += MPB_BATCH_HEADER_BYTES + spec.payload;
        records += (uint64_t)spec.records;
        CHECK(now()->bytes_in == bytes && now()->log_bytes == (int64_t)bytes && now()->position == bytes);
        CHECK(now()->records_in == records && now()->leo == (int64_t)records);
        CHECK(now()->max_timestamp == CASES[i].max_timestamp && now()->max_timestamp_offset == CASES[i].at);
        CHECK_EQ(now()->first_timestamp, CASES[i].first);
        CHECK_EQ(now()->bytes_since_index, CASES[i].since_index);
        CHECK_EQ(now()->index_bytes, CASES[i].index_entries * MPB_INDEX_ENTRY_BYTES);
    }
    fixture_close(&f);
}

int main(void)
{
    intents();
    intents_of_markers();
    intents_of_rolls();
    not_verified();
    free_behind_every_answer();
    who_is_rung();
    who_is_rung_by_a_follower();
    what_is_counted();
    printf("append_values: %lu checks\n", checks_made);
    return 0;
}
