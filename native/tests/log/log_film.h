/* Films of the operations of append_scenarios.h. */
#ifndef MPB_TESTS_LOG_FILM_H
#define MPB_TESTS_LOG_FILM_H

#include "tests/log/append_scenarios.h"
#include "tests/stepping/film.h"

static struct film_set trial_set(struct trial *t)
{
    struct film_set set = {.fixture = &t->f};
    struct world_part part[WORLD_PARTS];
    world_parts(&t->f, part);
    for (int i = 0; i < WORLD_PARTS; i++)
        set.range[set.ranges++] = (struct range){part[i].at, part[i].bytes};
    set.bytes = ranges_bytes(set.range, set.ranges);
    CHECK_EQ(set.bytes, sizeof(struct world_memory)); /* a still is one */
    return set;
}

/* Films what a process of slot `t->slot` does from here; see film_operation. */
static inline void film_process(struct trial *t, struct film *film)
{
    const struct film_set set = trial_set(t);
    film_operation(trial_process, t, film, &set);
}

static inline void film_kill_process(struct trial *t, struct film *film, struct film *killed, long kill_at)
{
    const struct film_set set = trial_set(t);
    film_kill(trial_process, t, film, killed, &set, kill_at);
}

static inline void film_restore(struct trial *t, const struct film *film, uint32_t still)
{
    const struct film_set set = trial_set(t);
    world_restore_parts(&t->f, (const struct world_memory *)(const void *)film_memory(film, &set, still),
                        film_files(film, still));
    trial_warm(t);
}

#endif
