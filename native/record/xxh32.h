/* XXH32, the checksum inside LZ4 frames. Portable; no state. */
#ifndef MPB_XXH32_H
#define MPB_XXH32_H

#include <stddef.h>
#include <stdint.h>

uint32_t mpb_xxh32(uint32_t seed, const void *data, size_t len);

#endif
