/* The lock of one partition row: a robust, process-shared mutex in shared memory. Initialised once, before the first
 * fork, and never again (append rule 15); any worker may take it, at most one at a time.
 *
 * A holder's death hands the lock to the next one who asks, whatever it left undone: the caller looks at the intent.
 * The waits are bounded: 1 s each, then the holder is looked up, because the kernel's OOM reaper can free the list of
 * held locks before the kernel walks it, and such a lock would stay taken for ever (append rule 14). */
#ifndef MPB_ROBUST_LOCK_H
#define MPB_ROBUST_LOCK_H

#include "shm/core.h"

#define MPB_LOCK_WAIT_S 1
#define MPB_LOCK_MAX_WAITS 10

enum mpb_lock_result {
    MPB_LOCK_TAKEN = 0,
    MPB_LOCK_INHERITED = 1, /* taken; its last holder died with it */
    MPB_LOCK_BUSY = 2,      /* not taken: a live worker holds it for MPB_LOCK_MAX_WAITS seconds */
    MPB_LOCK_LOST = 3,      /* not taken: nobody alive holds it. Only a reset of all workers helps: abort() */
};

/* Returns 0 or an errno value. */
int mpb_robust_lock_init(pthread_mutex_t *mutex);

enum mpb_lock_result mpb_robust_lock_take(struct mpb_core *core, pthread_mutex_t *mutex);
void mpb_robust_lock_release(pthread_mutex_t *mutex);

/* Start-up self-test: a thread dies with a lock in shared memory; 0 if we inherit it, or an errno value. */
int mpb_robust_lock_self_test(void);

#endif
