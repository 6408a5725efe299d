#define _GNU_SOURCE
/* What the coordinator must not forget: killed after every instruction of a change, a row is as before or as after; the
 * address of a connection is nobody else's. */
#include "tests/shm/shm_world.h"
#include "request/known_rows.h"
#include "tests/stepping/stepping.h"

static struct world w;
static struct mpb_known_table table;
static const uint8_t OLD[16] = "an older group..", NEW[16] = "a newer group...";
static long looked;

static void check_row(void *cookie)
{
    uint64_t before = *(const uint64_t *)cookie, word = mpb_known_word(&table, 1);
    looked++;
    CHECK(word == before || word == 7);
    if (word == 7) { /* whole, and a successor's scan finds it */
        CHECK(memcmp(table.rows[1].key, before == 0 ? NEW : OLD, 16) == 0);
        CHECK(mpb_load_acquire(table.high) == 2);
    }
}

static void do_put(void *cookie) { mpb_known_put(&table, 1, *(const uint64_t *)cookie == 0 ? NEW : OLD, 7); }

static void test_a_row_is_whole_or_not_there(uint64_t before)
{
    long begin = looked;
    mpb_store_relaxed(table.high, 0);
    memset(table.rows, 0, 8 * sizeof *table.rows);
    if (before != 0)
        mpb_known_put(&table, 1, OLD, before);
    if (STEPPING)
        step_each(do_put, &before, 1, 10000, 1, check_row, &before);
    else
        do_put(&before);
    check_row(&before);
    CHECK_EQ(mpb_known_word(&table, 1), 7);
    CHECK(looked - begin > (STEPPING ? 5 : 0));
    mpb_known_drop(&table, 1);
    CHECK_EQ(mpb_known_word(&table, 1), 0);
}

/* Groups and members have a table each; a put reaches neither the other one nor the rows beside, and raises what a
 * successor scans to just behind the row. */
static void test_two_tables(void)
{
    struct mpb_known_table groups = mpb_known_table(&w.core, MPB_KNOWN_GROUPS);
    CHECK(groups.rows == w.core.groups && table.rows == w.core.members);
    CHECK(groups.count == w.core.group_count && groups.high == &w.core.header->groups_high);
    for (uint32_t row = 0; row < 3; row++) {
        mpb_known_put(&groups, row, OLD, 5 + row);
        CHECK_EQ(mpb_load_relaxed(groups.high), row + 1);
    }
    mpb_known_put(&groups, 1, NEW, 9);
    CHECK_EQ(mpb_load_relaxed(groups.high), 3);
    CHECK(mpb_known_word(&groups, 0) == 5 && mpb_known_word(&groups, 1) == 9 && mpb_known_word(&groups, 2) == 7);
    CHECK_EQ(mpb_known_word(&table, 1), 0);
}

static void test_addresses(void)
{
    uint8_t address[16];
    mpb_address_put(&w.core, 1, 5, 9, OLD);
    CHECK(mpb_address_of(&w.core, 1, 5, 9, address) && memcmp(address, OLD, 16) == 0);
    CHECK(!mpb_address_of(&w.core, 1, 5, 8, address)); /* the connection before */
    CHECK(!mpb_address_of(&w.core, 0, 5, 9, address)); /* another processor's */
    mpb_address_put(&w.core, 1, 5, 10, NEW);
    CHECK(!mpb_address_of(&w.core, 1, 5, 9, address));
    mpb_address_put(&w.core, 1, MPB_ADDRESS_ROWS, 1, NEW); /* more connections than rows: not known */
    CHECK(!mpb_address_of(&w.core, 1, MPB_ADDRESS_ROWS, 1, address));
}

static long half_written;

static void check_address(void *cookie)
{
    uint8_t address[16];
    (void)cookie;
    looked++;
    half_written += mpb_load_relaxed(&w.core.addresses[MPB_ADDRESS_ROWS + 7].generation) == 0;
    for (uint32_t generation = 0; generation < 12; generation++)
        if (mpb_address_of(&w.core, 1, 7, generation, address)) {
            CHECK(generation == 0 || generation == 1);
            CHECK(memcmp(address, generation == 0 ? OLD : NEW, 16) == 0);
        }
}

static void do_address(void *cookie)
{
    (void)cookie;
    mpb_address_put(&w.core, 1, 7, 1, NEW);
}

/* Killed in between, it is known of neither: not of the first connection, whose generation is 0. */
static void test_an_address_is_whole_or_nobodys(void)
{
    mpb_address_put(&w.core, 1, 7, 0, OLD);
    if (STEPPING)
        step_each(do_address, NULL, 1, 10000, 1, check_address, NULL);
    else
        do_address(NULL);
    check_address(NULL);
    CHECK(half_written > 0 || !STEPPING);
}

int main(void)
{
    world_open(&w, &small_plan);
    table = mpb_known_table(&w.core, MPB_KNOWN_MEMBERS);
    CHECK_EQ(table.count, 8);
    if (STEPPING)
        stepping_install();
    test_a_row_is_whole_or_not_there(0);
    test_a_row_is_whole_or_not_there(3);
    test_two_tables();
    test_addresses();
    test_an_address_is_whole_or_nobodys();
    printf("known rows: looked at after %ld instructions\n", looked);
    return 0;
}
