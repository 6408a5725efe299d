/* The two macros every C test needs. CHECK counts and ends the program with the place and both values. */
#ifndef MPB_TESTS_CHECK_H
#define MPB_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long checks_made;

#define CHECK_EQ(got, want)                                                                          \
    do {                                                                                             \
        long long got_ = (long long)(got), want_ = (long long)(want);                                \
        __atomic_fetch_add(&checks_made, 1, __ATOMIC_RELAXED);                                       \
        if (got_ != want_) {                                                                         \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, want_); \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

#define CHECK(condition) CHECK_EQ(!!(condition), 1)

/* xorshift64*: the same sequence on every machine from one seed, which must not be 0. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

static inline uint32_t random_below(uint64_t *state, uint32_t end)
{
    return (uint32_t)(next_random(state) >> 33) % end;
}

#endif
