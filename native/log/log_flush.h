/* Making a partition's log durable. Never under the partition's lock; the log keeper groups these calls, a handler makes
 * one when flush.messages is reached. A position counts as flushed only when everything below it is (append rule 18). */
#ifndef MPB_LOG_FLUSH_H
#define MPB_LOG_FLUSH_H

#include "log/log.h"

/* Syncs every segment from the flushed offset to the log end, the directory too if there is more than one. *flushed is
 * the offset below which all is on disk. A failed sync takes the log directory offline: it is never tried again. */
int mpb_log_flush(struct mpb_log *log, uint32_t ordinal, int64_t *flushed);

/* Partitions, from row *next on, with records that are not synced; `rolled_only`: with such records below the active
 * segment. Fills `out` with at most `most` rows, returns how many and leaves in *next where to go on. Waits for no lock;
 * leaves out who holds a lock that others wait for, until that holder goes on. */
uint32_t mpb_log_unflushed(struct mpb_log *log, bool rolled_only, uint32_t *next, uint32_t *out, uint32_t most);

/* Log recovery knows that everything below `offset` is on disk. 0 or a Kafka error. */
int mpb_log_set_flushed(struct mpb_log *log, uint32_t ordinal, int64_t offset);

#endif
