/* A move to another log directory: who may ask for it and call it off, what is not moved since the log is another one by
 * now, what is copied at its end, and what is in the way. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/log_io.h"
#include "shm/doorbell.h"
#include "shm/metadata.h"

static struct fixture f;
static struct mpb_partition *row;
static uint64_t synced;

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row); }
static struct mpb_partition_copy *mutable_now(void) { return &row->copy[mpb_load_relaxed(&row->selector) & 1]; }

static int count_syncs(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    synced += call == MPB_IO_SYNC;
    return 0;
}

static void begin(void)
{
    fixture_open(&f);
    prepare_move(&f);
    row = &f.core.partitions[0];
}

static uint64_t moves(void) { return mpb_load_relaxed(&f.core.header->moves); }

/* ------------------------------------------------------------------ asking */
static void test_asks(void)
{
    static const struct {
        uint32_t to;
        int error;
        uint32_t move_to, number;
        uint64_t counted;
    } ASKS[] = {
        {2, MPB_ERR_KAFKA_STORAGE_ERROR, 0, 0, 0},
        {0, 0, 0, 0, 0},
        {1, 0, 2, 1, 1},
        {1, 0, 2, 1, 1},
        {0, 0, 0, 2, 2},
        {0, 0, 0, 2, 2},
        {1, 0, 2, 3, 3},
    };
    static const uint8_t WRONG[16] = {8};
    fixture_open(&f);
    fixture_partition(&f, 0);
    row = &f.core.partitions[0];
    for (size_t i = 0; i < sizeof ASKS / sizeof ASKS[0]; i++) {
        uint32_t before = mpb_load_relaxed(&row->move_number);
        mpb_store_relaxed(&row->future_end, 7);
        mpb_store_relaxed(&row->future_bytes, 8);
        CHECK_EQ(mpb_move_ask(&f.log, 0, NULL, ASKS[i].to), ASKS[i].error);
        CHECK_EQ(mpb_load_relaxed(&row->move_to), ASKS[i].move_to);
        CHECK_EQ(mpb_load_relaxed(&row->move_number), ASKS[i].number);
        CHECK_EQ(moves(), ASKS[i].counted);
        CHECK_EQ(mpb_load_relaxed(&row->future_end), before == ASKS[i].number ? 7 : 0);
        CHECK_EQ(mpb_load_relaxed(&row->future_bytes), before == ASKS[i].number ? 8 : 0);
    }
    CHECK_EQ(mpb_move_ask(&f.log, 0, WRONG, 0), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    CHECK_EQ(mpb_move_give_up(&f.log, 0, 2), 0); /* of an older ask */
    CHECK(mpb_load_relaxed(&row->move_to) == 2 && moves() == 3);
    CHECK_EQ(mpb_move_give_up(&f.log, 0, 3), 0);
    CHECK(mpb_load_relaxed(&row->move_to) == 0 && moves() == 4);
    CHECK_EQ(mpb_move_give_up(&f.log, 0, 3), 0); /* there is none */
    CHECK(mpb_load_relaxed(&row->move_number) == 3 && moves() == 4);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0); /* it is free */
    mpb_partition_unlock(&f.log, 0);
    CHECK_EQ(mpb_move_give_up(&f.log, 5, 0), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION); /* a row that nobody used */
    mpb_log_dir_fail(&f.core, 1);
    CHECK_EQ(mpb_move_ask(&f.log, 0, NULL, 1), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(mpb_load_relaxed(&row->move_to), 0);
    fixture_close(&f);
}

static void test_which_rows_move(void)
{
    uint32_t out[4], next = 0;
    fixture_open(&f);
    mpb_rows_raise(&f.core, 0, 6);
    for (uint32_t p = 1; p < FIX_PARTITIONS; p += 2)
        mpb_store_relaxed(&f.core.partitions[p].move_to, 1);
    CHECK_EQ(mpb_moves(&f.log, &next, out, 2), 2);
    CHECK(out[0] == 1 && out[1] == 3 && next == 4);
    CHECK_EQ(mpb_moves(&f.log, &next, out, 2), 1);
    CHECK(out[0] == 5 && next == 6);
    CHECK_EQ(mpb_moves(&f.log, &next, out, 2), 0);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ the end */
static void nothing_moved(const struct mpb_move *move, int error)
{
    uint64_t selector = mpb_load_relaxed(&row->selector);
    uint32_t wanted = mpb_load_relaxed(&row->move_to);
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, move), error);
    CHECK(mpb_load_relaxed(&row->selector) == selector && mpb_load_relaxed(&row->log_dir) == 0);
    CHECK(mpb_load_relaxed(&row->move_to) == wanted && mpb_load_relaxed(&row->intent.word) == 0);
}

/* Each thing that says which log was copied, one off. */
static void test_another_log_by_now(void)
{
    begin();
    for (int field = 0; field < 9; field++) {
        struct mpb_move move = the_move;
        move.number += field == 0;
        move.truncations += field == 1 ? 2 : 0;
        move.segment_count += field == 2;
        move.active_base += field == 3;
        move.log_start += field == 4;
        if (field >= 5) /* longer than the log's own */
            move.lengths[field - 5] = (uint64_t[]){now()->position, now()->index_bytes, now()->time_index_bytes,
                                                   now()->txn_index_bytes}[field - 5] +
                                      1;
        nothing_moved(&move, MPB_MOVE_CHANGED);
    }
    mpb_store_relaxed(&row->move_to, 0);
    nothing_moved(&the_move, MPB_MOVE_CHANGED);
    mpb_store_relaxed(&row->move_to, 3);
    nothing_moved(&the_move, MPB_MOVE_CHANGED);
    struct mpb_move nowhere = the_move;
    nowhere.to = 2;
    nothing_moved(&nowhere, MPB_ERR_KAFKA_STORAGE_ERROR);
    fixture_close(&f);
}

/* As many bytes may be missing as the copier says, within two bounds. */
static void test_what_may_be_missing(void)
{
    static const struct {
        uint32_t tail_bytes;
        uint64_t missing;
        bool too_much;
    } CASES[] = {
        {0, MPB_MOVE_TAIL_BYTES, false},
        {0, MPB_MOVE_TAIL_BYTES + 1, true},
        {MPB_MOVE_TAIL_BYTES - 1, MPB_MOVE_TAIL_BYTES, false},
        {MPB_MOVE_TAIL_BYTES + 9, MPB_MOVE_TAIL_BYTES + 9, false},
        {MPB_MOVE_TAIL_BYTES + 9, MPB_MOVE_TAIL_BYTES + 10, true},
        {MPB_MOVE_MOST_TAIL_BYTES, MPB_MOVE_MOST_TAIL_BYTES, false},
        {UINT32_MAX, MPB_MOVE_MOST_TAIL_BYTES, false},
        {UINT32_MAX, MPB_MOVE_MOST_TAIL_BYTES + 1, true},
    };
    char in_the_way[sizeof f.dir + 40];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        snprintf(in_the_way, sizeof in_the_way, "%s/" FIX_SECOND "/t-0", f.dir);
        CHECK_EQ(mkdir(in_the_way, 0755), 0); /* what comes next, where not too much is missing */
        struct mpb_move move = the_move;
        uint64_t others = now()->index_bytes + now()->time_index_bytes - move.lengths[1] - move.lengths[2];
        mutable_now()->position = move.lengths[0] + CASES[i].missing - others;
        move.tail_bytes = CASES[i].tail_bytes;
        nothing_moved(&move, CASES[i].too_much ? MPB_MOVE_CHANGED : MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK(mpb_log_dir_online(&f.core, 0) && mpb_log_dir_online(&f.core, 1));
        fixture_close(&f);
    }
}

enum { MOST = 1 << 18 };

static void same_file(int dir, const char *path, const uint8_t *want, int64_t length)
{
    static uint8_t bytes[MOST];
    int fd = openat(f.log.dir_fd[dir], path, O_RDONLY);
    CHECK(fd >= 0);
    CHECK_EQ(pread(fd, bytes, sizeof bytes, 0), length);
    CHECK(memcmp(bytes, want, (size_t)length) == 0);
    close(fd);
}

static int64_t read_active(const char *suffix, uint8_t bytes[MOST], char path[64])
{
    snprintf(path, 64, "t-0/%020lld.%s", (long long)now()->active_base, suffix);
    int fd = openat(f.log.dir_fd[0], path, O_RDONLY);
    int64_t length = pread(fd, bytes, MOST, 0);
    CHECK(fd >= 0 && length > 0);
    close(fd);
    return length;
}

/* The rest of the active segment is copied, what a predecessor copied too much is cut; it is synced where the old one was. */
static void test_moved(bool was_synced)
{
    static uint8_t log[MOST], index[MOST];
    struct mpb_append_options options = FIX_OPTIONS;
    struct batch_spec large = {.records = 1, .producer_id = -1, .timestamp = 7, .payload = 100000, .mark = 3};
    char log_path[64], index_path[64], future[160], name[96];
    begin();
    for (int i = 0; i < 2; i++) /* more than a piece of the copy */
        CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &large).error, 0);
    int64_t log_bytes = read_active("log", log, log_path), index_bytes = read_active("index", index, index_path);
    world_move_name(&f, 3, name);
    snprintf(future, sizeof future, "%s%s", name, index_path + strlen("t-0"));
    int fd = openat(f.log.dir_fd[0], future, O_RDWR);
    CHECK(fd >= 0 && ftruncate(fd, 4000) == 0 && log_bytes > 200000);
    close(fd);
    the_move.synced = 5;
    mpb_store_relaxed(&row->flushed_offset, was_synced ? 6 : 5);
    struct mpb_partition_copy before = *now();
    synced = 0;
    mpb_watch_partition(&f.core, 0, 2);
    mpb_io_fault = count_syncs;
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &the_move), 0);
    mpb_io_fault = NULL;
    CHECK_EQ(synced, was_synced ? 2 : 1); /* the log directory in any case */
    CHECK(mpb_load_relaxed(&row->log_dir) == 1 && mpb_load_relaxed(&row->intent.word) == 0);
    CHECK(mpb_load_relaxed(&row->move_to) == 0 && moves() == 2 && mpb_load_relaxed(&row->watchers) == 0);
    CHECK_EQ(now()->truncations, before.truncations + 2);
    CHECK_EQ(now()->segment_id, mpb_load_relaxed(&row->selector));
    before.truncations = now()->truncations;
    before.segment_id = now()->segment_id;
    CHECK(memcmp(now(), &before, sizeof before) == 0);
    same_file(1, log_path, log, log_bytes);
    same_file(1, index_path, index, index_bytes);
    CHECK_EQ(faccessat(f.log.dir_fd[0], "t-0", F_OK, 0), -1);
    the_move.synced = 0;
    fixture_close(&f);
}

/* A copy of segments without an index of aborted transactions is given one if the log has got one meanwhile. */
static void test_an_abort_meanwhile(void)
{
    struct mpb_append_options options = FIX_OPTIONS;
    struct batch_spec spec = in_transaction(9, 0, 77);
    struct mpb_marker marker = {.producer_id = 9, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    struct mpb_append_result result;
    char path[64];
    struct stat status;
    begin();
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, 9, 0, MPB_NO_GUARD), 0);
    CHECK_EQ(append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    mpb_append_marker(&f.log, &options, &marker, &result);
    CHECK(result.error == 0 && now()->txn_index_bytes > 0);
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &the_move), 0);
    snprintf(path, sizeof path, "t-0/%020lld.txnindex", (long long)now()->active_base);
    CHECK_EQ(fstatat(f.log.dir_fd[1], path, &status, 0), 0);
    CHECK_EQ(status.st_size, now()->txn_index_bytes);
    fixture_close(&f);
}

int main(void)
{
    test_asks();
    test_which_rows_move();
    test_another_log_by_now();
    test_what_may_be_missing();
    test_moved(false);
    test_moved(true);
    test_an_abort_meanwhile();
    printf("moves: %lu checks\n", checks_made);
    return 0;
}
