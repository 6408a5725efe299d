/* What a repair does with each kind of intent that its holder left, before the commit and behind it: which bytes and which files
 * go, that a call which fails leaves the rest and the intent to the next one, and that a deleted partition's files are let be. */
#include "tests/log/append_scenarios.h"

#include "log/ended.h"
#include "tests/log/failing_calls.h"

enum { LEFT = 7, FILES = 4, OTHER_BASE = 500 };

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }
static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row()); }

static void path_of(char path[64], int64_t base, int file)
{
    static const char *const SUFFIX[FILES] = {"log", "index", "timeindex", "txnindex"};
    snprintf(path, 64, "t-0/%020lld.%s", (long long)base, SUFFIX[file]);
}

static int64_t length_of(int64_t base, int file)
{
    char path[64];
    struct stat status;
    path_of(path, base, file);
    return fstatat(f.log.dir_fd[0], path, &status, 0) == 0 ? status.st_size : -1;
}

static uint64_t committed(int file)
{
    return (uint64_t[FILES]){now()->position, now()->index_bytes, now()->time_index_bytes,
                             now()->txn_index_bytes}[file];
}

/* A leader with transactions, behind whose files of the active segment a dead process left some bytes, and another segment. */
static void begin(bool replicated)
{
    fixture_open(&f);
    if (replicated)
        prepare_ended_above_high_watermark(&f);
    else
        prepare_transactions(&f);
    for (int file = 0; file < FILES; file++) {
        char path[64];
        path_of(path, now()->active_base, file);
        int fd = openat(f.log.dir_fd[0], path, O_RDWR | O_CREAT, 0644);
        CHECK(fd >= 0 && committed(file) > 0 && pwrite(fd, "garbage", LEFT, (off_t)committed(file)) == LEFT);
        close(fd);
        path_of(path, OTHER_BASE, file);
        fd = openat(f.log.dir_fd[0], path, O_RDWR | O_CREAT, 0644);
        CHECK(fd >= 0);
        close(fd);
    }
}

/* As a dead holder left it; the lock is ours. */
static void leave(enum mpb_intent_kind kind, bool is_committed, int64_t base, enum mpb_batch_kind batch)
{
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0);
    row()->intent = (struct mpb_intent){.entry = MPB_NO_REQUEST, .base_offset = base, .batch_kind = (uint16_t)batch};
    row()->intent.target = mpb_load_relaxed(&row()->selector) + !is_committed;
    mpb_intent_set(&f.log, row(), kind);
}

/* Bit n: of file n the bytes behind its committed length are gone, or the whole of the other segment. */
static uint32_t gone(void)
{
    uint32_t found = 0;
    for (int file = 0; file < FILES; file++) {
        const int64_t rest = length_of(now()->active_base, file) - (int64_t)committed(file),
                      other = length_of(OTHER_BASE, file);
        CHECK((rest == 0 || rest == LEFT) && (other == -1 || other == 0));
        found |= (rest == 0 ? 1u : 0) << file | (other < 0 ? 1u : 0) << (8 + file);
    }
    return found;
}

enum { CUT_PLAIN = 0x7, CUT_ALL = 0xf, CUT_TIMES = 0x4, UNLINKED = 0xf00 };

static const struct {
    enum mpb_intent_kind kind;
    bool is_committed;
    bool of_active; /* the new segment has the base of the active one */
    enum mpb_batch_kind batch;
    uint32_t gone;
} CASES[] = {
    {MPB_INTENT_APPEND, false, false, MPB_BATCH_PLAIN, CUT_PLAIN},
    {MPB_INTENT_APPEND, false, false, MPB_BATCH_IN_TRANSACTION, CUT_PLAIN},
    {MPB_INTENT_APPEND, false, false, MPB_BATCH_COMMIT, CUT_PLAIN},
    {MPB_INTENT_APPEND, false, false, MPB_BATCH_ABORT, CUT_ALL},
    {MPB_INTENT_APPEND, true, false, MPB_BATCH_PLAIN, 0},
    {MPB_INTENT_ROLL, false, false, MPB_BATCH_PLAIN, CUT_TIMES | UNLINKED},
    {MPB_INTENT_ROLL, false, true, MPB_BATCH_PLAIN, CUT_TIMES},
    {MPB_INTENT_ROLL, true, false, MPB_BATCH_PLAIN, 0},
    {MPB_INTENT_TRUNCATE, false, false, MPB_BATCH_PLAIN, 0},
    {MPB_INTENT_START, false, false, MPB_BATCH_PLAIN, UNLINKED},
    {MPB_INTENT_SWAP, false, false, MPB_BATCH_PLAIN, 0},
    {MPB_INTENT_MOVE, false, false, MPB_BATCH_PLAIN, 0},
    {MPB_INTENT_MOVE + 1, false, false, MPB_BATCH_PLAIN, 0}, /* no kind that there is */
};

static void every_kind(void)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int deleted = 0; deleted < 2; deleted++) {
            begin(false);
            const struct mpb_partition_copy before = *now();
            const uint32_t flags = mpb_load_relaxed(&row()->flags) | (deleted ? MPB_PART_DELETED : 0);
            leave(CASES[i].kind, CASES[i].is_committed, CASES[i].of_active ? now()->active_base : OTHER_BASE,
                  CASES[i].batch);
            mpb_store_relaxed(&row()->flags, flags);
            CHECK_EQ(mpb_repair(&f.log, row()), 0);
            mpb_store_relaxed(&row()->flags, MPB_PART_EXISTS | MPB_PART_ONLINE);
            mpb_partition_unlock(&f.log, 0);
            CHECK_EQ(gone(), deleted ? 0 : CASES[i].gone);
            CHECK_EQ(mpb_load_relaxed(&row()->intent.word), 0);
            CHECK_EQ(counted(&f, MPB_C_LOG_REPAIRS), 1);
            CHECK(memcmp(&before, now(), sizeof before) == 0);
            fixture_close(&f);
        }
}

/* Of the cuts of an abort that came to nothing, the first few are made; the next repair makes the rest. */
static void a_cut_that_fails(void)
{
    for (int good = 0; good < FILES; good++) {
        begin(false);
        leave(MPB_INTENT_APPEND, false, 40, MPB_BATCH_ABORT);
        let_fail(MPB_IO_TRUNCATE, good, ENOMEM, 1);
        CHECK_EQ(mpb_repair(&f.log, row()), MPB_ERR_KAFKA_STORAGE_ERROR);
        mpb_io_fault = NULL;
        CHECK_EQ(failing_calls.failed, 1);
        CHECK_EQ(gone(), (1u << good) - 1);
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), ENOMEM);
        CHECK(mpb_load_relaxed(&row()->intent.word) != 0 && counted(&f, MPB_C_LOG_REPAIRS) == 0);
        mpb_partition_unlock(&f.log, 0);
        CHECK_EQ(mpb_partition_lock(&f.log, 0), 0); /* which repairs */
        CHECK_EQ(gone(), CUT_ALL);
        CHECK(mpb_load_relaxed(&row()->intent.word) == 0 && counted(&f, MPB_C_LOG_REPAIRS) == 1);
        mpb_partition_unlock(&f.log, 0);
        fixture_close(&f);
    }
}

/* A segment that cannot be removed stays, and nothing behind it is done. */
static void an_unlink_that_fails(void)
{
    static const enum mpb_intent_kind KINDS[] = {MPB_INTENT_ROLL, MPB_INTENT_START};
    for (int i = 0; i < 2; i++) {
        begin(false);
        leave(KINDS[i], false, OTHER_BASE, MPB_BATCH_PLAIN);
        let_fail(MPB_IO_UNLINK, 0, ENOMEM, 1);
        CHECK_EQ(mpb_repair(&f.log, row()), MPB_ERR_KAFKA_STORAGE_ERROR);
        mpb_io_fault = NULL;
        CHECK(failing_calls.failed == 1 && (gone() & CUT_ALL) == 0 && (gone() & UNLINKED) != UNLINKED);
        CHECK_EQ(mpb_repair(&f.log, row()), 0);
        CHECK_EQ(gone(), UNLINKED | (i == 0 ? CUT_TIMES : 0));
        mpb_partition_unlock(&f.log, 0);
        fixture_close(&f);
    }
}

/* A marker that was noted as ended, and then not committed, holds nothing back; one that was committed does. */
static void a_marker_that_is_taken_back(void)
{
    begin(true);
    struct mpb_replicas *replicas = &f.core.replicas[0];
    const int64_t hw = now()->hw, leo = now()->leo, held = mpb_ended_least(replicas, hw);
    CHECK(held < leo && mpb_ended_least(replicas, leo) == INT64_MAX);
    mpb_ended_note(replicas, hw, leo, leo + 2);
    CHECK_EQ(mpb_ended_least(replicas, leo), leo);
    leave(MPB_INTENT_APPEND, false, leo, MPB_BATCH_COMMIT);
    CHECK_EQ(mpb_repair(&f.log, row()), 0);
    CHECK(mpb_ended_least(replicas, leo) == INT64_MAX && mpb_ended_least(replicas, hw) == held);
    mpb_partition_unlock(&f.log, 0);
    fixture_close(&f);
}

int main(void)
{
    every_kind();
    a_cut_that_fails();
    an_unlink_that_fails();
    a_marker_that_is_taken_back();
    printf("repair: %lu checks\n", checks_made);
    return 0;
}
