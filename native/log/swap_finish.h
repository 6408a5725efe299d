/* The second half of a swap of segments (swap.h), which is also its repair. The caller holds the partition's lock. */
#ifndef MPB_SWAP_FINISH_H
#define MPB_SWAP_FINISH_H

#include "log/segment.h"

/* What is left of a swap whose first commit was made: renames and the second commit. May run twice. 0 or a negative
 * errno. */
int mpb_swap_finish(struct mpb_log *log, struct mpb_partition *row);

/* "topic-0/00000000000000000042.log.compacted" */
void mpb_cleaned_path(char out[MPB_SEGMENT_PATH_BYTES], const struct mpb_partition *row, int64_t base,
                      enum mpb_segment_file file);

#endif
