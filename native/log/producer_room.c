#include "log/producer_room.h"

#include "log/partition_lock.h"
#include "log/producer.h"

#define ROOM_LOOKS 64  /* rows compared, if one of them wrote once; else the search goes on */
#define MOST_LOOKS 512 /* until one that wrote again will do */

#define BUSY_PAUSE 64 /* refusals until the next search, if a partition was busy in the last one */

struct candidate {
    uint32_t row_plus_one; /* 0: none */
    uint32_t ordinal;
    int64_t written_ms;
    bool free;  /* nobody's */
    bool busy;  /* its partition's lock is not to be had */
    bool again; /* it wrote more than one batch */
};

static struct candidate look_at(const struct mpb_core *core, uint32_t index)
{
    struct candidate found = {0};
    uint64_t owner = mpb_load_acquire(&core->producers[index].owner);
    if (!mpb_producer_time(core, index, &found.written_ms, &found.again))
        return (struct candidate){.row_plus_one = index + 1, .free = true};
    if (mpb_producer_is_open(core, index) || owner == 0 || owner > core->partition_count)
        return found;
    found.busy = mpb_load_relaxed(&core->partitions[owner - 1].busy_since_ns) != 0;
    found.row_plus_one = found.busy ? 0 : index + 1;
    found.ordinal = (uint32_t)owner - 1;
    return found;
}

/* The hand goes round the table, so that every row gets its turn; behind it stand the rows that were taken last. Who wrote once
 * goes first; where there is none far and wide, the one that was idle for longest: a flood of ids that write twice each is no
 * reason to refuse anybody, and its own rows are most of those that one comes by. */
static struct candidate search(struct mpb_log *log)
{
    const struct mpb_core *core = log->core;
    uint32_t high = mpb_load_acquire(&core->header->producers_high);
    struct candidate once = {0}, again = {0};
    bool busy = false;
    for (uint32_t i = 0; i < high && i < core->producer_count; i++) {
        uint32_t index = log->room_hint % high;
        if ((i >= ROOM_LOOKS && once.row_plus_one != 0) || (i >= MOST_LOOKS && again.row_plus_one != 0))
            break;
        struct candidate found = look_at(core, index), *best = found.again ? &again : &once;
        log->room_hint = index + 1;
        log->producer_looks++;
        busy |= found.busy;
        if (found.free)
            return found;
        if (found.row_plus_one != 0 && (best->row_plus_one == 0 || found.written_ms < best->written_ms))
            *best = found;
    }
    once = once.row_plus_one != 0 ? once : again;
    once.busy = busy;
    return once;
}

bool mpb_producers_have_no_room(struct mpb_log *log)
{
    uint32_t freed = mpb_load_relaxed(&log->core->header->producers_freed);
    if (log->room_pause == 0 || log->room_freed_seen != freed)
        return false;
    log->room_pause -= log->room_pause != UINT32_MAX;
    return true;
}

bool mpb_producers_make_room(struct mpb_log *log)
{
    log->room_freed_seen = mpb_load_acquire(&log->core->header->producers_freed);
    struct candidate found = search(log);
    log->room_pause = found.row_plus_one != 0 ? 0 : found.busy ? BUSY_PAUSE : UINT32_MAX;
    if (found.row_plus_one == 0)
        return false;
    log->producer_hint = found.row_plus_one - 1; /* there the next search for a free row begins */
    if (found.free || mpb_partition_lock(log, found.ordinal) != 0)
        return true;
    if (mpb_producer_forget(log->core, found.row_plus_one - 1, found.ordinal, found.written_ms, found.again))
        mpb_log_count(log, MPB_C_LOG_PRODUCERS_REPLACED, 1);
    mpb_partition_unlock(log, found.ordinal);
    return true;
}
