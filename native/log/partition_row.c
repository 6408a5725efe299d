#include "log/partition_row.h"

#include <string.h>

#include "shm/doorbell.h"

#define SNAPSHOT_TRIES 8
#define COPY_WORDS (sizeof(struct mpb_partition_copy) / 8)

int mpb_partition_usable(const struct mpb_core *core, const struct mpb_partition *row, const uint8_t *topic_id)
{
    uint32_t flags = mpb_load_acquire(&row->flags);
    if ((flags & MPB_PART_EXISTS) == 0 || (flags & MPB_PART_DELETED) != 0)
        return MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (topic_id != NULL && memcmp(topic_id, row->topic_id, sizeof row->topic_id) != 0)
        return MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if ((flags & MPB_PART_ONLINE) == 0 || !mpb_log_dir_online(core, row->log_dir))
        return MPB_ERR_KAFKA_STORAGE_ERROR;
    return 0;
}

static void copy_words(struct mpb_partition_copy *to, const struct mpb_partition_copy *from, size_t first, size_t last)
{
    mpb_atomic64 *out = (mpb_atomic64 *)to;
    const mpb_atomic64 *in = (const mpb_atomic64 *)from;
    for (size_t i = first; i < last; i++)
        mpb_store_relaxed(&out[i], mpb_load_relaxed(&in[i]));
}

bool mpb_partition_peek(const struct mpb_partition *row, struct mpb_partition_copy *out)
{
    for (int i = 0; i < SNAPSHOT_TRIES; i++) {
        uint64_t selector = mpb_load_acquire(&row->selector);
        copy_words(out, &row->copy[selector & 1], 0, COPY_WORDS);
        atomic_thread_fence(memory_order_acquire); /* append rule 13 */
        if (mpb_load_relaxed(&row->selector) == selector)
            return true;
    }
    return false;
}

bool mpb_partition_try_snapshot(const struct mpb_partition *row, struct mpb_partition_copy *out)
{
    return mpb_partition_peek(row, out) && out->truncations % 2 == 0; /* append rule 19 */
}

void mpb_partition_write_idle(struct mpb_core *core, struct mpb_partition *row, const struct mpb_partition_copy *next)
{
    (void)core;
    struct mpb_partition_copy *idle = &row->copy[(mpb_load_relaxed(&row->selector) + 1) & 1];
    atomic_thread_fence(memory_order_release); /* the last commit stays before the first store here (append rule 13) */
    copy_words(idle, next, 0, COPY_WORDS / 2);
    mpb_step();
    MPB_CRASH(core, "append.copy_half");
    copy_words(idle, next, COPY_WORDS / 2, COPY_WORDS);
    mpb_step();
}

void mpb_partition_commit(struct mpb_partition *row)
{
    mpb_step();
    mpb_store_release(&row->selector, mpb_load_relaxed(&row->selector) + 1);
    mpb_step();
}

void mpb_intent_set(struct mpb_log *log, struct mpb_partition *row, enum mpb_intent_kind kind)
{
    mpb_step();
    mpb_store_release(&row->intent.word, (uint64_t)kind << 24 | (log->slot & 0xffffff));
    mpb_step();
}

void mpb_intent_clear(struct mpb_partition *row)
{
    mpb_step();
    mpb_store_release(&row->intent.word, 0);
    mpb_step();
}

void mpb_partition_moved(struct mpb_log *log, uint32_t ordinal) { mpb_notify_partition(log->core, ordinal, log->slot); }

void mpb_partition_appended(struct mpb_log *log, uint32_t ordinal)
{
    mpb_notify_appended(log->core, ordinal, log->slot);
}
