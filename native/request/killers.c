#include "request/killers.h"
#include <string.h>

#define PART_BYTES 65536u /* of a frame's begin, and of its end */

static uint64_t mix(uint64_t hash, const uint8_t *bytes, uint32_t length)
{
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 32;
    }
    for (; length > 0; bytes++, length--)
        hash = (hash ^ *bytes) * 0x100000001b3ull;
    return hash;
}

/* The frame's length in the low half, so that a frame of another length need not be looked at; in the high half its
 * begin and end. */
uint64_t mpb_frame_digest(const uint8_t *frame, uint32_t length)
{
    uint64_t hash = mix(0xcbf29ce484222325ull, frame, length < 4 ? length : 4);
    const uint8_t *rest = length > 8 ? frame + 8 : frame; /* behind the correlation id */
    uint32_t bytes = length > 8 ? length - 8 : 0, first = bytes < PART_BYTES ? bytes : PART_BYTES;
    uint32_t last = bytes - first < PART_BYTES ? bytes - first : PART_BYTES;
    hash = mix(hash, rest, first);
    hash = mix(hash, rest + (bytes - last), last);
    hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15ull & ~0xffffffffull;
    return (hash != 0 ? hash : 1ull << 32) | length;
}

#define WHEN(word) ((word) & 0xffffffffffffull)
#define KILLS(word) ((uint32_t)((word) >> 48))

void mpb_killer_add(struct mpb_core *core, uint64_t digest, uint64_t when_ms, uint32_t kills)
{
    struct mpb_killer *row = &core->killers[0];
    for (uint32_t i = 0; i < MPB_KILLER_ROWS; i++) {
        struct mpb_killer *other = &core->killers[i];
        uint64_t seen = mpb_load_acquire(&other->digest);
        if (seen == digest || seen == 0) {
            row = other;
            break;
        }
        if (WHEN(mpb_load_relaxed(&other->kills_when)) < WHEN(mpb_load_relaxed(&row->kills_when)))
            row = other;
    }
    if (mpb_load_relaxed(&row->digest) == digest)
        kills += KILLS(mpb_load_relaxed(&row->kills_when));
    mpb_store_relaxed(&row->kills_when, (uint64_t)(kills < 0xffff ? kills : 0xffff) << 48 | WHEN(when_ms));
    mpb_store_release(&row->digest, digest);
}

bool mpb_killer_known(struct mpb_core *core, const uint8_t *frame, uint32_t length)
{
    if (mpb_load_relaxed(&core->killers[0].digest) == 0)
        return false; /* rows fill from the first */
    uint64_t digest = 0;
    for (uint32_t i = 0; i < MPB_KILLER_ROWS; i++) {
        uint64_t seen = mpb_load_acquire(&core->killers[i].digest);
        if ((uint32_t)seen != length)
            continue; /* saves the hash of up to 128 KiB alone: the length stands in the digest, too */
        if (digest == 0)
            digest = mpb_frame_digest(frame, length);
        if (seen == digest)
            return KILLS(mpb_load_relaxed(&core->killers[i].kills_when)) >= MPB_KILLS_REFUSED;
    }
    return false;
}
