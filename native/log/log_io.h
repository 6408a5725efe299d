/* The only way from the log to the kernel: every file call of native/log is made here; those of mpbroker/log, in Python, are
 * made in mpbroker/log/disk.py and ask the same hook. Returns 0 or a negative errno; what a signal interrupts is made
 * again. In test builds a fault hook sees every call first: it can fail it, or let a write stop after some bytes and kill
 * the process (the crash point append.log_torn(n)). The thread that holds the partition's lock makes these calls itself
 * (append rule 16). */
#ifndef MPB_LOG_IO_H
#define MPB_LOG_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mpb_io_call {
    MPB_IO_READ,
    MPB_IO_WRITE,
    MPB_IO_TRUNCATE,
    MPB_IO_OPEN,
    MPB_IO_UNLINK,
    MPB_IO_RENAME,
    MPB_IO_SYNC,
    MPB_IO_STATUS,
    MPB_IO_LIST,
    MPB_IO_MAKE_DIR
};

struct mpb_io_status {
    uint64_t bytes;
    int64_t modified_ms; /* since 1970 */
    bool is_file;        /* a regular one */
};

int mpb_io_write(int fd, const void *bytes, size_t length, uint64_t position);
/* Writes `head` and then `tail`, both whole. */
int mpb_io_write_two(int fd, const void *head, size_t head_length, const void *tail, size_t tail_length,
                     uint64_t position);
int mpb_io_truncate(int fd, uint64_t length);
/* Returns a descriptor or a negative errno. */
int mpb_io_open(int dir_fd, const char *path, int flags);
void mpb_io_close(int fd);
int mpb_io_status(int fd, struct mpb_io_status *out);
/* A directory that is there counts as made. */
int mpb_io_make_dir(int dir_fd, const char *path);
/* Calls `visit` for every regular file's name in a directory until it returns something else than 0, which is then
 * returned. What else lies there is nobody's segment, whatever its name. */
int mpb_io_list(int dir_fd, const char *path, int (*visit)(void *context, const char *name), void *context);
/* A file that is not there counts as removed. */
int mpb_io_unlink(int dir_fd, const char *path);
/* Likewise: a file that is not there counts as renamed. */
int mpb_io_rename(int dir_fd, const char *from, const char *to);
int mpb_io_sync(int fd, bool data_only);
/* Reads until `length` bytes or the end of the file; returns the bytes read or a negative errno. */
int64_t mpb_io_read(int fd, void *bytes, size_t length, uint64_t position);
/* Asks the fault hook about a call that is made elsewhere: Python's, of the same files. Returns 0 to go on or a positive
 * errno. */
int mpb_io_refused(enum mpb_io_call call);

#ifdef MPB_INJECT
/* Returns 0 to go on or a positive errno to fail. For a write, *limit may be lowered: that many bytes are written and
 * the process is killed. */
extern int (*mpb_io_fault)(enum mpb_io_call call, size_t *limit);
#endif

#endif
