/* Requests that a handler hands over to the coordinator: the entry itself moves, and whoever it moved to answers it.
 *
 *   CLAIMED by a handler ─► HANDED (owner: that handler) ─► CLAIMED by the coordinator ─► DONE
 *                                                              │ given back ─► REQUEUED, hinted in its plane
 *                                                              │ the coordinator died
 *                                                              └─► REQUEUED (owner: the coordinator) ─► CLAIMED
 *
 * The coordinator is a request handler that takes from these two rings instead of the planes. Both have room for every
 * entry: handing over never waits, and what recovery put back goes first (request rules 4 to 7 and 20). */
#ifndef MPB_HANDED_H
#define MPB_HANDED_H

#include "shm/ring.h"

/* An entry that is HANDED already: its hint. Also for a successor, when the first hint was never written. */
void mpb_handed_push(struct mpb_core *core, uint32_t index);
/* An entry of the coordinator's that is REQUEUED already. */
void mpb_handed_requeue(struct mpb_core *core, uint32_t index);
/* Takes the next one for `owner`: row or -1. */
int64_t mpb_handed_take(struct mpb_core *core, uint32_t owner);
bool mpb_handed_empty(struct mpb_core *core);
void mpb_ring_coordinator(struct mpb_core *core);
/* Requests will come: the coordinator gets ready for them now. */
void mpb_want_coordinator(struct mpb_core *core);

#endif
