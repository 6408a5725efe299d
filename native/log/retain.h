/* Deletion of old segments by time, by size and by log start. The log keeper runs it. Log start is flipped first, under
 * the lock; then the files are renamed to ".deleted", oldest segment first, indexes before log (append rule 12). Whoever dies
 * in between leaves segments wholly below log start, which no reader looks at and the next run takes away. The keeper
 * unlinks the ".deleted" files after file.delete.delay.ms, so that open readers are not surprised. */
#ifndef MPB_RETAIN_H
#define MPB_RETAIN_H

#include "log/log.h"

struct mpb_retain_rules {
    int64_t retention_ms;    /* -1: no limit */
    int64_t retention_bytes; /* -1: no limit */
    int64_t now_ms;
    const uint8_t *topic_id; /* NULL: whatever partition has the row */
};

#define MPB_RETAIN_MAX_REMOVED 1024 /* segments of one call; the next one goes on */

/* Fills `removed` (bases, oldest first) with what was renamed. 0 or a Kafka error. */
int mpb_retain(struct mpb_log *log, uint32_t ordinal, const struct mpb_retain_rules *rules,
               int64_t removed[MPB_RETAIN_MAX_REMOVED], uint32_t *removed_count);

#endif
