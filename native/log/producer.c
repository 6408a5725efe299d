#include "log/producer.h"

#include <string.h>

#include "shm/inject.h"

#define FREE_LOOKS 256 /* rows looked at for a free one, a batch: nobody else gets the partition meanwhile */
#define FULL_LOOKS 8   /* the same once all were seen to be taken: a dead process may have freed one and not said so */

int32_t mpb_last_sequence(int32_t first_sequence, int32_t record_count)
{
    return (int32_t)(((int64_t)first_sequence + record_count - 1) & INT32_MAX);
}

static mpb_atomic32 *chain_of(struct mpb_partition *row, int64_t producer_id)
{
    return &row->producer_chain[(uint64_t)producer_id % MPB_PRODUCER_CHAINS];
}

/* Row number + 1 of this producer in its chain, or 0. Bounded by the table, should a chain ever be a circle. */
uint32_t mpb_producer_find(const struct mpb_core *core, const struct mpb_partition *row, int64_t producer_id)
{
    uint32_t at = mpb_load_acquire(chain_of((struct mpb_partition *)row, producer_id));
    for (uint32_t i = 0; at != 0 && at <= core->producer_count && i < core->producer_count; i++) {
        if (core->producers[at - 1].producer_id == producer_id)
            return at;
        at = mpb_load_acquire(&core->producers[at - 1].next);
    }
    return 0;
}

/* An older place with an offset not below its successor's was overwritten by a batch that a truncation took back: what
 * was there is forgotten. */
uint32_t mpb_producer_kept(const struct mpb_producer *producer, struct mpb_producer_batch out[MPB_PRODUCER_KEPT])
{
    uint64_t count = mpb_load_acquire(&producer->count), kept = 0;
    int64_t below = INT64_MAX;
    while (kept < MPB_PRODUCER_KEPT && kept < count) {
        const struct mpb_producer_batch *batch = &producer->ring[(count - kept - 1) % MPB_PRODUCER_RING];
        if (batch->base_offset >= below)
            break;
        below = batch->base_offset;
        kept++;
    }
    for (uint64_t i = 0; i < kept; i++)
        out[i] = producer->ring[(count - kept + i) % MPB_PRODUCER_RING];
    return (uint32_t)kept;
}

static bool find_kept(const struct mpb_producer *producer, int16_t epoch, int32_t first, int32_t last,
                      struct mpb_producer_batch *out)
{
    struct mpb_producer_batch kept[MPB_PRODUCER_KEPT];
    for (uint32_t i = mpb_producer_kept(producer, kept); i > 0; i--)
        if (kept[i - 1].epoch == epoch && kept[i - 1].first_sequence == first && kept[i - 1].last_sequence == last) {
            *out = kept[i - 1];
            return true;
        }
    return false;
}

static int16_t marker_epoch(const struct mpb_producer *producer)
{
    return (int16_t)(mpb_load_acquire(&producer->txn_epochs) >> 16);
}

int16_t mpb_producer_epoch(const struct mpb_producer *producer)
{
    int16_t marker = marker_epoch(producer);
    if (mpb_load_acquire(&producer->count) == 0 || mpb_producer_newest(producer)->epoch < marker)
        return marker;
    return mpb_producer_newest(producer)->epoch;
}

/* A marker may have raised the epoch: then it begins anew, at sequence 0. */
static int check_sequence(const struct mpb_producer *producer, const struct mpb_batch_info *batch,
                          struct mpb_producer_check *out)
{
    int16_t epoch = mpb_producer_epoch(producer);
    bool any = mpb_load_acquire(&producer->count) > 0;
    const struct mpb_producer_batch *newest = mpb_producer_newest(producer);
    if (!any && epoch < 0)
        return 0;
    if (batch->producer_epoch < epoch)
        return MPB_ERR_INVALID_PRODUCER_EPOCH;
    if (!any || batch->producer_epoch > newest->epoch)
        return batch->base_sequence == 0 ? 0 : MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    int32_t last = mpb_last_sequence(batch->base_sequence, batch->record_count);
    if (find_kept(producer, batch->producer_epoch, batch->base_sequence, last, &out->original)) {
        out->duplicate = true;
        return 0;
    }
    bool follows = batch->base_sequence == (int32_t)(((int64_t)newest->last_sequence + 1) & INT32_MAX);
    return follows ? 0 : MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
}

/* Not of the producer's open transaction. None is open: the batch would be the first of one. */
static bool is_of_an_ended_one(const struct mpb_producer *producer, const struct mpb_producer_batch *kept)
{
    uint64_t first = mpb_load_acquire(&producer->txn_first); /* + 1 */
    return first == 0 || (uint64_t)kept->base_offset + 1 < first;
}

int mpb_producer_check(const struct mpb_core *core, const struct mpb_partition *row, const struct mpb_batch_info *batch,
                       bool by_coordinator, struct mpb_producer_check *out)
{
    bool transactional = (batch->attributes & MPB_ATTRIBUTE_TRANSACTIONAL) != 0;
    out->duplicate = false;
    uint32_t at = mpb_producer_find(core, row, batch->producer_id);
    if (at == 0)
        return 0;
    const struct mpb_producer *producer = &core->producers[at - 1];
    if (by_coordinator)
        return batch->producer_epoch < mpb_producer_epoch(producer) ? MPB_ERR_INVALID_PRODUCER_EPOCH : 0;
    int error = check_sequence(producer, batch, out);
    if (out->duplicate && transactional && is_of_an_ended_one(producer, &out->original)) {
        out->duplicate = false;
        return MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    }
    if (error != 0 || out->duplicate || mpb_load_acquire(&producer->txn_first) == 0)
        return error;
    return transactional ? 0 : MPB_ERR_INVALID_TXN_STATE;
}

/* Before the row is taken: a sweep after a kill looks below it. */
static void raise_high(struct mpb_core *core, uint32_t rows)
{
    mpb_atomic32 *high = &core->header->producers_high;
    uint32_t seen = mpb_load_relaxed(high);
    while (seen < rows && !mpb_cas32(high, &seen, rows))
        ;
}

/* Row number + 1, or 0. */
static uint32_t take_one_of(struct mpb_log *log, uint32_t ordinal, uint32_t looks)
{
    struct mpb_core *core = log->core;
    for (uint32_t i = 0; i < looks; i++) {
        uint32_t at = log->producer_hint % core->producer_count;
        uint64_t nobody = 0;
        log->producer_hint = at + 1;
        log->producer_looks++;
        log->producers_taken_seen++;
        if (mpb_load_relaxed(&core->producers[at].owner) != 0)
            continue;
        raise_high(core, at + 1);
        if (!mpb_cas64(&core->producers[at].owner, &nobody, (uint64_t)ordinal + 1))
            continue;
        log->producers_taken_seen = 0;
        return at + 1;
    }
    return 0;
}

/* A free row: number + 1, or 0 if none is near. The search goes on with the next batch where it ended. */
static uint32_t take_free(struct mpb_log *log, uint32_t ordinal, uint32_t looks)
{
    struct mpb_core *core = log->core;
    uint32_t freed = mpb_load_acquire(&core->header->producers_freed);
    uint32_t high = mpb_load_relaxed(&core->header->producers_high);
    if (freed != log->producers_freed_seen)
        log->producers_taken_seen = 0;
    log->producers_freed_seen = freed;
    uint32_t at = take_one_of(log, ordinal, log->producers_taken_seen < core->producer_count ? looks : FULL_LOOKS);
    if (at != 0 || high >= core->producer_count)
        return at;
    log->producer_hint = high; /* from here on nobody ever took one */
    return take_one_of(log, ordinal, FULL_LOOKS);
}

struct chain_look {
    uint32_t found; /* row + 1 of the producer, 0: it is not there */
    uint32_t rows;
    mpb_atomic32 *oldest_once; /* the link to it; NULL: all wrote more than one batch */
};

/* One in a transaction is never forgotten: nobody would know any more that it is open, or may be. */
static bool is_in_transaction(const struct mpb_producer *producer)
{
    return mpb_load_acquire(&producer->txn_first) != 0 ||
           (int16_t)mpb_load_acquire(&producer->txn_epochs) >= 0; /* below: not verified, or being verified */
}

static bool wrote_once(const struct mpb_producer *producer)
{
    return mpb_load_acquire(&producer->count) <= 1 && !is_in_transaction(producer);
}

/* A row is put at the front when it is taken: of those that wrote once, the last one did so longest ago. */
static struct chain_look look_through(struct mpb_log *log, mpb_atomic32 *link, int64_t producer_id)
{
    struct mpb_core *core = log->core;
    struct chain_look look = {0};
    for (uint32_t at; (at = mpb_load_acquire(link)) != 0 && at <= core->producer_count;) {
        struct mpb_producer *producer = &core->producers[at - 1];
        log->producer_looks++;
        if (producer->producer_id == producer_id) {
            look.found = at;
            return look;
        }
        if (++look.rows >= core->producer_count)
            break;
        if (wrote_once(producer))
            look.oldest_once = link;
        link = &producer->next;
    }
    return look;
}

/* Dead behind it: the row is owned but not chained, and whoever looks for room or sweeps frees it. */
static uint32_t unchain(struct mpb_core *core, mpb_atomic32 *link)
{
    uint32_t at = mpb_load_acquire(link);
    mpb_store_release(link, mpb_load_relaxed(&core->producers[at - 1].next));
    mpb_step();
    return at;
}

/* A row for a producer that has none, number + 1. Where a chain is long, or no row is free, the producer of it that wrote
 * once, longest ago, is forgotten: a flood of ids goes round in the rows it has, and look-ups stay short. */
static uint32_t row_for_new(struct mpb_log *log, uint32_t ordinal, const struct chain_look *look, bool forget)
{
    bool may_forget = forget && look->oldest_once != NULL;
    uint32_t at = 0;
    if (log->producer_hint == 0) /* processes begin at different rows: fewer lost CASes, shorter searches */
        log->producer_hint = log->slot * 97;
    if (!may_forget || look->rows < MPB_PRODUCER_CHAIN_ROWS)
        at = take_free(log, ordinal, forget ? FREE_LOOKS : log->core->producer_count);
    if (at != 0 || !may_forget)
        return at;
    mpb_log_count(log, MPB_C_LOG_PRODUCERS_REPLACED, 1);
    return unchain(log->core, look->oldest_once);
}

uint32_t mpb_producer_row(struct mpb_log *log, uint32_t ordinal, int64_t producer_id, bool forget)
{
    mpb_atomic32 *chain = chain_of(&log->core->partitions[ordinal], producer_id);
    struct chain_look look = look_through(log, chain, producer_id);
    if (look.found != 0)
        return look.found;
    uint32_t row_plus_one = row_for_new(log, ordinal, &look, forget);
    if (row_plus_one == 0)
        return 0;
    struct mpb_producer *producer = &log->core->producers[row_plus_one - 1];
    mpb_store_relaxed(&producer->count, 0);
    mpb_store_relaxed(&producer->rebuild, 0);
    mpb_store_relaxed(&producer->written_ms, 0);
    mpb_store_relaxed(&producer->txn_first, 0);
    mpb_store_relaxed(&producer->txn_epochs, UINT64_MAX); /* none */
    producer->producer_id = producer_id;
    mpb_store_relaxed(&producer->next, mpb_load_relaxed(chain));
    mpb_step();
    mpb_store_release(chain, row_plus_one);
    mpb_step();
    return row_plus_one;
}

void mpb_producer_keep(struct mpb_core *core, uint32_t row_plus_one, const struct mpb_producer_batch *batch,
                       int64_t written_ms)
{
    if (row_plus_one == 0 || row_plus_one > core->producer_count)
        return;
    struct mpb_producer *producer = &core->producers[row_plus_one - 1];
    uint64_t count = mpb_load_acquire(&producer->count);
    if (count > 0 && mpb_producer_newest(producer)->base_offset >= batch->base_offset)
        return;
    producer->ring[count % MPB_PRODUCER_RING] = *batch;
    if ((int64_t)mpb_load_relaxed(&producer->written_ms) < written_ms)
        mpb_store_relaxed(&producer->written_ms, (uint64_t)written_ms);
    mpb_step();
    MPB_CRASH(core, "append.producer_half");
    mpb_store_release(&producer->count, count + 1);
    mpb_step();
}

struct mpb_producer *mpb_producer_next(struct mpb_core *core, const struct mpb_partition *row, uint32_t *chain,
                                       uint32_t *row_plus_one)
{
    uint32_t at = *row_plus_one == 0 ? 0 : mpb_load_acquire(&core->producers[*row_plus_one - 1].next);
    if (*row_plus_one != 0 && at == 0)
        *chain += 1;
    while (at == 0 && *chain < MPB_PRODUCER_CHAINS) {
        at = mpb_load_acquire(&row->producer_chain[*chain]);
        if (at == 0)
            *chain += 1;
    }
    if (at == 0 || at > core->producer_count)
        return NULL;
    *row_plus_one = at;
    return &core->producers[at - 1];
}

static void free_row(struct mpb_core *core, struct mpb_producer *producer)
{
    mpb_store_relaxed(&producer->count, 0);
    mpb_store_relaxed(&producer->next, 0);
    mpb_step();
    mpb_store_release(&producer->owner, 0);
    mpb_step();
    atomic_fetch_add(&core->header->producers_freed, 1);
}

void mpb_producers_free(struct mpb_log *log, uint32_t ordinal)
{
    struct mpb_core *core = log->core;
    struct mpb_partition *row = &core->partitions[ordinal];
    for (uint32_t chain = 0; chain < MPB_PRODUCER_CHAINS; chain++)
        for (uint32_t at; (at = mpb_load_acquire(&row->producer_chain[chain])) != 0 && at <= core->producer_count;) {
            struct mpb_producer *producer = &core->producers[at - 1];
            mpb_store_release(&row->producer_chain[chain], mpb_load_relaxed(&producer->next));
            mpb_step(); /* dead here: the row is owned but not chained, and the sweep frees it */
            free_row(core, producer);
        }
}

static bool knows_nothing(const struct mpb_producer *producer) { return mpb_producer_epoch(producer) < 0; }

static bool is_expired(const struct mpb_producer *producer, int64_t before_ms, int64_t once_before_ms)
{
    uint64_t count = mpb_load_acquire(&producer->count);
    int64_t written_ms = (int64_t)mpb_load_relaxed(&producer->written_ms);
    if (is_in_transaction(producer))
        return false;
    return knows_nothing(producer) || written_ms < (count <= 1 ? once_before_ms : before_ms);
}

uint32_t mpb_producers_expire(struct mpb_log *log, uint32_t ordinal, int64_t before_ms, int64_t once_before_ms)
{
    struct mpb_core *core = log->core;
    struct mpb_partition *row = &core->partitions[ordinal];
    uint32_t freed = 0;
    for (uint32_t chain = 0; chain < MPB_PRODUCER_CHAINS; chain++) {
        mpb_atomic32 *link = &row->producer_chain[chain];
        for (uint32_t at; (at = mpb_load_acquire(link)) != 0 && at <= core->producer_count;) {
            struct mpb_producer *producer = &core->producers[at - 1];
            if (!is_expired(producer, before_ms, once_before_ms)) {
                link = &producer->next;
                continue;
            }
            mpb_store_release(link, mpb_load_relaxed(&producer->next));
            mpb_step();
            free_row(core, producer);
            freed++;
        }
    }
    return freed;
}

bool mpb_producer_time(const struct mpb_core *core, uint32_t index, int64_t *out, bool *again)
{
    const struct mpb_producer *producer = &core->producers[index];
    if (mpb_load_acquire(&producer->owner) == 0)
        return false;
    uint64_t count = mpb_load_acquire(&producer->count);
    *out = knows_nothing(producer) ? -1 : (int64_t)mpb_load_relaxed(&producer->written_ms);
    *again = count > 1 || is_in_transaction(producer);
    return true;
}

bool mpb_producer_is_open(const struct mpb_core *core, uint32_t index)
{
    return is_in_transaction(&core->producers[index]);
}

uint32_t mpb_producers_truncate(struct mpb_core *core, struct mpb_partition *row, int64_t end_offset)
{
    uint32_t chain = 0, at = 0, emptied = 0;
    for (struct mpb_producer *p; (p = mpb_producer_next(core, row, &chain, &at)) != NULL;) {
        uint64_t count = mpb_load_acquire(&p->count), left = count;
        while (left > 0 && count - left < MPB_PRODUCER_RING &&
               p->ring[(left - 1) % MPB_PRODUCER_RING].base_offset >= end_offset)
            left--;
        bool nothing = left == 0 || count - left == MPB_PRODUCER_RING;
        if (nothing && count > 0) {
            mpb_store_release(&p->rebuild, 1);
            mpb_step();
            left = 0;
        }
        if (left != count)
            mpb_store_release(&p->count, left);
        mpb_step();
        emptied += mpb_load_acquire(&p->rebuild);
    }
    return emptied;
}

uint32_t mpb_producer_rebuilding(struct mpb_core *core, struct mpb_partition *row, int64_t producer_id)
{
    uint32_t at = mpb_producer_find(core, row, producer_id);
    return at != 0 && mpb_load_acquire(&core->producers[at - 1].rebuild) != 0 ? at : 0;
}

void mpb_producers_rebuilt(struct mpb_core *core, struct mpb_partition *row)
{
    uint32_t chain = 0, at = 0;
    for (struct mpb_producer *p; (p = mpb_producer_next(core, row, &chain, &at)) != NULL;)
        mpb_store_release(&p->rebuild, 0);
}

static bool is_chained(struct mpb_core *core, uint32_t row_plus_one, uint32_t ordinal)
{
    uint32_t chain = 0, at = 0;
    while (mpb_producer_next(core, &core->partitions[ordinal], &chain, &at) != NULL)
        if (at == row_plus_one)
            return true;
    return false;
}

bool mpb_producer_free_lost(struct mpb_core *core, uint32_t index, uint32_t ordinal)
{
    struct mpb_producer *producer = &core->producers[index];
    if (mpb_load_acquire(&producer->owner) != (uint64_t)ordinal + 1 || is_chained(core, index + 1, ordinal))
        return false;
    free_row(core, producer);
    return true;
}

bool mpb_producer_forget(struct mpb_core *core, uint32_t index, uint32_t ordinal, int64_t written_ms, bool again)
{
    struct mpb_producer *producer = &core->producers[index];
    if (mpb_load_acquire(&producer->owner) != (uint64_t)ordinal + 1)
        return false;
    mpb_atomic32 *link = chain_of(&core->partitions[ordinal], producer->producer_id);
    uint32_t at = mpb_load_acquire(link);
    for (uint32_t i = 0; at != index + 1 && at != 0 && at <= core->producer_count && i < core->producer_count; i++) {
        link = &core->producers[at - 1].next;
        at = mpb_load_acquire(link);
    }
    if (at != index + 1)
        return mpb_producer_free_lost(core, index, ordinal);
    int64_t now_ms;
    bool has_again;
    if (!mpb_producer_time(core, index, &now_ms, &has_again) || now_ms != written_ms ||
        mpb_producer_is_open(core, index) || (has_again && !again))
        return false;
    unchain(core, link);
    free_row(core, producer);
    return true;
}
