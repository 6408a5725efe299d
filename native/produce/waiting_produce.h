/* Produce requests with acks=all that wait until their replicas have the records. The list is a request handler's own and
 * derived: what a successor needs stands in the request entries and their result cells, as for a request that Python
 * parked (mpbroker/server/delayed_produce.py, which says when a request is acknowledged; here it is told the same way).
 *
 * Only what is acknowledged without an error is answered here. A request whose time is over, whose partition has another
 * leader or too few replicas, or whose topic changed meanwhile goes to Python, which finds its results in the cells. */
#ifndef MPB_WAITING_PRODUCE_H
#define MPB_WAITING_PRODUCE_H

#include "produce/produce_request.h"
#include "request/handler.h"

struct mpb_waiting_one {
    uint32_t entry, generation;
    int64_t deadline_ms; /* monotonic */
    bool is_for_python;
};

struct mpb_waiting_produces {
    struct mpb_handler *handler;
    const struct mpb_native_topics *topics;
    const uint64_t *generation; /* of the metadata the topics were taken from */
    uint64_t *served;           /* requests, counted up */
    int64_t now_ms;             /* monotonic; below 0: the system's. A test that owns the clock sets it */
    struct mpb_waiting_one *of; /* in no order */
    uint32_t count, room;
    int64_t earliest_ms; /* no deadline is before that; there may be none any more that is so early */
};

/* Parks the request in hand, whose appends are in its cells, and watches its partitions. False, with nothing changed: there
 * is no memory for it. */
bool mpb_produce_wait(struct mpb_waiting_produces *waiting, uint32_t entry, const struct mpb_produce_request *asked);
/* Answers those that may be acknowledged now, and watches on for the others. To be called when a partition has moved, and
 * after a recovery. */
void mpb_produce_look_again(struct mpb_waiting_produces *waiting);
/* The next request that Python has to go on with, in hand again, and when its time is over; -1: there is none. */
int64_t mpb_produce_take_over(struct mpb_waiting_produces *waiting, int64_t now_ms, int64_t *deadline_ms);
void mpb_produce_forget_waiting(struct mpb_waiting_produces *waiting);

#endif
