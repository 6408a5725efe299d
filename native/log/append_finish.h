#ifndef MPB_APPEND_FINISH_H
#define MPB_APPEND_FINISH_H

#include "log/log.h"

/* The steps behind the commit, from the intent and the copy in force alone: producer state, cell, clear. The append
 * itself and its repair both end here; may be done twice. The caller holds the lock. */
void mpb_append_finish(struct mpb_log *log, struct mpb_partition *row);

#endif
