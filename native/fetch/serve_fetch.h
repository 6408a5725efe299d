/* Serves a Fetch request without the interpreter, from its frame to its answer. Runs in request handlers, inside
 * mpb_handler_serve_or_claim; and when a request that waited is to be answered (`mpb_fetch_answer_waiting`).
 *
 * It serves what nearly every consumer sends: versions 4 to 17, known topics, with a session or without; and followers that
 * have a session and are in the leader's epoch, whose position it counts (mpbroker/server/follower_fetch.py). What it does not know,
 * and every error, it leaves to server/handlers/fetch.py, and counts why. A request that must wait for records waits in
 * waiting_fetch.h. */
#ifndef MPB_SERVE_FETCH_H
#define MPB_SERVE_FETCH_H

#include "fetch/fetch_request.h"
#include "fetch/fetch_session.h"
#include "request/handler.h"

struct mpb_native_fetch {
    struct mpb_handler *handler;
    struct mpb_log *log;
    const struct mpb_native_topics *topics;
    const uint64_t *generation;       /* of the metadata the topics were taken from */
    uint32_t max_bytes;               /* fetch.max.bytes */
    int64_t now_ms;                   /* monotonic; below 0: the system's. A test that owns the clock sets it */
    uint64_t served;                  /* requests */
    bool off;                         /* a test wants everything left to Python */
    bool serves_followers;            /* this broker is of a cluster, and no known topic throttles its followers */
    bool waits;                       /* `request` is one that came last and must wait */
    struct mpb_fetch_request request; /* the one that was read last */
};

/* True: answered. False: somebody else serves the request, or, if `waits` is set, lets it wait. */
bool mpb_serve_fetch(struct mpb_native_fetch *native, uint32_t entry);
/* Of a request that waits: whether there is something to do about it. */
bool mpb_fetch_is_ready(struct mpb_native_fetch *native, uint32_t entry);
/* The same, and answers it then; `is_over`: with what there is. MPB_FETCH_WAIT: it waits on, nothing was done; else it is
 * in hand again, and answered with MPB_FETCH_SERVE, left to Python with every other. */
enum mpb_fetch_left mpb_fetch_go_on(struct mpb_native_fetch *native, uint32_t entry, bool is_over);
int64_t mpb_fetch_now_ms(const struct mpb_native_fetch *native);

#endif
