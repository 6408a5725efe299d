/* Transactions whose marker is in the log and not yet below the high watermark: until it is, they are undecided for readers
 * of committed records, for another leader may never have had the marker. (Kafka's unreplicatedTxns.)
 *
 * They stand in the partition's row of `replicas`, so a broker that is alone has none: there a marker is below the high
 * watermark when it is committed. A place is written before the commit of its marker; one of a marker that was undone or cut
 * holds the last stable offset back for longer than need be, never for too short, until repair or truncation takes it out.
 * Where there are more than places, two share one: the least first offset, the later end. */
#ifndef MPB_ENDED_H
#define MPB_ENDED_H

#include "log/log.h"

/* Least first offset of those that count at a high watermark; INT64_MAX: none does. Under the lock. */
int64_t mpb_ended_least(const struct mpb_replicas *replicas, int64_t hw);
/* A transaction from `first` on whose marker ends at `end`, which is above the high watermark. */
void mpb_ended_note(struct mpb_replicas *replicas, int64_t hw, int64_t first, int64_t end);
/* Markers that end beyond `end` are not in the log, or not any more. */
void mpb_ended_cut(struct mpb_replicas *replicas, int64_t end);

#endif
