/* A trace lane: single producer (a processor, or its successor in the slot), single consumer (the tracer). A full lane
 * drops the record and counts it; it never blocks a request.
 *
 * At every instruction: finished = written + dropped + sampled_out, give or take the one request whose commit is under
 * way; a reader that loads `finished` before the other three never sees more finished than accounted for.
 *
 * Killed in the middle of a commit: one store to one counter (written, dropped or sampled_out) decides. The lane keeps
 * the fill number of the commit under way and the sum of the counters before it, so a successor knows whether that
 * request was counted, and recovery, which commits every entry it finds, counts none twice and forgets none. */
#ifndef MPB_TRACE_LANE_H
#define MPB_TRACE_LANE_H

#include "shm/core.h"
#include "trace/trace_record.h"

#define MPB_MAGIC_LANE 0x656e616c62706dull /* "mpblane" */

struct mpb_lane { /* one process's view */
    struct mpb_lane_header *header;
    struct mpb_trace *records;
    uint64_t capacity;
    /* Of ordinary requests one in 2^sample_shift is kept and stands for so many; kept in any case, with MPB_TF_KEPT and
     * for itself alone: what came over the control plane, failed, was aborted or dispatched again, timed out in a
     * purgatory (but not a Fetch: its long poll that finds nothing is the most ordinary request of an idle
     * topic), or took slow_ticks or longer. Written by the owner, which may change them at any time. */
    uint32_t sample_shift;
    uint32_t
        slow_ticks; /* of rx_wait and t0 to send_done, without a Fetch's purgatory; MPB_TRACE_NOT_REACHED: none is */
    int bell_fd; /* an eventfd that its owner writes when a record makes the lane half full, -1: none. A writer that dies
                  * before, or a reader that left it fuller than that, is not rung for: the reader looks by itself, too */
};

/* Bytes a lane of `capacity` records takes. */
static inline size_t mpb_lane_bytes(uint64_t capacity)
{
    return sizeof(struct mpb_lane_header) + capacity * MPB_TRACE_BYTES;
}

/* Writes a fresh header into zeroed memory. Returns 0, or -1 when capacity is no power of two or does not fit. */
int mpb_lane_format(void *base, size_t bytes, uint64_t capacity, uint32_t processor, uint64_t boot_id);

/* Returns 0, or a negative number: -1 too small, -2 magic, -3 version, -4 the capacity does not fit. */
int mpb_lane_attach(struct mpb_lane *lane, void *base, size_t bytes);

/* Names a connection in the records of a broker's whole life: generations count the connections of a processor's slot. */
static inline uint32_t mpb_trace_connection(uint32_t processor, uint32_t generation)
{
    return processor << 27 | (generation & 0x7FFFFFF);
}

/* A writer's first call, before any commit: completes what a killed predecessor left half done (an entry that it had
 * counted is marked so). May be killed and run again. `core` may be NULL where no entries exist. */
void mpb_lane_adopt(struct mpb_core *core, struct mpb_lane *lane);

/* Accounts for a finished request: completes the entry's record from the entry (ids, sizes, error, attempts) and puts
 * it into the lane. `flags` are or-ed in (recovery passes MPB_TF_ABORTED). Idempotent: an entry that was committed is
 * not committed again until mpb_trace_begin. `lane` NULL, or a record that was never begun: nothing happens.
 * Call it while the entry is still owned, before it becomes FREE. */
void mpb_trace_commit(struct mpb_lane *lane, struct mpb_entry *entry, uint16_t flags);

/* Accounts for one finished request whose record is complete already (tools and tests; kind and seq_lo are set here). */
void mpb_lane_put(struct mpb_lane *lane, const struct mpb_trace *record);

/* ---- reader (tracer): look at records in place, then release them */

struct mpb_lane_span {
    const struct mpb_trace *first;
    uint64_t count;
}; /* contiguous */

/* At most `max` records that were written and not released, as far as they are contiguous in memory. */
struct mpb_lane_span mpb_lane_peek(const struct mpb_lane *lane, uint64_t max);
void mpb_lane_release(struct mpb_lane *lane, uint64_t count);
/* A new tracer continues where its predecessor's file ends. Ignored unless drained <= position <= written. */
bool mpb_lane_seek(struct mpb_lane *lane, uint64_t position);
/* Whether a finished request took so long: rx_wait and t0 to send_done, without a Fetch's purgatory. */
bool mpb_trace_is_slow(const struct mpb_trace *t, uint32_t slow_ticks);

struct mpb_lane_counters {
    uint64_t finished, written, dropped, sampled_out, drained;
};
struct mpb_lane_counters mpb_lane_read_counters(const struct mpb_lane *lane);

/* ---- what a handler adds to the working copy once it has decoded the request */
static inline void mpb_trace_claimed(uint8_t trace[MPB_TRACE_BYTES], uint32_t handler)
{
    mpb_trace_of(trace)->handler_id = (uint16_t)handler;
    mpb_trace_mark(trace, MPB_STAGE_DEQUEUED);
}

static inline void mpb_trace_describe(uint8_t trace[MPB_TRACE_BYTES], uint32_t topic_hash, uint32_t partitions,
                                      uint32_t aux, uint16_t flags)
{
    struct mpb_trace *t = mpb_trace_of(trace);
    t->topic_hash = topic_hash;
    t->nparts = (uint16_t)(partitions > 0xFFFF ? 0xFFFF : partitions);
    t->aux = aux;
    t->flags |= flags;
}

#endif
