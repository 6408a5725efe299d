/* Parts of the arena that are larger than what is kept: what goes back to the kernel and when, how much an answer may take,
 * what is found free in a pinch, and a part that cannot be opened. madvise and the allocator are the test's. */
#include "tests/shm/counted_frees.h"
#include "tests/shm/shm_world.h"

enum { MEBIBYTE = 1 << 20, HANDLER_UNITS = 12 * MEBIBYTE / MPB_UNIT_BYTES };

static const struct world_plan plan = {2, 4, 0, 6, 4, 2, 2, 20 * MEBIBYTE, 12 * MEBIBYTE};
static struct world w;
static struct mpb_extents extents;
static struct {
    uint8_t *at;
    size_t bytes;
    int calls;
} punched;
static int allocations, refused_at; /* refused_at 0: none is */

int madvise(void *at, size_t bytes, int advice)
{
    CHECK_EQ(advice, MADV_REMOVE);
    punched.at = at;
    punched.bytes = bytes;
    punched.calls++;
    return 0;
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

void *malloc(size_t bytes) { return ++allocations == refused_at ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return ++allocations == refused_at ? NULL : __libc_calloc(count, bytes); }
#endif

static mpb_atomic64 *words(void) { return w.core.extents + extents.handler * MPB_EXTENTS_PER_HANDLER; }

static void open_handler(uint32_t handler, uint32_t incarnation)
{
    world_reset(&w);
    mpb_store_release(&w.core.processes[mpb_handler_slot(&w.core, handler)].incarnation, incarnation);
    CHECK_EQ(mpb_extents_open(&extents, &w.core, handler), 0);
    punched.calls = 0;
}

/* ------------------------------------------------------------------ back to the kernel */
/* What lies above the memory that is kept goes back after five seconds in which nobody used it. */
static void test_a_processor_that_is_idle(void)
{
    enum { PART = 20 * MEBIBYTE, KEPT = 16 * MEBIBYTE };
    for (uint32_t p = 0; p < 2; p++) {
        struct mpb_arena arena;
        const uint8_t *part = w.core.arena + (size_t)p * PART;
        world_reset(&w);
        mpb_store_release(&w.core.processes[MPB_SLOT_PROCESSORS + p].incarnation, 2);
        CHECK_EQ(mpb_arena_open(&arena, &w.core, p), 0);
        punched.calls = 0;
        int64_t taken = mpb_arena_take(&arena, KEPT + MEBIBYTE);
        CHECK_EQ(taken, p * PART);
        CHECK_EQ(mpb_arena_idle(&arena, 100), 0); /* in use above what is kept */
        CHECK(mpb_arena_give(&arena, (uint64_t)taken, KEPT + MEBIBYTE));
        CHECK_EQ(mpb_arena_idle(&arena, 100 + 4999999999), 0);
        CHECK_EQ(punched.calls, 0);
        CHECK_EQ(mpb_arena_idle(&arena, 100 + 5000000000), PART - KEPT);
        CHECK(punched.calls == 1 && punched.at == part + KEPT && punched.bytes == PART - KEPT);
        CHECK_EQ(mpb_arena_idle(&arena, 100 + 9000000000), 0); /* it is the kernel's */
        CHECK_EQ(punched.calls, 1);
        mpb_arena_close(&arena);
    }
}

/* A handler's as well; answers that were sent meanwhile are looked for first. */
static void test_a_handler_that_is_idle(void)
{
    enum { PART = 12 * MEBIBYTE, KEPT = 8 * MEBIBYTE };
    for (uint32_t handler = 0; handler < 4; handler++) {
        open_handler(handler, 2);
        const uint8_t *part = w.core.arena + mpb_arena_handler(&w.core, handler);
        uint32_t token = (uint32_t)mpb_extent_take(&extents, KEPT + MEBIBYTE);
        CHECK(mpb_extent_link(&extents, token, 1, 1) != MPB_NO_EXTENT);
        CHECK_EQ(mpb_extents_idle(&extents, 100), 0);
        CHECK_EQ(extents.units.used, (KEPT + MEBIBYTE) / MPB_UNIT_BYTES);
        words()[0] = 0; /* sent */
        CHECK_EQ(mpb_extents_idle(&extents, 100 + 4999999999), 0);
        CHECK(extents.units.used == 0 && punched.calls == 0);
        CHECK_EQ(mpb_extents_idle(&extents, 100 + 5000000000), PART - KEPT);
        CHECK(punched.calls == 1 && punched.at == part + KEPT && punched.bytes == PART - KEPT);
        mpb_extents_close(&extents);
    }
}

/* Units are counted from where the part begins, which need not be at a whole unit of the arena. */
static void test_a_part_that_begins_anywhere(void)
{
    enum { PART = 5 * MPB_ARENA_UNIT_BYTES + 256 };
    struct mpb_arena arena;
    uint64_t before = w.core.header->arena_processor_bytes;
    w.core.header->arena_processor_bytes = PART;
    CHECK_EQ(mpb_arena_open(&arena, &w.core, 1), 0);
    CHECK_EQ(arena.units.count, 5);
    for (int64_t unit = 0; unit < 5; unit++)
        CHECK_EQ(mpb_arena_take(&arena, 1), PART + unit * MPB_ARENA_UNIT_BYTES);
    CHECK(!mpb_arena_give(&arena, 2 * MPB_ARENA_UNIT_BYTES + PART - 256, 1));
    for (uint64_t unit = 0; unit < 5; unit++)
        CHECK(mpb_arena_give(&arena, PART + unit * MPB_ARENA_UNIT_BYTES, 1));
    mpb_arena_close(&arena);
    w.core.header->arena_processor_bytes = before;
}

/* ------------------------------------------------------------------ room for answers */
/* A quarter of what is free for one; what others freed is looked for when more is wanted. */
static void test_how_much_one_answer_may_take(void)
{
    enum { UNIT = MPB_UNIT_BYTES, ALL = 12 * MEBIBYTE };
    open_handler(1, 1);
    static const uint64_t WANTED[] = {0, 1, ALL / 4 - 1, ALL / 4, ALL / 4 + 1, ALL, UINT64_MAX};
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
        CHECK_EQ(mpb_extent_room(&extents, WANTED[i]), WANTED[i] < ALL / 4 ? WANTED[i] : ALL / 4);
    for (uint32_t n = 0; n < 4; n++)
        CHECK(mpb_extent_link(&extents, (uint32_t)mpb_extent_take(&extents, 100 * UNIT), n, 1) != MPB_NO_EXTENT);
    uint64_t room = (HANDLER_UNITS - 400) * UNIT / 4;
    words()[0] = words()[3] = 0;
    CHECK_EQ(mpb_extent_room(&extents, room), room); /* enough as it is: nobody looks */
    CHECK_EQ(extents.units.used, 400);
    CHECK_EQ(mpb_extent_room(&extents, room + 1), room + 1);
    CHECK_EQ(extents.units.used, 200);
    CHECK_EQ(mpb_extent_room(&extents, UINT64_MAX), (HANDLER_UNITS - 200) * UNIT / 4);
    mpb_extents_close(&extents);
}

/* As much as there is, if those who have it are done with it; never more. */
static void test_the_whole_part(void)
{
    enum { UNIT = MPB_UNIT_BYTES };
    const uint64_t all = (uint64_t)HANDLER_UNITS * UNIT;
    open_handler(2, 1);
    CHECK_EQ(mpb_extent_take(&extents, 0), -1);
    CHECK_EQ(mpb_extent_take(&extents, all + 1), -1);
    CHECK_EQ(mpb_extent_take(&extents, UINT64_MAX), -1);
    CHECK_EQ(mpb_extent_take(&extents, (1ull << 32) * UNIT + 1), -1); /* one more than can be counted */
    CHECK_EQ(mpb_extent_take(&extents, all), HANDLER_UNITS);
    CHECK(mpb_extent_release(&extents, HANDLER_UNITS));
    for (uint32_t n = 0; n < HANDLER_UNITS; n++)
        CHECK_EQ(mpb_extent_link(&extents, (uint32_t)mpb_extent_take(&extents, UNIT), 1, 1),
                 2 * MPB_EXTENTS_PER_HANDLER + n + 1);
    CHECK_EQ(mpb_extent_take(&extents, UNIT), -1);
    CHECK(mpb_extents_crowded(&extents));
    words()[HANDLER_UNITS - 1] = 0; /* the one that is looked at last */
    CHECK_EQ(mpb_extent_take(&extents, 1), (HANDLER_UNITS - 1) << 16 | 1);
    for (uint32_t n = 0; n < HANDLER_UNITS - 1; n++)
        words()[n] = 0;
    CHECK_EQ(mpb_extent_take(&extents, all - UNIT), HANDLER_UNITS - 1);
    CHECK_EQ(extents.held_count, 0);
    mpb_extents_close(&extents);
}

/* Who takes room looks at some of what was handed out, so that it is known to be free before there is no other. */
static void test_what_is_found_on_the_way(void)
{
    enum { HELD = 12 };
    open_handler(3, 1);
    for (uint32_t n = 0; n < HELD; n++)
        mpb_extent_link(&extents, (uint32_t)mpb_extent_take(&extents, MPB_UNIT_BYTES), 1, 1);
    for (uint32_t n = 0; n < HELD; n++)
        words()[n] = 0;
    for (uint32_t takes = 1; takes <= 3; takes++) {
        uint32_t before = extents.held_count;
        CHECK(mpb_extent_take(&extents, MPB_UNIT_BYTES) >= 0);
        CHECK(before == 0 || extents.held_count < before);
        CHECK_EQ(extents.units.used, extents.held_count + takes);
    }
    CHECK_EQ(extents.held_count, 0);
    mpb_extents_close(&extents);
}

/* A word has sixteen bits for the place and for the number of units. */
static void test_the_largest_part(void)
{
    static const uint64_t MOST = 65535ull * MPB_UNIT_BYTES;
    static const struct {
        uint64_t bytes;
        uint32_t units;
    } ROWS[] = {
        {MPB_UNIT_BYTES - 1, 0}, {MOST - 1, 65534}, {MOST, 65535}, {MOST + MPB_UNIT_BYTES, 65535}, {1ull << 40, 65535}};
    uint64_t before = w.core.header->arena_handler_bytes;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        w.core.header->arena_handler_bytes = ROWS[i].bytes;
        open_handler(0, 1);
        CHECK_EQ(extents.units.count, ROWS[i].units);
        mpb_extents_close(&extents);
    }
    w.core.header->arena_handler_bytes = before;
}

/* What was had of the memory is given back, and nothing points to it. */
static void test_no_memory(void)
{
    for (int refused = 1; FREES_COUNT && refused <= 3; refused++) {
        world_reset(&w);
        allocations = 0;
        frees = 0;
        refused_at = refused;
        CHECK_EQ(mpb_extents_open(&extents, &w.core, 1), -1);
        refused_at = 0;
        CHECK_EQ(frees, (unsigned long)allocations - 1);
        CHECK(extents.units.bits == NULL && extents.free_words == NULL && extents.held == NULL);
        open_handler(1, 1);
        mpb_extents_close(&extents);
    }
    struct mpb_arena arena;
    for (int refused = 0; FREES_COUNT && refused <= 1; refused++) {
        allocations = 0;
        frees = 0;
        refused_at = refused;
        CHECK_EQ(mpb_arena_open(&arena, &w.core, 1), refused ? -1 : 0);
        refused_at = 0;
        mpb_arena_close(&arena);
        CHECK_EQ(frees, !refused);
        CHECK(arena.units.bits == NULL);
    }
}

int main(void)
{
    world_open(&w, &plan);
    test_a_processor_that_is_idle();
    test_a_handler_that_is_idle();
    test_a_part_that_begins_anywhere();
    test_how_much_one_answer_may_take();
    test_the_whole_part();
    test_what_is_found_on_the_way();
    test_the_largest_part();
    test_no_memory();
    world_close(&w);
    printf("room in the arena: %lu checks\n", checks_made);
    return 0;
}
