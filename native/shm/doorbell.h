/* Who sleeps, and who rings whom. A wake costs a hundred times a ring operation, so nobody is rung who is awake and
 * nobody twice: the sleeper announces itself (bit, flag or word), looks once more, then sleeps; the ringer publishes,
 * fences, and takes the announcement back before it wakes. A process that dies between those two steps swallows a
 * wake: every recovery therefore ends with mpb_ring_everybody. */
#ifndef MPB_DOORBELL_H
#define MPB_DOORBELL_H

#include "shm/core.h"

/* Futex wait on `word` while it is `expected`: 0 woken or changed, 1 timed out, 2 interrupted by a signal. A negative
 * timeout waits for ever. */
int mpb_futex_wait(mpb_atomic32 *word, uint32_t expected, int64_t timeout_ns);
void mpb_futex_wake(mpb_atomic32 *word);

/* Handlers. Ring after a push: at most one sleeper is woken. `self` is the caller's slot, for its counters. Returns who
 * was woken, -1: nobody sleeps. */
int mpb_ring_data_handler(struct mpb_core *core, uint32_t self);
void mpb_ring_control_handler(struct mpb_core *core, uint32_t self);
void mpb_ring_handler(struct mpb_core *core, uint32_t handler);
void mpb_poke_handler(struct mpb_core *core, uint32_t handler, uint64_t poke, uint32_t self);
/* Sleeper: announce; then look at everything once more; then _sleep, which always takes the announcement back. */
void mpb_handler_announce(struct mpb_core *core, uint32_t handler);
void mpb_handler_withdraw(struct mpb_core *core, uint32_t handler);
int mpb_handler_sleep(struct mpb_core *core, uint32_t handler, int64_t timeout_ns);

/* Processors. */
void mpb_ring_processor(struct mpb_core *core, uint32_t processor, uint32_t self);
/* A pop made room. Whether anybody waits for that, asked first: a plane's depth is in the pushers' lines. */
bool mpb_space_is_wanted(struct mpb_core *core, uint32_t plane);
/* Wakes the processors that wait for it once the plane is down to three quarters. */
void mpb_ring_want_space(struct mpb_core *core, uint32_t plane, uint64_t depth, uint32_t self);
void mpb_want_space(struct mpb_core *core, uint32_t plane, uint32_t processor);

/* Single-instance processes: a sticky bell per slot. _wait returns true when rung since the last wait. */
void mpb_ring_service(struct mpb_core *core, uint32_t slot);
bool mpb_service_wait(struct mpb_core *core, uint32_t slot, int64_t timeout_ns);

/* Partitions: a parked request's handler watches; who moves an end (under the partition's lock, or after) notifies. */
void mpb_watch_partition(struct mpb_core *core, uint32_t ordinal, uint32_t handler);
void mpb_notify_partition(struct mpb_core *core, uint32_t ordinal, uint32_t self);
/* The same for requests that wait for replicas: nobody is rung for them after an append that replicas have yet to fetch,
 * which is what _appended tells. */
void mpb_watch_acknowledged(struct mpb_core *core, uint32_t ordinal, uint32_t handler);
void mpb_notify_appended(struct mpb_core *core, uint32_t ordinal, uint32_t self);
/* One handler is told, whether it watches or not. */
void mpb_tell_handler(struct mpb_core *core, uint32_t ordinal, uint32_t handler, uint32_t self);

/* Wakes every handler (with MPB_POKE_SCAN), every processor and every service: after each recovery. */
void mpb_ring_everybody(struct mpb_core *core);

/* The coordinator takes from no plane. */
static inline uint64_t mpb_coordinator_mask(const struct mpb_core *core)
{
    return core->header->coordinator != 0 ? 1ull << (core->header->coordinator - 1) : 0;
}

static inline uint64_t mpb_reserved_mask(const struct mpb_core *core)
{
    uint32_t reserved = core->header->reserved_handlers;
    return reserved >= 64 ? ~0ull : (1ull << reserved) - 1;
}

/* Handlers that run or ever ran, the coordinator apart. */
static inline uint64_t mpb_used_mask(const struct mpb_core *core)
{
    uint32_t high = mpb_load_acquire(&core->header->handlers_high);
    return high >= 64 ? ~0ull : (1ull << high) - 1;
}

/* Handlers that take no data requests. */
static inline uint64_t mpb_apart_mask(const struct mpb_core *core)
{
    return mpb_reserved_mask(core) | mpb_coordinator_mask(core);
}

#endif
