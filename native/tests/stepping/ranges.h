/* Pieces of memory that are copied away and back together. */
#ifndef MPB_TESTS_RANGES_H
#define MPB_TESTS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct range {
    void *at;
    size_t bytes;
};
#define MAX_RANGES 64

static inline size_t ranges_bytes(const struct range *r, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += r[i].bytes;
    return sum;
}

static inline void ranges_save(const struct range *r, size_t n, uint8_t *into)
{
    for (size_t i = 0; i < n; into += r[i++].bytes)
        memcpy(into, r[i].at, r[i].bytes);
}

static inline void ranges_restore(const struct range *r, size_t n, const uint8_t *from)
{
    for (size_t i = 0; i < n; from += r[i++].bytes)
        memcpy(r[i].at, from, r[i].bytes);
}

static inline bool ranges_equal(const struct range *r, size_t n, const uint8_t *kept)
{
    bool equal = true;
    for (size_t i = 0; equal && i < n; kept += r[i++].bytes)
        equal = memcmp(kept, r[i].at, r[i].bytes) == 0;
    return equal;
}

#endif
