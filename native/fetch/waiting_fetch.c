#include "fetch/waiting_fetch.h"

#include <stdlib.h>

#include "shm/doorbell.h"
#include "trace/trace_record.h"

#define FIRST_ROOM 16u

static bool make_room(struct mpb_waiting_fetches *waiting)
{
    if (waiting->count < waiting->room)
        return true;
    uint32_t room = waiting->room == 0 ? FIRST_ROOM
                                       : 2 * waiting->room; /* never more than there are entries, doubled */
    struct mpb_waiting_read *of = realloc(waiting->of, room * sizeof *of);
    if (of == NULL)
        return false;
    waiting->of = of;
    waiting->room = room;
    return true;
}

static void remove_one(struct mpb_waiting_fetches *waiting, uint32_t at)
{
    waiting->of[at] = waiting->of[--waiting->count];
    if (waiting->count == 0)
        waiting->earliest_ms = INT64_MAX;
}

static void leave_to_python(struct mpb_waiting_fetches *waiting, struct mpb_waiting_read *one)
{
    one->is_for_python = true;
    waiting->earliest_ms = INT64_MIN; /* at once */
}

/* Of the request that was read last; what moves from now on rings. */
static uint64_t watch(const struct mpb_native_fetch *native)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < native->request.count; i++) {
        const struct mpb_fetch_part *part = &native->request.parts[i];
        uint32_t ordinal = part->topic->ordinals[part->asked.partition];
        mpb_watch_partition(native->handler->core, ordinal, native->handler->index);
        rows |= 1ull << ordinal % 64;
    }
    return rows;
}

/* Parks the request in hand, which was read last. False, with nothing changed: there is no memory for it. */
static bool let_wait(struct mpb_waiting_fetches *waiting, uint32_t index)
{
    struct mpb_native_fetch *native = waiting->native;
    struct mpb_handler *handler = native->handler;
    struct mpb_core *core = handler->core;
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&core->entries[index].state));
    if (!make_room(waiting))
        return false;
    int64_t deadline_ms = mpb_fetch_now_ms(native) + native->request.max_wait_ms;
    uint32_t first = native->request.parts[0].topic->ordinals[native->request.parts[0].asked.partition];
    if (waiting->count == 0 || deadline_ms < waiting->earliest_ms)
        waiting->earliest_ms = deadline_ms;
    waiting->of[waiting->count++] = (struct mpb_waiting_read){index, generation, deadline_ms, watch(native), false};
    mpb_park(handler, index, MPB_PARKED_FETCH);
    if (mpb_fetch_is_ready(native, index)) /* it moved meanwhile: looked at again in a moment */
        mpb_tell_handler(core, first, handler->index, handler->slot);
    return true;
}

bool mpb_fetch_serve_or_wait(void *opaque, uint32_t index)
{
    struct mpb_waiting_fetches *waiting = opaque;
    if (mpb_serve_fetch(waiting->native, index))
        return true;
    return waiting->native->waits && waiting->parks && let_wait(waiting, index);
}

/* Whether it is answered, and so not waiting any more. */
static bool look_at(struct mpb_waiting_fetches *waiting, struct mpb_waiting_read *one, bool is_ending)
{
    struct mpb_native_fetch *native = waiting->native;
    enum mpb_fetch_left left = mpb_fetch_go_on(native, one->entry, is_ending);
    if (left == MPB_FETCH_WAIT) {
        watch(native);
        left = mpb_fetch_go_on(native, one->entry, is_ending);
    }
    if (left != MPB_FETCH_SERVE && left != MPB_FETCH_WAIT)
        leave_to_python(waiting, one);
    return left == MPB_FETCH_SERVE;
}

void mpb_fetch_look_again(struct mpb_waiting_fetches *waiting, uint64_t rows)
{
    struct mpb_handler *handler = waiting->native->handler;
    if (waiting->count == 0)
        return;
    bool is_ending = mpb_load_acquire(&handler->core->header->state) == MPB_DRAINING;
    handler->serving = true; /* processors are rung for several answers together */
    for (uint32_t i = 0; i < waiting->count;) {
        struct mpb_waiting_read *one = &waiting->of[i];
        if (!mpb_handler_owns(handler, one->entry, one->generation))
            remove_one(waiting, i);
        else if (one->is_for_python || (one->rows & rows) == 0 || !look_at(waiting, one, is_ending))
            i++;
        else
            remove_one(waiting, i);
    }
    handler->serving = false;
    mpb_handler_ring_held(handler);
}

/* Its time is over: whether it is answered with what there is. */
static bool expire(struct mpb_waiting_fetches *waiting, uint32_t index)
{
    struct mpb_handler *handler = waiting->native->handler;
    mpb_trace_of(handler->core->entries[index].trace)->flags |= MPB_TF_PURG_TIMEOUT;
    mpb_count(handler->core, handler->slot, waiting->expired_counter, 1);
    return mpb_fetch_go_on(waiting->native, index, true) == MPB_FETCH_SERVE;
}

int64_t mpb_fetch_take_over(struct mpb_waiting_fetches *waiting, int64_t now_ms, int64_t *deadline_ms)
{
    struct mpb_handler *handler = waiting->native->handler;
    int64_t earliest_ms = INT64_MAX;
    if (waiting->count == 0 || now_ms < waiting->earliest_ms)
        return -1;
    for (uint32_t i = 0; i < waiting->count;) {
        struct mpb_waiting_read one = waiting->of[i];
        bool is_held = mpb_handler_owns(handler, one.entry, one.generation);
        bool is_over = one.deadline_ms <= now_ms;
        if (is_held && !one.is_for_python && !is_over) {
            earliest_ms = one.deadline_ms < earliest_ms ? one.deadline_ms : earliest_ms;
            i++;
            continue;
        }
        remove_one(waiting, i);
        if (!is_held || (!one.is_for_python && expire(waiting, one.entry)))
            continue;
        if (one.is_for_python)
            mpb_resume(handler, one.entry);
        *deadline_ms = one.deadline_ms;
        return one.entry;
    }
    waiting->earliest_ms = earliest_ms;
    return -1;
}

void mpb_fetch_forget_waiting(struct mpb_waiting_fetches *waiting)
{
    free(waiting->of);
    waiting->of = NULL;
    waiting->count = waiting->room = 0;
    waiting->earliest_ms = INT64_MAX;
}
