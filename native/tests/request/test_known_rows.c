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

int main(void)
{
    world_open(&w, &small_plan);
    table = mpb_known_table(&w.core, MPB_KNOWN_MEMBERS);
    CHECK_EQ(table.count, 8);
    if (STEPPING)
        stepping_install();
    test_a_row_is_whole_or_not_there(0);
    test_a_row_is_whole_or_not_there(3);
    test_addresses();
    printf("known rows: looked at after %ld instructions\n", looked);
    return 0;
}
