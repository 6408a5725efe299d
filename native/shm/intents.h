/* Which request a change of a partition that is under way names. A repairer of that partition, also one that was stopped in
 * its repair and goes on much later, writes the result into that request's cell: until the intent is gone, the request is
 * not answered and its entry not used again. */
#ifndef MPB_INTENTS_H
#define MPB_INTENTS_H

#include "shm/core.h"

/* The row of a partition on which an append for the entry, as it is filled now, is not finished or undone; -1: none.
 * Only a request's first runs make such intents, and they are dead when another run begins: -1 stays -1. Looks at every
 * row: for second runs only. */
int64_t mpb_intended_row(const struct mpb_core *core, uint32_t entry);

#endif
