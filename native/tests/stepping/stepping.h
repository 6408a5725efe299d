/* Looks at an operation after each of its instructions, by the trap flag, in the same process. `step_each` calls back
 * there (the caller keeps a copy of shared memory: what SIGKILL would have left at that instruction); `freeze_at` holds
 * the operation there, as SIGSTOP would, on a stack of its own that can be copied, so that it may go on from there again
 * and again (`thaw`). One pass sees every instruction, so a test needs as many steps as the operation has, not their
 * square. A step lands one instruction after a system call. x86-64, not under a sanitizer; elsewhere STEPPING is 0 and
 * the tests say that they did not run. */
#ifndef MPB_TESTS_STEPPING_H
#define MPB_TESTS_STEPPING_H

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STEPPING 1
#else
#define STEPPING 0
#endif

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

typedef void step_op(void *argument);

struct stepping {
    long count, first, stop,
        stride; /* calls back from `first` on, at every `stride`-th; abandons or freezes at `stop` */
    void (*each)(void *);
    void *cookie;
    ucontext_t *inside, *outside; /* of a frozen operation, else NULL */
    sigjmp_buf out;
    const uint8_t *next; /* the instruction that comes next */
    bool system_call;    /* one came with this step */
};

static __thread struct stepping *stepping;

/* The C library's takes a varying number of instructions; with this one a count of steps names the same instruction in
 * every run. */
static __thread long stepping_ticks;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    stepping_ticks++;
    *now = (struct timespec){1 + stepping_ticks / 1000000, stepping_ticks % 1000000 * 1000};
    return 0;
}

#if STEPPING
#define TRAP_FLAG 0x100ll

static void on_trap(int number, siginfo_t *info, void *context)
{
    ucontext_t *where = context;
    (void)number;
    (void)info;
    if (stepping == NULL)
        return;
    long count = ++stepping->count;
    stepping->system_call = stepping->next != NULL && memcmp(stepping->next, "\x0f\x05", 2) == 0;
    stepping->next = (const uint8_t *)where->uc_mcontext.gregs[REG_RIP];
    if (stepping->each != NULL && count >= stepping->first && (count - stepping->first) % stepping->stride == 0)
        stepping->each(stepping->cookie);
    if (count != stepping->stop)
        return;
    where->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    if (stepping->inside == NULL)
        siglongjmp(stepping->out, 1);
    swapcontext(stepping->inside, stepping->outside); /* comes back here when thawed */
}

static void set_trap(bool on)
{
    if (on)
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    else
        __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}
#else
static void set_trap(bool on) { (void)on; }
#endif

static inline void stepping_install(void)
{
#if STEPPING
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
#endif
}

/* Runs `op` from instruction `first` with a call of `each` after every `stride`-th, up to `stop`, where it is abandoned;
 * false: it ended before. Its private state is in the middle of something: throw it away. */
static inline bool step_each(step_op *op, void *argument, long first, long stop, long stride, void (*each)(void *),
                             void *cookie)
{
    struct stepping s = {.first = first, .stop = stop, .stride = stride, .each = each, .cookie = cookie};
    volatile bool abandoned = false;
    stepping = &s;
    if (sigsetjmp(s.out, 1) == 0) {
        set_trap(true);
        op(argument);
        set_trap(false);
    } else {
        abandoned = true;
    }
    stepping = NULL;
    return abandoned;
}

struct frozen {
    struct stepping s;
    step_op *op;
    void *argument;
    bool ended;
    ucontext_t inside, outside;
    uint8_t stack[64 << 10] __attribute__((aligned(64)));
};

static struct frozen *starting;

static inline void frozen_main(void)
{
    struct frozen *f = starting;
    stepping = &f->s;
    set_trap(true);
    f->op(f->argument);
    set_trap(false);
    stepping = NULL;
    f->ended = true;
}

/* Starts `op` and returns when it stands still after `stop` instructions, or (`ended`) before that at its end. Between
 * here and `thaw` its stack, `inside` and whatever it has in private memory may be copied away and back. */
static inline void freeze_at(struct frozen *f, step_op *op, void *argument, long stop)
{
    f->s = (struct stepping){.stop = stop, .stride = 1, .inside = &f->inside, .outside = &f->outside};
    f->op = op;
    f->argument = argument;
    f->ended = false;
    getcontext(&f->inside);
    f->inside.uc_stack.ss_sp = f->stack;
    f->inside.uc_stack.ss_size = sizeof f->stack;
    f->inside.uc_link = &f->outside;
    starting = f;
    makecontext(&f->inside, frozen_main, 0);
    swapcontext(&f->outside, &f->inside);
    stepping = NULL;
}

/* Lets it run to its end. */
static inline void thaw(struct frozen *f)
{
    if (!f->ended)
        swapcontext(&f->outside, &f->inside);
}

#endif
