/* C11 atomics in the words this project uses. Shared words are always accessed through these, so that the
 * memory order of every access can be read off its name. */
#ifndef MPB_ATOMICS_H
#define MPB_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint64_t mpb_atomic64;
typedef _Atomic int64_t mpb_atomic_i64;
typedef _Atomic uint32_t mpb_atomic32;

#define mpb_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define mpb_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define mpb_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define mpb_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define mpb_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)

/* A full barrier between "I published" and "does anybody sleep?": the doorbell protocol needs it on both sides. */
#ifdef __SANITIZE_THREAD__ /* knows no fences */
static mpb_atomic64 mpb_fence_word __attribute__((unused));
#define mpb_fence_full() ((void)atomic_fetch_add_explicit(&mpb_fence_word, 0, memory_order_seq_cst))
#else
#define mpb_fence_full() atomic_thread_fence(memory_order_seq_cst)
#endif

/* Keeps the compiler from moving a store across a commit point. A process killed between two instructions leaves
 * exactly a prefix of its program order behind only if the compiler did not reorder it (append rule 6). */
#define mpb_step() atomic_signal_fence(memory_order_seq_cst)

static inline bool mpb_cas64(mpb_atomic64 *word, uint64_t *expected, uint64_t desired)
{
    return atomic_compare_exchange_strong_explicit(word, expected, desired, memory_order_acq_rel, memory_order_acquire);
}

static inline bool mpb_cas32(mpb_atomic32 *word, uint32_t *expected, uint32_t desired)
{
    return atomic_compare_exchange_strong_explicit(word, expected, desired, memory_order_acq_rel, memory_order_acquire);
}

#endif
