/* Transactions as a partition knows them (KIP-98, KIP-890): which producers have one open, from which offset on, and which
 * may open one. A producer's row has the fields, a partition's state the last stable offset and the number of open ones.
 * Read and written under the partition's lock only.
 *
 * A transactional batch opens its producer's transaction unless one is open; a marker, the control batch that the
 * coordinator writes, ends it. Nobody asks the coordinator at an append: before it tells a producer that a partition
 * belongs to its transaction, it stores the producer's epoch as *verified* in the row here, and the marker takes that back.
 *
 * State and selector commit as for every append; the row's fields follow and are redone from the intent. */
#ifndef MPB_TRANSACTION_H
#define MPB_TRANSACTION_H

#include "log/log.h"
#include "record/record_batch.h"

#define MPB_NO_EPOCH (-1)

struct mpb_txn_epochs { /* a producer row's `txn_epochs`, one word; MPB_NO_EPOCH each: none */
    int32_t coordinator;
    int16_t marker; /* of the producer, in its last marker */
    int16_t verified;
};

struct mpb_txn_epochs mpb_txn_epochs_of(const struct mpb_producer *producer);
void mpb_txn_store_epochs(struct mpb_producer *producer, struct mpb_txn_epochs epochs);

/* First offset of the producer's open transaction, -1: none is open. */
static inline int64_t mpb_txn_first(const struct mpb_producer *producer)
{
    return (int64_t)mpb_load_acquire(&producer->txn_first) - 1;
}

static inline bool mpb_is_marker(uint32_t batch_kind) { return batch_kind >= MPB_BATCH_COMMIT; }

/* What the append of a batch does to the partition's transactions; looked up before the intent is written. */
struct mpb_txn_plan {
    enum mpb_batch_kind kind;
    int64_t first;        /* of the producer's open transaction, -1: none */
    uint32_t others;      /* a marker: producers that have another one open */
    int64_t others_first; /* least first offset of theirs */
};

static inline enum mpb_batch_kind mpb_txn_kind(const struct mpb_batch_info *batch)
{
    int kind = batch->attributes & (MPB_ATTRIBUTE_TRANSACTIONAL | MPB_ATTRIBUTE_CONTROL);
    bool transactional = batch->producer_id >= 0 && kind == MPB_ATTRIBUTE_TRANSACTIONAL;
    return transactional ? MPB_BATCH_IN_TRANSACTION : MPB_BATCH_PLAIN;
}

/* Whether a transactional batch may be appended: 0, INVALID_PRODUCER_EPOCH, or, with *unverified, INVALID_TXN_STATE; as long
 * as the coordinator has not verified again what was ongoing at the last stop: NOT_ENOUGH_REPLICAS, upon which clients try
 * again. */
int mpb_txn_check_batch(const struct mpb_core *core, const struct mpb_partition *row,
                        const struct mpb_batch_info *batch, bool *unverified);
/* Whether a marker may: 0, INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED. */
int mpb_txn_check_marker(const struct mpb_core *core, const struct mpb_partition *row,
                         const struct mpb_batch_info *batch, int32_t coordinator_epoch);
/* `producer_row`: number + 1; out->kind is set, not PLAIN. */
void mpb_txn_look(struct mpb_core *core, const struct mpb_partition *row, uint32_t producer_row,
                  struct mpb_txn_plan *out);
/* With replicas: one that ends above the high watermark is undecided until that has passed its marker. */
void mpb_txn_hold(struct mpb_core *core, const struct mpb_partition *row, const struct mpb_txn_plan *plan,
                  struct mpb_partition_copy *next);
/* Number of open ones and last stable offset in a state whose ends have been moved; before its commit, with the intent
 * written. */
static inline void mpb_txn_move(struct mpb_core *core, const struct mpb_partition *row, const struct mpb_txn_plan *plan,
                                struct mpb_partition_copy *next)
{
    if (plan->kind == MPB_BATCH_IN_TRANSACTION)
        next->open_transactions += plan->first < 0;
    if (mpb_is_marker(plan->kind)) {
        int64_t least = plan->others_first < next->log_start ? next->log_start : plan->others_first;
        next->open_transactions = plan->others;
        next->lso = least < next->hw ? least : next->hw;
    }
    if (next->open_transactions == 0)
        next->lso = next->hw;
    if (core->replica_count != 0)
        mpb_txn_hold(core, row, plan, next);
}
/* The last stable offset where the high watermark alone has moved. */
int64_t mpb_txn_last_stable(struct mpb_core *core, const struct mpb_partition *row,
                            const struct mpb_partition_copy *next);
/* The row's fields behind the commit; may be done twice. */
void mpb_txn_finish(struct mpb_core *core, const struct mpb_intent *intent);

/* At a start, under the lock: what recovery found out about a producer. `first` -1: none is open. */
void mpb_txn_restore(struct mpb_producer *producer, struct mpb_txn_epochs epochs, int64_t first, int64_t started_ms);

#endif
