/* A handler's extents and a processor's part of the arena, value by value: what a word says, what a successor finds in the
 * words, which of them nobody refers to, and what is refused. */
#include "tests/shm/shm_world.h"

static const struct world_plan plan = {2, 4, 0, 6, 4, 2, 2, 64 << 10, 256 << 10};
static struct world w;
static struct mpb_extents extents;

static mpb_atomic64 *words_of(uint32_t handler) { return w.core.extents + (size_t)handler * MPB_EXTENTS_PER_HANDLER; }

static void set_high(uint32_t handler, uint32_t high)
{
    mpb_store_release(&w.core.doorbells->handler_mark[handler].extents_high, high);
}

static uint64_t word(uint32_t entry, uint32_t generation, uint32_t first, uint32_t units)
{
    return (uint64_t)(entry + 1) << 47 | (uint64_t)generation << 32 | first << 16 | units;
}

/* ------------------------------------------------------------------ words */
static void test_what_a_word_says(void)
{
    world_reset(&w);
    for (uint32_t handler = 0; handler < 2; handler++) {
        set_high(handler, 0);
        CHECK_EQ(mpb_extents_open(&extents, &w.core, handler), 0);
        uint32_t base = handler * MPB_EXTENTS_PER_HANDLER;
        for (uint32_t n = 0; n < 3; n++) {
            int64_t token = mpb_extent_take(&extents, (n + 1) * MPB_UNIT_BYTES);
            uint32_t first = n * (n + 1) / 2;
            CHECK_EQ(token, first << 16 | (n + 1));
            CHECK_EQ(mpb_extent_offset(&extents, (uint32_t)token),
                     mpb_arena_handler(&w.core, handler) + (uint64_t)first * MPB_UNIT_BYTES);
            CHECK_EQ(mpb_extent_link(&extents, (uint32_t)token, 4 + n, 0xABC00 + n), base + n + 1);
            CHECK_EQ(mpb_load_acquire(&words_of(handler)[n]),
                     word(4 + n, (0xABC00 + n) & MPB_GENERATION_MASK, first, n + 1));
            CHECK_EQ(mpb_load_acquire(&w.core.doorbells->handler_mark[handler].extents_high), n + 1);
        }
        mpb_extents_close(&extents);
        CHECK(extents.free_words == NULL && extents.held == NULL && extents.units.bits == NULL);
    }
}

/* Freed by whoever sends the answer, by its number; the next look gives back the room, and the word is used again. */
static void test_a_word_that_is_freed(void)
{
    world_reset(&w);
    CHECK_EQ(mpb_extents_open(&extents, &w.core, 0), 0);
    uint32_t number[3], used = 0;
    for (uint32_t n = 0; n < 3; n++)
        number[n] = mpb_extent_link(&extents, (uint32_t)mpb_extent_take(&extents, MPB_UNIT_BYTES), n, 1);
    CHECK_EQ(extents.units.used, 3);
    mpb_extent_free(&w.core, MPB_NO_EXTENT, 0);
    mpb_extent_free(&w.core, w.core.extent_count + 1, 0); /* there is none of this number */
    mpb_extent_free(&w.core, number[1], 0);               /* nor is it this entry's */
    for (uint32_t n = 0; n < 3; n++)
        CHECK(mpb_load_acquire(&words_of(0)[n]) != 0);
    words_of(3)[MPB_EXTENTS_PER_HANDLER - 1] = word(2, 1, 0, 1); /* the very last one */
    mpb_extent_free(&w.core, w.core.extent_count, 2);
    CHECK_EQ(words_of(3)[MPB_EXTENTS_PER_HANDLER - 1], 0);
    mpb_extent_free(&w.core, number[1], 1);
    CHECK(words_of(0)[1] == 0 && words_of(0)[0] != 0 && words_of(0)[2] != 0);
    CHECK_EQ(extents.units.used, 3); /* nobody has looked */
    mpb_extents_idle(&extents, 0);
    CHECK_EQ(extents.units.used, 2);
    CHECK(extents.free_count == 1 && extents.held_count == 2);
    CHECK_EQ(mpb_extent_take(&extents, 2 * MPB_UNIT_BYTES), 3 << 16 | 2);
    CHECK_EQ(mpb_extent_take(&extents, MPB_UNIT_BYTES), 1 << 16 | 1);
    CHECK_EQ(mpb_extent_link(&extents, 1 << 16 | 1, 9, 1), number[1]); /* the word that is free again */
    CHECK_EQ(mpb_extent_link(&extents, 3 << 16 | 2, 9, 1), 4);
    used = extents.units.used;
    CHECK(!mpb_extent_release(&extents, 5 << 16 | 1) && extents.units.used == used);
    mpb_extents_close(&extents);
}

static void test_all_words_are_in_use(void)
{
    world_reset(&w);
    set_high(0, MPB_EXTENTS_PER_HANDLER);
    for (uint32_t i = 0; i < MPB_EXTENTS_PER_HANDLER; i++)
        words_of(0)[i] = word(3, 1, 0, 0);
    CHECK_EQ(mpb_extents_open(&extents, &w.core, 0), 0);
    CHECK(extents.held_count == MPB_EXTENTS_PER_HANDLER && extents.free_count == 0);
    CHECK_EQ(mpb_extent_link(&extents, 1, 1, 1), MPB_NO_EXTENT);
    words_of(0)[4711] = 0; /* somebody's answer was sent: found by a look at all of them */
    CHECK_EQ(mpb_extent_link(&extents, 1, 1, 1), 4711 + 1);
    CHECK_EQ(mpb_extent_link(&extents, 1, 1, 1), MPB_NO_EXTENT);
    mpb_extents_close(&extents);
    set_high(0, MPB_EXTENTS_PER_HANDLER - 1); /* one was never used */
    words_of(0)[MPB_EXTENTS_PER_HANDLER - 1] = 0;
    CHECK_EQ(mpb_extents_open(&extents, &w.core, 0), 0);
    CHECK_EQ(mpb_extent_link(&extents, 1, 1, 1), MPB_EXTENTS_PER_HANDLER);
    CHECK_EQ(mpb_extent_link(&extents, 1, 1, 1), MPB_NO_EXTENT);
    CHECK_EQ(mpb_load_acquire(&w.core.doorbells->handler_mark[0].extents_high), MPB_EXTENTS_PER_HANDLER);
    mpb_extents_close(&extents);
    for (uint32_t i = 0; i < MPB_EXTENTS_PER_HANDLER; i++)
        words_of(0)[i] = 0;
    set_high(0, MPB_EXTENTS_PER_HANDLER + 5); /* a mark that nobody can have set */
    CHECK_EQ(mpb_extents_open(&extents, &w.core, 0), 0);
    CHECK(extents.fresh == MPB_EXTENTS_PER_HANDLER && extents.free_count == MPB_EXTENTS_PER_HANDLER);
    mpb_extents_close(&extents);
}

/* ------------------------------------------------------------------ a successor */
static void test_what_a_successor_finds(void)
{
    static const struct {
        uint64_t first, units;
    } HELD[] = {{0, 2}, {0, 0}, {5, 1}, {0, 0}, {9, 7}};
    world_reset(&w);
    for (uint32_t i = 0; i < 5; i++)
        words_of(1)[i] = HELD[i].units == 0 ? 0 : word(i, 1, (uint32_t)HELD[i].first, (uint32_t)HELD[i].units);
    words_of(1)[5] = word(5, 1, 15, 1); /* above the mark: nobody's */
    set_high(1, 5);
    mpb_store_release(&w.core.processes[mpb_handler_slot(&w.core, 1)].incarnation, 2);
    memset((void *)&extents, 0x5a, sizeof extents);
    CHECK_EQ(mpb_extents_open(&extents, &w.core, 1), 0);
    CHECK(extents.fresh == 5 && extents.free_count == 2 && extents.held_count == 3 && extents.sweep_at == 0);
    CHECK(extents.free_words[1] == 1 && extents.free_words[0] == 3); /* the lowest is taken first */
    CHECK_EQ(extents.units.used, 10);
    CHECK_EQ(extents.units.count, 16);
    CHECK_EQ(extents.units.touched, 16); /* the first may have used any of it */
    CHECK_EQ(mpb_extent_take(&extents, MPB_UNIT_BYTES), 2 << 16 | 1);
    CHECK_EQ(mpb_extent_take(&extents, 3 * MPB_UNIT_BYTES), 6 << 16 | 3);
    CHECK_EQ(mpb_extent_take(&extents, 3 * MPB_UNIT_BYTES), -1);
    CHECK_EQ(mpb_extent_take(&extents, 2 * MPB_UNIT_BYTES), 3 << 16 | 2);
    CHECK_EQ(mpb_extent_take(&extents, 1), -1);
    mpb_extents_rebuild(&extents); /* what was taken and not linked is free */
    CHECK_EQ(extents.units.used, 10);
    CHECK(extents.free_count == 2 && extents.held_count == 3);
    mpb_extents_close(&extents);
    for (uint32_t incarnation = 0; incarnation < 3; incarnation++) {
        mpb_store_release(&w.core.processes[mpb_handler_slot(&w.core, 2)].incarnation, incarnation);
        CHECK_EQ(mpb_extents_open(&extents, &w.core, 2), 0);
        CHECK_EQ(extents.units.touched, incarnation <= 1 ? 0 : 16);
        mpb_extents_close(&extents);
    }
}

/* Words of a dead handler: of an entry that is in use and names the word, as its answer or as its cells. */
static void test_words_that_nobody_refers_to(void)
{
    static const struct {
        uint32_t entry, state;
        int as; /* 0: names another word, 1: its answer, 2: its cells */
        bool stays;
    } ROWS[] = {{0, MPB_E_CLAIMED, 1, true}, {1, MPB_E_CLAIMED, 2, true}, {2, MPB_E_CLAIMED, 0, false},
                {3, MPB_E_FREE, 1, false},   {4, MPB_E_FREE, 2, false},   {5, MPB_E_SENDING, 1, true},
                {11, MPB_E_DONE, 2, true},   {12, MPB_E_DONE, 1, false} /* behind the table */};
    enum { COUNT = sizeof ROWS / sizeof *ROWS };
    for (uint32_t handler = 0; handler < 4; handler += 3) {
        uint32_t base = handler * MPB_EXTENTS_PER_HANDLER;
        world_reset(&w);
        for (uint32_t i = 0; i < COUNT; i++) {
            words_of(handler)[i] = word(ROWS[i].entry, 1, i, 1);
            struct mpb_entry *entry = &w.core.entries[ROWS[i].entry];
            CHECK((void *)(entry + 1) <= (void *)w.core.slots); /* the one behind the table is nobody's */
            mpb_store_release(&entry->state, mpb_state_word(1, ROWS[i].state, 0));
            entry->answer_extent = base + i + (ROWS[i].as == 1 ? 1 : 2);
            entry->cells_extent = ROWS[i].as == 2 ? base + i + 1 : MPB_NO_EXTENT;
        }
        words_of(handler)[COUNT] = words_of(handler)[COUNT + 1] = word(2, 1, 0, 1);
        set_high(handler, COUNT + 1);
        mpb_extents_collect(&w.core, handler);
        for (uint32_t i = 0; i < COUNT; i++)
            CHECK_EQ(words_of(handler)[i] != 0, ROWS[i].stays);
        CHECK_EQ(words_of(handler)[COUNT], 0);
        CHECK(words_of(handler)[COUNT + 1] != 0); /* above the mark nobody looks */
        words_of(handler)[COUNT + 1] = 0;
        memset((void *)&w.core.entries[w.core.entry_count], 0, sizeof w.core.entries[0]);
    }
    mpb_atomic64 *behind = &w.core.extents[w.core.extent_count]; /* somebody else's word */
    uint64_t before = *behind;
    set_high(3, MPB_EXTENTS_PER_HANDLER + 100); /* a mark beyond the table */
    words_of(3)[MPB_EXTENTS_PER_HANDLER - 1] = *behind = word(2, 1, 0, 1);
    mpb_extents_collect(&w.core, 3);
    CHECK_EQ(words_of(3)[MPB_EXTENTS_PER_HANDLER - 1], 0);
    CHECK_EQ(*behind, word(2, 1, 0, 1));
    *behind = before;
}

/* ------------------------------------------------------------------ a processor's part */
static void test_the_part_of_a_processor(void)
{
    enum { UNIT = MPB_ARENA_UNIT_BYTES, PART = 64 << 10 };
    world_reset(&w);
    for (uint32_t p = 0; p < 2; p++)
        for (uint32_t incarnation = 0; incarnation < 3; incarnation++) {
            struct mpb_arena arena;
            int64_t base = (int64_t)p * PART;
            mpb_store_release(&w.core.processes[MPB_SLOT_PROCESSORS + p].incarnation, incarnation);
            CHECK_EQ(mpb_arena_open(&arena, &w.core, p), 0);
            CHECK_EQ(arena.units.touched, incarnation <= 1 ? 0 : PART / UNIT);
            CHECK_EQ(mpb_arena_take(&arena, PART + 1), -1);
            CHECK_EQ(mpb_arena_take(&arena, UNIT + 1), base);
            CHECK_EQ(mpb_arena_take(&arena, UNIT), base + 2 * UNIT);
            CHECK_EQ(mpb_arena_take(&arena, PART), -1);
            CHECK(!mpb_arena_give(&arena, (uint64_t)base + 1, UNIT));
            CHECK(!mpb_arena_give(&arena, (uint64_t)base, PART + 1));
            CHECK(!mpb_arena_give(&arena, (uint64_t)base + PART, UNIT)); /* behind it */
            CHECK(p == 0 || !mpb_arena_give(&arena, (uint64_t)base - UNIT, UNIT));
            CHECK_EQ(arena.units.used, 3);
            CHECK(mpb_arena_give(&arena, (uint64_t)base + 2 * UNIT, UNIT));
            CHECK(mpb_arena_give(&arena, (uint64_t)base, UNIT + 1));
            CHECK_EQ(mpb_arena_take(&arena, PART), base);
            CHECK(mpb_arena_give(&arena, (uint64_t)base, PART));
            CHECK(!mpb_arena_give(&arena, (uint64_t)base, PART));
            mpb_arena_close(&arena);
        }
}

/* What entries in use hold there, and those alone that are asked about. */
static void test_a_part_that_is_looked_up(void)
{
    enum { UNIT = MPB_ARENA_UNIT_BYTES, PART = 64 << 10 };
    static const struct {
        uint32_t state;
        uint64_t offset;
        uint16_t units, counts;
    } ROWS[] = {{MPB_E_QUEUED, PART + 3 * UNIT, 2, 0}, /* of the entries before those that are asked about */
                {MPB_E_QUEUED, PART, 2, 2},
                {MPB_E_FREE, PART + 8 * UNIT, 3, 0},
                {MPB_E_DONE, MPB_PAYLOAD_INLINE, 5, 0},
                {MPB_E_CLAIMED, UNIT, 4, 0}, /* in another one's part */
                {MPB_E_SENDING, PART + 20 * UNIT, 1, 1},
                {MPB_E_QUEUED, PART + 30 * UNIT, 7, 0}}; /* behind them */
    struct mpb_arena arena;
    uint32_t used = 0;
    world_reset(&w);
    for (uint32_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct mpb_entry *entry = &w.core.entries[i];
        mpb_store_release(&entry->state, mpb_state_word(1, ROWS[i].state, 0));
        entry->payload_offset = ROWS[i].offset;
        entry->payload_units = ROWS[i].units;
        used += ROWS[i].counts;
    }
    CHECK_EQ(mpb_arena_open(&arena, &w.core, 1), 0);
    CHECK_EQ(mpb_arena_take(&arena, 40 * UNIT), PART); /* forgotten: no entry has it */
    mpb_arena_rebuild(&arena, 1, 5);
    CHECK_EQ(arena.units.used, used);
    CHECK_EQ(mpb_arena_take(&arena, 18 * UNIT), PART + 2 * UNIT);
    CHECK_EQ(mpb_arena_take(&arena, UNIT), PART + 21 * UNIT);
    mpb_arena_close(&arena);
}

int main(void)
{
    world_open(&w, &plan);
    test_what_a_word_says();
    test_a_word_that_is_freed();
    test_all_words_are_in_use();
    test_what_a_successor_finds();
    test_words_that_nobody_refers_to();
    test_the_part_of_a_processor();
    test_a_part_that_is_looked_up();
    world_close(&w);
    printf("extents: %lu checks\n", checks_made);
    return 0;
}
