/* A trace lane and the requests whose records go into it, in memory that processes share. */
#ifndef MPB_TESTS_LANE_WORLD_H
#define MPB_TESTS_LANE_WORLD_H

#include <string.h>
#include <sys/mman.h>
#include "tests/stepping/check.h"
#include "trace/trace_lane.h"

#define CAPACITY 8
#define ENTRIES 4

struct world { /* shared between the test and the processes it kills */
    struct mpb_entry entries[ENTRIES];
    _Alignas(64) uint8_t lane[sizeof(struct mpb_lane_header) + 4096 * MPB_TRACE_BYTES];
};

static inline struct world *new_world(uint64_t capacity)
{
    struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(w != MAP_FAILED);
    CHECK_EQ(mpb_lane_format(w->lane, sizeof w->lane, capacity, 3, 77), 0);
    return w;
}

static inline void begin(struct mpb_entry *e, uint64_t fill, int32_t correlation)
{
    e->fill_number = fill;
    e->correlation_id = correlation;
    e->connection = 5;
    e->connection_generation = 2;
    e->payload_length = 100;
    e->api_key = 1;
    e->error = correlation % 3 == 0 ? 3 : 0;
    mpb_trace_begin(e->trace, 1000);
    mpb_trace_stamp(e->trace, MPB_STAGE_SEND_DONE, 1000 + 64 * (uint64_t)correlation);
}

static inline void check_balance(const struct mpb_lane *lane, uint64_t finished)
{
    struct mpb_lane_counters c = mpb_lane_read_counters(lane);
    CHECK_EQ(c.finished, finished);
    CHECK_EQ(c.written + c.dropped + c.sampled_out, finished);
}

#endif
