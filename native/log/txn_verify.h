/* The coordinator's word that a partition is part of a producer's transaction (transaction.h), so that an append need not ask
 * it. Called by the coordinator's process, before it tells the producer. */
#ifndef MPB_TXN_VERIFY_H
#define MPB_TXN_VERIFY_H

#include "log/log.h"

#define MPB_NO_GUARD (-1) /* and every number above; guards are below */

/* Lets the producer open a transaction with this epoch. May be done twice. THROTTLING_QUOTA_EXCEEDED: no row is free. With a
 * guard: only if no marker came since mpb_txn_guard gave it, else INVALID_TXN_STATE; epoch -1 takes the guard back. */
int mpb_txn_verify(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t producer_id, int16_t epoch,
                   int16_t guard);
/* The coordinator, on another broker, is being asked about the producer: notes `guard`, below MPB_NO_GUARD, in its row. A
 * marker takes it out: what was true when the coordinator answered is not any more (KIP-890). *in_force: the guard of who
 * asked first, if somebody did; the epoch if that is verified already. */
int mpb_txn_guard(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t producer_id, int16_t epoch,
                  int16_t guard, int16_t *in_force);

#endif
