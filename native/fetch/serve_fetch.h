/* Serves a Fetch request without the interpreter, from its frame to its answer. Runs in request handlers, inside
 * mpb_handler_serve_or_claim; and when a request that waited is to be answered (`mpb_fetch_answer_waiting`).
 *
 * It serves what nearly every consumer sends: versions 4 to 17, known topics, with a session or without; and followers that
 * have a session and are in the leader's epoch, whose position it counts (mpbroker/server/follower_fetch.py). What it does not know,
 * and every error, it leaves to server/handlers/fetch.py, and counts why. A request that must wait for records is Python's to
 * park (server/waiting_fetch.py); looking again and answering are done here. */
#ifndef MPB_SERVE_FETCH_H
#define MPB_SERVE_FETCH_H

#include "fetch/fetch_request.h"
#include "fetch/fetch_session.h"
#include "request/handler.h"

struct mpb_native_fetch {
    struct mpb_handler *handler;
    struct mpb_log *log;
    const struct mpb_native_topics *topics;
    const uint64_t *generation; /* of the metadata the topics were taken from */
    uint32_t max_bytes;         /* fetch.max.bytes */
    int64_t now_ms;             /* monotonic; below 0: the system's. A test that owns the clock sets it */
    uint64_t served;            /* requests */
    bool off;                   /* a test wants everything left to Python */
    bool serves_followers;      /* this broker is of a cluster, and no known topic throttles its followers */
    bool waits;                 /* `request` is one that came last and must wait */
    struct mpb_fetch_request request;
};

/* True: answered. False: somebody else serves the request, or, if `waits` is set, lets it wait. `native` is a struct
 * mpb_native_fetch: this is `serve_fetch` of a handler. */
bool mpb_serve_fetch(void *native, uint32_t entry);
/* Of a request that waits: whether there is something to do about it; answers it with what there is (false: Python must). */
bool mpb_fetch_is_ready(struct mpb_native_fetch *native, uint32_t entry);
bool mpb_fetch_answer_waiting(struct mpb_native_fetch *native, uint32_t entry);

#endif
