/* Digests of the last frames that killed a worker. A matching frame is refused before it gets an entry. Written by
 * recovery (and by the supervisor, which carries them over a reset); read by processors. */
#ifndef MPB_KILLERS_H
#define MPB_KILLERS_H

#include "core.h"

/* Digest of a frame without its correlation id, which a retry changes. Never 0. */
uint64_t mpb_frame_digest(const uint8_t *frame, uint32_t length);
void mpb_killer_add(struct mpb_core *core, uint64_t digest, uint64_t when_ms);
bool mpb_killer_known(struct mpb_core *core, const uint8_t *frame, uint32_t length);

#endif
