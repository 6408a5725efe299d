/* Every named crash point of the request path: each scene is run once to see which points it passes, then once for every
 * pass of every point, dying there by SIGKILL in a process of its own; then as after any death. Points in the repair are
 * passed by repairing, and a repair that dies at one is run again; under the address sanitizer, where a fork takes five
 * times as long, every fourth of those, in turn from another scene. */
#define _GNU_SOURCE
#include <sys/eventfd.h>
#include "tests/request/request_scenes.h"
#include "tests/stepping/killed_at.h"

static const char *const points[] = {
    "arena.taken",
    "command.claimed",
    "command.done",
    "command.fill",
    "command.published",
    "doorbell.everybody",
    "doorbell.handler.announced",
    "doorbell.handler.taken",
    "doorbell.handler.woken",
    "doorbell.poked",
    "doorbell.processor.announced",
    "doorbell.processor.taken",
    "doorbell.service.taken",
    "doorbell.space.taken",
    "doorbell.watchers.taken",
    "extent.cells_linked",
    "extent.collected",
    "extent.linked",
    "extent.taken",
    "extent.word_stored",
    "handler.answer_written",
    "handler.claimed",
    "handler.done",
    "handler.handed",
    "handler.handed_hinted",
    "handler.given_back",
    "handler.given_back_hinted",
    "handler.hinted",
    "handler.parked",
    "processor.collected",
    "processor.fill",
    "processor.filled",
    "processor.finished.counted",
    "processor.finished.counting",
    "processor.free.extent",
    "processor.freed",
    "processor.published",
    "processor.pushed",
    "processor.pushing",
    "processor.received.counted",
    "processor.received.counting",
    "processor.traced",
    "recover.answer_hinted",
    "recover.attempt_counted",
    "recover.before_ring",
    "recover.closed",
    "recover.command.requeued",
    "recover.handler.commands",
    "recover.handler.put_back",
    "recover.handler.scanned",
    "recover.processor.scanned",
    "recover.requeue_hinted",
    "recover.requeued",
    "recover.traced",
    "ring.push.slot_filled",
    "ring.push.tail_moved",
    "ring.take.before_claim",
    "ring.take.claimed",
    "ring.take.slot_emptied",
};
enum { POINTS = sizeof points / sizeof points[0] };

#ifdef __SANITIZE_ADDRESS__
enum { REPAIRS_A_DEATH = 4 };
#else
enum { REPAIRS_A_DEATH = 1 };
#endif

static bool passed[POINTS];
static long deaths, repairs, may_die;
static struct drama d;

static const char *pass_of(int point, uint64_t nth)
{
    static char spec[64];
    snprintf(spec, sizeof spec, "%s:%llu", points[point], (unsigned long long)nth);
    return spec;
}

/* Passes of every point while `op` runs in this process. */
static void count_passes(void (*op)(void *), void *argument, uint64_t passes[POINTS])
{
    for (int i = 0; i < POINTS; i++)
        CHECK_EQ(mpb_inject_arm(&d.w.core, pass_of(i, 1u << 30)), 0);
    op(argument);
    mpb_inject_clear(&d.w.core);
    for (int i = 0; i < POINTS; i++) {
        passes[i] = mpb_inject_hits(&d.w.core, points[i]);
        passed[i] |= passes[i] > 0;
    }
}

/* `op` in a child that dies at the nth pass of the point. */
static void die_at(void (*op)(void *), void *argument, int point, uint64_t nth)
{
    HOLD(&d, killed_at(&d.w.core, pass_of(point, nth), op, argument));
    CHECK_EQ(mpb_inject_hits(&d.w.core, points[point]), nth);
    deaths++;
}

static void stage(const struct scene *s)
{
    drama_open(&d);
    s->setup(&d);
    if (s->actor != HANDLER) /* so that the doorbells have somebody to ring */
        mpb_handler_announce(&d.w.core, 2);
    if (s->actor != PROCESSOR)
        for (int p = 0; p < 2; p++)
            mpb_processor_prepare_sleep(&d.p[p]);
    mpb_store_relaxed(&d.w.core.doorbells->service_word[MPB_SLOT_CONTROLLER], 1);
}

static void settle(const struct scene *s)
{
    drain(&d, ALL_HANDLERS, 3);
    if (s->actor == CONTROLLER) {
        execute(&d, &d.h[0], d.kept[0]);
        drain(&d, ALL_HANDLERS, 3);
    }
    mpb_handler_withdraw(&d.w.core, 2);
    check_rest(&d);
    refill(&d);
    drama_close(&d);
}

static void die_in_the_repair(const struct scene *s, int point, uint64_t nth)
{
    uint64_t passes[POINTS];
    struct recovery_of r = {&d, s};
    stage(s);
    die_at(s->operation, &d, point, nth);
    successor(&d, s);
    count_passes(do_recover, &r, passes);
    settle(s);
    for (int i = 0; i < POINTS; i++)
        for (uint64_t n = 1; n <= passes[i] && n <= 2; n++) {
            if (may_die++ % REPAIRS_A_DEATH != 0)
                continue;
            repairs++;
            stage(s);
            die_at(s->operation, &d, point, nth);
            successor(&d, s);
            die_at(do_recover, &r, i, n);
            successor(&d, s);
            do_recover(&r);
            for (uint32_t e = 0; e < d.w.core.entry_count; e++) /* one death, whatever the repair went through */
                CHECK(mpb_attempts(&d.w.core.entries[e]) <= 1);
            check_bells(&d);
            settle(s);
        }
}

static void play(const struct scene *s)
{
    uint64_t passes[POINTS];
    d.scene = s->name;
    stage(s);
    count_passes(s->operation, &d, passes);
    drama_close(&d);
    for (int i = 0; i < POINTS; i++)
        for (uint64_t n = 1; n <= passes[i]; n++) {
            d.at = i;
            stage(s);
            die_at(s->operation, &d, i, n);
            survivors_work(&d, s, ALL_HANDLERS, 3);
            successor(&d, s);
            do_recover(&(struct recovery_of){&d, s});
            check_bells(&d);
            settle(s);
            if (n == 1)
                die_in_the_repair(s, i, n);
        }
}

/* A request on its third death: the point at which the repair closes it. */
static void play_poison(void)
{
    static const struct scene third = {"third death", HANDLER, 0, set_claimed_inline, do_execute};
    struct recovery_of r = {&d, &third};
    uint64_t passes[POINTS];
    for (int point = -1; point < POINTS; point++) {
        d.scene = third.name;
        stage(&third);
        d.w.core.entries[d.kept[0]].attempts = 2;
        replace_handler(&d, 0);
        if (point < 0) {
            count_passes(do_recover, &r, passes);
        } else if (passes[point] > 0) {
            die_at(do_recover, &r, point, 1);
            replace_handler(&d, 0);
            do_recover(&r);
        }
        drain(&d, ALL_HANDLERS, 3);
        CHECK(point >= 0 || d.answered[4] == 1);
        drama_close(&d);
    }
}

int main(void)
{
    world_open(&d.w, &small_plan);
    for (int i = 0; i < 2; i++)
        d.w.core.eventfds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int i = 0; i < SCENES; i++)
        play(&scenes[i]);
    play_poison();
    for (int i = 0; i < POINTS; i++)
        if (!passed[i]) {
            fprintf(stderr, "no scene passes %s\n", points[i]);
            return 1;
        }
    printf("request points: %ld deaths at %d points, %ld repairs that died\n", deaths, POINTS, repairs);
    return 0;
}
