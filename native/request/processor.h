/* A processor's end of the request path: take a free entry, fill it, queue it; later collect the answer and free the
 * entry. Runs in processors only. An entry in a processor's part of the table is its own while FREE, FILL or SENDING. */
#ifndef MPB_PROCESSOR_H
#define MPB_PROCESSOR_H

#include "request/discipline.h"
#include "shm/arena.h"
#include "shm/core.h"
#include "shm/ring.h"
#include "trace/trace_lane.h"

enum { MPB_NO_ENTRY = -1, MPB_NO_SPACE = -2, MPB_NOT_PARKED = -3, MPB_POISON = -4, MPB_PLANE_FULL = -5 };

struct mpb_processor { /* private */
    struct mpb_core *core;
    uint32_t index, slot, incarnation;
    uint32_t first_entry, entries;
    uint32_t *free_stack;
    uint32_t free_count;
    uint32_t parked; /* the entry of the last MPB_PLANE_FULL */
    uint64_t queued_bytes;
    uint32_t unrung[2]; /* pushes by plane that no handler was woken for yet */
    bool batching;      /* wake handlers in mpb_processor_ring only, once per turn instead of once per push */
    bool look_again;    /* a request may wait for a handler that turns out to be busy for long */
    bool pushed;        /* since it last slept */
    uint64_t slept_ns;  /* when it first slept after a push */
    uint64_t woken_ns[MPB_MAX_HANDLERS]; /* when this processor last woke a handler */
    uint32_t discipline;                 /* enum mpb_discipline, of the listener whose requests it takes */
    struct mpb_expected *expected;       /* MPB_SHORTEST: what it learned; else NULL */
    struct mpb_arena arena;
    struct mpb_lane *lane;
    uint64_t collected_ns;   /* when it last looked at the clock for an answer, if nothing was sent since; else 0 */
    uint32_t collected_uses; /* answers collected since then */
    uint64_t filled_ns;      /* when the last entry was filled; 0: it is not traced */
};

#define MPB_MIN_FRAME_BYTES 8 /* api key, version, correlation id: no request header is shorter */

struct mpb_submission {
    uint32_t plane, listener, connection, connection_generation;
    const uint8_t *frame; /* without its 4-byte length; at least MPB_MIN_FRAME_BYTES */
    uint32_t length;
    uint64_t offset;               /* arena offset if the frame lies there already, else MPB_PAYLOAD_INLINE */
    uint64_t t0_ns, frame_done_ns; /* t0_ns 0: not traced */
    uint64_t arrival_ns;           /* when the kernel had the first byte, monotonic; 0: not known */
    uint32_t client_hash;          /* mpb_client_hash; all ones: compute it */
    uint32_t inflight;             /* requests of the connection that are in the broker already */
};

/* CRC-32C of a request's client id, 0: it has none. */
uint32_t mpb_client_hash(const uint8_t *frame, uint32_t length);

int mpb_processor_open(struct mpb_processor *p, struct mpb_core *core, uint32_t index);
void mpb_processor_close(struct mpb_processor *p);
/* Requests from now on; those that wait stay where they are. False, with nothing changed: no memory to learn in. */
bool mpb_processor_use(struct mpb_processor *p, uint32_t discipline);
/* Reads the private books (free entries, arena, bytes) from the entries. */
void mpb_processor_rebuild(struct mpb_processor *p);

/* Entry index, or a negative code. MPB_PLANE_FULL: the entry `p->parked` stays filled, waits for _retry. */
int64_t mpb_submit(struct mpb_processor *p, const struct mpb_submission *s);
/* As mpb_submit, or MPB_NOT_PARKED. */
int64_t mpb_retry(struct mpb_processor *p, uint32_t entry);
/* With `batching`: wakes handlers for what was pushed since the last call, but leaves some waiting requests to each
 * handler that is awake and works through its requests quickly: it looks at the ring again before it sleeps. True: call
 * again within a millisecond, because one of those may have begun something long, or be dead. A processor that dies before it
 * rings leaves its pushes to the ringing of its recovery. */
bool mpb_processor_ring(struct mpb_processor *p);
/* Gives up a parked entry (its connection is gone). False: it is not one. */
bool mpb_abandon(struct mpb_processor *p, uint32_t entry);

/* A reading of the clock that is as good as a new one: at most MPB_COLLECTED_USES answers were collected since. */
#define MPB_COLLECTED_USES 4u
uint64_t mpb_processor_now_ns(const struct mpb_processor *p);
/* What a caller has read just now, for the answers that it collects next. */
void mpb_processor_looked(struct mpb_processor *p, uint64_t now_ns);
/* Next finished entry (now SENDING), or -1. Answers meant for a predecessor's connections are dropped here. */
int64_t mpb_collect(struct mpb_processor *p);
/* The send ended (or was given up): trace record, extents, FREE. False: the entry is not being sent. */
bool mpb_sent(struct mpb_processor *p, uint32_t entry, uint64_t send_start_ns, bool aborted);
/* The same for a send that succeeded, for callers that know when: one reading for all answers of a send. */
bool mpb_sent_at(struct mpb_processor *p, uint32_t entry, uint64_t send_start_ns, uint64_t send_done_ns);

/* True: nothing is waiting and everybody knows this processor sleeps: it may block in epoll. */
bool mpb_processor_prepare_sleep(struct mpb_processor *p);
void mpb_processor_cancel_sleep(struct mpb_processor *p);
/* How long it may sleep at most. A handler rings for some answers together and may find its next request's disk slow:
 * while requests are in flight, this processor looks by itself after 5 ms, then whenever the wait has doubled, so that
 * no answer without a bell waits much longer than it took. */
int mpb_processor_doze_ms(struct mpb_processor *p, uint64_t now_ns, int timeout_ms);

/* Shared half of freeing: the extents it holds, then FREE with the next generation. The caller owns the entry. */
void mpb_entry_free(struct mpb_core *core, uint32_t index, uint32_t slot);
/* Counts a request as finished, once however often this is interrupted and begun again. */
void mpb_count_finished(struct mpb_processor *p, struct mpb_entry *entry);
/* For a successor, before it counts anything: completes what its predecessor was counting when it died. */
void mpb_settle_count(struct mpb_core *core, uint32_t slot, struct mpb_entry *entry);

/* Its index in the high bits, so that no two processors count in one word. Room is left below and above for the parts of
 * an operation number (command.h). A number that a dead processor took and did not use is lost. */
#define MPB_FILL_INDEX_SHIFT 48

static inline uint64_t mpb_next_fill_number(struct mpb_core *core, uint32_t processor)
{
    mpb_atomic64 *fills = &core->doorbells->processor_mark[processor].fills;
    uint64_t number = mpb_load_relaxed(fills) + 1;
    mpb_store_relaxed(fills, number); /* before its use: a successor goes on behind it */
    mpb_step();
    return (uint64_t)processor << MPB_FILL_INDEX_SHIFT | number;
}

#endif
