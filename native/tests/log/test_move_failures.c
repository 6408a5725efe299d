/* Every call that the end of a move makes, failing: the log directory that is to blame goes offline and no other, before the
 * commit nothing has moved, behind it the move is finished later; and who has the name already, or would have one too long. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/move_finish.h"

enum { FROM = 0, TO = 1, FILES = 3 };

static struct fixture f;
static struct mpb_partition *row;
static int fail_with;
static long fail_at, calls, of_kind[16];
static enum mpb_io_call failed_call;
static long failed_number; /* of its kind */

/* Nothing here needs the disk, which is slow: what a sync answers is told by `inject`. */
static int whole_syncs, data_syncs;

int fsync(int fd)
{
    whole_syncs++;
    return fd < 0 ? -1 : 0;
}

int fdatasync(int fd)
{
    data_syncs++;
    return fd < 0 ? -1 : 0;
}

static int inject(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    of_kind[call]++;
    if (calls++ != fail_at)
        return 0;
    failed_call = call;
    failed_number = of_kind[call] - 1;
    return fail_with;
}

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row); }

static void begin(void)
{
    fixture_open(&f);
    prepare_move(&f);
    row = &f.core.partitions[0];
    the_move.synced = 0;
    mpb_store_relaxed(&row->flushed_offset, 1); /* the copy is synced as well */
    mpb_segment_close_all(&f.log);
    memset(of_kind, 0, sizeof of_kind);
    calls = 0;
}

/* First it looks whether the name is free; then each file is opened where it is and where its copy is. */
static int blamed(void)
{
    if (failed_call == MPB_IO_OPEN)
        return failed_number > 0 && failed_number <= 2 * FILES && failed_number % 2 == 1 ? FROM : TO;
    if (failed_call == MPB_IO_RENAME)
        return failed_number == 0 ? TO : FROM;
    return failed_call == MPB_IO_READ ? FROM : TO;
}

static bool is_behind_commit(void)
{
    return failed_call == MPB_IO_RENAME || (failed_call == MPB_IO_OPEN && failed_number > 2 * FILES) ||
           (failed_call == MPB_IO_SYNC && failed_number > 0);
}

static void check_failed(int error)
{
    const struct mpb_process *self = &f.core.processes[f.log.slot];
    const bool let_go = failed_call == MPB_IO_RENAME && failed_number == 1 && fail_with == EIO;
    const bool condemns = fail_with == EIO || (fail_with == ENOSPC && failed_call == MPB_IO_SYNC);
    CHECK_EQ(error, let_go ? 0 : MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(mpb_log_dir_online(&f.core, FROM), !condemns || blamed() != FROM);
    CHECK_EQ(mpb_log_dir_online(&f.core, TO), !condemns || blamed() != TO);
    CHECK_EQ(mpb_load_relaxed(&self->log_errno), fail_with);
    CHECK_EQ(mpb_load_relaxed(&self->log_errno_row), blamed() == FROM || is_behind_commit() ? 1 : 0);
    CHECK_EQ(mpb_load_relaxed(&row->log_dir), is_behind_commit() ? TO : FROM);
    CHECK_EQ(mpb_load_relaxed(&row->intent.word) != 0, is_behind_commit() && !let_go);
    CHECK_EQ(mpb_load_relaxed(&row->move_to), let_go ? 0 : TO + 1);
    CHECK_EQ(faccessat(f.log.dir_fd[FROM], "t-0", F_OK, 0), 0); /* it is not gone before the other one is there */
    no_descriptor_lost(&f);
}

static void every_call(void)
{
    static const int ERRNOS[] = {EIO, ENOSPC, EMFILE};
    begin();
    fail_at = -1;
    mpb_io_fault = inject;
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &the_move), 0);
    mpb_io_fault = NULL;
    const long all = calls;
    CHECK(whole_syncs == 1 && data_syncs == 1); /* the directory's names, and the bytes of the log */
    CHECK(of_kind[MPB_IO_OPEN] == 2 + 2 * FILES && of_kind[MPB_IO_RENAME] == 2 && of_kind[MPB_IO_SYNC] == 2);
    CHECK(of_kind[MPB_IO_READ] == FILES && of_kind[MPB_IO_WRITE] == FILES && of_kind[MPB_IO_TRUNCATE] == FILES);
    no_descriptor_lost(&f);
    fixture_close(&f);
    for (size_t n = 0; n < sizeof ERRNOS / sizeof *ERRNOS; n++)
        for (long at = 0; at < all; at++) {
            begin();
            fail_with = ERRNOS[n];
            fail_at = at;
            mpb_io_fault = inject;
            int error = mpb_move_end(&f.log, 0, NULL, &the_move);
            mpb_io_fault = NULL;
            if (fail_with == EMFILE && error == 0) { /* the cache gave its descriptors back, and it was tried again */
                CHECK(failed_call == MPB_IO_OPEN && blamed() == FROM);
                fixture_close(&f);
                continue;
            }
            check_failed(error);
            mpb_store_release(&f.core.header->offline_log_dirs, 0);
            error = is_behind_commit() ? mpb_partition_set_high_watermark(&f.log, 0, 1) /* whoever has the lock next */
                                       : mpb_move_end(&f.log, 0, NULL, &the_move);
            CHECK_EQ(error, 0);
            CHECK(mpb_load_relaxed(&row->log_dir) == TO && mpb_load_relaxed(&row->move_to) == 0);
            CHECK(now()->truncations % 2 == 0 && mpb_load_relaxed(&row->intent.word) == 0);
            CHECK_EQ(faccessat(f.log.dir_fd[TO], "t-0", F_OK, 0), 0);
            fixture_close(&f);
        }
}

/* So it is where nothing was left to copy. */
static void a_copy_that_cannot_be_cut(void)
{
    begin();
    the_move.lengths[MPB_FILE_LOG] = now()->position;
    fail_at = 3; /* the log's and its copy's opening come first, and before them the look at the name */
    fail_with = EIO;
    mpb_io_fault = inject;
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &the_move), MPB_ERR_KAFKA_STORAGE_ERROR);
    mpb_io_fault = NULL;
    CHECK(failed_call == MPB_IO_TRUNCATE && of_kind[MPB_IO_READ] == 0);
    CHECK(mpb_log_dir_online(&f.core, FROM) && !mpb_log_dir_online(&f.core, TO));
    fixture_close(&f);
}

/* A file that is shorter than what was committed is the old directory's trouble, though no call fails. */
static void a_file_cut_off(void)
{
    char path[64];
    begin();
    snprintf(path, sizeof path, "t-0/%020lld.log", (long long)now()->active_base);
    int fd = openat(f.log.dir_fd[FROM], path, O_RDWR);
    for (int rest = (int)now()->position - 1; rest >= 0; rest -= (int)now()->position - 1) {
        mpb_store_relaxed(&f.core.processes[f.log.slot].log_errno, 0);
        mpb_store_relaxed(&f.core.processes[f.log.slot].log_errno_row, 0);
        CHECK(fd >= 0 && ftruncate(fd, rest) == 0);
        CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &the_move), MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno) == ERANGE);
        CHECK(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno_row) == 1 && row->log_dir == FROM);
        CHECK(mpb_log_dir_online(&f.core, FROM) && mpb_log_dir_online(&f.core, TO));
    }
    close(fd);
    fixture_close(&f);
}

static void in_the_way(void)
{
    char path[sizeof f.dir + 40];
    begin();
    snprintf(path, sizeof path, "%s/" FIX_SECOND "/t-0", f.dir);
    CHECK_EQ(mkdir(path, 0755), 0);
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &the_move), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK(row->log_dir == FROM && mpb_log_dir_online(&f.core, TO));
    no_descriptor_lost(&f);
    fixture_close(&f);
}

/* A file system's longest name holds the partition's, its topic's id and what says that it is a copy. */
static void names(void)
{
    struct mpb_partition named = {.topic_id = {0x01, 0xab, [15] = 0xff}};
    char path[MPB_MOVE_PATH_BYTES];
    strcpy(named.dir, "orders-7");
    CHECK(mpb_move_path(path, &named, "-future"));
    CHECK(strcmp(path, "orders-7.01ab00000000000000000000000000ff-future") == 0);
    const size_t longest = 255 - strlen(".-future") - 32;
    for (size_t length = longest - 1; length <= longest + 1; length++) {
        memset(named.dir, 'x', length);
        named.dir[length] = '\0';
        CHECK_EQ(mpb_move_path(path, &named, "-future"), length <= longest);
    }
}

/* Such a partition cannot be moved, wherever to; nor any to a directory that is none. */
static void refused(void)
{
    begin();
    struct mpb_move nowhere = the_move;
    nowhere.to = 2;
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &nowhere), MPB_ERR_KAFKA_STORAGE_ERROR);
    memset(row->dir, 'x', sizeof row->dir - 1);
    CHECK_EQ(mpb_move_end(&f.log, 0, NULL, &the_move), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno) == 0 && row->log_dir == FROM);
    fixture_close(&f);
}

int main(void)
{
    every_call();
    a_copy_that_cannot_be_cut();
    a_file_cut_off();
    in_the_way();
    names();
    refused();
    printf("move_failures: %lu checks\n", checks_made);
    return 0;
}
