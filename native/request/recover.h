/* Repair of a slot after its process died. Runs in the successor, in the same slot, before its loop; the supervisor only
 * forks it. Each repair may be killed at any instruction and run again, needs no lock and waits for nobody, and ends by
 * ringing everybody, because the dead process may have swallowed a wake. (request-rings, 3.7.)
 *
 *   processor   FILL, never-pushed QUEUED, SENDING → FREE (traced as aborted); the rest finishes and is dropped later
 *   handler     CLAIMED → REQUEUED and hinted, or, after it killed three handlers, answered with CLOSE;
 *               REQUEUED or DONE without a hint → hinted; extents nobody refers to → free
 *   controller  CLAIMED commands → QUEUED again; DONE ones whose handler was not rung: everybody is rung */
#ifndef MPB_RECOVER_H
#define MPB_RECOVER_H

#include "request/handler.h"
#include "request/processor.h"

/* After this many deaths in hand a request is handed out no more. After two, its next handler sees attempts == 2 and
 * answers an error without executing it. */
#define MPB_ATTEMPTS_LAST 3

struct mpb_recovery {
    uint32_t requeued, hinted, closed, freed, dropped;
};

void mpb_recover_processor(struct mpb_processor *p, struct mpb_recovery *done);
void mpb_recover_handler(struct mpb_handler *h, struct mpb_recovery *done);
void mpb_recover_controller(struct mpb_core *core, struct mpb_recovery *done);

#endif
