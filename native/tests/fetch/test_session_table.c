#define _GNU_SOURCE
/* The table of fetch sessions: killed after every instruction of a change, the successor leaves nothing half and nothing
 * lost: the session in hand is as before or gone, the others are as they were, and each unit is a session's or free. */
#include "tests/shm/shm_world.h"
#include "fetch/session_table.h"
#include "tests/stepping/stepping.h"
#include "shm/counters.h"

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

/* Whether a session is worth less than another, as Kafka compares. */
static bool less(const struct mpb_fetch_session *one, uint32_t id, uint32_t flags, uint32_t partitions, uint32_t other)
{
    uint64_t worth = (uint64_t)(one->flags & MPB_SESSION_PRIVILEGED) << 40 | (uint64_t)one->partitions << 33 | id;
    return worth < ((uint64_t)(flags & MPB_SESSION_PRIVILEGED) << 40 | (uint64_t)partitions << 33 | other);
}

/* Row of the session that has to go, -1: none may. */
static int victim(const struct mpb_session_wish *wish)
{
    int oldest = -1, least = -1;
    for (int i = 0; i < (int)w.core.fetch_session_count; i++) {
        const struct mpb_fetch_session *s = &w.core.fetch_sessions[i];
        uint32_t id = (uint32_t)(s->word >> 32);
        if (id == 0 || (s->word & 0xff) != 0)
            continue;
        if (oldest < 0 || s->used_ms < w.core.fetch_sessions[oldest].used_ms)
            oldest = i;
        bool may_go = s->used_ms - s->created_ms > wish->eviction_ms ||
                      (wish->flags & MPB_SESSION_PRIVILEGED && !(s->flags & MPB_SESSION_PRIVILEGED));
        const struct mpb_fetch_session *l = &w.core.fetch_sessions[least < 0 ? 0 : least];
        if (may_go && (least < 0 || less(s, id, l->flags, l->partitions, (uint32_t)(l->word >> 32))))
            least = i;
    }
    if (oldest >= 0 && wish->now_ms - w.core.fetch_sessions[oldest].used_ms > wish->eviction_ms)
        return oldest;
    return least >= 0 && less(&w.core.fetch_sessions[least], 0, wish->flags, wish->partitions, 0) ? least : -1;
}

static uint64_t counted(uint32_t counter) { return mpb_load_relaxed(&w.core.counters[SLOT].value[counter]); }

/* A full table: who uses it least goes, all that was its is free, the others stay as they are; or the new one is refused. */
static void test_who_makes_room(void)
{
    static struct mpb_fetch_session before[8];
    uint64_t seed = 20261124, evictions = 0, refusals = 0;
    uint32_t rows = w.core.fetch_session_count;
    for (int round = 0; round < 20000; round++) {
        fresh();
        for (uint32_t row = 0; row < rows; row++) {
            uint64_t random = next_random(&seed);
            uint32_t id = make(OTHER_SLOT, 1000, (uint32_t)(random & 3));
            CHECK_EQ(row_of(&w.core, id), row);
            struct mpb_fetch_session *s = &w.core.fetch_sessions[row];
            s->flags = random >> 4 & 3;
            s->created_ms = 1000 + (random >> 8 & 3);
            s->used_ms = s->created_ms + (random >> 16 & 7);
            if ((random >> 24 & 7) == 0) /* in somebody's hands, with an id or without one yet */
                s->word = (random >> 32 & 1 ? s->word : 0) | (OTHER_SLOT + 1);
        }
        memcpy(before, w.core.fetch_sessions, rows * sizeof *before);
        uint64_t random = next_random(&seed), gone = counted(MPB_C_FETCH_SESSIONS_EVICTED);
        uint64_t refused = counted(MPB_C_FETCH_SESSIONS_REFUSED), made = counted(MPB_C_FETCH_SESSIONS_MADE);
        struct mpb_session_wish wish = {.now_ms = 1010 + (random & 3),
                                        .eviction_ms = 3 + (random >> 8 & 7),
                                        .flags = random >> 16 & 3,
                                        .topics = 1,
                                        .partitions = random >> 24 & 3};
        int wanted = victim(&wish);
        uint32_t row = 99, id = mpb_session_create(&w.core, SLOT, &wish, &row);
        CHECK_EQ(id != 0, wanted >= 0);
        CHECK_EQ(counted(MPB_C_FETCH_SESSIONS_EVICTED) - gone, wanted >= 0);
        CHECK_EQ(counted(MPB_C_FETCH_SESSIONS_MADE) - made, wanted >= 0);
        CHECK_EQ(counted(MPB_C_FETCH_SESSIONS_REFUSED) - refused, wanted < 0);
        for (uint32_t i = 0; i < rows; i++)
            CHECK((int)i == wanted || memcmp(&before[i], &w.core.fetch_sessions[i], sizeof *before) == 0);
        evictions += wanted >= 0;
        refusals += wanted < 0;
        if (wanted < 0)
            continue;
        const struct mpb_fetch_session *s = &w.core.fetch_sessions[row];
        CHECK_EQ(row, wanted);
        CHECK_EQ(s->word, (uint64_t)id << 32 | (SLOT + 1));
        CHECK(s->fill_number == 0 && s->epoch == 1 && s->flags == wish.flags && s->partitions == wish.partitions);
        CHECK(s->created_ms == wish.now_ms && s->used_ms == wish.now_ms && s->topics == 1);
        uint32_t units = 0, owned = 0;
        for (uint32_t i = 0; i < rows; i++)
            units += w.core.fetch_sessions[i].units;
        for (uint32_t i = 0; i < w.core.session_unit_count; i++)
            owned += mpb_load_relaxed(&w.core.session_owners[i]) != 0;
        CHECK_EQ(owned, units);
    }
    CHECK(evictions > 1000 && refusals > 1000);
}

/* The row stands in an id's low bits: of three rows, two bits, the last of which is no row's. */
static void test_ids(void)
{
    struct mpb_core core = w.core;
    uint32_t row;
    CHECK_EQ(core.fetch_session_count, 3);
    core.fetch_sessions = calloc(4, sizeof *core.fetch_sessions);
    for (uint32_t id = 0; id < 12; id++) {
        row = 99;
        core.fetch_sessions[id & 3].word = (uint64_t)id << 32;
        bool there = id != 0 && (id & 3) != 3;
        CHECK_EQ(mpb_session_hold(&core, SLOT, id, &row), there ? MPB_SESSION_HELD : MPB_SESSION_UNKNOWN);
        CHECK_EQ(row, there ? (id & 3) : 99);
        CHECK_EQ(core.fetch_sessions[id & 3].word, (uint64_t)id << 32 | (there ? SLOT + 1 : 0));
        CHECK(!there || mpb_session_hold(&core, SLOT, id + 4, &row) == MPB_SESSION_UNKNOWN);
        mpb_session_release(&core, id & 3);
        CHECK_EQ(core.fetch_sessions[id & 3].word, (uint64_t)id << 32);
    }
    free((void *)core.fetch_sessions);
}

int main(void)
{
    world_open(&w, &small_plan);
    test_who_makes_room();
    test_ids();
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
