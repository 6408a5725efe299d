#define _GNU_SOURCE
#include "shm/doorbell.h"
#include "shm/counters.h"
#include "shm/inject.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int mpb_futex_wait(mpb_atomic32 *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec limit = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    long status = syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &limit, NULL, 0);
    if (status == 0 || errno == EAGAIN)
        return 0;
    return errno == ETIMEDOUT ? 1 : 2;
}

void mpb_futex_wake(mpb_atomic32 *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

static void wake_word(struct mpb_core *core, uint32_t handler)
{
    mpb_store_release(&core->doorbells->handler[handler].word, 1);
    mpb_futex_wake(&core->doorbells->handler[handler].word);
}

/* Takes the lowest announced sleeper of `candidates` back and wakes it; -1: nobody of them sleeps. */
static int wake_one(struct mpb_core *core, uint64_t candidates, uint32_t self)
{
    mpb_atomic64 *sleepers = &core->doorbells->sleepers;
    uint64_t seen = atomic_load(sleepers) & candidates;
    while (seen != 0) {
        uint64_t bit = seen & -seen;
        if (atomic_fetch_and(sleepers, ~bit) & bit) {
            MPB_CRASH(core, "doorbell.handler.taken");
            wake_word(core, (uint32_t)__builtin_ctzll(bit));
            mpb_count(core, self, MPB_C_HANDLER_WAKES, 1);
            return __builtin_ctzll(bit);
        }
        seen = atomic_load(sleepers) & candidates;
    }
    return -1;
}

int mpb_ring_data_handler(struct mpb_core *core, uint32_t self)
{
    mpb_fence_full();
    return wake_one(core, ~mpb_apart_mask(core), self);
}

void mpb_ring_control_handler(struct mpb_core *core, uint32_t self)
{
    uint64_t reserved = mpb_reserved_mask(core);
    mpb_fence_full();
    if (reserved == 0 || wake_one(core, reserved, self) < 0)
        wake_one(core, ~mpb_apart_mask(core), self);
}

void mpb_ring_handler(struct mpb_core *core, uint32_t handler)
{
    uint64_t bit = 1ull << handler;
    mpb_fence_full();
    if ((atomic_load(&core->doorbells->sleepers) & bit) == 0)
        return; /* awake: it looks at everything before it sleeps */
    if (atomic_fetch_and(&core->doorbells->sleepers, ~bit) & bit) {
        MPB_CRASH(core, "doorbell.handler.taken");
        wake_word(core, handler);
    }
}

void mpb_poke_handler(struct mpb_core *core, uint32_t handler, uint64_t poke, uint32_t self)
{
    if (handler >= MPB_MAX_HANDLERS)
        return;
    if ((atomic_fetch_or(&core->doorbells->handler[handler].poke, poke) & poke) != poke)
        mpb_count(core, self, MPB_C_PARTITION_NOTICES, 1);
    MPB_CRASH(core, "doorbell.poked");
    mpb_ring_handler(core, handler);
}

void mpb_handler_announce(struct mpb_core *core, uint32_t handler)
{
    mpb_store_release(&core->doorbells->handler[handler].word, 0);
    atomic_fetch_or(&core->doorbells->sleepers, 1ull << handler);
    mpb_fence_full();
    MPB_CRASH(core, "doorbell.handler.announced");
}

void mpb_handler_withdraw(struct mpb_core *core, uint32_t handler)
{
    atomic_fetch_and(&core->doorbells->sleepers, ~(1ull << handler));
}

int mpb_handler_sleep(struct mpb_core *core, uint32_t handler, int64_t timeout_ns)
{
    int status = mpb_futex_wait(&core->doorbells->handler[handler].word, 0, timeout_ns);
    MPB_CRASH(core, "doorbell.handler.woken");
    mpb_handler_withdraw(core, handler);
    return status;
}

static void write_eventfd(struct mpb_core *core, uint32_t processor)
{
    uint64_t one = 1;
    if (core->eventfds[processor] >= 0 && write(core->eventfds[processor], &one, sizeof one) < 0)
        return; /* a full eventfd is readable: the processor wakes all the same */
}

void mpb_ring_processor(struct mpb_core *core, uint32_t processor, uint32_t self)
{
    mpb_atomic64 *asleep = &core->doorbells->processor[processor].asleep;
    mpb_fence_full();
    /* The look saves work alone: the exchange would take the line from a processor that is awake. */
    if (atomic_load(asleep) == 0 || atomic_exchange(asleep, 0) == 0)
        return;
    MPB_CRASH(core, "doorbell.processor.taken");
    write_eventfd(core, processor);
    mpb_count(core, self, MPB_C_PROCESSOR_WAKES, 1);
}

void mpb_want_space(struct mpb_core *core, uint32_t plane, uint32_t processor)
{
    atomic_fetch_or(&core->doorbells->want_space, 1ull << (32 * plane + processor));
    mpb_fence_full();
}

static uint64_t half_of(uint32_t plane) { return 0xffffffffull << (32 * plane); }

bool mpb_space_is_wanted(struct mpb_core *core, uint32_t plane)
{
    mpb_fence_full();
    return (atomic_load(&core->doorbells->want_space) & half_of(plane)) != 0;
}

void mpb_ring_want_space(struct mpb_core *core, uint32_t plane, uint64_t depth, uint32_t self)
{
    uint64_t waiting = atomic_load(&core->doorbells->want_space) & half_of(plane);
    if (waiting == 0 || 4 * depth > 3 * (uint64_t)core->header->plane_bound[plane])
        return;
    waiting = atomic_fetch_and(&core->doorbells->want_space, ~waiting) & waiting;
    MPB_CRASH(core, "doorbell.space.taken");
    for (; waiting != 0; waiting &= waiting - 1) {
        uint32_t processor = (uint32_t)__builtin_ctzll(waiting) % 32;
        atomic_store(&core->doorbells->processor[processor].asleep, 0);
        write_eventfd(core, processor); /* always: it waits for room whether or not it announced sleep */
        mpb_count(core, self, MPB_C_PROCESSOR_WAKES, 1);
    }
}

/* Service words: 0 awake, 1 asleep, 2 rung. */
void mpb_ring_service(struct mpb_core *core, uint32_t slot)
{
    mpb_atomic32 *word = &core->doorbells->service_word[slot];
    if (atomic_exchange(word, 2) == 1) {
        MPB_CRASH(core, "doorbell.service.taken");
        mpb_futex_wake(word);
    }
}

bool mpb_service_wait(struct mpb_core *core, uint32_t slot, int64_t timeout_ns)
{
    mpb_atomic32 *word = &core->doorbells->service_word[slot];
    uint32_t awake = 0;
    if (timeout_ns != 0 && atomic_compare_exchange_strong(word, &awake, 1))
        mpb_futex_wait(word, 1, timeout_ns);
    return atomic_exchange(word, 0) == 2;
}

void mpb_watch_partition(struct mpb_core *core, uint32_t ordinal, uint32_t handler)
{
    atomic_fetch_or(&core->partitions[ordinal].watchers, 1ull << handler);
    mpb_fence_full();
}

void mpb_watch_acknowledged(struct mpb_core *core, uint32_t ordinal, uint32_t handler)
{
    atomic_fetch_or(&core->partitions[ordinal].ack_watchers, 1ull << handler);
    mpb_fence_full();
}

void mpb_tell_handler(struct mpb_core *core, uint32_t ordinal, uint32_t handler, uint32_t self)
{
    uint32_t bit = ordinal % (64 * MPB_DIRTY_WORDS);
    atomic_fetch_or(&core->doorbells->dirty[handler][bit / 64], 1ull << bit % 64);
    mpb_poke_handler(core, handler, MPB_POKE_DIRTY, self);
}

/* Those who watch are told, and watch no longer. */
static void tell(struct mpb_core *core, uint32_t ordinal, mpb_atomic64 *watchers, uint32_t self)
{
    if (atomic_load(watchers) == 0)
        return;
    uint64_t waiting = atomic_exchange(watchers, 0);
    MPB_CRASH(core, "doorbell.watchers.taken");
    for (; waiting != 0; waiting &= waiting - 1)
        mpb_tell_handler(core, ordinal, (uint32_t)__builtin_ctzll(waiting), self);
}

void mpb_notify_appended(struct mpb_core *core, uint32_t ordinal, uint32_t self)
{
    mpb_fence_full();
    tell(core, ordinal, &core->partitions[ordinal].watchers, self);
}

void mpb_notify_partition(struct mpb_core *core, uint32_t ordinal, uint32_t self)
{
    mpb_fence_full();
    tell(core, ordinal, &core->partitions[ordinal].watchers, self);
    tell(core, ordinal, &core->partitions[ordinal].ack_watchers, self);
}

void mpb_ring_everybody(struct mpb_core *core)
{
    uint64_t used = mpb_used_mask(core) | mpb_coordinator_mask(core);
    for (uint32_t h = 0; h < core->header->handler_count; h++) {
        if ((used >> h & 1) == 0)
            continue;
        atomic_fetch_or(&core->doorbells->handler[h].poke, MPB_POKE_SCAN);
        mpb_fence_full();
        wake_word(core, h); /* whatever its bit says: the dead one may have taken it back without waking */
        MPB_CRASH(core, "doorbell.everybody");
    }
    for (uint32_t p = 0; p < core->header->processor_count; p++) {
        atomic_store(&core->doorbells->processor[p].asleep, 0);
        write_eventfd(core, p);
    }
    for (uint32_t slot = MPB_SLOT_CONTROLLER; slot < MPB_MAX_SLOTS; slot++) {
        atomic_store(&core->doorbells->service_word[slot], 2);
        mpb_futex_wake(&core->doorbells->service_word[slot]);
    }
}
