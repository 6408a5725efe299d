/* Disciplines value by value: the class and the deadline of each request (docs/operations.md), what is learned where, which
 * rings are looked into, and what fair shares are left after each take. */
#include "request/discipline.h"
#include "tests/shm/shm_world.h"

enum { OWNER = 77, Q = MPB_QUANTUM_NS };

static struct world w;

static void fresh(uint32_t classes)
{
    world_reset(&w);
    mpb_store_relaxed(&w.core.header->plane_classes[MPB_PLANE_DATA], classes);
}

/* An entry that waits in a ring of the data plane; stale: it was taken, and its hint is still there. */
static void wait_in(uint32_t entry, uint32_t ring_class, uint64_t due_ns, bool stale)
{
    struct mpb_ring ring = mpb_ring_view(&w.core, mpb_plane_ring(MPB_PLANE_DATA, ring_class));
    mpb_store_relaxed(&w.core.entries[entry].state, mpb_state_word(1, stale ? MPB_E_CLAIMED : MPB_E_QUEUED, 5));
    mpb_store_relaxed(&w.core.entries[entry].due_ns, due_ns);
    CHECK_EQ(mpb_ring_push(&ring, mpb_hint(entry, 1)), 0);
}

/* ------------------------------------------------------------------ classes */
static void test_deadlines(void)
{
    static const struct {
        int16_t key;
        uint32_t bytes, told;
    } ROWS[] = {{0, 16383, 3}, {0, 16384, 4}, {0, 16385, 4}, {1, 100, 5},  {8, 100, 2}, {11, 100, 2}, {12, 100, 2},
                {13, 100, 2},  {14, 100, 2},  {68, 100, 2},  {76, 100, 2}, {4, 100, 1}, {5, 100, 1},  {6, 100, 1},
                {7, 100, 1},   {56, 100, 1},  {67, 100, 1},  {3, 100, 0},  {9, 100, 0}, {-1, 100, 0}, {69, 100, 0}};
    static const uint64_t MAY_WAIT_MS[] = {100, 2, 10, 20, 50, 50};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_entry entry = {.api_key = ROWS[i].key, .payload_length = ROWS[i].bytes};
        CHECK_EQ(mpb_class_of(MPB_DEADLINE, &entry, 1, 5000, NULL), ROWS[i].told);
        CHECK_EQ(mpb_load_relaxed(&entry.due_ns), 5000 + MAY_WAIT_MS[ROWS[i].told] * 1000000);
    }
}

/* Sizes: below 256 bytes, 1 KiB and so on, and all that is larger; of the APIs that there is room for. */
static void test_what_is_learned_where(void)
{
    static struct {
        struct mpb_expected expected;
        uint32_t behind[MPB_LEARNED_SIZES];
    } table;
    static const struct {
        uint32_t bytes, size;
    } ROWS[] = {{0, 0},    {255, 0},           {256, 1},     {1023, 1},    {1024, 2},    {4095, 2},
                {4096, 3}, {(1 << 20) - 1, 6}, {1 << 20, 7}, {1 << 22, 7}, {1 << 24, 7}, {UINT32_MAX, 7}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int16_t key = -1; key <= MPB_LEARNED_APIS; key++) {
            struct mpb_entry entry = {.api_key = key, .payload_length = ROWS[i].bytes, .service_ns = 800};
            memset(&table, 0, sizeof table);
            mpb_expected_learn(&table.expected, &entry);
            for (int k = 0; k < MPB_LEARNED_APIS; k++)
                for (uint32_t size = 0; size < MPB_LEARNED_SIZES; size++)
                    CHECK_EQ(table.expected.ns[k][size], k == key && size == ROWS[i].size ? 800 : 0);
            for (uint32_t size = 0; size < MPB_LEARNED_SIZES; size++)
                CHECK_EQ(table.behind[size], 0);
        }
}

/* ------------------------------------------------------------------ taking */
/* What was put back goes first, under every discipline, be it entry 0; then the rings that were ever in use, no others. */
static void test_which_rings(void)
{
    for (uint32_t discipline = 0; discipline < MPB_DISCIPLINES; discipline++)
        for (uint32_t classes = 1; classes < MPB_CLASSES; classes++)
            for (uint32_t ring_class = 0; ring_class < MPB_CLASSES; ring_class++) {
                struct mpb_chooser chooser = {.discipline = discipline};
                fresh(classes);
                wait_in(1, ring_class, 9, false);
                wait_in(0, MPB_CLASS_REQUEUED, 9, false);
                CHECK_EQ(mpb_discipline_take(&w.core, &chooser, OWNER), 0);
                CHECK_EQ(mpb_load_relaxed(&w.core.entries[0].state), mpb_state_word(1, MPB_E_CLAIMED, OWNER));
                CHECK_EQ(mpb_discipline_take(&w.core, &chooser, OWNER), ring_class < classes ? 1 : -1);
                CHECK_EQ(mpb_discipline_take(&w.core, &chooser, OWNER), -1);
                CHECK_EQ(state_of(&w, 1), ring_class < classes ? MPB_E_CLAIMED : MPB_E_QUEUED);
            }
}

/* The heads in the order of their deadlines; one that somebody else took meanwhile leaves its turn to the next. */
static void test_the_earliest(void)
{
    static const uint32_t ORDERS[][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
    for (size_t o = 0; o < sizeof ORDERS / sizeof *ORDERS; o++)
        for (uint32_t stale = 0; stale < 8; stale++) {
            struct mpb_chooser chooser = {.discipline = MPB_DEADLINE};
            int64_t wanted = -1;
            fresh(6);
            for (uint32_t i = 0; i < 3; i++)
                wait_in(i, 2 * i, ORDERS[o][i], stale >> i & 1);
            for (uint32_t i = 0; i < 3; i++)
                if ((stale >> i & 1) == 0 && (wanted < 0 || ORDERS[o][i] < ORDERS[o][wanted]))
                    wanted = i;
            CHECK_EQ(mpb_discipline_take(&w.core, &chooser, OWNER), wanted);
        }
}

/* Every MPB_SHARE-th request is of the next class that waits; what finds nothing does not count, what takes entry 0 does. */
static void test_shares_of_the_last(void)
{
    static const uint32_t STRICT[] = {MPB_PRIORITY, MPB_SHORTEST};
    const uint32_t last = 2 * MPB_SHARE;
    for (size_t d = 0; d < sizeof STRICT / sizeof *STRICT; d++)
        for (uint32_t without = 0; without < 3; without++) {
            struct mpb_chooser chooser = {.discipline = STRICT[d]};
            fresh(6);
            for (uint32_t i = 0; i < without; i++)
                CHECK_EQ(mpb_discipline_take(&w.core, &chooser, OWNER), -1);
            wait_in(1, 5, 9, false);
            for (uint32_t i = 0; i < last; i++) {
                wait_in(0, 1, 9, false);
                CHECK_EQ(mpb_discipline_take(&w.core, &chooser, OWNER), i == last - 1 ? 1 : 0);
            }
            CHECK_EQ(mpb_discipline_take(&w.core, &chooser, OWNER), 0);
        }
}

/* ------------------------------------------------------------------ fair shares */
struct fair {
    struct mpb_chooser chooser;
    int64_t behind;
};

/* As many rounds as it takes until a class that waits has something to spend; debts are paid meanwhile by all, but who does
 * not wait saves nothing; and whoever has something to spend is served before. */
static void test_rounds(void)
{
    static const struct {
        int64_t before[3], after[3];
        uint32_t waits; /* mask */
        uint32_t turn, taken;
    } ROWS[] = {
        {{0, 0, 0}, {Q, 0, 0}, 1, 0, 0},
        {{0, 0, 0}, {0, Q, 0}, 2, 0, 1},
        {{-1, 0, 0}, {Q - 1, 0, 0}, 1, 0, 0},
        {{1 - Q, 0, 0}, {1, 0, 0}, 1, 0, 0},
        {{-Q, 0, 0}, {Q, 0, 0}, 1, 0, 0}, /* two rounds */
        {{-Q - 1, -5 * Q, 1 - 2 * Q}, {Q - 1, -3 * Q, 0}, 1, 0, 0},
        {{-3 * Q, -Q, 0}, {-Q, Q, 0}, 3, 0, 1}, /* the one with the smaller debt */
        {{-Q, -3 * Q, 0}, {Q, -Q, 0}, 3, 0, 0},
        {{1, 0, 0}, {1, 0, 0}, 1, 0, 0}, /* no round: it has something left */
        {{1, 5, 0}, {1, 5, 0}, 3, 1, 1}, /* whose turn it is */
        {{1, 5, 9}, {1, 5, 0}, 3, 2, 0}, /* a turn of who does not wait is over */
        {{5, 0, 0}, {0, Q, 0}, 2, 0, 1},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct fair f = {.chooser = {.discipline = MPB_FAIR, .turn = ROWS[i].turn}, .behind = 4711};
        fresh(3);
        for (uint32_t c = 0; c < 3; c++) {
            f.chooser.deficit_ns[c] = ROWS[i].before[c];
            if (ROWS[i].waits >> c & 1)
                wait_in(c, c, 9, false);
        }
        f.chooser.deficit_ns[3] = 99;
        CHECK_EQ(mpb_discipline_take(&w.core, &f.chooser, OWNER), ROWS[i].taken);
        CHECK_EQ(f.chooser.turn, ROWS[i].taken);
        for (uint32_t c = 0; c < 3; c++)
            CHECK_EQ(f.chooser.deficit_ns[c], ROWS[i].after[c]);
        CHECK(f.chooser.deficit_ns[3] == 99 && f.behind == 4711);
    }
    struct fair f = {.chooser = {.discipline = MPB_FAIR, .deficit_ns = {5, -5, 0}}};
    fresh(3);
    CHECK_EQ(mpb_discipline_take(&w.core, &f.chooser, OWNER), -1); /* nobody waits: no round */
    CHECK(f.chooser.deficit_ns[0] == 0 && f.chooser.deficit_ns[1] == -5);
}

static void test_charges(void)
{
    for (uint32_t ring_class = 0; ring_class < MPB_CLASSES + 2; ring_class++) {
        struct fair f = {.behind = 4711};
        mpb_discipline_charge(&f.chooser, ring_class, 30);
        for (uint32_t c = 0; c < MPB_CLASSES; c++)
            CHECK_EQ(f.chooser.deficit_ns[c], c == ring_class ? -30 : 0);
        CHECK_EQ(f.behind, 4711);
    }
}

int main(void)
{
    world_open(&w, &small_plan);
    test_deadlines();
    test_what_is_learned_where();
    test_which_rings();
    test_the_earliest();
    test_shares_of_the_last();
    test_rounds();
    test_charges();
    world_close(&w);
    printf("discipline values: %lu checks\n", checks_made);
    return 0;
}
