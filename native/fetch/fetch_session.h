/* What a request does to its session (KIP-227): server/fetch_session.py, natively. A step that finds something odd leaves
 * the session as it is, and the request to Python. */
#ifndef MPB_FETCH_SESSION_H
#define MPB_FETCH_SESSION_H

#include "fetch/fetch_request.h"
#include "fetch/session_table.h"

#define MPB_SESSION_EVICTION_MS 120000u

enum mpb_fetch_kind { MPB_FETCH_SESSIONLESS, MPB_FETCH_FULL, MPB_FETCH_INCREMENTAL };

struct mpb_fetch_turn { /* one request that is being served */
    struct mpb_core *core;
    uint32_t slot;
    uint64_t fill_number;
    uint64_t now_ms; /* monotonic */
    const struct mpb_native_topics *topics;
    enum mpb_fetch_kind kind;
    uint32_t session_id; /* of the answer */
    struct mpb_fetch_request *request;
};

/* Fills in `parts`, all that is read, and moves the session's epoch on; once for a request, however often it is called. */
enum mpb_fetch_left mpb_fetch_session_begin(struct mpb_fetch_turn *turn);
/* Marks what the answer tells. */
void mpb_fetch_session_choose(struct mpb_fetch_turn *turn);

/* The session knows from here on what the client knows, or begins: `session_id`. False: somebody holds it, or another
 * request has gone on with it. */
bool mpb_fetch_session_conclude(struct mpb_fetch_turn *turn);

#endif
