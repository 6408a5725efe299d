/* A partition's row in shared memory: identity, two copies of its state, the selector word that commits a change, the
 * intent of whoever is changing it. Every change is made under the row's lock (partition_lock.h), the high watermark
 * included; readers take no lock. docs/append-rules.md is the contract. */
#ifndef MPB_PARTITION_ROW_H
#define MPB_PARTITION_ROW_H

#include "log/log.h"
#include "shm/inject.h"

/* With the lock held: 0, UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR by flags, topic id (NULL: any) and log
 * directory. */
int mpb_partition_usable(const struct mpb_core *core, const struct mpb_partition *row, const uint8_t *topic_id);

/* The copy in force; the caller holds the lock. */
static inline const struct mpb_partition_copy *mpb_partition_in_force(const struct mpb_partition *row)
{
    return &row->copy[mpb_load_relaxed(&row->selector) & 1];
}

/* Consistent state without the lock; false if a few tries all met a change, or the files are being changed. */
bool mpb_partition_try_snapshot(const struct mpb_partition *row, struct mpb_partition_copy *out);
/* The same while the files are being changed, for who does not read them. */
bool mpb_partition_peek(const struct mpb_partition *row, struct mpb_partition_copy *out);

/* Writes `next` into the idle copy, then commits it by one release store of the selector. The caller holds the lock.
 * The two halves are apart for operations that name a crash point between them. */
void mpb_partition_write_idle(struct mpb_core *core, struct mpb_partition *row, const struct mpb_partition_copy *next);
void mpb_partition_commit(struct mpb_partition *row);

/* Stores the intent's word: from here to its clearing, whoever locks the row repairs. */
void mpb_intent_set(struct mpb_log *log, struct mpb_partition *row, enum mpb_intent_kind kind);
void mpb_intent_clear(struct mpb_partition *row);

/* Rings the handlers that wait for this partition's ends; a no-op where no doorbell code is linked in. */
void mpb_partition_moved(struct mpb_log *log, uint32_t ordinal);
/* The same after an append that raised no high watermark: of no use to who waits for replicas. */
void mpb_partition_appended(struct mpb_log *log, uint32_t ordinal);

#endif
