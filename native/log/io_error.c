#include "log/io_error.h"

#include <errno.h>

enum mpb_io_error_class mpb_io_error_class(int error)
{
    switch (-error) {
    case 0:
        return MPB_IO_NO_ERROR;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EINTR:
    case EAGAIN:
        return MPB_IO_PASSING;
    case ENOSPC:
    case EDQUOT:
        return MPB_IO_FULL;
    case ENOENT:
        return MPB_IO_GONE;
    case EBADMSG:
    case ERANGE:
    case EEXIST:
    case ENOTEMPTY:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
        return MPB_IO_CONTENT;
    default:
        return MPB_IO_BROKEN;
    }
}

bool mpb_io_error_condemns(int error, bool syncing)
{
    enum mpb_io_error_class found = mpb_io_error_class(error);
    return found == MPB_IO_BROKEN || found == MPB_IO_GONE || (found == MPB_IO_FULL && syncing);
}

bool mpb_io_error_wants_descriptors(int error) { return error == -EMFILE || error == -ENFILE; }
