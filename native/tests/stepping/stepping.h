/* Looks at an operation after each of its instructions, by the trap flag, in the same process. `step_each` calls back
 * there (the caller keeps a copy of shared memory: what SIGKILL would have left at that instruction); `freeze_at` holds
 * the operation there, as SIGSTOP would, on a stack of its own that can be copied, so that it may go on from there again
 * and again (`thaw`). One pass sees every instruction, so a test needs as many steps as the operation has, not their
 * square. A step lands one instruction after a system call. x86-64, not under a sanitizer; elsewhere STEPPING is 0 and
 * the tests say that they did not run.
 *
 * A trap costs some microseconds (20 in a virtual machine that looks at the debug registers), so who runs the same
 * operation from the same state many times gives a trail: the way of one run, by which the next ones come to an
 * instruction with a breakpoint on it instead of a trap after each one before. */
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

typedef void step_op(void *argument);

enum { TRAIL_STEPS = 1 << 16 };

/* `next[n]`: the instruction that comes after the n-th. All zero at first, and again (`trail_forget`) when what is done,
 * or the state that it begins with, is another. */
struct trail {
    long known;
    const uint8_t *next[TRAIL_STEPS];
};

static inline void trail_forget(struct trail *trail) { trail->known = 0; }

struct stepping {
    long count, first, stop,
        stride; /* calls back from `first` on, at every `stride`-th; abandons or freezes at `stop` */
    void (*each)(void *);
    void *cookie;
    ucontext_t *inside, *outside; /* of a frozen operation, else NULL */
    sigjmp_buf out;
    const uint8_t *next; /* the instruction that comes next */
    bool system_call;    /* one came with this step */
    struct trail *trail; /* or NULL */
    long leap;           /* to this step by a breakpoint; 0: none, or it is there */
    uint8_t *breakpoint; /* put over this byte */
    uint8_t covered;
    long passes; /* of the breakpoint, until it is the one meant */
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

/* Nothing but this and the handler's own code may run while the breakpoint is there and its signal is blocked. */
static void put_breakpoint(struct stepping *s) { *(volatile uint8_t *)s->breakpoint = 0xcc; }

static void take_breakpoint(struct stepping *s) { *(volatile uint8_t *)s->breakpoint = s->covered; }

/* Before the operation begins, if the trail knows the way towards step `to`. */
static void leap_to(struct stepping *s, long to)
{
    struct trail *trail = s->trail;
    if (trail == NULL || trail->known < 2)
        return;
    /* The last one known may be the one after the end of the steps: a trap flag set there would stay. */
    s->leap = to < trail->known ? to : trail->known - 1;
    s->breakpoint = (uint8_t *)(uintptr_t)trail->next[s->leap];
    uint8_t *page = (uint8_t *)((uintptr_t)s->breakpoint & ~(uintptr_t)4095);
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
        s->leap = 0;
        return;
    }
    for (long n = 1; n < s->leap; n++)
        s->passes += trail->next[n] == s->breakpoint;
    s->covered = *s->breakpoint;
}

/* On the way of a leap: at the breakpoint, or a step after it. True: it has arrived, all is as after that step. */
static bool has_leapt(struct stepping *s, greg_t *registers)
{
    if (registers[REG_RIP] != (greg_t)(uintptr_t)s->breakpoint + 1 || (registers[REG_EFL] & TRAP_FLAG) != 0) {
        put_breakpoint(s); /* one pass is over */
        registers[REG_EFL] &= ~TRAP_FLAG;
        return false;
    }
    take_breakpoint(s);
    registers[REG_RIP]--;
    registers[REG_EFL] |= TRAP_FLAG;
    if (s->passes-- > 0)
        return false;
    s->count = s->leap - 1;
    s->next = s->leap > 1 ? s->trail->next[s->leap - 1] : NULL;
    s->leap = 0;
    return true;
}

static void trail_note(struct stepping *s)
{
    if (s->trail != NULL && s->count == s->trail->known + 1 && s->count < TRAIL_STEPS) {
        s->trail->next[s->count] = s->next;
        s->trail->known = s->count;
    }
}

/* The operation has ended and was to be stopped on its way: it went another one. */
static void trail_missed(struct stepping *s)
{
    if (s->leap == 0)
        return;
    fprintf(stderr, "%s: it came not by instruction %ld at this time\n", __FILE__, s->leap);
    abort();
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    ucontext_t *where = context;
    struct stepping *s = stepping;
    (void)number;
    (void)info;
    if (s == NULL || (s->leap != 0 && !has_leapt(s, where->uc_mcontext.gregs)))
        return;
    long count = ++s->count;
    s->system_call = s->next != NULL && memcmp(s->next, "\x0f\x05", 2) == 0;
    s->next = (const uint8_t *)where->uc_mcontext.gregs[REG_RIP];
    trail_note(s);
    if (s->each != NULL && count >= s->first && (count - s->first) % s->stride == 0)
        s->each(s->cookie);
    if (count != s->stop)
        return;
    where->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    if (s->inside == NULL)
        siglongjmp(s->out, 1);
    swapcontext(s->inside, s->outside); /* comes back here when thawed */
}

/* The operation follows at once, by the same instructions with a leap and without. */
static inline __attribute__((always_inline)) void begin_steps(struct stepping *s)
{
    static uint8_t nowhere;
    *(volatile uint8_t *)(s->leap != 0 ? s->breakpoint : &nowhere) = 0xcc;
    __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" ::"r"(s->leap != 0 ? 0 : TRAP_FLAG) : "memory", "cc");
}

static inline void end_steps(void) { __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc"); }
#else
static inline void begin_steps(struct stepping *s) { (void)s; }
static inline void end_steps(void) {}
static inline void leap_to(struct stepping *s, long to) { (void)s, (void)to; }
static inline void trail_missed(struct stepping *s) { (void)s; }
#endif

static inline void stepping_install(void)
{
#if STEPPING
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
#endif
}

/* Runs `op` from instruction `first` with a call of `each` after every `stride`-th, up to `stop`, where it is abandoned;
 * false: it ended before. Its private state is in the middle of something: throw it away. `trail`: or NULL. */
static inline bool step_along(struct trail *trail, step_op *op, void *argument, long first, long stop, long stride,
                              void (*each)(void *), void *cookie)
{
    struct stepping s = {
        .first = first, .stop = stop, .stride = stride, .each = each, .cookie = cookie, .trail = trail};
    volatile bool abandoned = false;
    leap_to(&s, first);
    stepping = &s;
    if (sigsetjmp(s.out, 1) == 0) {
        begin_steps(&s);
        op(argument);
        end_steps();
        trail_missed(&s);
    } else {
        abandoned = true;
    }
    stepping = NULL;
    return abandoned;
}

static inline bool step_each(step_op *op, void *argument, long first, long stop, long stride, void (*each)(void *),
                             void *cookie)
{
    return step_along(NULL, op, argument, first, stop, stride, each, cookie);
}

struct frozen {
    struct stepping s;
    step_op *op;
    void *argument;
    bool ended;
    struct trail trail; /* of `op`; forget it when another begins */
    ucontext_t inside, outside;
    uint8_t stack[64 << 10] __attribute__((aligned(64)));
};

static struct frozen *starting;

static inline void frozen_main(void)
{
    struct frozen *f = starting;
    stepping = &f->s;
    begin_steps(&f->s);
    f->op(f->argument);
    end_steps();
    stepping = NULL;
    trail_missed(&f->s);
    f->ended = true;
}

/* Starts `op` and returns when it stands still after `stop` instructions, or (`ended`) before that at its end. Between
 * here and `thaw` its stack, `inside` and whatever it has in private memory may be copied away and back. */
static inline void freeze_at(struct frozen *f, step_op *op, void *argument, long stop)
{
    f->s = (struct stepping){
        .stop = stop, .stride = 1, .inside = &f->inside, .outside = &f->outside, .trail = &f->trail};
    leap_to(&f->s, stop);
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
