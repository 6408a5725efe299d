/* Whose batch of a transaction, and whose marker, a partition takes: by what it knows of the producer; and a follower's log
 * that begins anew, of which nothing is left. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/leader_epochs.h"
#include "log/log_io.h"
#include "log/producer.h"
#include "log/transaction.h"
#include "shm/doorbell.h"

enum { ID = 9, NONE = -1, OPEN_AT = 10 };
enum { EPOCH = MPB_ERR_INVALID_PRODUCER_EPOCH, FENCED = MPB_ERR_TRANSACTION_COORDINATOR_FENCED, UNKNOWN = 1 };

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }
static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row()); }

/* A producer whose last batch has epoch 3; `open`: where its transaction began. */
static struct mpb_producer *make_producer(int64_t open, int16_t verified)
{
    const struct mpb_producer_batch one = {.base_offset = OPEN_AT, .epoch = 3};
    uint32_t at = mpb_producer_row(&f.log, 0, ID, true);
    struct mpb_producer *producer = &f.core.producers[at - 1];
    mpb_producer_keep(&f.core, at, &one, 5000);
    mpb_txn_restore(producer, (struct mpb_txn_epochs){6, NONE, verified}, open, 5000);
    return producer;
}

/* Who is not known to be in a transaction is verified first; until the coordinators are there, clients try again. */
static void batches(void)
{
    static const struct {
        int64_t open;
        int16_t verified, epoch;
        int answer; /* UNKNOWN: to be verified */
    } CASES[] = {
        {OPEN_AT, NONE, 3, 0},  {OPEN_AT, NONE, 4, UNKNOWN}, {OPEN_AT, 4, 4, 0},
        {OPEN_AT, 3, 2, EPOCH}, {OPEN_AT, 2, 2, EPOCH},      {NONE, NONE, 3, UNKNOWN},
        {NONE, 3, 3, 0},        {NONE, 2, 3, UNKNOWN},       {NONE, 4, 3, UNKNOWN},
        {NONE, 4, 4, 0},        {NONE, NONE, 2, EPOCH},      {0, NONE, 3, 0},
        {NONE, -5, 3, UNKNOWN},
    };
    for (int ready = 0; ready < 2; ready++) {
        const int unknown = ready ? MPB_ERR_INVALID_TXN_STATE : MPB_ERR_NOT_ENOUGH_REPLICAS;
        struct mpb_batch_info info = {.producer_id = ID, .attributes = MPB_ATTRIBUTE_TRANSACTIONAL};
        bool unverified = false;
        fixture_open(&f);
        fixture_partition(&f, 0);
        mpb_store_relaxed(&f.core.header->transactions_ready, (uint32_t)ready);
        CHECK_EQ(mpb_txn_check_batch(&f.core, row(), &info, &unverified), unknown); /* nothing is known */
        CHECK(unverified);
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            make_producer(CASES[i].open, CASES[i].verified);
            info.producer_epoch = CASES[i].epoch;
            unverified = CASES[i].answer != UNKNOWN;
            int error = mpb_txn_check_batch(&f.core, row(), &info, &unverified);
            CHECK_EQ(error, CASES[i].answer == UNKNOWN ? unknown : CASES[i].answer);
            CHECK_EQ(unverified, CASES[i].answer == UNKNOWN);
        }
        fixture_close(&f);
    }
}

/* A marker needs no transaction; an older epoch of the producer or of its coordinator has been deposed. */
static void markers(void)
{
    static const struct {
        int16_t epoch;
        int32_t coordinator;
        int answer;
    } CASES[] = {{2, 6, EPOCH}, {2, 5, EPOCH}, {3, 5, FENCED}, {3, 6, 0}, {3, 7, 0}, {4, 5, FENCED}, {4, 6, 0}};
    struct mpb_batch_info info = {.producer_id = ID};
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_txn_check_marker(&f.core, row(), &info, 0), 0);
    make_producer(OPEN_AT, NONE);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        info.producer_epoch = CASES[i].epoch;
        CHECK_EQ(mpb_txn_check_marker(&f.core, row(), &info, CASES[i].coordinator), CASES[i].answer);
    }
    fixture_close(&f);
}

/* What a start restores; the time of the last write goes up only. */
static void restored(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    struct mpb_producer *producer = make_producer(OPEN_AT, 2);
    CHECK(mpb_txn_first(producer) == OPEN_AT && mpb_load_relaxed(&producer->txn_started_ms) == 5000);
    struct mpb_txn_epochs epochs = mpb_txn_epochs_of(producer);
    CHECK(epochs.coordinator == 6 && epochs.marker == NONE && epochs.verified == 2);
    mpb_txn_restore(producer, epochs, NONE, 4000);
    CHECK(mpb_txn_first(producer) == NONE && mpb_load_relaxed(&producer->written_ms) == 5000);
    mpb_txn_restore(producer, epochs, 0, 7000);
    CHECK(mpb_txn_first(producer) == 0 && mpb_load_relaxed(&producer->written_ms) == 7000);
    CHECK_EQ(mpb_load_relaxed(&producer->txn_started_ms), 7000);
    fixture_close(&f);
}

static int fail_to_open(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    return call == MPB_IO_OPEN ? ENOSPC : 0;
}

static void nothing_is_left_but(int64_t offset, uint32_t truncations)
{
    const struct mpb_segment_list *list;
    struct stat status;
    char path[64];
    CHECK(now()->log_start == offset && now()->leo == offset && now()->hw == offset && now()->lso == offset);
    CHECK(now()->active_base == offset && now()->segment_count == 1 && now()->log_bytes == 0 && now()->position == 0);
    CHECK(now()->index_bytes == 0 && now()->time_index_bytes == 0 && now()->txn_index_bytes == 0);
    CHECK(now()->bytes_since_index == 0 && now()->aborted_end == 0 && now()->open_transactions == 0);
    CHECK(now()->max_timestamp == -1 && now()->max_timestamp_offset == -1 && now()->first_timestamp == -1);
    CHECK(now()->indexed_timestamp == -1 && now()->segment_created_ms == 7000 && now()->truncations == truncations);
    CHECK(now()->segment_id == mpb_load_relaxed(&row()->selector) && mpb_load_relaxed(&row()->intent.word) == 0);
    CHECK_EQ(mpb_load_relaxed(&row()->flushed_offset), offset);
    CHECK_EQ(mpb_epochs_latest(&f.core, row(), now()), MPB_UNDEFINED_EPOCH);
    CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
    CHECK(list->count == 1 && list->bases[0] == offset);
    snprintf(path, sizeof path, "t-0/%020lld.log", (long long)offset);
    CHECK(fstatat(f.log.dir_fd[0], path, &status, 0) == 0 && status.st_size == 0);
}

/* Beyond the log's end and below its first segment; within it, the log goes on. One that begins there already stays. */
static void begun_anew(void)
{
    fixture_open(&f);
    prepare_follower_of_transactions(&f);
    const int64_t leo = now()->leo;
    uint32_t truncations = now()->truncations;
    CHECK(now()->open_transactions == 1 && now()->txn_index_bytes > 0 && now()->position > 0);
    CHECK_EQ(mpb_start_at(&f.log, 0, -1, 5, 7000), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(mpb_start_at(&f.log, 0, 0, 5, 7000), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(mpb_start_at(&f.log, 0, leo, 5, 7000), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(mpb_start_at(&f.log, 0, leo + 1, 4, 7000), MPB_ERR_FENCED_LEADER_EPOCH);
    mpb_io_fault = fail_to_open;
    CHECK_EQ(mpb_start_at(&f.log, 0, leo + 1, 5, 7000), MPB_ERR_KAFKA_STORAGE_ERROR);
    mpb_io_fault = NULL;
    CHECK(now()->leo == leo && now()->truncations == truncations && mpb_load_relaxed(&row()->intent.word) == 0);
    mpb_watch_partition(&f.core, 0, 2);
    CHECK_EQ(mpb_start_at(&f.log, 0, leo + 1, 5, 7000), 0);
    CHECK_EQ(mpb_load_relaxed(&row()->watchers), 0);
    nothing_is_left_but(leo + 1, truncations + 2);
    for (int64_t id = 1; id <= 4; id++)
        CHECK_EQ(mpb_producer_find(&f.core, row(), id), 0);
    CHECK_EQ(mpb_start_at(&f.log, 0, leo + 1, 5, 9000), 0); /* it begins there */
    nothing_is_left_but(leo + 1, truncations + 2);
    CHECK_EQ(mpb_start_at(&f.log, 0, 2, 5, 7000), 0);
    nothing_is_left_but(2, truncations + 4);
    fixture_close(&f);
}

int main(void)
{
    batches();
    markers();
    restored();
    begun_anew();
    printf("verified: %lu checks\n", checks_made);
    return 0;
}
