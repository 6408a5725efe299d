/* Segment files: their names, what makes, renames and removes them, how long they are, and a process's cache of their
 * descriptors, place by place. */
#include "tests/log/log_fixture.h"

#include <errno.h>

#include "log/log_io.h"
#include "tests/log/failing_calls.h"

enum { ACTIVE = 50 };
static const char *const SUFFIXES[] = {"log", "index", "timeindex", "txnindex"};
static const int INDEXES_FIRST[] = {1, 2, 3, 0};

static struct fixture f;
static struct mpb_log few; /* another process's, with one set of places */
static struct mpb_partition *row;
static struct mpb_partition_copy now;

static void begin(void)
{
    const char *dirs[] = {f.dir};
    uint32_t bad;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_log_open(&few, &f.core, MPB_SLOT_HANDLERS + 1, dirs, 1, MPB_SEGMENT_WAYS, &bad), 0);
    CHECK_EQ(few.segment_sets, 1);
    row = &f.core.partitions[0];
    now = (struct mpb_partition_copy){.active_base = ACTIVE,
                                      .segment_id = 77,
                                      .truncations = 3,
                                      .position = 1001,
                                      .index_bytes = 17,
                                      .time_index_bytes = 25,
                                      .txn_index_bytes = 69};
}

static void end(void)
{
    mpb_log_close(&few);
    fixture_close(&f);
}

static void file_name(char out[64], int64_t base, int file, bool deleted)
{
    CHECK(snprintf(out, 64, "%.20s/%020lld.%s%s", row->dir, (long long)base, SUFFIXES[file],
                   deleted ? ".deleted" : "") < 64);
}

static void put(int64_t base, int file, bool deleted, int bytes)
{
    char path[64];
    file_name(path, base, file, deleted);
    int fd = openat(f.log.dir_fd[0], path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, bytes) == 0);
    close(fd);
}

/* Bytes of a file; -1: it is not there. */
static int64_t length_of(int64_t base, int file, bool deleted)
{
    char path[64];
    struct stat status;
    file_name(path, base, file, deleted);
    return fstatat(f.log.dir_fd[0], path, &status, 0) == 0 ? status.st_size : -1;
}

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/* ------------------------------------------------------------------ names */
static void test_names(void)
{
    char path[MPB_SEGMENT_PATH_BYTES], want[MPB_SEGMENT_PATH_BYTES];
    begin();
    mpb_segment_path(path, row, 0, MPB_FILE_LOG, false);
    CHECK_EQ(strcmp(path, "t-0/00000000000000000000.log"), 0);
    mpb_segment_path(path, row, 1234567890123456789, MPB_FILE_INDEX, true);
    CHECK_EQ(strcmp(path, "t-0/01234567890123456789.index.deleted"), 0);
    mpb_segment_path(path, row, INT64_MAX, MPB_FILE_TIME_INDEX, false);
    CHECK_EQ(strcmp(path, "t-0/09223372036854775807.timeindex"), 0);
    mpb_segment_path(path, row, 9, MPB_FILE_TXN_INDEX, true);
    CHECK_EQ(strcmp(path, "t-0/00000000000000000009.txnindex.deleted"), 0);
    for (uint32_t length = sizeof row->dir - 2; length <= sizeof row->dir + 1; length++) {
        memset(row->dir, 'd', sizeof row->dir);
        row->dir_length = length;
        int kept = length < sizeof row->dir ? (int)length : (int)sizeof row->dir - 1;
        snprintf(want, sizeof want, "%.*s/00000000000000000042.timeindex.deleted", kept, row->dir);
        mpb_segment_path(path, row, 42, MPB_FILE_TIME_INDEX, true);
        CHECK_EQ(strcmp(path, want), 0);
    }
    CHECK_EQ(mpb_segment_id(&now, ACTIVE), 77);
    CHECK_EQ(mpb_segment_id(&now, ACTIVE - 1), (uint64_t)1 << 63 | 3);
    CHECK_EQ(mpb_segment_id(&now, ACTIVE + 1), (uint64_t)1 << 63 | 3);
    end();
}

/* ------------------------------------------------------------------ files */
/* What a dead process left under the names is cut, its index of aborted transactions goes; others stay, and so does a log
 * that holds anything, with all that belongs to it: who asks for a new segment there is wrong. */
static void test_made(void)
{
    begin();
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++) {
        put(7, file, false, file == MPB_FILE_LOG ? 0 : 33);
        put(8, file, false, 33);
    }
    no_descriptor_lost(&f);
    CHECK_EQ(mpb_segment_create(&f.log, row, 8), -EEXIST);
    CHECK_EQ(mpb_segment_unmake(&f.log, row, 8), 0);
    CHECK_EQ(mpb_segment_create(&f.log, row, 7), 0);
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++) {
        CHECK_EQ(length_of(7, file, false), file == MPB_FILE_TXN_INDEX ? -1 : 0);
        CHECK_EQ(length_of(8, file, false), 33);
    }
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) { /* log first; behind what fails nothing is touched */
        let_fail(MPB_IO_OPEN, file, EIO, 1);
        CHECK_EQ(mpb_segment_create(&f.log, row, 9), -EIO);
        for (int made = 0; made < MPB_SEGMENT_FILES; made++)
            CHECK_EQ(length_of(9, made, false), made < file ? 0 : -1);
    }
    let_fail(MPB_IO_UNLINK, 0, EIO, 1);
    CHECK_EQ(mpb_segment_create(&f.log, row, 9), -EIO);
    mpb_io_fault = NULL;
    no_descriptor_lost(&f);
    row->log_dir = f.log.dir_count;
    CHECK_EQ(mpb_segment_create(&f.log, row, 10), -ENOENT);
    CHECK_EQ(mpb_segment_unlink(&f.log, row, 8), -ENOENT);
    row->log_dir = 0;
    CHECK_EQ(length_of(8, 0, false), 33);
    end();
}

/* What is no file of ours is neither opened for ever nor followed, made into one, or removed. */
static void test_made_where_something_else_is(void)
{
    char path[MPB_SEGMENT_PATH_BYTES];
    struct stat status;
    begin();
    mpb_segment_path(path, row, 50, MPB_FILE_LOG, false);
    CHECK_EQ(mkfifoat(f.log.dir_fd[0], path, 0600), 0);
    CHECK_EQ(mpb_segment_create(&f.log, row, 50), -EEXIST);
    mpb_segment_path(path, row, 51, MPB_FILE_LOG, false);
    CHECK_EQ(symlinkat("nowhere", f.log.dir_fd[0], path), 0);
    CHECK_EQ(mpb_segment_create(&f.log, row, 51), -ELOOP);
    mpb_segment_path(path, row, 52, MPB_FILE_LOG, false);
    CHECK_EQ(mkdirat(f.log.dir_fd[0], path, 0700), 0);
    CHECK_EQ(mpb_segment_create(&f.log, row, 52), -EISDIR);
    for (int base = 50; base <= 52; base++) {
        CHECK_EQ(mpb_segment_unmake(&f.log, row, base), 0);
        mpb_segment_path(path, row, base, MPB_FILE_LOG, false);
        CHECK(fstatat(f.log.dir_fd[0], path, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode));
        CHECK_EQ(length_of(base, MPB_FILE_INDEX, false), -1);
    }
    no_descriptor_lost(&f);
    end();
}

/* Of a roll that was not committed: gone, unless the log holds anything. */
static void test_unmade(void)
{
    begin();
    CHECK_EQ(mpb_segment_create(&f.log, row, 60), 0);
    for (int tries = 0; tries < 2; tries++)
        CHECK_EQ(mpb_segment_unmake(&f.log, row, 60), 0);
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++)
        CHECK_EQ(length_of(60, file, false), -1);
    put(61, MPB_FILE_LOG, false, 1);
    put(61, MPB_FILE_INDEX, false, 0);
    CHECK_EQ(mpb_segment_unmake(&f.log, row, 61), 0);
    CHECK(length_of(61, MPB_FILE_LOG, false) == 1 && length_of(61, MPB_FILE_INDEX, false) == 0);
    put(62, MPB_FILE_LOG, false, 0);
    let_fail(MPB_IO_OPEN, 0, EIO, 1);
    CHECK_EQ(mpb_segment_unmake(&f.log, row, 62), -EIO);
    let_fail(MPB_IO_STATUS, 0, EIO, 1);
    CHECK_EQ(mpb_segment_unmake(&f.log, row, 62), -EIO);
    let_fail(MPB_IO_OPEN, 0, EMFILE, 1);
    CHECK_EQ(mpb_segment_unmake(&f.log, row, 62), 0);
    mpb_io_fault = NULL;
    CHECK_EQ(length_of(62, MPB_FILE_LOG, false), -1);
    no_descriptor_lost(&f);
    row->log_dir = f.log.dir_count;
    CHECK_EQ(mpb_segment_unmake(&f.log, row, 62), -ENOENT);
    row->log_dir = 0;
    end();
}

/* A process at its descriptor limit gives back what it has open, and tries once more. */
static void test_made_at_the_limit_of_descriptors(void)
{
    begin();
    for (int base = 1; base <= 2; base++)
        put(base, MPB_FILE_LOG, false, 1);
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) {
        int one = mpb_segment_fd(&f.log, row, &now, 1, MPB_FILE_LOG);
        int two = mpb_segment_fd(&f.log, row, &now, 2, MPB_FILE_LOG);
        CHECK(is_open(one) && is_open(two));
        let_fail(MPB_IO_OPEN, file, file == 0 ? EMFILE : ENFILE, 1);
        CHECK_EQ(mpb_segment_create(&f.log, row, 20 + file), 0);
        CHECK(!is_open(one) && !is_open(two));
        CHECK_EQ(length_of(20 + file, file, false), 0);
    }
    let_fail(MPB_IO_OPEN, 0, EMFILE, 2);
    CHECK_EQ(mpb_segment_create(&f.log, row, 30), -EMFILE);
    mpb_io_fault = NULL;
    CHECK_EQ(length_of(30, 0, false), -1);
    end();
}

/* Indexes before the log; what fails leaves the rest, and what is not there counts as done. */
static void test_files_go(bool renamed)
{
    int (*go)(struct mpb_log *, const struct mpb_partition *, int64_t) = renamed ? mpb_segment_retire
                                                                                 : mpb_segment_unlink;
    begin();
    for (int done = 0; done <= MPB_ALL_SEGMENT_FILES; done++) {
        for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++)
            put(40 + done, file, false, 10 + file);
        let_fail(renamed ? MPB_IO_RENAME : MPB_IO_UNLINK, done, EIO, 1);
        CHECK_EQ(go(&f.log, row, 40 + done), done < MPB_ALL_SEGMENT_FILES ? -EIO : 0);
        for (int i = 0; i < MPB_ALL_SEGMENT_FILES; i++) {
            int file = INDEXES_FIRST[i];
            CHECK_EQ(length_of(40 + done, file, false), i < done ? -1 : 10 + file);
            CHECK_EQ(length_of(40 + done, file, true), renamed && i < done ? 10 + file : -1);
        }
        mpb_io_fault = NULL;
        CHECK_EQ(go(&f.log, row, 40 + done), 0);
        CHECK_EQ(length_of(40 + done, MPB_FILE_LOG, false), -1);
    }
    CHECK_EQ(go(&f.log, row, 12345), 0);
    end();
}

/* ------------------------------------------------------------------ lengths */
static void test_lengths(void)
{
    static const int ENTRY[] = {1, MPB_INDEX_ENTRY_BYTES, MPB_TIME_INDEX_ENTRY_BYTES, MPB_TXN_INDEX_ENTRY_BYTES};
    const int64_t committed[] = {1001, 17, 25, 69};
    begin();
    for (enum mpb_segment_file file = 0; file < MPB_ALL_SEGMENT_FILES; file++) {
        CHECK_EQ(mpb_segment_bytes(&f.log, row, &now, ACTIVE, file), committed[file]); /* there is no such file */
        CHECK_EQ(mpb_segment_bytes(&f.log, row, &now, 3, file), file == MPB_FILE_LOG ? -ENOENT : 0);
        put(3, file, false, 3 * ENTRY[file] - 1);
        CHECK_EQ(mpb_segment_bytes(&f.log, row, &now, 3, file), file == MPB_FILE_LOG ? 2 : 2 * ENTRY[file]);
        put(3, file, false, 3 * ENTRY[file]);
        CHECK_EQ(mpb_segment_bytes(&f.log, row, &now, 3, file), 3 * ENTRY[file]);
        let_fail(MPB_IO_STATUS, 0, EIO, 1);
        CHECK_EQ(mpb_segment_bytes(&f.log, row, &now, 3, file), -EIO);
        let_fail(MPB_IO_OPEN, 0, EACCES, 1);
        CHECK_EQ(mpb_segment_bytes(&f.log, row, &now, 4, file), -EACCES);
        mpb_io_fault = NULL;
        put(3, file, false, 0);
        CHECK_EQ(mpb_segment_bytes(&f.log, row, &now, 3, file), 0);
    }
    end();
}

/* ------------------------------------------------------------------ the cache */
static int fd_at(struct mpb_log *log, int64_t base) { return mpb_segment_fd(log, row, &now, base, MPB_FILE_LOG); }

/* One set of places: the one that was not asked for longest makes room, with all its files, and no other does. */
static void test_the_oldest_makes_room(void)
{
    int fds[MPB_SEGMENT_WAYS + 2];
    begin();
    for (int base = 1; base <= MPB_SEGMENT_WAYS + 1; base++) {
        put(base, MPB_FILE_LOG, false, base);
        put(base, MPB_FILE_INDEX, false, 8);
    }
    for (int base = 1; base <= MPB_SEGMENT_WAYS; base++)
        fds[base] = fd_at(&few, base);
    int index = mpb_segment_fd(&few, row, &now, 2, MPB_FILE_INDEX);
    CHECK_EQ(fd_at(&few, 1), fds[1]); /* 3 is the oldest now */
    fds[MPB_SEGMENT_WAYS + 1] = fd_at(&few, MPB_SEGMENT_WAYS + 1);
    let_fail(MPB_IO_OPEN, 0, EIO, 1); /* whatever is in the cache asks nobody */
    for (int base = 1; base <= MPB_SEGMENT_WAYS + 1; base++)
        if (base != 3 && base != 2)
            CHECK_EQ(fd_at(&few, base), fds[base]);
    CHECK_EQ(mpb_segment_fd(&few, row, &now, 2, MPB_FILE_INDEX), index);
    for (int base = 1; base <= MPB_SEGMENT_WAYS + 1; base++) {
        struct stat status;
        CHECK(fstat(fds[base], &status) == 0 && status.st_size == (base == 3 ? MPB_SEGMENT_WAYS + 1 : base));
    }
    CHECK_EQ(fd_at(&few, 3), -EIO);
    mpb_io_fault = NULL;
    CHECK(fd_at(&few, 3) >= 0 && is_open(index));
    mpb_segment_close_all(&few);
    CHECK(!is_open(index) && !is_open(fds[1]) && !is_open(fds[MPB_SEGMENT_WAYS + 1]));
    end();
}

/* A place is one segment's: of a topic, a partition, a base offset, and a life of the file. */
static void test_whose_place(void)
{
    begin();
    put(5, MPB_FILE_LOG, false, 1);
    put(ACTIVE, MPB_FILE_LOG, false, 1);
    int old = fd_at(&few, 5), active = fd_at(&few, ACTIVE);
    struct mpb_open_segment *place = few.open_segments;
    CHECK(place[0].fd[0] == old && place[1].fd[0] == active && place[2].used == 0);
    CHECK(mpb_segment_is_current(&place[0], row, &now) && mpb_segment_is_current(&place[1], row, &now));
    CHECK(!mpb_segment_is_current(&place[2], row, &now));
    now.segment_id++; /* made again */
    CHECK(mpb_segment_is_current(&place[0], row, &now) && !mpb_segment_is_current(&place[1], row, &now));
    CHECK(fd_at(&few, ACTIVE) != active && fd_at(&few, 5) == old);
    now.truncations++;
    CHECK(!mpb_segment_is_current(&place[0], row, &now) && fd_at(&few, 5) != old);
    now.truncations--;
    row->partition++;
    CHECK(!mpb_segment_is_current(&place[0], row, &now) && fd_at(&few, 5) != old);
    row->partition--;
    row->topic_id[15]++;
    CHECK(!mpb_segment_is_current(&place[0], row, &now) && fd_at(&few, 5) != old);
    row->topic_id[15]--;
    CHECK_EQ(fd_at(&few, 5), old);
    mpb_segment_close(&place[0]);
    CHECK(place[0].used == 0 && place[0].fd[0] == -1 && place[0].fd[3] == -1 && !is_open(old));
    CHECK(!mpb_segment_is_current(&place[0], row, &now));
    place[0].fd[1] = active; /* of an empty place nothing is open, whatever it says */
    mpb_segment_close(&place[0]);
    CHECK(place[0].fd[1] == -1 && is_open(active));
    end();
}

/* What was retired meanwhile is found under its second name, to be read; the active segment never is. */
static void test_retired_files_are_read(void)
{
    begin();
    put(6, MPB_FILE_LOG, true, 66);
    put(6, MPB_FILE_TXN_INDEX, false, 34);
    put(ACTIVE, MPB_FILE_LOG, true, 1);
    CHECK_EQ(fd_at(&few, ACTIVE), -ENOENT);
    int fd = fd_at(&few, 6);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    CHECK_EQ(mpb_segment_bytes(&few, row, &now, 6, MPB_FILE_LOG), 66);
    CHECK_EQ(fcntl(mpb_segment_fd(&few, row, &now, 6, MPB_FILE_TXN_INDEX), F_GETFL) & O_ACCMODE, O_RDWR);
    CHECK_EQ(mpb_segment_fd(&few, row, &now, ACTIVE, MPB_FILE_TXN_INDEX), -ENOENT);
    int made = mpb_segment_txn_index_fd(&few, row, &now); /* is the only one that is made by being asked for */
    CHECK_EQ(fcntl(made, F_GETFL) & O_ACCMODE, O_RDWR);
    CHECK_EQ(length_of(ACTIVE, MPB_FILE_TXN_INDEX, false), 0);
    CHECK_EQ(mpb_segment_fd(&few, row, &now, ACTIVE, MPB_FILE_TXN_INDEX), made);
    row->log_dir = few.dir_count;
    CHECK_EQ(fd_at(&few, 99), -ENOENT);
    row->log_dir = 0;
    end();
}

/* At the limit of descriptors all places but the one in hand are given back. */
static void test_room_for_a_descriptor(void)
{
    begin();
    put(1, MPB_FILE_LOG, false, 1);
    put(2, MPB_FILE_LOG, false, 1);
    put(2, MPB_FILE_INDEX, false, 8);
    int one = fd_at(&few, 1), two = fd_at(&few, 2);
    let_fail(MPB_IO_OPEN, 0, EMFILE, 1);
    int index = mpb_segment_fd(&few, row, &now, 2, MPB_FILE_INDEX);
    CHECK(!is_open(one) || index == one);
    CHECK(index >= 0 && is_open(two) && few.open_segments[0].used == 0 && few.open_segments[1].used != 0);
    CHECK_EQ(fd_at(&few, 2), two);
    let_fail(MPB_IO_OPEN, 0, EMFILE, 2);
    CHECK_EQ(fd_at(&few, 1), -EMFILE);
    CHECK(!is_open(two));
    mpb_io_fault = NULL;
    two = fd_at(&few, 2);
    let_fail(MPB_IO_OPEN, 0, EIO, 1); /* for any other error nothing is given back */
    CHECK_EQ(fd_at(&few, 1), -EIO);
    CHECK(is_open(two));
    mpb_io_fault = NULL;
    end();
}

/* A partition's places and its list of segments go, nobody else's. */
static void test_places_of_a_partition(void)
{
    const struct mpb_segment_list *list;
    begin();
    fixture_partition(&f, 1);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_EQ(mpb_segment_list_get(&f.log, &f.core.partitions[i], &now, &list), 0);
    put(1, MPB_FILE_LOG, false, 1);
    put(2, MPB_FILE_LOG, false, 1);
    int one = fd_at(&f.log, 1), two = fd_at(&f.log, 2);
    int other = mpb_segment_fd(&f.log, &f.core.partitions[1], &now, 0, MPB_FILE_LOG);
    mpb_segment_close_partition(&f.log, 2); /* has nothing, not even a list */
    mpb_segment_close_partition(&f.log, 0);
    CHECK(!is_open(one) && !is_open(two) && is_open(other));
    CHECK(!f.log.lists[0]->valid && f.log.lists[1]->valid && f.log.lists[2] == NULL);
    mpb_segment_close_all(&f.log);
    CHECK(!is_open(other));
    end();
}

int main(void)
{
    test_names();
    test_made();
    test_made_where_something_else_is();
    test_unmade();
    test_made_at_the_limit_of_descriptors();
    test_files_go(false);
    test_files_go(true);
    test_lengths();
    test_the_oldest_makes_room();
    test_whose_place();
    test_retired_files_are_read();
    test_room_for_a_descriptor();
    test_places_of_a_partition();
    printf("segments: %lu checks\n", checks_made);
    return 0;
}
