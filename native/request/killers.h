/* Frames that killed a worker, remembered by a digest. A frame that did so twice is refused before it gets an entry. Once
 * may be chance, say a signal from outside, and then the client's retry has to get through.
 *
 * Recovery writes the table. After a reset of everything the supervisor writes it again. Processors read it. */
#ifndef MPB_KILLERS_H
#define MPB_KILLERS_H

#include "shm/core.h"

#define MPB_KILLS_REFUSED 2

/* Digest of a frame without its correlation id, which a retry changes: of its length, its begin and its end, 64 KiB each
 * at most. Never 0. */
uint64_t mpb_frame_digest(const uint8_t *frame, uint32_t length);
/* Adds `kills` to a digest's account; a full table forgets the one that killed longest ago. */
void mpb_killer_add(struct mpb_core *core, uint64_t digest, uint64_t when_ms, uint32_t kills);
bool mpb_killer_known(struct mpb_core *core, const uint8_t *frame, uint32_t length);

#endif
