/* The lock of a partition's row: whoever gets it repairs first what its last holder left undone (repair.h), so that the
 * others never see a change half made. At most one is held at a time (append rule 15). */
#ifndef MPB_PARTITION_LOCK_H
#define MPB_PARTITION_LOCK_H

#include "log/partition_row.h"

#define MPB_LOCK_WAIT_MS 20         /* longer than a holder needs, unless its disk, the machine or a signal stops it */
#define MPB_LOCK_LOST_AFTER_MS 1000 /* busy for so long, a lock's holder is looked up */

/* Takes the lock and repairs what a dead holder left. 0 with the lock held; UNKNOWN_TOPIC_OR_PARTITION for a row that
 * was never used; REQUEST_TIMED_OUT if a live worker does not let go of it; KAFKA_STORAGE_ERROR with the lock released
 * if the repair failed and has to be tried again later. A lock that nobody alive holds ends this process by abort(),
 * which resets all workers (append rule 14).
 *
 * The first one who waits in vain marks the row busy; from then on nobody waits, until the holder lets go: a stopped
 * holder costs the others one short wait, not one each. Whoever gets REQUEST_TIMED_OUT does something else meanwhile: a
 * handler watches the partition and is rung when the lock is free again. */
int mpb_partition_lock(struct mpb_log *log, uint32_t ordinal);
void mpb_partition_unlock(struct mpb_log *log, uint32_t ordinal);

/* Whether a lock that was waited for in vain is still not to be had. For a request that watches the partition: either
 * this says no, or the holder rings when it lets go. */
bool mpb_partition_is_busy(struct mpb_log *log, uint32_t ordinal);

/* Takes the lock and looks whether the partition may be used: 0 with the lock held, or what mpb_partition_lock or
 * mpb_partition_usable answer, with it released. */
int mpb_partition_lock_usable(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id);

/* Consistent state without the lock; after a few tries that met a change it takes the lock, so that a busy writer does
 * not keep it from reading. A holder that stands still changes nothing: readers never wait for it. 0 or a Kafka error. */
int mpb_partition_snapshot(struct mpb_log *log, uint32_t ordinal, struct mpb_partition_copy *out);

/* Locks, and thereby repairs, every partition on which process slot `slot` left an intent. A successor calls it before
 * it re-queues or answers anything. Returns how many it found. */
uint32_t mpb_repair_slot(struct mpb_log *log, uint32_t slot);

#endif
