/* Fetch requests that wait for records, or for their time to be over. The list is a request handler's own and derived: what
 * a successor needs stands in the request entries, as for a request that Python parked (mpbroker/server/delayed_fetch.py,
 * which says when a request has waited enough; here it is told the same way).
 *
 * What cannot be answered here, an error above all, goes to Python, for the rest of the time that the client waits. */
#ifndef MPB_WAITING_FETCH_H
#define MPB_WAITING_FETCH_H

#include "fetch/serve_fetch.h"

struct mpb_waiting_read {
    uint32_t entry, generation;
    int64_t deadline_ms; /* monotonic */
    uint64_t rows;       /* of the partition table that it reads, modulo 64: a bit each */
    bool is_for_python;
};

struct mpb_waiting_fetches {
    struct mpb_native_fetch *native;
    uint32_t expired_counter;    /* requests whose time ran out */
    bool parks;                  /* requests wait here; else they are left to Python */
    struct mpb_waiting_read *of; /* in no order */
    uint32_t count, room;
    int64_t earliest_ms; /* no deadline is before that; there may be none any more that is so early */
};

/* `serve_fetch` of a handler, `waiting` being a struct mpb_waiting_fetches. True: answered, or it waits here; false:
 * somebody else serves the request, or there is no memory to let it wait. */
bool mpb_fetch_serve_or_wait(void *waiting, uint32_t entry);
/* Answers those that have waited enough and read one of these rows (modulo 64), and watches on for the others. To be called
 * when a partition has moved, and for all rows after a recovery and when the broker is about to stop. */
void mpb_fetch_look_again(struct mpb_waiting_fetches *waiting, uint64_t rows);
/* Answers those whose time is over with what there is. The next request that Python has to go on with, in hand again, and
 * when its time is over; -1: there is none. */
int64_t mpb_fetch_take_over(struct mpb_waiting_fetches *waiting, int64_t now_ms, int64_t *deadline_ms);
void mpb_fetch_forget_waiting(struct mpb_waiting_fetches *waiting);

#endif
