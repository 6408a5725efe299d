/* A follower's log begun anew at an offset that its own records do not lead to: everything out, log start, end and high
 * watermark are the offset. */
#ifndef MPB_START_AT_H
#define MPB_START_AT_H

#include "log/log.h"

/* `leader_epoch`: the partition must be a follower in it (FENCED_LEADER_EPOCH). The offset lies beyond the log's end or below
 * its first segment: OFFSET_OUT_OF_RANGE for one in between, which is a truncation's; an empty log that begins there
 * stays. 0 or a Kafka error. */
int mpb_start_at(struct mpb_log *log, uint32_t ordinal, int64_t offset, int32_t leader_epoch, int64_t now_ms);
/* The same with the lock held and the offset looked at. */
int mpb_start_at_locked(struct mpb_log *log, struct mpb_partition *row, int64_t offset, int64_t now_ms);

#endif
