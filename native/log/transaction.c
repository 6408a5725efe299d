#include "log/transaction.h"

#include "log/ended.h"
#include "log/leader_epochs.h"
#include "log/partition_row.h"
#include "log/producer.h"

struct mpb_txn_epochs mpb_txn_epochs_of(const struct mpb_producer *producer)
{
    uint64_t word = mpb_load_acquire(&producer->txn_epochs);
    return (struct mpb_txn_epochs){
        .coordinator = (int32_t)(word >> 32), .marker = (int16_t)(word >> 16), .verified = (int16_t)word};
}

void mpb_txn_store_epochs(struct mpb_producer *producer, struct mpb_txn_epochs epochs)
{
    uint64_t word = (uint64_t)(uint32_t)epochs.coordinator << 32 | (uint64_t)(uint16_t)epochs.marker << 16 |
                    (uint16_t)epochs.verified;
    mpb_step();
    mpb_store_release(&producer->txn_epochs, word);
    mpb_step();
}

static const struct mpb_producer *find(const struct mpb_core *core, const struct mpb_partition *row,
                                       int64_t producer_id)
{
    uint32_t at = mpb_producer_find(core, row, producer_id);
    return at == 0 ? NULL : &core->producers[at - 1];
}

int mpb_txn_check_batch(const struct mpb_core *core, const struct mpb_partition *row,
                        const struct mpb_batch_info *batch, bool *unverified)
{
    const struct mpb_producer *producer = find(core, row, batch->producer_id);
    bool ready = mpb_load_acquire(&core->header->transactions_ready) != 0;
    int unknown = ready ? MPB_ERR_INVALID_TXN_STATE : MPB_ERR_NOT_ENOUGH_REPLICAS;
    *unverified = true;
    if (producer == NULL)
        return unknown;
    int16_t epoch = mpb_producer_epoch(producer);
    bool open = mpb_txn_first(producer) >= 0 && batch->producer_epoch == epoch;
    *unverified = !open && mpb_txn_epochs_of(producer).verified != batch->producer_epoch &&
                  batch->producer_epoch >= epoch;
    if (batch->producer_epoch < epoch)
        return MPB_ERR_INVALID_PRODUCER_EPOCH;
    return *unverified ? unknown : 0;
}

int mpb_txn_check_marker(const struct mpb_core *core, const struct mpb_partition *row,
                         const struct mpb_batch_info *batch, int32_t coordinator_epoch)
{
    const struct mpb_producer *producer = find(core, row, batch->producer_id);
    if (producer == NULL)
        return 0;
    if (batch->producer_epoch < mpb_producer_epoch(producer))
        return MPB_ERR_INVALID_PRODUCER_EPOCH;
    bool fenced = coordinator_epoch < mpb_txn_epochs_of(producer).coordinator;
    return fenced ? MPB_ERR_TRANSACTION_COORDINATOR_FENCED : 0;
}

/* Least first offset of the open transactions of a partition, but for that of row `except`; INT64_MAX: none. */
static int64_t least_first(struct mpb_core *core, const struct mpb_partition *row, uint32_t except, uint32_t *count)
{
    uint32_t chain = 0, at = 0;
    int64_t least = INT64_MAX;
    *count = 0;
    for (struct mpb_producer *p; (p = mpb_producer_next(core, row, &chain, &at)) != NULL;) {
        int64_t first = mpb_txn_first(p);
        if (first < 0 || at == except)
            continue;
        *count += 1;
        least = first < least ? first : least;
    }
    return least;
}

static int64_t not_below(int64_t offset, int64_t log_start) { return offset < log_start ? log_start : offset; }

void mpb_txn_look(struct mpb_core *core, const struct mpb_partition *row, uint32_t producer_row,
                  struct mpb_txn_plan *out)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    out->first = mpb_txn_first(&core->producers[producer_row - 1]);
    out->others = now->open_transactions - (out->first >= 0 && now->open_transactions > 0);
    out->others_first = now->lso;
    if (!mpb_is_marker(out->kind) || out->others == 0 || (out->first > now->lso && core->replica_count == 0))
        return; /* it is not the one that holds the last stable offset, which with replicas the high watermark may */
    out->others_first = least_first(core, row, producer_row, &out->others);
}

void mpb_txn_hold(struct mpb_core *core, const struct mpb_partition *row, const struct mpb_txn_plan *plan,
                  struct mpb_partition_copy *next)
{
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    if (mpb_is_marker(plan->kind) && plan->first >= 0 && next->hw < next->leo)
        mpb_ended_note(replicas, next->hw, plan->first, next->leo);
    int64_t least = not_below(mpb_ended_least(replicas, next->hw), next->log_start);
    next->lso = least < next->lso ? least : next->lso;
}

int64_t mpb_txn_last_stable(struct mpb_core *core, const struct mpb_partition *row,
                            const struct mpb_partition_copy *next)
{
    const struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    uint32_t count;
    int64_t least = next->open_transactions != 0 ? least_first(core, row, 0, &count) : INT64_MAX;
    int64_t ended = replicas != NULL ? mpb_ended_least(replicas, next->hw) : INT64_MAX;
    least = not_below(ended < least ? ended : least, next->log_start);
    return least < next->hw ? least : next->hw;
}

void mpb_txn_finish(struct mpb_core *core, const struct mpb_intent *intent)
{
    struct mpb_producer *producer = &core->producers[intent->producer_row - 1];
    if (intent->batch_kind == MPB_BATCH_IN_TRANSACTION) {
        if (mpb_load_acquire(&producer->txn_first) != 0)
            return;
        mpb_store_relaxed(&producer->txn_started_ms, (uint64_t)intent->written_ms);
        mpb_step();
        mpb_store_release(&producer->txn_first, (uint64_t)intent->base_offset + 1);
        mpb_step();
        return;
    }
    struct mpb_txn_epochs epochs = {intent->coordinator_epoch, intent->producer_epoch, MPB_NO_EPOCH};
    if ((int64_t)mpb_load_relaxed(&producer->written_ms) < intent->written_ms)
        mpb_store_relaxed(&producer->written_ms, (uint64_t)intent->written_ms);
    mpb_txn_store_epochs(producer, epochs);
    MPB_CRASH(core, "append.marker_half");
    mpb_store_release(&producer->txn_first, 0);
    mpb_step();
}

void mpb_txn_restore(struct mpb_producer *producer, struct mpb_txn_epochs epochs, int64_t first, int64_t started_ms)
{
    mpb_txn_store_epochs(producer, epochs);
    if ((int64_t)mpb_load_relaxed(&producer->written_ms) < started_ms)
        mpb_store_relaxed(&producer->written_ms, (uint64_t)started_ms);
    mpb_store_relaxed(&producer->txn_started_ms, (uint64_t)started_ms);
    mpb_store_release(&producer->txn_first, (uint64_t)(first + 1));
}
