/* What the kernel may answer to a call on a file and seldom does: only a part is read or written, nothing more is there, a
 * signal came first. The calls stand here instead of libc's: each does a few bytes, after so many interruptions. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
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

/* Whether this call does nothing, with errno set. */
static bool ends_early(void)
{
    calls++;
    if (interrupted < interruptions) {
        interrupted++;
        errno = EINTR;
        return true;
    }
    interrupted = 0;
    errno = failure;
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
    return ends_early() ? -1 : (int)syscall(SYS_mkdirat, dir, path, mode);
}
int openat(int dir, const char *path, int flags, ...)
{
    return ends_early() ? -1 : (int)syscall(SYS_openat, dir, path, flags, 0644);
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
            CHECK_EQ(syscall(SYS_ftruncate, fd, 0), 0);
            begin(bytes, (int)bytes % 3);
            CHECK_EQ(mpb_io_write_two(fd, WANTED, head, WANTED + head, BYTES - head, AT + head), 0);
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

int main(void)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    CHECK(fd >= 0);
    written_and_read(fd);
    failing(fd);
    interrupted_calls(fd);
    close(fd);
    printf("short calls: %lu checks\n", checks_made);
    return 0;
}
