/* The lock of one partition row: a robust, process-shared mutex in shared memory. Initialised once, before the first
 * fork, and never again (append rule 15); any worker may take it, at most one at a time.
 *
 * A holder's death hands the lock to the next one who asks, whatever it left undone: the caller looks at the intent.
 * Every wait is bounded, and a holder can be looked up, because the kernel's OOM reaper can free the list of held locks
 * before the kernel walks it, and such a lock would stay taken for ever (append rule 14). */
#ifndef MPB_ROBUST_LOCK_H
#define MPB_ROBUST_LOCK_H

#include "shm/core.h"

enum mpb_lock_result {
    MPB_LOCK_TAKEN = 0,
    MPB_LOCK_INHERITED = 1, /* taken; its last holder died with it */
    MPB_LOCK_BUSY = 2,      /* not taken: somebody holds it */
    MPB_LOCK_LOST = 3,      /* not taken, and never will be. Only a reset of all workers helps: abort() */
};

/* Returns 0 or an errno value. */
int mpb_robust_lock_init(pthread_mutex_t *mutex);

/* Without waiting, and waiting for at most so long. */
enum mpb_lock_result mpb_robust_lock_try(pthread_mutex_t *mutex);
enum mpb_lock_result mpb_robust_lock_wait(pthread_mutex_t *mutex, uint32_t wait_ms);
/* Whether nobody alive holds a lock that is taken: its holder is no thread of a worker of the process table. */
bool mpb_robust_lock_is_lost(struct mpb_core *core, pthread_mutex_t *mutex);
void mpb_robust_lock_release(pthread_mutex_t *mutex);

/* Start-up self-test: a thread dies with a lock in shared memory; 0 if we inherit it, or an errno value. */
int mpb_robust_lock_self_test(void);

#endif
