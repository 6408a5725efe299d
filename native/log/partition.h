/* A partition's row in shared memory: identity, two copies of its state, the selector word that commits a change, the
 * intent of whoever is changing it. Every change is made under the row's lock, the high watermark included; readers
 * take no lock. DESIGN.md section 3 and append-commit.md are the contract. */
#ifndef MPB_PARTITION_H
#define MPB_PARTITION_H

#include "shm/inject.h"
#include "log/log.h"

/* Takes the lock and repairs what a dead holder left. 0 with the lock held; UNKNOWN_TOPIC_OR_PARTITION for a row that
 * was never used; REQUEST_TIMED_OUT if a live worker does not let go of it; KAFKA_STORAGE_ERROR with the lock released if the repair failed and has to be tried again later.
 * A lock that nobody alive holds ends this process by abort(), which resets all workers (rule 14). */
int mpb_partition_lock(struct mpb_log *log, uint32_t ordinal);
void mpb_partition_unlock(struct mpb_log *log, uint32_t ordinal);

/* With the lock held: 0, UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR by flags, topic id (NULL: any) and log
 * directory. */
int mpb_partition_usable(const struct mpb_core *core, const struct mpb_partition *row, const uint8_t *topic_id);

/* The copy in force; the caller holds the lock. */
static inline const struct mpb_partition_copy *mpb_partition_in_force(const struct mpb_partition *row)
{
    return &row->copy[mpb_load_relaxed(&row->selector) & 1];
}

/* Consistent state without the lock; after a few tries that met a change it takes the lock. 0 or a Kafka error. */
int mpb_partition_snapshot(struct mpb_log *log, uint32_t ordinal, struct mpb_partition_copy *out);

/* Writes `next` into the idle copy, then commits it by one release store of the selector. The caller holds the lock.
 * The two halves are apart for operations that name a crash point between them. */
void mpb_partition_write_idle(struct mpb_core *core, struct mpb_partition *row, const struct mpb_partition_copy *next);
void mpb_partition_commit(struct mpb_partition *row);

/* Stores the intent's word: from here to its clearing, whoever locks the row repairs. */
void mpb_intent_set(struct mpb_log *log, struct mpb_partition *row, enum mpb_intent_kind kind);
void mpb_intent_clear(struct mpb_partition *row);

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
int mpb_partition_set_leader_epoch(struct mpb_log *log, uint32_t ordinal, int32_t leader_epoch);

/* Rings the handlers that wait for this partition's ends; a no-op where no doorbell code is linked in. */
void mpb_partition_moved(struct mpb_log *log, uint32_t ordinal);

#endif
