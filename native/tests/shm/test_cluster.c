/* Rows of what a broker was told of its cluster: which bytes a write touches, what is there while it is under way, and what
 * a reader gets that stands still anywhere while the row changes. */
#define _GNU_SOURCE
#include <string.h>
#include "tests/stepping/check.h"
#include "tests/stepping/stepping.h"
#include "shm/cluster.h"
#include "shm/inject.h"

enum { ROWS = 3, MARK = 0x5c };

static struct mpb_inject injects[MPB_INJECT_ROWS];
static struct mpb_assignment assignments[ROWS];
static struct mpb_broker brokers[ROWS];
static struct mpb_core core = {.injects = injects, .assignments = assignments, .brokers = brokers};

/* The kinds of rows, for tests of both. */
static const struct {
    size_t row_bytes, copies_at, copy_bytes;
    uint8_t *rows;
} KINDS[] = {
    {sizeof *assignments, offsetof(struct mpb_assignment, copy), sizeof(struct mpb_assignment_copy),
     (void *)assignments},
    {sizeof *brokers, offsetof(struct mpb_broker, copy), sizeof(struct mpb_broker_copy), (void *)brokers},
};

static void write_row(int kind, uint32_t row, const void *next)
{
    if (kind == 0)
        mpb_assignment_write(&core, row, next);
    else
        mpb_broker_write(&core, row, next);
}

static int read_row(int kind, uint32_t row, void *out)
{
    return kind == 0 ? mpb_assignment_read(&core, row, out) : mpb_broker_read(&core, row, out);
}

/* A write is a copy and a number; all else in the table stays as it was, and a read says what was written last. */
static void test_what_a_write_touches(void)
{
    static uint8_t before[sizeof brokers], next[sizeof(struct mpb_broker_copy)], out[sizeof next + 8];
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t turn = 0; turn < 9; turn++) {
            uint32_t row = turn % ROWS;
            size_t bytes = KINDS[kind].copy_bytes, all = ROWS * KINDS[kind].row_bytes;
            uint8_t *at = KINDS[kind].rows + row * KINDS[kind].row_bytes, *copies = at + KINDS[kind].copies_at;
            mpb_atomic64 *selector = (void *)at;
            memcpy(before, KINDS[kind].rows, all);
            for (size_t i = 0; i < bytes; i++)
                next[i] = (uint8_t)(i * 7 + turn + 1);
            uint64_t seen = mpb_load_relaxed(selector);
            write_row(kind, row, next);
            CHECK_EQ(mpb_load_relaxed(selector), seen + 1);
            CHECK(memcmp(copies + (seen + 1) % 2 * bytes, next, bytes) == 0);
            memset(out, MARK, sizeof out);
            CHECK_EQ(read_row(kind, row, out), 0);
            CHECK(memcmp(out, next, bytes) == 0 && out[bytes] == MARK);
            memcpy(copies + (seen + 1) % 2 * bytes, before + (copies - KINDS[kind].rows) + (seen + 1) % 2 * bytes,
                   bytes);
            mpb_store_relaxed(selector, seen);
            CHECK(memcmp(before, KINDS[kind].rows, all) == 0);
            write_row(kind, row, next);
        }
}

/* ------------------------------------------------------------------ at the same time */
static struct mpb_assignment_copy out, next;
static int answered;

static void fill(struct mpb_assignment_copy *copy, uint8_t mark) { memset(copy, mark, sizeof *copy); }

static bool is_whole(const struct mpb_assignment_copy *copy, uint8_t mark)
{
    struct mpb_assignment_copy expected;
    fill(&expected, mark);
    return memcmp(copy, &expected, sizeof expected) == 0;
}

static void write_next(void *unused) { (void)unused, mpb_assignment_write(&core, 1, &next); }
static void read_late(void *unused) { (void)unused, answered = mpb_assignment_read(&core, 1, &out); }

/* A writer that ended at any instruction has changed the row, or not. */
static void test_a_write_that_stands_still(void)
{
    static struct frozen frozen;
    for (long at = 1; STEPPING; at++) {
        struct mpb_assignment_copy seen;
        memset((void *)&assignments[1], 0, sizeof assignments[1]);
        fill(&next, 3);
        mpb_assignment_write(&core, 1, &next);
        fill(&next, 4);
        freeze_at(&frozen, write_next, NULL, at);
        bool ended = frozen.ended;
        uint64_t selector = mpb_load_relaxed(&assignments[1].selector);
        CHECK_EQ(mpb_assignment_read(&core, 1, &seen), 0);
        CHECK(selector == 2 ? is_whole(&seen, 4) : selector == 1 && is_whole(&seen, 3));
        thaw(&frozen);
        CHECK_EQ(mpb_load_relaxed(&assignments[1].selector), 2);
        if (ended)
            break;
    }
}

/* A reader that stands still while the row changes, once or as often as its copy is written over, gets one that was whole. */
static void test_a_read_that_stands_still(void)
{
    static struct frozen frozen;
    for (int writes = 1; writes <= 3; writes++) {
        trail_forget(&frozen.trail);
        for (long at = 1; STEPPING; at++) {
            memset((void *)&assignments[1], 0, sizeof assignments[1]);
            fill(&next, 10);
            mpb_assignment_write(&core, 1, &next);
            fill(&out, 99);
            freeze_at(&frozen, read_late, NULL, at);
            bool ended = frozen.ended;
            for (int i = 1; i <= writes; i++) {
                fill(&next, (uint8_t)(10 + i));
                mpb_assignment_write(&core, 1, &next);
            }
            thaw(&frozen);
            CHECK_EQ(answered, 0);
            CHECK(is_whole(&out, out.topic_id[0]));
            CHECK(out.topic_id[0] == 10 || (out.topic_id[0] == 10 + writes && !ended));
            if (ended)
                break;
        }
    }
}

int main(void)
{
    test_what_a_write_touches();
    stepping_install();
    test_a_write_that_stands_still();
    test_a_read_that_stands_still();
    printf("cluster rows: %lu checks\n", checks_made);
    return 0;
}
