/* What a failed call on a file of the log means: the one table of errnos, for C and (python/py_log_io.c) for Python. */
#ifndef MPB_IO_ERROR_H
#define MPB_IO_ERROR_H

#include <stdbool.h>

enum mpb_io_error_class {
    MPB_IO_NO_ERROR,
    MPB_IO_PASSING, /* descriptors or memory ran out, or a signal came: nothing was done, the next try may succeed */
    MPB_IO_FULL,    /* no room on the disk or in a quota: as above, until somebody makes room */
    MPB_IO_GONE,    /* no such file: what retention or a deletion took away, or somebody else */
    MPB_IO_CONTENT, /* a file does not hold what it must (EBADMSG), or too little (ERANGE), or something else has its name
                       (EEXIST, ENOTEMPTY, EISDIR, ENOTDIR, ELOOP): the disk is well */
    MPB_IO_BROKEN   /* all else: what the kernel could not do may be lost even if a second try succeeds */
};

/* All of them take a negative errno, as the calls of log_io.h return it: a positive number is a descriptor. */
enum mpb_io_error_class mpb_io_error_class(int error);

/* Whether the error takes the log directory offline until the broker is started again: it is broken, or a file is gone
 * that has to be there. `syncing`: the call was a sync. A disk that is full then has condemned it, too, because the
 * kernel gives up pages that it could not write, and the next sync would say that all is well. (It reports such a loss
 * as EIO, ENOSPC or EDQUOT, never as want of memory.) */
bool mpb_io_error_condemns(int error, bool syncing);

/* Whether closing descriptors may help. */
bool mpb_io_error_wants_descriptors(int error);

#endif
