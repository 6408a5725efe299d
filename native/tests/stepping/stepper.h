/* Kills a forked victim after its n-th instruction, by the trap flag in the victim itself (far faster than ptrace). A
 * step lands one instruction after a system call, never inside it. x86-64 without a sanitizer only; elsewhere the stepping
 * tests say that they did not run. */
#ifndef MPB_TESTS_STEPPER_H
#define MPB_TESTS_STEPPER_H

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/stepping/check.h"

/* The thread sanitizer knows threads, not processes that inherit locks; under the address sanitizer a fork is slow, and a
 * sample of the crash points is enough to see every line run. */
#ifdef __SANITIZE_THREAD__
#define KILLS_WORK 0
#else
#define KILLS_WORK 1
#endif
#ifdef __SANITIZE_ADDRESS__
#define SAMPLE 36 /* every 36th */
#else
#define SAMPLE 1
#endif

#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define STEPPER_WORKS 1

static long steps_done, steps_until_kill; /* of the victim */

static void on_step(int number)
{
    (void)number;
    if (++steps_done == steps_until_kill)
        kill(getpid(), SIGKILL);
}

static inline void steps_begin(long until_kill)
{
    struct sigaction action = {.sa_handler = on_step};
    sigaction(SIGTRAP, &action, NULL);
    steps_done = 0;
    steps_until_kill = until_kill;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static inline void steps_end(void) { __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc"); }
#else
#define STEPPER_WORKS 0
static long steps_done;
static inline void steps_begin(long until_kill) { (void)until_kill; }
static inline void steps_end(void) {}
#endif

/* Runs `victim(argument)` in a child that dies after `until_kill` instructions (0: never). Returns the instructions it
 * took if it lived, 0 if it was killed. */
static inline long run_stepped(void (*victim)(void *), void *argument, long until_kill)
{
    static long *result;
    if (result == NULL)
        result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *result = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        steps_begin(until_kill);
        victim(argument);
        steps_end();
        *result = steps_done + 1; /* 1 where stepping does not work: it lived */
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    return WIFEXITED(status) ? *result : 0;
}

/* The same without stepping: true if the victim was killed. */
static inline bool run_unstepped(void (*victim)(void *), void *argument)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        victim(argument);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    return WIFSIGNALED(status);
}

/* Lazy binding would make the victims step through the dynamic linker. */
static inline void bind_now(char **argv)
{
    if (getenv("LD_BIND_NOW") == NULL) {
        setenv("LD_BIND_NOW", "1", 1);
        execv("/proc/self/exe", argv);
    }
}

#endif
