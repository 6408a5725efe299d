/* The cast of the kill tests: two processors, three handlers, the coordinator, a controller, in one process but with private state each,
 * and what must hold when the dust settles: nothing stuck, nothing answered twice, nothing lost, nothing leaked. */
#ifndef MPB_TESTS_REQUEST_DRAMA_H
#define MPB_TESTS_REQUEST_DRAMA_H

#include "shm/counters.h"
#include "tests/shm/shm_world.h"

#define MAX_IDS 64
#define CAST 4 /* handlers, and the coordinator behind them */
#define COORDINATOR 3
#define ALL_HANDLERS 15u

struct drama {
    struct world w;
    struct mpb_processor p[2];
    struct mpb_handler h[CAST];
    uint8_t executed[MAX_IDS]; /* by connection number = request id */
    uint8_t answered[MAX_IDS], dropped[MAX_IDS], submitted[MAX_IDS], must_answer[MAX_IDS];
    uint32_t commands_executed[MAX_IDS];
    int64_t kept[4];    /* entries a scenario's setup hands to its operation */
    bool no_controller; /* it is dead */
    bool waits_for_controller;
    const char *scene;
    long at, again;
};

static void handler_open(struct drama *d, int index)
{
    CHECK_EQ(mpb_handler_open(&d->h[index], &d->w.core, (uint32_t)index), 0);
    if (index != COORDINATOR)
        d->h[index].hands_over[0] = 1ull << GROUP_KEY;
}

static void drama_open(struct drama *d)
{
    world_reset(&d->w);
    d->no_controller = false;
    memset(d->executed, 0, sizeof d->executed);
    memset(d->answered, 0, sizeof d->answered);
    memset(d->dropped, 0, sizeof d->dropped);
    memset(d->submitted, 0, sizeof d->submitted);
    memset(d->must_answer, 0, sizeof d->must_answer);
    memset(d->commands_executed, 0, sizeof d->commands_executed);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(mpb_processor_open(&d->p[i], &d->w.core, (uint32_t)i), 0);
        mpb_store_relaxed(&d->w.core.counters[d->p[i].slot].value[MPB_C_REQUESTS_RECEIVED], 0);
        mpb_store_relaxed(&d->w.core.counters[d->p[i].slot].value[MPB_C_REQUESTS_FINISHED], 0);
    }
    for (int i = 0; i < CAST; i++)
        handler_open(d, i);
}

static void drama_close(struct drama *d)
{
    for (int i = 0; i < 2; i++)
        mpb_processor_close(&d->p[i]);
    for (int i = 0; i < CAST; i++)
        mpb_handler_close(&d->h[i]);
}

static inline uint64_t counted_in(const struct drama *d, uint32_t handler, uint32_t counter)
{
    return mpb_load_relaxed(&d->w.core.counters[d->h[handler].slot].value[counter]);
}

static inline uint32_t in_hand_of(const struct drama *d, uint32_t handler)
{
    return mpb_load_relaxed(&d->w.core.doorbells->handler_mark[handler].in_hand);
}

/* One request in the handler's hand, whatever else it was poked for. */
static inline uint32_t taken_in_hand(struct drama *d, uint32_t handler, const struct mpb_submission *s)
{
    CHECK(mpb_submit(&d->p[0], s) >= 0);
    atomic_exchange(&d->w.core.doorbells->handler[handler].poke, 0);
    int64_t entry = mpb_handler_claim(&d->h[handler], false);
    CHECK(entry >= 0);
    return (uint32_t)entry;
}

/* Away with a request that nobody serves here. */
static inline void dismissed_by(struct drama *d, uint32_t handler, uint32_t entry)
{
    CHECK_EQ(state_of(&d->w, entry), MPB_E_CLAIMED);
    mpb_answer_nothing(&d->h[handler], entry, MPB_ANSWER_NONE);
    CHECK_EQ(mpb_collect(&d->p[0]), entry);
    CHECK(mpb_sent(&d->p[0], entry, 1, false));
}

static inline struct mpb_partition_copy *copy_in_force(const struct drama *d, uint32_t ordinal)
{
    struct mpb_partition *row = &d->w.core.partitions[ordinal];
    return &row->copy[mpb_load_relaxed(&row->selector) & 1];
}

#define HOLD(d, condition)                                                                                         \
    do {                                                                                                           \
        checks_made++;                                                                                             \
        if (!(condition)) {                                                                                        \
            fprintf(stderr, "%s, killed after %ld (and %ld) instructions: %s does not hold (%s:%d)\n", (d)->scene, \
                    (d)->at, (d)->again, #condition, __FILE__, __LINE__);                                          \
            exit(1);                                                                                               \
        }                                                                                                          \
    } while (0)

/* A request that was surely given to the broker: it must be answered exactly once, unless its processor dies. */
static int64_t ask(struct drama *d, int processor, uint32_t plane, uint32_t id, uint32_t length)
{
    int64_t entry = submit(&d->p[processor], plane, id, length);
    HOLD(d, entry >= 0);
    d->submitted[id] = 1;
    d->must_answer[id] = 1;
    return entry;
}

/* Under a discipline of several classes; successors and survivors go back to `fifo`, as after a switch. */
static inline void use(struct drama *d, uint32_t discipline)
{
    for (int i = 0; i < 2; i++)
        CHECK(mpb_processor_use(&d->p[i], discipline));
    for (int i = 0; i < COORDINATOR; i++)
        d->h[i].chooser.discipline = discipline;
}

static uint32_t id_of(const struct drama *d, int64_t entry) { return d->w.core.entries[entry].connection; }

/* Answers as a real handler would, in a way that depends on the request. */
static void execute(struct drama *d, struct mpb_handler *h, int64_t entry)
{
    uint32_t id = id_of(d, entry), n = id % 4;
    uint8_t bytes[300];
    struct mpb_entry *e = &d->w.core.entries[entry];
    HOLD(d, state_of(&d->w, (uint32_t)entry) == MPB_E_CLAIMED);
    HOLD(d, is_for_group(id) == h->is_coordinator);
    HOLD(d, memcmp(mpb_payload(&d->w.core, e) + 4, (uint8_t[]){0, 0, 0, (uint8_t)id}, 4) == 0);
    for (uint32_t i = 12; i < e->payload_length; i += 97)
        HOLD(d, mpb_payload(&d->w.core, e)[i] == (uint8_t)id);
    d->executed[id]++;
    memset(bytes, (int)id, n == 2 ? 300 : 100);
    if (n == 1) {
        HOLD(d, mpb_cells_ensure(h, (uint32_t)entry, 3));
        struct mpb_cell *cell = mpb_cell(&d->w.core, (uint32_t)entry, 2);
        HOLD(d, cell != NULL && (mpb_load_acquire(&cell->tag) == 0 || mpb_load_acquire(&cell->tag) == e->fill_number));
        cell->ordinal = id;
        mpb_store_release(&cell->tag, e->fill_number);
    }
    if (n < 2)
        HOLD(d, mpb_answer_bytes(h, (uint32_t)entry, MPB_ANSWER_INLINE, bytes, 100));
    else if (n == 2)
        HOLD(d, mpb_answer_bytes(h, (uint32_t)entry, MPB_ANSWER_INLINE, bytes, 300));
    else
        mpb_answer_nothing(h, (uint32_t)entry, MPB_ANSWER_NONE);
}

static bool work_handler(struct drama *d, int index)
{
    bool moved = false;
    int64_t entry;
    while ((entry = mpb_handler_claim(&d->h[index], false)) != MPB_CLAIM_NOTHING) {
        if (entry == MPB_CLAIM_POKED)
            atomic_exchange(&d->w.core.doorbells->handler[index].poke, 0);
        else if (!mpb_handler_hand_over(&d->h[index], (uint32_t)entry))
            execute(d, &d->h[index], entry);
        moved = true;
    }
    return moved;
}

/* What arrives is what its last handler wrote: nobody was given the same room meanwhile. */
static void check_answer(struct drama *d, uint32_t entry)
{
    struct mpb_entry *e = &d->w.core.entries[entry];
    uint32_t id = e->connection;
    uint32_t numbers[2] = {e->answer_extent, e->cells_extent};
    for (int i = 0; i < 2; i++) /* an extent that is still this entry's */
        HOLD(d, numbers[i] == 0 || mpb_load_acquire(&d->w.core.extents[numbers[i] - 1]) >> 47 == entry + 1);
    if (id % 4 == 1 && e->answer_kind != MPB_ANSWER_CLOSE) {
        struct mpb_cell *cell = mpb_cell(&d->w.core, entry, 2);
        HOLD(d, cell != NULL && mpb_load_acquire(&cell->tag) == e->fill_number && cell->ordinal == id);
    }
    const uint8_t *bytes = e->answer_extent ? d->w.core.arena + e->answer_offset : e->answer_bytes;
    for (uint32_t i = 0; i < e->answer_length; i += 33)
        HOLD(d, e->answer_kind == MPB_ANSWER_CLOSE || bytes[i] == (uint8_t)id);
}

static bool work_processor(struct drama *d, int index)
{
    bool moved = false;
    int64_t entry;
    for (uint32_t i = 0; i < d->p[index].entries; i++) /* what it parked because the plane was full */
        moved |= state_of(&d->w, d->p[index].first_entry + i) == MPB_E_FILL &&
                 mpb_retry(&d->p[index], d->p[index].first_entry + i) >= 0;
    while ((entry = mpb_collect(&d->p[index])) >= 0) {
        uint32_t id = id_of(d, entry);
        HOLD(d, d->submitted[id]);
        HOLD(d, ++d->answered[id] == 1);
        check_answer(d, (uint32_t)entry);
        HOLD(d, mpb_sent(&d->p[index], (uint32_t)entry, 1, false));
        moved = true;
    }
    return moved;
}

static bool work_controller(struct drama *d, unsigned handlers)
{
    bool moved = false;
    int64_t command;
    while (!d->no_controller && (command = mpb_command_claim(&d->w.core, MPB_SLOT_CONTROLLER)) >= 0) {
        d->commands_executed[d->w.core.commands[command].operation % MAX_IDS]++;
        HOLD(d, mpb_command_complete(&d->w.core, MPB_SLOT_CONTROLLER, (uint32_t)command, "done", 4, 1));
        moved = true;
    }
    for (uint32_t h = 0; h < CAST; h++)
        for (int64_t i;
             (handlers >> h & 1) && (i = mpb_command_answered(&d->w.core, mpb_handler_slot(&d->w.core, h), 0)) >= 0;
             moved = true)
            HOLD(d, mpb_command_free(&d->w.core, mpb_handler_slot(&d->w.core, h), (uint32_t)i));
    return moved;
}

/* Everybody alive works until nothing moves. `handlers`, `processors`: bit masks of those that may. */
static inline void drain(struct drama *d, unsigned handlers, unsigned processors)
{
    bool moved = true;
    for (int turn = 0; moved; turn++) {
        HOLD(d, turn < 1000);
        moved = work_controller(d, handlers);
        for (int i = 0; i < CAST; i++)
            moved |= (handlers >> i & 1) && work_handler(d, i);
        for (int i = 0; i < 2; i++)
            moved |= (processors >> i & 1) && work_processor(d, i);
    }
}

/* A successor takes a slot: private state from shared memory alone. `recover` runs afterwards. */
static inline void replace_processor(struct drama *d, int index)
{
    mpb_processor_close(&d->p[index]);
    uint32_t slot = MPB_SLOT_PROCESSORS + (uint32_t)index;
    mpb_add_relaxed(&d->w.core.processes[slot].incarnation, 1);
    CHECK_EQ(mpb_processor_open(&d->p[index], &d->w.core, (uint32_t)index), 0);
    for (uint32_t id = 0; id < MAX_IDS; id++) /* its connections are gone with it */
        d->must_answer[id] &= (uint8_t)(id % 2 != (uint32_t)index);
}

static inline void replace_handler(struct drama *d, int index)
{
    mpb_handler_close(&d->h[index]);
    mpb_add_relaxed(&d->w.core.processes[mpb_handler_slot(&d->w.core, (uint32_t)index)].incarnation, 1);
    handler_open(d, index);
}

/* What the request rules promise when nothing is in flight any more. */
static inline void check_rest(struct drama *d)
{
    struct mpb_core *core = &d->w.core;
    for (uint32_t id = 0; id < MAX_IDS; id++) {
        HOLD(d, d->answered[id] <= 1);
        HOLD(d, d->answered[id] == 1 || !d->must_answer[id]);
    }
    for (uint32_t i = 0; i < core->entry_count; i++)
        HOLD(d, state_of(&d->w, i) == MPB_E_FREE);
    for (int h = 0; h < CAST; h++) {
        mpb_extents_idle(&d->h[h].extents, 0);
        HOLD(d, d->h[h].extents.units.used == 0);
        for (uint32_t i = 0; i < 64; i++)
            HOLD(d, mpb_load_relaxed(&core->extents[(uint32_t)h * MPB_EXTENTS_PER_HANDLER + i]) == 0);
        HOLD(d, mpb_load_relaxed(&core->doorbells->handler_mark[h].in_hand) == 0);
    }
    for (int p = 0; p < 2; p++) {
        HOLD(d, d->p[p].arena.units.used == 0);
        HOLD(d, d->p[p].free_count == d->p[p].entries);
        HOLD(d, d->p[p].queued_bytes == 0);
        struct mpb_counter_row *counts = &core->counters[d->p[p].slot]; /* once each, wherever it died */
        uint64_t received = mpb_load_relaxed(&counts->value[MPB_C_REQUESTS_RECEIVED]);
        HOLD(d, mpb_load_relaxed(&counts->value[MPB_C_REQUESTS_FINISHED]) == received);
    }
    for (uint32_t r = 0; r < MPB_MAX_RINGS; r++) {
        struct mpb_ring ring = mpb_ring_view(core, r);
        HOLD(d, mpb_ring_empty(&ring));
        HOLD(d, mpb_ring_depth(&ring) == 0);
    }
    for (uint32_t i = 0; i < core->command_count; i++)
        HOLD(d, mpb_state_of(mpb_load_relaxed(&core->commands[i].state)) == MPB_E_FREE ||
                    mpb_state_of(mpb_load_relaxed(&core->commands[i].state)) == MPB_E_DONE);
}

/* After the peace: the machine still takes its full load. */
static inline void refill(struct drama *d)
{
    for (uint32_t i = 0; i < 4; i++)
        ask(d, (int)i % 2, MPB_PLANE_DATA, (i < 2 ? 32 : 28) + i, i < 2 ? 2000 : 100); /* two of them for groups */
    HOLD(d, submit(&d->p[0], MPB_PLANE_DATA, 40, 100) == MPB_PLANE_FULL);              /* I: the bound is exact */
    HOLD(d, mpb_abandon(&d->p[0], d->p[0].parked));
    drain(d, ALL_HANDLERS, 3);
    check_rest(d);
}

#endif
