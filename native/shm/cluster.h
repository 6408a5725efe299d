/* What this broker was told of its cluster: rows of `assignments` and `brokers` (layout_cluster.h). The controller process
 * alone writes; a write is one release store of a selector, so a reader sees a row before or after, and a writer that dies
 * leaves the row as it was. `brokers` as a whole changes with the header's `cluster_generation`, raised last. */
#ifndef MPB_CLUSTER_H
#define MPB_CLUSTER_H

#include "shm/core.h"

enum { MPB_CLUSTER_BUSY = -1 };

void mpb_assignment_write(struct mpb_core *core, uint32_t row, const struct mpb_assignment_copy *next);
/* 0, or MPB_CLUSTER_BUSY when the row changed all the time. */
int mpb_assignment_read(const struct mpb_core *core, uint32_t row, struct mpb_assignment_copy *out);

void mpb_broker_write(struct mpb_core *core, uint32_t row, const struct mpb_broker_copy *next);
int mpb_broker_read(const struct mpb_core *core, uint32_t row, struct mpb_broker_copy *out);

#endif
