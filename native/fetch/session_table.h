/* The table of fetch sessions (KIP-227) in shared memory: any request handler goes on with any session. What a request
 * does to a session is Python's and serve_fetch's business; here a row is held, filled, kept or dropped.
 *
 * A row is changed by who holds it: its slot stands in the row's word, put there and taken away by one atomic operation
 * each. Nobody waits long for a row, because two requests of one session at a time are a client's mistake. A holder that
 * dies takes the session with it: its successor drops what its slot held, and the client begins anew (error 70). A
 * session's id is its row and random bits. */
#ifndef MPB_SESSION_TABLE_H
#define MPB_SESSION_TABLE_H

#include "shm/core.h"

enum mpb_session_found { MPB_SESSION_HELD = 0, MPB_SESSION_UNKNOWN = 1, MPB_SESSION_BUSY = 2 };

#define MPB_SESSION_SHARE 8u /* of all units one session gets at most an eighth */

/* Takes hold of a session; waits for at most 20 ms. */
enum mpb_session_found mpb_session_hold(struct mpb_core *core, uint32_t slot, uint32_t id, uint32_t *row);
/* Of a row that this slot holds: lets go of it; frees it; gives it room for so many topics and partitions, of which nothing
 * is kept (false: there is no room, and the row has what it had). */
void mpb_session_release(struct mpb_core *core, uint32_t row);
void mpb_session_drop(struct mpb_core *core, uint32_t row);
bool mpb_session_resize(struct mpb_core *core, uint32_t row, uint32_t topics, uint32_t partitions);
/* What it remembers. */
struct mpb_session_topic *mpb_session_topics(const struct mpb_core *core, uint32_t row);
struct mpb_session_partition *mpb_session_partitions(const struct mpb_core *core, uint32_t row);

static inline uint64_t mpb_session_bytes(uint32_t topics, uint32_t partitions)
{
    return (uint64_t)topics * sizeof(struct mpb_session_topic) +
           (uint64_t)partitions * sizeof(struct mpb_session_partition);
}

struct mpb_session_wish { /* for a new session */
    uint64_t now_ms;      /* monotonic */
    uint64_t eviction_ms; /* so long a session is safe, or until nobody used it for so long */
    uint32_t flags;       /* MPB_SESSION_BY_ID, MPB_SESSION_PRIVILEGED */
    uint32_t topics, partitions;
};

/* A new session in a row that is now held, with room for what is wished; in place of another one if Kafka's rules say
 * that this one is worth more. 0: there is none to be had; else its id. */
uint32_t mpb_session_create(struct mpb_core *core, uint32_t slot, const struct mpb_session_wish *wish, uint32_t *row);

/* For a successor, before its work: drops every session that the slot's last process held. */
uint32_t mpb_session_recover(struct mpb_core *core, uint32_t slot);

#endif
