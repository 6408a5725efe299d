/* XXH32 from its published description: four lanes over 16-byte stripes, then the rest by words and bytes. */
#include "record/xxh32.h"

#include <endian.h>
#include <string.h>

#define PRIME_1 2654435761u
#define PRIME_2 2246822519u
#define PRIME_3 3266489917u
#define PRIME_4 668265263u
#define PRIME_5 374761393u

static inline uint32_t rotate(uint32_t v, int bits) { return v << bits | v >> (32 - bits); }

static inline uint32_t word(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return le32toh(v);
}

uint32_t mpb_xxh32(uint32_t seed, const void *data, size_t len)
{
    const uint8_t *p = data, *end = p + len;
    uint32_t hash = seed + PRIME_5;
    if (len >= 16) {
        uint32_t lane[4] = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1};
        for (; end - p >= 16; p += 16)
            for (int i = 0; i < 4; i++)
                lane[i] = rotate(lane[i] + word(p + 4 * i) * PRIME_2, 13) * PRIME_1;
        hash = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
    }
    hash += (uint32_t)len;
    for (; end - p >= 4; p += 4)
        hash = rotate(hash + word(p) * PRIME_3, 17) * PRIME_4;
    for (; p < end; p++)
        hash = rotate(hash + *p * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ hash >> 15) * PRIME_2;
    hash = (hash ^ hash >> 13) * PRIME_3;
    return hash ^ hash >> 16;
}
