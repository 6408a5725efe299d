/* How often memory is given back: the program's free goes to __libc_free, which is glibc's. */
#ifndef MPB_TESTS_SHM_COUNTED_FREES_H
#define MPB_TESTS_SHM_COUNTED_FREES_H

#include <stddef.h>

static unsigned long frees;

/* Sanitizers find by themselves what is lost, and have a free of their own. */
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
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
