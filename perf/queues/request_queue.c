/* Four shapes and four kinds of a request queue between processes, behind one interface, for the experiments Q1 and Q5
 * (perf/request_queue.py builds and runs it; docs/studies/). No part of the broker, but for its ring (native/shm/ring.h).
 *
 * P processors keep D requests each on their way: a request is queued, a handler takes it, spins for its service time, and
 * answers. One run lasts a given time and prints one line of figures as JSON.
 *
 *   request_queue SHAPE KIND PROCESSORS HANDLERS DEPTH SERVICE_NS CV MILLISECONDS SEED
 *
 * SHAPE  two letters, s or p: is there one request queue for all handlers or one for each; one answer queue for all
 *        processors or one for each. An answer that another processor finds in a shared one is passed on to its owner.
 * KIND   of the request queue: claim (ring of hints over a claim table), mutex (and condition variable, in shared memory),
 *        steal (a ring for each handler, others take from it), pipe (eight bytes for each request, kept by the kernel).
 *        Answers always go through claim rings. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "shm/ring.h"

enum { MOST_WORKERS = 16, ROWS = 512, CAPACITY = 500, SAMPLES = 1 << 20, NAP_MS = 20 };
enum kind { CLAIM, MUTEX, STEAL, PIPE };

struct row { /* begins with its state word: a row of a claim table */
    mpb_atomic64 state;
    uint64_t queued_ns, taken_ns, service_ns;
    uint32_t owner, unused;
    uint8_t line[24];
};

struct ring {
    struct mpb_ring_ctl ctl;
    mpb_atomic64 slots[ROWS + 8];
};

struct bell { /* one for each process, a line */
    mpb_atomic32 asleep;
    uint8_t unused[60];
};

struct shared {
    struct row rows[ROWS];
    struct ring requests[MOST_WORKERS], answers[MOST_WORKERS + 1]; /* the last: of all processors */
    struct bell handlers[MOST_WORKERS], processors[MOST_WORKERS];
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    uint32_t items[CAPACITY];
    uint64_t head, tail;
    mpb_atomic32 stop;
    mpb_atomic64 done, wakes, passed_on, samples;
    uint64_t wait_ns[SAMPLES];
};

static struct shared *s;
static enum kind kind;
static bool shared_requests, shared_answers;
static uint32_t processors, handlers, depth;
static int hints[2];
static double service_mean_ns, service_cv;
static uint64_t random_state;
static double turns_per_ns;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Work of so many turns, and not of so much time: whoever loses its core in the middle has the rest still to do. */
static void spin(double turns)
{
    for (uint64_t i = (uint64_t)turns; i > 0; i--)
        __asm__ volatile("" ::: "memory");
}

static void calibrate(void)
{
    struct timespec before, after;
    for (int i = 0; i < 5; i++) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        spin(2e6);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        double ns = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
        turns_per_ns = 2e6 / ns > turns_per_ns ? 2e6 / ns : turns_per_ns;
    }
}

static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / (double)(1ull << 53);
}

/* 0: constant; 1: exponential; above: exponential of one of two means, with that coefficient of variation. */
static uint64_t service_time(void)
{
    if (service_cv == 0)
        return (uint64_t)service_mean_ns;
    double squared = service_cv * service_cv, share = 0.5 * (1 + sqrt((squared - 1) / (squared + 1)));
    double mean = service_mean_ns / (2 * (uniform() < share ? share : 1 - share));
    return (uint64_t)(-log(1 - uniform()) * (service_cv <= 1 ? service_mean_ns : mean));
}

/* ------------------------------------------------------------------ bells: who sleeps is woken once */
static void sleep_on(struct bell *bell, bool (*idle)(uint32_t), uint32_t self)
{
    struct timespec nap = {0, NAP_MS * 1000000};
    atomic_store(&bell->asleep, 1);
    mpb_fence_full();
    if (idle(self) && mpb_load_acquire(&s->stop) == 0)
        syscall(SYS_futex, &bell->asleep, FUTEX_WAIT, 1, &nap, NULL, 0);
    atomic_store(&bell->asleep, 0);
}

static bool wake(struct bell *bell)
{
    if (atomic_load(&bell->asleep) == 0 || atomic_exchange(&bell->asleep, 0) == 0)
        return false;
    syscall(SYS_futex, &bell->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
    mpb_add_relaxed(&s->wakes, 1);
    return true;
}

static void wake_any(struct bell *bells, uint32_t first, uint32_t count)
{
    mpb_fence_full();
    for (uint32_t i = 0; i < count; i++)
        if (wake(&bells[(first + i) % count]))
            return;
}

/* ------------------------------------------------------------------ queues */
static struct mpb_ring view(struct ring *ring)
{
    return (struct mpb_ring){.ctl = &ring->ctl,
                             .slots = ring->slots,
                             .capacity = ring->ctl.capacity,
                             .table = (uint8_t *)s->rows,
                             .stride = sizeof(struct row),
                             .rows = ROWS};
}

static void ring_put(struct ring *ring, uint32_t index, uint32_t state)
{
    struct mpb_ring r = view(ring);
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&s->rows[index].state)) + 1;
    mpb_store_release(&s->rows[index].state, mpb_state_word(generation, state, 0));
    mpb_ring_push_sure(&r, mpb_hint(index, generation));
}

static int64_t ring_get(struct ring *ring, uint32_t state)
{
    struct mpb_ring r = view(ring);
    return mpb_ring_take(&r, MPB_STATE_BIT(state), MPB_E_CLAIMED, 1);
}

static bool ring_idle(struct ring *ring)
{
    struct mpb_ring r = view(ring);
    return mpb_ring_empty(&r);
}

static void put_request(uint32_t index)
{
    static uint32_t next;
    uint32_t to = next++ % handlers;
    if (kind == PIPE) {
        uint64_t hint = index;
        if (write(hints[1], &hint, sizeof hint) < 0)
            _exit(3);
    } else if (kind == MUTEX) {
        pthread_mutex_lock(&s->mutex);
        s->items[s->tail++ % CAPACITY] = index;
        pthread_mutex_unlock(&s->mutex);
        pthread_cond_signal(&s->filled);
    } else if (kind == STEAL) {
        ring_put(&s->requests[to], index, MPB_E_QUEUED);
        wake_any(s->handlers, to, handlers);
    } else if (shared_requests) {
        ring_put(&s->requests[0], index, MPB_E_QUEUED);
        wake_any(s->handlers, 0, handlers);
    } else {
        ring_put(&s->requests[to], index, MPB_E_QUEUED);
        mpb_fence_full();
        wake(&s->handlers[to]);
    }
}

static bool no_request(uint32_t self)
{
    if (kind == CLAIM)
        return ring_idle(&s->requests[shared_requests ? 0 : self]);
    for (uint32_t i = 0; i < handlers; i++)
        if (!ring_idle(&s->requests[i]))
            return false;
    return true;
}

static int64_t get_locked(void)
{
    struct timespec until;
    int64_t index = -1;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += NAP_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->mutex);
    while (s->head == s->tail && mpb_load_acquire(&s->stop) == 0)
        if (pthread_cond_timedwait(&s->filled, &s->mutex, &until) != 0)
            break;
    if (s->head != s->tail)
        index = s->items[s->head++ % CAPACITY];
    pthread_mutex_unlock(&s->mutex);
    return index;
}

static int64_t get_hint(void)
{
    uint64_t hint;
    struct pollfd ready = {hints[0], POLLIN, 0};
    if (read(hints[0], &hint, sizeof hint) == sizeof hint)
        return (int64_t)hint;
    poll(&ready, 1, NAP_MS);
    return read(hints[0], &hint, sizeof hint) == sizeof hint ? (int64_t)hint : -1;
}

/* Waits for one, for a while. */
static int64_t get_request(uint32_t self)
{
    if (kind == MUTEX)
        return get_locked();
    if (kind == PIPE)
        return get_hint();
    for (int again = 0; again < 2; again++) {
        uint32_t count = kind == STEAL ? handlers : 1;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t from = kind == CLAIM && shared_requests ? 0 : (self + i) % handlers;
            int64_t index = ring_get(&s->requests[from], MPB_E_QUEUED);
            if (index >= 0)
                return index;
        }
        if (again == 0)
            sleep_on(&s->handlers[self], no_request, self);
    }
    return -1;
}

static void put_answer(uint32_t index)
{
    uint32_t owner = s->rows[index].owner;
    if (shared_answers) {
        ring_put(&s->answers[MOST_WORKERS], index, MPB_E_DONE);
        wake_any(s->processors, 0, processors);
    } else {
        ring_put(&s->answers[owner], index, MPB_E_DONE);
        mpb_fence_full();
        wake(&s->processors[owner]);
    }
}

static bool no_answer(uint32_t self)
{
    return ring_idle(&s->answers[self]) && (!shared_answers || ring_idle(&s->answers[MOST_WORKERS]));
}

static int64_t get_answer(uint32_t self)
{
    int64_t index = ring_get(&s->answers[self], MPB_E_DONE);
    while (index < 0 && shared_answers && (index = ring_get(&s->answers[MOST_WORKERS], MPB_E_DONE)) >= 0) {
        uint32_t owner = s->rows[index].owner;
        if (owner == self)
            break;
        ring_put(&s->answers[owner], (uint32_t)index, MPB_E_DONE);
        mpb_fence_full();
        wake(&s->processors[owner]);
        mpb_add_relaxed(&s->passed_on, 1);
        index = -1;
    }
    return index;
}

/* ------------------------------------------------------------------ processes */
static void ask(uint32_t index)
{
    s->rows[index].service_ns = service_time();
    s->rows[index].queued_ns = now_ns();
    put_request(index);
}

static void run_processor(uint32_t self)
{
    for (uint32_t i = 0; i < depth; i++) {
        s->rows[self * depth + i].owner = self;
        ask(self * depth + i);
    }
    while (mpb_load_acquire(&s->stop) == 0) {
        int64_t index = get_answer(self);
        if (index < 0) {
            sleep_on(&s->processors[self], no_answer, self);
            continue;
        }
        uint64_t sample = mpb_add_relaxed(&s->samples, 1);
        if (sample < SAMPLES)
            s->wait_ns[sample] = s->rows[index].taken_ns - s->rows[index].queued_ns;
        mpb_add_relaxed(&s->done, 1);
        ask((uint32_t)index);
    }
}

static void run_handler(uint32_t self)
{
    while (mpb_load_acquire(&s->stop) == 0) {
        int64_t index = get_request(self);
        if (index < 0)
            continue;
        s->rows[index].taken_ns = now_ns();
        spin((double)s->rows[index].service_ns * turns_per_ns);
        put_answer((uint32_t)index);
    }
}

static void begin(void)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (s == MAP_FAILED || pipe2(hints, O_NONBLOCK) != 0)
        exit(2);
    for (int i = 0; i < MOST_WORKERS; i++)
        s->requests[i].ctl.capacity = s->answers[i].ctl.capacity = ROWS;
    s->answers[MOST_WORKERS].ctl.capacity = ROWS;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->mutex, &mutex);
    pthread_condattr_init(&cond);
    pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
    pthread_cond_init(&s->filled, &cond);
}

static void start(void (*run)(uint32_t), uint32_t self, uint64_t seed)
{
    pid_t child = fork();
    if (child != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    random_state = seed * 2654435761u + self + 88172645463325252ull;
    run(self);
    _exit(0);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"claim", "mutex", "steal", "pipe"};
    if (argc != 10)
        return 2;
    shared_requests = argv[1][0] == 's';
    shared_answers = argv[1][1] == 's';
    while (kind < PIPE && strcmp(argv[2], kinds[kind]) != 0)
        kind++;
    processors = (uint32_t)atoi(argv[3]);
    handlers = (uint32_t)atoi(argv[4]);
    depth = (uint32_t)atoi(argv[5]);
    service_mean_ns = atof(argv[6]);
    service_cv = atof(argv[7]);
    if (processors < 1 || processors > MOST_WORKERS || handlers < 1 || handlers > MOST_WORKERS ||
        processors * depth > CAPACITY || depth < 1)
        return 2;
    begin();
    calibrate();
    for (uint32_t i = 0; i < handlers; i++)
        start(run_handler, i, (uint64_t)atoi(argv[9]) + 100);
    uint64_t began = now_ns();
    for (uint32_t i = 0; i < processors; i++)
        start(run_processor, i, (uint64_t)atoi(argv[9]));
    usleep((useconds_t)atoi(argv[8]) * 1000);
    uint64_t done = mpb_load_acquire(&s->done), lasted_ns = now_ns() - began;
    mpb_store_release(&s->stop, 1);
    pthread_cond_broadcast(&s->filled);
    while (wait(NULL) > 0)
        ;
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    double cpu_us = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
                    (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    uint64_t samples = s->samples < SAMPLES ? s->samples : SAMPLES;
    qsort(s->wait_ns, samples, sizeof s->wait_ns[0], by_size);
    if (samples == 0)
        return 3;
    printf("{\"per_s\": %.0f, \"cpu_us\": %.3f, \"wait_p50_us\": %.2f, \"wait_p99_us\": %.2f, \"switches\": %.4f, "
           "\"passed_on\": %.4f}\n",
           (double)done * 1e9 / (double)lasted_ns, cpu_us / (double)s->done - service_mean_ns / 1000,
           (double)s->wait_ns[samples / 2] / 1000, (double)s->wait_ns[samples * 99 / 100] / 1000,
           (double)(used.ru_nvcsw) / (double)s->done, (double)s->passed_on / (double)s->done);
    return 0;
}
