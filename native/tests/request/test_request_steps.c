#define _GNU_SOURCE
/* SIGKILL after every instruction of every operation of the request path; then the others work on, the successor
 * repairs the slot, everybody works until nothing moves, and nothing may be stuck, lost, doubled or leaked. A second
 * kill lands in the repair itself: after some deaths here, after every seventh with LONG=1 (make long). */
#include <limits.h>
#include "tests/request/request_stills.h"
#include "tests/stepping/stepping.h"

static long kills, repairs_killed;

#define STILLS 256
static uint8_t *stills[2]; /* of the operation, and of one repair */
static size_t still_size;

struct film {
    struct drama *d;
    uint8_t *stills;
    long count;
};

static void shoot(void *cookie)
{
    struct film *film = cookie;
    if (film->count < STILLS)
        still_copy(film->d, film->stills + (size_t)film->count++ * still_size, false);
}

static void stage(struct drama *d, const struct scene *s)
{
    d->scene = s->name;
    d->at = d->again = 0;
    drama_open(d);
    s->setup(d);
    d->waits_for_controller = s->actor == CONTROLLER;
}

static void settle(struct drama *d)
{
    drain(d, ALL_HANDLERS, 3);
    if (d->waits_for_controller) { /* its handler lived all the time, and has its answer now */
        HOLD(d, d->commands_executed[operation_of(d) % MAX_IDS] >= 1);
        execute(d, &d->h[0], d->kept[0]);
        drain(d, ALL_HANDLERS, 3);
    }
    check_rest(d);
    refill(d);
    drama_close(d);
}

/* A re-run of the request whose handler died sends its command again: it must run once. */
static void rerun_command(struct drama *d, const struct scene *s)
{
    if (s->operation != do_send_command)
        return;
    int64_t entry = mpb_handler_claim(&d->h[1], false);
    while (entry == MPB_CLAIM_POKED) {
        atomic_exchange(&d->w.core.doorbells->handler[1].poke, 0);
        entry = mpb_handler_claim(&d->h[1], false);
    }
    if (entry < 0) {
        HOLD(d, d->again > 0); /* the repair that was killed had put it back, and another handler ran it */
        return;
    }
    uint64_t operation = d->w.core.entries[entry].fill_number;
    HOLD(d, mpb_command_send(&d->w.core, MPB_SLOT_HANDLERS + 1, MPB_SLOT_CONTROLLER, operation, "make", 4) >= 0);
    work_controller(d, ALL_HANDLERS);
    HOLD(d, d->commands_executed[operation % MAX_IDS] == 1);
    execute(d, &d->h[1], entry);
}

/* `first`: before the repair nobody works, everybody alive, or the handlers alone. */
static void survive(struct drama *d, const struct scene *s, int first)
{
    drama_reopen(d, 0, 0);
    if (first > 0)
        survivors_work(d, s, ALL_HANDLERS, first == 1 ? 3 : 0);
    successor(d, s);
    do_recover(&(struct recovery_of){d, s});
    check_bells(d);
    rerun_command(d, s);
    settle(d);
}

/* The repair of the death that `still` shows, killed after every `stride`-th of its instructions and run again. */
static void kill_the_repair(struct drama *d, const struct scene *s, const uint8_t *still, long stride)
{
    static struct trail trail;
    bool more = true;
    trail_forget(&trail);
    for (long first = 1; more; first += STILLS * stride) {
        struct film film = {d, stills[1], 0};
        drama_open(d);
        still_copy(d, (uint8_t *)(uintptr_t)still, true);
        drama_reopen(d, 0, 0);
        successor(d, s);
        more = step_along(&trail, do_recover, &(struct recovery_of){d, s}, first, first + STILLS * stride, stride,
                          shoot, &film);
        drama_close(d);
        for (long i = 0; i < film.count; i++, repairs_killed++) {
            drama_open(d);
            still_copy(d, film.stills + (size_t)i * still_size, true);
            d->again = first + i * stride;
            survive(d, s, (int)(i % 3));
        }
    }
}

/* Every instruction of one operation; at every `seldom`-th the repair is killed as well. */
static void kill_everywhere(struct drama *d, const struct scene *s, long seldom, long stride)
{
    static struct trail trail;
    bool more = true;
    trail_forget(&trail);
    for (long begin = 1; more; begin += STILLS) {
        struct film film = {d, stills[0], 0};
        stage(d, s);
        more = step_along(&trail, s->operation, d, begin, begin + STILLS, 1, shoot, &film);
        drama_close(d);
        for (long i = 0; i < film.count; i++, kills++) {
            const uint8_t *still = film.stills + (size_t)i * still_size;
            for (int first = 0; first < 3; first++) {
                drama_open(d);
                still_copy(d, (uint8_t *)(uintptr_t)still, true);
                d->at = begin + i;
                d->again = 0;
                survive(d, s, first);
            }
            if ((begin + i) % seldom == 0)
                kill_the_repair(d, s, still, stride);
        }
    }
    stage(d, s); /* and one that lives */
    s->operation(d);
    survive(d, s, 0);
}

int main(void)
{
    static struct drama d;
    const char *asked = getenv("LONG");
    long seldom = asked ? 7 : 431, stride = asked ? 1 : 3;
    if (!STEPPING) {
        printf("request steps: not run (needs x86-64 without a sanitizer)\n");
        return 0;
    }
    stepping_install();
    world_open(&d.w, &small_plan);
    still_size = still_bytes(&d);
    for (int i = 0; i < 2; i++)
        CHECK((stills[i] = malloc(STILLS * still_size)) != NULL);
    for (int i = 0; i < SCENES - (asked ? 0 : RARE_SCENES); i++) {
        long before = kills, repairs = repairs_killed;
        kill_everywhere(&d, &scenes[i], asked || i < PLAIN_SCENES ? seldom : LONG_MAX, stride);
        CHECK(kills - before > 50); /* a test that kills nothing proves nothing */
        if (getenv("VERBOSE"))
            printf("%-24s %5ld instructions, %6ld of repairs\n", scenes[i].name, kills - before,
                   repairs_killed - repairs);
    }
    printf("request steps: killed at %ld instructions, three times each, %ld times in a repair; %lu checks\n", kills,
           repairs_killed, checks_made);
    return 0;
}
