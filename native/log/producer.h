/* Producer state (idempotence, KIP-98): for each producer id that wrote to a partition, the last five batches with
 * their sequences and offsets. Rows come from one bounded table; a partition chains its own. Read and written under
 * the partition's lock only.
 *
 * A row is a ring of six with a count stored last (append rule 7): keeping a batch is one store, and a truncation takes
 * batches back by lowering the count. The epoch is kept with each batch, so that it moves with the same store. */
#ifndef MPB_PRODUCER_H
#define MPB_PRODUCER_H

#include "log/log.h"
#include "record/record_batch.h"

#define MPB_PRODUCER_KEPT 5
#define MPB_PRODUCER_CHAIN_ROWS \
    256 /* from here on a new producer of the chain replaces one that wrote a single batch */

struct mpb_producer_check {
    bool duplicate;
    struct mpb_producer_batch original; /* of a duplicate */
};

/* The sequence of the last record of a batch; sequences wrap from 2^31 - 1 to 0. */
int32_t mpb_last_sequence(int32_t first_sequence, int32_t record_count);

/* Whether a producer's batch may be appended: 0 (look at out->duplicate), OUT_OF_ORDER_SEQUENCE_NUMBER,
 * INVALID_PRODUCER_EPOCH, or INVALID_TXN_STATE for a plain batch while its transaction is open. A transactional batch with
 * the sequences of one of an ended transaction is out of order, no duplicate (ADR 24): its producer takes them for free, and
 * what it holds would be lost. A producer of which nothing is known may begin with any sequence; `by_coordinator`: any
 * one may. */
int mpb_producer_check(const struct mpb_core *core, const struct mpb_partition *row, const struct mpb_batch_info *batch,
                       bool by_coordinator, struct mpb_producer_check *out);
/* Row number + 1 of this producer, or 0. */
uint32_t mpb_producer_find(const struct mpb_core *core, const struct mpb_partition *row, int64_t producer_id);
/* The newest epoch a row knows, of a batch or of a marker; -1: none. */
int16_t mpb_producer_epoch(const struct mpb_producer *producer);

/* Row number + 1 of this producer, taken from the table and chained if need be; 0: none is free. `forget`: the row may
 * be that of a producer of the partition that wrote a single batch, of those in the chain the one that wrote it longest
 * ago. The search looks at FREE_LOOKS rows of the table at most and goes on with the next batch; without `forget` at all.
 * A death in between leaves an empty row, which is as good as none. */
uint32_t mpb_producer_row(struct mpb_log *log, uint32_t ordinal, int64_t producer_id, bool forget);

/* Keeps a batch in row `row_plus_one`, unless that or a later one is kept already: may be done twice. `written_ms`: the
 * broker's clock at its append; it only goes up. */
void mpb_producer_keep(struct mpb_core *core, uint32_t row_plus_one, const struct mpb_producer_batch *batch,
                       int64_t written_ms);

/* Frees all rows of a partition. */
void mpb_producers_free(struct mpb_log *log, uint32_t ordinal);

/* Frees rows last written before `before_ms`, those of producers with a single batch before `once_before_ms`; returns
 * how many. */
uint32_t mpb_producers_expire(struct mpb_log *log, uint32_t ordinal, int64_t before_ms, int64_t once_before_ms);

/* When row `index` of the table, of any partition, was last written, and whether more than once; false if it is free.
 * Takes no lock: a hint. */
bool mpb_producer_time(const struct mpb_core *core, uint32_t index, int64_t *out, bool *again);
/* Whether it is in a transaction, or may be: then it is never forgotten. A hint, too. */
bool mpb_producer_is_open(const struct mpb_core *core, uint32_t index);

/* Takes back every batch at or above `end_offset`. Rows left with nothing get `rebuild`; returns how many have it. */
uint32_t mpb_producers_truncate(struct mpb_core *core, struct mpb_partition *row, int64_t end_offset);
/* The row of this producer if it waits for batches from the log, else 0. */
uint32_t mpb_producer_rebuilding(struct mpb_core *core, struct mpb_partition *row, int64_t producer_id);
void mpb_producers_rebuilt(struct mpb_core *core, struct mpb_partition *row);

/* Copies the batches kept, oldest first, into `out`; returns how many. */
uint32_t mpb_producer_kept(const struct mpb_producer *producer, struct mpb_producer_batch out[MPB_PRODUCER_KEPT]);

/* Newest batch of a row with `count` > 0. */
static inline const struct mpb_producer_batch *mpb_producer_newest(const struct mpb_producer *producer)
{
    return &producer->ring[(mpb_load_acquire(&producer->count) - 1) % MPB_PRODUCER_RING];
}

/* Walks a partition's rows: first call with *chain = 0 and *row = 0. Returns NULL at the end. */
struct mpb_producer *mpb_producer_next(struct mpb_core *core, const struct mpb_partition *row, uint32_t *chain,
                                       uint32_t *row_plus_one);

/* Frees row `index` if it belongs to partition `ordinal` and is not in its chains: a dead process took it, or took it
 * out, and got no further. */
bool mpb_producer_free_lost(struct mpb_core *core, uint32_t index, uint32_t ordinal);

/* Frees row `index` of partition `ordinal` if its producer wrote nothing since `written_ms`, is in no transaction and, without
 * `again`, wrote a single batch; or if it is lost. */
bool mpb_producer_forget(struct mpb_core *core, uint32_t index, uint32_t ordinal, int64_t written_ms, bool again);

#endif
