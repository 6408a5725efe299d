/* The partition lock: inherited from a dead process, and from one that is dead although the kernel never marked its
 * lock (as after the OOM reaper); a live holder is waited for. */
#include "tests/log/log_fixture.h"
#include "shm/robust_lock.h"

static void hold_and_die(struct fixture *f, bool die)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(mpb_robust_lock_take(&f->core, &f->core.partitions[0].lock), MPB_LOCK_TAKEN);
        if (!die) {
            usleep(1300000); /* longer than one wait */
            mpb_robust_lock_release(&f->core.partitions[0].lock);
        }
        _exit(0);
    }
    if (die)
        CHECK_EQ(waitpid(child, NULL, 0), child);
    else
        usleep(100000);
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
    hold_and_die(f, true);
    fixture_partition(f, 0);
    CHECK_EQ(counted(f, MPB_C_LOG_LOCKS_INHERITED), before + 1);
}

int main(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_partition(&f, 0);
    pthread_mutex_t *lock = &f.core.partitions[0].lock;
    CHECK_EQ(mpb_robust_lock_self_test(), 0);

    hold_and_die(&f, true);
    CHECK_EQ(mpb_robust_lock_take(&f.core, lock), MPB_LOCK_INHERITED);
    mpb_robust_lock_release(lock);
    CHECK_EQ(mpb_robust_lock_take(&f.core, lock), MPB_LOCK_TAKEN);
    mpb_robust_lock_release(lock);

    a_row_used_again(&f);

    mpb_store_release(&f.core.processes[5].pid, (uint32_t)getpid());
    lock->__data.__lock = dead_process(); /* held, and nobody will ever say that its holder died */
    CHECK_EQ(mpb_robust_lock_take(&f.core, lock), MPB_LOCK_LOST);
    lock->__data.__lock = getppid(); /* held by a process that is alive but no worker: its number was used again */
    CHECK_EQ(mpb_robust_lock_take(&f.core, lock), MPB_LOCK_LOST);
    lock->__data.__lock = 0;

    mpb_store_release(&f.core.processes[5].pid, 0); /* with an empty table any live process counts as a worker */
    hold_and_die(&f, false);
    CHECK_EQ(mpb_robust_lock_take(&f.core, lock), MPB_LOCK_TAKEN);
    mpb_robust_lock_release(lock);
    wait(NULL);
    fixture_close(&f);
    printf("robust lock: %lu checks\n", checks_made);
    return 0;
}
