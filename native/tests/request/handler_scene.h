/* A request handler whose clock a script owns, and what can be seen of it: its marks, bells and counters. */
#ifndef MPB_TESTS_REQUEST_HANDLER_SCENE_H
#define MPB_TESTS_REQUEST_HANDLER_SCENE_H

#include "tests/stepping/scripted_calls.h"
#include "tests/request/request_drama.h"
#include "shm/waits.h"
#include "trace/trace_record.h"
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>

static struct drama d;

/* Nobody wakes anybody here, and every sleep is over at once; what can be seen of a sleeper is noted. */
static uint64_t sleepers_seen, heartbeat_seen;
static uint32_t wait_seen; /* what all handlers' rows said, or-ed */

long syscall(long number, ...)
{
    va_list more;
    CHECK_EQ(number, SYS_futex);
    va_start(more, number);
    (void)va_arg(more, void *);
    int operation = va_arg(more, int);
    va_end(more);
    if (operation == FUTEX_WAKE)
        return 0;
    sleepers_seen = atomic_load(&d.w.core.doorbells->sleepers);
    for (uint32_t h = 0; h < CAST; h++)
        wait_seen |= mpb_load_acquire(&d.w.core.processes[d.h[h].slot].wait);
    heartbeat_seen = mpb_load_relaxed(&d.w.core.processes[d.h[0].slot].heartbeat_ns);
    errno = ETIMEDOUT;
    return -1;
}

static inline void open_with_clock(int64_t first_ns)
{
    memset(&script, 0, sizeof script);
    script.monotonic_ns[0] = first_ns;
    script.monotonic_lines = 1;
    drama_open(&d);
    script.monotonic_reads = 0;
}

static inline void set_clock(int64_t ns) { script.monotonic_ns[0] = ns; }

static inline uint32_t asked(uint32_t processor, uint32_t plane, uint32_t id)
{
    int64_t entry = submit(&d.p[processor], plane, id, 100);
    CHECK(entry >= 0);
    return (uint32_t)entry;
}

static inline uint32_t claimed(uint32_t id)
{
    uint32_t entry = asked(0, MPB_PLANE_DATA, id);
    CHECK_EQ(mpb_handler_claim(&d.h[0], false), entry);
    return entry;
}

static inline struct mpb_entry *entry_of(uint32_t entry) { return &d.w.core.entries[entry]; }
static inline struct mpb_trace *trace_of(uint32_t entry) { return mpb_trace_of(entry_of(entry)->trace); }
static inline mpb_atomic64 *poke_of(uint32_t handler) { return &d.w.core.doorbells->handler[handler].poke; }
static inline bool sleeps(uint32_t handler) { return atomic_load(&d.w.core.doorbells->sleepers) >> handler & 1; }
static inline uint32_t in_hand(uint32_t h) { return in_hand_of(&d, h); }
static inline uint64_t counted_of(uint32_t handler, uint32_t counter) { return counted_in(&d, handler, counter); }

static inline uint64_t state_word(uint32_t entry, uint32_t state, uint32_t handler)
{
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&entry_of(entry)->state));
    return mpb_state_word(generation, state, d.h[handler].slot);
}

#endif
