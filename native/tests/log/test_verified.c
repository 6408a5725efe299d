/* Whose batch of a transaction, and whose marker, a partition takes: by what it knows of the producer; a follower's log that
 * begins anew, of which nothing is left; and the epochs that a log's batches have. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/epoch_scan.h"
#include "log/leader_epochs.h"
#include "log/log_io.h"
#include "log/producer.h"
#include "log/transaction.h"
#include "shm/doorbell.h"
#include "tests/log/failing_calls.h"

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
    let_fail(MPB_IO_OPEN, 0, ENOSPC, 1);
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

/* Of several segments one is left; of one that could not be made, nothing. */
static void begun_anew_behind_segments(void)
{
    const struct mpb_segment_list *list;
    fixture_open(&f);
    prepare_segments_of_follower(&f);
    const int64_t leo = now()->leo;
    const uint32_t segments = now()->segment_count, truncations = now()->truncations;
    CHECK(segments > 2);
    for (int opens = 0; opens < MPB_SEGMENT_FILES; opens++) {
        CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
        CHECK_EQ(list->count, segments);
        CHECK_EQ(mpb_segment_list_get(&f.log, row(), now(), &list), 0); /* so that the directory need not be opened */
        let_fail(MPB_IO_OPEN, opens, ENOSPC, 1);
        CHECK_EQ(mpb_start_at(&f.log, 0, leo + 5, 5, 7000), MPB_ERR_KAFKA_STORAGE_ERROR);
        mpb_io_fault = NULL;
        CHECK(now()->leo == leo && now()->segment_count == segments && now()->truncations == truncations);
    }
    CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
    CHECK(list->count == segments && list->bases[segments - 1] < leo);
    CHECK_EQ(mpb_start_at(&f.log, 0, leo + 5, 5, 7000), 0);
    nothing_is_left_but(leo + 5, truncations + 2);
    fixture_close(&f);
}

/* A transaction that begins at the front of a log is one like any other. */
static void at_the_front(void)
{
    struct batch_spec spec = in_transaction(3, 0, 20);
    struct mpb_marker marker = {
        .producer_id = 3, .commit = true, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    struct mpb_append_result result;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 3, 0, MPB_NO_GUARD), 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).base_offset, 0);
    CHECK(now()->open_transactions == 1 && now()->lso == 0 && now()->hw == 2);
    CHECK_EQ(mpb_load_relaxed(&f.core.producers[mpb_producer_find(&f.core, row(), 3) - 1].txn_started_ms), 5000);
    mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
    CHECK(result.error == 0 && now()->open_transactions == 0 && now()->lso == 3 && now()->hw == 3);
    fixture_close(&f);
}

/* A truncation within a transaction that began at the front leaves it as it began. */
static void cut_at_the_front(void)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0);
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    for (int32_t i = 0; i < 3; i++) {
        struct batch_spec spec = in_transaction(3, 2 * i, 20);
        CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 3, 0, MPB_NO_GUARD), 0);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).base_offset, 2 * i);
    }
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK_EQ(mpb_truncate_follower(&f.log, 0, 4, 5, 7000), 0);
    CHECK(now()->leo == 4 && now()->open_transactions == 1 && now()->lso == 0);
    CHECK_EQ(mpb_txn_first(&f.core.producers[mpb_producer_find(&f.core, row(), 3) - 1]), 0);
    fixture_close(&f);
}

/* Whoever asks from the last of three segments on is answered without the first one, of which nothing is left. */
static void segments_before_are_not_needed(void)
{
    struct mpb_epoch_start found[8];
    uint32_t count;
    mpb_segment_close_all(&f.log);
    CHECK_EQ(unlinkat(f.log.dir_fd[0], "t-0/00000000000000000000.log", 0), 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    CHECK_EQ(mpb_epoch_scan(&f.log, 0, now()->active_base, found, 8, &count), 0);
    CHECK(count > 0 && found[0].offset == now()->active_base && found[0].epoch == now()->leader_epoch);
    CHECK_EQ(mpb_epoch_scan(&f.log, 0, now()->active_base - 1, found, 8, &count), 0);
    CHECK(count > 0 && found[0].offset == now()->active_base - 2);
    mpb_partition_unlock(&f.log, 0);
    CHECK(mpb_log_dir_online(&f.core, 0));
}

/* A segment that was just begun says nothing, which is no error. */
static void an_empty_segment_has_none(void)
{
    struct mpb_epoch_start found[8];
    uint32_t count = 7;
    CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
    CHECK(now()->active_base == now()->leo && now()->position == 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    CHECK_EQ(mpb_epoch_scan(&f.log, 0, now()->leo, found, 8, &count), 0);
    CHECK_EQ(count, 0);
    mpb_partition_unlock(&f.log, 0);
    CHECK(mpb_log_dir_online(&f.core, 0) && counted(&f, MPB_C_LOG_IO_ERRORS) == 0);
}

static void thirty_batches(int64_t base[30], int32_t epoch[30])
{
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    for (int i = 0; i < 30; i++) {
        struct batch_spec spec = numbered(-1, 0, (uint8_t)i);
        if (i % 6 == 4) {
            const struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 3 + i, 1);
            CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
        }
        if (i % 10 == 9)
            CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
        base[i] = append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).base_offset;
        epoch[i] = now()->leader_epoch;
    }
    int fd = mpb_segment_fd(&f.log, row(), now(), 0, MPB_FILE_LOG);
    epoch[0] = -1; /* of a leader that knew of no epochs; no checksum covers it */
    CHECK_EQ(pwrite(fd, &epoch[0], 4, MPB_BATCH_LEADER_EPOCH), 4);
}

/* The epochs of a log's batches, from the one that holds an offset on: the first of each, as many as there is room for. */
static void epochs_are_scanned(void)
{
    struct mpb_epoch_start found[8], want[8];
    int64_t base[30];
    int32_t epoch[30];
    uint32_t count;
    thirty_batches(base, epoch);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    for (int64_t offset = 0; offset < now()->leo; offset++) {
        uint32_t wanted = 0;
        for (int i = (int)offset / 2; i < 30; i++)
            if (epoch[i] > (wanted == 0 ? -1 : want[wanted - 1].epoch))
                want[wanted++] = (struct mpb_epoch_start){.offset = base[i], .epoch = epoch[i]};
        for (uint32_t room = 0; room <= 8; room++) {
            memset(found, 0x5a, sizeof found);
            CHECK_EQ(mpb_epoch_scan(&f.log, 0, offset, found, room, &count), 0);
            CHECK_EQ(count, wanted);
            for (uint32_t i = 0; i < wanted && i < room; i++)
                CHECK(found[i].epoch == want[i].epoch && found[i].offset == want[i].offset);
            CHECK(room == 8 || found[room].epoch == 0x5a5a5a5a);
        }
    }
    CHECK(mpb_epoch_scan(&f.log, 0, now()->leo, found, 8, &count) == 0 && count == 0);
    mpb_partition_unlock(&f.log, 0);
    segments_before_are_not_needed();
    an_empty_segment_has_none();
    fixture_close(&f);
}

/* Behind an empty segment it is looked on; of what cannot be read nothing is known. */
static void epochs_beyond_what_is_empty_or_cannot_be_read(void)
{
    struct mpb_epoch_start found[8];
    int64_t base[30];
    int32_t epoch[30];
    uint32_t count;
    thirty_batches(base, epoch);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    uint32_t of_all;
    CHECK_EQ(mpb_epoch_scan(&f.log, 0, 2, found, 8, &of_all), 0);
    mpb_segment_close_all(&f.log);
    let_fail(MPB_IO_OPEN, 0, ENOMEM, 1);
    CHECK_EQ(mpb_epoch_scan(&f.log, 0, now()->active_base, found, 8, &count), MPB_ERR_KAFKA_STORAGE_ERROR);
    mpb_io_fault = NULL;
    CHECK(failing_calls.failed == 1 && mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno) == ENOMEM);
    mpb_store_relaxed(&f.core.processes[f.log.slot].log_errno, 0);
    mpb_partition_unlock(&f.log, 0);
    CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0); /* a segment without a batch says nothing, and what follows is looked at */
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    CHECK(mpb_epoch_scan(&f.log, 0, 2, found, 8, &count) == 0 && count == of_all && count > 1);
    mpb_segment_close_all(&f.log);
    let_fail(MPB_IO_OPEN, 0, ENOMEM, 1); /* nothing is known of what cannot be read */
    CHECK_EQ(mpb_epoch_scan(&f.log, 0, now()->active_base, found, 8, &count), MPB_ERR_KAFKA_STORAGE_ERROR);
    mpb_io_fault = NULL;
    CHECK(failing_calls.failed == 1 && mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno) == ENOMEM);
    CHECK_EQ(ftruncate(mpb_segment_fd(&f.log, row(), now(), 0, MPB_FILE_LOG), 0), 0);
    CHECK(mpb_epoch_scan(&f.log, 0, 0, found, 8, &count) == 0 && count > 1 && found[0].offset == base[9]);
    mpb_partition_unlock(&f.log, 0);
    fixture_close(&f);
}

/* Who asks a coordinator leaves a guard, of which the first one holds: an answer to it counts, one to another does not. What
 * is verified already needs none, and another epoch another. */
static void guards(void)
{
    int16_t in_force = 0;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK(mpb_txn_guard(&f.log, 0, NULL, ID, 3, -10, &in_force) == 0 && in_force == -10);
    CHECK(mpb_txn_guard(&f.log, 0, NULL, ID, 3, -11, &in_force) == 0 && in_force == -10);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, ID, 3, -11), MPB_ERR_INVALID_TXN_STATE);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, ID, 3, -10), 0);
    CHECK_EQ(mpb_txn_epochs_of(&f.core.producers[mpb_producer_find(&f.core, row(), ID) - 1]).verified, 3);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, ID, 3, -11), 0); /* it is verified */
    CHECK(mpb_txn_guard(&f.log, 0, NULL, ID, 3, -12, &in_force) == 0 && in_force == 3);
    CHECK(mpb_txn_guard(&f.log, 0, NULL, ID, 4, -12, &in_force) == 0 && in_force == -12);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, ID, 4, -12), 0);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, ID, 5, MPB_NO_GUARD), 0); /* whatever was asked */
    for (int64_t id = 100; id < 99 + FIX_PRODUCERS; id++)
        CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, id, 0, MPB_NO_GUARD), 0);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 99, 0, MPB_NO_GUARD), MPB_ERR_THROTTLING_QUOTA_EXCEEDED);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_FULL), 1);
    fixture_close(&f);
}

int main(void)
{
    guards();
    begun_anew_behind_segments();
    at_the_front();
    cut_at_the_front();
    epochs_are_scanned();
    epochs_beyond_what_is_empty_or_cannot_be_read();
    batches();
    markers();
    restored();
    begun_anew();
    printf("verified: %lu checks\n", checks_made);
    return 0;
}
