/* Rolling: a new active segment at the log end. Part of an append that needs it, or asked for by the log keeper. */
#ifndef MPB_ROLL_H
#define MPB_ROLL_H

#include "log/append_options.h"
#include "log/log.h"
#include "record/record_batch.h"

/* Kafka's rules: full by size or by the batch's time, an index full, an offset too far from the base. Never for an
 * empty segment. */
bool mpb_roll_is_due(const struct mpb_partition_copy *now, const struct mpb_append_options *options,
                     const struct mpb_batch_info *batch, int64_t max_timestamp, int64_t now_ms);

/* The caller holds the lock and no intent is set. Rolling an empty segment is refused in silence: there is nothing to
 * roll. 0 or a Kafka error. */
int mpb_roll_locked(struct mpb_log *log, struct mpb_partition *row, int64_t now_ms);
int mpb_roll(struct mpb_log *log, uint32_t ordinal, int64_t now_ms);

/* Appends one entry to the offset index and, if the largest timestamp grew, one to the time index; moves the lengths
 * in `next`. Returns 0 or a negative errno. */
int mpb_segment_index(struct mpb_log *log, const struct mpb_partition *row, struct mpb_partition_copy *next,
                      int64_t last_offset, uint32_t position);

#endif
