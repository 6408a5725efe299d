/* Flushing: what is synced, what counts as flushed, and what a failed sync means (append rule 18). */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/log_flush.h"
#include "log/log_io.h"
#include "log/marker.h"
#include "shm/metadata.h"
#include "log/roll.h"
#include "log/truncate.h"
#include "log/txn_verify.h"

static const struct batch_spec PLAIN = {.records = 1, .producer_id = -1, .timestamp = 100, .payload = 40, .mark = 'a'};
static int syncs, fail_at;  /* syncs seen; the one to fail, 0: none */
static int fail_with = EIO; /* or the disk was full when the kernel wrote the pages */

static int count_syncs(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call != MPB_IO_SYNC)
        return 0;
    return ++syncs == fail_at ? fail_with : 0;
}

static void append(struct fixture *f, uint32_t ordinal, int times)
{
    for (int i = 0; i < times; i++)
        CHECK_EQ(append_batch(&f->log, &FIX_OPTIONS, ordinal, MPB_NO_REQUEST, 0, &PLAIN).error, 0);
}

static void begin(struct fixture *f)
{
    fixture_open(f);
    fixture_partition(f, 0);
    fixture_partition(f, 1);
    mpb_rows_raise(&f->core, 1, 2);
    syncs = fail_at = 0;
    mpb_io_fault = count_syncs;
}

static void end(struct fixture *f)
{
    mpb_io_fault = NULL;
    fixture_close(f);
}

static uint32_t unflushed(struct fixture *f, bool rolled_only, uint32_t *out)
{
    uint32_t next = 0;
    return mpb_log_unflushed(&f->log, rolled_only, &next, out, 8);
}

static void test_what_is_synced(void)
{
    struct fixture f;
    int64_t flushed;
    uint32_t rows[8];
    begin(&f);
    CHECK_EQ(unflushed(&f, false, rows), 0);
    append(&f, 1, 3);
    CHECK_EQ(unflushed(&f, false, rows), 1);
    CHECK_EQ(rows[0], 1);
    CHECK_EQ(unflushed(&f, true, rows), 0);
    CHECK_EQ(mpb_log_flush(&f.log, 1, &flushed), 0);
    CHECK_EQ(flushed, 3);
    CHECK_EQ(syncs, 2); /* a first flush makes the directory durable, too */
    CHECK_EQ(mpb_log_flush(&f.log, 1, &flushed), 0);
    CHECK_EQ(syncs, 2); /* nothing to do */
    append(&f, 1, 1);
    CHECK_EQ(mpb_log_flush(&f.log, 1, &flushed), 0);
    CHECK_EQ(syncs, 3);
    CHECK_EQ(mpb_roll(&f.log, 1, 2000), 0);
    append(&f, 1, 1);
    CHECK_EQ(unflushed(&f, true, rows), 0); /* the old segment's records are synced, but not its indexes */
    CHECK_EQ(mpb_log_flush(&f.log, 1, &flushed), 0);
    CHECK_EQ(flushed, 5);
    CHECK_EQ(syncs, 3 + 3 + 1 + 1); /* the old one's three files, the new log, the directory */
    append(&f, 1, 1);
    CHECK_EQ(mpb_roll(&f.log, 1, 2000), 0);
    append(&f, 1, 1);
    CHECK_EQ(mpb_roll(&f.log, 1, 2000), 0);
    CHECK_EQ(unflushed(&f, true, rows), 1);
    syncs = 0;
    CHECK_EQ(mpb_log_flush(&f.log, 1, &flushed), 0);
    CHECK_EQ(flushed, 7);
    CHECK_EQ(syncs, 3 + 3 + 1 + 1);
    append(&f, 0, 1); /* in a segment with offset 0 alone */
    CHECK_EQ(mpb_roll(&f.log, 0, 2000), 0);
    append(&f, 0, 1);
    syncs = 0;
    CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
    CHECK_EQ(syncs, 3 + 1 + 1);
    end(&f);
}

static void test_a_failed_sync(void)
{
    struct fixture f;
    int64_t flushed;
    uint32_t rows[8];
    for (int which = 1; which <= 5; which++) { /* three files, the new log, the directory */
        fail_with = which % 2 == 0 ? EIO : ENOSPC;
        begin(&f);
        append(&f, 0, 2);
        CHECK_EQ(mpb_roll(&f.log, 0, 2000), 0);
        append(&f, 0, 1);
        fail_at = which;
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(flushed, 0);
        CHECK_EQ(syncs, which);
        CHECK(!mpb_log_dir_online(&f.core, 0));
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(syncs, which); /* never tried again */
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 1, MPB_NO_REQUEST, 0, &PLAIN).error, MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(unflushed(&f, false, rows), 0);
        end(&f);
    }
}

static void test_truncation_and_recovery(void)
{
    struct fixture f;
    int64_t flushed;
    begin(&f);
    append(&f, 0, 5);
    CHECK_EQ(mpb_log_set_flushed(&f.log, 0, 6), 0); /* beyond the end: not believed */
    CHECK_EQ(mpb_log_set_flushed(&f.log, 0, 5), 0);
    CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
    CHECK_EQ(flushed, 5);
    CHECK_EQ(syncs, 0);
    CHECK_EQ(mpb_truncate(&f.log, 0, 3), 0);
    syncs = 0;
    CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
    CHECK_EQ(flushed, 3);
    append(&f, 0, 1);
    CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
    CHECK_EQ(flushed, 4);
    CHECK_EQ(syncs, 1);
    end(&f);
}

/* The active log file is not there: nothing was synced, whatever the calls say; nor is the rolled one that is needed. One that
 * retention took away before it was synced is missed by nobody. */
static void test_a_file_that_is_gone(void)
{
    enum { ACTIVE, NEEDED, BELOW_LOG_START };
    struct fixture f;
    for (int which = ACTIVE; which <= BELOW_LOG_START; which++) {
        const struct mpb_segment_list *list;
        int64_t flushed;
        begin(&f);
        append(&f, 0, 2);
        if (which != ACTIVE) {
            CHECK_EQ(mpb_roll(&f.log, 0, 2000), 0);
            append(&f, 0, 1);
        }
        if (which == BELOW_LOG_START)
            CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, 2), 0);
        const struct mpb_partition *row = &f.core.partitions[0];
        CHECK_EQ(mpb_segment_list_get(&f.log, row, mpb_partition_in_force(row), &list), 0); /* it is not read again */
        mpb_segment_close_all(&f.log);
        CHECK_EQ(unlinkat(f.log.dir_fd[0], "t-0/00000000000000000000.log", 0), 0);
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), which == BELOW_LOG_START ? 0 : MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(flushed, which == BELOW_LOG_START ? 3 : 0);
        CHECK_EQ(mpb_load_relaxed(&row->flushed_offset), flushed);
        end(&f);
    }
}

static struct fixture *being_deleted;
static struct mpb_log other; /* of another process */

static int delete_meanwhile(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call != MPB_IO_SYNC)
        return 0;
    mpb_io_fault = NULL;
    CHECK_EQ(mpb_partition_set_flags(&other, 0, MPB_PART_DELETED, MPB_PART_EXISTS | MPB_PART_ONLINE), 0);
    CHECK_EQ(renameat(being_deleted->log.dir_fd[0], "t-0", being_deleted->log.dir_fd[0], "t-0.x-delete"), 0);
    return 0;
}

/* A topic is deleted while its log is synced: its directory is gone, and that is no fault of the disk. */
static void test_a_deletion_overtakes_a_flush(void)
{
    struct fixture f;
    int64_t flushed;
    begin(&f);
    append(&f, 0, 2);
    being_deleted = &f;
    fixture_handle(&f, &other, MPB_SLOT_HANDLERS + 1);
    mpb_io_fault = delete_meanwhile;
    CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    CHECK(mpb_io_fault == NULL && mpb_log_dir_online(&f.core, 0));
    const struct fixture_holder holder = fixture_hold(&f, 0); /* the flush has let go */
    fixture_let_go(&holder);
    mpb_log_close(&other);
    end(&f);
}

static int truncate_meanwhile(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call != MPB_IO_SYNC || ++syncs != fail_at)
        return 0;
    mpb_io_fault = NULL;
    CHECK_EQ(mpb_truncate(&other, 0, 1), 0);
    for (int64_t end = 1; end < 4; end++)
        CHECK_EQ(append_batch(&other, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &PLAIN).base_offset, end);
    return 0;
}

/* The log is cut, and others append, at each sync of a flush: what they appended does not count as flushed, and a segment
 * that was taken away before it was synced is no fault of the disk. */
static void test_a_truncation_overtakes_a_flush(int rolls)
{
    struct fixture f;
    int64_t flushed;
    for (int at = 1, overtaken = 1; overtaken; at++) {
        begin(&f);
        append(&f, 0, 2);
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
        for (int i = 0; i < 3; i++) {
            if (i < rolls)
                CHECK_EQ(mpb_roll(&f.log, 0, 2000), 0);
            append(&f, 0, 1);
        }
        mpb_segment_close_all(&f.log); /* a file is opened when its turn comes */
        fixture_handle(&f, &other, MPB_SLOT_HANDLERS + 1);
        syncs = 0;
        fail_at = at;
        mpb_io_fault = truncate_meanwhile;
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
        overtaken = mpb_io_fault == NULL;
        CHECK_EQ(flushed, overtaken ? 1 : 5);
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].flushed_offset), flushed);
        CHECK(mpb_log_dir_online(&f.core, 0));
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0); /* it makes up for what is missing */
        CHECK_EQ(flushed, overtaken ? 4 : 5);
        if (!overtaken)
            CHECK_EQ(syncs, rolls == 0 ? 1 : 3 * rolls + 1 + 1);
        mpb_log_close(&other);
        end(&f);
    }
}

/* A transaction in partition 0 that is aborted, or committed. */
static void transact(struct fixture *f, bool commit)
{
    static int32_t sequence;
    struct batch_spec spec = PLAIN;
    struct mpb_marker marker = {
        .producer_id = ++sequence, .commit = commit, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    struct mpb_append_result result;
    spec.producer_id = sequence;
    spec.transactional = true;
    CHECK_EQ(mpb_txn_verify(&f->log, 0, NULL, spec.producer_id, 0, MPB_NO_GUARD), 0);
    CHECK_EQ(append_batch(&f->log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    mpb_append_marker(&f->log, &FIX_OPTIONS, &marker, &result);
    CHECK_EQ(result.error, 0);
}

/* What was aborted since the last flush stands in an index that is synced with the log, and the directory that names it. */
static void test_aborted_transactions(void)
{
    enum { LOG_ALONE = 1, WITH_ABORTS = 3 };
    struct fixture f;
    int64_t flushed;
    for (int which = 0; which <= WITH_ABORTS; which++) {
        begin(&f);
        append(&f, 0, 1);
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
        transact(&f, true);
        syncs = 0;
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
        CHECK_EQ(syncs, LOG_ALONE);
        transact(&f, false);
        syncs = 0;
        fail_at = which;
        CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), which == 0 ? 0 : MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(syncs, which == 0 ? WITH_ABORTS : which);
        CHECK_EQ(flushed, which == 0 ? 5 : 3);
        if (which == 0) { /* what was synced is not synced again */
            append(&f, 0, 1);
            syncs = 0;
            CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
            CHECK_EQ(syncs, LOG_ALONE);
        }
        end(&f);
    }
}

int main(void)
{
    test_what_is_synced();
    test_a_failed_sync();
    test_truncation_and_recovery();
    test_a_file_that_is_gone();
    test_a_deletion_overtakes_a_flush();
    for (int rolls = 0; rolls <= 3; rolls++)
        test_a_truncation_overtakes_a_flush(rolls);
    test_aborted_transactions();
    printf("log_flush: %lu checks\n", checks_made);
    return 0;
}
