/* What the kernel may answer to a call on a file and seldom does: only a part is read or written, nothing more is there, a
 * signal came first. The calls stand here instead of libc's: each does a few bytes, after so many interruptions. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log/log_io.h"
#include "tests/stepping/check.h"

enum { BYTES = 23, AT = 1000 };

static size_t piece = SIZE_MAX;        /* bytes that one call does at most */
static int interruptions, interrupted; /* before each call; so many were had */
static int failure;                    /* errno of the next call that is not interrupted */
static uint32_t calls;

static bool no_memory;    /* for a directory that is read */
static mode_t asked_mode; /* of the last file or directory that was made */

/* Whether this call does nothing, with errno set; else errno is what it was, as a call that succeeds leaves it. */
static bool ends_early(void)
{
    calls++;
    if (interrupted < interruptions) {
        interrupted++;
        errno = EINTR;
        return true;
    }
    interrupted = 0;
    errno = failure != 0 ? failure : errno;
    return failure != 0;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

ssize_t pread(int fd, void *bytes, size_t length, off_t at)
{
    return ends_early() ? -1 : syscall(SYS_pread64, fd, bytes, least(length, piece), at);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
{
    return ends_early() ? -1 : syscall(SYS_pwrite64, fd, bytes, least(length, piece), at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    size_t done = 0, left = piece;
    if (ends_early())
        return -1;
    for (int i = 0; i < count && left > 0; i++) {
        size_t length = least(parts[i].iov_len, left);
        if (syscall(SYS_pwrite64, fd, parts[i].iov_base, length, at + (off_t)done) != (long)length)
            return -1;
        done += length;
        left -= length;
    }
    return (ssize_t)done;
}

int ftruncate(int fd, off_t length) { return ends_early() ? -1 : (int)syscall(SYS_ftruncate, fd, length); }
int fsync(int fd) { return ends_early() ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return ends_early() ? -1 : (int)syscall(SYS_fdatasync, fd); }
int unlinkat(int dir, const char *path, int flags)
{
    return ends_early() ? -1 : (int)syscall(SYS_unlinkat, dir, path, flags);
}
int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return ends_early() ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}
int mkdirat(int dir, const char *path, mode_t mode)
{
    asked_mode = mode;
    return ends_early() ? -1 : (int)syscall(SYS_mkdirat, dir, path, mode);
}
int openat(int dir, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    asked_mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return ends_early() ? -1 : (int)syscall(SYS_openat, dir, path, flags, asked_mode);
}
DIR *fdopendir(int fd)
{
    static DIR *(*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fdopendir");
    errno = no_memory ? ENOMEM : errno;
    return no_memory ? NULL : real(fd);
}

static void begin(size_t bytes, int interrupts)
{
    piece = bytes;
    interruptions = interrupts;
    interrupted = failure = 0;
    calls = 0;
}

static void same_bytes(int fd, const char *wanted, uint64_t at)
{
    char found[BYTES + 8] = {0};
    CHECK_EQ(syscall(SYS_pread64, fd, found, sizeof found, (off_t)at), BYTES);
    CHECK_EQ(memcmp(found, wanted, BYTES), 0);
}

/* In pieces of every size, the two parts of a gather write divided everywhere. */
static void written_and_read(int fd)
{
    static const char WANTED[BYTES + 1] = "twenty-three bytes long";
    for (size_t bytes = 1; bytes <= BYTES + 1; bytes++)
        for (size_t head = 0; head <= BYTES; head++) {
            char found[BYTES + 8] = {0};
            uint8_t tail[BYTES]; /* of which nothing lies next to the head */
            memcpy(tail, WANTED + head, BYTES - head);
            CHECK_EQ(syscall(SYS_ftruncate, fd, 0), 0);
            begin(bytes, (int)bytes % 3);
            CHECK_EQ(mpb_io_write_two(fd, WANTED, head, tail, BYTES - head, AT + head), 0);
            same_bytes(fd, WANTED, AT + head);
            CHECK_EQ(syscall(SYS_ftruncate, fd, 0), 0);
            CHECK_EQ(mpb_io_write(fd, WANTED, BYTES, AT), 0);
            same_bytes(fd, WANTED, AT);
            CHECK_EQ(mpb_io_read(fd, found, BYTES, AT), BYTES);
            CHECK_EQ(memcmp(found, WANTED, sizeof found - 8), 0);
            CHECK_EQ(mpb_io_read(fd, found, BYTES + 5, AT + 3), BYTES - 3); /* the file ends before */
            CHECK_EQ(mpb_io_read(fd, found, 5, AT + BYTES), 0);
        }
}

/* A disk that takes nothing more says so by an error, also where it says nothing. */
static void failing(int fd)
{
    char bytes[BYTES] = {0};
    begin(0, 0);
    CHECK_EQ(mpb_io_write(fd, bytes, BYTES, 0), -EIO);
    begin(0, 1); /* nor where the call before was interrupted */
    CHECK_EQ(mpb_io_write_two(fd, bytes, 7, bytes, 9, 0), -EIO);
    for (int interrupts = 0; interrupts < 3; interrupts++) {
        begin(5, interrupts);
        failure = ENOSPC;
        CHECK_EQ(mpb_io_write(fd, bytes, BYTES, 0), -ENOSPC);
        CHECK_EQ(mpb_io_write_two(fd, bytes, 7, bytes, 9, 0), -ENOSPC);
        CHECK_EQ(mpb_io_read(fd, bytes, BYTES, 0), -ENOSPC);
        CHECK_EQ(mpb_io_truncate(fd, 3), -ENOSPC);
        CHECK_EQ(mpb_io_sync(fd, true), -ENOSPC);
        CHECK_EQ(mpb_io_sync(fd, false), -ENOSPC);
        CHECK_EQ(mpb_io_open(AT_FDCWD, "/", O_RDONLY), -ENOSPC);
        CHECK_EQ(mpb_io_unlink(AT_FDCWD, "/nowhere"), -ENOSPC);
        CHECK_EQ(mpb_io_rename(AT_FDCWD, "/nowhere", "/there"), -ENOSPC);
        CHECK_EQ(mpb_io_make_dir(AT_FDCWD, "/nowhere"), -ENOSPC);
        CHECK_EQ(calls, 10u * (uint32_t)(interrupts + 1));
        failure = ENOENT; /* what is not there counts as removed */
        CHECK_EQ(mpb_io_unlink(AT_FDCWD, "/nowhere"), 0);
        CHECK_EQ(mpb_io_rename(AT_FDCWD, "/nowhere", "/there"), 0);
        CHECK_EQ(mpb_io_make_dir(AT_FDCWD, "/nowhere"), -ENOENT);
        CHECK_EQ(mpb_io_open(AT_FDCWD, "/nowhere", O_RDONLY), -ENOENT);
        failure = EEXIST;
        CHECK_EQ(mpb_io_make_dir(AT_FDCWD, "/nowhere"), 0);
        CHECK_EQ(mpb_io_unlink(AT_FDCWD, "/nowhere"), -EEXIST);
    }
}

static void interrupted_calls(int fd)
{
    struct mpb_io_status status;
    begin(SIZE_MAX, 2);
    CHECK_EQ(mpb_io_truncate(fd, 17), 0);
    CHECK_EQ(mpb_io_sync(fd, true), 0);
    CHECK_EQ(mpb_io_sync(fd, false), 0);
    CHECK_EQ(mpb_io_status(fd, &status), 0);
    CHECK_EQ(status.bytes, 17);
    int root = mpb_io_open(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY);
    CHECK(root >= 0);
    CHECK_EQ(fcntl(root, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    mpb_io_close(root);
    CHECK_EQ(calls, 12u);
}

/* The time of the last write in whole milliseconds. */
static void times_of_files(int fd)
{
    static const struct {
        time_t s;
        long ns;
        int64_t ms;
    } CASES[] = {
        {0, 999999, 0}, {0, 1000000, 1}, {7, 0, 7000}, {7, 999999999, 7999}, {1700000000, 5000000, 1700000000005}};
    struct mpb_io_status status;
    begin(SIZE_MAX, 0);
    CHECK_EQ(mpb_io_truncate(fd, 17), 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct timespec times[2] = {{1, 1}, {CASES[i].s, CASES[i].ns}};
        CHECK_EQ(futimens(fd, times), 0);
        CHECK_EQ(mpb_io_status(fd, &status), 0);
        CHECK_EQ(status.bytes, 17);
        CHECK_EQ(status.modified_ms, CASES[i].ms);
    }
    CHECK_EQ(mpb_io_status(-1, &status), -EBADF);
}

static int seen, answer;

static int see(void *context, const char *name)
{
    CHECK(context == &seen);
    seen += name[0] != '.';
    return name[0] != '.' ? answer : 0;
}

static int next_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

/* Every name is looked at, until somebody has seen enough; and whatever comes of it, the directory is closed. */
static void names_and_modes(void)
{
    char dir[200];
    const char *parent = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    CHECK(snprintf(dir, sizeof dir, "%s/mpb-calls-XXXXXX", parent) < (int)sizeof dir);
    CHECK(mkdtemp(dir) != NULL);
    int at = open(dir, O_RDONLY | O_DIRECTORY);
    const int next = next_descriptor();
    begin(SIZE_MAX, 1);
    int fd = mpb_io_open(at, "file", O_CREAT | O_RDWR);
    CHECK(fd == next && asked_mode == 0644);
    mpb_io_close(fd);
    CHECK(next_descriptor() == next && mpb_io_make_dir(at, "directory") == 0 && asked_mode == 0755);
    CHECK(mkfifoat(at, "fifo", 0600) == 0 && symlinkat("nowhere", at, "lost") == 0 &&
          symlinkat("file", at, "link") == 0);
    CHECK(mpb_io_list(at, ".", see, &seen) == 0 && seen == 2); /* the file, and the link to it */
    answer = -7;
    CHECK(mpb_io_list(at, ".", see, &seen) == -7 && seen == 3);
    answer = 1;
    CHECK(mpb_io_list(at, ".", see, &seen) == 1 && seen == 4);
    for (const char *const *name = (const char *const[]){"fifo", "lost", "link", NULL}; *name != NULL; name++)
        CHECK_EQ(mpb_io_unlink(at, *name), 0);
    CHECK_EQ(mpb_io_list(at, "nowhere", see, &seen), -ENOENT);
    CHECK_EQ(mpb_io_list(at, "file", see, &seen), -ENOTDIR);
    no_memory = true;
    CHECK_EQ(mpb_io_list(at, ".", see, &seen), -ENOMEM);
    no_memory = false;
    CHECK(next_descriptor() == next && seen == 4);
    CHECK_EQ(mpb_io_rename(at, "file", "other"), 0);
    CHECK_EQ(mpb_io_unlink(at, "other"), 0);
    CHECK_EQ(mpb_io_unlink(at, "directory"), -EISDIR); /* files alone */
    begin(SIZE_MAX, 0);
    CHECK_EQ(unlinkat(at, "directory", AT_REMOVEDIR), 0);
    close(at);
    CHECK_EQ(rmdir(dir), 0);
}

int main(void)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    CHECK(fd >= 0);
    written_and_read(fd);
    failing(fd);
    interrupted_calls(fd);
    times_of_files(fd);
    names_and_modes();
    close(fd);
    printf("short calls: %lu checks\n", checks_made);
    return 0;
}
