#include "request/handler.h"
#include "shm/arena.h"
#include "shm/counters.h"
#include "shm/doorbell.h"
#include "shm/inject.h"
#include "request/handed.h"
#include "request/plane.h"
#include "trace/trace_record.h"
#include "shm/waits.h"
#include <string.h>

#define FETCH_KEY 1

/* From now on somebody may wait for this handler. */
static void note_use(struct mpb_core *core, uint32_t index)
{
    mpb_atomic32 *high = &core->header->handlers_high;
    uint32_t seen = mpb_load_relaxed(high);
    while (seen < index + 1 && !atomic_compare_exchange_weak(high, &seen, index + 1))
        ;
}

int mpb_handler_open(struct mpb_handler *h, struct mpb_core *core, uint32_t index)
{
    memset(h, 0, sizeof *h);
    h->core = core;
    h->index = index;
    h->slot = mpb_handler_slot(core, index);
    h->incarnation = mpb_load_acquire(&core->processes[h->slot].incarnation);
    h->reserved = (mpb_reserved_mask(core) >> index & 1) != 0;
    h->is_coordinator = (mpb_coordinator_mask(core) >> index & 1) != 0;
    h->python_waits = true; /* until it says otherwise */
    h->awake_since_ns = mpb_trace_clock_ns();
    if (!h->is_coordinator)
        note_use(core, index);
    return mpb_extents_open(&h->extents, core, index);
}

void mpb_handler_close(struct mpb_handler *h) { mpb_extents_close(&h->extents); }

/* A handler that goes from one request to the next need not look at the clock again, unless this one came meanwhile. */
static uint64_t taken_ns(const struct mpb_handler *h, const struct mpb_entry *entry)
{
    const struct mpb_trace *t = (const struct mpb_trace *)entry->trace;
    uint64_t queued_ns = t->t0_ns + ((uint64_t)t->stage[MPB_STAGE_ENQUEUED] + 1) * (1u << MPB_TRACE_TICK_SHIFT);
    return h->served_ns != 0 && t->t0_ns != 0 && h->served_ns >= queued_ns ? h->served_ns : mpb_trace_clock_ns();
}

/* What `status` shows, and what recovery must know: which request this process executes. */
static void take_in_hand(struct mpb_handler *h, uint32_t index)
{
    const struct mpb_entry *entry = &h->core->entries[index];
    struct mpb_process *row = &h->core->processes[h->slot];
    mpb_store_release(&h->core->doorbells->handler_mark[h->index].in_hand, index + 1);
    mpb_store_relaxed(&row->request, (uint64_t)(index + 1) << 32 | (uint64_t)(uint16_t)entry->api_key << 16 |
                                         (uint16_t)entry->api_version);
    h->taken_ns = taken_ns(h, entry);
    h->served_ns = 0;
    mpb_store_relaxed(&row->request_since_ns, h->taken_ns);
    mpb_store_relaxed(&row->heartbeat_ns, h->taken_ns);
}

static void put_down(struct mpb_handler *h, uint32_t index)
{
    mpb_atomic32 *in_hand = &h->core->doorbells->handler_mark[h->index].in_hand;
    if (mpb_load_relaxed(in_hand) != index + 1)
        return;
    mpb_store_release(in_hand, 0);
    mpb_store_relaxed(&h->core->processes[h->slot].request, 0);
}

/* What a discipline that wants to know is told: the time since the request was taken in hand. */
static void measure(struct mpb_handler *h, uint32_t index)
{
    struct mpb_entry *entry = &h->core->entries[index];
    if (mpb_load_relaxed(&h->core->doorbells->handler_mark[h->index].in_hand) != index + 1)
        return;
    uint64_t now = mpb_trace_clock_ns(), took = now > h->taken_ns ? now - h->taken_ns : 1;
    entry->service_ns += (uint32_t)(took < UINT32_MAX / 2 ? took : UINT32_MAX / 2);
    if (entry->plane == MPB_PLANE_DATA)
        mpb_discipline_charge(&h->chooser, entry->ring_class, took);
}

static void begin(struct mpb_handler *h, uint32_t index)
{
    struct mpb_entry *entry = &h->core->entries[index];
    take_in_hand(h, index);
    MPB_CRASH(h->core, "handler.claimed");
    mpb_trace_stamp(entry->trace, MPB_STAGE_DEQUEUED, h->taken_ns); /* clocks cost more than all else a trace costs */
    mpb_trace_of(entry->trace)->handler_id = (uint16_t)h->index;
}

static int64_t take_handed(struct mpb_handler *h)
{
    int64_t taken = mpb_handed_take(h->core, h->slot);
    if (taken < 0)
        return MPB_CLAIM_NOTHING;
    begin(h, (uint32_t)taken);
    return taken;
}

static int64_t take_plane(struct mpb_handler *h, uint32_t plane)
{
    int64_t taken = mpb_plane_classes(h->core, plane) == 1 ? mpb_plane_take(h->core, plane, h->slot)
                                                           : mpb_discipline_take(h->core, &h->chooser, h->slot);
    if (taken < 0)
        return MPB_CLAIM_NOTHING;
    begin(h, (uint32_t)taken);
    mpb_count(h->core, h->slot, MPB_C_REQUESTS_CLAIMED, 1);
    if (mpb_space_is_wanted(h->core, plane))
        mpb_ring_want_space(h->core, plane, mpb_plane_depth(h->core, plane), h->slot);
    return taken;
}

/* By the time when the last request was taken: one that takes long itself is the last. */
static bool may_stay_dirty(struct mpb_handler *h, uint64_t poke)
{
    if (poke != MPB_POKE_DIRTY || mpb_plane_empty(h->core, MPB_PLANE_DATA))
        return false;
    if (h->dirty_since_ns == 0)
        h->dirty_since_ns = h->taken_ns;
    return h->taken_ns - h->dirty_since_ns < MPB_DIRTY_WAITS_NS;
}

int64_t mpb_handler_claim(struct mpb_handler *h, bool control_only)
{
    bool takes_data = !control_only && !h->reserved && !h->is_coordinator;
    int64_t index = h->is_coordinator ? MPB_CLAIM_NOTHING : take_plane(h, MPB_PLANE_CONTROL);
    if (index >= 0)
        return index;
    uint64_t poke = mpb_load_acquire(&h->core->doorbells->handler[h->index].poke);
    if (poke == 0 && h->is_coordinator)
        return take_handed(h);
    if (takes_data && (poke == 0 || may_stay_dirty(h, poke)))
        index = take_plane(h, MPB_PLANE_DATA);
    if (poke == 0 || index < 0)
        h->dirty_since_ns = 0;
    return poke != 0 && index < 0 ? MPB_CLAIM_POKED : index;
}

bool mpb_handler_hand_over(struct mpb_handler *h, uint32_t index)
{
    uint32_t key = (uint16_t)h->core->entries[index].api_key;
    if (key >= 128 || (h->hands_over[key / 64] >> key % 64 & 1) == 0)
        return false;
    mpb_handler_give_to_coordinator(h, index);
    return true;
}

void mpb_handler_give_to_coordinator(struct mpb_handler *h, uint32_t index)
{
    struct mpb_entry *entry = &h->core->entries[index];
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
    mpb_count(h->core, h->slot, MPB_C_REQUESTS_HANDED, 1);
    mpb_store_release(&entry->state, mpb_state_word(generation, MPB_E_HANDED, h->slot));
    MPB_CRASH(h->core, "handler.handed");
    mpb_handed_push(h->core, index);
    MPB_CRASH(h->core, "handler.handed_hinted");
    put_down(h, index);
    mpb_ring_coordinator(h->core);
}

void mpb_handler_give_back(struct mpb_handler *h, uint32_t index)
{
    struct mpb_entry *entry = &h->core->entries[index];
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
    mpb_count(h->core, h->slot, MPB_C_REQUESTS_GIVEN_BACK, 1);
    mpb_trace_again(entry->trace); /* its stages are those of the run that answers it */
    mpb_store_release(&entry->state, mpb_state_word(generation, MPB_E_REQUEUED, h->slot));
    MPB_CRASH(h->core, "handler.given_back");
    mpb_plane_requeue(h->core, index);
    MPB_CRASH(h->core, "handler.given_back_hinted");
    put_down(h, index);
    mpb_ring_data_handler(h->core, h->slot);
}

static void ring_processors(struct mpb_handler *h)
{
    if (h->unrung != 0)
        h->served_ns = 0; /* that takes time */
    for (; h->unrung != 0; h->unrung &= h->unrung - 1)
        mpb_ring_processor(h->core, (uint32_t)__builtin_ctz(h->unrung), h->slot);
    h->unrung_answers = 0;
}

void mpb_handler_ring_held(struct mpb_handler *h)
{
    h->holding = false;
    ring_processors(h);
}

static bool serve(struct mpb_handler *h, uint32_t index)
{
    if (h->core->entries[index].api_key == FETCH_KEY)
        return h->serve_fetch != NULL && h->serve_fetch(h->serve_fetch_with, index);
    return h->serve != NULL && h->serve(h->serve_with, index);
}

/* Of the words that say which rows moved; behind the poke that told of them. */
static void take_moved(struct mpb_handler *h, uint64_t poke, uint64_t moved[MPB_DIRTY_WORDS])
{
    mpb_atomic64 *dirty = h->core->doorbells->dirty[h->index];
    uint64_t rows = poke & MPB_POKE_SCAN ? UINT64_MAX : 0;
    for (uint32_t w = 0; w < MPB_DIRTY_WORDS; w++) {
        moved[w] = (poke & MPB_POKE_DIRTY) && mpb_load_relaxed(&dirty[w]) ? atomic_exchange(&dirty[w], 0) : 0;
        rows |= moved[w];
    }
    for (uint32_t i = 0; rows != 0 && i < MPB_NATIVE_WAITS; i++)
        if (h->waits[i].look_again != NULL)
            h->waits[i].look_again(h->waits[i].with, rows);
}

uint64_t mpb_handler_take_poke(struct mpb_handler *h, uint64_t moved[MPB_DIRTY_WORDS])
{
    mpb_atomic64 *word = &h->core->doorbells->handler[h->index].poke;
    uint64_t poke = mpb_load_acquire(word) ? atomic_exchange(word, 0) : 0;
    take_moved(h, poke, moved);
    return poke;
}

int64_t mpb_handler_due_ms(const struct mpb_handler *h)
{
    int64_t due_ms = INT64_MAX;
    for (uint32_t i = 0; i < MPB_NATIVE_WAITS; i++)
        if (h->waits[i].look_again != NULL && *h->waits[i].earliest_ms < due_ms)
            due_ms = *h->waits[i].earliest_ms;
    return due_ms;
}

/* A poke that says no more than which rows moved, where nothing waits in Python: false, Python has something to do. */
static bool look_again_natively(struct mpb_handler *h)
{
    uint64_t only = MPB_POKE_DIRTY, moved[MPB_DIRTY_WORDS];
    if (h->python_waits || h->is_coordinator ||
        !atomic_compare_exchange_strong(&h->core->doorbells->handler[h->index].poke, &only, 0))
        return false;
    take_moved(h, MPB_POKE_DIRTY, moved);
    h->served_ns = 0; /* that takes time */
    return mpb_handler_due_ms(h) != INT64_MIN;
}

int64_t mpb_handler_serve_or_claim(struct mpb_handler *h, bool control_only, uint64_t until_ns)
{
    int64_t index;
    h->served_ns = 0;
    for (;;) {
        index = mpb_handler_claim(h, control_only);
        bool done = index == MPB_CLAIM_POKED && look_again_natively(h);
        if (index < 0 && !done)
            break;
        if (!done)
            done = mpb_handler_hand_over(h, (uint32_t)index);
        if (!done) {
            h->serving = true;
            done = serve(h, (uint32_t)index);
            h->serving = false;
        }
        if (!done)
            break;
        if (h->taken_ns >= until_ns) {
            index = MPB_CLAIM_ENOUGH;
            break;
        }
    }
    h->holding = index >= 0 && h->is_coordinator && !mpb_handed_empty(h->core);
    if (!h->holding)
        ring_processors(h);
    h->served_ns = 0;
    return index;
}

void mpb_handler_pass_on(struct mpb_handler *h)
{
    if (h->is_coordinator) /* nobody else takes what it takes */
        return;
    if (!mpb_plane_empty(h->core, MPB_PLANE_DATA))
        mpb_ring_data_handler(h->core, h->slot);
    if (!mpb_plane_empty(h->core, MPB_PLANE_CONTROL))
        mpb_ring_control_handler(h->core, h->slot);
}

static bool nothing_to_do(struct mpb_handler *h, bool control_only)
{
    if (mpb_load_acquire(&h->core->doorbells->handler[h->index].poke) != 0)
        return false;
    if (h->is_coordinator)
        return mpb_handed_empty(h->core);
    return mpb_plane_empty(h->core, MPB_PLANE_CONTROL) && (control_only || mpb_plane_empty(h->core, MPB_PLANE_DATA));
}

enum mpb_slept mpb_handler_wait(struct mpb_handler *h, bool control_only, int64_t timeout_ns)
{
    struct mpb_process *row = &h->core->processes[h->slot];
    enum mpb_slept slept = MPB_SLEPT_WORK;
    control_only |= h->reserved;
    mpb_handler_announce(h->core, h->index);
    if (!nothing_to_do(h, control_only)) {
        mpb_handler_withdraw(h->core, h->index);
        return slept;
    }
    uint64_t before = mpb_trace_clock_ns();
    mpb_store_relaxed(&row->busy_ns, mpb_load_relaxed(&row->busy_ns) + (before - h->awake_since_ns));
    mpb_store_relaxed(&row->heartbeat_ns, before);
    mpb_store_release(&row->wait, h->is_coordinator ? MPB_WAIT_HANDED
                                  : control_only    ? MPB_WAIT_CONTROL_REQUEST
                                                    : MPB_WAIT_REQUEST);
    slept = (enum mpb_slept)mpb_handler_sleep(h->core, h->index, timeout_ns);
    mpb_store_release(&row->wait, MPB_WAIT_NONE);
    h->awake_since_ns = mpb_trace_clock_ns();
    mpb_store_relaxed(&row->idle_ns, mpb_load_relaxed(&row->idle_ns) + (h->awake_since_ns - before));
    mpb_store_relaxed(&row->heartbeat_ns, h->awake_since_ns);
    if (control_only && !h->reserved) /* a push of data may have chosen it: that wake is somebody else's */
        mpb_handler_pass_on(h);
    return slept;
}

bool mpb_handler_owns(const struct mpb_handler *h, uint32_t entry, uint32_t generation)
{
    return entry < h->core->entry_count &&
           mpb_load_acquire(&h->core->entries[entry].state) == mpb_state_word(generation, MPB_E_CLAIMED, h->slot);
}

/* The answer's fields are written: make it final, hint it, ring the processor. The entry is not ours afterwards. */
static void finish(struct mpb_handler *h, uint32_t index)
{
    struct mpb_entry *entry = &h->core->entries[index];
    struct mpb_trace *trace = mpb_trace_of(entry->trace);
    uint32_t processor = index / h->core->header->entries_per_processor;
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
    struct mpb_ring ring = mpb_ring_view(h->core, MPB_RING_RESPONSE + processor);
    if (mpb_discipline_measures(h->chooser.discipline))
        measure(h, index);
    if (trace->t0_ns != 0) {
        uint64_t now = h->io_done_ns != 0 ? h->io_done_ns : mpb_trace_clock_ns(), depth = mpb_ring_depth(&ring);
        if (trace->stage[MPB_STAGE_LOCAL_DONE] == MPB_TRACE_NOT_REACHED)
            mpb_trace_stamp(entry->trace, MPB_STAGE_LOCAL_DONE, now);
        if (trace->stage[MPB_STAGE_PURG_ENTER] != MPB_TRACE_NOT_REACHED &&
            trace->stage[MPB_STAGE_PURG_LEAVE] == MPB_TRACE_NOT_REACHED)
            mpb_trace_stamp(entry->trace, MPB_STAGE_PURG_LEAVE, now);
        mpb_trace_stamp(entry->trace, MPB_STAGE_RESP_ENQ, now);
        trace->resp_q = (uint16_t)(depth > UINT16_MAX ? UINT16_MAX : depth);
    }
    mpb_count(h->core, h->slot, MPB_C_REQUESTS_ANSWERED, 1);
    MPB_CRASH(h->core, "handler.answer_written");
    mpb_store_release(&entry->state, mpb_state_word(generation, MPB_E_DONE, h->slot));
    MPB_CRASH(h->core, "handler.done");
    mpb_ring_push_sure(&ring, mpb_hint(index, generation));
    MPB_CRASH(h->core, "handler.hinted");
    put_down(h, index);
    if (!h->serving && !h->holding) {
        mpb_ring_processor(h->core, processor, h->slot);
        return;
    }
    h->served_ns = h->io_done_ns;
    h->unrung |= 1u << processor;
    if (++h->unrung_answers >= MPB_UNRUNG_ANSWERS)
        ring_processors(h);
}

void mpb_answer_nothing(struct mpb_handler *h, uint32_t index, uint32_t kind)
{
    struct mpb_entry *entry = &h->core->entries[index];
    entry->answer_kind = kind;
    entry->answer_length = 0;
    finish(h, index);
}

/* Ties room to the entry that will be answered with it; false, with nothing changed: no word is free. */
static bool link_answer(struct mpb_handler *h, uint32_t index, uint32_t token)
{
    struct mpb_entry *entry = &h->core->entries[index];
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
    uint32_t number = mpb_extent_link(&h->extents, token, index, generation);
    if (number == MPB_NO_EXTENT)
        return false;
    entry->answer_extent = number;
    MPB_CRASH(h->core, "extent.linked");
    entry->answer_offset = mpb_extent_offset(&h->extents, token);
    return true;
}

bool mpb_answer_token(struct mpb_handler *h, uint32_t index, uint32_t kind, uint32_t token, uint32_t length)
{
    struct mpb_entry *entry = &h->core->entries[index];
    if (!link_answer(h, index, token))
        return false;
    entry->answer_kind = kind == MPB_ANSWER_INLINE ? MPB_ANSWER_EXTENT : kind;
    entry->answer_length = length;
    finish(h, index);
    return true;
}

uint8_t *mpb_answer_reserve(struct mpb_handler *h, uint32_t index, uint32_t bytes)
{
    struct mpb_entry *entry = &h->core->entries[index];
    if (bytes <= MPB_INLINE_ANSWER)
        return entry->answer_bytes;
    int64_t token = mpb_extent_take(&h->extents, bytes);
    if (token >= 0 && link_answer(h, index, (uint32_t)token))
        return h->core->arena + entry->answer_offset;
    if (token >= 0)
        mpb_extent_release(&h->extents, (uint32_t)token);
    return NULL;
}

void mpb_answer_reserved(struct mpb_handler *h, uint32_t index, uint32_t length)
{
    struct mpb_entry *entry = &h->core->entries[index];
    entry->answer_kind = entry->answer_extent != MPB_NO_EXTENT ? MPB_ANSWER_EXTENT : MPB_ANSWER_INLINE;
    entry->answer_length = length;
    finish(h, index);
}

void mpb_answer_unreserve(struct mpb_handler *h, uint32_t index)
{
    struct mpb_entry *entry = &h->core->entries[index];
    mpb_extent_free(h->core, entry->answer_extent, index);
    mpb_step();
    entry->answer_extent = MPB_NO_EXTENT;
}

bool mpb_answer_bytes(struct mpb_handler *h, uint32_t index, uint32_t kind, const void *bytes, uint32_t length)
{
    struct mpb_entry *entry = &h->core->entries[index];
    uint8_t *room = mpb_answer_reserve(h, index, length);
    if (room == NULL) {
        mpb_count(h->core, h->slot, MPB_C_NO_ANSWER_SPACE, 1);
        return false;
    }
    memcpy(room, bytes, length);
    entry->answer_kind = kind == MPB_ANSWER_INLINE && room != entry->answer_bytes ? MPB_ANSWER_EXTENT : kind;
    entry->answer_length = length;
    finish(h, index);
    return true;
}

bool mpb_cells_ensure(struct mpb_handler *h, uint32_t index, uint32_t n)
{
    struct mpb_entry *entry = &h->core->entries[index];
    if (entry->cell_count != 0)
        return entry->cell_count >= n;
    if (n == 0 || n > 65536)
        return false;
    if (n > 1) {
        uint64_t bytes = (uint64_t)(n - 1) * sizeof(struct mpb_cell);
        uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
        mpb_extent_free(h->core, entry->cells_extent, index); /* linked, but never counted, by a dead handler */
        entry->cells_extent = MPB_NO_EXTENT;
        int64_t token = mpb_extent_take(&h->extents, bytes);
        uint32_t number = MPB_NO_EXTENT;
        if (token >= 0) {
            uint64_t offset = mpb_extent_offset(&h->extents, (uint32_t)token);
            memset(h->core->arena + offset, 0, bytes); /* no old bytes may look like a tag */
            number = mpb_extent_link(&h->extents, (uint32_t)token, index, generation);
            entry->cells_offset = offset;
        }
        if (number == MPB_NO_EXTENT) {
            if (token >= 0)
                mpb_extent_release(&h->extents, (uint32_t)token);
            return false;
        }
        mpb_step();
        entry->cells_extent = number;
        MPB_CRASH(h->core, "extent.cells_linked");
    }
    mpb_step();
    entry->cell_count = n;
    return true;
}

struct mpb_cell *mpb_cell(struct mpb_core *core, uint32_t index, uint32_t i)
{
    struct mpb_entry *entry = &core->entries[index];
    if (i >= entry->cell_count)
        return NULL;
    return i == 0 ? &entry->cell : (struct mpb_cell *)(void *)(core->arena + entry->cells_offset) + (i - 1);
}

/* How the trace names it. */
static uint8_t purgatory_of(enum mpb_parked_kind kind)
{
    switch (kind) {
    case MPB_PARKED_PRODUCE:
        return MPB_PURG_PRODUCE;
    case MPB_PARKED_FETCH:
        return MPB_PURG_FETCH;
    case MPB_PARKED_CONTROLLER:
        return MPB_PURG_CONTROLLER;
    case MPB_PARKED_COORDINATOR:
        return MPB_PURG_JOIN;
    case MPB_PARKED_NOT:
        break;
    }
    return MPB_PURG_NONE;
}

void mpb_park(struct mpb_handler *h, uint32_t index, enum mpb_parked_kind kind)
{
    struct mpb_entry *entry = &h->core->entries[index];
    struct mpb_trace *trace = mpb_trace_of(entry->trace);
    entry->parked_kind = kind;
    if (trace->t0_ns != 0) {
        uint64_t now = mpb_trace_clock_ns();
        mpb_trace_stamp(entry->trace, MPB_STAGE_LOCAL_DONE, now);
        mpb_trace_stamp(entry->trace, MPB_STAGE_PURG_ENTER, now);
        trace->purg_kind = purgatory_of(kind);
    }
    if (mpb_discipline_measures(h->chooser.discipline))
        measure(h, index);
    mpb_count(h->core, h->slot, MPB_C_REQUESTS_PARKED, 1);
    MPB_CRASH(h->core, "handler.parked");
    put_down(h, index);
}

void mpb_resume(struct mpb_handler *h, uint32_t index)
{
    mpb_trace_mark(h->core->entries[index].trace, MPB_STAGE_PURG_LEAVE);
    take_in_hand(h, index);
}
