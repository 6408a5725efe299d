/* Moving a partition to another log directory (KIP-113). The log keeper copies its segments into a directory
 * "topic-0.ID-future" of the new one while appends go on in the old one; what is left of the active segment at the end is
 * copied here, under the partition's lock, and then the two directories change places:
 *
 *     intent, commit with an odd truncation count, the copy gets the partition's name, the old directory the name
 *     "topic-0.ID-delete", the row names the new log directory, commit with an even count (append rule 23).
 *
 * ID is the topic's. A file MOVED_HERE, synced before, in the directory that has both names says that it is the whole one. */
#ifndef MPB_MOVE_H
#define MPB_MOVE_H

#include "log/log.h"

#define MPB_MOVE_TAIL_BYTES (256 * 1024)            /* what is copied under the lock; more is for the log keeper ... */
#define MPB_MOVE_MOST_TAIL_BYTES (16 * 1024 * 1024) /* ... unless the log grows faster than it copies */
#define MPB_MOVE_CHANGED (-101)

struct mpb_move { /* what has been copied, of which state of the log */
    uint32_t to;
    uint32_t number; /* move_number of the row when the copy was begun */
    uint32_t truncations;
    uint32_t segment_count;
    int64_t active_base;
    int64_t log_start;
    int64_t synced;                          /* offset below which the copy is on disk */
    uint64_t lengths[MPB_ALL_SEGMENT_FILES]; /* of the active segment's files */
    uint32_t tail_bytes; /* what may be missing, between the two bounds above; 0 and other values mean the next bound */
};

/* Says that a partition shall lie in log directory `to`; the one where it lies calls a move off. 0 or a Kafka error code. */
int mpb_move_ask(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, uint32_t to);
/* The same as if nobody had asked, if nobody has asked again: the move cannot be made. */
int mpb_move_give_up(struct mpb_log *log, uint32_t ordinal, uint32_t number);
/* Ends a move. 0; MPB_MOVE_CHANGED: the log is another one than was copied, or too much is missing, and nothing was
 * done; or a Kafka error code. */
int mpb_move_end(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, const struct mpb_move *move);
/* At most `most` rows from *next on that shall move. */
uint32_t mpb_moves(struct mpb_log *log, uint32_t *next, uint32_t *out, uint32_t most);

#endif
