/* The ordinary part of a processor's turn: answers go from the response ring to the sockets, frames from the sockets to
 * the request ring. Everything else (a connection to close, a frame for the arena, no room for a request) is reported as
 * an event, and Python decides. Runs in processors only.
 *
 * A turn's order (ADR 12): answers, then new connections (which Python takes), then one frame of each connection.
 *
 * For a small request, sending costs more than everything else together. If the next request of a connection is here
 * already and the processor is busy, it holds the answer back and sends it together with the following ones: at most
 * MPB_MAX_HELD answers, for at most MPB_MAX_HELD_TURNS turns, and never while it sleeps. A client that waits for each
 * answer gets it at once. */
#ifndef MPB_NETWORK_TURN_H
#define MPB_NETWORK_TURN_H

#include "network/connection.h"

#define MPB_MAX_HELD_TURNS 4u
#define MPB_API_KEYS 128
#define MPB_MAX_POLLED 256
/* Waking a handler costs as much as a request: a busy processor wakes for some requests together, or after some turns. */
#define MPB_UNRUNG_REQUESTS 4u
#define MPB_UNRUNG_TURNS 3u

enum mpb_event_kind {
    MPB_EVENT_CLOSE = 0,       /* the connection is gone (0), or has all that it shall get (first value 1) */
    MPB_EVENT_INVALID = 1,     /* a frame of impossible length (first value) */
    MPB_EVENT_UNSUPPORTED = 2, /* an API key (first) or version (second) that is not served */
    MPB_EVENT_POISON = 3,      /* a frame that killed a worker before */
    MPB_EVENT_NO_ROOM = 4,     /* no entry or no arena space: the frame stays in the buffer for mpb_turn_submit */
    MPB_EVENT_PARKED = 5,      /* the plane is full: entry (first value) waits for mpb_retry */
    MPB_EVENT_LARGE = 6,       /* a large frame: bytes it wants in the arena (first value), 0: it has them, read on */
    MPB_EVENT_DESCRIPTOR = 7,  /* a descriptor (first value) of the processor itself, not its bell, is readable */
    MPB_EVENT_STRAY = 8,       /* an answer whose connection is gone was dropped */
    MPB_EVENT_INTRODUCED = 9,  /* traced, and a request said who the client is (hash of its id: first value) */
};

struct mpb_event {
    enum mpb_event_kind kind;
    struct mpb_connection *connection; /* NULL: DESCRIPTOR, STRAY */
    int64_t first, second;
};

struct mpb_connections { /* a list that grows */
    struct mpb_connection **at;
    uint32_t count, capacity;
};

struct mpb_api_range {
    int16_t oldest, newest;
}; /* newest < oldest: not served */

struct mpb_turn {
    struct mpb_processor *port;
    int epoll;
    uint32_t plane, listener, max_request_bytes;
    bool classifies;            /* requests between brokers go to the control plane, whichever listener they come on */
    int64_t queued_bytes_limit; /* of all processors together; not above 0: none */
    struct mpb_api_range apis[MPB_API_KEYS];
    struct mpb_connections by_fd, by_number; /* places may be NULL */
    struct mpb_connections scheduled;        /* may have a frame, each once */
    struct mpb_connections current;          /* those of the turn under way */
    struct mpb_connections holding;          /* have held answers */
    uint32_t held_turns;
    uint64_t awake_since_ns;
    uint64_t now_ns; /* while requests are received: a reading of the clock after which little was done; else 0 */
    struct mpb_event *events;
    uint32_t event_count, event_capacity;
    bool out_of_memory;
    struct mpb_arrivals arrivals;
    uint8_t *scratch;
};

/* 0, or -1: no memory. */
int mpb_turn_open(struct mpb_turn *turn, struct mpb_processor *port, int epoll);
void mpb_turn_close(struct mpb_turn *turn);
/* Knows a connection, whose place in memory must stay, from now on; 0, or -1: no memory. */
int mpb_turn_add(struct mpb_turn *turn, struct mpb_connection *c);
/* Forgets it, with its answers (sent if that works at once). May be called again. */
void mpb_turn_forget(struct mpb_turn *turn, struct mpb_connection *c);
void mpb_turn_schedule(struct mpb_turn *turn, struct mpb_connection *c);

/* Sends answers, at most `limit`; returns how many were there. */
uint32_t mpb_turn_answer(struct mpb_turn *turn, uint32_t limit);
/* One frame of each scheduled connection. `may_read` false: only large frames that have their memory. */
void mpb_turn_receive(struct mpb_turn *turn, bool may_read);
/* Gives the buffered frame of a connection to the handlers; false: an event says why not. */
bool mpb_turn_submit(struct mpb_turn *turn, struct mpb_connection *c);
/* The two parts of it that frames need which do not lie in the buffer. First: is the version of this API served? False:
 * an event. ApiVersions of any version is answered, so that a client newer than us can find out what we know. */
bool mpb_turn_serves(struct mpb_turn *turn, struct mpb_connection *c, const uint8_t *frame);
/* Then, with the result of mpb_submit: true when the request is in the broker now, queued or, with an event, parked: its
 * connection is mute. False, with an event: it is not, its bytes stay where they are. */
bool mpb_turn_submitted(struct mpb_turn *turn, struct mpb_connection *c, const struct mpb_submission *s, int64_t code);
/* Whether the request bytes of all processors are at their limit. */
bool mpb_turn_over_limit(const struct mpb_turn *turn);
/* Whether a scheduled connection may be read. */
bool mpb_turn_has_work(const struct mpb_turn *turn, bool may_read);
/* Sends held answers if they waited for long enough, or if nothing else would. */
void mpb_turn_end(struct mpb_turn *turn, bool will_sleep);
/* Takes the events of the sockets, and empties the bell. `timeout_ms` 0: those that are there. False: interrupted by a signal. */
bool mpb_turn_poll(struct mpb_turn *turn, int timeout_ms);
/* The same after mpb_processor_prepare_sleep; shows the wait, and adds to the row's busy and idle time. */
void mpb_turn_sleep(struct mpb_turn *turn, int timeout_ms);
/* Whole turns without new connections, after a poll, while everything is ordinary; at most `turns`, and until `until_ns`.
 * Returns 0, or how many of `turns` are left when there was nothing more to do: the handlers are rung, held answers are
 * sent, and the caller may sleep. */
uint32_t mpb_turn_run(struct mpb_turn *turn, uint32_t turns, uint64_t until_ns, uint32_t answers);

#endif
