#include "shm/cluster.h"
#include "shm/inject.h"
#include <stddef.h>

#define READ_TRIES 1000
_Static_assert(sizeof(struct mpb_assignment_copy) % 8 == 0 && sizeof(struct mpb_broker_copy) % 8 == 0,
               "copied by words");

/* Word by word with relaxed atomics, because a reader may look while the writer is at it (append rule 13). */
static void store_words(void *shared, const void *own, size_t bytes)
{
    mpb_atomic64 *to = shared;
    const uint64_t *from = own;
    for (size_t i = 0; i < bytes / 8; i++)
        mpb_store_relaxed(&to[i], from[i]);
}

static void load_words(void *own, const void *shared, size_t bytes)
{
    uint64_t *to = own;
    mpb_atomic64 *from = (mpb_atomic64 *)(uintptr_t)shared;
    for (size_t i = 0; i < bytes / 8; i++)
        to[i] = mpb_load_relaxed(&from[i]);
}

/* `core` is for the crash points alone. */
static void write_row(struct mpb_core *core, mpb_atomic64 *selector, void *copies, const void *next, size_t bytes)
{
    uint64_t seen = mpb_load_relaxed(selector);
    (void)core;
    atomic_thread_fence(memory_order_release);
    store_words((uint8_t *)copies + ((seen + 1) & 1) * bytes, next, bytes);
    mpb_step();
    MPB_CRASH(core, "cluster.row_written");
    mpb_store_release(selector, seen + 1);
    mpb_step();
    MPB_CRASH(core, "cluster.row_committed");
}

static int read_row(mpb_atomic64 *selector, const void *copies, void *out, size_t bytes)
{
    for (int tries = 0; tries < READ_TRIES; tries++) {
        uint64_t seen = mpb_load_acquire(selector);
        load_words(out, (const uint8_t *)copies + (seen & 1) * bytes, bytes);
        atomic_thread_fence(memory_order_acquire);
        if (mpb_load_relaxed(selector) == seen)
            return 0;
    }
    return MPB_CLUSTER_BUSY;
}

void mpb_assignment_write(struct mpb_core *core, uint32_t row, const struct mpb_assignment_copy *next)
{
    struct mpb_assignment *at = &core->assignments[row];
    write_row(core, &at->selector, at->copy, next, sizeof *next);
}

int mpb_assignment_read(const struct mpb_core *core, uint32_t row, struct mpb_assignment_copy *out)
{
    struct mpb_assignment *at = &core->assignments[row];
    return read_row(&at->selector, at->copy, out, sizeof *out);
}

void mpb_broker_write(struct mpb_core *core, uint32_t row, const struct mpb_broker_copy *next)
{
    struct mpb_broker *at = &core->brokers[row];
    write_row(core, &at->selector, at->copy, next, sizeof *next);
}

int mpb_broker_read(const struct mpb_core *core, uint32_t row, struct mpb_broker_copy *out)
{
    struct mpb_broker *at = &core->brokers[row];
    return read_row(&at->selector, at->copy, out, sizeof *out);
}
