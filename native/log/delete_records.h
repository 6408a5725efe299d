/* DeleteRecords (KIP-107): the log start moves up to where a client says, in one commit; retention gives the segments
 * below it back. What a client was told must hold after any crash, so an answer waits until the log keeper has written
 * the log start down (append rule 20). Three words say how far that is: log start in force, `start_asked`,
 * `start_written`. */
#ifndef MPB_DELETE_RECORDS_H
#define MPB_DELETE_RECORDS_H

#include "log/log.h"

#define MPB_TO_HIGH_WATERMARK (-1)

/* Any handler. Moves log start up to `offset`, or as far as it may; never back. *start: where it is then, which may be
 * told only when `start_written` has reached it; the log keeper is to be rung. OFFSET_OUT_OF_RANGE for an offset below 0
 * or above the high watermark. */
int mpb_delete_records(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t offset, int64_t *start);

/* Partitions whose log start was asked for and is not written down, from row *next on, at most `most`. */
uint32_t mpb_starts_asked(struct mpb_log *log, uint32_t *next, uint32_t *out, uint32_t most);

/* The log keeper: a checkpoint on disk says `offset`. Rings the handlers that wait for it. */
int mpb_start_written(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t offset);

#endif
