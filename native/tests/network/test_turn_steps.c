#define _GNU_SOURCE
/* SIGKILL after every instruction of a processor's turns (frames from sockets, requests put, answers taken and sent,
 * connections closed) and of a handler's loop (claim, append, answer, response ring, doorbell); then the others work on,
 * the successor repairs the slot, everybody works until nothing moves: nothing may be stuck, lost, doubled or leaked, and
 * nobody has more than one answer. A second kill lands in the repair, and in what a successor serves first: after some
 * deaths here, after every one with LONG=1. test_turn_steps [act]: that one only. */
#include "tests/stepping/stepper.h"
#include "tests/network/turn_scenes.h"

enum { REAL_STEPS = 4000, SECOND_FILMS = 2, SECOND_STILLS = 20 };

static struct play play;
static struct film *first_film, *second_film;
static struct {
    long instructions, worlds, real, second_films, second_instructions, second_worlds;
} total, here;

static void stage(const struct act *act)
{
    struct play *p = &play;
    stepping_ticks = 0; /* the same clock every time: real kills are compared */
    p->d.scene = act->name;
    p->d.at = p->d.again = 0;
    memset(p->asks, 0, sizeof p->asks);
    memset(p->asked, 0, sizeof p->asked);
    memset(p->stream_bytes, 0, sizeof p->stream_bytes);
    drama_open(&p->d);
    play_restore(p, p->base, &p->base_files);
    drama_reopen(&p->d, 0, 0);
    play_attach(p);
    act->setup(p);
}

static void end_stage(void)
{
    play_disconnect(&play);
    drama_close(&play.d);
}

static void successor_takes_over(const struct act *act)
{
    if (act->actor == PROCESSOR)
        replace_processor(&play.d, 0);
    else
        replace_handler(&play.d, 0);
    play_attach(&play);
}

static void do_recovery(void *argument)
{
    struct mpb_recovery done;
    if (((const struct act *)argument)->actor == PROCESSOR) {
        mpb_lane_adopt(&play.d.w.core, &play.lane[0]);
        mpb_recover_processor(&play.d.p[0], &done);
    } else {
        mpb_recover_handler(&play.d.h[0], &done);
    }
}

static void do_recovery_and_serve(void *argument)
{
    do_recovery(argument);
    if (((const struct act *)argument)->actor == HANDLER)
        play_serve(&play, 0);
    else
        play_collect(&play, 0);
}

/* `first`: before the repair nobody works, everybody alive, or the handlers alone. */
static void survive(const struct act *act, int first)
{
    unsigned handlers = act->actor == HANDLER ? 6 : 7, processors = act->actor == PROCESSOR ? 2 : 3;
    if (first > 0)
        play_drain(&play, handlers, first == 1 ? processors : 0);
    successor_takes_over(act);
    do_recovery((void *)(uintptr_t)act);
    check_bells(&play.d);
    play_settle(&play, act->actor == PROCESSOR ? 0 : -2);
}

static void hear(const int heard[PLAY_CLIENTS])
{
    for (int i = 0; i < PLAY_CLIENTS; i++)
        play_hear(&play, i, (uint32_t)heard[i]);
}

static void die_twice(const struct act *act, uint32_t still, bool all)
{
    const int *heard = first_film->still[still].heard;
    play_still(&play, first_film, still);
    successor_takes_over(act);
    film_operation(do_recovery_and_serve, (void *)(uintptr_t)act, second_film, &play.set);
    drama_close(&play.d);
    here.second_films++;
    uint32_t stride = all || second_film->stills < SECOND_STILLS ? 1 : second_film->stills / SECOND_STILLS + 1;
    for (uint32_t i = still % stride; i < second_film->stills; i += stride) {
        play.d.again = second_film->still[i].first;
        play_still(&play, second_film, i);
        hear(heard);
        survive(act, (int)(i % 3));
        here.second_worlds++;
        here.second_instructions += film_instructions(second_film, i);
    }
    play.d.again = 0;
}

static void die_really(const struct act *act, long points)
{
    for (long i = 0; i < points; i++, here.real++) {
        long n = 1 + (2 * i + 1) * first_film->steps / (2 * points);
        stage(act);
        film_kill(act->operation, &play, first_film, second_film, &play.set, n);
        film_compare(first_film, &play.set, film_at(first_film, n), second_film->victim);
        end_stage();
    }
}

/* Nobody dies: everything that was asked is answered, unless its connection was closed. */
static void live(const struct act *act)
{
    struct play *p = &play;
    bool open[PLAY_CLIENTS] = {false};
    stage(act);
    act->operation(p);
    for (int turn = 0; turn < 10; turn++) {
        play_drain(p, 7, act->actor == PROCESSOR ? 2 : 3);
        if (p->set.clients > 0)
            one_turn(p);
    }
    for (int i = 0; i < p->set.clients; i++)
        open[i] = !p->c[i].closed;
    play_disconnect(p);
    hear((const int *)p->stream_bytes);
    for (uint32_t id = 0; id < PLAY_IDS; id++)
        if (p->asks[id].partitions > 0 && p->asks[id].acks != 0 && p->asked[id] == 0 && open[p->client_of[id]])
            p->asked[id] = 1;
    play_settle(p, -2);
}

static void run(const struct act *act, bool all)
{
    memset(&here, 0, sizeof here);
    live(act);
    stage(act);
    film_operation(act->operation, &play, first_film, &play.set);
    end_stage();
    here.instructions = first_film->steps;
    here.worlds = first_film->stills;
    for (uint32_t i = 0; i < first_film->stills; i++)
        for (int first = 0; first < 3; first++) {
            play.d.at = first_film->still[i].first;
            play_still(&play, first_film, i);
            hear(first_film->still[i].heard);
            survive(act, first);
        }
    uint32_t films = all ? first_film->stills : SECOND_FILMS;
    for (uint32_t i = 0; i < films; i++)
        die_twice(act, (2 * i + 1) * first_film->stills / (2 * films), all);
    die_really(act, all ? 200 : 1 + REAL_STEPS / here.instructions);
    printf(
        "  %-26s %6ld instructions, all died at (%4ld worlds), %3ld really; again at %8ld (%6ld worlds) after %4ld\n",
        act->name, here.instructions, here.worlds, here.real, here.second_instructions, here.second_worlds,
        here.second_films);
    fflush(stdout);
    CHECK(here.worlds > 20 && here.second_worlds > 10);
    for (size_t i = 0; i < sizeof here / sizeof(long); i++)
        ((long *)&total)[i] += ((long *)&here)[i];
}

int main(int argc, char **argv)
{
    int only = argc > 1 ? atoi(argv[1]) : -1;
    bind_now(argv);
    if (!STEPPING) {
        puts("turn steps: NOT RUN, no trap flag here or a sanitizer in the way");
        return 0;
    }
    first_film = film_new();
    second_film = film_new();
    play_open(&play);
    for (int i = 0; i < ACT_COUNT; i++)
        if (only < 0 || only == i)
            run(&ACTS[i], getenv("LONG") != NULL);
    play_close(&play);
    printf("turn steps: died at all %ld instructions (%ld worlds, %ld real kills), a second time at %ld (%ld worlds) "
           "after "
           "%ld of them, %lu checks\n",
           total.instructions, total.worlds, total.real, total.second_instructions, total.second_worlds,
           total.second_films, checks_made);
    return 0;
}
