#include "record/producer_set.h"

#include <stdlib.h>
#include <string.h>

/* Where it is, or belongs. */
static size_t place_of(const struct mpb_producer_set *set, int64_t id)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(struct mpb_producer_set *set)
{
    if (set->count < set->room)
        return true;
    size_t room = set->room == 0 ? 64 : 2 * set->room;
    int64_t *grown = room > MPB_MOST_IN_PRODUCER_SET ? NULL : realloc(set->id, room * sizeof *grown);
    if (grown == NULL)
        return false;
    set->id = grown;
    set->room = room;
    return true;
}

void mpb_producer_set_add(struct mpb_producer_set *set, int64_t id)
{
    size_t at = place_of(set, id);
    if (at < set->count && set->id[at] == id)
        return;
    if (!make_room(set)) {
        set->incomplete = true;
        return;
    }
    memmove(set->id + at + 1, set->id + at, (set->count - at) * sizeof *set->id);
    set->id[at] = id;
    set->count++;
}

bool mpb_producer_set_take(struct mpb_producer_set *set, int64_t id)
{
    size_t at = place_of(set, id);
    if (at == set->count || set->id[at] != id)
        return set->incomplete;
    set->count--;
    memmove(set->id + at, set->id + at + 1, (set->count - at) * sizeof *set->id);
    return true;
}

void mpb_producer_set_close(struct mpb_producer_set *set)
{
    free(set->id);
    *set = (struct mpb_producer_set){0};
}
