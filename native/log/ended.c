#include "log/ended.h"

int64_t mpb_ended_least(const struct mpb_replicas *replicas, int64_t hw)
{
    int64_t least = INT64_MAX;
    if ((int64_t)mpb_load_acquire(&replicas->ended_end) <= hw)
        return least;
    for (int i = 0; i < MPB_ENDED_PLACES; i++) {
        const struct mpb_ended *at = &replicas->ended[i];
        if ((int64_t)mpb_load_acquire(&at->end) > hw && at->first < least)
            least = at->first;
    }
    return least;
}

/* One that does not count any more; of those that do, the latest. */
static struct mpb_ended *place_for(struct mpb_replicas *replicas, int64_t hw)
{
    struct mpb_ended *latest = &replicas->ended[0];
    for (int i = 0; i < MPB_ENDED_PLACES; i++) {
        struct mpb_ended *at = &replicas->ended[i];
        if ((int64_t)mpb_load_acquire(&at->end) <= hw)
            return at;
        if (mpb_load_acquire(&at->end) > mpb_load_acquire(&latest->end))
            latest = at;
    }
    return latest;
}

void mpb_ended_note(struct mpb_replicas *replicas, int64_t hw, int64_t first, int64_t end)
{
    struct mpb_ended *at = place_for(replicas, hw);
    bool counts = (int64_t)mpb_load_acquire(&at->end) > hw;
    if ((int64_t)mpb_load_acquire(&replicas->ended_end) < end)
        mpb_store_release(&replicas->ended_end, (uint64_t)end);
    mpb_step();
    if (!counts || first < at->first)
        at->first = first;
    mpb_step();
    mpb_store_release(&at->end, (uint64_t)end);
    mpb_step();
}

void mpb_ended_cut(struct mpb_replicas *replicas, int64_t end)
{
    if ((int64_t)mpb_load_acquire(&replicas->ended_end) <= end)
        return;
    for (int i = 0; i < MPB_ENDED_PLACES; i++) {
        struct mpb_ended *at = &replicas->ended[i];
        if ((int64_t)mpb_load_acquire(&at->end) > end) /* one that shares its place may have ended before */
            mpb_store_release(&at->end, at->first < end ? (uint64_t)end : 0);
        mpb_step();
    }
    mpb_store_release(&replicas->ended_end, (uint64_t)end);
    mpb_step();
}
