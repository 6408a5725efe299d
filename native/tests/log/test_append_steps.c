#define _GNU_SOURCE
/* SIGKILL after every single instruction of an operation on a partition, and after the instructions of its repair and
 * re-run: whatever happened, the state must end as if nobody had died.
 *
 * test_append_steps [operation]: that one only. Every instruction of every operation is looked at (film.h); of the
 * second deaths, and of the real kills that prove the film true, the default takes a sample. With LONG=1: every
 * instruction of the repair and re-run after every first death. */
#include "tests/log/log_film.h"
#include "tests/stepping/stepper.h"

enum { REAL_STEPS = 4000, SECOND_STEPS = 4000, SECOND_STILLS = 20 };

static struct trial trial;
static struct film *first_film, *second_film;
static struct {
    long instructions, worlds, real, second_films, second_instructions, second_worlds;
} total, here;

static void process_of(uint32_t slot, bool repair_first)
{
    trial.slot = slot;
    trial.repair_first = repair_first;
}

/* The successor of whoever died at this still: the end must be as if nobody had. */
static void survive(const struct film *film, uint32_t still, uint32_t slot, bool repair_first)
{
    film_restore(&trial, film, still);
    process_of(slot, repair_first);
    trial_complete(&trial);
    world_compare(&trial.f, &trial.want);
}

static void film_first(void)
{
    trial_reset(&trial, &trial.before);
    process_of(MPB_SLOT_HANDLERS, false);
    film_process(&trial, first_film);
    here.instructions = first_film->steps;
    here.worlds = first_film->stills;
}

static void die_everywhere(void)
{
    for (uint32_t i = 0; i < first_film->stills; i++)
        for (int repair_first = 0; repair_first <= 1; repair_first++)
            survive(first_film, i, MPB_SLOT_HANDLERS + 1, repair_first == 1);
}

/* The film is what a kill leaves: byte for byte the same after real ones. */
static void die_really(long points)
{
    for (long i = 0; i < points; i++, here.real++) {
        long n = 1 + (2 * i + 1) * first_film->steps / (2 * points);
        trial_reset(&trial, &trial.before);
        process_of(MPB_SLOT_HANDLERS, false);
        film_kill_process(&trial, first_film, second_film, n);
        const struct film_set set = trial_set(&trial);
        film_compare(first_film, &set, film_at(first_film, n), second_film->victim);
        trial_reset(&trial, &trial.before);
    }
}

/* Victim 2 is filmed in the repair and re-run after victim 1's death at `first`; a third process completes. */
static void die_twice(uint32_t first, uint32_t most)
{
    film_restore(&trial, first_film, first);
    process_of(MPB_SLOT_HANDLERS + 1, first % 2 == 0);
    film_process(&trial, second_film);
    here.second_films++;
    uint32_t stride = most == 0 || second_film->stills <= most ? 1 : second_film->stills / most + 1;
    for (uint32_t i = first % stride; i < second_film->stills; i += stride) {
        here.second_instructions += film_instructions(second_film, i);
        here.second_worlds++;
        survive(second_film, i, MPB_SLOT_HANDLERS + 2, i / stride % 2 == 0);
    }
}

static void run(const struct scenario *scenario, bool all)
{
    memset(&here, 0, sizeof here);
    trial_begin(&trial, scenario);
    film_first();
    die_everywhere();
    die_really(all ? 200 : 2 + REAL_STEPS / here.instructions);
    long films = all ? here.worlds : 1 + SECOND_STEPS / here.instructions;
    films = films < here.worlds ? films : here.worlds;
    for (long i = 0; i < films; i++)
        die_twice((uint32_t)((2 * i + 1) * here.worlds / (2 * films)), all ? 0 : SECOND_STILLS);
    trial_end(&trial);
    printf(
        "  %-32s %6ld instructions, all died at (%4ld worlds), %3ld really; again at %8ld (%6ld worlds) after %4ld\n",
        scenario->name, here.instructions, here.worlds, here.real, here.second_instructions, here.second_worlds,
        here.second_films);
    fflush(stdout);
    CHECK(here.worlds > 10 && here.real > 0 && here.second_worlds > 0);
    for (size_t i = 0; i < sizeof here / sizeof(long); i++)
        ((long *)&total)[i] += ((long *)&here)[i];
}

int main(int argc, char **argv)
{
    int only = argc > 1 ? atoi(argv[1]) : -1;
    bind_now(argv);
    if (!STEPPING) {
        puts("append steps: NOT RUN, no trap flag here or a sanitizer in the way");
        return 0;
    }
    first_film = film_new();
    second_film = film_new();
    for (int i = 0; i < SCENARIO_COUNT; i++)
        if (only < 0 || only == i)
            run(&SCENARIOS[i], getenv("LONG") != NULL);
    printf("append steps: died at all %ld instructions (%ld worlds, %ld real kills), a second time at %ld (%ld worlds) "
           "after %ld of them, %lu checks\n",
           total.instructions, total.worlds, total.real, total.second_instructions, total.second_worlds,
           total.second_films, checks_made);
    return 0;
}
