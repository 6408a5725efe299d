#include "shm/metadata.h"
#include <stddef.h>
#include <string.h>

#define READ_TRIES 1000
#define COPY_HEAD_BYTES offsetof(struct mpb_topic_copy, overrides)
_Static_assert(sizeof(struct mpb_topic_copy) % 8 == 0, "copied by words");
_Static_assert(COPY_HEAD_BYTES % 8 == 0, "copied by words");
_Static_assert(offsetof(struct mpb_topic, copy) % 8 == 0, "copied by words");

/* Bytes of a copy that mean something, in whole words. A length that a torn copy shows is bounded before its use. */
static size_t copy_words(uint32_t overrides_length)
{
    size_t overrides = overrides_length < MPB_TOPIC_BLOB ? overrides_length : MPB_TOPIC_BLOB;
    return (COPY_HEAD_BYTES + overrides + 7) / 8;
}

/* Word by word with relaxed atomics, because a reader may look while the writer is at it (append rule 13). */
static void store_words(void *shared, const void *own, size_t words)
{
    mpb_atomic64 *to = shared;
    const uint64_t *from = own;
    for (size_t i = 0; i < words; i++)
        mpb_store_relaxed(&to[i], from[i]);
}

static void load_words(void *own, const void *shared, size_t words)
{
    uint64_t *to = own;
    mpb_atomic64 *from = (mpb_atomic64 *)(uintptr_t)shared;
    for (size_t i = 0; i < words; i++)
        to[i] = mpb_load_relaxed(&from[i]);
}

void mpb_topic_write(struct mpb_core *core, uint32_t row, const struct mpb_topic_copy *next)
{
    struct mpb_topic *topic = &core->topics[row];
    uint64_t selector = mpb_load_relaxed(&topic->selector);
    struct mpb_topic_copy *idle = &topic->copy[(selector + 1) & 1];
    size_t words = copy_words(next->overrides_length), half = words / 2;
    atomic_thread_fence(memory_order_release);
    store_words(idle, next, half);
    mpb_step();
    MPB_CRASH(core, "metadata.row_half");
    store_words((uint64_t *)idle + half, (const uint64_t *)next + half, words - half);
    mpb_step();
    MPB_CRASH(core, "metadata.row_written");
    mpb_store_release(&topic->selector, selector + 1);
    mpb_step();
    MPB_CRASH(core, "metadata.row_committed");
}

int mpb_topic_read(const struct mpb_core *core, uint32_t row, struct mpb_topic_copy *out, uint64_t *selector)
{
    struct mpb_topic *topic = &core->topics[row];
    for (int tries = 0; tries < READ_TRIES; tries++) {
        *selector = mpb_load_acquire(&topic->selector);
        const struct mpb_topic_copy *copy = &topic->copy[*selector & 1];
        load_words(out, copy, COPY_HEAD_BYTES / 8);
        size_t words = copy_words(out->overrides_length);
        load_words(out->overrides, copy->overrides, words - COPY_HEAD_BYTES / 8);
        atomic_thread_fence(memory_order_acquire);
        if (mpb_load_relaxed(&topic->selector) == *selector)
            return 0;
    }
    return MPB_METADATA_BUSY;
}

static uint64_t journal_word(uint64_t change, uint32_t row) { return change << 32 | row; }

uint64_t mpb_journal_append(struct mpb_core *core, uint32_t row)
{
    uint64_t change = mpb_load_relaxed(&core->header->metadata_generation);
    mpb_store_release(&core->journal[change % core->journal_count], journal_word(change, row));
    mpb_step();
    MPB_CRASH(core, "metadata.journal_written");
    mpb_store_release(&core->header->metadata_generation, change + 1);
    mpb_step();
    MPB_CRASH(core, "metadata.generation_raised");
    return change + 1;
}

uint64_t mpb_journal_skip(struct mpb_core *core)
{
    return mpb_journal_append(core, UINT32_MAX); /* no such row: readers take it as "any" */
}

int mpb_journal_since(const struct mpb_core *core, uint64_t since, uint32_t *rows, uint32_t most, uint64_t *reached)
{
    uint64_t now = mpb_metadata_generation(core);
    *reached = now;
    if (now - since > core->journal_count)
        return MPB_METADATA_RESCAN;
    uint64_t count = now - since < most ? now - since : most;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = mpb_load_acquire(&core->journal[(since + i) % core->journal_count]);
        rows[i] = (uint32_t)word;
        if (word >> 32 != ((since + i) & UINT32_MAX) || rows[i] >= core->topic_count)
            return MPB_METADATA_RESCAN;
    }
    *reached = since + count;
    return (int)count;
}

void mpb_rows_raise(struct mpb_core *core, uint32_t topics_high, uint32_t partitions_high)
{
    if (topics_high > mpb_topics_high(core))
        mpb_store_release(&core->header->topics_high, topics_high);
    if (partitions_high > mpb_partitions_high(core))
        mpb_store_release(&core->header->partitions_high, partitions_high);
    mpb_step();
}

void mpb_partition_link(struct mpb_core *core, uint32_t ordinal, uint32_t next_plus_one)
{
    mpb_store_release(&core->partitions[ordinal].next_ordinal, next_plus_one);
}

int mpb_topic_partitions(const struct mpb_core *core, const uint8_t topic_id[16], uint32_t first, uint32_t count,
                         uint32_t *ordinals)
{
    uint32_t ordinal = first;
    for (uint32_t i = 0; i < count; i++) {
        if (ordinal >= core->partition_count)
            return MPB_METADATA_BUSY;
        const struct mpb_partition *row = &core->partitions[ordinal];
        uint32_t flags = mpb_load_acquire((mpb_atomic32 *)(uintptr_t)&row->flags);
        if ((flags & MPB_PART_EXISTS) == 0 || row->partition != i || memcmp(row->topic_id, topic_id, 16) != 0)
            return MPB_METADATA_BUSY;
        ordinals[i] = ordinal;
        ordinal = mpb_load_acquire((mpb_atomic32 *)(uintptr_t)&row->next_ordinal) - 1;
    }
    return 0;
}
