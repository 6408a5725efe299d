/* Transactions and producers behind a truncation: cut before any of its batches and markers, a partition knows of each
 * producer what it knew when its log had come so far for the first time. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/header_scan.h"
#include "log/log_io.h"
#include "log/transaction.h"

enum { PRODUCERS = 5, STEPS = 40 };

/* What a producer does: P a batch outside transactions, B one in its transaction, C commits, A aborts; '|' rolls.
 * The fourth has only plain batches, more than its row keeps, the fifth comes late. */
static const char *const SCRIPTS[] = {
    "P4 B1 P4 B2 C1 P4 B3 B1 P4 A2 P4 | B2 P4 A1 P4 P4 B1 C3 P4 | A2 P4 B5 C1 P4 B2 A5 P4 B5",
    "P1 B2 P1 B3 A2 | B2 P1 C3 P1 | C2 B3 P1",  /* the last batch is none of a transaction */
    "P1 P2 P1 P2 C2 P1 | P2 P1 P1 P1 P1 P1 P1", /* a marker, and no transaction at all */
};
static const char *script;

struct known {
    int64_t first; /* of its open transaction, -1: none */
    int16_t marker;
    int32_t coordinator;
    uint32_t kept;
    struct mpb_producer_batch newest;
};

static struct fixture f;
static struct mpb_partition *row;
static int32_t sequence[PRODUCERS + 1];
static struct mpb_partition_copy was[STEPS];
static struct known knew[STEPS][PRODUCERS + 1];
static char kind[STEPS];
static int steps;

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row); }

static struct known known_of(int64_t producer_id)
{
    struct known known = {.first = -1, .marker = -1, .coordinator = -1};
    struct mpb_producer_batch kept[MPB_PRODUCER_KEPT];
    uint32_t at = mpb_producer_find(&f.core, row, producer_id);
    if (at == 0)
        return known;
    const struct mpb_producer *producer = &f.core.producers[at - 1];
    known.first = mpb_txn_first(producer);
    known.marker = mpb_txn_epochs_of(producer).marker;
    known.coordinator = mpb_txn_epochs_of(producer).coordinator;
    known.kept = mpb_producer_kept(producer, kept);
    if (known.kept > 0)
        known.newest = *mpb_producer_newest(producer);
    return known;
}

static int16_t epoch_of(int64_t producer_id) { return (int16_t)(producer_id + 3); }

static void put(int64_t producer_id, bool transactional)
{
    struct batch_spec spec = {.records = (int32_t)producer_id,
                              .producer_id = producer_id,
                              .epoch = epoch_of(producer_id),
                              .sequence = sequence[producer_id],
                              .timestamp = 1000 + steps,
                              .payload = 40,
                              .mark = (uint8_t)steps,
                              .transactional = transactional};
    sequence[producer_id] += spec.records;
    if (transactional)
        CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, producer_id, spec.epoch, MPB_NO_GUARD), 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
}

static void end_transaction(int64_t producer_id, bool commit)
{
    struct mpb_append_result result;
    struct mpb_marker marker = {.producer_id = producer_id,
                                .producer_epoch = epoch_of(producer_id),
                                .coordinator_epoch = 20 + steps,
                                .commit = commit,
                                .now_ms = 5000,
                                .leader_epoch = -1,
                                .entry = MPB_NO_REQUEST};
    mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
    CHECK_EQ(result.error, 0);
}

static void note_what_is_known(char step)
{
    was[steps] = *now();
    for (int producer = 1; producer <= PRODUCERS; producer++)
        knew[steps][producer] = known_of(producer);
    kind[steps++] = step;
}

static void begin(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    row = &f.core.partitions[0];
    memset(sequence, 0, sizeof sequence);
    steps = 0;
    for (const char *at = script; *at != '\0'; at++) {
        if (*at == '|')
            CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
        if (strchr("PBCA", *at) == NULL)
            continue;
        int64_t producer_id = at[1] - '0';
        note_what_is_known(*at);
        if (*at == 'P' || *at == 'B')
            put(producer_id, *at == 'B');
        else
            end_transaction(producer_id, *at == 'C');
        at++;
    }
    note_what_is_known('.');
}

static void check_producer(int64_t producer_id, const struct known *want)
{
    struct known found = known_of(producer_id);
    CHECK_EQ(found.first, want->first);
    CHECK_EQ(found.marker, want->marker);
    CHECK_EQ(found.coordinator, want->coordinator);
    CHECK_EQ(found.kept > 0, want->kept > 0);
    CHECK(found.kept <= want->kept);
    if (found.kept == 0)
        return;
    CHECK(found.newest.base_offset == want->newest.base_offset && found.newest.epoch == want->newest.epoch);
    CHECK_EQ(found.newest.first_sequence, want->newest.first_sequence);
    CHECK_EQ(found.newest.last_sequence, want->newest.last_sequence);
    CHECK_EQ(found.newest.last_offset_delta, want->newest.last_offset_delta);
    CHECK_EQ(found.newest.timestamp_ms, want->newest.timestamp_ms);
}

static void check_known(int at)
{
    for (int producer = 1; producer <= PRODUCERS; producer++)
        check_producer(producer, &knew[at][producer]);
    const struct mpb_partition_copy *want = &was[at], *end = &was[steps - 1];
    CHECK(now()->leo == want->leo && now()->hw == want->leo);
    CHECK_EQ(now()->lso, want->lso);
    CHECK_EQ(now()->open_transactions, want->open_transactions);
    CHECK_EQ(now()->txn_index_bytes, want->txn_index_bytes);
    CHECK_EQ(now()->aborted_end, end->aborted_end < want->leo ? end->aborted_end : want->leo);
    for (uint32_t i = 0; i < FIX_PRODUCERS; i++)
        CHECK_EQ(mpb_load_relaxed(&f.core.producers[i].rebuild), 0);
}

/* The bytes of the index stand in the file, and none behind them. */
static void check_index(void)
{
    char path[64];
    struct stat status = {0};
    snprintf(path, sizeof path, "t-0/%020lld.txnindex", (long long)now()->active_base);
    if (fstatat(f.log.dir_fd[0], path, &status, 0) != 0)
        CHECK_EQ(errno, ENOENT);
    CHECK_EQ(status.st_size, now()->txn_index_bytes);
}

/* A transaction that was cut open can be ended, and one that never began is not there. */
static void check_goes_on(int at)
{
    steps = at; /* numbers of what comes */
    for (int producer = 1; producer <= 3; producer++)
        end_transaction(producer, true);
    end_transaction(5, false);
    CHECK(now()->open_transactions == 0 && now()->lso == now()->leo);
}

static void test_cut_before(int at)
{
    begin();
    int64_t offset = was[at].leo;
    CHECK_EQ(mpb_truncate(&f.log, 0, offset), 0);
    check_known(at);
    check_index();
    check_goes_on(at);
    fixture_close(&f);
}

static int calls, fail_at;

static int fail_one(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    return calls++ == fail_at ? ENOMEM : 0;
}

/* One call fails, whichever it is: that is told, what is left of the log is all that counts, and the next one who asks does
 * the rest. */
static void test_failed_calls(int at)
{
    bool failed = true;
    for (int good = 0; failed; good++) {
        begin();
        int64_t offset = was[at].leo, end = now()->leo;
        mpb_segment_close_partition(&f.log, 0);
        calls = 0;
        fail_at = good;
        mpb_io_fault = fail_one;
        int error = mpb_truncate(&f.log, 0, offset);
        mpb_io_fault = NULL;
        failed = calls > good;
        CHECK_EQ(error, failed ? MPB_ERR_KAFKA_STORAGE_ERROR : 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), failed ? ENOMEM : 0);
        CHECK(now()->leo == end || now()->leo == offset);
        CHECK_EQ(mpb_load_relaxed(&row->intent.word) != 0, failed && now()->leo == offset);
        CHECK(mpb_log_dir_online(&f.core, 0));
        CHECK_EQ(mpb_truncate(&f.log, 0, offset), 0);
        CHECK_EQ(mpb_load_relaxed(&row->intent.word), 0);
        check_known(at);
        check_index();
        check_goes_on(at);
        no_descriptor_lost(&f);
        fixture_close(&f);
    }
}

/* A marker is read whole, wherever the headers' buffer ends: before it, in its header, behind that, within its record. */
static void test_a_marker_at_the_buffers_end(void)
{
    const size_t buffer = sizeof((struct mpb_header_scan *)0)->bytes;
    for (size_t first = buffer - MPB_MARKER_BYTES - 1; first <= buffer + 1; first++) {
        struct batch_spec spec = {.records = 2,
                                  .producer_id = 3,
                                  .epoch = epoch_of(3),
                                  .timestamp = 1000,
                                  .payload = (uint32_t)(first - MPB_BATCH_HEADER_BYTES),
                                  .mark = 9,
                                  .transactional = true};
        const struct batch_spec plain = numbered(-1, 0, 7);
        fixture_open(&f);
        fixture_partition(&f, 0);
        row = &f.core.partitions[0];
        steps = 0;
        CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 3, spec.epoch, MPB_NO_GUARD), 0);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).base_offset, 0);
        end_transaction(3, false);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &plain).base_offset, 3);
        const struct known before = known_of(3);
        CHECK(before.first == -1 && before.coordinator == 20);
        CHECK_EQ(mpb_truncate(&f.log, 0, 3), 0);
        check_producer(3, &before);
        CHECK(now()->open_transactions == 0 && now()->lso == 3 && now()->aborted_end == 3);
        CHECK_EQ(mpb_truncate(&f.log, 0, 2), 0); /* the marker is cut, too */
        CHECK(now()->open_transactions == 1 && now()->lso == 0 && known_of(3).marker == -1);
        CHECK(now()->txn_index_bytes == 0 && now()->aborted_end == 2);
        fixture_close(&f);
    }
}

/* Producer 0 and its epoch 0 are ones like any other, and so is who has the table's first row; batches of nobody stand
 * between. */
static void test_of_the_first(bool row_of_table)
{
    const struct batch_spec plain = numbered(-1, 0, 7);
    struct mpb_marker marker = {
        .coordinator_epoch = 4, .commit = true, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    struct mpb_append_result result;
    int64_t id = 0;
    fixture_open(&f);
    fixture_partition(&f, 0);
    row = &f.core.partitions[0];
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &plain).base_offset, 0);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, id, 0, MPB_NO_GUARD), 0);
    while (row_of_table && mpb_producer_find(&f.core, row, id) != 1)
        CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, ++id, 0, MPB_NO_GUARD), 0);
    const struct batch_spec begun = in_transaction(id, 0, 8);
    marker.producer_id = id;
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &begun).base_offset, 2);
    mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
    CHECK_EQ(result.base_offset, 4);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &plain).base_offset, 5);
    CHECK_EQ(mpb_truncate(&f.log, 0, 5), 0);
    CHECK(known_of(id).first == -1 && known_of(id).marker == 0 && known_of(id).coordinator == 4);
    CHECK(now()->open_transactions == 0 && now()->lso == 5);
    CHECK_EQ(mpb_truncate(&f.log, 0, 4), 0);
    CHECK(known_of(id).first == 2 && known_of(id).marker == -1 && now()->open_transactions == 1 && now()->lso == 2);
    CHECK_EQ(mpb_truncate(&f.log, 0, 2), 0);
    CHECK(known_of(id).first == -1 && now()->open_transactions == 0 && now()->lso == 2);
    fixture_close(&f);
}

int main(void)
{
    test_of_the_first(false);
    test_of_the_first(true);
    for (size_t i = 0; i < sizeof SCRIPTS / sizeof *SCRIPTS; i++) {
        script = SCRIPTS[i];
        begin();
        int all = steps;
        if (i == 0)
            CHECK(was[all - 1].segment_count == 3 && was[all - 1].open_transactions == 2);
        fixture_close(&f);
        for (int at = 0; at < all - 1; at++)
            test_cut_before(at);
        test_failed_calls(2);
        test_failed_calls(all - 4);
        for (int at = 1; at < all - 1; at++) /* a segment that is left empty */
            if (was[at].active_base != was[at - 1].active_base)
                test_failed_calls(at);
    }
    test_a_marker_at_the_buffers_end();
    printf("truncate transactions: %lu checks\n", checks_made);
    return 0;
}
