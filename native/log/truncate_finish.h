/* The steps of a truncation behind its commit, from the copy in force alone (append rule 11): later segments unlinked,
 * the active one cut, producer state rebuilt. The truncation itself and its repair both end here; may be done twice. */
#ifndef MPB_TRUNCATE_FINISH_H
#define MPB_TRUNCATE_FINISH_H

#include "log/log.h"

/* The caller holds the lock. Returns 0 or a negative errno. Where transactions were open or ended it commits once more, as
 * its last step: their number and the last stable offset, as the log that is left has them. */
int mpb_truncate_finish(struct mpb_log *log, struct mpb_partition *row);
/* The same for a log that begins anew: every segment but the active one, every producer. */
int mpb_start_finish(struct mpb_log *log, struct mpb_partition *row);

#endif
