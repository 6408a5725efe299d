/* Which transactions a reader of committed records has to leave out. Any process, no lock. */
#ifndef MPB_ABORTED_H
#define MPB_ABORTED_H

#include "log/log_read.h"
#include "log/txn_index.h"

/* The aborted transactions of which a fetch from `fetch_offset` with this plan may have got records: those whose marker is
 * not below `fetch_offset` and that begin below the end of what was read, by the offset index. In the order of their
 * markers, at most `room` of them in `out`; *count says how many there are. Errors as mpb_log_read. */
int mpb_log_aborted(struct mpb_log *log, const struct mpb_read_plan *plan, int64_t fetch_offset,
                    struct mpb_aborted *out, uint32_t room, uint32_t *count);

#endif
