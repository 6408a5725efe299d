/* Repairs what a process left behind when it died. Runs in its successor in the same slot, before the successor's loop.
 * A repair needs no lock, waits for nobody and can be killed at any instruction and run again. It ends by ringing
 * everybody, because the dead process may have taken a wake with it (request rules 12 to 16).
 *
 *   processor   FILL, SENDING, and QUEUED without a hint → FREE (traced as aborted if it was received); other requests
 *               finish, and their answers are dropped
 *   handler     CLAIMED → REQUEUED and hinted; after three dead handlers it is answered with CLOSE instead
 *               REQUEUED, HANDED or DONE without a hint → hinted; extents that nobody refers to → free
 *   controller  CLAIMED commands → QUEUED again; handlers are rung for DONE ones with everybody else */
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
void mpb_recover_controller(struct mpb_core *core, uint32_t self, struct mpb_recovery *done); /* or the cluster's */

#endif
