/* The end of a compaction: one cleaned segment takes the place of several. Its files, complete and synced, wait beside the
 * log as BASE.log.compacted, BASE.index.compacted and BASE.timeindex.compacted; a synced, empty file BASE-END.swap says that they
 * are to replace the segments from BASE up to END (the base of the first that stays). A start that finds it goes on with
 * the swap; cleaned files without it are of no use and go.
 *
 * Under the partition's lock: intent, commit with an odd truncation count, renames, commit with an even one. A reader
 * that meets an odd count takes the lock (append rule 19), so nobody mixes old positions with new files. */
#ifndef MPB_SWAP_H
#define MPB_SWAP_H

#include "log/log.h"

/* Replaces the segments. `truncations`: the count under which the cleaned files were made from them. 0;
 * MPB_SWAP_CHANGED: the log is another one by now, and nothing was done; or a Kafka error code. */
#define MPB_SWAP_CHANGED (-100)
int mpb_swap(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t base, int64_t end,
             uint32_t truncations);

#endif
