/* Runs of units beside a model that looks at every unit singly: what is taken, marked, given back and refused, and which
 * pages go back to the kernel when. madvise is the test's own. test_units [steps] [seed] */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include "tests/stepping/check.h"
#include "shm/layout.h"
#include "shm/units.h"

enum { MOST_UNITS = 1100 };

static struct {
    bool used[MOST_UNITS];
    uint32_t count, touched;
    uint64_t high_ns;
} model;
static struct {
    uint8_t *at;
    size_t bytes;
    int calls, advice, result;
} punched;
static uint8_t part[1]; /* never looked at */

int madvise(void *at, size_t bytes, int advice)
{
    punched.at = at;
    punched.bytes = bytes;
    punched.advice = advice;
    punched.calls++;
    errno = ENOMEM;
    return punched.result;
}

static bool all_are(uint32_t first, uint32_t n, bool used)
{
    for (uint64_t i = first; i < (uint64_t)first + n; i++)
        if (i >= model.count || model.used[i] != used)
            return false;
    return n > 0;
}

static void set_all(uint32_t first, uint32_t n, bool used)
{
    for (uint32_t i = first; i < first + n; i++)
        model.used[i] = used;
    if (used && first + n > model.touched)
        model.touched = first + n;
}

static int64_t model_take(uint32_t n)
{
    for (uint32_t first = 0; n > 0 && first < model.count; first++)
        if (all_are(first, n, false)) {
            set_all(first, n, true);
            return first;
        }
    return -1;
}

/* Pages wholly above what is kept and what is in use, up to the highest that was written. */
static uint64_t model_punch(uint32_t unit_bytes, uint64_t keep_bytes, uint64_t now_ns, uint64_t idle_ns,
                            uint64_t *begin)
{
    uint64_t from = 0, kept = 0;
    while (kept * unit_bytes < keep_bytes)
        kept++;
    if (model.touched <= kept)
        return 0;
    from = kept;
    for (uint64_t i = kept; i < model.count; i++)
        if (model.used[i])
            from = i + 1;
    if (from > kept)
        model.high_ns = now_ns;
    if (now_ns - model.high_ns < idle_ns)
        return 0;
    while (from * unit_bytes % MPB_PAGE_BYTES != 0)
        from++;
    if (from >= model.touched)
        return 0;
    uint64_t end = (uint64_t)model.touched * unit_bytes;
    while (end % MPB_PAGE_BYTES != 0)
        end += unit_bytes < MPB_PAGE_BYTES ? unit_bytes : 1;
    while (end > (uint64_t)model.count * unit_bytes)
        end -= MPB_PAGE_BYTES;
    *begin = from * unit_bytes;
    if (end <= *begin)
        return 0;
    if (punched.result == 0)
        model.touched = (uint32_t)from;
    return end - *begin;
}

static void check_books(const struct mpb_units *units)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        used += model.used[i];
        CHECK_EQ(units->bits[i / 64] >> i % 64 & 1, model.used[i]);
        CHECK(model.used[i] || i >= units->first_free);
    }
    for (uint32_t i = model.count; i < (model.count / 64 + 1) * 64; i++)
        CHECK_EQ(units->bits[i / 64] >> i % 64 & 1, 0); /* no unit behind the last */
    CHECK_EQ(units->used, used);
    CHECK_EQ(units->touched, model.touched);
}

static uint32_t some_length(uint64_t dice)
{
    static const uint32_t LENGTHS[] = {0, 1, 1, 2, 3, 5, 31, 62, 63, 64, 65, 66, 127, 128, 129, 200, 500};
    return dice % 5 == 0 ? (uint32_t)(dice >> 8) % (model.count + 2)
                         : LENGTHS[(dice >> 8) % (sizeof LENGTHS / sizeof *LENGTHS)];
}

static void run(uint32_t count, uint32_t unit_bytes, uint64_t *seed, int steps)
{
    struct mpb_units units;
    memset(&units, 0x5a, sizeof units);
    bool fresh = next_random(seed) & 1;
    memset(&model, 0, sizeof model);
    model.count = count;
    model.touched = fresh ? 0 : count;
    CHECK_EQ(mpb_units_open(&units, (uint64_t)count * unit_bytes + unit_bytes - 1, unit_bytes, fresh), 0);
    CHECK_EQ(units.count, count);
    for (int step = 0; step < steps; step++) {
        uint64_t dice = next_random(seed), more = next_random(seed);
        uint32_t n = some_length(dice), first = (uint32_t)(more % (count + 2));
        if (dice >> 60 < 6) {
            bool can = all_are(first, n, true);
            CHECK_EQ(mpb_units_give(&units, first, n), can);
            if (can)
                set_all(first, n, false);
        } else if (dice >> 60 < 8) {
            bool can = all_are(first, n, false);
            CHECK_EQ(mpb_units_mark(&units, first, n), can);
            if (can)
                set_all(first, n, true);
        } else if (dice >> 60 < 14) {
            CHECK_EQ(mpb_units_take(&units, n), model_take(n));
        } else {
            static const uint64_t KEPT[] = {0, 1, 4096, 4097, 70000, 1 << 19};
            uint64_t keep = KEPT[more % 6], now_ns = 1000 + (uint64_t)step * 10, begin = 0;
            uint64_t idle_ns = (more >> 8) % 3 * 20;
            punched.calls = 0;
            punched.result = (more >> 16) % 8 == 0 ? -1 : 0;
            uint64_t bytes = model_punch(unit_bytes, keep, now_ns, idle_ns, &begin);
            CHECK_EQ(mpb_units_punch(&units, part, keep, now_ns, idle_ns), punched.result == 0 ? bytes : 0);
            CHECK_EQ(punched.calls, bytes > 0);
            CHECK(bytes == 0 || (punched.at == part + begin && punched.bytes == bytes));
            CHECK(bytes == 0 || punched.advice == MADV_REMOVE);
            CHECK_EQ(units.high_ns, model.high_ns);
        }
        check_books(&units);
    }
    mpb_units_clear(&units);
    set_all(0, count, false);
    check_books(&units);
    CHECK_EQ(mpb_units_take(&units, count + 1), -1);
    CHECK_EQ(mpb_units_take(&units, count), 0);
    mpb_units_close(&units);
    CHECK(units.bits == NULL);
}

static void test_units_for_bytes(void)
{
    static const struct {
        uint32_t unit;
        uint64_t bytes;
        uint32_t units;
    } ROWS[] = {{1024, 0, 0}, {1024, 1, 1}, {1024, 1024, 1}, {1024, 1025, 2}, {1024, 1ull << 33, 1 << 23}, {3, 7, 3}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_units units = {.unit_bytes = ROWS[i].unit};
        CHECK_EQ(mpb_units_for(&units, ROWS[i].bytes), ROWS[i].units);
    }
}

/* All of a part that is larger than the model is cleared, to its last unit. */
static void test_a_large_part_is_cleared(void)
{
    enum { COUNT = 200 * 64 + 1 };
    struct mpb_units units;
    CHECK_EQ(mpb_units_open(&units, COUNT * 1024, 1024, true), 0);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_EQ(mpb_units_take(&units, COUNT), 0);
        CHECK_EQ(mpb_units_take(&units, 1), -1);
        mpb_units_clear(&units);
    }
    CHECK_EQ(mpb_units_take(&units, COUNT), 0);
    mpb_units_close(&units);
}

/* The last unit in use ends what is given back, wherever it lies among words of 64 that are empty. */
static void test_the_last_unit_in_use(void)
{
    enum { COUNT = 4 * 64 };
    for (uint32_t last = 0; last < COUNT; last++) {
        struct mpb_units units;
        CHECK_EQ(mpb_units_open(&units, COUNT * MPB_PAGE_BYTES, MPB_PAGE_BYTES, false), 0);
        CHECK(mpb_units_mark(&units, last, 1));
        punched.calls = punched.result = 0;
        uint64_t bytes = (uint64_t)(COUNT - 1 - last) * MPB_PAGE_BYTES;
        CHECK_EQ(mpb_units_punch(&units, part, 0, 1, 0), bytes);
        CHECK(bytes == 0 || (punched.at == part + (size_t)(last + 1) * MPB_PAGE_BYTES && punched.bytes == bytes));
        mpb_units_close(&units);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t COUNTS[] = {1, 2, 63, 64, 65, 127, 128, 130, 400, 1000}, UNITS[] = {512, 1024, 4096, 8192};
    int steps = argc > 1 ? atoi(argv[1]) : 300;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    test_units_for_bytes();
    test_a_large_part_is_cleared();
    test_the_last_unit_in_use();
    for (size_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++)
        for (size_t u = 0; u < sizeof UNITS / sizeof *UNITS; u++)
            run(COUNTS[c], UNITS[u], &seed, steps);
    printf("units: %lu checks\n", checks_made);
    return 0;
}
