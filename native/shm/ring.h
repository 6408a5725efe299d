/* Hint rings over a claim table (docs/request-rules.md): many pushers, many poppers, no operation ever waits for another
 * process.
 *
 *   tail ──► position t ──► word at t mod capacity = lap 31 | full 1 | value 32      value = generation 15 | row 17
 *
 * A hint only says where to look. The row's state word (generation 32 | state 8 | owner 24) says whether there is
 * anything to take, and the CAS on it is the dequeue. Rows are request entries or controller commands: both begin
 * with that word. Push fills the word first and moves the tail afterwards, pop empties it first; whoever finds head or
 * tail behind moves them on, so a process killed or stopped in the middle delays nobody. */
#ifndef MPB_RING_H
#define MPB_RING_H

#include "shm/core.h"

#define MPB_INDEX_MASK ((1u << MPB_INDEX_BITS) - 1u)
#define MPB_GENERATION_MASK ((1u << MPB_GENERATION_BITS) - 1u)
#define MPB_STATE_BIT(state) (1u << (state))

static inline uint64_t mpb_state_word(uint32_t generation, uint32_t state, uint32_t owner)
{
    return (uint64_t)generation << 32 | (uint64_t)state << 24 | owner;
}
static inline uint32_t mpb_state_generation(uint64_t word) { return (uint32_t)(word >> 32); }
static inline uint32_t mpb_state_of(uint64_t word) { return (uint32_t)(word >> 24) & 0xff; }
static inline uint32_t mpb_state_owner(uint64_t word) { return (uint32_t)word & 0xffffff; }

static inline uint32_t mpb_hint(uint32_t index, uint32_t generation)
{
    return (generation & MPB_GENERATION_MASK) << MPB_INDEX_BITS | index;
}

struct mpb_ring { /* a view, made on the stack for each operation or kept: holds no state */
    struct mpb_core *core;
    struct mpb_ring_ctl *ctl;
    mpb_atomic64 *slots;
    uint64_t capacity;
    uint8_t *table; /* rows whose first word is a state word */
    size_t stride;
    uint32_t rows;
};

enum { MPB_RING_FULL = -1, MPB_RING_EMPTY = -1 };

static inline struct mpb_ring mpb_ring_view(struct mpb_core *core, uint32_t ring_id)
{
    struct mpb_ring_ctl *ctl = &core->rings[ring_id];
    bool commands = (ring_id & ~4u) == MPB_RING_CONTROLLER; /* and MPB_RING_CLUSTER_CONTROLLER */
    return (struct mpb_ring){.core = core,
                             .ctl = ctl,
                             .slots = core->slots + ctl->slots_first,
                             .capacity = ctl->capacity,
                             .table = commands ? (uint8_t *)core->commands : (uint8_t *)core->entries,
                             .stride = commands ? sizeof(struct mpb_command) : sizeof(struct mpb_entry),
                             .rows = commands ? core->command_count : core->entry_count};
}

/* Appends a hint; 0, or MPB_RING_FULL. */
int mpb_ring_push(const struct mpb_ring *ring, uint32_t hint);

/* The same for rings that have room for every row: when stale hints fill it all the same, drops those first. */
void mpb_ring_push_sure(const struct mpb_ring *ring, uint32_t hint);

/* Removes the hint at the head if it is stale: its popper died, or stands still, between claiming the row and removing
 * the hint. Only there a stale hint can hold room back. */
bool mpb_ring_drop_stale(const struct mpb_ring *ring);

/* Takes the first live hint: its row's generation matches and its state is one of `from` (MPB_STATE_BIT); the row
 * becomes (same generation, to, owner). Returns the row, or MPB_RING_EMPTY. Drops stale hints on its way. */
int64_t mpb_ring_take(const struct mpb_ring *ring, uint32_t from, uint32_t to, uint32_t owner);

/* The row that the hint at the head names, live or stale; MPB_RING_EMPTY. Somebody may take it meanwhile. */
int64_t mpb_ring_peek(const struct mpb_ring *ring);

/* Hints in it, stale ones included; a snapshot. */
uint64_t mpb_ring_depth(const struct mpb_ring *ring);

/* Whether a pop would find nothing; looks at the words, so a pusher that died before it moved the tail is seen. */
bool mpb_ring_empty(const struct mpb_ring *ring);

/* Sets bit `row` of `present` for each row below `rows` whose present generation has a hint in the ring. Removing a hint
 * follows the change of its row's state, so "state still waiting, read after the scan, and bit not set" proves that
 * the hint was never pushed. */
void mpb_ring_scan(const struct mpb_ring *ring, uint64_t *present);

static inline mpb_atomic64 *mpb_ring_state(const struct mpb_ring *ring, uint32_t index)
{
    return (mpb_atomic64 *)(void *)(ring->table + (size_t)index * ring->stride);
}

#endif
