/* The leader epochs that a log's own batches tell, for a start that cannot believe the file. */
#ifndef MPB_EPOCH_SCAN_H
#define MPB_EPOCH_SCAN_H

#include "log/log.h"

/* Where epochs begin from `offset` on, by the headers of the batches; at most `room` of them in `out`, *count says how many
 * there are. Nobody else may change the log meanwhile. 0 or a Kafka error. */
int mpb_epoch_scan(struct mpb_log *log, uint32_t ordinal, int64_t offset, struct mpb_epoch_start *out, uint32_t room,
                   uint32_t *count);

#endif
