#include "log/log_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "log/io_error.h"
#include "log/log_io.h"
#include "log/segment.h"

int mpb_log_open(struct mpb_log *log, struct mpb_core *core, uint32_t slot, const char *const *dirs, uint32_t dir_count,
                 uint32_t open_segments, uint32_t *bad_dir)
{
    memset(log, 0, sizeof *log);
    *bad_dir = 0;
    if (dir_count > MPB_MAX_LOG_DIRS || slot >= MPB_MAX_SLOTS)
        return -EINVAL;
    log->core = core;
    log->slot = slot;
    log->segment_sets = (open_segments + MPB_SEGMENT_WAYS - 1) / MPB_SEGMENT_WAYS;
    if (log->segment_sets == 0)
        log->segment_sets = 1;
    log->open_segments = calloc((size_t)log->segment_sets * MPB_SEGMENT_WAYS, sizeof *log->open_segments);
    log->lists = calloc(core->partition_count, sizeof *log->lists);
    if (log->open_segments == NULL || log->lists == NULL) {
        mpb_log_close(log);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < dir_count; i++) {
        bool may_lack = i > 0; /* without the first, which holds the store, there is no broker */
        int fd = -1;
        if (!may_lack || mpb_log_dir_online(core, i))
            fd = mpb_io_open(AT_FDCWD, dirs[i], O_RDONLY | O_DIRECTORY);
        else
            fd = -EIO;
        if (fd < 0 && may_lack && mpb_io_error_condemns(fd, false)) {
            mpb_log_dir_fail(core, i);
            log->dir_fd[log->dir_count++] = -1;
            continue;
        }
        if (fd < 0) {
            *bad_dir = i;
            mpb_log_close(log);
            return fd;
        }
        log->dir_fd[log->dir_count++] = fd;
    }
    return 0;
}

void mpb_log_close(struct mpb_log *log)
{
    if (log->open_segments != NULL)
        mpb_segment_close_all(log);
    for (uint32_t i = 0; log->lists != NULL && i < log->core->partition_count; i++)
        if (log->lists[i] != NULL) {
            free(log->lists[i]->bases);
            free(log->lists[i]);
        }
    for (uint32_t i = 0; i < log->dir_count; i++)
        if (log->dir_fd[i] >= 0)
            mpb_io_close(log->dir_fd[i]);
    free(log->open_segments);
    free(log->lists);
    memset(log, 0, sizeof *log);
}
