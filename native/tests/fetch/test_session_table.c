#define _GNU_SOURCE
/* The table of fetch sessions: killed after every instruction of a change, the successor leaves nothing half and nothing
 * lost: the session in hand is as before or gone, the others are as they were, and each unit is a session's or free. */
#include "tests/shm/shm_world.h"
#include "fetch/session_table.h"
#include "tests/stepping/stepping.h"

#define SLOT 50u
#define OTHER_SLOT 51u

static struct world w;
static struct mpb_core left; /* what a kill left, in memory of its own */
static uint32_t bystander, in_hand;
static long looked, gone, kept;

static uint32_t make(uint32_t slot, uint64_t now_ms, uint32_t partitions)
{
    struct mpb_session_wish wish = {.now_ms = now_ms, .eviction_ms = 1000, .topics = 1, .partitions = partitions};
    uint32_t row, id = mpb_session_create(&w.core, slot, &wish, &row);
    if (id == 0)
        return 0;
    memset(mpb_session_topics(&w.core, row), 7, mpb_session_bytes(1, partitions));
    mpb_session_release(&w.core, row);
    return id;
}

static uint32_t row_of(const struct mpb_core *core, uint32_t id)
{
    for (uint32_t row = 0; row < core->fetch_session_count; row++)
        if (mpb_load_acquire(&core->fetch_sessions[row].word) >> 32 == id)
            return row;
    return UINT32_MAX;
}

static void fresh(void)
{
    struct mpb_core *c = &w.core;
    memset((void *)c->fetch_sessions, 0, c->fetch_session_count * sizeof *c->fetch_sessions);
    memset((void *)c->session_owners, 0, c->session_unit_count * sizeof *c->session_owners);
}

static void check_units(const struct mpb_core *core)
{
    for (uint32_t unit = 0; unit < core->session_unit_count; unit++) {
        uint32_t owner = mpb_load_relaxed(&core->session_owners[unit]);
        if (owner == 0)
            continue;
        const struct mpb_fetch_session *session = &core->fetch_sessions[owner - 1];
        CHECK(mpb_load_relaxed(&session->word) != 0);
        CHECK(unit >= session->first_unit && unit < session->first_unit + session->units);
    }
    for (uint32_t row = 0; row < core->fetch_session_count; row++) {
        const struct mpb_fetch_session *session = &core->fetch_sessions[row];
        for (uint32_t i = 0; mpb_load_relaxed(&session->word) != 0 && i < session->units; i++)
            CHECK_EQ(mpb_load_relaxed(&core->session_owners[session->first_unit + i]), row + 1);
    }
}

/* What SIGKILL would have left here, after the successor's repair; which may itself be done twice. */
static void look(void *unused)
{
    const struct mpb_core *c = &w.core;
    (void)unused;
    memcpy((void *)left.fetch_sessions, (void *)c->fetch_sessions, c->fetch_session_count * sizeof *c->fetch_sessions);
    memcpy((void *)left.session_owners, (void *)c->session_owners, c->session_unit_count * sizeof *c->session_owners);
    memcpy(left.session_units, c->session_units, c->session_unit_count * sizeof *c->session_units);
    for (int twice = 0; twice < 2; twice++) {
        mpb_session_recover(&left, SLOT);
        check_units(&left);
    }
    uint32_t row = row_of(&left, bystander);
    CHECK(row != UINT32_MAX && left.fetch_sessions[row].partitions == 2);
    const uint8_t *image = (const uint8_t *)mpb_session_topics(&left, row);
    for (uint64_t i = 0; i < mpb_session_bytes(1, 2); i++)
        CHECK_EQ(image[i], 7);
    for (row = 0; row < left.fetch_session_count; row++)
        CHECK_EQ(mpb_load_relaxed(&left.fetch_sessions[row].word) & 0xff, 0);
    if (in_hand != 0 && row_of(&left, in_hand) != UINT32_MAX)
        kept++;
    else
        gone++;
    looked++;
}

static void do_create(void *unused)
{
    (void)unused;
    CHECK(make(SLOT, 5000, 20) != 0);
}

static void do_change(void *partitions)
{
    uint32_t row;
    CHECK_EQ(mpb_session_hold(&w.core, SLOT, in_hand, &row), MPB_SESSION_HELD);
    CHECK(mpb_session_resize(&w.core, row, 1, *(const uint32_t *)partitions));
    memset(mpb_session_topics(&w.core, row), 9, mpb_session_bytes(1, *(const uint32_t *)partitions));
    mpb_session_release(&w.core, row);
}

static void do_drop(void *unused)
{
    uint32_t row;
    (void)unused;
    CHECK_EQ(mpb_session_hold(&w.core, SLOT, in_hand, &row), MPB_SESSION_HELD);
    mpb_session_drop(&w.core, row);
}

static void step(const char *what, step_op *op, void *argument)
{
    kept = gone = looked = 0;
    if (STEPPING)
        step_each(op, argument, 1, 100000, 1, look, NULL);
    else
        op(argument);
    look(NULL);
    printf("%s: looked after %ld instructions, the session in hand was there after %ld\n", what, looked, kept);
}

static void test_every_instruction(void)
{
    uint32_t more = 20, less = 1;
    fresh();
    bystander = make(OTHER_SLOT, 1, 2);
    in_hand = 0;
    step("create", do_create, NULL);
    fresh();
    bystander = make(OTHER_SLOT, 5000, 2);
    in_hand = make(OTHER_SLOT, 10, 1);
    make(OTHER_SLOT, 5000, 2);
    step("create in place of an old one", do_create, NULL);
    CHECK(row_of(&w.core, in_hand) == UINT32_MAX && (gone > 0 || !STEPPING));
    fresh();
    bystander = make(OTHER_SLOT, 1, 2);
    in_hand = make(OTHER_SLOT, 1, 1);
    step("grow", do_change, &more);
    CHECK(kept > 0 && (gone > 0 || !STEPPING));
    step("shrink", do_change, &less);
    step("drop", do_drop, NULL);
    CHECK(row_of(&w.core, in_hand) == UINT32_MAX);
}

static void test_who_has_it(void)
{
    uint32_t row, other;
    fresh();
    bystander = make(OTHER_SLOT, 1, 2);
    CHECK_EQ(mpb_session_hold(&w.core, SLOT, bystander, &row), MPB_SESSION_HELD);
    CHECK_EQ(mpb_session_hold(&w.core, OTHER_SLOT, bystander, &other), MPB_SESSION_BUSY);
    CHECK_EQ(mpb_session_hold(&w.core, OTHER_SLOT, bystander ^ 4, &other), MPB_SESSION_UNKNOWN);
    CHECK_EQ(mpb_session_hold(&w.core, OTHER_SLOT, 3, &other), MPB_SESSION_UNKNOWN); /* a row that there is not */
    CHECK_EQ(mpb_session_hold(&w.core, OTHER_SLOT, 0, &other), MPB_SESSION_UNKNOWN);
    CHECK_EQ(mpb_session_recover(&w.core, OTHER_SLOT), 0);
    CHECK_EQ(mpb_session_recover(&w.core, SLOT), 1);
    CHECK_EQ(mpb_session_hold(&w.core, OTHER_SLOT, bystander, &other), MPB_SESSION_UNKNOWN);
}

static void test_units_run_out(void)
{
    uint32_t row, id;
    fresh();
    CHECK(make(SLOT, 1, 27) != 0);    /* two units: an eighth of sixteen */
    CHECK_EQ(make(SLOT, 1, 28), 0);   /* three */
    for (uint32_t i = 0; i < 16; i++) /* all that are left are somebody's */
        mpb_store_relaxed(&w.core.session_owners[i], 3);
    CHECK_EQ(make(SLOT, 1, 1), 0);
    CHECK(make(SLOT, 1, 0) == 0); /* a topic needs room too */
    fresh();
    id = make(SLOT, 1, 5);
    CHECK_EQ(mpb_session_hold(&w.core, SLOT, id, &row), MPB_SESSION_HELD);
    CHECK(!mpb_session_resize(&w.core, row, 1, 100));
    CHECK_EQ(w.core.fetch_sessions[row].partitions, 5);
    mpb_session_release(&w.core, row);
}

int main(void)
{
    world_open(&w, &small_plan);
    left = w.core;
    left.fetch_sessions = calloc(left.fetch_session_count, sizeof *left.fetch_sessions);
    left.session_owners = calloc(left.session_unit_count, sizeof *left.session_owners);
    left.session_units = calloc(left.session_unit_count, sizeof *left.session_units);
    if (STEPPING)
        stepping_install();
    test_who_has_it();
    test_units_run_out();
    test_every_instruction();
    return 0;
}
