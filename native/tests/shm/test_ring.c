/* The hint ring alone: capacity exact, order, stale hints, lapping; a take that stands still at every instruction; threads that push and pop against each other
 * (also under ThreadSanitizer): every row taken exactly as often as it was published. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include "tests/shm/shm_world.h"
#include "tests/stepping/stepping.h"

#define QUEUED MPB_STATE_BIT(MPB_E_QUEUED)

static struct world w;

static void set_state(uint32_t index, uint32_t generation, uint32_t state)
{
    mpb_store_release(&w.core.entries[index].state, mpb_state_word(generation, state, 1));
}

static void test_capacity_is_exact(void)
{
    for (uint32_t ring_id = 0; ring_id < MPB_MAX_RINGS; ring_id++) {
        struct mpb_ring ring = mpb_ring_view(&w.core, ring_id);
        if (ring_id == MPB_RING_CONTROLLER)
            continue; /* its rows are commands: tested with them */
        for (int lap = 0; lap < 3; lap++) {
            CHECK(mpb_ring_empty(&ring));
            for (uint64_t i = 0; i < ring.capacity; i++) {
                set_state((uint32_t)(i % w.core.entry_count), (uint32_t)lap, MPB_E_QUEUED);
                CHECK_EQ(mpb_ring_push(&ring, mpb_hint((uint32_t)(i % w.core.entry_count), (uint32_t)lap)), 0);
                CHECK_EQ(mpb_ring_depth(&ring), i + 1);
            }
            CHECK_EQ(mpb_ring_push(&ring, mpb_hint(0, 0)), MPB_RING_FULL);
            CHECK_EQ(w.core.rings[ring_id].peak, ring.capacity);
            for (uint64_t i = 0; i < ring.capacity && i < w.core.entry_count; i++)
                CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), i);
            CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), MPB_RING_EMPTY); /* the rest was stale */
            CHECK_EQ(mpb_ring_depth(&ring), 0);
        }
    }
}

static void test_stale_hints_are_dropped(void)
{
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    uint64_t present[4] = {0};
    set_state(0, 5, MPB_E_QUEUED);
    set_state(1, 5, MPB_E_QUEUED);
    set_state(2, 6, MPB_E_QUEUED);
    CHECK_EQ(mpb_ring_push(&ring, mpb_hint(0, 4)), 0); /* an older generation */
    CHECK_EQ(mpb_ring_push(&ring, mpb_hint(1, 5)), 0);
    CHECK_EQ(mpb_ring_push(&ring, mpb_hint(1, 5)), 0);                               /* a duplicate */
    CHECK_EQ(mpb_ring_push(&ring, mpb_hint(2, 6 + (1u << MPB_GENERATION_BITS))), 0); /* only 15 bits travel */
    mpb_ring_scan(&ring, present);
    CHECK_EQ(present[0], 6);
    CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), 1);
    CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), 2);
    CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), MPB_RING_EMPTY);
    CHECK_EQ(mpb_state_of(w.core.entries[0].state), MPB_E_QUEUED);
    CHECK_EQ(w.core.entries[1].state, mpb_state_word(5, MPB_E_CLAIMED, 9));
}

/* Behind a ring's last slot lies another ring. */
static void test_a_scan_ends_with_the_ring(void)
{
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    uint64_t present[4] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        set_state(i, 5, MPB_E_QUEUED);
        CHECK_EQ(mpb_ring_push(&ring, mpb_hint(i, 5)), 0);
    }
    ring.capacity = 2;
    mpb_ring_scan(&ring, present);
    CHECK_EQ(present[0], 3);
}

/* However many hints have passed, all that are there are seen: who is not seen is taken for never pushed. */
static void test_a_scan_sees_what_was_pushed_last(void)
{
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    for (uint32_t round = 1; round < 3 * MPB_MAX_SLOTS; round++) {
        uint64_t present[4] = {0};
        set_state(3, round, MPB_E_QUEUED);
        CHECK_EQ(mpb_ring_push(&ring, mpb_hint(3, round)), 0);
        mpb_ring_scan(&ring, present);
        CHECK_EQ(present[0], 8);
        CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), 3);
    }
}

/* A ring that must never be full makes room by dropping stale hints (request rule 6). */
static void test_a_sure_push_drops_stale_hints(void)
{
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    set_state(0, 5, MPB_E_QUEUED);
    for (uint64_t i = 0; i < ring.capacity; i++)
        CHECK_EQ(mpb_ring_push(&ring, mpb_hint(1, 4)), 0);
    CHECK_EQ(mpb_ring_push(&ring, mpb_hint(0, 5)), MPB_RING_FULL);
    mpb_ring_push_sure(&ring, mpb_hint(0, 5));
    CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), 0);
    CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), MPB_RING_EMPTY);
}

static void test_head_and_tail_that_lag_are_helped(void)
{
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    for (uint32_t i = 0; i < 4; i++)
        set_state(i, 1, MPB_E_QUEUED);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQ(mpb_ring_push(&ring, mpb_hint(i, 1)), 0);
    mpb_store_release(&ring.ctl->tail, ring.ctl->tail - 2); /* two pushers died before they moved it (request rule 3) */
    CHECK(!mpb_ring_empty(&ring));
    CHECK_EQ(mpb_ring_push(&ring, mpb_hint(3, 1)), 0);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), i);
    mpb_store_release(&ring.ctl->head, ring.ctl->head - 2);
    CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), 3);
    CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), MPB_RING_EMPTY);
    CHECK_EQ(ring.ctl->head, ring.ctl->tail);
}

static int64_t taken_late;

static void take_late(void *ring) { taken_late = mpb_ring_take(ring, QUEUED, MPB_E_CLAIMED, 7); }

/* One stands still at each instruction of a take while another takes all there is, then goes on: a row is taken once. */
static void test_one_of_two_takes(void)
{
    static struct frozen frozen;
    stepping_install();
    for (long at = 1; STEPPING; at++) {
        world_reset(&w);
        struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
        for (uint32_t i = 0; i < 3; i++) {
            set_state(i, 1, MPB_E_QUEUED);
            CHECK_EQ(mpb_ring_push(&ring, mpb_hint(i, 1)), 0);
        }
        uint32_t taken = 0;
        freeze_at(&frozen, take_late, &ring, at);
        bool ended = frozen.ended;
        for (int64_t i; (i = mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9)) >= 0;)
            taken++;
        thaw(&frozen);
        taken += taken_late >= 0;
        CHECK_EQ(taken, 3);
        if (taken_late >= 0)
            CHECK_EQ(w.core.entries[taken_late].state, mpb_state_word(1, MPB_E_CLAIMED, 7));
        CHECK_EQ(mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 9), MPB_RING_EMPTY);
        if (ended)
            break;
    }
}

/* ------------------------------------------------------------------ threads */
#define PUSHERS 2
#define POPPERS 2
#ifdef __SANITIZE_THREAD__
#define ROUNDS 20000
#else
#define ROUNDS 200000
#endif
static mpb_atomic64 taken_total, pushed_total;
static uint64_t taken_by[POPPERS];

/* Each pusher owns three rows and publishes them again and again, each time they are free. */
static void *pusher(void *argument)
{
    uint32_t first = (uint32_t)(uintptr_t)argument * 3;
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    for (uint32_t done = 0; done < ROUNDS;) {
        for (uint32_t i = first; i < first + 3 && done < ROUNDS; i++) {
            uint64_t word = mpb_load_acquire(&w.core.entries[i].state);
            if (mpb_state_of(word) != MPB_E_FREE)
                continue;
            uint32_t generation = mpb_state_generation(word) + 1;
            w.core.entries[i].fill_number = generation;
            set_state(i, generation, MPB_E_QUEUED);
            while (mpb_ring_push(&ring, mpb_hint(i, generation)) == MPB_RING_FULL)
                sched_yield();
            done++;
            mpb_add_relaxed(&pushed_total, 1);
        }
        sched_yield();
    }
    return NULL;
}

static void *popper(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument;
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    while (mpb_load_relaxed(&taken_total) < PUSHERS * ROUNDS) {
        int64_t index = mpb_ring_take(&ring, QUEUED, MPB_E_CLAIMED, 100 + me);
        if (index < 0) {
            sched_yield();
            continue;
        }
        uint64_t word = mpb_load_acquire(&w.core.entries[index].state);
        if (mpb_state_owner(word) != 100 + me || w.core.entries[index].fill_number != mpb_state_generation(word))
            abort(); /* somebody else's, or the payload was not visible */
        mpb_add_relaxed(&taken_total, 1);
        taken_by[me]++;
        set_state((uint32_t)index, mpb_state_generation(word), MPB_E_FREE);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[PUSHERS + POPPERS];
    for (uintptr_t i = 0; i < PUSHERS; i++)
        pthread_create(&threads[i], NULL, pusher, (void *)i);
    for (uintptr_t i = 0; i < POPPERS; i++)
        pthread_create(&threads[PUSHERS + i], NULL, popper, (void *)i);
    for (int i = 0; i < PUSHERS + POPPERS; i++)
        pthread_join(threads[i], NULL);
    struct mpb_ring ring = mpb_ring_view(&w.core, MPB_RING_DATA);
    CHECK_EQ(taken_total, PUSHERS * ROUNDS);
    CHECK_EQ(pushed_total, PUSHERS * ROUNDS);
    CHECK(mpb_ring_empty(&ring));
    CHECK_EQ(ring.ctl->head, ring.ctl->tail);
    CHECK(ring.ctl->peak <= ring.capacity);
}

int main(void)
{
    world_open(&w, &small_plan);
    test_capacity_is_exact();
    world_reset(&w);
    test_stale_hints_are_dropped();
    world_reset(&w);
    test_a_sure_push_drops_stale_hints();
    world_reset(&w);
    test_a_scan_sees_what_was_pushed_last();
    world_reset(&w);
    test_a_scan_ends_with_the_ring();
    world_reset(&w);
    test_head_and_tail_that_lag_are_helped();
    world_reset(&w);
    test_one_of_two_takes();
    world_reset(&w);
    test_threads();
    printf("ring: %lu checks, %d rows through threads\n", checks_made, PUSHERS * ROUNDS);
    return 0;
}
