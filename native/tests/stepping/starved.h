/* A program to which no large block of memory is given for a while. Not under a sanitizer, which needs an address space of
 * its own, or ends the program when a block is refused. */
#ifndef MPB_TESTS_STARVED_H
#define MPB_TESTS_STARVED_H

#include <sys/resource.h>
#include "tests/stepping/check.h"

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
enum { CAN_STARVE = 1 };
#else
enum { CAN_STARVE = 0 };
#endif

static struct rlimit fed;

static inline void starve(void)
{
    CHECK_EQ(getrlimit(RLIMIT_AS, &fed), 0);
    struct rlimit starved = {.rlim_cur = 512 << 20, .rlim_max = fed.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_AS, &starved), 0);
}

static inline void feed(void) { CHECK_EQ(setrlimit(RLIMIT_AS, &fed), 0); }

#endif
