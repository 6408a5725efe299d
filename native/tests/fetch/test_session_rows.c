/* Rows and units of the table of fetch sessions one by one: which run of units is taken and what is given back, when a session
 * grows in place, what a refusal leaves, what an id is made of, and what a successor finds. */
#include "fetch/session_table.h"
#include "shm/counters.h"
#include "tests/shm/shm_world.h"
#include <sys/random.h>
#include <time.h>

enum { SLOT = 50, OTHER = 51, ROWS = 3, UNITS = 16 };

static struct world w;
static uint32_t next_random_word;
static bool no_random;

/* Chance is what the test says, or there is none. */
ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
    CHECK(length == 4 && flags == GRND_NONBLOCK);
    if (no_random)
        return -1;
    memcpy(bytes, &next_random_word, 4);
    return 4;
}

time_t time(time_t *out)
{
    CHECK(out == NULL);
    return 1700000000;
}

static uint64_t counted(uint32_t counter) { return mpb_load_relaxed(&w.core.counters[SLOT].value[counter]); }

/* Units of `map` are somebody's whose character is no dot: row 0 is 'a'. */
static void fresh(const char *map)
{
    memset((void *)w.core.fetch_sessions, 0, (ROWS + 1) * sizeof *w.core.fetch_sessions);
    for (uint32_t i = 0; i < UNITS; i++)
        mpb_store_relaxed(&w.core.session_owners[i], map[i] == '.' ? 0 : 1 + (uint32_t)(map[i] - 'a'));
}

static void check_units(const char *map)
{
    for (uint32_t i = 0; i < UNITS; i++)
        CHECK_EQ(mpb_load_relaxed(&w.core.session_owners[i]), map[i] == '.' ? 0 : 1 + map[i] - 'a');
}

/* So many partitions and one topic take so many bytes. */
static uint32_t partitions_of(uint32_t bytes) { return (bytes - 272) / 64; }

/* ------------------------------------------------------------------ units */
/* The lowest run that is long enough; of an eighth of all units at most. */
static void test_which_units_are_taken(void)
{
    static const struct {
        const char *before, *after; /* row 0 is 'a' */
        uint32_t units;
        bool taken;
    } TABLE[] = {
        {"................", "a...............", 1, true},  {"................", "aa..............", 2, true},
        {"b...............", "ba..............", 1, true},  {".b..............", ".baa............", 2, true},
        {"bb.b............", "bb.baa..........", 2, true},  {"b.b.b.b.b.b.b.aa", "bab.b.b.b.b.b.aa", 1, true},
        {"b.b.b.b.b.b.b...", "b.b.b.b.b.b.baa.", 2, true},  {"bbbbbbbbbbbbbb..", "bbbbbbbbbbbbbbaa", 2, true},
        {"bbbbbbbbbbbbbbb.", "bbbbbbbbbbbbbbba", 1, true},  {"bbbbbbbbbbbbbbb.", "bbbbbbbbbbbbbbb.", 2, false},
        {"bbbbbbbbbbbbbbbb", "bbbbbbbbbbbbbbbb", 1, false}, {"................", "................", 3, false},
        {".bb.b.bb..bb....", ".bb.b.bbaabb....", 2, true},
    };
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        fresh(TABLE[i].before);
        uint32_t most = partitions_of(TABLE[i].units * MPB_SESSION_UNIT_BYTES);
        CHECK_EQ(mpb_session_resize(&w.core, 0, 1, most), TABLE[i].taken);
        check_units(TABLE[i].after);
        const struct mpb_fetch_session *session = &w.core.fetch_sessions[0];
        CHECK_EQ(session->units, TABLE[i].taken ? TABLE[i].units : 0);
        CHECK_EQ(session->partitions, TABLE[i].taken ? most : 0);
        CHECK_EQ(session->topics, TABLE[i].taken);
    }
}

/* It moves when it needs more, or less than half of what it has; nothing needs nothing. */
static void test_when_it_moves(void)
{
    static const struct {
        uint32_t has, topics, partitions;
        const char *after;
    } TABLE[] = {
        {2, 0, 17, ".....aa........."}, /* 1,088 bytes: two units */
        {2, 0, 16, ".....aa........."}, /* one, which is half of two */
        {2, 0, 0, "................"},  {4, 0, 17, ".....aaaa......."}, {4, 0, 16, "a..............."},
        {5, 0, 17, ".....aaaaa......"}, {6, 0, 17, "aa.............."}, {1, 0, 16, ".....a.........."},
        {1, 0, 17, "aa.............."}, {0, 0, 0, "................"},  {0, 0, 1, "a..............."},
        {1, 0, 15, ".....a.........."},
    };
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        fresh("................");
        struct mpb_fetch_session *session = &w.core.fetch_sessions[0];
        session->first_unit = 5;
        session->units = TABLE[i].has;
        for (uint32_t u = 0; u < TABLE[i].has; u++)
            mpb_store_relaxed(&w.core.session_owners[5 + u], 1);
        CHECK(mpb_session_resize(&w.core, 0, TABLE[i].topics, TABLE[i].partitions));
        check_units(TABLE[i].after);
        CHECK(session->topics == TABLE[i].topics && session->partitions == TABLE[i].partitions);
        for (uint32_t u = 0; u < session->units; u++)
            CHECK_EQ(mpb_load_relaxed(&w.core.session_owners[session->first_unit + u]), 1);
    }
}

/* Only what is the row's is given back, and the row has nothing then. */
static void test_what_is_given_back(void)
{
    fresh("aabbaa..........");
    struct mpb_fetch_session *session = &w.core.fetch_sessions[0];
    session->word = 7ull << 32 | (SLOT + 1);
    session->first_unit = 1;
    session->units = 4;
    mpb_session_drop(&w.core, 0);
    check_units("a.bb.a..........");
    CHECK(session->units == 0 && session->word == 0);
    fresh("aabbaa..........");
    for (uint32_t row = 0; row <= ROWS; row++) { /* the last of them is behind the table */
        w.core.fetch_sessions[row].word = 9ull << 32 | (row == 1 ? OTHER + 1 : SLOT + 1);
        w.core.fetch_sessions[row].units = 2;
    }
    CHECK_EQ(mpb_session_recover(&w.core, SLOT), 2);
    check_units("..bb............");
    for (uint32_t row = 0; row <= ROWS; row++) {
        CHECK_EQ(w.core.fetch_sessions[row].word == 0, row == 0 || row == 2);
        CHECK_EQ(w.core.fetch_sessions[row].units, row == 0 || row == 2 ? 0 : 2);
    }
}

/* ------------------------------------------------------------------ new ones */
/* A refusal leaves the row free, and what it had in it before is not believed. */
static void test_what_a_refusal_leaves(void)
{
    struct mpb_session_wish wish = {.now_ms = 5, .eviction_ms = 1000, .topics = 1, .partitions = 100};
    uint32_t row;
    fresh("................");
    w.core.fetch_sessions[0].units = 3; /* of a repair that was killed */
    uint64_t refused = counted(MPB_C_FETCH_SESSIONS_REFUSED), made = counted(MPB_C_FETCH_SESSIONS_MADE);
    CHECK_EQ(mpb_session_create(&w.core, SLOT, &wish, &row), 0);
    CHECK(counted(MPB_C_FETCH_SESSIONS_REFUSED) == refused + 1 && counted(MPB_C_FETCH_SESSIONS_MADE) == made);
    CHECK(w.core.fetch_sessions[0].word == 0 && w.core.fetch_sessions[0].units == 0);
    w.core.fetch_sessions[0].units = 3;
    wish.partitions = 1;
    CHECK(mpb_session_create(&w.core, SLOT, &wish, &row) != 0 && row == 0);
    check_units("a...............");
    CHECK_EQ(w.core.fetch_sessions[0].units, 1);
}

/* The row in the low bits, chance above them: never 0, never below 0 as the protocol reads it. */
static void test_what_an_id_is_made_of(void)
{
    static const struct {
        uint32_t chance, id; /* of row 0 */
    } TABLE[] = {{0x12345678, 0x12345678},
                 {0x1234567b, 0x12345678},
                 {0xffffffff, 0x7ffffffc},
                 {0x80000000, 1u << 30},
                 {3, 1u << 30},
                 {4, 4}};
    struct mpb_session_wish wish = {.now_ms = 5, .eviction_ms = 1000, .topics = 1, .partitions = 1};
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        uint32_t row;
        fresh("................");
        next_random_word = TABLE[i].chance;
        CHECK_EQ(mpb_session_create(&w.core, SLOT, &wish, &row), TABLE[i].id);
        CHECK_EQ(mpb_session_create(&w.core, SLOT, &wish, &row), TABLE[i].id | 1);
        CHECK_EQ(w.core.fetch_sessions[1].word, (uint64_t)(TABLE[i].id | 1) << 32 | (SLOT + 1));
    }
    uint32_t row;
    fresh("................");
    no_random = true;
    CHECK_EQ(mpb_session_create(&w.core, SLOT, &wish, &row), 0x02f2a100); /* without chance by the time */
    no_random = false;
}

/* A session with Kafka's lowest id is one like others; who held it lets go of it as it was. */
static void test_low_ids(void)
{
    uint32_t row = 99;
    fresh("................");
    w.core.fetch_sessions[1].word = 1ull << 32; /* id 1 lies in row 1 */
    CHECK_EQ(mpb_session_hold(&w.core, SLOT, 1, &row), MPB_SESSION_HELD);
    CHECK(row == 1 && w.core.fetch_sessions[1].word == (1ull << 32 | (SLOT + 1)));
    mpb_session_release(&w.core, 1);
    CHECK_EQ(w.core.fetch_sessions[1].word, 1ull << 32);
    struct mpb_session_wish wish = {.now_ms = 5000, .eviction_ms = 10, .topics = 1, .partitions = 1};
    w.core.fetch_sessions[0].word = w.core.fetch_sessions[2].word = OTHER + 1; /* others are being made */
    w.core.fetch_sessions[ROWS].word = 3ull << 32;                             /* behind the table */
    CHECK(mpb_session_create(&w.core, SLOT, &wish, &row) != 0 && row == 1);    /* nobody used it for long */
    fresh("................");
    w.core.fetch_sessions[1].word = 1ull << 32;
    w.core.fetch_sessions[1].created_ms = 4000;
    w.core.fetch_sessions[1].used_ms = 4995;
    w.core.fetch_sessions[0].word = w.core.fetch_sessions[2].word = OTHER + 1;
    w.core.fetch_sessions[ROWS].word = 3ull << 32;
    CHECK(mpb_session_create(&w.core, SLOT, &wish, &row) != 0 && row == 1); /* worth less: it has no partitions */
}

int main(void)
{
    world_open(&w, &small_plan);
    test_which_units_are_taken();
    test_when_it_moves();
    test_what_is_given_back();
    test_what_a_refusal_leaves();
    test_what_an_id_is_made_of();
    test_low_ids();
    world_close(&w);
    printf("session rows: %lu checks\n", checks_made);
    return 0;
}
