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

/* The lock word's number of the holding thread; 0: nobody's. */
static uint32_t holder_of(pthread_mutex_t *mutex)
{
    return (uint32_t)__atomic_load_n(&mutex->__data.__lock, __ATOMIC_ACQUIRE) & TID_MASK;
}

bool mpb_robust_lock_is_lost(struct mpb_core *core, pthread_mutex_t *mutex)
{
    uint32_t holder = holder_of(mutex);
    /* Once more: a holder that let go and ended meanwhile took its number out of the word. */
    return holder != 0 && !live_worker(core, holder) && holder_of(mutex) == holder;
}

static enum mpb_lock_result result_of(pthread_mutex_t *mutex, int rc)
{
    if (rc == 0)
        return MPB_LOCK_TAKEN;
    if (rc == EOWNERDEAD) /* consistent before any repair: a failing repair must not make it unusable (append rule 3) */
        return pthread_mutex_consistent(mutex) == 0 ? MPB_LOCK_INHERITED : MPB_LOCK_LOST;
    return rc == EBUSY || rc == ETIMEDOUT ? MPB_LOCK_BUSY : MPB_LOCK_LOST;
}

enum mpb_lock_result mpb_robust_lock_try(pthread_mutex_t *mutex)
{
    return result_of(mutex, pthread_mutex_trylock(mutex));
}

enum mpb_lock_result mpb_robust_lock_wait(pthread_mutex_t *mutex, uint32_t wait_ms)
{
    struct timespec until;
#ifdef __SANITIZE_THREAD__ /* it sees this one only */
    clockid_t clock = CLOCK_REALTIME;
#else
    clockid_t clock = CLOCK_MONOTONIC;
#endif
    clock_gettime(clock, &until);
    uint64_t end_ns = (uint64_t)until.tv_sec * 1000000000 + (uint64_t)until.tv_nsec + (uint64_t)wait_ms * 1000000;
    until = (struct timespec){(time_t)(end_ns / 1000000000), (long)(end_ns % 1000000000)};
#ifdef __SANITIZE_THREAD__
    return result_of(mutex, pthread_mutex_timedlock(mutex, &until));
#else
    return result_of(mutex, pthread_mutex_clocklock(mutex, clock, &until));
#endif
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
