/* Truncation of a log to an offset (append rule 11): commit with truncation count + 1, unlink later segments (highest first,
 * indexes before log), cut log and indexes, rebuild producer state, clear. Everything behind the commit is in
 * mpb_truncate_finish, which needs the copy in force alone and may run twice. */
#ifndef MPB_TRUNCATE_H
#define MPB_TRUNCATE_H

#include "log/log.h"

/* Takes everything at and above `offset` out of the log. An offset at or beyond the log end changes nothing; one below
 * log start is OFFSET_OUT_OF_RANGE. 0 or a Kafka error. */
int mpb_truncate(struct mpb_log *log, uint32_t ordinal, int64_t offset);

/* A follower's, to where its leader's log and its own part. The partition must be a follower in this epoch
 * (FENCED_LEADER_EPOCH). Leader epochs that began at or beyond `offset` are cut too, also where no record is. Below log start
 * log start falls with it, below the first segment the log begins anew (start_at.h), as Kafka does it. The high watermark
 * falls to the new end. */
int mpb_truncate_follower(struct mpb_log *log, uint32_t ordinal, int64_t offset, int32_t leader_epoch, int64_t now_ms);

#endif
