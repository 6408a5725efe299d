#include "trace/trace_lane.h"
#include <errno.h>
#include <unistd.h>

int mpb_lane_format(void *base, size_t bytes, uint64_t capacity, uint32_t processor, uint64_t boot_id)
{
    struct mpb_lane_header *h = base;
    if (capacity == 0 || (capacity & (capacity - 1)) != 0 || bytes < mpb_lane_bytes(capacity))
        return -1;
    h->version = MPB_LAYOUT_VERSION;
    h->processor = processor;
    h->boot_id = boot_id;
    h->capacity = capacity;
    mpb_step();
    h->magic = MPB_MAGIC_LANE;
    return 0;
}

int mpb_lane_attach(struct mpb_lane *lane, void *base, size_t bytes)
{
    struct mpb_lane_header *h = base;
    if (bytes < sizeof *h)
        return -1;
    if (h->magic != MPB_MAGIC_LANE)
        return -2;
    if (h->version != MPB_LAYOUT_VERSION)
        return -3;
    uint64_t capacity = h->capacity;
    if (capacity == 0 || (capacity & (capacity - 1)) != 0 || capacity > (bytes - sizeof *h) / MPB_TRACE_BYTES)
        return -4;
    lane->header = h;
    lane->records = (struct mpb_trace *)((uint8_t *)base + sizeof *h);
    lane->capacity = capacity;
    lane->sample_shift = 0;
    lane->slow_ticks = MPB_TRACE_NOT_REACHED;
    lane->bell_fd = -1;
    return 0;
}

static uint64_t accounted(struct mpb_lane_header *h) /* writer only */
{
    return mpb_load_relaxed(&h->written) + mpb_load_relaxed(&h->dropped) + mpb_load_relaxed(&h->sampled_out);
}

/* The request whose record was being written when its processor died. Rows that were never used are left alone: a look gives
 * each page of theirs memory, and the table is laid out for as many processors as there can be. */
static void unstamp(struct mpb_core *core, uint64_t fill_number)
{
    uint32_t rows = core->header->entries_per_processor;
    for (uint32_t p = 0; p < core->header->processor_count; p++) {
        uint32_t used = mpb_load_acquire(&core->doorbells->processor_mark[p].entries_high);
        for (struct mpb_entry *e = core->entries + p * rows, *end = e + (used < rows ? used : rows); e < end; e++)
            if (e->fill_number == fill_number)
                mpb_trace_of(e->trace)->t0_ns = 0;
    }
}

void mpb_lane_adopt(struct mpb_core *core, struct mpb_lane *lane)
{
    struct mpb_lane_header *h = lane->header;
    uint64_t total = accounted(h);
    if (core != NULL && h->committing != 0 && total != h->committing_base)
        unstamp(core, h->committing);
    mpb_step();
    h->committing = 0;
    mpb_store_release(&h->finished, total);
}

static uint16_t saturate16(uint64_t n) { return (uint16_t)(n > 0xFFFF ? 0xFFFF : n); }

static void complete_record(struct mpb_trace *t, const struct mpb_lane *lane, struct mpb_entry *entry, uint16_t flags)
{
    uint32_t attempts = mpb_load_relaxed(&entry->attempts) & 0xff;
    t->conn_id = mpb_trace_connection(lane->header->processor, entry->connection_generation);
    t->corr_id = entry->correlation_id;
    t->api_key = entry->api_key;
    t->api_version = entry->api_version;
    t->req_bytes = entry->payload_length + 4;
    t->resp_bytes = entry->answer_kind == MPB_ANSWER_INLINE || entry->answer_kind == MPB_ANSWER_EXTENT
                        ? entry->answer_length
                        : 0;
    t->listener = (uint8_t)entry->listener;
    t->plane_prio = (uint8_t)((entry->plane & 3) | (entry->ring_class & 7) << 2);
    t->error = (int16_t)entry->error;
    t->proc_id = saturate16(lane->header->processor);
    t->attempts = (uint8_t)attempts;
    t->flags |= flags | (attempts ? MPB_TF_REDISPATCHED : 0);
}

static uint64_t ticks_or_0(uint32_t ticks) { return ticks == MPB_TRACE_NOT_REACHED ? 0 : ticks; }

bool mpb_trace_is_slow(const struct mpb_trace *t, uint32_t slow_ticks)
{
    uint64_t taken = ticks_or_0(t->rx_wait) + ticks_or_0(t->stage[MPB_STAGE_SEND_DONE]);
    if (t->purg_kind == MPB_PURG_FETCH && t->stage[MPB_STAGE_PURG_LEAVE] != MPB_TRACE_NOT_REACHED)
        taken -= t->stage[MPB_STAGE_PURG_LEAVE] - ticks_or_0(t->stage[MPB_STAGE_PURG_ENTER]);
    return slow_ticks != MPB_TRACE_NOT_REACHED && taken >= slow_ticks;
}

static bool is_wanted_always(const struct mpb_lane *lane, const struct mpb_trace *t)
{
    bool timed_out = (t->flags & MPB_TF_PURG_TIMEOUT) && t->purg_kind != MPB_PURG_FETCH;
    return t->error != 0 || (t->plane_prio & 3) != 0 || (t->flags & (MPB_TF_ABORTED | MPB_TF_REDISPATCHED)) ||
           timed_out || mpb_trace_is_slow(t, lane->slow_ticks);
}

/* Every bit of the result depends on every bit of the request's name: clients count in steps of their own. */
static uint32_t sample_hash(const struct mpb_trace *t)
{
    uint32_t h = (uint32_t)t->corr_id ^ t->conn_id * 2654435761u;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* Keep or sample out; a kept record says how many requests it stands for. A successor may decide this anew, with another
 * shift, for a commit that its predecessor began: nothing of the earlier decision may stay. */
static bool keep(const struct mpb_lane *lane, struct mpb_trace *t)
{
    uint32_t shift = lane->sample_shift;
    t->flags &= (uint16_t)~(MPB_TF_KEPT | 0xFu << MPB_TF_SAMPLE_SHIFT);
    if (shift == 0)
        return true;
    if (is_wanted_always(lane, t)) {
        t->flags |= MPB_TF_KEPT;
        return true;
    }
    if (sample_hash(t) & ((1u << shift) - 1))
        return false;
    t->flags |= (uint16_t)(shift << MPB_TF_SAMPLE_SHIFT);
    return true;
}

static void count(mpb_atomic64 *counter)
{
    mpb_store_release(counter, mpb_load_relaxed(counter) + 1); /* one writer: no locked instruction */
}

/* The reader looks five times a second, and a lane may fill in less. A full eventfd has been rung. */
static void ring(const struct mpb_lane *lane)
{
    const uint64_t one = 1;
    while (write(lane->bell_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void write_record(struct mpb_lane *lane, const struct mpb_trace *t)
{
    struct mpb_lane_header *h = lane->header;
    uint64_t written = mpb_load_relaxed(&h->written), held = written - mpb_load_acquire(&h->drained);
    if (held >= lane->capacity) {
        count(&h->dropped);
        return;
    }
    struct mpb_trace *slot = &lane->records[written & (lane->capacity - 1)];
    memcpy(slot, t, sizeof *slot);
    slot->kind = MPB_TRACE_REQUEST;
    slot->seq_lo = (uint32_t)written;
    count(&h->written); /* the record exists from here on */
    if (held + 1 == lane->capacity / 2 && lane->bell_fd >= 0)
        ring(lane);
}

void mpb_trace_commit(struct mpb_lane *lane, struct mpb_entry *entry, uint16_t flags)
{
    struct mpb_trace *t = mpb_trace_of(entry->trace);
    if (lane == NULL || t->t0_ns == 0)
        return;
    struct mpb_lane_header *h = lane->header;
    complete_record(t, lane, entry, flags);
    h->committing_base = accounted(h);
    mpb_step(); /* base first: a half-stored pair must read as "not counted", or name an entry that is marked */
    h->committing = entry->fill_number;
    mpb_step();
    if (keep(lane, t))
        write_record(lane, t);
    else
        count(&h->sampled_out);
    mpb_step();
    t->t0_ns = 0;
    mpb_step();
    mpb_store_release(&h->finished, accounted(h));
}

void mpb_lane_put(struct mpb_lane *lane, const struct mpb_trace *record)
{
    write_record(lane, record);
    mpb_store_release(&lane->header->finished, accounted(lane->header));
}

struct mpb_lane_span mpb_lane_peek(const struct mpb_lane *lane, uint64_t max)
{
    struct mpb_lane_header *h = lane->header;
    uint64_t drained = mpb_load_relaxed(&h->drained);
    uint64_t ready = mpb_load_acquire(&h->written) - drained;
    uint64_t at = drained & (lane->capacity - 1);
    if (ready > lane->capacity) /* the words contradict each other: nothing can be trusted */
        ready = 0;
    if (ready > max)
        ready = max;
    if (ready > lane->capacity - at)
        ready = lane->capacity - at;
    return (struct mpb_lane_span){&lane->records[at], ready};
}

void mpb_lane_release(struct mpb_lane *lane, uint64_t count)
{
    struct mpb_lane_header *h = lane->header;
    uint64_t drained = mpb_load_relaxed(&h->drained);
    uint64_t ready = mpb_load_acquire(&h->written) - drained;
    mpb_store_release(&h->drained, drained + (count < ready ? count : ready));
}

bool mpb_lane_seek(struct mpb_lane *lane, uint64_t position)
{
    struct mpb_lane_header *h = lane->header;
    if (position < mpb_load_relaxed(&h->drained) || position > mpb_load_acquire(&h->written))
        return false;
    mpb_store_release(&h->drained, position);
    return true;
}

struct mpb_lane_counters mpb_lane_read_counters(const struct mpb_lane *lane)
{
    struct mpb_lane_header *h = lane->header;
    struct mpb_lane_counters c;
    c.finished = mpb_load_acquire(&h->finished);
    c.drained = mpb_load_acquire(&h->drained);
    c.written = mpb_load_acquire(&h->written);
    c.dropped = mpb_load_acquire(&h->dropped);
    c.sampled_out = mpb_load_acquire(&h->sampled_out);
    return c;
}
