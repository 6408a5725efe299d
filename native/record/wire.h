/* Kafka's scalar encodings: big-endian integers and unsigned varints. No allocation, no Python, no I/O.
 * Readers never look at or past `end`; writers trust the caller to have made room. */
#ifndef MPB_WIRE_H
#define MPB_WIRE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MPB_UVARINT_MAX_BYTES 5

static inline uint16_t mpb_get_be16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap16(value);
}

static inline uint32_t mpb_get_be32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t mpb_get_be64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap64(value);
}

static inline void mpb_put_be16(uint8_t *at, uint16_t value)
{
    value = __builtin_bswap16(value);
    memcpy(at, &value, sizeof value);
}

static inline void mpb_put_be32(uint8_t *at, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(at, &value, sizeof value);
}

static inline void mpb_put_be64(uint8_t *at, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(at, &value, sizeof value);
}

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

#endif
