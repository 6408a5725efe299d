#define _GNU_SOURCE
/* One stands still after each instruction of what it does, the others do what could be missed, then it goes on: no
 * wake is lost, and who has a request is not mistaken. */
#include <sys/eventfd.h>
#include <unistd.h>
#include "tests/request/request_drama.h"
#include "shm/counters.h"
#include "tests/stepping/stepping.h"

static struct drama d;
static struct frozen frozen;
static long standstills;

/* ------------------------------------------------------------------ a full plane becomes empty (request rule 8) */
static int64_t submitted;

static void submit_one(void *unused)
{
    (void)unused;
    submitted = submit(&d.p[0], MPB_PLANE_DATA, 8, 100);
}

static bool was_rung(int fd)
{
    uint64_t times;
    return read(fd, &times, sizeof times) == sizeof times;
}

static void test_space_is_never_missed(void)
{
    trail_forget(&frozen.trail);
    for (long at = 1;; at++, standstills++) {
        drama_open(&d);
        int bell = d.w.core.eventfds[0] = eventfd(0, EFD_NONBLOCK);
        for (uint32_t id = 4; id < 8; id++)
            ask(&d, 0, MPB_PLANE_DATA, id, 100);
        freeze_at(&frozen, submit_one, NULL, at);
        bool ended = frozen.ended;
        work_handler(&d, 0);
        thaw(&frozen);
        d.scene = "a full plane becomes empty";
        d.at = at;
        HOLD(&d, submitted >= 0 || (submitted == MPB_PLANE_FULL && was_rung(bell)));
        close(bell);
        d.w.core.eventfds[0] = -1;
        drama_close(&d);
        if (ended)
            return;
    }
}

/* ------------------------------------------------------------------ a request comes as one falls asleep (request rule 9) */
static enum mpb_slept slept;

static void wait_a_moment(void *unused)
{
    (void)unused;
    slept = mpb_handler_wait(&d.h[0], false, 0);
}

static void test_a_request_is_never_missed(void)
{
    bool announced = false, withdrawn = false;
    trail_forget(&frozen.trail);
    for (long at = 1;; at++, standstills++) {
        drama_open(&d);
        slept = MPB_SLEPT_WORK;
        freeze_at(&frozen, wait_a_moment, NULL, at);
        bool ended = frozen.ended;
        bool bit = (mpb_load_relaxed(&d.w.core.doorbells->sleepers) & 1) != 0;
        announced |= bit;
        withdrawn |= announced && !bit; /* it has slept: what comes now is found when it looks again */
        ask(&d, 0, MPB_PLANE_DATA, 4, 100);
        thaw(&frozen);
        d.scene = "a request comes as one falls asleep";
        d.at = at;
        HOLD(&d, withdrawn || slept == MPB_SLEPT_WORK || mpb_load_relaxed(&d.w.core.doorbells->handler[0].word) == 1);
        drama_close(&d);
        if (ended)
            break;
    }
    CHECK(announced && withdrawn);
}

/* Who is rung is not rung again before it has announced itself again. */
static void test_one_wake_for_one_sleep(void)
{
    drama_open(&d);
    mpb_atomic64 *wakes = &d.w.core.counters[d.p[0].slot].value[MPB_C_HANDLER_WAKES];
    mpb_handler_announce(&d.w.core, 2);
    uint64_t before = mpb_load_relaxed(wakes);
    for (uint32_t id = 4; id < 7; id++)
        ask(&d, 0, MPB_PLANE_DATA, id, 100);
    CHECK_EQ(mpb_load_relaxed(wakes), before + 1);
    CHECK_EQ(mpb_load_relaxed(&d.w.core.doorbells->sleepers), 0);
    drama_close(&d);
}

/* ------------------------------------------------------------------ an entry is used again (request rule 7) */
static int64_t taken;

static void take_one(void *unused)
{
    (void)unused;
    taken = mpb_handler_claim(&d.h[1], false);
}

/* A taker that stood still between its look at an entry and its claim, while the entry was answered and filled anew by
 * its processor, must not believe that it still knows what it looked at: the two requests are in different classes of
 * waiting, and its hint is the first one's. */
static void test_an_entry_used_again(void)
{
    trail_forget(&frozen.trail);
    for (long at = 1;; at++, standstills++) {
        drama_open(&d);
        d.scene = "an entry is used again";
        d.at = at;
        taken = -1;
        int64_t first = ask(&d, 0, MPB_PLANE_DATA, 4, 100);
        freeze_at(&frozen, take_one, NULL, at);
        bool ended = frozen.ended, early = taken >= 0;
        uint32_t generation = mpb_state_generation(d.w.core.entries[first].state);
        if (!early && state_of(&d.w, (uint32_t)first) == MPB_E_QUEUED) {
            work_handler(&d, 0);
            work_processor(&d, 0);
            HOLD(&d, d.answered[4] == 1);
            int64_t again = submit(&d.p[0], MPB_PLANE_DATA, 5, 100);
            HOLD(&d, again == first);
            HOLD(&d, mpb_state_generation(d.w.core.entries[again].state) == generation + 1);
            HOLD(&d, !mpb_handler_owns(&d.h[0], (uint32_t)again, generation));
            struct mpb_ring ring = mpb_ring_view(&d.w.core, MPB_RING_DATA);
            HOLD(&d, mpb_ring_take(&ring, MPB_STATE_BIT(MPB_E_QUEUED), MPB_E_CLAIMED, d.h[0].slot) == again);
            thaw(&frozen);
            HOLD(&d, taken < 0); /* not taken from under its owner */
            HOLD(&d, mpb_handler_owns(&d.h[0], (uint32_t)again, generation + 1));
        } else {
            thaw(&frozen);
        }
        drama_close(&d);
        if (ended)
            return;
    }
}

int main(void)
{
    if (!STEPPING) {
        printf("request standstill: not run (needs x86-64 without a sanitizer)\n");
        return 0;
    }
    stepping_install();
    world_open(&d.w, &small_plan);
    test_space_is_never_missed();
    test_a_request_is_never_missed();
    test_one_wake_for_one_sleep();
    test_an_entry_used_again();
    CHECK(standstills > 300);
    printf("request standstill: one stood still at %ld instructions, %lu checks\n", standstills, checks_made);
    return 0;
}
