/* A film of an operation: a forked victim steps through it once, and after each instruction the film keeps what SIGKILL
 * would have left there, so that a test needs as many steps as the operation has, not their square.
 *
 * A still is shared memory (with the kernel's marks on the locks the victim held), the files, and how far its client has
 * been sent to. An instruction that changes none of them leaves the still before it: such neighbours share one, and a
 * successor of either does the same. Files and socket are looked at only after a system call. Films are MAP_SHARED: the
 * victim fills them for its parent. */
#ifndef MPB_TESTS_FILM_H
#define MPB_TESTS_FILM_H

#include <limits.h>
#include <linux/futex.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "tests/log/log_files.h"
#include "tests/stepping/ranges.h"
#include "tests/stepping/stepping.h"

enum { FILM_STILLS = 8192, FILM_FILES = 256, FILM_LOCKS = 8, FILM_CLIENTS = 3, FILM_BYTES = 512 << 20 };

struct film_set { /* what a film shows */
    struct range range[MAX_RANGES];
    size_t ranges, bytes;
    struct fixture *fixture;           /* its log directory; nothing here may be at work there meanwhile */
    int client[FILM_CLIENTS], clients; /* the other ends of the victim's sockets */
};

struct still {
    long first; /* instruction; the next still's is where this one ends */
    uint32_t memory, files;
    int heard[FILM_CLIENTS]; /* bytes that wait for each client */
};

struct film {
    long steps; /* instructions of the victim so far */
    bool lived;
    pid_t victim;
    uint32_t stills, memories, files;
    struct still still[FILM_STILLS];
    struct trail trail; /* of the victim */
    struct world_files file[FILM_FILES];
    _Alignas(64) uint8_t memory[FILM_BYTES];
};

static struct film *film_new(void)
{
    struct film *film = mmap(NULL, sizeof *film, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                             0);
    CHECK(film != MAP_FAILED);
    return film;
}

/* The still that a kill after instruction `n` leaves. */
static inline uint32_t film_at(const struct film *film, long n)
{
    uint32_t at = 0;
    while (at + 1 < film->stills && film->still[at + 1].first <= n)
        at++;
    return at;
}

static inline long film_instructions(const struct film *film, uint32_t still)
{
    return (still + 1 < film->stills ? film->still[still + 1].first : film->steps + 1) - film->still[still].first;
}

/* What the victim has at hand while it is filmed; its own memory. */
static struct camera {
    const struct film_set *set;
    struct film *film;
    long kill_at; /* 0: nobody */
    struct robust_list_head *held;
    uint32_t *dead[FILM_LOCKS], *was_dead[FILM_LOCKS];
    uint8_t *live, *now;
} camera;

static void camera_lock(struct robust_list *entry)
{
    uint32_t *word = (uint32_t *)((uint8_t *)entry + camera.held->futex_offset);
    for (int i = 0; i < FILM_LOCKS; i++)
        if (camera.dead[i] == NULL || camera.dead[i] == word) {
            camera.dead[i] = word;
            return;
        }
    abort();
}

/* The locks that the kernel would mark, found as it finds them: by the thread's list and the one it is at. */
static void camera_find_locks(void)
{
    struct robust_list *pending = camera.held->list_op_pending;
    memset(camera.dead, 0, sizeof camera.dead);
    for (struct robust_list *at = camera.held->list.next; at != &camera.held->list; at = at->next)
        if (at != pending)
            camera_lock(at);
    if (pending != NULL)
        camera_lock(pending);
}

/* Where a byte of shared memory lies in a still. */
static uint8_t *camera_copy_of(const void *at)
{
    uint8_t *copy = camera.now;
    for (size_t i = 0; i < camera.set->ranges; copy += camera.set->range[i++].bytes) {
        size_t into = (size_t)((const uint8_t *)at - (const uint8_t *)camera.set->range[i].at);
        if (into < camera.set->range[i].bytes)
            return copy + into;
    }
    abort();
}

/* The kernel's work at a thread's end, on the copy: who held it is gone, who waits is still there. */
static void camera_mark_locks(void)
{
    for (int i = 0; i < FILM_LOCKS && camera.dead[i] != NULL; i++) {
        uint32_t *word = (uint32_t *)(void *)camera_copy_of(camera.dead[i]);
        if ((*word & FUTEX_TID_MASK) == (uint32_t)getpid())
            *word = (*word & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
    }
}

static bool camera_unchanged(void)
{
    return ranges_equal(camera.set->range, camera.set->ranges, camera.live) &&
           memcmp(camera.dead, camera.was_dead, sizeof camera.dead) == 0;
}

static uint32_t keep_memory(struct film *film)
{
    size_t bytes = camera.set->bytes;
    ranges_save(camera.set->range, camera.set->ranges, camera.live);
    memcpy(camera.was_dead, camera.dead, sizeof camera.dead);
    memcpy(camera.now, camera.live, bytes);
    camera_mark_locks();
    if (film->memories > 0 && memcmp(film->memory + (film->memories - 1) * bytes, camera.now, bytes) == 0)
        return film->memories - 1;
    CHECK((film->memories + 1) * bytes <= FILM_BYTES);
    memcpy(film->memory + film->memories * bytes, camera.now, bytes);
    return film->memories++;
}

static bool same_files(const struct world_files *a, const struct world_files *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = compare_files(&a->file[i], &b->file[i]) == 0 && same_bytes(a, &a->file[i], b, &b->file[i]);
    return same;
}

static uint32_t keep_files(struct film *film)
{
    CHECK(film->files < FILM_FILES);
    struct world_files *now = &film->file[film->files];
    world_read_files(camera.set->fixture, now);
    if (film->files > 0 && same_files(now, now - 1))
        return film->files - 1;
    return film->files++;
}

static void film_hear(const struct film_set *set, int heard[FILM_CLIENTS])
{
    for (int i = 0; i < set->clients; i++)
        CHECK_EQ(ioctl(set->client[i], FIONREAD, &heard[i]), 0);
}

static void film_shoot(void *cookie)
{
    struct film *film = cookie;
    film->steps = stepping->count;
    if (film->steps == camera.kill_at)
        kill(getpid(), SIGKILL);
    if (camera.kill_at != 0)
        return;
    camera_find_locks();
    const struct still *last = film->stills == 0 ? NULL : &film->still[film->stills - 1];
    bool outside = last == NULL || stepping->system_call;
    if (!outside && camera_unchanged())
        return;
    struct still now = {
        .first = film->steps, .memory = keep_memory(film), .files = outside ? keep_files(film) : last->files};
    if (last != NULL)
        memcpy(now.heard, last->heard, sizeof now.heard);
    if (outside)
        film_hear(camera.set, now.heard);
    if (last != NULL && last->memory == now.memory && last->files == now.files &&
        memcmp(last->heard, now.heard, sizeof now.heard) == 0)
        return;
    CHECK(film->stills < FILM_STILLS);
    film->still[film->stills++] = now;
}

static void film_victim(step_op *op, void *argument, struct film *film, struct trail *trail, const struct film_set *set,
                        long kill_at)
{
    size_t length;
    camera.set = set;
    camera.kill_at = kill_at;
    camera.live = malloc(2 * set->bytes);
    camera.now = camera.live + set->bytes;
    if (camera.live == NULL || syscall(SYS_get_robust_list, 0, &camera.held, &length) != 0)
        _exit(1);
    stepping_install();
    step_along(trail, op, argument, kill_at > 0 ? kill_at : 1, LONG_MAX, 1, film_shoot, film);
    film->lived = true;
    _exit(0);
}

static void film_child(step_op *op, void *argument, struct film *film, struct trail *trail, const struct film_set *set,
                       long kill_at)
{
    film->steps = 0;
    film->lived = false;
    film->stills = film->memories = film->files = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        film_victim(op, argument, film, trail, set, kill_at);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_EQ(film->lived, kill_at == 0 || kill_at > film->steps);
    film->victim = child;
}

/* Films an operation from here on. The world is then anywhere. */
static inline void film_operation(step_op *op, void *argument, struct film *film, const struct film_set *set)
{
    trail_forget(&film->trail);
    film_child(op, argument, film, &film->trail, set, 0);
}

/* The operation of `film` again, in a process that is really killed after that instruction: no still is made. */
static inline void film_kill(step_op *op, void *argument, struct film *film, struct film *killed,
                             const struct film_set *set, long kill_at)
{
    film_child(op, argument, killed, &film->trail, set, kill_at);
}

static inline const uint8_t *film_memory(const struct film *film, const struct film_set *set, uint32_t still)
{
    return film->memory + film->still[still].memory * set->bytes;
}

static inline const struct world_files *film_files(const struct film *film, uint32_t still)
{
    return &film->file[film->still[still].files];
}

/* After a real death at an instruction of this still: the same bytes in memory, but for the number of the victim, which
 * locks keep as their last owner's, and in the files; the client was sent as much. */
static inline void film_compare(const struct film *film, const struct film_set *set, uint32_t still, pid_t victim)
{
    static struct world_files files;
    const uint8_t *want = film_memory(film, set, still);
    for (size_t i = 0; i < set->ranges; want += set->range[i++].bytes)
        for (size_t at = 0; at < set->range[i].bytes; at += 4) {
            int32_t is, was;
            memcpy(&is, (const uint8_t *)set->range[i].at + at, 4);
            memcpy(&was, want + at, 4);
            CHECK_EQ(is == victim && was == film->victim ? was : is, was);
        }
    world_read_files(set->fixture, &files);
    CHECK(same_files(&files, film_files(film, still)));
    int heard[FILM_CLIENTS] = {0};
    film_hear(set, heard);
    CHECK(memcmp(heard, film->still[still].heard, sizeof heard) == 0);
}

#endif
