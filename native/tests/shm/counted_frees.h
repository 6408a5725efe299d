/* How often memory is given back. */
#ifndef MPB_TESTS_SHM_COUNTED_FREES_H
#define MPB_TESTS_SHM_COUNTED_FREES_H

#include <stddef.h>

static unsigned long frees;

#ifndef __SANITIZE_ADDRESS__ /* which finds by itself what is lost, and has a free of its own */
enum { FREES_COUNT = 1 };
void __libc_free(void *memory);

void free(void *memory)
{
    frees += memory != NULL;
    __libc_free(memory);
}
#else
enum { FREES_COUNT = 0 };
#endif

#endif
