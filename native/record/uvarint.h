/* Kafka's unsigned varints: lengths, counts and tags of flexible versions. Readers never look at or past `end`; writers
 * trust the caller to have made room. */
#ifndef MPB_UVARINT_H
#define MPB_UVARINT_H
#include <stddef.h>
#include <stdint.h>

#define MPB_UVARINT_MAX_BYTES 5

/* Reads one unsigned varint of at most 5 bytes. Returns the first byte after it, or NULL when it is cut off or
 * longer. Bits above the 32nd are dropped, as Kafka's own reader does. */
static inline const uint8_t *mpb_get_uvarint(const uint8_t *at, const uint8_t *end, uint32_t *value)
{
    uint32_t sum = 0;
    for (int shift = 0; shift < 7 * MPB_UVARINT_MAX_BYTES; shift += 7) {
        if (at >= end)
            return NULL;
        uint8_t byte = *at++;
        sum |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *value = sum;
            return at;
        }
    }
    return NULL;
}

/* Writes an unsigned varint (1 to 5 bytes) and returns how many bytes it took. */
static inline size_t mpb_put_uvarint(uint8_t *at, uint32_t value)
{
    size_t used = 0;
    while (value >= 0x80) {
        at[used++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    at[used++] = (uint8_t)value;
    return used;
}

/* The bytes that mpb_put_uvarint takes. */
static inline size_t mpb_uvarint_bytes(uint32_t value)
{
    size_t bytes = 1;
    while (value >>= 7)
        bytes++;
    return bytes;
}

#endif
