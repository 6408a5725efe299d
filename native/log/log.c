#include "log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    log->segments = calloc((size_t)log->segment_sets * MPB_SEGMENT_WAYS, sizeof *log->segments);
    log->lists = calloc(core->partition_count, sizeof *log->lists);
    if (log->segments == NULL || log->lists == NULL) {
        mpb_log_close(log);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < dir_count; i++) {
        int fd = open(dirs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
            int error = -errno;
            *bad_dir = i;
            mpb_log_close(log);
            return error;
        }
        log->dir_fd[log->dir_count++] = fd;
    }
    return 0;
}

void mpb_log_close(struct mpb_log *log)
{
    if (log->segments != NULL)
        mpb_segment_close_all(log);
    for (uint32_t i = 0; log->lists != NULL && i < log->core->partition_count; i++)
        if (log->lists[i] != NULL) {
            free(log->lists[i]->bases);
            free(log->lists[i]);
        }
    for (uint32_t i = 0; i < log->dir_count; i++)
        close(log->dir_fd[i]);
    free(log->segments);
    free(log->lists);
    memset(log, 0, sizeof *log);
}

int mpb_log_io_error(struct mpb_log *log, const struct mpb_partition *row, int error)
{
    mpb_log_count(log, MPB_C_LOG_IO_ERRORS, 1);
    if (error != -ENOSPC && error != -EDQUOT && error != -EMFILE && error != -ENFILE && error != -ENOMEM &&
        error != -EBADMSG)
        mpb_log_dir_fail(log->core, row->log_dir);
    return MPB_ERR_KAFKA_STORAGE_ERROR;
}

void mpb_log_dir_fail(struct mpb_core *core, uint32_t log_dir)
{
    atomic_fetch_or(&core->header->offline_log_dirs, 1u << log_dir % MPB_MAX_LOG_DIRS);
}

bool mpb_log_dir_online(const struct mpb_core *core, uint32_t log_dir)
{
    return (mpb_load_acquire(&core->header->offline_log_dirs) >> (log_dir % MPB_MAX_LOG_DIRS) & 1) == 0;
}
