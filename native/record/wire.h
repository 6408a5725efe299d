/* Kafka's scalar encodings: big-endian integers and unsigned varints. No allocation, no Python, no I/O.
 * Readers never look at or past `end`; writers trust the caller to have made room. */
#ifndef MPB_WIRE_H
#define MPB_WIRE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "record/uvarint.h"

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

#endif
