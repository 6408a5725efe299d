/* Making a partition's log durable. Never under the partition's lock; the log keeper groups these calls, a handler makes
 * one when flush.messages is reached. A position counts as flushed only when everything below it is (rule 18). */
#ifndef MPB_LOG_FLUSH_H
#define MPB_LOG_FLUSH_H

#include "log.h"

/* Syncs every segment from the flushed offset to the log end, the directory too if there is more than one. *flushed is
 * the offset below which all is on disk. A failed sync takes the log directory offline: it is never tried again. */
int mpb_log_flush(struct mpb_log *log, uint32_t ordinal, int64_t *flushed);

#endif
