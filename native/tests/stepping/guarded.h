/* Memory that ends where nobody may read or write: a byte beyond it ends the program, with a sanitizer and without. */
#ifndef MPB_TESTS_GUARDED_H
#define MPB_TESTS_GUARDED_H

#include <string.h>
#include <sys/mman.h>

#include "tests/stepping/check.h"

#define GUARD_BYTES 65536u /* whole pages, whatever their size */

struct guarded {
    uint8_t *end;
    size_t most;
};

static inline struct guarded guarded_open(size_t most)
{
    size_t bytes = (most + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
    uint8_t *begin = mmap(NULL, bytes + GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(begin != MAP_FAILED);
    CHECK_EQ(mprotect(begin + bytes, GUARD_BYTES, PROT_NONE), 0);
    return (struct guarded){begin + bytes, bytes};
}

/* The last `length` bytes of it, as they are in `from`. */
static inline uint8_t *guarded_copy(const struct guarded *guarded, const void *from, size_t length)
{
    CHECK(length <= guarded->most);
    if (length > 0)
        memcpy(guarded->end - length, from, length);
    return guarded->end - length;
}

#endif
