/* A processor that dies while it counts a request: its successor completes the count, so that each request is received once
 * and finished once, wherever between the two stores the death was. */
#include "shm/counters.h"
#include "tests/shm/shm_world.h"
#include "tests/stepping/killed_at.h"

static struct world w;

static uint64_t counted(uint32_t counter)
{
    return mpb_load_relaxed(&w.core.counters[MPB_SLOT_PROCESSORS].value[counter]);
}

/* One request from its submission to its end. */
static void whole_life(void *unused)
{
    struct mpb_processor p;
    struct mpb_handler h;
    (void)unused;
    CHECK_EQ(mpb_processor_open(&p, &w.core, 0), 0);
    CHECK_EQ(mpb_handler_open(&h, &w.core, 0), 0);
    int64_t entry = submit(&p, MPB_PLANE_DATA, 5, 40);
    CHECK_EQ(mpb_handler_claim(&h, false), entry);
    mpb_answer_nothing(&h, (uint32_t)entry, MPB_ANSWER_NONE);
    CHECK_EQ(mpb_collect(&p), entry);
    mpb_sent(&p, (uint32_t)entry, 1, false);
}

struct death {
    const char *point;
    uint32_t received, finished; /* counted by then */
};

static void test_each_is_counted_once(const struct death *death, uint64_t before)
{
    struct mpb_processor p;
    struct mpb_recovery done;
    world_reset(&w);
    mpb_store_relaxed(&w.core.counters[MPB_SLOT_PROCESSORS].value[MPB_C_REQUESTS_RECEIVED], before);
    mpb_store_relaxed(&w.core.counters[MPB_SLOT_PROCESSORS].value[MPB_C_REQUESTS_FINISHED], before);
    CHECK(killed_at(&w.core, death->point, whole_life, NULL));
    CHECK_EQ(counted(MPB_C_REQUESTS_RECEIVED), before + death->received);
    CHECK_EQ(counted(MPB_C_REQUESTS_FINISHED), before + death->finished);
    mpb_add_relaxed(&w.core.processes[MPB_SLOT_PROCESSORS].incarnation, 1);
    CHECK_EQ(mpb_processor_open(&p, &w.core, 0), 0);
    for (int twice = 0; twice < 2; twice++) { /* and a repair that is done again counts nothing */
        mpb_recover_processor(&p, &done);
        CHECK_EQ(counted(MPB_C_REQUESTS_RECEIVED), before + 1);
        CHECK_EQ(counted(MPB_C_REQUESTS_FINISHED), before + 1);
        CHECK_EQ(p.free_count, p.entries);
    }
    mpb_processor_close(&p);
}

int main(void)
{
    static const struct death DEATHS[] = {{"processor.received.counting", 0, 0},
                                          {"processor.received.counted", 1, 0},
                                          {"processor.finished.counting", 1, 0},
                                          {"processor.finished.counted", 1, 1}};
    static const uint64_t BEFORE[] = {0, 1, 6, (1 << 29) - 1, 1 << 29}; /* the marks have 29 bits of the count */
    world_open(&w, &small_plan);
    for (size_t death = 0; death < sizeof DEATHS / sizeof *DEATHS; death++)
        for (size_t before = 0; before < sizeof BEFORE / sizeof *BEFORE; before++)
            test_each_is_counted_once(&DEATHS[death], BEFORE[before]);
    world_close(&w);
    printf("processor deaths: %lu checks\n", checks_made);
    return 0;
}
