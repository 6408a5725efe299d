/* The 128-byte trace record: one request's way through the broker. The working copy lives in the request entry
 * (struct mpb_entry.trace); each owner stamps its own stages, the processor commits the record to its lane when the
 * send ends. mpbroker/trace/record.py mirrors it and tests/unit/trace/test_record.py compares the two.
 *
 *   line 0  identity, written by the processor (topic, partitions, aux: by the handler once it has decoded them)
 *   line 1  timing: 13 stages as ticks of 64 ns since t0
 *
 * Tracing off: the processor leaves t0_ns 0, and every stamp returns before it reads a clock. */
#ifndef MPB_TRACE_RECORD_H
#define MPB_TRACE_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define MPB_TRACE_BYTES 128
#define MPB_TRACE_TICK_SHIFT 6 /* a tick is 64 ns: 32 bits last 275 s */
#define MPB_TRACE_NOT_REACHED 0xFFFFFFFFu
#define MPB_TRACE_SATURATED 0xFFFFFFFEu

enum mpb_trace_kind {
    MPB_TRACE_REQUEST = 0,
    MPB_TRACE_CONN_OPEN = 1,
    MPB_TRACE_CONN_CLOSE = 2,
    MPB_TRACE_DROP_NOTICE = 3,
    MPB_TRACE_GAUGE = 4,
    MPB_TRACE_CLOCK = 5,
    MPB_TRACE_MARKER = 6,
    MPB_TRACE_PROCESS = 7,
    MPB_TRACE_ROLE_CHANGE = 8
};

enum mpb_trace_stage {                           /* in the order a request meets them */
                       MPB_STAGE_FRAME_DONE = 0, /* processor: the frame is complete (Kafka's start of TotalTimeMs) */
                       MPB_STAGE_PARSED = 1,     /* processor: header decoded */
                       MPB_STAGE_ENQUEUED =
                           2, /* processor: just before the hint is pushed (afterwards the entry is not its) */
                       MPB_STAGE_DEQUEUED = 3,      /* handler: claimed */
                       MPB_STAGE_HANDLER_START = 4, /* handler: API code begins */
                       MPB_STAGE_IO_DONE =
                           5, /* handler: last append or read of the log ended; not for a read after a purgatory */
                       MPB_STAGE_LOCAL_DONE = 6, /* handler: answered, or about to be parked */
                       MPB_STAGE_PURG_ENTER = 7,
                       MPB_STAGE_PURG_LEAVE = 8,
                       MPB_STAGE_RESP_ENQ =
                           9, /* handler: just before the response hint is pushed (afterwards the entry is not its) */
                       MPB_STAGE_RESP_DEQ = 10,   /* processor: hint taken */
                       MPB_STAGE_SEND_START = 11, /* processor: first byte offered to the socket */
                       MPB_STAGE_SEND_DONE = 12,  /* processor: last byte accepted by the kernel */
                       MPB_TRACE_STAGES = 13
};

enum mpb_trace_purgatory {
    MPB_PURG_NONE = 0,
    MPB_PURG_PRODUCE = 1,
    MPB_PURG_FETCH = 2,
    MPB_PURG_JOIN = 3,
    MPB_PURG_CONTROLLER = 4
};

enum mpb_trace_flag {
    MPB_TF_ACKS = 0x0003, /* 0 none, 1 leader, 3 all (acks & 3) */
    MPB_TF_FOLLOWER = 0x0004,
    MPB_TF_PURG_TIMEOUT = 0x0008,
    MPB_TF_ZERO_COPY = 0x0010,
    MPB_TF_TLS = 0x0020,
    MPB_TF_MUTED_QUOTA = 0x0040,
    MPB_TF_ABORTED = 0x0080,      /* the processor or the connection died before the send ended */
    MPB_TF_REDISPATCHED = 0x0100, /* a handler died holding it */
    MPB_TF_KEPT = 0x0200,         /* kept in spite of sampling: slow, error or control */
    MPB_TF_SATURATED = 0x0400,
    MPB_TF_INCREMENTAL_FETCH = 0x0800,
    MPB_TF_SAMPLE_SHIFT = 12 /* top four bits: the record stands for 2^n requests */
};

struct mpb_trace {
    uint64_t t0_ns;       /* CLOCK_MONOTONIC when the first byte of the frame was read; 0: not traced */
    uint32_t seq_lo;      /* low half of the lane's record number */
    uint32_t aux;         /* Produce: records; Fetch: max wait ms; control requests: controller epoch */
    uint32_t conn_id;     /* mpb_trace_connection: no other connection of this boot has it */
    uint32_t client_hash; /* CRC-32C of the client id, 0: none; the dictionary has the name */
    uint32_t topic_hash;  /* CRC-32C of the first topic's name, 0: none */
    int32_t corr_id;
    uint32_t req_bytes; /* frames with their 4-byte length */
    uint32_t resp_bytes;
    uint32_t throttle_ms;
    uint8_t kind;
    uint8_t plane_prio; /* bits 0-1 plane, 2-4 class, 5-7 ring */
    int16_t api_key;
    int16_t api_version;
    int16_t error; /* first non-zero Kafka error code */
    uint8_t listener;
    uint8_t inflight; /* requests of this connection in the broker already: answers that are not all sent; saturating */
    uint16_t proc_id;
    uint16_t handler_id; /* index of the handler, 0xFFFF: none touched it */
    uint16_t nparts;
    uint16_t req_q; /* depth seen when it was put in the request ring, saturating */
    uint16_t resp_q;
    uint8_t purg_kind;
    uint8_t attempts;
    uint16_t flags;
    uint32_t rx_wait; /* ticks between the kernel's receive timestamp and t0, all ones: not measured */
    uint32_t stage[MPB_TRACE_STAGES];
    uint32_t handler_cpu; /* ticks of thread CPU time, 0: not measured */
} __attribute__((may_alias));
_Static_assert(sizeof(struct mpb_trace) == MPB_TRACE_BYTES, "trace record");
_Static_assert(offsetof(struct mpb_trace, kind) == 44, "trace record: kind");
_Static_assert(offsetof(struct mpb_trace, error) == 50, "trace record: error");
_Static_assert(offsetof(struct mpb_trace, proc_id) == 54, "trace record: processor");
_Static_assert(offsetof(struct mpb_trace, resp_q) == 62, "trace record: response depth");
_Static_assert(offsetof(struct mpb_trace, purg_kind) == 64, "trace record: second cache line");
_Static_assert(offsetof(struct mpb_trace, flags) == 66, "trace record: flags");
_Static_assert(offsetof(struct mpb_trace, rx_wait) == 68, "trace record: receive wait");
_Static_assert(offsetof(struct mpb_trace, stage) == 72, "trace record: stages");
_Static_assert(offsetof(struct mpb_trace, handler_cpu) == 124, "trace record: CPU");

static inline uint64_t mpb_trace_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline struct mpb_trace *mpb_trace_of(uint8_t trace[MPB_TRACE_BYTES]) { return (struct mpb_trace *)trace; }

/* Starts a record: everything empty, no stage reached. t0_ns 0 means "do not trace this request". */
static inline void mpb_trace_begin(uint8_t trace[MPB_TRACE_BYTES], uint64_t t0_ns)
{
    struct mpb_trace *t = mpb_trace_of(trace);
    if (t0_ns == 0) {
        t->t0_ns = 0;
        return;
    }
    memset(t, 0, sizeof *t);
    memset(t->stage, 0xFF, sizeof t->stage);
    t->handler_id = 0xFFFF;
    t->rx_wait = MPB_TRACE_NOT_REACHED;
    t->t0_ns = t0_ns;
}

/* Ticks from `begun_ns` to `ended_ns`, 0 if that is earlier; the saturation is flagged. */
static inline uint32_t mpb_trace_ticks(struct mpb_trace *t, uint64_t begun_ns, uint64_t ended_ns)
{
    uint64_t ticks = ended_ns > begun_ns ? (ended_ns - begun_ns) >> MPB_TRACE_TICK_SHIFT : 0;
    if (ticks < MPB_TRACE_SATURATED)
        return (uint32_t)ticks;
    t->flags |= MPB_TF_SATURATED;
    return MPB_TRACE_SATURATED;
}

/* The kernel had the first byte at `arrival_ns` (monotonic); 0: nobody knows. */
static inline void mpb_trace_arrived(uint8_t trace[MPB_TRACE_BYTES], uint64_t arrival_ns)
{
    struct mpb_trace *t = mpb_trace_of(trace);
    if (t->t0_ns != 0 && arrival_ns != 0)
        t->rx_wait = mpb_trace_ticks(t, arrival_ns, t->t0_ns);
}

static inline void mpb_trace_stamp(uint8_t trace[MPB_TRACE_BYTES], int stage, uint64_t now_ns)
{
    struct mpb_trace *t = mpb_trace_of(trace);
    if (t->t0_ns == 0)
        return;
    t->stage[stage] = mpb_trace_ticks(t, t->t0_ns, now_ns);
}

/* A handler died with it and another one begins anew: what the first one stamped is not this one's way. */
static inline void mpb_trace_again(uint8_t trace[MPB_TRACE_BYTES])
{
    struct mpb_trace *t = mpb_trace_of(trace);
    memset(&t->stage[MPB_STAGE_DEQUEUED], 0xFF, (MPB_TRACE_STAGES - MPB_STAGE_DEQUEUED) * sizeof t->stage[0]);
    t->purg_kind = MPB_PURG_NONE;
    t->flags = (uint16_t)((t->flags & ~MPB_TF_PURG_TIMEOUT) | MPB_TF_REDISPATCHED);
}

/* Stamps with the present time; reads no clock when the request is not traced. */
static inline void mpb_trace_mark(uint8_t trace[MPB_TRACE_BYTES], int stage)
{
    if (mpb_trace_of(trace)->t0_ns != 0)
        mpb_trace_stamp(trace, stage, mpb_trace_clock_ns());
}

#endif
