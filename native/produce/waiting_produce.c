#include "produce/waiting_produce.h"

#include <stdlib.h>
#include <time.h>

#include "log/partition_row.h"
#include "produce/produce_answer.h"
#include "shm/arena.h"
#include "shm/doorbell.h"

#define FIRST_ROOM 16u

enum verdict { ACKNOWLEDGED, WAITS, FOR_PYTHON };

/* The partition that was looked at last: requests that wait for the same one need one look. */
struct look {
    uint32_t ordinal;
    bool is_taken, is_watched, is_readable;
    struct mpb_partition_copy now;
};

static int64_t monotonic_ms(const struct mpb_waiting_produces *waiting)
{
    struct timespec now;
    if (waiting->now_ms >= 0)
        return waiting->now_ms;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void look_at(struct mpb_waiting_produces *waiting, struct look *look, uint32_t ordinal, bool watch)
{
    struct mpb_core *core = waiting->handler->core;
    if (look->is_taken && look->ordinal == ordinal && (look->is_watched || !watch))
        return;
    if (watch) /* before the look: what moves after it rings */
        mpb_watch_acknowledged(core, ordinal, waiting->handler->index);
    look->ordinal = ordinal;
    look->is_taken = true;
    look->is_watched = watch;
    look->is_readable = mpb_partition_usable(core, &core->partitions[ordinal], NULL) == 0 &&
                        mpb_partition_try_snapshot(&core->partitions[ordinal], &look->now);
}

static enum verdict judge_part(const struct look *look, const struct mpb_cell *cell)
{
    const struct mpb_partition_copy *now = &look->now;
    if (!look->is_readable || now->role != MPB_ROLE_LEADER || cell->leader_epoch < now->leader_since)
        return FOR_PYTHON;
    if (now->hw < cell->end_offset)
        return WAITS;
    return __builtin_popcount(now->maximal_isr) < now->min_isr ? FOR_PYTHON : ACKNOWLEDGED;
}

static enum verdict judge(struct mpb_waiting_produces *waiting, struct look *look, uint32_t index, bool watch)
{
    struct mpb_core *core = waiting->handler->core;
    const struct mpb_entry *entry = &core->entries[index];
    enum verdict all = ACKNOWLEDGED;
    for (uint32_t i = 0; i < entry->cell_count; i++) {
        const struct mpb_cell *cell = mpb_cell(core, index, i);
        if (mpb_load_acquire(&cell->tag) != entry->fill_number || cell->error != 0 ||
            cell->ordinal >= core->partition_count)
            return FOR_PYTHON;
        look_at(waiting, look, cell->ordinal, watch);
        enum verdict one = judge_part(look, cell);
        if (one == FOR_PYTHON)
            return FOR_PYTHON;
        if (one == WAITS)
            all = WAITS;
    }
    return all;
}

/* The results, as the appends left them in the cells. */
static void take_results(struct mpb_core *core, uint32_t index, struct mpb_produce_request *asked)
{
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct mpb_cell *cell = mpb_cell(core, index, i);
        asked->parts[i].result = (struct mpb_append_result){
            .base_offset = cell->base_offset, .append_time_ms = cell->append_time_ms, .log_start = cell->log_start};
    }
}

/* False, with nothing changed: Python has to. */
static bool answer(struct mpb_waiting_produces *waiting, uint32_t index)
{
    struct mpb_handler *handler = waiting->handler;
    struct mpb_core *core = handler->core;
    struct mpb_entry *entry = &core->entries[index];
    struct mpb_produce_request asked;
    if (mpb_load_acquire(&core->header->metadata_generation) != *waiting->generation)
        return false;
    if (mpb_produce_read(waiting->topics, mpb_payload(core, entry), entry->payload_length, &asked) != MPB_SERVE ||
        asked.count != entry->cell_count)
        return false;
    take_results(core, index, &asked);
    uint8_t *room = mpb_answer_reserve(handler, index, mpb_produce_answer_bytes(&asked));
    if (room == NULL)
        return false;
    mpb_resume(handler, index);
    MPB_CRASH(core, "produce.resumed");
    mpb_answer_reserved(handler, index, mpb_produce_answer(&asked, entry->correlation_id, room));
    (*waiting->served)++;
    mpb_count(core, handler->slot, MPB_C_PRODUCE_NATIVE, 1);
    return true;
}

static bool make_room(struct mpb_waiting_produces *waiting)
{
    if (waiting->count < waiting->room)
        return true;
    uint32_t room = waiting->room == 0 ? FIRST_ROOM
                                       : 2 * waiting->room; /* never more than there are entries, doubled */
    struct mpb_waiting_one *of = realloc(waiting->of, room * sizeof *of);
    if (of == NULL)
        return false;
    waiting->of = of;
    waiting->room = room;
    return true;
}

static void remove_one(struct mpb_waiting_produces *waiting, uint32_t at)
{
    waiting->of[at] = waiting->of[--waiting->count];
    if (waiting->count == 0)
        waiting->earliest_ms = INT64_MAX;
}

static void leave_to_python(struct mpb_waiting_produces *waiting, struct mpb_waiting_one *one)
{
    one->is_for_python = true;
    waiting->earliest_ms = INT64_MIN; /* at once */
}

bool mpb_produce_wait(struct mpb_waiting_produces *waiting, uint32_t index, const struct mpb_produce_request *asked)
{
    struct mpb_handler *handler = waiting->handler;
    struct mpb_core *core = handler->core;
    struct look look = {0};
    if (!make_room(waiting))
        return false;
    int64_t deadline_ms = monotonic_ms(waiting) + (asked->timeout_ms > 0 ? asked->timeout_ms : 0);
    uint32_t generation = mpb_state_generation(mpb_load_relaxed(&core->entries[index].state));
    if (waiting->count == 0 || deadline_ms < waiting->earliest_ms)
        waiting->earliest_ms = deadline_ms;
    waiting->of[waiting->count++] = (struct mpb_waiting_one){index, generation, deadline_ms, false};
    mpb_park(handler, index, MPB_PARKED_PRODUCE);
    if (judge(waiting, &look, index, true) != WAITS) /* it moved meanwhile: looked at again in a moment */
        mpb_tell_handler(core, core->entries[index].cell.ordinal, handler->index, handler->slot);
    return true;
}

void mpb_produce_look_again(struct mpb_waiting_produces *waiting)
{
    struct look look = {0};
    if (waiting->count == 0)
        return;
    waiting->handler->serving = true; /* processors are rung for several answers together */
    for (uint32_t i = 0; i < waiting->count;) {
        struct mpb_waiting_one *one = &waiting->of[i];
        if (!mpb_handler_owns(waiting->handler, one->entry, one->generation)) {
            remove_one(waiting, i);
            continue;
        }
        enum verdict verdict = one->is_for_python ? FOR_PYTHON : judge(waiting, &look, one->entry, false);
        if (verdict == WAITS)
            verdict = judge(waiting, &look, one->entry, true);
        if (verdict == ACKNOWLEDGED && answer(waiting, one->entry)) {
            remove_one(waiting, i);
            continue;
        }
        if (verdict != WAITS)
            leave_to_python(waiting, one);
        i++;
    }
    waiting->handler->serving = false;
    mpb_handler_ring_held(waiting->handler);
}

int64_t mpb_produce_take_over(struct mpb_waiting_produces *waiting, int64_t now_ms, int64_t *deadline_ms)
{
    int64_t earliest_ms = INT64_MAX;
    if (waiting->count == 0 || now_ms < waiting->earliest_ms)
        return -1;
    for (uint32_t i = 0; i < waiting->count;) {
        struct mpb_waiting_one one = waiting->of[i];
        bool is_held = mpb_handler_owns(waiting->handler, one.entry, one.generation);
        if (!is_held || one.is_for_python || one.deadline_ms <= now_ms)
            remove_one(waiting, i);
        else if (i++, one.deadline_ms < earliest_ms)
            earliest_ms = one.deadline_ms;
        if (is_held && (one.is_for_python || one.deadline_ms <= now_ms)) {
            *deadline_ms = one.deadline_ms;
            mpb_resume(waiting->handler, one.entry);
            mpb_count(waiting->handler->core, waiting->handler->slot, MPB_C_PRODUCE_LEFT_WAITS, 1);
            return one.entry;
        }
    }
    waiting->earliest_ms = earliest_ms;
    return -1;
}

void mpb_produce_forget_waiting(struct mpb_waiting_produces *waiting)
{
    free(waiting->of);
    waiting->of = NULL;
    waiting->count = waiting->room = 0;
}
