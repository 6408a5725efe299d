/* What a reader without the lock gets of a partition's state that changes while it reads (append rules 13 and 19). */
#define _GNU_SOURCE
#include <string.h>
#include "log/partition_row.h"
#include "tests/stepping/check.h"
#include "tests/stepping/stepping.h"

/* Marks are even, so that a truncation count made of them is. */
enum { FIRST = 10, APART = 2, UNTOUCHED = 99 };

static struct mpb_inject injects[MPB_INJECT_ROWS];
static struct mpb_core core = {.injects = injects};
static struct mpb_partition row;
static struct mpb_partition_copy out;
static bool answered;
static uint8_t last; /* mark of the copy in force */

static void change(uint8_t mark)
{
    struct mpb_partition_copy next;
    memset(&next, mark, sizeof next);
    mpb_partition_write_idle(&core, &row, &next);
    mpb_partition_commit(&row);
    last = mark;
}

static void change_again(void *unused) { (void)unused, change((uint8_t)(last + APART)); }

static void begin(uint8_t mark)
{
    memset((void *)&row, 0, sizeof row);
    memset(&out, UNTOUCHED, sizeof out);
    change(mark);
}

static void read_now(void *unused) { (void)unused, answered = mpb_partition_try_snapshot(&row, &out); }

/* The mark of every byte, or none. */
static uint8_t mark_of_all(void)
{
    const uint8_t *bytes = (const uint8_t *)&out;
    return memcmp(bytes, bytes + 1, sizeof out - 1) == 0 ? bytes[0] : 0;
}

/* Once, or as often as the copy that is read is written over. */
static void test_a_reader_that_stands_still(void)
{
    static struct frozen frozen;
    for (int changes = 1; changes <= 3; changes++) {
        trail_forget(&frozen.trail);
        bool ended = false, late = false;
        for (long at = 1; STEPPING && !ended; at++) {
            begin(FIRST);
            freeze_at(&frozen, read_now, NULL, at);
            ended = frozen.ended;
            for (int i = 0; i < changes; i++)
                change_again(NULL);
            thaw(&frozen);
            CHECK(answered);
            CHECK(mark_of_all() == FIRST || (mark_of_all() == last && !ended));
            late |= mark_of_all() == last;
        }
        CHECK(late || !STEPPING);
    }
}

/* A reader that always meets a change gives up, and does not say that it has something. */
static void test_a_reader_that_is_always_overtaken(void)
{
    answered = true;
    begin(FIRST);
    CHECK(!step_each(read_now, NULL, 1, -1, 1, change_again, NULL));
    CHECK_EQ(answered, !STEPPING);
}

/* An odd truncation count: the files are being changed, and the state alone does not say which they are. */
static void test_a_swap_under_way(void)
{
    begin(FIRST + 1);
    read_now(NULL);
    CHECK(!answered);
    CHECK(mpb_partition_peek(&row, &out) &&
          mark_of_all() == FIRST + 1); /* who reads no files may know what it will be */
    change(FIRST);
    read_now(NULL);
    CHECK(answered && mark_of_all() == FIRST);
}

int main(void)
{
    stepping_install();
    test_a_swap_under_way();
    test_a_reader_that_stands_still();
    test_a_reader_that_is_always_overtaken();
    printf("snapshot: %lu checks\n", checks_made);
    return 0;
}
