/* Control batches as they are read back from a log. Pure. */
#ifndef MPB_MARKER_READ_H
#define MPB_MARKER_READ_H

#include "record/record_batch.h"

enum mpb_marker_type { MPB_MARKER_ABORT = 0, MPB_MARKER_COMMIT = 1 };

/* Reads the record of a control batch: its type (0 abort, 1 commit, others mean something else) and the coordinator's
 * epoch. False: it is not one of a transaction. */
bool mpb_marker_read(const struct mpb_batch_info *batch, int16_t *type, int32_t *coordinator_epoch);

static inline bool mpb_is_abort(const struct mpb_batch_info *batch)
{
    int16_t type;
    int32_t coordinator_epoch;
    return (batch->attributes & MPB_ATTRIBUTE_CONTROL) != 0 && mpb_marker_read(batch, &type, &coordinator_epoch) &&
           type == MPB_MARKER_ABORT;
}

#endif
