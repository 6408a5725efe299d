/* Commands from handlers to the controller, or to the cluster's controller: a table of rows of 64 KiB, and two rings from
 * which those processes take them as handlers take requests. `target` and `self` are their slots.
 *
 * A command carries an operation: the fill number of the request it serves, times MPB_COMMAND_PARTS, plus its number
 * among that request's commands. If a handler dies and its request is run again, the second run finds the command, or its
 * answer, by the operation, and does not send it twice. Operation 0 serves no request and is never found again. */
#ifndef MPB_COMMAND_H
#define MPB_COMMAND_H

#include "shm/core.h"
#include "shm/ring.h"

#define MPB_COMMAND_ANSWER (MPB_COMMAND_BYTES - 64 - MPB_COMMAND_REQUEST)
#define MPB_COMMAND_PARTS 128u /* commands of one request */
enum { MPB_COMMAND_FULL = -1, MPB_COMMAND_TOO_LONG = -2 };

/* Handler: row of the command, new or (same operation) found; or a negative code. */
int64_t mpb_command_send(struct mpb_core *core, uint32_t slot, uint32_t target, uint64_t operation, const void *bytes,
                         uint32_t length);
/* Handler: the first row at or after `from` that is answered for this process, or -1. */
int64_t mpb_command_answered(struct mpb_core *core, uint32_t slot, uint32_t from);
/* Handler: the answer is read, the row free. False: not an answered row of this slot. */
bool mpb_command_free(struct mpb_core *core, uint32_t slot, uint32_t index);

/* The ring of a target. */
static inline uint32_t mpb_command_ring(uint32_t target)
{
    return target == MPB_SLOT_CLUSTER_CONTROLLER ? MPB_RING_CLUSTER_CONTROLLER : MPB_RING_CONTROLLER;
}

/* Controller. _claim: a row, or -1. _complete: stores the answer and rings the handler. */
int64_t mpb_command_claim(struct mpb_core *core, uint32_t self);
bool mpb_command_complete(struct mpb_core *core, uint32_t self, uint32_t index, const void *bytes, uint32_t length,
                          uint64_t generation_after);

/* Recovery of a handler: what it was still filling, or had not hinted, is free again. */
void mpb_commands_recover_handler(struct mpb_core *core, uint32_t slot);

#endif
