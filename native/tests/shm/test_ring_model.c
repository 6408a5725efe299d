/* One who pushes and takes, beside a queue of hints that is looked at from the front: what comes out, what is stale, how deep
 * it is and was, from any position on, where laps are counted anew too, and where whoever came before died before it moved
 * the head or the tail. test_ring_model [steps] [seed] */
#include <stdbool.h>
#include <string.h>
#include "tests/stepping/check.h"
#include "shm/ring.h"

enum { MOST = 140, ROWS = 200, MOST_ROWS = 1 << MPB_INDEX_BITS };
static const uint64_t LAPS = 1ull << 31;

static struct mpb_inject injects[MPB_INJECT_ROWS];
static struct mpb_core core = {.injects = injects};
static struct mpb_ring_ctl ctl;
static mpb_atomic64 slots[MOST], states[ROWS + 1]; /* one that is no row */
static const struct mpb_ring whole = {
    .core = &core, .ctl = &ctl, .slots = slots, .table = (uint8_t *)states, .stride = sizeof states[0], .rows = ROWS};

static struct {
    uint32_t hints[MOST];
    uint64_t count, taken, pushed, peak, head_seen;
} queue;

/* Empty, with `from` hints that came and went. */
static struct mpb_ring begin(uint64_t capacity, uint64_t from)
{
    struct mpb_ring ring = whole;
    ring.capacity = capacity;
    memset(&queue, 0, sizeof queue);
    queue.taken = queue.pushed = queue.head_seen = from;
    ctl = (struct mpb_ring_ctl){.capacity = capacity};
    ctl.head = ctl.tail = ctl.head_seen = from;
    memset((void *)slots, 0xff, sizeof slots);
    for (uint64_t at = from; at < from + capacity; at++)
        slots[at % capacity] = at / capacity % LAPS << 33;
    return ring;
}

/* ------------------------------------------------------------------ the queue */
static void drop(void)
{
    memmove(queue.hints, queue.hints + 1, (size_t)--queue.count * sizeof *queue.hints);
    queue.taken++;
}

static void add(uint32_t hint, uint64_t capacity)
{
    queue.hints[queue.count++] = hint;
    queue.pushed++;
    if (queue.pushed - queue.head_seen > queue.peak && capacity > queue.peak) {
        queue.head_seen = queue.taken; /* the takers' line is looked at for what may be a new peak */
        queue.peak = queue.count > queue.peak ? queue.count : queue.peak;
    }
}

static bool is_of_its_row(uint32_t hint)
{
    uint32_t index = hint % MOST_ROWS;
    return index < ROWS && mpb_state_generation(states[index]) % (1u << MPB_GENERATION_BITS) == hint / MOST_ROWS;
}

static bool is_live(uint32_t hint, uint32_t from)
{
    return is_of_its_row(hint) && (1u << mpb_state_of(states[hint % MOST_ROWS]) & from) != 0;
}

/* ------------------------------------------------------------------ beside each other */
static const uint32_t WAITING[] = {MPB_E_QUEUED, MPB_E_REQUEUED, MPB_E_DONE, MPB_E_HANDED};

static bool is_waiting(uint32_t hint)
{
    bool waits = false;
    for (size_t i = 0; i < sizeof WAITING / sizeof *WAITING; i++)
        waits |= is_live(hint, 1u << WAITING[i]);
    return waits;
}

static uint32_t some_hint(uint64_t *seed)
{
    uint32_t row = random_below(seed, ROWS), generation = mpb_state_generation(states[row]);
    switch (random_below(seed, 8)) {
    case 0:
        return mpb_hint(row, generation + 1); /* another time of this row */
    case 1:
        return mpb_hint(random_below(seed, 2) == 0 ? ROWS : MOST_ROWS - 1, 5); /* no row */
    default:
        return mpb_hint(row, generation);
    }
}

static void take(const struct mpb_ring *ring, uint64_t *seed)
{
    uint32_t from = (uint32_t)next_random(seed), owner = random_below(seed, 1 << 24);
    uint64_t before[ROWS];
    int64_t expected = MPB_RING_EMPTY;
    for (; queue.count > 0 && !is_live(queue.hints[0], from); drop())
        continue;
    if (queue.count > 0)
        expected = queue.hints[0] % MOST_ROWS;
    memcpy(before, (void *)states, sizeof before);
    CHECK_EQ(mpb_ring_take(ring, from, MPB_E_CLAIMED, owner), expected);
    if (expected >= 0) {
        before[expected] = before[expected] >> 32 << 32 | MPB_E_CLAIMED << 24 | owner;
        drop();
    }
    CHECK(memcmp(before, (void *)states, sizeof before) == 0);
}

static void push(const struct mpb_ring *ring, uint64_t *seed)
{
    uint32_t hint = some_hint(seed);
    CHECK_EQ(mpb_ring_push(ring, hint), queue.count == ring->capacity ? MPB_RING_FULL : 0);
    if (queue.count < ring->capacity)
        add(hint, ring->capacity);
}

static void push_sure(const struct mpb_ring *ring, uint64_t *seed)
{
    uint32_t hint = some_hint(seed);
    if (queue.count == ring->capacity && is_waiting(queue.hints[0]))
        return; /* it would wait for a taker */
    if (queue.count == ring->capacity)
        drop();
    mpb_ring_push_sure(ring, hint);
    add(hint, ring->capacity);
}

static void scan(const struct mpb_ring *ring)
{
    uint64_t present[ROWS / 64 + 2] = {0}, expected[ROWS / 64 + 2] = {0};
    present[0] = expected[0] = 1; /* what others have set stays */
    for (uint64_t i = 0; i < queue.count; i++)
        if (is_of_its_row(queue.hints[i]))
            expected[queue.hints[i] % MOST_ROWS / 64] |= 1ull << queue.hints[i] % MOST_ROWS % 64;
    mpb_ring_scan(ring, present);
    CHECK(memcmp(present, expected, sizeof present) == 0);
}

static void look(const struct mpb_ring *ring)
{
    int64_t index = queue.count > 0 ? (int64_t)(queue.hints[0] % MOST_ROWS) : MPB_RING_EMPTY;
    CHECK_EQ(mpb_ring_empty(ring), queue.count == 0);
    CHECK_EQ(mpb_ring_peek(ring), index < ROWS ? index : 0);
    if (ctl.tail == queue.pushed && ctl.head == queue.taken)
        CHECK_EQ(mpb_ring_depth(ring), queue.count);
}

/* `deaths`: somebody died between the word and the head or the tail. What is deepest is not known then. */
static void run(uint64_t capacity, uint64_t from, uint64_t *seed, int steps, bool deaths)
{
    struct mpb_ring ring = begin(capacity, from);
    for (int i = 0; i <= ROWS; i++)
        states[i] = mpb_state_word(5, MPB_E_QUEUED, 3); /* the last is no row, and would be live */
    for (int step = 0; step < steps; step++) {
        uint32_t dice = random_below(seed, 100), row = random_below(seed, ROWS);
        if (dice < 30)
            push(&ring, seed);
        else if (dice < 40)
            push_sure(&ring, seed);
        else if (dice < 60)
            take(&ring, seed);
        else if (dice < 70) {
            bool is_stale = queue.count > 0 && !is_waiting(queue.hints[0]);
            CHECK_EQ(mpb_ring_drop_stale(&ring), is_stale);
            if (is_stale)
                drop();
        } else if (dice < 80)
            scan(&ring);
        else
            states[row] = mpb_state_word((uint32_t)next_random(seed), random_below(seed, 12), 3);
        look(&ring);
        if (deaths && dice < 40 && ctl.tail == queue.pushed && queue.count > 0)
            ctl.tail--;
        if (deaths && dice >= 40 && dice < 60 && ctl.head == queue.taken && queue.count < capacity && ctl.head > from)
            ctl.head--;
        if (!deaths) {
            CHECK(ctl.tail == queue.pushed && ctl.head == queue.taken);
            CHECK(ctl.peak == queue.peak && ctl.head_seen == queue.head_seen);
        }
    }
}

/* ------------------------------------------------------------------ single values */
static void test_a_ring_without_room(void)
{
    struct mpb_ring ring = begin(1, 0);
    uint64_t present = 0;
    ring.capacity = 0;
    CHECK_EQ(mpb_ring_push(&ring, 1), MPB_RING_FULL);
    CHECK_EQ(mpb_ring_take(&ring, ~0u, MPB_E_CLAIMED, 1), MPB_RING_EMPTY);
    CHECK_EQ(mpb_ring_peek(&ring), MPB_RING_EMPTY);
    CHECK(mpb_ring_empty(&ring) && !mpb_ring_drop_stale(&ring));
    CHECK_EQ(mpb_ring_depth(&ring), 0);
    mpb_ring_scan(&ring, &present);
    CHECK_EQ(present, 0);
}

/* Head and tail are moved by whoever comes: a look may see them in any order, never more than there can be. */
static void test_depths(void)
{
    static const struct {
        uint64_t head, tail, depth;
    } ROWS_OF[] = {{0, 0, 0}, {5, 5, 0}, {5, 6, 1}, {6, 5, 0}, {9, 5, 0}, {5, 9, 4}, {5, 8, 3}, {5, 10, 4}, {0, 99, 4}};
    struct mpb_ring ring = begin(4, 0);
    for (size_t i = 0; i < sizeof ROWS_OF / sizeof *ROWS_OF; i++) {
        ctl.head = ROWS_OF[i].head;
        ctl.tail = ROWS_OF[i].tail;
        CHECK_EQ(mpb_ring_depth(&ring), ROWS_OF[i].depth);
    }
}

/* Words of the first lap behind the tail: as far as there can be pushes under way, and no farther, for a look at the rest
 * would give it memory. */
static void test_how_far_a_scan_looks(void)
{
    struct mpb_ring ring = begin(MOST, 0);
    for (uint64_t tail = 0; tail < 4; tail++)
        for (uint64_t ahead = MPB_MAX_SLOTS - 1; ahead <= MPB_MAX_SLOTS; ahead++) {
            uint64_t present[ROWS / 64 + 1] = {0};
            ctl.tail = tail;
            states[7] = mpb_state_word(5, MPB_E_QUEUED, 3);
            slots[tail + ahead] = 1ull << 32 | mpb_hint(7, 5);
            mpb_ring_scan(&ring, present);
            CHECK_EQ(present[0], ahead < MPB_MAX_SLOTS ? 1 << 7 : 0);
            slots[tail + ahead] = 0;
        }
}

int main(int argc, char **argv)
{
    static const uint64_t CAPACITIES[] = {1, 2, 3, 4, 7, 64, MOST};
    int steps = argc > 1 ? atoi(argv[1]) : 3000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    test_a_ring_without_room();
    test_depths();
    test_how_far_a_scan_looks();
    for (size_t i = 0; i < sizeof CAPACITIES / sizeof *CAPACITIES; i++) {
        uint64_t capacity = CAPACITIES[i], last_lap = capacity * (LAPS - 1);
        const uint64_t from[] = {0,        capacity * 5 + 1,        last_lap - 2 * capacity,
                                 last_lap, last_lap + capacity / 2, 1ull << 45};
        for (size_t at = 0; at < sizeof from / sizeof *from; at++)
            for (int deaths = 0; deaths < 2; deaths++)
                run(capacity, from[at], &seed, steps, deaths);
    }
    printf("ring beside a queue: %lu checks\n", checks_made);
    return 0;
}
