/* Digests of the last frames that killed a worker. A frame that did it twice is refused before it gets an entry; one death
 * may be chance (a signal from outside), and a client's retry must then get through. Written by recovery and, for faults
 * that reset everything, by the supervisor, which carries the table over the reset; read by processors. */
#ifndef MPB_KILLERS_H
#define MPB_KILLERS_H

#include "shm/core.h"

#define MPB_KILLS_REFUSED 2

/* Digest of a frame without its correlation id, which a retry changes. Never 0. */
uint64_t mpb_frame_digest(const uint8_t *frame, uint32_t length);
/* Adds `kills` to a digest's account; a full table forgets the one that killed longest ago. */
void mpb_killer_add(struct mpb_core *core, uint64_t digest, uint64_t when_ms, uint32_t kills);
bool mpb_killer_known(struct mpb_core *core, const uint8_t *frame, uint32_t length);

#endif
