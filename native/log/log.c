#include "log/log.h"

#include "log/io_error.h"

void mpb_log_note_error(struct mpb_log *log, const struct mpb_partition *row, int error)
{
    struct mpb_process *self = &log->core->processes[log->slot];
    uintptr_t at = (uintptr_t)row, first = (uintptr_t)log->core->partitions;
    uintptr_t index = (at - first) / sizeof *row; /* a row that is not of the table is a copy: nobody can name it */
    bool known = at >= first && index < log->core->partition_count;
    mpb_store_relaxed(&self->log_errno, (uint32_t)-error);
    mpb_store_relaxed(&self->log_errno_row, known ? (uint32_t)index + 1 : 0);
    mpb_log_count(log, MPB_C_LOG_IO_ERRORS, 1);
}

int mpb_log_io_error(struct mpb_log *log, const struct mpb_partition *row, int error)
{
    mpb_log_note_error(log, row, error);
    if (mpb_io_error_condemns(error, false))
        mpb_log_dir_fail(log->core, row->log_dir);
    return MPB_ERR_KAFKA_STORAGE_ERROR;
}

int mpb_log_sync_error(struct mpb_log *log, const struct mpb_partition *row, int error)
{
    if (mpb_io_error_condemns(error, true))
        mpb_log_dir_fail(log->core, row->log_dir);
    return mpb_log_io_error(log, row, error);
}

void mpb_log_dir_fail(struct mpb_core *core, uint32_t log_dir)
{
    atomic_fetch_or(&core->header->offline_log_dirs, 1u << log_dir % MPB_MAX_LOG_DIRS);
}

static void set_dir_bit(mpb_atomic32 *word, uint32_t log_dir, bool set)
{
    uint32_t bit = 1u << log_dir % MPB_MAX_LOG_DIRS;
    if (set)
        atomic_fetch_or(word, bit);
    else
        atomic_fetch_and(word, ~bit);
}

void mpb_log_dir_refuse_appends(struct mpb_core *core, uint32_t log_dir, bool refuse)
{
    set_dir_bit(&core->header->full_log_dirs, log_dir, refuse);
}

void mpb_log_dir_refuse_groups(struct mpb_core *core, uint32_t log_dir, bool refuse)
{
    set_dir_bit(&core->header->spent_log_dirs, log_dir, refuse);
}

bool mpb_log_takes_own_appends(const struct mpb_log *log, uint32_t log_dir)
{
    bool spent = (mpb_load_acquire(&log->core->header->spent_log_dirs) >> (log_dir % MPB_MAX_LOG_DIRS) & 1) != 0;
    return mpb_log_dir_takes_appends(log->core, log_dir) || (log->slot == MPB_SLOT_COORDINATOR && !spent);
}

bool mpb_log_dir_takes_appends(const struct mpb_core *core, uint32_t log_dir)
{
    return (mpb_load_acquire(&core->header->full_log_dirs) >> (log_dir % MPB_MAX_LOG_DIRS) & 1) == 0;
}

bool mpb_log_dir_online(const struct mpb_core *core, uint32_t log_dir)
{
    return (mpb_load_acquire(&core->header->offline_log_dirs) >> (log_dir % MPB_MAX_LOG_DIRS) & 1) == 0;
}
