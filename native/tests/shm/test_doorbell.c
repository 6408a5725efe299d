/* Who is woken, and who is not: sleepers of each kind, one wake for one ring, room that was waited for, watchers of
 * partitions beyond a word of bits; what is counted. One process: what is asked for is there before anybody sleeps. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "shm/counters.h"
#include "tests/shm/shm_world.h"

enum { SELF = 1, RESERVED = 1, COORDINATOR = 3, SHORT_NS = 1000000, MANY = 4097 };
static const uint64_t DATA_HANDLERS = 1u << 1 | 1u << 2;
static struct world w;
static int eventfds[2];

static uint64_t counted(uint32_t counter) { return mpb_load_relaxed(&w.core.counters[SELF].value[counter]); }
static uint64_t sleepers(void) { return atomic_load(&w.core.doorbells->sleepers); }
static uint32_t word_of(uint32_t handler) { return mpb_load_relaxed(&w.core.doorbells->handler[handler].word); }
static uint64_t poke_of(uint32_t handler) { return mpb_load_relaxed(&w.core.doorbells->handler[handler].poke); }

/* Whether the processor was written to; takes it back. */
static bool written(uint32_t processor)
{
    uint64_t value = 0;
    return read(eventfds[processor], &value, sizeof value) == sizeof value;
}

static void begin(void)
{
    world_reset(&w);
    memset((void *)&w.core.counters[SELF], 0, sizeof w.core.counters[SELF]);
    for (int i = 0; i < 2; i++) {
        written((uint32_t)i);
        w.core.eventfds[i] = eventfds[i];
    }
}

static void all_sleep(void)
{
    for (uint32_t handler = 0; handler < w.core.header->handler_count; handler++)
        mpb_handler_announce(&w.core, handler);
}

/* The announcement ends with the sleep, however it ended: nobody wakes who is awake. */
static void a_sleep_that_ends_takes_its_announcement_back(void)
{
    begin();
    mpb_handler_announce(&w.core, 2);
    CHECK_EQ(sleepers(), 1u << 2);
    CHECK_EQ(mpb_handler_sleep(&w.core, 2, SHORT_NS), 1);
    CHECK_EQ(sleepers(), 0);
    mpb_ring_handler(&w.core, 2);
    CHECK_EQ(word_of(2), 0);
    CHECK_EQ(mpb_ring_data_handler(&w.core, SELF), -1);
    mpb_handler_announce(&w.core, 2);
    mpb_ring_handler(&w.core, 2);
    CHECK_EQ(sleepers(), 0);
    CHECK_EQ(word_of(2), 1);
    CHECK_EQ(mpb_handler_sleep(&w.core, 2, -1), 0); /* rung before it slept: it does not */
    CHECK_EQ(counted(MPB_C_HANDLER_WAKES), 0);
}

static void a_push_wakes_one_handler_of_its_plane(void)
{
    begin();
    all_sleep();
    CHECK_EQ(mpb_ring_data_handler(&w.core, SELF), 1); /* 0 is kept for the control plane */
    CHECK_EQ(mpb_ring_data_handler(&w.core, SELF), 2);
    CHECK_EQ(mpb_ring_data_handler(&w.core, SELF), -1);
    CHECK_EQ(sleepers(), 1u << 0 | 1u << COORDINATOR);
    CHECK_EQ(counted(MPB_C_HANDLER_WAKES), 2);
    mpb_ring_control_handler(&w.core, SELF);
    CHECK_EQ(sleepers(), 1u << COORDINATOR);
    CHECK_EQ(word_of(0), 1);
    all_sleep();
    mpb_ring_control_handler(&w.core, SELF);
    CHECK_EQ(sleepers(), DATA_HANDLERS | 1u << COORDINATOR); /* the kept one first, alone */
    mpb_ring_control_handler(&w.core, SELF);
    CHECK_EQ(sleepers(), 1u << 2 | 1u << COORDINATOR); /* then any */
    CHECK_EQ(counted(MPB_C_HANDLER_WAKES), 5);
}

static void a_poke_is_counted_once(void)
{
    begin();
    mpb_handler_announce(&w.core, 2);
    mpb_poke_handler(&w.core, 2, MPB_POKE_DIRTY, SELF);
    mpb_poke_handler(&w.core, 2, MPB_POKE_DIRTY, SELF);
    CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), 1);
    CHECK_EQ(sleepers(), 0);
    CHECK_EQ(word_of(2), 1);
    mpb_poke_handler(&w.core, 2, MPB_POKE_SCAN, SELF);
    CHECK_EQ(poke_of(2), MPB_POKE_DIRTY | MPB_POKE_SCAN);
    CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), 2);
    mpb_poke_handler(&w.core, MPB_MAX_HANDLERS, MPB_POKE_SCAN, SELF); /* nobody */
    CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), 2);
}

static void only_a_processor_that_sleeps_is_rung(void)
{
    begin();
    mpb_ring_processor(&w.core, 1, SELF);
    CHECK(!written(1));
    atomic_store(&w.core.doorbells->processor[1].asleep, 1);
    mpb_ring_processor(&w.core, 1, SELF);
    mpb_ring_processor(&w.core, 1, SELF);
    CHECK(written(1) && !written(1) && !written(0));
    CHECK_EQ(counted(MPB_C_PROCESSOR_WAKES), 1);
    w.core.eventfds[1] = -1; /* one of another machine's test: nothing to write to */
    atomic_store(&w.core.doorbells->processor[1].asleep, 1);
    mpb_ring_processor(&w.core, 1, SELF);
    CHECK_EQ(atomic_load(&w.core.doorbells->processor[1].asleep), 0);
}

static void room_is_told_at_three_quarters_to_who_waits_for_it(void)
{
    begin(); /* data plane of 4, control plane of 2 */
    CHECK(!mpb_space_is_wanted(&w.core, MPB_PLANE_DATA));
    mpb_ring_want_space(&w.core, MPB_PLANE_DATA, 0, SELF);
    CHECK(!written(0) && !written(1));
    mpb_want_space(&w.core, MPB_PLANE_DATA, 0);
    mpb_want_space(&w.core, MPB_PLANE_CONTROL, 1);
    CHECK(mpb_space_is_wanted(&w.core, MPB_PLANE_DATA) && mpb_space_is_wanted(&w.core, MPB_PLANE_CONTROL));
    mpb_ring_want_space(&w.core, MPB_PLANE_DATA, 4, SELF);
    CHECK(!written(0) && !written(1));
    mpb_ring_want_space(&w.core, MPB_PLANE_DATA, 3, SELF);
    CHECK(written(0) && !written(1));
    CHECK(!mpb_space_is_wanted(&w.core, MPB_PLANE_DATA) && mpb_space_is_wanted(&w.core, MPB_PLANE_CONTROL));
    atomic_store(&w.core.doorbells->processor[1].asleep, 1);
    mpb_ring_want_space(&w.core, MPB_PLANE_CONTROL, 1, SELF);
    CHECK(written(1) && !written(0));
    CHECK_EQ(atomic_load(&w.core.doorbells->processor[1].asleep), 0);
    CHECK_EQ(counted(MPB_C_PROCESSOR_WAKES), 2);
}

static void a_service_remembers_one_ring(void)
{
    begin();
    mpb_ring_service(&w.core, MPB_SLOT_CONTROLLER);
    mpb_ring_service(&w.core, MPB_SLOT_CONTROLLER);
    CHECK(mpb_service_wait(&w.core, MPB_SLOT_CONTROLLER, -1));
    CHECK(!mpb_service_wait(&w.core, MPB_SLOT_CONTROLLER, 0));
    CHECK(!mpb_service_wait(&w.core, MPB_SLOT_CONTROLLER, SHORT_NS));
    CHECK_EQ(mpb_load_relaxed(&w.core.doorbells->service_word[MPB_SLOT_CONTROLLER]), 0);
}

static void watchers_learn_which_partition_moved(void)
{
    begin();
    mpb_notify_partition(&w.core, 5, SELF);
    CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), 0);
    mpb_watch_partition(&w.core, 5, 1);
    mpb_watch_partition(&w.core, 5, 2);
    mpb_notify_partition(&w.core, 5, SELF);
    mpb_notify_partition(&w.core, 5, SELF); /* once a watch */
    CHECK_EQ(counted(MPB_C_PARTITION_NOTICES), 2);
    CHECK_EQ(w.core.doorbells->dirty[1][0], 1u << 5);
    CHECK_EQ(w.core.doorbells->dirty[2][0], 1u << 5);
    CHECK_EQ(w.core.doorbells->dirty[0][0], 0);
    CHECK_EQ(poke_of(1), MPB_POKE_DIRTY);
    CHECK_EQ(atomic_load(&w.core.partitions[5].watchers), 0);
    struct mpb_partition *few = w.core.partitions, *many = aligned_alloc(64, MANY * sizeof *many);
    CHECK(many != NULL);
    memset((void *)many, 0, MANY * sizeof *many);
    w.core.partitions = many;
    for (uint32_t ordinal = 63; ordinal < MANY; ordinal += 4033) { /* 63, 4096 + 0 */
        mpb_watch_partition(&w.core, ordinal, 2);
        mpb_notify_partition(&w.core, ordinal, SELF);
    }
    mpb_watch_partition(&w.core, 130, 2);
    mpb_notify_partition(&w.core, 130, SELF);
    w.core.partitions = few;
    free(many);
    CHECK_EQ(w.core.doorbells->dirty[2][0], 1u << 5 | 1ull << 63 | 1);
    CHECK_EQ(w.core.doorbells->dirty[2][2], 1u << 2);
}

static void after_a_recovery_everybody_looks(void)
{
    begin();
    atomic_store(&w.core.header->handlers_high, 2); /* the third never ran: nobody waits in its place */
    mpb_ring_everybody(&w.core);
    for (uint32_t handler = 0; handler < w.core.header->handler_count; handler++) {
        bool runs = handler < 2 || handler == COORDINATOR;
        CHECK_EQ(poke_of(handler), runs ? MPB_POKE_SCAN : 0);
        CHECK_EQ(word_of(handler), runs);
    }
    CHECK(written(0) && written(1));
    CHECK(mpb_service_wait(&w.core, MPB_SLOT_CONTROLLER, 0));
    CHECK(mpb_service_wait(&w.core, MPB_MAX_SLOTS - 1, 0));
}

/* A whole second is a time to wait as any other, and a word that has changed already ends the wait at once. */
static void a_word_that_has_changed_is_not_waited_for(void)
{
    mpb_atomic32 word = 1;
    const int64_t limits_ns[] = {-1, 0, SHORT_NS, 1000000000, 3999999999};
    for (size_t i = 0; i < sizeof limits_ns / sizeof *limits_ns; i++)
        CHECK_EQ(mpb_futex_wait(&word, 2, limits_ns[i]), 0);
    CHECK_EQ(mpb_futex_wait(&word, 1, SHORT_NS), 1);
}

int main(void)
{
    struct world_plan plan = small_plan;
    plan.reserved = RESERVED;
    world_open(&w, &plan);
    for (int i = 0; i < 2; i++)
        CHECK((eventfds[i] = eventfd(0, EFD_NONBLOCK)) >= 0);
    a_word_that_has_changed_is_not_waited_for();
    a_sleep_that_ends_takes_its_announcement_back();
    a_push_wakes_one_handler_of_its_plane();
    a_poke_is_counted_once();
    only_a_processor_that_sleeps_is_rung();
    room_is_told_at_three_quarters_to_who_waits_for_it();
    a_service_remembers_one_ring();
    watchers_learn_which_partition_moved();
    after_a_recovery_everybody_looks();
    world_close(&w);
    printf("doorbells: %lu checks\n", checks_made);
    return 0;
}
