#include "request/processor.h"
#include "shm/counters.h"
#include "record/crc32c.h"
#include "shm/doorbell.h"
#include "shm/extent.h"
#include "shm/inject.h"
#include "request/killers.h"
#include "request/plane.h"
#include "request/request_metrics.h"
#include "trace/trace_record.h"
#include <stdlib.h>
#include <string.h>

int mpb_processor_open(struct mpb_processor *p, struct mpb_core *core, uint32_t index)
{
    memset(p, 0, sizeof *p);
    p->core = core;
    p->index = index;
    p->slot = MPB_SLOT_PROCESSORS + index;
    p->incarnation = mpb_load_acquire(&core->processes[p->slot].incarnation);
    p->entries = core->header->entries_per_processor;
    p->first_entry = index * p->entries;
    p->free_stack = malloc((p->entries + 1) * sizeof *p->free_stack);
    if (p->free_stack == NULL || mpb_arena_open(&p->arena, core, index) < 0) {
        mpb_processor_close(p);
        return -1;
    }
    mpb_processor_rebuild(p);
    return 0;
}

void mpb_processor_close(struct mpb_processor *p)
{
    free(p->free_stack);
    p->free_stack = NULL;
    free(p->expected);
    p->expected = NULL;
    if (p->arena.units.bits != NULL)
        mpb_arena_close(&p->arena);
}

bool mpb_processor_use(struct mpb_processor *p, uint32_t discipline)
{
    if (discipline == MPB_SHORTEST && p->expected == NULL && (p->expected = calloc(1, sizeof *p->expected)) == NULL)
        return false;
    mpb_plane_raise_classes(p->core, MPB_PLANE_DATA, mpb_discipline_classes(discipline));
    p->discipline = discipline;
    return true;
}

static void free_entry(struct mpb_processor *p, uint32_t index);

static void publish_gauges(struct mpb_processor *p)
{
    mpb_atomic64 *row = p->core->counters[p->slot].value;
    mpb_store_relaxed(&row[MPB_C_QUEUED_BYTES], p->queued_bytes);
    mpb_store_relaxed(&row[MPB_C_ENTRIES_IN_USE], p->entries - p->free_count);
}

void mpb_processor_rebuild(struct mpb_processor *p)
{
    uint32_t high = mpb_load_acquire(&p->core->doorbells->processor_mark[p->index].entries_high);
    p->free_count = 0;
    p->queued_bytes = 0;
    for (uint32_t i = p->entries; i-- > 0;) { /* low rows on top of the stack: the same few stay in cache */
        const struct mpb_entry *entry = &p->core->entries[p->first_entry + i];
        if (i >= high || mpb_state_of(mpb_load_acquire(&p->core->entries[p->first_entry + i].state)) == MPB_E_FREE)
            p->free_stack[p->free_count++] = p->first_entry + i;
        else
            p->queued_bytes += entry->payload_length;
    }
    mpb_arena_rebuild(&p->arena, p->first_entry, high < p->entries ? high : p->entries);
    publish_gauges(p);
}

static void begin_fill(struct mpb_processor *p, uint32_t index)
{
    struct mpb_entry *entry = &p->core->entries[index];
    mpb_atomic32 *high = &p->core->doorbells->processor_mark[p->index].entries_high;
    if (mpb_load_relaxed(high) <= index - p->first_entry)
        mpb_store_release(high, index - p->first_entry + 1); /* before the row: a successor scans below it */
    mpb_step();
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
    mpb_store_release(&entry->state, mpb_state_word(generation, MPB_E_FILL, p->slot));
    MPB_CRASH(p->core, "processor.fill");
    entry->payload_offset = MPB_PAYLOAD_INLINE;
    mpb_step();
    entry->fill_number = mpb_next_fill_number(p->core, p->index);
    entry->incarnation = p->incarnation;
    mpb_store_relaxed(&entry->phase, MPB_PHASE_NOTHING);
    mpb_store_relaxed(&entry->attempts, 0);
    entry->answer_kind = MPB_ANSWER_NONE;
    entry->answer_length = entry->answer_extent = entry->cells_extent = 0;
    entry->answer_offset = entry->cells_offset = 0;
    entry->cell_count = entry->parked_kind = 0;
    entry->error = 0;
}

static int16_t be16(const uint8_t *at) { return (int16_t)(at[0] << 8 | at[1]); }

uint32_t mpb_client_hash(const uint8_t *frame, uint32_t length)
{
    int16_t n = length >= 10 ? be16(frame + 8) : -1; /* absent, null or too long for the frame: no name */
    return n > 0 && (uint32_t)n <= length - 10 ? mpb_crc32c(0, frame + 10, (size_t)n) : 0;
}

/* A request is counted once as received and once as finished, wherever its processor dies: `received` first says which
 * counter is about to go up and to what, then the counter goes up, then the mark goes. A successor has the same counter
 * row, so it sees which of these steps were taken. A processor counts one request at a time. */
enum { MPB_COUNTING_RECEIVED = 1 << 29, MPB_COUNTING_FINISHED = 1 << 30, MPB_COUNTING_VALUE = (1 << 29) - 1 };

/* What follows the mark. */
static inline void count_marked(struct mpb_core *core, uint32_t slot, struct mpb_entry *entry, bool finished,
                                uint64_t count)
{
    if (finished)
        MPB_CRASH(core, "processor.finished.counting");
    else
        MPB_CRASH(core, "processor.received.counting");
    mpb_store_relaxed(&core->counters[slot].value[finished ? MPB_C_REQUESTS_FINISHED : MPB_C_REQUESTS_RECEIVED], count);
    mpb_step();
    if (finished)
        MPB_CRASH(core, "processor.finished.counted");
    else
        MPB_CRASH(core, "processor.received.counted");
    mpb_store_release(&entry->received, finished ? 0 : 1);
}

void mpb_settle_count(struct mpb_core *core, uint32_t slot, struct mpb_entry *entry)
{
    uint32_t mark = mpb_load_relaxed(&entry->received);
    if ((mark & (MPB_COUNTING_RECEIVED | MPB_COUNTING_FINISHED)) == 0)
        return;
    bool finished = mark & MPB_COUNTING_FINISHED;
    uint32_t counter = finished ? MPB_C_REQUESTS_FINISHED : MPB_C_REQUESTS_RECEIVED;
    uint64_t count = mpb_load_relaxed(&core->counters[slot].value[counter]);
    count_marked(core, slot, entry, finished, count + (((count ^ mark) & MPB_COUNTING_VALUE) != 0));
}

static inline void count_once(struct mpb_processor *p, struct mpb_entry *entry, uint32_t mark)
{
    bool finished = mark == MPB_COUNTING_FINISHED;
    uint32_t counter = finished ? MPB_C_REQUESTS_FINISHED : MPB_C_REQUESTS_RECEIVED;
    uint64_t next = mpb_load_relaxed(&p->core->counters[p->slot].value[counter]) + 1;
    mpb_store_release(&entry->received, mark | (uint32_t)(next & MPB_COUNTING_VALUE));
    mpb_step();
    count_marked(p->core, p->slot, entry, finished, next);
}

void mpb_count_finished(struct mpb_processor *p, struct mpb_entry *entry)
{
    count_once(p, entry, MPB_COUNTING_FINISHED);
}

static void fill_trace(struct mpb_processor *p, struct mpb_entry *entry, const struct mpb_submission *s)
{
    p->filled_ns = 0;
    mpb_trace_begin(entry->trace, s->t0_ns);
    if (s->t0_ns == 0)
        return;
    mpb_trace_of(entry->trace)->client_hash = s->client_hash == UINT32_MAX ? mpb_client_hash(s->frame, s->length)
                                                                           : s->client_hash;
    mpb_trace_of(entry->trace)->inflight = (uint8_t)(s->inflight > UINT8_MAX ? UINT8_MAX : s->inflight);
    mpb_trace_arrived(entry->trace, s->arrival_ns);
    mpb_trace_stamp(entry->trace, MPB_STAGE_FRAME_DONE, s->frame_done_ns);
    /* A small frame is looked at and copied in less time than a clock is read: one reading for both stages. */
    bool is_small = s->length <= MPB_INLINE_PAYLOAD && s->frame_done_ns >= s->t0_ns;
    p->filled_ns = is_small ? s->frame_done_ns : mpb_trace_clock_ns();
    mpb_trace_stamp(entry->trace, MPB_STAGE_PARSED, p->filled_ns);
}

/* Without traces nobody has looked at the clock or the client's name yet. */
static void classify(struct mpb_processor *p, struct mpb_entry *entry, const struct mpb_submission *s)
{
    bool traced = s->t0_ns != 0;
    uint32_t client_hash = 0;
    if (p->discipline == MPB_FAIR)
        client_hash = traced ? mpb_trace_of(entry->trace)->client_hash : mpb_client_hash(s->frame, s->length);
    uint64_t arrived_ns = traced ? s->t0_ns : mpb_trace_clock_ns();
    entry->service_ns = 0;
    entry->ring_class = (uint8_t)mpb_class_of(p->discipline, entry, client_hash, arrived_ns, p->expected);
}

static void fill(struct mpb_processor *p, uint32_t index, const struct mpb_submission *s, uint64_t offset)
{
    struct mpb_entry *entry = &p->core->entries[index];
    begin_fill(p, index);
    entry->payload_length = s->length;
    entry->payload_units = offset == MPB_PAYLOAD_INLINE ? 0 : mpb_units_for(&p->arena.units, s->length);
    mpb_step();
    entry->payload_offset = offset;
    entry->connection = s->connection;
    entry->connection_generation = s->connection_generation;
    entry->api_key = be16(s->frame);
    entry->api_version = be16(s->frame + 2);
    entry->correlation_id = (int32_t)((uint32_t)s->frame[4] << 24 | (uint32_t)s->frame[5] << 16 | s->frame[6] << 8 |
                                      s->frame[7]);
    entry->listener = (uint16_t)s->listener;
    entry->plane = (uint8_t)s->plane;
    entry->ring_class = 0;
    if (s->offset == MPB_PAYLOAD_INLINE) /* else it was received straight into the arena */
        memcpy(offset == MPB_PAYLOAD_INLINE ? entry->payload_bytes : p->core->arena + offset, s->frame, s->length);
    fill_trace(p, entry, s);
    if (p->discipline > MPB_PLANE_ALONE && s->plane == MPB_PLANE_DATA)
        classify(p, entry, s);
    p->queued_bytes += s->length;
    MPB_CRASH(p->core, "processor.filled");
}

/* `now_ns` 0: a while has passed, look at the clock. */
static bool push_within(struct mpb_processor *p, uint32_t index, uint64_t now_ns, uint64_t bound)
{
    struct mpb_entry *entry = &p->core->entries[index];
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
    uint64_t depth = mpb_plane_depth(p->core, entry->plane);
    if (depth >= bound && (depth = mpb_plane_drop_stale(p->core, entry->plane)) >= bound)
        return false;
    mpb_trace_of(entry->trace)->req_q = (uint16_t)(depth > UINT16_MAX ? UINT16_MAX : depth);
    if (now_ns != 0) /* before the push: afterwards the entry is not ours */
        mpb_trace_stamp(entry->trace, MPB_STAGE_ENQUEUED, now_ns);
    else
        mpb_trace_mark(entry->trace, MPB_STAGE_ENQUEUED);
    mpb_store_release(&entry->state, mpb_state_word(generation, MPB_E_QUEUED, p->slot));
    MPB_CRASH(p->core, "processor.published");
    if (mpb_plane_push(p->core, index) == 0)
        return true;
    mpb_store_release(&entry->state, mpb_state_word(generation, MPB_E_FILL, p->slot)); /* no hint: nobody saw it */
    return false;
}

static uint64_t others_pushing(const struct mpb_processor *p)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < p->core->header->processor_count; i++)
        count += i != p->index && mpb_load_acquire(&p->core->doorbells->processor_mark[i].pushing) != 0;
    return count;
}

/* A single ring cannot hold more than its bound. Several can: each processor says that it is about to push before it
 * counts what waits, and leaves room for the others that say so. They are asked only where there might be no room for all,
 * and before the rings: whoever has pushed by then is counted there. */
static bool push_into_one_of(struct mpb_processor *p, uint32_t index, uint64_t now_ns, uint64_t bound)
{
    uint32_t plane = p->core->entries[index].plane;
    mpb_atomic32 *pushing = &p->core->doorbells->processor_mark[p->index].pushing;
    mpb_store_release(pushing, 1);
    mpb_fence_full();
    MPB_CRASH(p->core, "processor.pushing");
    uint64_t others = mpb_plane_depth(p->core, plane) + p->core->header->processor_count <= bound ? 0
                                                                                                  : others_pushing(p);
    bool pushed = others < bound && push_within(p, index, now_ns, bound - others);
    mpb_store_release(pushing, 0);
    return pushed;
}

static bool push_once(struct mpb_processor *p, uint32_t index, uint64_t now_ns)
{
    uint32_t plane = p->core->entries[index].plane;
    uint64_t bound = p->core->header->plane_bound[plane];
    return mpb_plane_classes(p->core, plane) == 1 ? push_within(p, index, now_ns, bound)
                                                  : push_into_one_of(p, index, now_ns, bound);
}

static void ring_each(struct mpb_processor *p)
{
    for (; p->unrung[MPB_PLANE_CONTROL] > 0; p->unrung[MPB_PLANE_CONTROL]--)
        mpb_ring_control_handler(p->core, p->slot);
    for (; p->unrung[MPB_PLANE_DATA] > 0; p->unrung[MPB_PLANE_DATA]--)
        mpb_ring_data_handler(p->core, p->slot);
}

static int64_t push(struct mpb_processor *p, uint32_t index, uint64_t now_ns)
{
    uint32_t plane = p->core->entries[index].plane;
    if (!push_once(p, index, now_ns)) {
        mpb_want_space(p->core, plane, p->index);
        if (!push_once(p, index, 0)) {
            mpb_count(p->core, p->slot, MPB_C_PLANE_FULL, 1);
            p->parked = index;
            return MPB_PLANE_FULL;
        }
    }
    MPB_CRASH(p->core, "processor.pushed");
    p->unrung[plane]++;
    p->pushed = true;
    if (!p->batching)
        ring_each(p);
    return index;
}

enum { MPB_TRUST_FEW = 2, MPB_TRUST_MANY = 8 };
#define MPB_TRUST_NS 300000ull
#define MPB_TRUST_FRESH_NS 30000ull

/* How many waiting requests may be left to a handler that is awake: many while it shows that its requests are short,
 * none when it took its last one a while ago. */
static uint32_t trust(const struct mpb_processor *p, uint32_t handler, uint64_t now_ns)
{
    const struct mpb_process *row = &p->core->processes[mpb_handler_slot(p->core, handler)];
    if (now_ns <
        p->woken_ns[handler] + MPB_TRUST_FRESH_NS) /* our own memory first: the row is in the handler's cache */
        return MPB_TRUST_MANY;
    uint64_t latest = mpb_load_relaxed(&row->request_since_ns);
    if (mpb_load_relaxed(&row->heartbeat_ns) > latest)
        latest = mpb_load_relaxed(&row->heartbeat_ns);
    if (now_ns < latest + MPB_TRUST_FRESH_NS)
        return MPB_TRUST_MANY;
    return now_ns < latest + MPB_TRUST_NS || now_ns < p->woken_ns[handler] + MPB_TRUST_NS ? MPB_TRUST_FEW : 0;
}

/* Waiting requests that handlers awake will take soon; counts no further than `depth`. */
static uint64_t trusted_requests(const struct mpb_processor *p, uint64_t now_ns, uint64_t depth)
{
    const struct mpb_core *core = p->core;
    uint64_t awake = mpb_used_mask(core) & ~mpb_apart_mask(core) & ~atomic_load(&core->doorbells->sleepers), count = 0;
    for (; awake != 0 && count < depth; awake &= awake - 1)
        count += trust(p, (uint32_t)__builtin_ctzll(awake), now_ns);
    return count;
}

static bool ring_control(struct mpb_processor *p, bool again)
{
    uint32_t pushes = p->unrung[MPB_PLANE_CONTROL];
    p->unrung[MPB_PLANE_CONTROL] = 0;
    if (pushes == 0 && again && mpb_plane_depth(p->core, MPB_PLANE_CONTROL) > 0)
        pushes = 1; /* who was woken has not come: perhaps it is dead or stopped */
    for (uint32_t i = 0; i < pushes; i++)
        mpb_ring_control_handler(p->core, p->slot);
    return pushes > 0;
}

static bool ring_data(struct mpb_processor *p, bool again)
{
    uint64_t depth = p->unrung[MPB_PLANE_DATA] > 0 || again ? mpb_plane_depth(p->core, MPB_PLANE_DATA) : 0;
    p->unrung[MPB_PLANE_DATA] = 0;
    if (depth == 0)
        return false;
    mpb_fence_full(); /* pushed before, asked after: a handler about to sleep is seen or sees the push */
    uint64_t now_ns = mpb_trace_clock_ns(), trusted = trusted_requests(p, now_ns, depth);
    while (trusted < depth) {
        int handler = mpb_ring_data_handler(p->core, p->slot);
        if (handler < 0)
            return false; /* nobody sleeps */
        p->woken_ns[handler] = now_ns;
        trusted += MPB_TRUST_MANY;
    }
    return true;
}

bool mpb_processor_ring(struct mpb_processor *p)
{
    bool again = p->look_again;
    p->look_again = ring_control(p, again);
    p->look_again |= ring_data(p, again);
    return p->look_again;
}

int64_t mpb_submit(struct mpb_processor *p, const struct mpb_submission *s)
{
    int64_t offset = s->offset == MPB_PAYLOAD_INLINE ? -1 : (int64_t)s->offset;
    if (mpb_killer_known(p->core, s->frame, s->length)) {
        mpb_count(p->core, p->slot, MPB_C_FRAMES_REFUSED, 1);
        return MPB_POISON;
    }
    if (p->free_count == 0) {
        mpb_count(p->core, p->slot, MPB_C_NO_ENTRY, 1);
        return MPB_NO_ENTRY;
    }
    if (offset < 0 && s->length > MPB_INLINE_PAYLOAD) {
        offset = mpb_arena_take(&p->arena, s->length);
        if (offset < 0) {
            mpb_count(p->core, p->slot, MPB_C_NO_ARENA_SPACE, 1);
            return MPB_NO_SPACE;
        }
    }
    uint32_t index = p->free_stack[--p->free_count];
    fill(p, index, s, offset < 0 ? MPB_PAYLOAD_INLINE : (uint64_t)offset);
    count_once(p, &p->core->entries[index], MPB_COUNTING_RECEIVED);
    mpb_count(p->core, p->slot, MPB_C_BYTES_RECEIVED, s->length + 4u);
    publish_gauges(p);
    return push(p, index, p->filled_ns);
}

static bool is_mine(const struct mpb_processor *p, uint32_t index, uint32_t state)
{
    if (index < p->first_entry || index >= p->first_entry + p->entries)
        return false;
    uint64_t word = mpb_load_acquire(&p->core->entries[index].state);
    return mpb_state_of(word) == state && mpb_state_owner(word) == p->slot;
}

int64_t mpb_retry(struct mpb_processor *p, uint32_t entry)
{
    return is_mine(p, entry, MPB_E_FILL) ? push(p, entry, 0) : MPB_NOT_PARKED;
}

void mpb_entry_free(struct mpb_core *core, uint32_t index, uint32_t slot)
{
    struct mpb_entry *entry = &core->entries[index];
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry->state));
    mpb_extent_free(core, entry->answer_extent, index);
    MPB_CRASH(core, "processor.free.extent");
    mpb_extent_free(core, entry->cells_extent, index);
    mpb_store_release(&entry->received, 0);
    mpb_step();
    mpb_store_release(&entry->state, mpb_state_word(generation + 1, MPB_E_FREE, slot));
    MPB_CRASH(core, "processor.freed");
}

static void free_entry(struct mpb_processor *p, uint32_t index)
{
    const struct mpb_entry *entry = &p->core->entries[index];
    mpb_entry_free(p->core, index, p->slot);
    if (entry->payload_offset != MPB_PAYLOAD_INLINE)
        mpb_arena_give(&p->arena, entry->payload_offset, entry->payload_length);
    p->queued_bytes -= entry->payload_length;
    p->free_stack[p->free_count++] = index;
    publish_gauges(p);
}

static void finish(struct mpb_processor *p, uint32_t index, uint16_t flags)
{
    struct mpb_entry *entry = &p->core->entries[index];
    mpb_request_account(p->core, p->index, entry);
    if (p->discipline == MPB_SHORTEST)
        mpb_expected_learn(p->expected, entry);
    mpb_trace_commit(p->lane, entry, flags);
    MPB_CRASH(p->core, "processor.traced");
    mpb_count_finished(p, entry);
    free_entry(p, index);
}

bool mpb_abandon(struct mpb_processor *p, uint32_t entry)
{
    if (!is_mine(p, entry, MPB_E_FILL))
        return false;
    finish(p, entry, MPB_TF_ABORTED);
    return true;
}

/* Answers that are collected together share one reading of the clock, unless it is older than the answer. */
static void stamp_collected(struct mpb_processor *p, struct mpb_entry *entry)
{
    struct mpb_trace *t = mpb_trace_of(entry->trace);
    if (t->t0_ns == 0)
        return;
    uint32_t answered = t->stage[MPB_STAGE_RESP_ENQ];
    if (p->collected_ns != 0)
        mpb_trace_stamp(entry->trace, MPB_STAGE_RESP_DEQ, p->collected_ns);
    if (p->collected_ns == 0 || answered == MPB_TRACE_NOT_REACHED || t->stage[MPB_STAGE_RESP_DEQ] < answered) {
        p->collected_ns = mpb_trace_clock_ns();
        p->collected_uses = 0;
        mpb_trace_stamp(entry->trace, MPB_STAGE_RESP_DEQ, p->collected_ns);
    }
    p->collected_uses++;
}

uint64_t mpb_processor_now_ns(const struct mpb_processor *p)
{
    return p->collected_ns != 0 && p->collected_uses <= MPB_COLLECTED_USES ? p->collected_ns : mpb_trace_clock_ns();
}

void mpb_processor_looked(struct mpb_processor *p, uint64_t now_ns)
{
    p->collected_ns = now_ns;
    p->collected_uses = 0;
}

int64_t mpb_collect(struct mpb_processor *p)
{
    struct mpb_ring ring = mpb_ring_view(p->core, MPB_RING_RESPONSE + p->index);
    for (;;) {
        int64_t index = mpb_ring_take(&ring, MPB_STATE_BIT(MPB_E_DONE), MPB_E_SENDING, p->slot);
        if (index < 0) {
            p->collected_ns = 0;
            return -1;
        }
        MPB_CRASH(p->core, "processor.collected");
        struct mpb_entry *entry = &p->core->entries[index];
        stamp_collected(p, entry);
        if (entry->incarnation == p->incarnation)
            return index;
        mpb_count(p->core, p->slot, MPB_C_DROPPED_ANSWERS, 1);
        finish(p, (uint32_t)index, MPB_TF_ABORTED);
    }
}

bool mpb_sent_at(struct mpb_processor *p, uint32_t index, uint64_t send_start_ns, uint64_t send_done_ns)
{
    p->collected_ns = 0;
    if (!is_mine(p, index, MPB_E_SENDING))
        return false;
    struct mpb_entry *entry = &p->core->entries[index];
    if (send_start_ns != 0)
        mpb_trace_stamp(entry->trace, MPB_STAGE_SEND_START, send_start_ns);
    if (send_done_ns != 0) {
        mpb_trace_stamp(entry->trace, MPB_STAGE_SEND_DONE, send_done_ns);
        mpb_count(p->core, p->slot, MPB_C_BYTES_SENT, entry->answer_length);
    }
    finish(p, index, send_done_ns != 0 ? 0 : MPB_TF_ABORTED);
    return true;
}

bool mpb_sent(struct mpb_processor *p, uint32_t index, uint64_t send_start_ns, bool aborted)
{
    return mpb_sent_at(p, index, send_start_ns, aborted ? 0 : p->lane != NULL ? mpb_trace_clock_ns() : 1);
}

bool mpb_processor_prepare_sleep(struct mpb_processor *p)
{
    struct mpb_ring ring = mpb_ring_view(p->core, MPB_RING_RESPONSE + p->index);
    mpb_atomic64 *asleep = &p->core->doorbells->processor[p->index].asleep;
    atomic_store(asleep, 1);
    mpb_fence_full();
    MPB_CRASH(p->core, "doorbell.processor.announced");
    if (mpb_ring_empty(&ring))
        return true;
    atomic_store(asleep, 0);
    return false;
}

void mpb_processor_cancel_sleep(struct mpb_processor *p)
{
    mpb_atomic64 *asleep = &p->core->doorbells->processor[p->index].asleep;
    if (mpb_load_relaxed(asleep) != 0)
        atomic_store(asleep, 0);
}

#define MPB_DOZE_MS 5

int mpb_processor_doze_ms(struct mpb_processor *p, uint64_t now_ns, int timeout_ms)
{
    if (p->pushed)
        p->slept_ns = now_ns;
    p->pushed = false;
    if (p->free_count == p->entries)
        return timeout_ms;
    uint64_t doze_ms = (now_ns - p->slept_ns) / 1000000;
    if (doze_ms < MPB_DOZE_MS)
        doze_ms = MPB_DOZE_MS;
    return doze_ms < (uint64_t)timeout_ms ? (int)doze_ms : timeout_ms;
}
