#include "log/log_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef MPB_INJECT
int (*mpb_io_fault)(enum mpb_io_call call, size_t *limit);

/* A call that a signal interrupts is made again, here as below. */
static int fault(enum mpb_io_call call, size_t *limit)
{
    int error = EINTR;
    while (error == EINTR)
        error = mpb_io_fault != NULL ? mpb_io_fault(call, limit) : 0;
    return error;
}

static void torn(int fd, const void *head, size_t head_length, const void *tail, size_t limit, uint64_t position)
{
    size_t first = limit < head_length ? limit : head_length;
    if (first > 0 && pwrite(fd, head, first, (off_t)position) < 0)
        _exit(3);
    if (limit > first && pwrite(fd, tail, limit - first, (off_t)(position + first)) < 0)
        _exit(3);
    kill(getpid(), SIGKILL);
}
#else
#define fault(call, limit) ((void)(limit), 0)
#define torn(...) ((void)0)
#endif

int mpb_io_refused(enum mpb_io_call call)
{
    size_t none = 0;
    (void)call;
    return fault(call, &none);
}

int mpb_io_write(int fd, const void *bytes, size_t length, uint64_t position)
{
    size_t limit = length;
    int error = fault(MPB_IO_WRITE, &limit);
    if (error != 0)
        return -error;
    if (limit < length)
        torn(fd, bytes, length, NULL, limit, position);
    while (length > 0) {
        ssize_t n = pwrite(fd, bytes, length, (off_t)position);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        bytes = (const uint8_t *)bytes + n;
        length -= (size_t)n;
        position += (uint64_t)n;
    }
    return 0;
}

int mpb_io_write_two(int fd, const void *head, size_t head_length, const void *tail, size_t tail_length,
                     uint64_t position)
{
    size_t limit = head_length + tail_length;
    int error = fault(MPB_IO_WRITE, &limit);
    if (error != 0)
        return -error;
    if (limit < head_length + tail_length)
        torn(fd, head, head_length, tail, limit, position);
    struct iovec parts[2] = {{(void *)head, head_length}, {(void *)tail, tail_length}};
    ssize_t n;
    do
        n = pwritev(fd, parts, 2, (off_t)position);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if ((size_t)n == head_length + tail_length)
        return 0;
    if ((size_t)n < head_length) {
        error = mpb_io_write(fd, (const uint8_t *)head + n, head_length - (size_t)n, position + (uint64_t)n);
        n = (ssize_t)head_length;
    }
    size_t done = (size_t)n - head_length;
    return error != 0 ? error
                      : mpb_io_write(fd, (const uint8_t *)tail + done, tail_length - done, position + (uint64_t)n);
}

int mpb_io_truncate(int fd, uint64_t length)
{
    int error = mpb_io_refused(MPB_IO_TRUNCATE);
    if (error != 0)
        return -error;
    while (ftruncate(fd, (off_t)length) != 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

int mpb_io_open(int dir_fd, const char *path, int flags)
{
    int error = mpb_io_refused(MPB_IO_OPEN);
    if (error != 0)
        return -error;
    for (;;) {
        int fd = openat(dir_fd, path, flags | O_CLOEXEC, 0644);
        if (fd >= 0)
            return fd;
        if (errno != EINTR)
            return -errno;
    }
}

int mpb_io_unlink(int dir_fd, const char *path)
{
    int error = mpb_io_refused(MPB_IO_UNLINK);
    if (error != 0)
        return -error;
    while (unlinkat(dir_fd, path, 0) != 0)
        if (errno != EINTR)
            return errno == ENOENT ? 0 : -errno;
    return 0;
}

int mpb_io_rename(int dir_fd, const char *from, const char *to)
{
    int error = mpb_io_refused(MPB_IO_RENAME);
    if (error != 0)
        return -error;
    while (renameat(dir_fd, from, dir_fd, to) != 0)
        if (errno != EINTR)
            return errno == ENOENT ? 0 : -errno;
    return 0;
}

int mpb_io_sync(int fd, bool data_only)
{
    int error = mpb_io_refused(MPB_IO_SYNC);
    if (error != 0)
        return -error;
    while ((data_only ? fdatasync(fd) : fsync(fd)) != 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

int64_t mpb_io_read(int fd, void *bytes, size_t length, uint64_t position)
{
    size_t done = 0;
    int error = mpb_io_refused(MPB_IO_READ);
    if (error != 0)
        return -error;
    while (done < length) {
        ssize_t n = pread(fd, (uint8_t *)bytes + done, length - done, (off_t)(position + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

void mpb_io_close(int fd) { close(fd); }

int mpb_io_status(int fd, struct mpb_io_status *out)
{
    struct stat status;
    int error = mpb_io_refused(MPB_IO_STATUS);
    if (error != 0)
        return -error;
    while (fstat(fd, &status) != 0)
        if (errno != EINTR)
            return -errno;
    out->bytes = (uint64_t)status.st_size;
    out->is_file = S_ISREG(status.st_mode);
    out->modified_ms = (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
    return 0;
}

int mpb_io_make_dir(int dir_fd, const char *path)
{
    int error = mpb_io_refused(MPB_IO_MAKE_DIR);
    if (error != 0)
        return -error;
    while (mkdirat(dir_fd, path, 0755) != 0)
        if (errno != EINTR)
            return errno == EEXIST ? 0 : -errno;
    return 0;
}

/* Whether a name is that of a regular file, or of a link to one. Nobody is asked where the directory itself says so. */
static bool is_file(DIR *dir, const struct dirent *entry)
{
    struct stat status;
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_REG;
    return fstatat(dirfd(dir), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode);
}

static int visit_names(DIR *dir, int (*visit)(void *context, const char *name), void *context)
{
    int result = mpb_io_refused(MPB_IO_LIST);
    if (result != 0)
        return -result;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL)
            return -errno;
        result = is_file(dir, entry) ? visit(context, entry->d_name) : 0;
        if (result != 0)
            return result;
    }
}

int mpb_io_list(int dir_fd, const char *path, int (*visit)(void *context, const char *name), void *context)
{
    int fd = mpb_io_open(dir_fd, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int error = -errno;
        close(fd);
        return error;
    }
    int result = visit_names(dir, visit, context);
    closedir(dir);
    return result;
}
