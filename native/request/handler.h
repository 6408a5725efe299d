/* A handler's end of the request path: claim a request, keep its results in cells, park it, answer it. Runs in request
 * handlers only. An entry belongs to a handler while it is CLAIMED with the handler's slot. */
#ifndef MPB_HANDLER_H
#define MPB_HANDLER_H

#include "request/discipline.h"
#include "shm/core.h"
#include "shm/extent.h"
#include "shm/ring.h"

/* Requests of one kind that wait in a handler without Python. */
struct mpb_native_waits {
    void (*look_again)(void *with, uint64_t rows); /* these of the partition table moved, modulo 64 */
    void *with;
    const int64_t *earliest_ms; /* monotonic: when Python has to look at the latest */
};
enum { MPB_WAITING_PRODUCES, MPB_WAITING_FETCHES, MPB_NATIVE_WAITS };

struct mpb_handler { /* private */
    struct mpb_core *core;
    uint32_t index, slot, incarnation;
    bool reserved;       /* takes control requests only */
    bool is_coordinator; /* takes what others hand over, and nothing else */
    struct mpb_chooser chooser;
    uint64_t hands_over[2]; /* API keys of requests that it hands over, one bit each */
    struct mpb_extents extents;
    uint64_t awake_since_ns;
    uint64_t taken_ns;   /* when the last request was taken */
    uint64_t io_done_ns; /* when it had written its log, if it is about to be answered at once; else 0 */
    uint64_t served_ns;  /* the same of the request before, if nothing but its answer was done since; else 0 */
    /* Serves a request that needs nothing of Python (true), or leaves it untouched; NULL: nobody does that. */
    bool (*serve)(void *with, uint32_t entry);
    void *serve_with;
    bool (*serve_fetch)(void *with, uint32_t entry); /* the same for Fetch */
    void *serve_fetch_with;
    struct mpb_native_waits waits[MPB_NATIVE_WAITS]; /* look_again is NULL: there are none */
    bool python_waits; /* requests wait in Python, too: what moved is Python's to look at */
    bool serving;      /* in there: processors are rung for some answers together */
    bool holding;      /* the coordinator: likewise, for more was handed over when it took the request in hand */
    uint32_t unrung;   /* processors with answers they were not rung for, one bit each */
    uint32_t unrung_answers;
    uint64_t
        dirty_since_ns; /* when it was first seen that partitions moved, and requests were taken before a look; else 0 */
};

#define MPB_UNRUNG_ANSWERS 4u
#define MPB_DIRTY_WAITS_NS 200000u

enum { MPB_CLAIM_NOTHING = -1, MPB_CLAIM_POKED = -2, MPB_CLAIM_ENOUGH = -3 };
enum mpb_slept { MPB_SLEPT_WORK = 0, MPB_SLEPT_TIMEOUT = 1, MPB_SLEPT_SIGNAL = 2 };

int mpb_handler_open(struct mpb_handler *h, struct mpb_core *core, uint32_t index);
void mpb_handler_close(struct mpb_handler *h);

/* Claims a request without waiting: control first; then MPB_CLAIM_POKED if this handler was poked; then data, unless
 * control_only. A poke that says no more than that partitions moved waits for the data requests that are there, but not
 * for more than MPB_DIRTY_WAITS_NS: a follower's Fetch that is parked then gets what they append in one answer. */
int64_t mpb_handler_claim(struct mpb_handler *h, bool control_only);
/* The same, but what it claims is handed over if it must be, else first offered to `serve`: returns the first request that `serve` leaves alone, or
 * MPB_CLAIM_ENOUGH when it has served until `until_ns`. */
int64_t mpb_handler_serve_or_claim(struct mpb_handler *h, bool control_only, uint64_t until_ns);
/* Rings for answers that were held back, and holds none back until the next claim: what comes now may take long. */
void mpb_handler_ring_held(struct mpb_handler *h);
/* A request of one of the API keys `hands_over` goes to the coordinator: true, and it is not this handler's any more. */
bool mpb_handler_hand_over(struct mpb_handler *h, uint32_t entry);
/* Any request in hand does. */
void mpb_handler_give_to_coordinator(struct mpb_handler *h, uint32_t entry);
/* And back from the coordinator, parked or in hand: the request handlers go on with it. */
void mpb_handler_give_back(struct mpb_handler *h, uint32_t entry);
/* Takes what this handler was poked for, and which rows of the partition table moved, modulo 64 * MPB_DIRTY_WORDS;
 * lets all that waits natively look again. Returns the poke. */
uint64_t mpb_handler_take_poke(struct mpb_handler *h, uint64_t moved[MPB_DIRTY_WORDS]);
/* When Python has to look at what waits natively; INT64_MAX: never, INT64_MIN: now. */
int64_t mpb_handler_due_ms(const struct mpb_handler *h);
/* Sleeps until there may be something to take. */
enum mpb_slept mpb_handler_wait(struct mpb_handler *h, bool control_only, int64_t timeout_ns);
/* When leaving without having taken data although there is some: wakes another handler for it. */
void mpb_handler_pass_on(struct mpb_handler *h);

/* Whether the entry is claimed by this handler in this generation: checked before each call below. */
bool mpb_handler_owns(const struct mpb_handler *h, uint32_t entry, uint32_t generation);

/* Answers; `kind`: MPB_ANSWER_INLINE (becomes EXTENT where the bytes lie there) or MPB_ANSWER_CLOSE. _bytes and _token return false, with nothing changed, if there is no room for the bytes. */
bool mpb_answer_bytes(struct mpb_handler *h, uint32_t entry, uint32_t kind, const void *bytes, uint32_t length);
bool mpb_answer_token(struct mpb_handler *h, uint32_t entry, uint32_t kind, uint32_t token, uint32_t length);
/* The same in two steps, for an answer that must not fail once its request has had an effect: room for at most `bytes`,
 * NULL with nothing changed if there is none; then the answer, written there. */
uint8_t *mpb_answer_reserve(struct mpb_handler *h, uint32_t entry, uint32_t bytes);
void mpb_answer_reserved(struct mpb_handler *h, uint32_t entry, uint32_t length);
void mpb_answer_unreserve(struct mpb_handler *h, uint32_t entry); /* gives the room back */
void mpb_answer_nothing(struct mpb_handler *h, uint32_t entry, uint32_t kind);

/* Result cells: makes room for n (1 to 65,536) once per request; false: no room. A re-run finds the first run's. */
bool mpb_cells_ensure(struct mpb_handler *h, uint32_t entry, uint32_t n);
/* Cell i of an entry, or NULL if it has not so many. (The append finds cells by fill number: log/result_cell.h.) */
struct mpb_cell *mpb_cell(struct mpb_core *core, uint32_t entry, uint32_t i);

/* Parks the request: it stays claimed, but is no longer the one in hand. _resume takes it in hand again. */
void mpb_park(struct mpb_handler *h, uint32_t entry, enum mpb_parked_kind kind);
void mpb_resume(struct mpb_handler *h, uint32_t entry);

static inline uint32_t mpb_attempts(const struct mpb_entry *entry) { return mpb_load_relaxed(&entry->attempts) & 0xff; }

#endif
