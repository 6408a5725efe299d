/* The metadata snapshot: which topics there are, for every process to read without a lock. The controller alone writes;
 * the truth is in its store, and a successor writes whatever its predecessor left out.
 *
 *   topic row (two copies, selector) ── first_ordinal ──► partition row ── next_ordinal ──► partition row …
 *   journal[g mod rows] = low 32 bits of g | topic row       metadata_generation = number of changes
 *
 * A change writes its row, then its journal word, then raises the generation. The number in a journal word tells a
 * reader that was away for too long that the word is no longer the one it wants: it looks at every row then. */
#ifndef MPB_METADATA_H
#define MPB_METADATA_H

#include "shm/inject.h"

enum mpb_topic_flags { MPB_TOPIC_EXISTS = 1, MPB_TOPIC_INTERNAL = 2, MPB_TOPIC_DELETING = 4 };

enum { MPB_METADATA_RESCAN = -1, MPB_METADATA_BUSY = -2 };

/* Writes the idle copy and commits it with one store of the selector. Controller only. */
void mpb_topic_write(struct mpb_core *core, uint32_t row, const struct mpb_topic_copy *next);

/* A consistent copy of the row and the selector it belongs to (0: never written). 0, or MPB_METADATA_BUSY if the row
 * changed under every one of many looks. */
int mpb_topic_read(const struct mpb_core *core, uint32_t row, struct mpb_topic_copy *out, uint64_t *selector);

static inline uint64_t mpb_metadata_generation(const struct mpb_core *core)
{
    return mpb_load_acquire(&core->header->metadata_generation);
}

/* Announces that a topic row changed. Returns the generation that shows it. Controller only. */
uint64_t mpb_journal_append(struct mpb_core *core, uint32_t row);

/* Raises the generation without saying which row changed: every reader looks at all of them. Controller only. */
uint64_t mpb_journal_skip(struct mpb_core *core);

/* Rows of the changes after generation `since`, oldest first, at most `most` of them; *reached is the generation they
 * lead to. Returns their number, or MPB_METADATA_RESCAN (then *reached is the present generation). */
int mpb_journal_since(const struct mpb_core *core, uint64_t since, uint32_t *rows, uint32_t most, uint64_t *reached);

/* Rows from these numbers on were never written in this boot, so nobody need look at them: looking at a hole of the
 * memory would cost a page. Raised by the controller before it uses a row. */
static inline uint32_t mpb_topics_high(const struct mpb_core *core)
{
    return mpb_load_acquire(&core->header->topics_high);
}
static inline uint32_t mpb_partitions_high(const struct mpb_core *core)
{
    return mpb_load_acquire(&core->header->partitions_high);
}
void mpb_rows_raise(struct mpb_core *core, uint32_t topics_high, uint32_t partitions_high);

/* Links partition row `ordinal` to the next one of its topic (+ 1; 0: last). Controller only. */
void mpb_partition_link(struct mpb_core *core, uint32_t ordinal, uint32_t next_plus_one);

/* Walks a topic's chain from `first`: fills `ordinals` with exactly `count` rows that are partitions 0, 1, … of the
 * topic, and returns 0; MPB_METADATA_BUSY if the chain is being changed. */
int mpb_topic_partitions(const struct mpb_core *core, const uint8_t topic_id[16], uint32_t first, uint32_t count,
                         uint32_t *ordinals);

#endif
