/* Memory that is refused: of one kind of calls some succeed, and all that follow get nothing. The program's malloc, calloc
 * and realloc go to glibc's. Sanitizers have their own: under them nothing is refused. */
#ifndef MPB_TESTS_REFUSED_H
#define MPB_TESTS_REFUSED_H

#include <stdbool.h>
#include <stddef.h>

enum allocation { NO_ALLOCATION, BY_MALLOC, BY_CALLOC, BY_REALLOC };

static enum allocation refused_kind;
static int refused_after;

/* Until allocations are refused no more, with NO_ALLOCATION. */
static inline void refuse(enum allocation kind, int after)
{
    refused_after = after;
    refused_kind = kind;
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
enum { CAN_REFUSE = 1 };
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

static bool is_refused(enum allocation kind) { return refused_kind == kind && refused_after-- <= 0; }

void *malloc(size_t bytes) { return is_refused(BY_MALLOC) ? NULL : __libc_malloc(bytes); }

void *calloc(size_t count, size_t bytes) { return is_refused(BY_CALLOC) ? NULL : __libc_calloc(count, bytes); }

void *realloc(void *memory, size_t bytes) { return is_refused(BY_REALLOC) ? NULL : __libc_realloc(memory, bytes); }
#else
enum { CAN_REFUSE = 0 };
#endif

#endif
