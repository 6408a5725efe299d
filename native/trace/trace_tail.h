/* Between two turns of the tracer: records go from a lane to the end of its segment file, and nothing else is looked at.
 *
 * Here and not in Python, because the tracer is woken in the middle of a flood, on a core whose caches hold the broker's
 * work: what it executes then is fetched from memory first, and so is what it displaces, afterwards. */
#ifndef MPB_TRACE_TAIL_H
#define MPB_TRACE_TAIL_H

#include "trace/trace_lane.h"
#include "trace/trace_tally.h"

struct mpb_trace_tail {
    struct mpb_lane *lane;
    struct mpb_trace_tally *tally; /* of the segment: says where it ends */
    int file;                      /* -1: there is no segment yet */
    uint64_t head_bytes;           /* of the segment, before its first record */
    uint64_t room;                 /* records that the segment may have in all */
};

/* Writes what the lane holds, and releases it once it is written. False: some stays, and a turn is needed: the segment has
 * no room for all of it, or cannot be written, or the lane's words contradict each other. What was written in part is
 * written again, at the same place. */
bool mpb_tail_follow(const struct mpb_trace_tail *tail);

struct mpb_trace_bells {
    int wakeup_fd;  /* readable: a signal came */
    int bell_fd;    /* an eventfd that the writers of lanes ring; -1: none */
    int notices_fd; /* readable: names, which go to the disk before the records that need them; -1: none */
};

enum mpb_trace_wait {
    MPB_TRACE_TIME_OVER = 0,
    MPB_TRACE_SIGNALLED = 1,
    MPB_TRACE_NEEDS_TURN = 2, /* a bell rang, and following does not do */
};

/* Sleeps for `timeout_ms`, or until a turn is needed before; follows all tails whenever the bell rings. */
enum mpb_trace_wait mpb_tail_wait(const struct mpb_trace_tail *tails, size_t count, const struct mpb_trace_bells *bells,
                                  int timeout_ms);

#endif
