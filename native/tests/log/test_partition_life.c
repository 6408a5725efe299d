/* A partition's row from its first use to its next: what it is given, whom it is shown to, where its ends may go; its lock
 * while others have it; the process's handle of the log; and what is noted of an error. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/partition_row.h"
#include "log/producer.h"
#include "shm/doorbell.h"
#include "tests/log/failing_calls.h"

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }
static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row()); }

static int error_of_name(size_t length, uint32_t log_dir, bool create)
{
    char name[2 * sizeof row()->dir];
    const struct mpb_partition_identity identity = {.log_dir = log_dir, .dir = name};
    const struct mpb_partition_copy state = {.segment_count = 1};
    memset(name, 'x', sizeof name);
    name[length] = '\0';
    return create ? mpb_partition_create(&f.log, 0, &identity, 3, 1000)
                  : mpb_partition_publish(&f.log, 0, &identity, &state);
}

/* A name that is too long and a log directory that is none are refused, each for itself, and nothing is made. */
static void names(void)
{
    fixture_open(&f);
    for (int create = 0; create < 2; create++) {
        CHECK_EQ(error_of_name(sizeof row()->dir, 0, create), MPB_ERR_UNKNOWN_SERVER_ERROR);
        CHECK_EQ(error_of_name(5, 2, create), MPB_ERR_UNKNOWN_SERVER_ERROR);
        CHECK(mpb_load_relaxed(&row()->lock_made) == 0 && mpb_load_relaxed(&f.core.header->partitions_high) == 0);
    }
    CHECK_EQ(faccessat(f.log.dir_fd[0], "xxxxx", F_OK, 0), -1);
    const size_t longest = fixture_takes_name(&f, sizeof row()->dir - 1) ? sizeof row()->dir - 1 : 100;
    CHECK_EQ(error_of_name(longest, 1, true), 0);
    CHECK(row()->dir_length == longest && row()->log_dir == 1);
    CHECK_EQ(faccessat(f.log.dir_fd[1], row()->dir, F_OK, 0), 0);
    CHECK(mpb_load_relaxed(&row()->lock_made) == 1 && mpb_load_relaxed(&f.core.header->partitions_high) == 1);
    CHECK(now()->segment_created_ms == 1000 && now()->leader_epoch == 3 && now()->segment_count == 1);
    CHECK(now()->max_timestamp == -1 && now()->max_timestamp_offset == -1 && now()->first_timestamp == -1);
    CHECK(now()->indexed_timestamp == -1 && now()->leo == 0);
    fixture_close(&f);
}

/* Nothing of the partition that had the row before is left in it. */
static void a_row_used_again(bool replicated)
{
    static const uint8_t ID[16] = {9};
    struct mpb_partition_identity identity = {
        .topic_id = {9}, .topic_row = 4, .partition = 6, .log_dir = 1, .dir = "again-6", .hidden = true};
    const struct mpb_partition_copy state = {.log_start = 5, .leo = 8, .hw = 8, .segment_count = 1, .active_base = 5};
    struct mpb_partition_copy seen;
    struct batch_spec spec = numbered(1, 0, 40);
    fixture_open(&f);
    if (replicated)
        fixture_replicate(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    mpb_store_relaxed(&row()->move_to, 2);
    mpb_store_relaxed(&row()->start_asked, 1);
    mpb_store_relaxed(&row()->start_written, 1);
    const uint32_t truncations = now()->truncations;
    const uint64_t selector = mpb_load_relaxed(&row()->selector);
    CHECK_EQ(mpb_partition_publish(&f.log, 0, &identity, &state), 0);
    CHECK(row()->topic_row == 4 && row()->partition == 6 && row()->log_dir == 1 && row()->dir_length == 7);
    CHECK(strcmp(row()->dir, "again-6") == 0 && memcmp(row()->topic_id, ID, sizeof ID) == 0);
    CHECK(mpb_load_relaxed(&row()->move_to) == 0 && mpb_load_relaxed(&row()->flushed_offset) == 5);
    CHECK(mpb_load_relaxed(&row()->start_asked) == 0 && mpb_load_relaxed(&row()->start_written) == 0);
    CHECK_EQ(mpb_producer_find(&f.core, row(), 1), 0);
    CHECK(now()->truncations > truncations && now()->truncations % 2 == 0 && now()->segment_id == selector + 1);
    CHECK(now()->log_start == 5 && now()->leo == 8 && now()->active_base == 5);
    CHECK_EQ(mpb_load_relaxed(&row()->flags), 0); /* hidden until its producers are loaded */
    CHECK_EQ(mpb_partition_usable(&f.core, row(), ID), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, MPB_PART_EXISTS, 0), 0);
    CHECK_EQ(mpb_partition_usable(&f.core, row(), ID), MPB_ERR_KAFKA_STORAGE_ERROR); /* its directory is offline */
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, MPB_PART_ONLINE, 0), 0);
    CHECK_EQ(mpb_partition_usable(&f.core, row(), ID), 0);
    CHECK_EQ(mpb_partition_snapshot(&f.log, 0, &seen), 0);
    if (replicated) {
        CHECK(now()->role == MPB_ROLE_NONE && now()->leader == -1);
        CHECK(f.core.replicas[0].ids[0][0] == -1 && f.core.replicas[0].ids[1][0] == -1);
    }
    identity.hidden = false;
    CHECK_EQ(mpb_partition_publish(&f.log, 0, &identity, &state), 0);
    CHECK_EQ(mpb_load_relaxed(&row()->flags), MPB_PART_EXISTS | MPB_PART_ONLINE);
    fixture_close(&f);
}

/* Who is deleted gives back its producers and descriptors; any other flag takes nothing away. */
static void flags(void)
{
    struct batch_spec spec = numbered(1, 0, 40);
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    const uint32_t open = open_descriptors();
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, 0, MPB_PART_ONLINE), 0);
    CHECK(mpb_load_relaxed(&row()->flags) == MPB_PART_EXISTS && mpb_producer_find(&f.core, row(), 1) != 0);
    CHECK_EQ(open_descriptors(), open);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, MPB_PART_DELETED, MPB_PART_EXISTS), 0);
    CHECK(mpb_load_relaxed(&row()->flags) == MPB_PART_DELETED && mpb_producer_find(&f.core, row(), 1) == 0);
    CHECK(open_descriptors() < open);
    CHECK_EQ(mpb_partition_set_high_watermark(&f.log, 0, 1), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 5, MPB_PART_ONLINE, 0), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION); /* unmade */
    CHECK_EQ(mpb_load_relaxed(&f.core.partitions[5].flags), 0);
    fixture_close(&f);
}

static void ends(void)
{
    static const struct {
        bool start;
        int64_t to;
        int error;
        int64_t log_start, hw;
    } CASES[] = {
        {true, 0, 0, 0, 12},
        {true, 13, MPB_ERR_OFFSET_OUT_OF_RANGE, 0, 12},
        {false, 13, 0, 0, 12},
        {false, -1, 0, 0, 0},
        {true, 1, MPB_ERR_OFFSET_OUT_OF_RANGE, 0, 0},
        {true, 0, 0, 0, 0},
        {false, 7, 0, 0, 7},
        {true, -1, MPB_ERR_OFFSET_OUT_OF_RANGE, 0, 7},
        {true, 6, 0, 6, 7},
        {true, 5, 0, 6, 7},
        {true, 7, 0, 7, 7},
        {false, 6, 0, 7, 7},
        {false, 8, 0, 7, 8},
        {false, 12, 0, 7, 12},
    };
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (int i = 0; i < 6; i++) {
        struct batch_spec spec = numbered(-1, 0, 40);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    }
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        CHECK_EQ(CASES[i].start ? mpb_partition_set_log_start(&f.log, 0, CASES[i].to)
                                : mpb_partition_set_high_watermark(&f.log, 0, CASES[i].to),
                 CASES[i].error);
        CHECK(now()->log_start == CASES[i].log_start && now()->hw == CASES[i].hw && now()->lso == CASES[i].hw);
    }
    fixture_close(&f);
}

/* Who finds it busy leaves a mark, and is told when its holder lets go. */
static void busy(void)
{
    static const uint8_t OURS[16] = {7}, WRONG[16] = {8};
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_partition_lock_usable(&f.log, 0, WRONG), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    const struct fixture_holder holder = fixture_hold(&f, 0); /* which is possible: whoever is refused has let go */
    mpb_watch_partition(&f.core, 0, 2);
    CHECK(mpb_load_relaxed(&row()->busy_since_ns) == 0 && !mpb_partition_is_busy(&f.log, 0));
    for (int times = 0; times < 3; times++) {
        const uint64_t before = counted(&f, MPB_C_LOG_LOCKS_BUSY);
        CHECK_EQ(mpb_partition_lock_usable(&f.log, 0, OURS), MPB_ERR_REQUEST_TIMED_OUT);
        CHECK_EQ(counted(&f, MPB_C_LOG_LOCKS_BUSY), before + 1);
        CHECK(mpb_load_relaxed(&row()->busy_since_ns) != 0 && mpb_partition_is_busy(&f.log, 0));
    }
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, MPB_PART_DELETED, MPB_PART_EXISTS), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK_EQ(mpb_load_relaxed(&row()->flags), MPB_PART_EXISTS | MPB_PART_ONLINE);
    CHECK(mpb_load_relaxed(&row()->watchers) != 0);
    fixture_let_go(&holder);
    CHECK(mpb_load_relaxed(&row()->busy_since_ns) == 0 && mpb_load_relaxed(&row()->watchers) == 0);
    CHECK_EQ(mpb_partition_lock_usable(&f.log, 0, OURS), 0);
    mpb_partition_unlock(&f.log, 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 5), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION); /* that has none */
    CHECK_EQ(counted(&f, MPB_C_LOG_LOCKS_INHERITED), 0);
    fixture_close(&f);
}

/* A slot's process is gone: what it left undone, of all partitions, and of no other slot. */
static void what_a_slot_left(void)
{
    fixture_open(&f);
    for (uint32_t p = 0; p < 4; p++) {
        struct batch_spec spec = numbered(-1, 0, 40);
        fixture_partition(&f, p);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, p, MPB_NO_REQUEST, 0, &spec).error, 0);
        f.core.partitions[p].intent.target = mpb_load_relaxed(&f.core.partitions[p].selector) + 1;
    }
    const uint32_t own = f.log.slot;
    for (uint32_t p = 0; p < 3; p++) {
        f.log.slot = p == 1 ? own + 1 : own;
        mpb_intent_set(&f.log, &f.core.partitions[p], MPB_INTENT_APPEND);
    }
    f.log.slot = own;
    CHECK_EQ(mpb_repair_slot(&f.log, own + 2), 0);
    CHECK_EQ(mpb_repair_slot(&f.log, own), 2);
    CHECK_EQ(counted(&f, MPB_C_LOG_REPAIRS), 2);
    for (uint32_t p = 0; p < 4; p++)
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[p].intent.word) != 0, p == 1);
    for (uint32_t p = 0; p < 4; p++) { /* and all locks are free */
        CHECK_EQ(mpb_partition_lock(&f.log, p), 0);
        mpb_partition_unlock(&f.log, p);
    }
    fixture_close(&f);
}

/* The row, if it is one of the table, and the errno of the last call that failed. */
static void noted_errors(void)
{
    struct mpb_partition copy = {.log_dir = 1};
    fixture_open(&f);
    const struct mpb_process *self = &f.core.processes[f.log.slot];
    const struct mpb_partition *const rows[] = {row(), row() + 5, row() + FIX_PARTITIONS - 1, row() + FIX_PARTITIONS,
                                                &copy};
    static const uint32_t NOTED[] = {1, 6, FIX_PARTITIONS, 0, 0};
    for (uint32_t i = 0; i < 5; i++) {
        mpb_log_note_error(&f.log, rows[i], -(int)(i + 1));
        CHECK(mpb_load_relaxed(&self->log_errno) == i + 1 && mpb_load_relaxed(&self->log_errno_row) == NOTED[i]);
        CHECK_EQ(counted(&f, MPB_C_LOG_IO_ERRORS), i + 1);
    }
    CHECK_EQ(mpb_log_io_error(&f.log, &copy, -ENOSPC), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK(mpb_log_dir_online(&f.core, 1)); /* it will have room again */
    CHECK_EQ(mpb_log_sync_error(&f.log, &copy, -ENOSPC), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK(!mpb_log_dir_online(&f.core, 1) && mpb_log_dir_online(&f.core, 0));
    CHECK_EQ(mpb_log_io_error(&f.log, row(), -EIO), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK(!mpb_log_dir_online(&f.core, 0));
    fixture_close(&f);
}

/* A handle that is closed has nothing. Of several directories one that is broken is done without, and stays out; a shortage in
 * the process says nothing of a directory. */
static void handles(void)
{
    struct mpb_log log;
    uint32_t bad = 9;
    char nowhere[sizeof f.dir + 10];
    fixture_open(&f);
    const char *dirs[] = {f.dir, nowhere, f.dir};
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", f.dir);
    const uint32_t open = open_descriptors();
    CHECK_EQ(mpb_log_open(&log, &f.core, 1, dirs, 3, 64, &bad), 0);
    CHECK(log.dir_count == 3 && log.dir_fd[0] >= 0 && log.dir_fd[1] == -1 && log.dir_fd[2] >= 0);
    CHECK(bad == 0 && !mpb_log_dir_online(&f.core, 1) && mpb_log_dir_online(&f.core, 2));
    mpb_log_close(&log);
    CHECK(log.open_segments == NULL && log.lists == NULL && log.dir_count == 0);
    dirs[1] = f.dir; /* it is there again, and stays out: what it has may be older than what was said */
    CHECK_EQ(mpb_log_open(&log, &f.core, 1, dirs, 2, 64, &bad), 0);
    CHECK(log.dir_count == 2 && log.dir_fd[1] == -1);
    mpb_log_close(&log);
    dirs[0] = nowhere;
    CHECK_EQ(mpb_log_open(&log, &f.core, 1, dirs, 3, 64, &bad), -ENOENT);
    CHECK(bad == 0 && log.open_segments == NULL && mpb_log_dir_online(&f.core, 0));
    CHECK_EQ(open_descriptors(), open);
    dirs[0] = f.dir;
    mpb_store_release(&f.core.header->offline_log_dirs, 0);
    for (uint32_t n = 0; n < 2; n++) {
        let_fail(MPB_IO_OPEN, (int)n, EMFILE, 1);
        CHECK_EQ(mpb_log_open(&log, &f.core, 1, dirs, 2, 64, &bad), -EMFILE);
        mpb_io_fault = NULL;
        CHECK(bad == n && log.dir_count == 0 && mpb_log_dir_online(&f.core, n) && open_descriptors() == open);
    }
    fixture_close(&f);
}

int main(void)
{
    names();
    a_row_used_again(false);
    a_row_used_again(true);
    flags();
    ends();
    busy();
    what_a_slot_left();
    noted_errors();
    handles();
    printf("partition_life: %lu checks\n", checks_made);
    return 0;
}
