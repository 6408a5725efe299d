/* Random SIGKILL under load: two processors, three handlers and the coordinator as processes, victims chosen at random, successors recover
 * the slot before they work, waits have no time limit. Every request of a processor that lives is answered exactly once;
 * at the end nothing is left over. `test_request_soak KILLS` (default 200; 5,000 in make long). */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/shm/shm_world.h"

#define PROCESSORS 2
#define HANDLERS 4 /* the last of them is the coordinator */
#define WORKERS (PROCESSORS + HANDLERS)
static const struct world_plan plan = {PROCESSORS, HANDLERS, 0, 32, 24, 4, 2, 256 << 10, 1 << 20};

/* Each processor's books, in shared memory so that they can be read after its death. */
struct books {
    mpb_atomic64 answered, doubled, wrong;
    mpb_atomic64 beat;
};
static struct {
    mpb_atomic32 stop;
    uint32_t unused;
    struct books books[PROCESSORS];
    mpb_atomic64 executed[HANDLERS];
} *shared;
static struct world w;

static void work_as_handler(uint32_t index)
{
    struct mpb_handler h;
    struct mpb_recovery done;
    uint8_t bytes[400];
    if (mpb_handler_open(&h, &w.core, index) < 0)
        _exit(3);
    h.hands_over[0] = h.is_coordinator ? 0 : 1ull << GROUP_KEY;
    mpb_recover_handler(&h, &done);
    while (mpb_load_acquire(&shared->stop) < 2) {
        int64_t entry = mpb_handler_claim(&h, false);
        if (entry == MPB_CLAIM_POKED) {
            atomic_exchange(&w.core.doorbells->handler[index].poke, 0);
        } else if (entry == MPB_CLAIM_NOTHING) {
            mpb_handler_wait(&h, false, -1);
        } else if (!mpb_handler_hand_over(&h, (uint32_t)entry)) {
            struct mpb_entry *e = &w.core.entries[entry];
            if ((e->api_key == GROUP_KEY) != h.is_coordinator)
                _exit(6);
            memset(bytes, e->correlation_id, sizeof bytes);
            mpb_add_relaxed(&shared->executed[index], 1);
            if (mpb_attempts(e) >= 2)
                mpb_answer_bytes(&h, (uint32_t)entry, MPB_ANSWER_CLOSE, bytes, 10);
            else if (!mpb_cells_ensure(&h, (uint32_t)entry, e->correlation_id % 3 ? 1 : 4) ||
                     !mpb_answer_bytes(&h, (uint32_t)entry, MPB_ANSWER_INLINE, bytes, e->correlation_id % 2 ? 400 : 64))
                _exit(4);
        }
    }
    _exit(0);
}

/* One connection per id, one request on each at a time, as a real processor has it. */
#define CONNECTIONS 20
static bool take_answers(struct mpb_processor *p, struct books *books, uint8_t *waiting)
{
    bool any = false;
    for (int64_t entry; (entry = mpb_collect(p)) >= 0; any = true) {
        const struct mpb_entry *e = &w.core.entries[entry];
        const uint8_t *bytes = e->answer_extent ? w.core.arena + e->answer_offset : e->answer_bytes;
        if (!waiting[e->connection])
            mpb_add_relaxed(&books->doubled, 1);
        if (e->answer_length > 0 &&
            (bytes[0] != (uint8_t)e->correlation_id || bytes[e->answer_length - 1] != (uint8_t)e->correlation_id))
            mpb_add_relaxed(&books->wrong, 1);
        waiting[e->connection] = 0;
        mpb_add_relaxed(&books->answered, 1);
        mpb_sent(p, (uint32_t)entry, 1, false);
    }
    return any;
}

static void work_as_processor(uint32_t index)
{
    struct mpb_processor p;
    struct mpb_recovery done;
    struct books *books = &shared->books[index];
    struct pollfd fd = {.fd = w.core.eventfds[index], .events = POLLIN};
    uint8_t waiting[CONNECTIONS] = {0}, frame[1500];
    uint64_t seed = (uint64_t)getpid(), rung;
    uint32_t id = 0, parked = UINT32_MAX;
    if (mpb_processor_open(&p, &w.core, index) < 0)
        _exit(3);
    mpb_recover_processor(&p, &done);
    for (;;) {
        bool moved = take_answers(&p, books, waiting);
        if (parked != UINT32_MAX && mpb_retry(&p, parked) >= 0)
            parked = UINT32_MAX;
        for (uint32_t c = 0; c < CONNECTIONS && parked == UINT32_MAX && mpb_load_acquire(&shared->stop) == 0; c++) {
            if (waiting[c] || next_random(&seed) % 3 == 0)
                continue;
            struct mpb_submission s = {.plane = c == 0,
                                       .connection = c,
                                       .connection_generation = 1,
                                       .frame = frame,
                                       .length = next_random(&seed) % 2 ? 100 : 1500,
                                       .offset = MPB_PAYLOAD_INLINE,
                                       .t0_ns = 1,
                                       .frame_done_ns = 1,
                                       .client_hash = 1};
            make_frame(frame, s.length, ++id);
            int64_t entry = mpb_submit(&p, &s);
            moved = true;
            if (entry < 0 && entry != MPB_PLANE_FULL)
                break;
            waiting[c] = 1;
            if (entry == MPB_PLANE_FULL)
                parked = p.parked;
        }
        mpb_add_relaxed(&books->beat, 1);
        uint32_t busy = p.entries - p.free_count;
        if (mpb_load_acquire(&shared->stop) != 0 && busy == 0)
            _exit(0);
        if (!moved && busy > 0 && mpb_processor_prepare_sleep(&p)) {
            poll(&fd, 1, -1);
            if (read(fd.fd, &rung, sizeof rung) < 0)
                _exit(5);
        }
        mpb_processor_cancel_sleep(&p);
    }
}

static pid_t start(uint32_t worker)
{
    uint32_t slot = worker < PROCESSORS ? MPB_SLOT_PROCESSORS + worker : mpb_handler_slot(&w.core, worker - PROCESSORS);
    mpb_add_relaxed(&w.core.processes[slot].incarnation, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (worker < PROCESSORS)
        work_as_processor(worker);
    work_as_handler(worker - PROCESSORS);
    _exit(9);
}

static void sleep_us(uint64_t us)
{
    nanosleep(&(struct timespec){(time_t)(us / 1000000), (long)(us % 1000000) * 1000}, NULL);
}

static uint64_t answered(void)
{
    return mpb_load_relaxed(&shared->books[0].answered) + mpb_load_relaxed(&shared->books[1].answered);
}

/* Work goes on after the last kill, with nobody timing out: else a wake or a request was lost for good. */
static void check_alive(const char *when)
{
    uint64_t before[PROCESSORS];
    for (int p = 0; p < PROCESSORS; p++)
        before[p] = mpb_load_relaxed(&shared->books[p].answered);
    for (int tries = 0; tries < 2000; tries++) {
        if (shared->books[0].answered > before[0] + 50 && shared->books[1].answered > before[1] + 50)
            return;
        sleep_us(10000);
    }
    fprintf(stderr, "%s: stuck; answered %llu and %llu\n", when, (unsigned long long)shared->books[0].answered,
            (unsigned long long)shared->books[1].answered);
    exit(1);
}

static void kill_and_replace(pid_t *workers, uint32_t victim)
{
    int status;
    kill(workers[victim], SIGKILL);
    CHECK_EQ(waitpid(workers[victim], &status, 0), workers[victim]);
    CHECK(WIFSIGNALED(status));
    workers[victim] = start(victim);
}

static void stop_everybody(pid_t *workers)
{
    int status;
    mpb_store_release(&shared->stop, 1); /* processors end when they have all their answers */
    for (int i = 0; i < WORKERS; i++) {
        if (i == PROCESSORS)
            mpb_store_release(&shared->stop, 2);
        mpb_ring_everybody(&w.core);
        for (int tries = 0; waitpid(workers[i], &status, WNOHANG) == 0; tries++) {
            CHECK(tries < 2000);
            sleep_us(10000);
        }
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
}

/* After a last repair of every slot nothing may be left. */
static void check_left_over(void)
{
    struct mpb_recovery done;
    for (uint32_t i = 0; i < HANDLERS; i++) {
        struct mpb_handler h;
        CHECK_EQ(mpb_handler_open(&h, &w.core, i), 0);
        mpb_recover_handler(&h, &done);
        mpb_handler_close(&h);
    }
    for (uint32_t i = 0; i < PROCESSORS; i++) {
        struct mpb_processor p;
        CHECK_EQ(mpb_processor_open(&p, &w.core, i), 0);
        mpb_recover_processor(&p, &done);
        p.incarnation++; /* whatever lies here was for the one before */
        CHECK_EQ(mpb_collect(&p), -1);
        mpb_processor_close(&p);
        CHECK_EQ(shared->books[i].doubled, 0);
        CHECK_EQ(shared->books[i].wrong, 0);
    }
    for (uint32_t i = 0; i < w.core.entry_count; i++)
        CHECK_EQ(state_of(&w, i), MPB_E_FREE);
    for (uint32_t i = 0; i < w.core.extent_count; i++)
        CHECK_EQ(w.core.extents[i], 0);
}

int main(int argc, char **argv)
{
    long kills = argc > 1 ? atol(argv[1]) : 200;
    uint64_t seed = (uint64_t)getpid() * 2654435761u | 1;
    pid_t workers[WORKERS];
#ifdef __SANITIZE_THREAD__
    printf("request soak: not run (ThreadSanitizer cannot see the other processes)\n");
    return 0;
#endif
    world_open(&w, &plan);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (int i = 0; i < PROCESSORS; i++)
        w.core.eventfds[i] = eventfd(0, EFD_CLOEXEC);
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i] = start(i);
    for (long k = 0; k < kills; k++) {
        sleep_us(200 + next_random(&seed) % 2000);
        kill_and_replace(workers, (uint32_t)(next_random(&seed) % WORKERS));
        if (k % 50 == 49)
            check_alive("in between");
    }
    check_alive("at the end");
    stop_everybody(workers);
    check_left_over();
    printf("request soak: %ld kills, %llu requests answered\n", kills, (unsigned long long)answered());
    return 0;
}
