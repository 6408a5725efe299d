/* Makes and ends a process's struct mpb_log. */
#ifndef MPB_LOG_OPEN_H
#define MPB_LOG_OPEN_H

#include "log/log.h"

/* Opens the log directories. Returns 0 or a negative errno, with *bad_dir the number of the one that failed. */
int mpb_log_open(struct mpb_log *log, struct mpb_core *core, uint32_t slot, const char *const *dirs, uint32_t dir_count,
                 uint32_t open_segments, uint32_t *bad_dir);
void mpb_log_close(struct mpb_log *log);

#endif
