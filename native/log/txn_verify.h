/* The coordinator's word that a partition is part of a producer's transaction (transaction.h), so that an append need not ask
 * it. Called by the coordinator's process, before it tells the producer. */
#ifndef MPB_TXN_VERIFY_H
#define MPB_TXN_VERIFY_H

#include "log/log.h"

/* Lets the producer open a transaction with this epoch. May be done twice. THROTTLING_QUOTA_EXCEEDED: no row is free. */
int mpb_txn_verify(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t producer_id, int16_t epoch);

#endif
