/* The picture of all shared memory. Nobody else writes an offset literal: mpbroker/shm/layout.py takes numbers, sizes and
 * offsets from the compiler (python/py_layout.c), and tests/unit/shm/test_layout.py holds its struct formats against them.
 *
 *  core  (memfd, inherited over fork)          page (named shm, attached by `status`)        
 *  +----------------------------------+        +---------------------------------+
 *  | segment header + region table    |        | segment header + region table   |
 *  | topics      topic rows           |        | processes   process table       |
 *  | journal     changed topic rows   |        | rings       head, tail, peak    |
 *  | partitions  partition rows       |        | counters    one row per slot    |
 *  | producers   producer rows        |        +---------------------------------+
 *  | entries     request entries      |        lane-N (named shm): one trace lane per processor
 *  | slots       ring words           |
 *  | commands    controller commands  |        arena (memfd, sparse)
 *  | extents     handler extent words |        +---------------------------------+
 *  | doorbells   sleepers, words      |        | processor 0 .. 31: request bytes|
 *  | killers     digests of frames    |        | handler 0 .. 63: answers, cells |
 *  | inject      armed crash points   |        +---------------------------------+
 *  | apis        requests by API      |
 *  | groups      known groups         |        (the same for `members`, ids of members,
 *  | addresses   of connections       |         and `addresses`)
 *  | fetch_sessions  and their units  |        (`session_units`, `session_owners`)
 *  | assignments who leads and holds  |        (no rows in a broker that is alone,
 *  | brokers     that live            |         as `assignments`)
 *  | replicas    as they fetched last |        (the same)
 *  +----------------------------------+
 *
 * Every region is an array: `count` rows of `stride` bytes at `offset`. The supervisor plans and zeroes a segment
 * before the first fork; it never grows. A layout change raises MPB_LAYOUT_VERSION. */
#ifndef MPB_LAYOUT_H
#define MPB_LAYOUT_H

#include <pthread.h>
#include <stddef.h>
#include "shm/atomics.h"
#include "shm/layout_apis.h"
#include "shm/layout_cluster.h"
#include "shm/layout_metadata.h"
#include "shm/layout_replicas.h"
#include "shm/layout_sessions.h"

#define MPB_LAYOUT_VERSION 1u
#define MPB_MAGIC_CORE 0x65726f6362706dull /* "mpbcore" */
#define MPB_MAGIC_PAGE 0x65676170627012ull
#define MPB_CACHE_LINE 64
#define MPB_PAGE_BYTES 4096

/* ------------------------------------------------------------------ process slots: a fixed pool per role */
#define MPB_SLOT_SUPERVISOR 0
#define MPB_SLOT_ACCEPTOR 1
#define MPB_SLOT_PROCESSORS 16
#define MPB_MAX_PROCESSORS 32
#define MPB_SLOT_HANDLERS 48
#define MPB_MAX_HANDLERS 64
#define MPB_SLOT_CONTROLLER 112
#define MPB_SLOT_LOG_KEEPER 113
#define MPB_SLOT_TRACER 114
#define MPB_SLOT_COORDINATOR 115
#define MPB_SLOT_ADMIN 116
#define MPB_SLOT_CLUSTER_CONTROLLER 117
#define MPB_SLOT_FETCHERS 118
#define MPB_MAX_FETCHERS 8
#define MPB_MAX_SLOTS 128

/* ------------------------------------------------------------------ header of a segment of shared memory */
#define MPB_MAX_REGIONS 24
#define MPB_DATA_DIR_BYTES 2048

struct mpb_region {
    char name[16];
    uint64_t offset;
    uint64_t stride;
    uint64_t count;
};

struct mpb_segment_header { /* one page */
    uint64_t magic;
    uint32_t version;
    uint32_t region_count;
    uint64_t bytes;
    uint64_t boot_id; /* random, one per supervisor start: part of names and operation ids */
    uint64_t arena_bytes;
    uint64_t arena_processor_bytes; /* size of one processor's part of the arena */
    uint64_t arena_handler_bytes;   /* size of one handler's part, behind all processors' parts */
    uint32_t processor_count;
    uint32_t handler_count;
    uint32_t entries_per_processor;
    uint32_t reserved_handlers;       /* handlers 0..n-1 of the pool that take control requests only */
    mpb_atomic64 metadata_generation; /* journal position: number of published topic changes */
    mpb_atomic64 features; /* finalized levels: epoch 32, then 8 each: group, transaction, kraft, metadata.version */
    mpb_atomic64 segment_counter;  /* spare source of unique numbers (files, commands) */
    mpb_atomic32 state;            /* enum mpb_broker_state */
    mpb_atomic32 offline_log_dirs; /* one bit per log.dirs entry: an I/O error there, never cleared while we run */
    uint32_t plane_bound[2];       /* requests a plane holds over all its classes: data, control */
    mpb_atomic32
        plane_classes[2]; /* class rings ever in use, 1 .. MPB_CLASS_REQUEUED: raised before one is, never lowered */
    struct mpb_region regions[MPB_MAX_REGIONS];
    mpb_atomic32 topics_high; /* rows of `topics` and `partitions` from these on were never used */
    mpb_atomic32 partitions_high;
    mpb_atomic32 producers_high;  /* the same for `producers` */
    mpb_atomic32 producers_freed; /* rows of `producers` ever freed: who found none knows when to look again */
    mpb_atomic32 full_log_dirs;   /* one bit per log.dirs entry: appends are refused until there is room on its disk */
    uint32_t coordinator;         /* the handler that is the coordinator + 1, always the last; 0: there is none */
    mpb_atomic32 groups_high;     /* rows of `groups` and `members` from these on were never used */
    mpb_atomic32 members_high;
    mpb_atomic32 transactions_ready; /* 1: what was ongoing at the last stop is verified again (transaction.h) */
    mpb_atomic32 handlers_high;      /* handlers from this index on never ran, but for the coordinator */
    mpb_atomic64 cluster_generation; /* changes of the next two words and of `brokers` (cluster.h) */
    mpb_atomic64 cluster_controller; /* epoch 32 | broker id + 1; 0: none is known */
    mpb_atomic64 broker_epoch;       /* of our registration + 1; 0: we have none */
    mpb_atomic32 moves;              /* moves between log directories ever asked for, called off or ended (move.h) */
    mpb_atomic32 coordinator_wanted; /* 1: a client asks for a coordinator, whose topic is being made */
    mpb_atomic32 spent_log_dirs;     /* of full_log_dirs: what groups and transactions write is refused there, too */
    uint8_t unused[MPB_PAGE_BYTES - 196 - MPB_MAX_REGIONS * 40 - MPB_DATA_DIR_BYTES];
    char data_dir[MPB_DATA_DIR_BYTES]; /* page: the data directory's path, for who looks for brokers; empty: too long */
};
_Static_assert(sizeof(struct mpb_segment_header) == MPB_PAGE_BYTES, "header is one page");

enum mpb_broker_state {
    MPB_STARTING = 0,
    MPB_RUNNING = 1,
    MPB_DRAINING = 2,
    MPB_RESETTING = 3,
    MPB_HANDING_OVER = 4, /* serves as ever while other brokers take over what it leads */
};

/* ------------------------------------------------------------------ process table (page) */
struct mpb_process { /* 256 bytes; written by its process, except last_exit, restarts, unsteady_since (supervisor) */
    mpb_atomic32 pid;
    mpb_atomic32 incarnation; /* counts forks of this slot */
    uint8_t role;             /* mpbroker/supervisor/process_types.py numbers the roles */
    uint8_t index;            /* within its role, e.g. processor 1 */
    uint8_t listener;         /* index into the listener table, 255: none */
    uint8_t unused0;
    mpb_atomic32 state; /* enum mpb_process_state */
    mpb_atomic32 wait;  /* id of the named wait it is in, 0: working */
    mpb_atomic32 restarts;
    mpb_atomic32 last_exit; /* wait status of the last death, all ones: never died */
    uint32_t unused1;
    mpb_atomic64 heartbeat_ns; /* CLOCK_MONOTONIC, stored by the work loop itself */
    mpb_atomic64 request;      /* in hand: entry index + 1 (32) | api key (16) | api version (16); 0: none */
    mpb_atomic64 request_since_ns;
    mpb_atomic64 busy_ns;
    mpb_atomic64 idle_ns;
    mpb_atomic32 connections;
    mpb_atomic32 troubles;          /* bits of mpbroker/shm/troubles.py: what it cannot do although it runs */
    mpb_atomic64 troubled_since_ns; /* when the first of them began */
    mpb_atomic64 unsteady_since_ns; /* the slot's processes have died young since then, 0: they do not */
    mpb_atomic32 log_errno;         /* of its last failed call on a log file; 0: none failed */
    mpb_atomic32 log_errno_row;     /* the partition's row + 1; 0: not known */
    uint8_t unused[256 - 104];
};
_Static_assert(sizeof(struct mpb_process) == 256, "process row");

enum mpb_process_state {
    MPB_P_EMPTY = 0,
    MPB_P_STARTING = 1,
    MPB_P_RECOVERING = 2,
    MPB_P_RUNNING = 3,
    MPB_P_STOPPING = 4,
    MPB_P_DEAD = 5
};

#define MPB_MAX_COUNTERS 240
struct mpb_counter_row { /* one per slot, single writer: no shared read-modify-write, a reader sums the rows */
    mpb_atomic64 value[MPB_MAX_COUNTERS];
};

/* ------------------------------------------------------------------ rings
 * A ring carries hints only. word = lap 31 | full 1 | value 32; value = generation 15 | index 17. */
#define MPB_INDEX_BITS 17
#define MPB_GENERATION_BITS 15
#define MPB_MAX_CLASSES 8
/* The last class of a plane takes what recovery puts back, is served first, and has room for every entry: putting a
 * request back can therefore never fail, and the bound of the others stays exact. */
#define MPB_CLASS_REQUEUED 7

enum mpb_plane { MPB_PLANE_DATA = 0, MPB_PLANE_CONTROL = 1 };

enum mpb_ring_id {                       /* row numbers of the `rings` region */
                   MPB_RING_CONTROL = 0, /* + class 0..7 */
                   MPB_RING_DATA = 8,    /* + class 0..7 */
                   MPB_RING_CONTROLLER = 16,
                   MPB_RING_COORDINATOR = 17,
                   MPB_RING_COORDINATOR_REQUEUED = 18,
                   MPB_RING_CLUSTER_CONTROLLER = 20, /* commands, as 16: ring.h tells them by one bit */
                   MPB_RING_RESPONSE = 32,           /* + processor index */
                   MPB_MAX_RINGS = 64
};

struct mpb_ring_ctl { /* page; head and tail apart, against adjacent-line prefetch */
    mpb_atomic64 tail;
    mpb_atomic64 peak;      /* largest depth seen by a push */
    mpb_atomic64 head_seen; /* where the head was when a push last looked: a depth from here is too large or right */
    uint8_t unused0[104];
    mpb_atomic64 head;
    uint8_t unused1[120];
    uint64_t capacity;    /* exact, need not be a power of two */
    uint64_t slots_first; /* first row of this ring in the `slots` region */
    uint8_t unused2[112];
};
_Static_assert(sizeof(struct mpb_ring_ctl) == 384, "ring control block");

/* ------------------------------------------------------------------ request entries
 * state word = generation 32 | state 8 | owner slot 24. It alone decides who owns the entry. */
enum mpb_entry_state {
    MPB_E_FREE = 0,     /* owner: processor of the table part */
    MPB_E_FILL = 1,     /* processor writes lines 0, 2, 3 and the payload */
    MPB_E_QUEUED = 2,   /* a hint is, or is about to be, in the request ring */
    MPB_E_CLAIMED = 3,  /* handler works on it, or it is parked in that handler's purgatory */
    MPB_E_REQUEUED = 4, /* its handler died; as QUEUED */
    MPB_E_DONE = 5,     /* answer final; a hint is, or is about to be, in the response ring */
    MPB_E_SENDING = 6,  /* processor took the hint and writes the answer to the socket */
    MPB_E_HANDED = 7    /* a handler gave it to the coordinator; a hint is, or is about to be, in that one's ring */
};

enum mpb_phase { MPB_PHASE_NOTHING = 0, MPB_PHASE_EFFECT_BEGUN = 1, MPB_PHASE_EFFECT_DONE = 2 };

enum mpb_answer_kind {
    MPB_ANSWER_NONE = 0,   /* nothing is sent (acks=0); the connection is unmuted */
    MPB_ANSWER_INLINE = 1, /* answer_bytes */
    MPB_ANSWER_EXTENT = 2, /* arena bytes in the answering handler's part */
    MPB_ANSWER_CLOSE = 3   /* send the answer bytes, if there are any, then close the connection */
};

enum mpb_parked_kind { /* what a request waits for in its handler's purgatory, and what a re-run must expect */
                       MPB_PARKED_NOT = 0,
                       MPB_PARKED_PRODUCE = 1,     /* acknowledgement */
                       MPB_PARKED_FETCH = 2,       /* records, or memory to send them */
                       MPB_PARKED_CONTROLLER = 3,  /* the controller's answers */
                       MPB_PARKED_COORDINATOR = 4, /* other members of its group, or its own record's acknowledgement */
};

struct mpb_cell {     /* the result of one partition of a request; filled under that partition's lock, tag last */
    mpb_atomic64 tag; /* the entry's fill number: filled; anything else: not filled (append rule 1) */
    int64_t base_offset;
    int64_t end_offset; /* base offset of the next append: what the high watermark must reach */
    int64_t append_time_ms;
    int64_t log_start;
    int32_t leader_epoch;
    uint32_t ordinal; /* partition row */
    int16_t error;    /* Kafka error code */
    uint16_t unused0;
    uint32_t unused1;
    uint64_t unused2;
};
_Static_assert(sizeof(struct mpb_cell) == 64, "result cell");

#define MPB_INLINE_ANSWER 128
#define MPB_INLINE_PAYLOAD 320
#define MPB_NO_EXTENT 0u

struct mpb_entry { /* 768 bytes = 12 cache lines */
    /* line 0: route, written by the processor while FILL */
    mpb_atomic64 state;
    uint64_t fill_number;           /* append rule 1: new for every fill in this boot, untouched by a re-queue */
    uint64_t payload_offset;        /* arena offset; all ones: payload is inline */
    uint32_t payload_length;        /* bytes of the frame without its 4-byte length */
    uint32_t connection;            /* the processor's connection number ... */
    uint32_t connection_generation; /* ... and how often that number was used before */
    int32_t correlation_id;
    int16_t api_key;
    int16_t api_version;
    uint16_t listener;
    uint8_t plane; /* 0 data, 1 control */
    uint8_t ring_class;
    uint32_t payload_units; /* arena units held, for the processor's books */
    uint32_t incarnation;   /* of the processor that filled it: a successor drops the answers of another's */
    mpb_atomic64 due_ns;    /* deadline: when it should be answered; a hint, and garbage under other disciplines */
    /* line 1: answer, written by the handler that holds the claim */
    mpb_atomic32 phase;    /* enum mpb_phase */
    mpb_atomic32 attempts; /* low 8 bits: handlers that died executing it; above: generation last counted + 1 */
    uint32_t answer_kind;
    uint32_t answer_length; /* whole frame, its 4-byte length included */
    uint64_t answer_offset;
    uint32_t answer_extent; /* extent word number + 1, or MPB_NO_EXTENT */
    uint32_t cells_extent;  /* the same for the cells beyond the first */
    uint64_t cells_offset;  /* arena offset of cell 1 */
    uint32_t cell_count;    /* cells of this request, the inline one included; 0: none yet */
    int32_t error;          /* first non-zero code, for the trace */
    uint32_t parked_kind;   /* enum mpb_parked_kind */
    mpb_atomic32 received;  /* 1: counted as received, so it must be counted as finished; marks: processor.c */
    uint32_t service_ns;    /* what handlers spent on it, if their discipline wants to know */
    uint32_t unused_line1;
    /* lines 2-3: the trace record's working copy (trace_record.h) */
    uint8_t trace[128];
    /* line 4 */
    struct mpb_cell cell;
    /* lines 5-6, 7-11: apart, because a re-run needs the request after a half-written answer */
    uint8_t answer_bytes[MPB_INLINE_ANSWER];
    uint8_t payload_bytes[MPB_INLINE_PAYLOAD];
};
_Static_assert(sizeof(struct mpb_entry) == 768, "request entry");

/* ------------------------------------------------------------------ handler extents
 * word = entry index + 1 (17 bits, 0: free) | generation 15 | first unit 16 | units 16. The handler allocates, the
 * processor frees by storing 0; one word is the whole truth, so a successor needs no repair (MPB_UNIT_BYTES units). */
#define MPB_UNIT_BYTES 16384
#define MPB_EXTENTS_PER_HANDLER 8192

/* ------------------------------------------------------------------ doorbells (one row) */
struct mpb_processor_bell { /* a line: by the processor when it sleeps, and by who rings it */
    mpb_atomic64 asleep;    /* 1: about to wait in epoll; exchanged to 0 by who rings */
    uint8_t unused[56];
};
struct mpb_handler_bell { /* a line: by the handler when it sleeps, and by who rings it */
    mpb_atomic32 word;    /* futex word */
    uint32_t unused0;
    mpb_atomic64 poke; /* enum mpb_poke */
    uint8_t unused1[48];
};
/* Facts a successor needs about its slot, a line each, written by nobody else: */
struct mpb_processor_mark {
    mpb_atomic64 fills;        /* entries it filled in this boot (mpb_processor_fill_number) */
    mpb_atomic32 entries_high; /* entries ever used */
    mpb_atomic32 pushing;      /* 1: about to push into one of several class rings (request rule 8) */
    uint8_t unused[48];
};
struct mpb_handler_mark {
    mpb_atomic32 in_hand;      /* entry it executes + 1 (a parked one is not in hand); 0: none */
    mpb_atomic32 extents_high; /* extent words ever used: a scan need not touch the others */
    uint8_t unused[56];
};

#define MPB_DIRTY_WORDS 64
struct mpb_doorbells {
    mpb_atomic64 sleepers; /* one bit per handler, set by the sleeper, cleared by the waker */
    uint8_t unused0[56];
    mpb_atomic64
        want_space; /* processors that parked a request because a plane was full: data low, control high half */
    uint8_t unused1[56];
    struct mpb_processor_bell processor[MPB_MAX_PROCESSORS];
    struct mpb_handler_bell handler[MPB_MAX_HANDLERS];
    mpb_atomic32 service_word[MPB_MAX_SLOTS]; /* futex words of the single-instance roles, by slot: rarely rung */
    /* Partitions whose end moved, for each parked handler: bit = ordinal modulo 4096; `overflow` means scan all. */
    mpb_atomic64 dirty[MPB_MAX_HANDLERS][MPB_DIRTY_WORDS];
    struct mpb_handler_mark handler_mark[MPB_MAX_HANDLERS];
    struct mpb_processor_mark processor_mark[MPB_MAX_PROCESSORS];
};
_Static_assert(offsetof(struct mpb_doorbells, handler) % MPB_CACHE_LINE == 0 &&
                   offsetof(struct mpb_doorbells, dirty) % MPB_CACHE_LINE == 0 &&
                   sizeof(struct mpb_processor_bell) == MPB_CACHE_LINE &&
                   sizeof(struct mpb_handler_bell) == MPB_CACHE_LINE &&
                   sizeof(struct mpb_processor_mark) == MPB_CACHE_LINE &&
                   sizeof(struct mpb_handler_mark) == MPB_CACHE_LINE,
               "doorbells: lines");

enum mpb_poke {
    MPB_POKE_SCAN = 1,    /* look at every parked request (after a recovery) */
    MPB_POKE_COMMAND = 2, /* the controller answered a command */
    MPB_POKE_DIRTY = 4    /* a bit in `dirty` is set */
};

/* ------------------------------------------------------------------ partition table (docs/append-rules.md) */
struct mpb_partition_copy {
    int64_t log_start;
    int64_t leo; /* log end offset: of the next record */
    int64_t hw;
    int64_t lso;
    int64_t active_base; /* base offset of the active segment */
    uint64_t segment_id; /* selector value that committed the active segment (append rule 10) */
    uint64_t position;   /* bytes in the active segment's log */
    uint32_t index_bytes;
    uint32_t time_index_bytes;
    int64_t max_timestamp; /* of the active segment, -1: none */
    int64_t max_timestamp_offset;
    int64_t first_timestamp; /* max timestamp of the active segment's first batch, for the roll by time */
    int64_t segment_created_ms;
    int64_t indexed_timestamp; /* last entry of the time index */
    int64_t log_bytes;         /* bytes of all segments, for retention by size */
    uint32_t bytes_since_index;
    int32_t leader_epoch;
    uint32_t truncations; /* append rules 11 and 19: odd while a swap of segments is under way */
    uint32_t segment_count;
    uint64_t bytes_in;          /* appended since the broker started, for the metrics: retention takes nothing away */
    uint64_t records_in;        /* the same in records */
    uint32_t open_transactions; /* producers with an open transaction here; `lso` is the least of their first offsets */
    uint32_t txn_index_bytes;   /* of the active segment; 0: it may have no such file */
    int64_t aborted_end;        /* behind the last marker that aborted a transaction; 0: there was none */
    /* replication (replica_role.h); a broker that is alone has zeros here: leader, nobody else to wait for */
    uint8_t role;            /* enum mpb_replica_role */
    uint8_t min_isr;         /* min.insync.replicas, or the number of replicas if that is less */
    uint8_t self;            /* this broker's place in the list of replicas */
    uint8_t ids_at;          /* which list of struct mpb_replicas is in force */
    uint16_t isr;            /* places, a bit each; of a leader only */
    uint16_t maximal_isr;    /* the same and those that are proposed: what the high watermark waits for (KIP-497) */
    int32_t leader_since;    /* epoch in which this broker became leader; later epochs did not interrupt it */
    int32_t partition_epoch; /* of the ISR */
    int64_t epoch_start;     /* log end when the leader epoch began here; of a leader only */
    uint32_t epochs;         /* leader epochs ever begun here: the last ones stand in struct mpb_replicas */
    int32_t leader;          /* broker id; -1: none is known. Not kept up by a broker that is alone */
};
_Static_assert(sizeof(struct mpb_partition_copy) == 192, "partition copy: whole lines, apart from the other one's");

enum mpb_intent_kind {
    MPB_INTENT_NONE = 0,
    MPB_INTENT_APPEND = 1,
    MPB_INTENT_ROLL = 2,
    MPB_INTENT_TRUNCATE = 3,
    MPB_INTENT_SWAP = 4,
    MPB_INTENT_START = 5,
    MPB_INTENT_MOVE = 6
};

struct mpb_intent { /* `word` = kind 8 | process slot 24, stored last and cleared first (append rule 5) */
    mpb_atomic64 word;
    uint64_t fill_number;
    uint64_t target; /* selector value this operation commits with */
    uint32_t entry;  /* all ones: no request entry waits for the result */
    uint32_t cell;
    int64_t
        base_offset; /* APPEND: of the batch; ROLL, START: of the new segment; SWAP: of the cleaned one; MOVE: new dir */
    uint64_t position;
    uint32_t length;
    uint32_t producer_row; /* + 1; 0: no producer state to keep */
    int64_t producer_id;
    int32_t first_sequence;
    int32_t last_sequence;
    int16_t producer_epoch;
    uint16_t batch_kind;       /* APPEND: enum mpb_batch_kind; TRUNCATE: not PLAIN if there are transactions */
    int32_t coordinator_epoch; /* of a marker */
    int64_t last_offset;       /* SWAP: base of the first segment behind it; MOVE: old log directory */
    int64_t timestamp_ms;      /* largest of the batch */
    int64_t append_time_ms;    /* for the answer: -1 unless the topic uses LogAppendTime */
    int64_t written_ms;        /* the broker's clock */
    uint64_t unused[4];
};
_Static_assert(sizeof(struct mpb_intent) == 144, "intent");

enum mpb_batch_kind { MPB_BATCH_PLAIN = 0, MPB_BATCH_IN_TRANSACTION = 1, MPB_BATCH_COMMIT = 2, MPB_BATCH_ABORT = 3 };

enum mpb_partition_flags { MPB_PART_EXISTS = 1, MPB_PART_ONLINE = 2, MPB_PART_DELETED = 4 };

#define MPB_PRODUCER_CHAINS 64
struct mpb_partition { /* 1,408 bytes; a line is written by those who append or wait, or read by everybody: not both */
    /* line 0, who: written by the controller before EXISTS is stored, never while it exists (but for log_dir) */
    mpb_atomic32 flags;
    uint32_t topic_row;
    uint32_t partition;        /* number within the topic */
    mpb_atomic32 log_dir;      /* index into log.dirs; a move changes it under the lock (append rule 23) */
    mpb_atomic32 next_ordinal; /* next partition of the topic + 1, 0: last */
    uint32_t dir_length;
    uint8_t topic_id[16];
    uint8_t unused0[24];
    /* line 1: the lock */
    union {
        pthread_mutex_t lock;   /* robust, process-shared; at most one held at a time (append rule 15) */
        uint8_t lock_bytes[48]; /* 40 on x86-64 */
    };
    mpb_atomic32 lock_made; /* 1 from the row's first use on: a lock is initialised once and never again */
    uint32_t unused1;
    mpb_atomic64 busy_since_ns; /* monotonic: since when the lock could not be had; whoever lets go of it stores 0 */
    /* line 2: who waits for what */
    mpb_atomic64 flushed_offset; /* everything below is on disk (log keeper) */
    mpb_atomic64 watchers;     /* handlers with a parked request on this partition; swapped to 0 by who moves an end */
    mpb_atomic64 ack_watchers; /* the same of those that an append alone does not help: they wait for replicas */
    mpb_atomic64 start_asked;  /* log start that a DeleteRecords moved to, 0: none yet; stored under the lock */
    mpb_atomic64
        start_written;    /* log start that the checkpoint on disk says since (log keeper); never above `start_asked` */
    mpb_atomic32 move_to; /* log directory it shall move to + 1, 0: it stays; under the lock */
    mpb_atomic32 move_number;  /* of the row's last ask: a copy made for an older one is not that one's */
    mpb_atomic64 future_end;   /* offset below which the copy in the new directory is made (log keeper) */
    mpb_atomic64 future_bytes; /* of its segments */
    /* lines 3 to 9: the state, for readers without the lock */
    mpb_atomic64 selector; /* counts up; low bit: the copy in force */
    uint8_t unused3[56];
    struct mpb_partition_copy copy[2];
    struct mpb_intent intent;
    mpb_atomic32 producer_chain[MPB_PRODUCER_CHAINS]; /* producer row + 1, by producer id modulo chains */
    uint64_t unused4;
    mpb_atomic64 last_snapshot_offset;
    char dir[256]; /* "topic-0" */
    uint8_t unused5[32];
    mpb_atomic64 bytes_read; /* for clients since the broker started: added to by whoever reads; in a line of its own */
    uint8_t unused6[56];
};
_Static_assert(offsetof(struct mpb_partition, lock) == 64 && offsetof(struct mpb_partition, flushed_offset) == 128 &&
                   offsetof(struct mpb_partition, selector) == 192 && offsetof(struct mpb_partition, copy) == 256 &&
                   offsetof(struct mpb_partition, bytes_read) % MPB_CACHE_LINE == 0,
               "partition row: lines");
_Static_assert(sizeof(struct mpb_partition) == 1408, "partition row");

struct mpb_producer_batch {
    int64_t base_offset;
    int64_t timestamp_ms; /* largest of the batch: whatever its producer says */
    int32_t first_sequence;
    int32_t last_sequence;
    int32_t last_offset_delta;
    int16_t epoch;
    uint16_t unused;
};
_Static_assert(sizeof(struct mpb_producer_batch) == 32, "kept batch");

/* One producer id in one partition. Six places so that the place being overwritten is never one of the five kept. */
#define MPB_PRODUCER_RING 6
struct mpb_producer {   /* 256 bytes; owned under its partition's lock once `owner` names the partition */
    mpb_atomic64 owner; /* partition ordinal + 1, 0: free; taken by CAS */
    int64_t producer_id;
    mpb_atomic32 next;    /* producer row + 1 in the chain */
    mpb_atomic32 rebuild; /* 1: a truncation emptied it, the log is read again for it */
    mpb_atomic64 count;   /* batches ever kept, stored last (append rule 7): newest is ring[(count - 1) % 6] */
    struct mpb_producer_batch ring[MPB_PRODUCER_RING];
    mpb_atomic64 written_ms;     /* the broker's clock at its last append: what expiry and eviction go by */
    mpb_atomic64 txn_first;      /* first offset of its open transaction + 1; 0: none is open (transaction.h) */
    mpb_atomic64 txn_epochs;     /* coordinator and producer epoch of its last marker, verified epoch: one store */
    mpb_atomic64 txn_started_ms; /* the broker's clock when it was opened */
};
_Static_assert(sizeof(struct mpb_producer) == 256, "producer row");

/* ------------------------------------------------------------------ trace lanes (named shm, one per processor) */
#define MPB_LANE_RECORDS 16384
struct mpb_lane_header { /* one page, then the records */
    uint64_t magic;
    uint32_t version;
    uint32_t processor;
    uint64_t boot_id;
    uint64_t capacity;
    uint8_t unused0[32];
    mpb_atomic64 written;  /* records committed: the writer's position, single writer */
    mpb_atomic64 dropped;  /* finished requests whose record found the lane full */
    mpb_atomic64 finished; /* requests finished by this processor: = records + dropped + sampled out */
    mpb_atomic64 sampled_out;
    uint64_t committing;      /* fill number of the request whose commit began last (trace_lane.h) */
    uint64_t committing_base; /* written + dropped + sampled_out before that commit */
    uint8_t unused1[16];
    mpb_atomic64 drained; /* the tracer's position */
    uint8_t unused2[MPB_PAGE_BYTES - 136];
};
_Static_assert(sizeof(struct mpb_lane_header) == MPB_PAGE_BYTES, "lane header");

/* ------------------------------------------------------------------ what the coordinator must not forget (known_rows.h) */
struct mpb_known {     /* of `groups` and `members`; the coordinator alone writes */
    mpb_atomic64 word; /* 0: free; stored last */
    uint8_t key[16];   /* digest of the group's id, or of that and the member's */
    uint64_t unused;
};
_Static_assert(sizeof(struct mpb_known) == 32, "known row");

#define MPB_ADDRESS_ROWS 16384u
struct mpb_address {         /* of `addresses`, MPB_ADDRESS_ROWS for each processor, which alone writes them */
    mpb_atomic64 generation; /* of the connection + 1, stored last; 0: none */
    uint8_t address[16];     /* IPv4 is mapped into IPv6 */
    uint64_t unused;
};
_Static_assert(sizeof(struct mpb_address) == 32, "address row");

/* ------------------------------------------------------------------ frames that killed a worker, crash points */
struct mpb_killer {
    mpb_atomic64 digest;
    mpb_atomic64 kills_when;
}; /* kills 16 | wall clock ms 48, stored first */
#define MPB_KILLER_ROWS 8
struct mpb_inject {
    char name[48];
    mpb_atomic64 remaining;
    mpb_atomic64 hits;
}; /* 64 bytes; see inject.h */
#define MPB_INJECT_ROWS 64

#endif
