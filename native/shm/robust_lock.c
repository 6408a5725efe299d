#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_mutex_clocklock */
#endif
#include "shm/robust_lock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TID_MASK 0x3fffffff /* the futex word's two upper bits are flags */

int mpb_robust_lock_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    int rc = pthread_mutexattr_init(&attributes);
    if (rc != 0)
        return rc;
    rc = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (rc == 0)
        rc = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (rc == 0)
        rc = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return rc;
}

static bool thread_belongs_to(uint32_t pid, uint32_t tid)
{
    char path[64];
    if (pid == tid)
        return true;
    snprintf(path, sizeof path, "/proc/%u/task/%u", pid, tid);
    return access(path, F_OK) == 0;
}

/* Whether a live worker of the process table may hold a lock in the name of `tid`. */
static bool live_worker(struct mpb_core *core, uint32_t tid)
{
    bool table_in_use = false;
    if (kill((pid_t)tid, 0) != 0 && errno == ESRCH)
        return false;
    for (uint32_t slot = 0; slot < MPB_MAX_SLOTS && core->processes != NULL; slot++) {
        uint32_t pid = mpb_load_acquire(&core->processes[slot].pid);
        if (pid == 0)
            continue;
        table_in_use = true;
        if (thread_belongs_to(pid, tid))
            return true;
    }
    return !table_in_use; /* a test without a process table: any live thread counts */
}

static int lock_within_a_wait(pthread_mutex_t *mutex)
{
    struct timespec until;
#ifdef __SANITIZE_THREAD__ /* it sees this one only */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += MPB_LOCK_WAIT_S;
    return pthread_mutex_timedlock(mutex, &until);
#else
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += MPB_LOCK_WAIT_S;
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
#endif
}

static enum mpb_lock_result wait_for(struct mpb_core *core, pthread_mutex_t *mutex)
{
    for (int waits = 0; waits < MPB_LOCK_MAX_WAITS; waits++) {
        int rc = lock_within_a_wait(mutex);
        if (rc == 0)
            return MPB_LOCK_TAKEN;
        if (rc == EOWNERDEAD)
            return pthread_mutex_consistent(mutex) == 0 ? MPB_LOCK_INHERITED : MPB_LOCK_LOST;
        if (rc != ETIMEDOUT)
            return MPB_LOCK_LOST;
        uint32_t owner = (uint32_t)__atomic_load_n(&mutex->__data.__lock, __ATOMIC_ACQUIRE) & TID_MASK;
        if (owner != 0 && !live_worker(core, owner))
            return MPB_LOCK_LOST;
    }
    return MPB_LOCK_BUSY;
}

enum mpb_lock_result mpb_robust_lock_take(struct mpb_core *core, pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_trylock(mutex); /* spares the clock when nobody holds it */
    if (rc == 0)
        return MPB_LOCK_TAKEN;
    if (rc == EOWNERDEAD) /* consistent before any repair: a failing repair must not make it unusable (append rule 3) */
        return pthread_mutex_consistent(mutex) == 0 ? MPB_LOCK_INHERITED : MPB_LOCK_LOST;
    if (rc != EBUSY)
        return MPB_LOCK_LOST;
    return wait_for(core, mutex);
}

void mpb_robust_lock_release(pthread_mutex_t *mutex) { pthread_mutex_unlock(mutex); }

static void *die_with_lock(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

/* A thread's end goes the same way through the kernel as a process's, and costs no fork. */
int mpb_robust_lock_self_test(void)
{
    pthread_mutex_t *mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_t holder;
    if (mutex == MAP_FAILED)
        return errno;
    int rc = mpb_robust_lock_init(mutex);
    if (rc == 0)
        rc = pthread_create(&holder, NULL, die_with_lock, mutex);
    if (rc == 0)
        rc = pthread_join(holder, NULL);
    if (rc == 0)
        rc = pthread_mutex_trylock(mutex) == EOWNERDEAD ? pthread_mutex_consistent(mutex) : ENOTSUP;
    if (rc == 0) /* while we hold it, our list of held locks points into this memory */
        rc = pthread_mutex_unlock(mutex);
    munmap(mutex, sizeof *mutex);
    return rc;
}
