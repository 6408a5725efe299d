/* The partition lock, call by call: what is made of each answer of the C library and of the kernel, whose lock is lost, until
 * when is waited, and a self-test that fails at each of its steps. The calls are the test's. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "tests/stepping/check.h"
#include "shm/robust_lock.h"

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
enum { NONE, ATTR_INIT, SETPSHARED, SETROBUST, INIT, CREATE, LOCK, JOIN, TRYLOCK, CONSISTENT, UNLOCK, CLOCKLOCK };
enum { CALLS = CLOCKLOCK + 1, HOLDER = 0x1234567, FLAGS = (int)0xc0000000u };

static struct {
    bool plays; /* false: memory that is mapped before the test begins, as by whoever watches which functions run */
    int answer[CALLS], calls[CALLS], destroyed, mapped, unmapped, map_error;
    void *mutex;
    struct timespec until, now;
    int kill_error, accesses;
    char path[64]; /* that is there; all others are not */
    void (*on_kill)(void);
} lib;
static pthread_mutex_t mutex;
static struct mpb_process processes[MPB_MAX_SLOTS + 1]; /* one that is no slot */
static struct mpb_core core = {.processes = processes};

static int call(int which)
{
    lib.calls[which]++;
    return lib.answer[which];
}

static int call_with(int which, void *given)
{
    CHECK(given == lib.mutex);
    return call(which);
}

int pthread_mutexattr_init(pthread_mutexattr_t *attributes)
{
    memset(attributes, 0, sizeof *attributes);
    return call(ATTR_INIT);
}

int pthread_mutexattr_setpshared(pthread_mutexattr_t *attributes, int shared)
{
    (void)attributes;
    CHECK_EQ(shared, PTHREAD_PROCESS_SHARED);
    return call(SETPSHARED);
}

int pthread_mutexattr_setrobust(pthread_mutexattr_t *attributes, int robust)
{
    (void)attributes;
    CHECK_EQ(robust, PTHREAD_MUTEX_ROBUST);
    return call(SETROBUST);
}

int pthread_mutexattr_destroy(pthread_mutexattr_t *attributes)
{
    lib.destroyed++;
    (void)attributes;
    return 0;
}

int pthread_mutex_init(pthread_mutex_t *given, const pthread_mutexattr_t *attributes)
{
    CHECK(attributes != NULL && lib.destroyed == 0);
    return call_with(INIT, given);
}

int pthread_mutex_lock(pthread_mutex_t *given) { return call_with(LOCK, given); }
int pthread_mutex_trylock(pthread_mutex_t *given) { return call_with(TRYLOCK, given); }
int pthread_mutex_consistent(pthread_mutex_t *given) { return call_with(CONSISTENT, given); }
int pthread_mutex_unlock(pthread_mutex_t *given) { return call_with(UNLOCK, given); }

int pthread_mutex_clocklock(pthread_mutex_t *given, clockid_t clock, const struct timespec *until)
{
    CHECK_EQ(clock, CLOCK_MONOTONIC);
    lib.until = *until;
    return call_with(CLOCKLOCK, given);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    CHECK(attributes == NULL);
    *thread = 77;
    if (call(CREATE) == 0)
        CHECK(run(argument) == NULL);
    return lib.answer[CREATE];
}

int pthread_join(pthread_t thread, void **result)
{
    CHECK(thread == 77 && result == NULL);
    return call(JOIN);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    CHECK_EQ(clock, CLOCK_MONOTONIC);
    *now = lib.now;
    return 0;
}

int kill(pid_t pid, int number)
{
    CHECK(pid == HOLDER && number == 0);
    if (lib.on_kill != NULL)
        lib.on_kill();
    errno = lib.kill_error == 0 ? ESRCH : lib.kill_error; /* a call that succeeds leaves what an earlier one said */
    return lib.kill_error == 0 ? 0 : -1;
}

int access(const char *path, int how)
{
    CHECK_EQ(how, F_OK);
    lib.accesses++;
    return strcmp(path, lib.path) == 0 ? 0 : -1;
}

void *mmap(void *at, size_t bytes, int rights, int how, int fd, off_t offset)
{
    if (!lib.plays)
        return (void *)syscall(SYS_mmap, at, bytes, rights, how, fd, offset);
    CHECK(at == NULL && bytes == sizeof mutex && rights == (PROT_READ | PROT_WRITE) && offset == 0);
    CHECK(how == (MAP_SHARED | MAP_ANONYMOUS) && fd == -1);
    lib.mapped++;
    errno = lib.map_error;
    return lib.map_error != 0 ? MAP_FAILED : &mutex;
}

int munmap(void *at, size_t bytes)
{
    CHECK(at == &mutex && bytes == sizeof mutex);
    lib.unmapped++;
    return 0;
}

static void begin(void)
{
    memset(&lib, 0, sizeof lib);
    lib.plays = true;
    memset(&mutex, 0, sizeof mutex);
    memset((void *)processes, 0, sizeof processes);
    lib.mutex = &mutex;
}

/* ------------------------------------------------------------------ answers of the C library */
static void test_a_lock_that_is_made(void)
{
    for (int fails = NONE; fails <= INIT; fails++) {
        begin();
        lib.answer[fails] = fails == NONE ? 0 : EAGAIN;
        CHECK_EQ(mpb_robust_lock_init(&mutex), fails == NONE ? 0 : EAGAIN);
        for (int which = ATTR_INIT; which <= INIT; which++)
            CHECK_EQ(lib.calls[which], fails == NONE || which <= fails);
        CHECK_EQ(lib.destroyed, fails != ATTR_INIT); /* once, where there is something */
    }
}

static void test_what_an_answer_means(void)
{
    static const struct {
        int answer, consistent;
        enum mpb_lock_result means;
    } ROWS[] = {{0, 0, MPB_LOCK_TAKEN},
                {0, EINVAL, MPB_LOCK_TAKEN},
                {EOWNERDEAD, 0, MPB_LOCK_INHERITED},
                {EOWNERDEAD, EINVAL, MPB_LOCK_LOST},
                {EBUSY, 0, MPB_LOCK_BUSY},
                {ETIMEDOUT, 0, MPB_LOCK_BUSY},
                {ENOTRECOVERABLE, 0, MPB_LOCK_LOST},
                {EINVAL, 0, MPB_LOCK_LOST},
                {EDEADLK, 0, MPB_LOCK_LOST},
                {1, 0, MPB_LOCK_LOST}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int waits = 0; waits < 2; waits++) {
            begin();
            lib.answer[waits ? CLOCKLOCK : TRYLOCK] = ROWS[i].answer;
            lib.answer[CONSISTENT] = ROWS[i].consistent;
            CHECK_EQ(waits ? mpb_robust_lock_wait(&mutex, 5) : mpb_robust_lock_try(&mutex), ROWS[i].means);
            CHECK_EQ(lib.calls[CONSISTENT], ROWS[i].answer == EOWNERDEAD);
        }
    begin();
    mpb_robust_lock_release(&mutex);
    CHECK_EQ(lib.calls[UNLOCK], 1);
}

static void test_until_when_is_waited(void)
{
    static const struct {
        struct timespec now;
        uint32_t wait_ms;
        struct timespec until;
    } ROWS[] = {{{0, 0}, 0, {0, 0}},
                {{5, 7}, 0, {5, 7}},
                {{5, 7}, 1, {5, 1000007}},
                {{5, 998999999}, 1, {5, 999999999}},
                {{5, 999000000}, 1, {6, 0}},
                {{5, 999999999}, 1, {6, 999999}},
                {{5, 250000000}, 2750, {8, 0}},
                {{1000000, 1}, UINT32_MAX, {1000000 + 4294967, 295000001}}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        begin();
        lib.now = ROWS[i].now;
        CHECK_EQ(mpb_robust_lock_wait(&mutex, ROWS[i].wait_ms), MPB_LOCK_TAKEN);
        CHECK(lib.until.tv_sec == ROWS[i].until.tv_sec && lib.until.tv_nsec == ROWS[i].until.tv_nsec);
    }
}

/* ------------------------------------------------------------------ whose lock is lost */
static const struct {
    int kill_error;
    uint32_t pids[3]; /* of the first slot, one in the middle and the last */
    const char *path;
    bool is_lost;
} HOLDERS[] = {
    {ESRCH, {0}, "", true},
    {ESRCH, {HOLDER}, "", true}, /* its row is not cleared yet */
    {0, {0}, "", false},         /* without a table any live thread counts */
    {EPERM, {0}, "", false},     /* it lives, and is another user's */
    {0, {HOLDER}, "", false},
    {0, {0, HOLDER}, "", false},
    {0, {0, 0, HOLDER}, "", false},
    {0, {50, HOLDER, 51}, "", false},
    {0, {50}, "", true}, /* a number that was used again */
    {0, {50, 51, 52}, "", true},
    {EPERM, {50, 51, 52}, "", true},
    {0, {50, 51, 52}, "/proc/52/task/19088743", false}, /* a worker's thread */
    {0, {50, 51, 52}, "/proc/50/task/19088743", false},
    {0, {50, 51, 52}, "/proc/51/task/50", true},
    {0, {4294967295u}, "/proc/4294967295/task/19088743", false},
};

static void test_whose_lock_is_lost(void)
{
    static const int SLOTS[] = {0, 60, MPB_MAX_SLOTS - 1};
    for (size_t i = 0; i < sizeof HOLDERS / sizeof *HOLDERS; i++)
        for (int flags = 0; flags < 2; flags++) {
            begin();
            mutex.__data.__lock = HOLDER | (flags ? FLAGS : 0); /* somebody waits, or its last holder died */
            lib.kill_error = HOLDERS[i].kill_error;
            strcpy(lib.path, HOLDERS[i].path);
            for (int slot = 0; slot < 3; slot++)
                mpb_store_relaxed(&processes[SLOTS[slot]].pid, HOLDERS[i].pids[slot]);
            CHECK_EQ(mpb_robust_lock_is_lost(&core, &mutex), HOLDERS[i].is_lost);
            mutex.__data.__lock = flags ? FLAGS : 0; /* nobody's */
            CHECK_EQ(mpb_robust_lock_is_lost(&core, &mutex), false);
        }
    begin();
    mutex.__data.__lock = HOLDER;
    mpb_store_relaxed(&processes[MPB_MAX_SLOTS].pid, 50); /* behind the table */
    CHECK_EQ(mpb_robust_lock_is_lost(&core, &mutex), false);
    struct mpb_core none = {.processes = NULL};
    CHECK_EQ(mpb_robust_lock_is_lost(&none, &mutex), false);
    lib.kill_error = ESRCH;
    CHECK_EQ(mpb_robust_lock_is_lost(&none, &mutex), true);
}

static void let_go(void) { mutex.__data.__lock = 0; }
static void hand_over(void) { mutex.__data.__lock = HOLDER + 1; }

/* Who let go and ended while it was looked for lost nothing. */
static void test_a_holder_that_lets_go(void)
{
    void (*const changes[])(void) = {NULL, let_go, hand_over};
    for (int i = 0; i < 3; i++) {
        begin();
        mutex.__data.__lock = HOLDER;
        lib.kill_error = ESRCH;
        lib.on_kill = changes[i];
        CHECK_EQ(mpb_robust_lock_is_lost(&core, &mutex), i == 0);
    }
}

/* ------------------------------------------------------------------ the self-test */
static void test_the_self_test(void)
{
    static const int STEPS[] = {ATTR_INIT, SETPSHARED, SETROBUST, INIT, CREATE, JOIN, CONSISTENT, UNLOCK};
    begin();
    lib.map_error = ENOMEM;
    CHECK_EQ(mpb_robust_lock_self_test(), ENOMEM);
    CHECK(lib.unmapped == 0 && lib.calls[ATTR_INIT] == 0);
    for (size_t fails = 0; fails <= sizeof STEPS / sizeof *STEPS; fails++) { /* the last: none */
        bool has_failed = false;
        begin();
        lib.answer[TRYLOCK] = EOWNERDEAD;
        if (fails < sizeof STEPS / sizeof *STEPS)
            lib.answer[STEPS[fails]] = EAGAIN;
        CHECK_EQ(mpb_robust_lock_self_test(), fails < sizeof STEPS / sizeof *STEPS ? EAGAIN : 0);
        for (size_t step = 0; step < sizeof STEPS / sizeof *STEPS; step++) {
            CHECK_EQ(lib.calls[STEPS[step]], !has_failed);
            has_failed |= step == fails;
        }
        CHECK_EQ(lib.calls[LOCK], lib.calls[CREATE] && lib.answer[CREATE] == 0);
        CHECK(lib.mapped == 1 && lib.unmapped == 1);
    }
    static const int OTHERS[] = {0, EBUSY, ENOTRECOVERABLE};
    for (int i = 0; i < 3; i++) { /* the kernel did not mark it */
        begin();
        lib.answer[TRYLOCK] = OTHERS[i];
        CHECK_EQ(mpb_robust_lock_self_test(), ENOTSUP);
        CHECK(lib.calls[CONSISTENT] == 0 && lib.calls[UNLOCK] == 0 && lib.unmapped == 1);
    }
}

int main(void)
{
    test_a_lock_that_is_made();
    test_what_an_answer_means();
    test_until_when_is_waited();
    test_whose_lock_is_lost();
    test_a_holder_that_lets_go();
    test_the_self_test();
    printf("robust lock, call by call: %lu checks\n", checks_made);
    return 0;
}
#else
int main(void)
{
    printf("robust lock, call by call: %lu checks, a sanitizer locks and maps by itself\n", checks_made);
    return 0;
}
#endif
