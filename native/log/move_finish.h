/* The part of the end of a move that a repair does again. */
#ifndef MPB_MOVE_FINISH_H
#define MPB_MOVE_FINISH_H

#include "log/log.h"

#define MPB_MOVE_PATH_BYTES 320

/* "topic-0.ID-future", or with another suffix. False: such a name is too long for a file. */
bool mpb_move_path(char out[MPB_MOVE_PATH_BYTES], const struct mpb_partition *row, const char *suffix);
/* Renames, and the second commit, if the intent's first one was made. 0 or a negative errno. */
int mpb_move_finish(struct mpb_log *log, struct mpb_partition *row);

#endif
