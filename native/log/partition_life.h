/* The life of a partition's row: made, shown, its flags and ends moved, deleted. */
#ifndef MPB_PARTITION_LIFE_H
#define MPB_PARTITION_LIFE_H

#include "log/log.h"

struct mpb_partition_identity {
    uint8_t topic_id[16];
    uint32_t topic_row;
    uint32_t partition;
    uint32_t log_dir;
    const char *dir; /* "topic-0" */
    bool hidden;     /* not shown yet: mpb_partition_set_flags does, when its producers are loaded */
};

/* Gives a row that holds no partition its identity and first state, and shows it. Log recovery calls it for what it
 * found on disk, the maker of a new partition after its first segment exists: one process at a time, because the first
 * use of a row also makes its lock. Old producer rows are freed. */
int mpb_partition_publish(struct mpb_log *log, uint32_t ordinal, const struct mpb_partition_identity *identity,
                          const struct mpb_partition_copy *state);

/* Makes the directory and the first, empty segment at offset 0, then publishes. A name that is too long is a bug of
 * the caller and answered with UNKNOWN_SERVER_ERROR. */
int mpb_partition_create(struct mpb_log *log, uint32_t ordinal, const struct mpb_partition_identity *identity,
                         int32_t leader_epoch, int64_t now_ms);

/* Sets and clears bits of `flags` (enum mpb_partition_flags) under the lock; DELETED frees the producer rows. */
int mpb_partition_set_flags(struct mpb_log *log, uint32_t ordinal, uint32_t set, uint32_t clear);

/* Moves the high watermark, or log start (DeleteRecords: at most the high watermark, else OFFSET_OUT_OF_RANGE). */
int mpb_partition_set_high_watermark(struct mpb_log *log, uint32_t ordinal, int64_t offset);
int mpb_partition_set_log_start(struct mpb_log *log, uint32_t ordinal, int64_t offset);

#endif
