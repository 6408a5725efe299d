/* The partition lock: inherited from a dead process, and from one that is dead although the kernel never marked its
 * lock (as after the OOM reaper); a live holder is waited for. */
#include "tests/log/log_fixture.h"
#include <errno.h>
#include <linux/futex.h>
#include "shm/doorbell.h"
#include "shm/inject.h"
#include "shm/robust_lock.h"

static void hold_and_die(struct fixture *f)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(mpb_robust_lock_try(&f->core.partitions[0].lock), MPB_LOCK_TAKEN);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, NULL, 0), child);
}

/* With an empty table any live process counts as a worker: who waits gets the lock once it is released. */
static void a_live_holder(struct fixture *f)
{
    pthread_mutex_t *lock = &f->core.partitions[0].lock;
    int held[2], released[2];
    char byte = 0;
    CHECK(pipe(held) == 0 && pipe(released) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(mpb_robust_lock_try(lock), MPB_LOCK_TAKEN);
        CHECK(write(held[1], &byte, 1) == 1 && read(released[0], &byte, 1) == 1);
        usleep(20000); /* the other one waits by now, or will find it free */
        mpb_robust_lock_release(lock);
        _exit(0);
    }
    CHECK_EQ(read(held[0], &byte, 1), 1);
    CHECK_EQ(mpb_robust_lock_wait(lock, 10), MPB_LOCK_BUSY);
    errno = ESRCH; /* of some call long ago: the holder lives all the same */
    CHECK_EQ(mpb_robust_lock_is_lost(&f->core, lock), false);
    CHECK_EQ(write(released[1], &byte, 1), 1);
    CHECK_EQ(mpb_robust_lock_wait(lock, 20000), MPB_LOCK_TAKEN);
    mpb_robust_lock_release(lock);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    for (int end = 0; end < 2; end++)
        CHECK(close(held[end]) == 0 && close(released[end]) == 0);
}

static pid_t dead_process(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    return child;
}

/* A row that is used again keeps its lock (append rule 15): its new partition inherits it from who died with it. */
static void a_row_used_again(struct fixture *f)
{
    uint64_t before = counted(f, MPB_C_LOG_LOCKS_INHERITED);
    hold_and_die(f);
    fixture_partition(f, 0);
    CHECK_EQ(counted(f, MPB_C_LOG_LOCKS_INHERITED), before + 1);
}

/* Whoever finds a partition busy for long looks whether anybody holds it at all: the way out is a reset (abort). */
static void a_lost_lock_is_found_out(struct fixture *f)
{
    int status;
    mpb_store_relaxed(&f->core.partitions[0].busy_since_ns, 1);
    pid_t child = fork();
    if (child == 0) {
        mpb_partition_lock(&f->log, 0);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    mpb_store_relaxed(&f->core.partitions[0].busy_since_ns, 0);
}

/* A process that waits is woken by another's release, not by its own deadline. */
static void a_release_wakes_another_process(struct fixture *f)
{
    pthread_mutex_t *lock = &f->core.partitions[0].lock;
    int status;
    CHECK_EQ(mpb_robust_lock_try(lock), MPB_LOCK_TAKEN);
    pid_t child = fork();
    if (child == 0) {
        if (mpb_robust_lock_wait(lock, 20000) != MPB_LOCK_TAKEN)
            _exit(1);
        mpb_robust_lock_release(lock);
        _exit(0);
    }
    while ((lock->__data.__lock & (int)FUTEX_WAITERS) == 0) /* it has announced itself to the kernel */
        usleep(1000);
    usleep(20000);
    mpb_robust_lock_release(lock);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static uint64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A holder that was stopped costs one short wait; the next ones do not wait, readers not at all, and whoever watches is
 * rung when it goes on. */
static void a_busy_partition(struct fixture *f)
{
    struct mpb_partition *row = &f->core.partitions[0];
    struct mpb_partition_copy copy;
    uint64_t busy = counted(f, MPB_C_LOG_LOCKS_BUSY);
    int status;
    CHECK_EQ(mpb_inject_arm(&f->core, "append.copy_half=stop"), 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(mpb_partition_set_high_watermark(&f->log, 0, 0), 0);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(mpb_partition_is_busy(&f->log, 0), false); /* nobody has waited for it */
    CHECK_EQ(mpb_partition_lock(&f->log, 0), MPB_ERR_REQUEST_TIMED_OUT);
    mpb_watch_partition(&f->core, 0, 3);
    CHECK_EQ(mpb_partition_is_busy(&f->log, 0), true);
    uint64_t begin = monotonic_ms();
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(mpb_partition_lock(&f->log, 0), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK(monotonic_ms() - begin < 1000 * MPB_LOCK_WAIT_MS / 2);
    CHECK_EQ(counted(f, MPB_C_LOG_LOCKS_BUSY), busy + 1002);
    CHECK_EQ(mpb_partition_snapshot(&f->log, 0, &copy), 0);
    CHECK_EQ(mpb_load_relaxed(&f->core.doorbells->handler[3].poke), 0);
    kill(child, SIGCONT);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(mpb_load_relaxed(&f->core.doorbells->handler[3].poke), MPB_POKE_DIRTY);
    CHECK_EQ(mpb_load_relaxed(&row->busy_since_ns), 0);
    CHECK_EQ(mpb_partition_is_busy(&f->log, 0), false);
    CHECK_EQ(mpb_partition_lock(&f->log, 0), 0);
    mpb_partition_unlock(&f->log, 0);
}

int main(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_partition(&f, 0);
    pthread_mutex_t *lock = &f.core.partitions[0].lock;
    CHECK_EQ(mpb_robust_lock_self_test(), 0);

    hold_and_die(&f);
    CHECK_EQ(mpb_robust_lock_try(lock), MPB_LOCK_INHERITED);
    mpb_robust_lock_release(lock);
    CHECK_EQ(mpb_robust_lock_try(lock), MPB_LOCK_TAKEN);
    CHECK_EQ(mpb_robust_lock_is_lost(&f.core, lock), false);
    mpb_robust_lock_release(lock);
    CHECK_EQ(mpb_robust_lock_is_lost(&f.core, lock), false);

    a_release_wakes_another_process(&f);
    a_row_used_again(&f);

    mpb_store_release(&f.core.processes[5].pid, (uint32_t)getpid());
    lock->__data.__lock = dead_process(); /* held, and nobody will ever say that its holder died */
    CHECK_EQ(mpb_robust_lock_wait(lock, 1), MPB_LOCK_BUSY);
    CHECK_EQ(mpb_robust_lock_is_lost(&f.core, lock), true);
    a_lost_lock_is_found_out(&f);
    lock->__data.__lock = getppid(); /* held by a process that is alive but no worker: its number was used again */
    CHECK_EQ(mpb_robust_lock_is_lost(&f.core, lock), true);
    lock->__data.__lock = 0;

    mpb_store_release(&f.core.processes[5].pid, 0);
    a_live_holder(&f);
    a_busy_partition(&f);
    fixture_close(&f);
    printf("robust lock: %lu checks\n", checks_made);
    return 0;
}
