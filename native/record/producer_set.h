/* A set of producer ids, sorted; at most as many as a broker knows producers. What it cannot hold makes it incomplete:
 * then any id may be in it. */
#ifndef MPB_PRODUCER_SET_H
#define MPB_PRODUCER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MPB_MOST_IN_PRODUCER_SET = 65536 };

struct mpb_producer_set {
    int64_t *id;
    size_t count, room;
    bool incomplete;
};

void mpb_producer_set_add(struct mpb_producer_set *set, int64_t id);
/* Takes it out; whether it was, or may have been, in. */
bool mpb_producer_set_take(struct mpb_producer_set *set, int64_t id);
void mpb_producer_set_close(struct mpb_producer_set *set);

#endif
