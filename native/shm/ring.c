#include "shm/ring.h"
#include "shm/inject.h"
#include <sched.h>

#define SCAN_AHEAD MPB_MAX_SLOTS /* the tail lags by no more than the pushes under way, one a process */
#define LAP_MASK 0x7fffffffull

static inline uint64_t word_of(uint64_t lap, uint64_t full, uint32_t value) { return lap << 33 | full << 32 | value; }

struct word {
    uint64_t lap, full;
    uint32_t value;
};

static inline struct word split(uint64_t word) { return (struct word){word >> 33, word >> 32 & 1, (uint32_t)word}; }

/* Both may lag, in any order, by as many operations as are under way. */
static uint64_t depth_between(const struct mpb_ring *ring, uint64_t head, uint64_t tail)
{
    uint64_t depth = tail > head ? tail - head : 0;
    return depth < ring->capacity ? depth : ring->capacity;
}

uint64_t mpb_ring_depth(const struct mpb_ring *ring)
{
    uint64_t head = mpb_load_acquire(&ring->ctl->head);
    return depth_between(ring, head, mpb_load_acquire(&ring->ctl->tail));
}

/* The head is the takers' line: looked at only when the depth from where it was last seen would be a new peak. */
static void note_peak(const struct mpb_ring *ring, uint64_t tail)
{
    uint64_t peak = mpb_load_relaxed(&ring->ctl->peak);
    if (depth_between(ring, mpb_load_relaxed(&ring->ctl->head_seen), tail) <= peak)
        return;
    uint64_t head = mpb_load_acquire(&ring->ctl->head), depth = depth_between(ring, head, tail);
    mpb_store_relaxed(&ring->ctl->head_seen, head);
    if (depth > peak) /* two writers may cross: a peak, not a counter */
        mpb_store_relaxed(&ring->ctl->peak, depth);
}

int mpb_ring_push(const struct mpb_ring *ring, uint32_t hint)
{
    if (ring->capacity == 0)
        return MPB_RING_FULL;
    for (;;) {
        uint64_t tail = mpb_load_acquire(&ring->ctl->tail), position = tail;
        uint64_t lap = tail / ring->capacity & LAP_MASK;
        mpb_atomic64 *slot = &ring->slots[tail % ring->capacity];
        uint64_t seen = mpb_load_acquire(slot);
        struct word word = split(seen);
        if (word.lap == lap && !word.full) {
            if (!mpb_cas64(slot, &seen, word_of(lap, 1, hint)))
                continue;
            MPB_CRASH(ring->core, "ring.push.slot_filled");
            mpb_cas64(&ring->ctl->tail, &tail, tail + 1); /* may fail: somebody helped */
            MPB_CRASH(ring->core, "ring.push.tail_moved");
            note_peak(ring, position + 1);
            return 0;
        }
        if (word.lap == ((lap - 1) & LAP_MASK)) { /* the hint of one lap ago is still there */
            if (mpb_load_acquire(&ring->ctl->tail) == tail)
                return MPB_RING_FULL;
            continue;
        }
        mpb_cas64(&ring->ctl->tail, &tail, tail + 1); /* filled, perhaps emptied again: the tail lags, help it */
    }
}

/* (lap, full, value) → (lap + 1, empty), then the head. Another process may have done either. */
static void remove_hint(const struct mpb_ring *ring, uint64_t head, uint64_t seen)
{
    uint64_t lap = split(seen).lap;
    if (mpb_cas64(&ring->slots[head % ring->capacity], &seen, word_of((lap + 1) & LAP_MASK, 0, 0)))
        MPB_CRASH(ring->core, "ring.take.slot_emptied");
    mpb_cas64(&ring->ctl->head, &head, head + 1);
}

/* The word at the head: fills `head` and `seen` and returns true if it carries a hint; false: the ring is empty. */
static bool find_head(const struct mpb_ring *ring, uint64_t *head, uint64_t *seen)
{
    for (;;) {
        *head = mpb_load_acquire(&ring->ctl->head);
        uint64_t lap = *head / ring->capacity & LAP_MASK;
        *seen = mpb_load_acquire(&ring->slots[*head % ring->capacity]);
        struct word word = split(*seen);
        if (word.lap == lap && word.full)
            return true;
        if (word.lap == lap) {
            uint64_t again = mpb_load_acquire(&ring->ctl->head);
            if (again == *head)
                return false;
            continue;
        }
        uint64_t expected = *head; /* (lap + 1, ...): emptied, the head lags */
        mpb_cas64(&ring->ctl->head, &expected, *head + 1);
    }
}

bool mpb_ring_empty(const struct mpb_ring *ring)
{
    uint64_t head, seen;
    return ring->capacity == 0 || !find_head(ring, &head, &seen);
}

int64_t mpb_ring_peek(const struct mpb_ring *ring)
{
    uint64_t head, seen;
    if (ring->capacity == 0 || !find_head(ring, &head, &seen))
        return MPB_RING_EMPTY;
    uint32_t index = split(seen).value & MPB_INDEX_MASK;
    return index < ring->rows ? index : 0;
}

static bool is_live(uint64_t state, uint32_t hint, uint32_t from)
{
    return (mpb_state_generation(state) & MPB_GENERATION_MASK) == hint >> MPB_INDEX_BITS &&
           (MPB_STATE_BIT(mpb_state_of(state)) & from) != 0;
}

int64_t mpb_ring_take(const struct mpb_ring *ring, uint32_t from, uint32_t to, uint32_t owner)
{
    uint64_t head, seen;
    if (ring->capacity == 0)
        return MPB_RING_EMPTY;
    while (find_head(ring, &head, &seen)) {
        uint32_t hint = split(seen).value, index = hint & MPB_INDEX_MASK;
        if (index < ring->rows) {
            mpb_atomic64 *cell = mpb_ring_state(ring, index);
            uint64_t state = mpb_load_acquire(cell);
            if (is_live(state, hint, from)) {
                MPB_CRASH(ring->core, "ring.take.before_claim");
                if (!mpb_cas64(cell, &state, mpb_state_word(mpb_state_generation(state), to, owner)))
                    continue; /* somebody else's now: the next look finds the hint stale or gone */
                MPB_CRASH(ring->core, "ring.take.claimed");
                remove_hint(ring, head, seen);
                return index;
            }
        }
        remove_hint(ring, head, seen);
    }
    return MPB_RING_EMPTY;
}

bool mpb_ring_drop_stale(const struct mpb_ring *ring)
{
    const uint32_t waiting = MPB_STATE_BIT(MPB_E_QUEUED) | MPB_STATE_BIT(MPB_E_REQUEUED) | MPB_STATE_BIT(MPB_E_DONE) |
                             MPB_STATE_BIT(MPB_E_HANDED);
    uint64_t head, seen;
    if (ring->capacity == 0 || !find_head(ring, &head, &seen))
        return false;
    uint32_t hint = split(seen).value, index = hint & MPB_INDEX_MASK;
    if (index < ring->rows && is_live(mpb_load_acquire(mpb_ring_state(ring, index)), hint, waiting))
        return false;
    remove_hint(ring, head, seen);
    return true;
}

void mpb_ring_push_sure(const struct mpb_ring *ring, uint32_t hint)
{
    while (mpb_ring_push(ring, hint) == MPB_RING_FULL)
        if (!mpb_ring_drop_stale(ring))
            sched_yield(); /* more hints than rows and slack: a popper is at work */
}

void mpb_ring_scan(const struct mpb_ring *ring, uint64_t *present)
{
    uint64_t tail = mpb_load_acquire(&ring->ctl->tail), used = tail + SCAN_AHEAD;
    for (uint64_t i = 0; i < ring->capacity && i < used; i++) { /* what was never written gets no memory by a look */
        struct word word = split(mpb_load_acquire(&ring->slots[i]));
        uint32_t index = word.value & MPB_INDEX_MASK;
        if (!word.full || index >= ring->rows)
            continue;
        uint64_t state = mpb_load_acquire(mpb_ring_state(ring, index));
        if ((mpb_state_generation(state) & MPB_GENERATION_MASK) == word.value >> MPB_INDEX_BITS)
            present[index / 64] |= 1ull << index % 64;
    }
}
