#include "log/aborted.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/offset_index.h"
#include "log/partition_lock.h"
#include "log/segment.h"
#include "log/segment_list.h"

#define BLOCK_ENTRIES 128

/* One segment's entries, read in blocks. */
struct entries {
    int fd;
    uint64_t count;
    uint64_t held_from, held;
    uint8_t block[BLOCK_ENTRIES * MPB_TXN_INDEX_ENTRY_BYTES];
};

static int read_at(struct entries *entries, uint64_t at, struct mpb_aborted *out)
{
    if (at < entries->held_from || at >= entries->held_from + entries->held) {
        uint64_t left = entries->count - at, want = left < BLOCK_ENTRIES ? left : BLOCK_ENTRIES;
        int64_t n = mpb_io_read(entries->fd, entries->block, want * MPB_TXN_INDEX_ENTRY_BYTES,
                                at * MPB_TXN_INDEX_ENTRY_BYTES);
        if (n < 0)
            return (int)n;
        if (n != (int64_t)(want * MPB_TXN_INDEX_ENTRY_BYTES))
            return -EBADMSG;
        entries->held_from = at;
        entries->held = want;
    }
    bool good = mpb_aborted_read(entries->block + (at - entries->held_from) * MPB_TXN_INDEX_ENTRY_BYTES, out);
    return good ? 0 : -EBADMSG;
}

/* Number of the first entry whose marker is not below `offset`: near the end for most readers. */
static int find_from(struct entries *entries, int64_t offset, uint64_t *at)
{
    struct mpb_aborted entry;
    uint64_t high = entries->count, low = high > BLOCK_ENTRIES ? high - BLOCK_ENTRIES : 0;
    int error = high == 0 ? 0 : read_at(entries, low, &entry);
    if (error == 0 && low > 0 && entry.last_offset >= offset) {
        high = low;
        low = 0;
    }
    while (error == 0 && low < high) {
        uint64_t middle = low + (high - low) / 2;
        error = read_at(entries, middle, &entry);
        if (entry.last_offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return error;
}

struct wanted {
    int64_t from, below; /* offsets: markers not below the one, transactions that begin below the other */
    struct mpb_aborted *out;
    uint32_t room, count;
};

/* 1: what follows cannot begin below `below`; 0: go on with the next segment; or a negative errno. */
static int collect(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                   int64_t base, struct wanted *wanted)
{
    struct entries entries = {.held = 0};
    uint64_t at;
    int64_t bytes = mpb_segment_bytes(log, row, copy, base, MPB_FILE_TXN_INDEX);
    if (bytes <= 0)
        return (int)bytes;
    entries.fd = mpb_segment_fd(log, row, copy, base, MPB_FILE_TXN_INDEX);
    if (entries.fd < 0)
        return entries.fd;
    entries.count = (uint64_t)bytes / MPB_TXN_INDEX_ENTRY_BYTES;
    int error = find_from(&entries, wanted->from, &at);
    for (; error == 0 && at < entries.count; at++) {
        struct mpb_aborted entry;
        error = read_at(&entries, at, &entry);
        if (error != 0)
            break;
        if (entry.first_offset < wanted->below) {
            if (wanted->count < wanted->room)
                wanted->out[wanted->count] = entry;
            wanted->count++;
        }
        if (entry.last_stable >= wanted->below)
            return 1;
    }
    return error;
}

/* An offset that what the plan reads ends at or before: that of the next batch with an entry in the offset index. */
static int end_of_read(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                       const struct mpb_read_plan *plan, int64_t *out)
{
    struct mpb_index_hit hit = {0};
    int64_t bytes = mpb_segment_bytes(log, row, copy, plan->base, MPB_FILE_INDEX);
    *out = plan->last_stable;
    if (bytes <= 0)
        return (int)bytes;
    int fd = mpb_segment_fd(log, row, copy, plan->base, MPB_FILE_INDEX);
    int error = fd < 0 ? fd : mpb_offset_index_from(fd, (uint64_t)bytes, plan->position + plan->length, &hit);
    if (error == 0 && hit.found && plan->base + hit.relative < *out)
        *out = plan->base + hit.relative;
    return error;
}

static int collect_from(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                        int64_t base, struct wanted *wanted)
{
    const struct mpb_segment_list *list;
    if (base == copy->active_base) {
        int done = collect(log, row, copy, base, wanted);
        return done == 1 ? 0 : done;
    }
    int error = mpb_segment_list_get(log, row, copy, &list);
    for (uint32_t i = error == 0 ? mpb_segment_list_find(list, base) : 0; error == 0 && i < list->count; i++)
        error = collect(log, row, copy, list->bases[i], wanted);
    return error == 1 ? 0 : error;
}

int mpb_log_aborted(struct mpb_log *log, const struct mpb_read_plan *plan, int64_t fetch_offset,
                    struct mpb_aborted *out, uint32_t room, uint32_t *count)
{
    const struct mpb_partition *row = &log->core->partitions[plan->ordinal];
    struct mpb_partition_copy copy;
    struct wanted wanted = {.from = fetch_offset, .out = out, .room = room};
    *count = 0;
    if (plan->length == 0 || plan->aborted_end <= fetch_offset)
        return 0;
    int error = mpb_partition_snapshot(log, plan->ordinal, &copy);
    if (error != 0)
        return error;
    if (copy.truncations != plan->truncations)
        return MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    error = end_of_read(log, row, &copy, plan, &wanted.below);
    if (error == 0)
        error = collect_from(log, row, &copy, plan->base, &wanted);
    if (mpb_read_overtaken(log, plan->ordinal, plan->truncations))
        return MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    *count = wanted.count;
    return error != 0 ? mpb_read_error(log, row, plan->base, error) : 0;
}
