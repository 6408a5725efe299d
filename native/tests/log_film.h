/* A film of an operation on the log: a forked victim steps through it once, and after each instruction the film keeps
 * what SIGKILL would have left there, so that a test needs as many steps as the operation has, not their square.
 *
 * A still is shared memory (with the kernel's marks on the locks the victim held) and the files. An instruction that
 * changes neither leaves the still before it: such neighbours share one, and a successor of either does the same. The
 * files are read again only after a system call. Films are MAP_SHARED, the victim fills them for its parent. */
#ifndef MPB_TESTS_LOG_FILM_H
#define MPB_TESTS_LOG_FILM_H

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "append_scenarios.h"
#include "stepping.h"

enum { FILM_STILLS = 8192, FILM_FILES = 512, FILM_LOCKS = 8 };

struct still {
    long first; /* instruction; the next still's is where this one ends */
    uint32_t memory, files;
};

struct film {
    long steps; /* instructions of the victim so far */
    bool lived;
    pid_t victim;
    uint32_t stills, memories, files;
    struct still still[FILM_STILLS];
    struct world_memory memory[FILM_STILLS];
    struct world_files file[FILM_FILES];
};

static struct film *film_make(void)
{
    struct film *film = mmap(NULL, sizeof *film, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                             -1, 0);
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
    struct fixture *f;
    struct film *film;
    long kill_at; /* 0: nobody */
    struct robust_list_head *held;
    uint32_t *dead[FILM_LOCKS], *was_dead[FILM_LOCKS];
    struct world_memory live, now;
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

/* The kernel's work at a thread's end, on the copy: who held it is gone, who waits is still there. */
static void camera_mark_locks(struct world_memory *m)
{
    struct world_part part[WORLD_PARTS];
    world_parts(camera.f, part);
    for (int i = 0; i < FILM_LOCKS && camera.dead[i] != NULL; i++) {
        size_t into = (size_t)((uint8_t *)camera.dead[i] - (uint8_t *)part[1].at);
        if (into >= part[1].bytes)
            abort(); /* only partitions have such locks here */
        uint32_t *word = (uint32_t *)((uint8_t *)m + part[1].offset + into);
        if ((*word & FUTEX_TID_MASK) == (uint32_t)getpid())
            *word = (*word & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
    }
}

static bool camera_unchanged(void)
{
    struct world_part part[WORLD_PARTS];
    world_parts(camera.f, part);
    for (int i = 0; i < WORLD_PARTS; i++)
        if (memcmp((uint8_t *)&camera.live + part[i].offset, part[i].at, part[i].bytes) != 0)
            return false;
    return memcmp(camera.dead, camera.was_dead, sizeof camera.dead) == 0;
}

static uint32_t keep_memory(struct film *film)
{
    world_save_memory(camera.f, &camera.live);
    memcpy(camera.was_dead, camera.dead, sizeof camera.dead);
    camera.now = camera.live;
    camera_mark_locks(&camera.now);
    if (film->memories > 0 && memcmp(&film->memory[film->memories - 1], &camera.now, sizeof camera.now) == 0)
        return film->memories - 1;
    CHECK(film->memories < FILM_STILLS);
    film->memory[film->memories] = camera.now;
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
    world_read_files(camera.f, now);
    if (film->files > 0 && same_files(now, now - 1))
        return film->files - 1;
    return film->files++;
}

static void shoot(void *cookie)
{
    struct film *film = cookie;
    if (++film->steps == camera.kill_at)
        kill(getpid(), SIGKILL);
    if (camera.kill_at != 0)
        return;
    camera_find_locks();
    bool first = film->stills == 0, files = first || stepping->system_call;
    if (!files && camera_unchanged())
        return;
    struct still now = {film->steps, keep_memory(film), files ? keep_files(film) : film->files - 1};
    const struct still *last = first ? NULL : &film->still[film->stills - 1];
    if (last != NULL && last->memory == now.memory && last->files == now.files)
        return;
    CHECK(film->stills < FILM_STILLS);
    film->still[film->stills++] = now;
}

static void film_victim(struct trial *t, struct film *film, long kill_at)
{
    size_t length;
    camera.f = &t->f;
    camera.film = film;
    camera.kill_at = kill_at;
    if (syscall(SYS_get_robust_list, 0, &camera.held, &length) != 0)
        _exit(1);
    stepping_install();
    step_each(trial_process, t, 1, LONG_MAX, 1, shoot, film);
    film->lived = true;
    _exit(0);
}

/* Films what a process of slot `t->slot` does from here; with `kill_at`, it is really killed after that instruction and
 * no still is made. The world is then anywhere. */
static inline void film_process(struct trial *t, struct film *film, long kill_at)
{
    film->steps = 0;
    film->lived = false;
    film->stills = film->memories = film->files = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        film_victim(t, film, kill_at);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_EQ(film->lived, kill_at == 0 || kill_at > film->steps);
    film->victim = child;
}

static inline void film_restore(struct trial *t, const struct film *film, uint32_t still)
{
    const struct still *s = &film->still[still];
    world_restore_parts(&t->f, &film->memory[s->memory], &film->file[s->files]);
    trial_warm(t);
}

/* A real death after an instruction of this still: the same bytes in memory and files, but for the victims' numbers,
 * which the locks keep as their last owner. */
static inline void film_compare(struct trial *t, const struct film *film, uint32_t still, pid_t victim)
{
    static struct world now;
    static struct world_memory want;
    world_save(&t->f, &now);
    want = film->memory[film->still[still].memory];
    for (uint32_t i = 0; i < FIX_PARTITIONS; i++)
        if (want.partitions[i].lock.__data.__owner == film->victim)
            want.partitions[i].lock.__data.__owner = victim;
    CHECK(memcmp(&now.memory, &want, sizeof want) == 0);
    CHECK(same_files(&now.files, &film->file[film->still[still].files]));
}

#endif
