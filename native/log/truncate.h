/* Truncation of a log to an offset (append rule 11): commit with truncation count + 1, unlink later segments (highest first,
 * indexes before log), cut log and indexes, rebuild producer state, clear. Everything behind the commit is in
 * mpb_truncate_finish, which needs the copy in force alone and may run twice. */
#ifndef MPB_TRUNCATE_H
#define MPB_TRUNCATE_H

#include "log/log.h"

/* Takes everything at and above `offset` out of the log. An offset at or beyond the log end changes nothing; one below
 * log start is OFFSET_OUT_OF_RANGE. 0 or a Kafka error. */
int mpb_truncate(struct mpb_log *log, uint32_t ordinal, int64_t offset);

#endif
