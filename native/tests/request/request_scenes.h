/* One scene: what came before, the operation that is killed, and whose it is. Shared by the stepping tests. */
#ifndef MPB_TESTS_REQUEST_SCENES_H
#define MPB_TESTS_REQUEST_SCENES_H

#include "tests/request/request_drama.h"

enum actor { PROCESSOR, HANDLER, CONTROLLER };

struct scene {
    const char *name;
    enum actor actor;
    int index;
    void (*setup)(struct drama *);
    void (*operation)(void *);
};

static void set_nothing(struct drama *d) { (void)d; }
static void set_one(struct drama *d) { ask(d, 1, MPB_PLANE_DATA, 5, 100); }

static void set_three(struct drama *d)
{
    ask(d, 1, MPB_PLANE_DATA, 5, 100);
    ask(d, 0, MPB_PLANE_DATA, 6, 2000);
    ask(d, 0, MPB_PLANE_CONTROL, 8, 100);
}

static void set_full(struct drama *d)
{
    for (uint32_t id = 4; id < 8; id++)
        ask(d, (int)id % 2, MPB_PLANE_DATA, id, 100);
}

static void set_waiting_for_room(struct drama *d)
{
    set_full(d);
    HOLD(d, submit(&d->p[0], MPB_PLANE_DATA, 2, 2000) == MPB_PLANE_FULL);
    d->submitted[2] = 1;
}

static void set_parked_submission(struct drama *d)
{
    set_waiting_for_room(d);
    execute(d, &d->h[1], mpb_handler_claim(&d->h[1], false));
}

static void set_fair(struct drama *d)
{
    use(d, MPB_FAIR);
    ask(d, 1, MPB_PLANE_DATA, 5, 100);
}

static void set_fair_and_full(struct drama *d)
{
    use(d, MPB_FAIR);
    set_full(d);
}

static void set_fair_parked(struct drama *d)
{
    use(d, MPB_FAIR);
    set_parked_submission(d);
}

static void set_deadlines(struct drama *d)
{
    use(d, MPB_DEADLINE);
    ask(d, 1, MPB_PLANE_DATA, 5, 100);
    ask(d, 1, MPB_PLANE_DATA, 13, 100); /* for a group: due earlier */
    ask(d, 0, MPB_PLANE_DATA, 6, 2000);
}

static void set_shortest(struct drama *d)
{
    use(d, MPB_SHORTEST);
    ask(d, 1, MPB_PLANE_DATA, 5, 100);
    ask(d, 0, MPB_PLANE_DATA, 6, 2000);
    execute(d, &d->h[1], mpb_handler_claim(&d->h[1], false));
    execute(d, &d->h[1], mpb_handler_claim(&d->h[1], false));
    work_processor(d, 0); /* it has learned what the next one takes */
    ask(d, 0, MPB_PLANE_DATA, 10, 2000);
    d->h[0].chooser.takes = MPB_SHARE;
}

static void claim_id(struct drama *d, uint32_t id)
{
    ask(d, (int)id % 2, MPB_PLANE_DATA, id, id % 4 == 2 ? 2000 : 100);
    d->kept[0] = mpb_handler_claim(&d->h[0], false);
    HOLD(d, d->kept[0] >= 0);
}
static void set_claimed_inline(struct drama *d) { claim_id(d, 4); }
static void set_claimed_cells(struct drama *d) { claim_id(d, 5); }
static void set_claimed_extent(struct drama *d) { claim_id(d, 6); }
static void set_claimed_none(struct drama *d) { claim_id(d, 7); }

static void answered_id(struct drama *d, uint32_t id)
{
    ask(d, (int)id % 2, MPB_PLANE_DATA, id, id % 4 == 2 ? 2000 : 100);
    execute(d, &d->h[1], mpb_handler_claim(&d->h[1], false));
}
static void set_answered_inline(struct drama *d) { answered_id(d, 4); }
static void set_answered_extent(struct drama *d) { answered_id(d, 6); }
static void set_answered_cells(struct drama *d) { answered_id(d, 5); }

/* Two extents of handler 0, one of them about to be freed by the processor, and a request that wants its room. */
static void set_answered_and_more(struct drama *d)
{
    ask(d, 0, MPB_PLANE_DATA, 6, 100);
    execute(d, &d->h[0], mpb_handler_claim(&d->h[0], false));
    ask(d, 1, MPB_PLANE_DATA, 5, 100);
    ask(d, 1, MPB_PLANE_DATA, 9, 100);
}
static void set_answered_and_claimed(struct drama *d)
{
    ask(d, 0, MPB_PLANE_DATA, 6, 100);
    execute(d, &d->h[0], mpb_handler_claim(&d->h[0], false));
    claim_id(d, 10);
}

static void set_command_claimed(struct drama *d) { claim_id(d, 4); }

static uint64_t operation_of(struct drama *d) { return d->w.core.entries[d->kept[0]].fill_number; }

static void set_command_sent(struct drama *d)
{
    claim_id(d, 4);
    HOLD(d, mpb_command_send(&d->w.core, MPB_SLOT_HANDLERS, MPB_SLOT_CONTROLLER, operation_of(d), "make", 4) >= 0);
}

static void set_for_group(struct drama *d) { ask(d, 1, MPB_PLANE_DATA, 13, 100); }

/* Two handed over, the second of them large. */
static void set_handed(struct drama *d)
{
    ask(d, 1, MPB_PLANE_DATA, 13, 100);
    ask(d, 0, MPB_PLANE_DATA, 14, 2000);
    for (int i = 0; i < 2; i++)
        HOLD(d, mpb_handler_hand_over(&d->h[1], (uint32_t)mpb_handler_claim(&d->h[1], false)));
}

static void set_handed_claimed(struct drama *d)
{
    set_handed(d);
    d->kept[0] = mpb_handler_claim(&d->h[COORDINATOR], false);
    HOLD(d, id_of(d, d->kept[0]) == 13);
}

static void set_watched(struct drama *d)
{
    mpb_watch_partition(&d->w.core, 3, 1);
    mpb_watch_partition(&d->w.core, 3, 2);
}

/* ------------------------------------------------------------------ operations */
static void submit_as(struct drama *d, int processor, uint32_t id, uint32_t length)
{
    d->submitted[id] = 1;
    submit(&d->p[processor], MPB_PLANE_DATA, id, length);
}
static void do_submit_small(void *a) { submit_as(a, 0, 2, 100); }
static void do_submit_arena(void *a) { submit_as(a, 0, 2, 2000); }
static inline void do_submit_1(void *a) { submit_as(a, 1, 3, 2000); }

static void do_submit_control(void *a)
{
    struct drama *d = a;
    d->submitted[2] = 1;
    submit(&d->p[0], MPB_PLANE_CONTROL, 2, 100);
}

static void do_retry(void *a)
{
    struct drama *d = a;
    mpb_retry(&d->p[0], d->p[0].parked);
}

static void do_submit_full(void *a)
{
    struct drama *d = a;
    submit_as(d, 0, 2, 2000);
    mpb_abandon(&d->p[0], d->p[0].parked);
}

static void take_as(struct drama *d, int handler)
{
    int64_t entry = mpb_handler_claim(&d->h[handler], false);
    if (entry >= 0 && !mpb_handler_hand_over(&d->h[handler], (uint32_t)entry))
        execute(d, &d->h[handler], entry);
}
static void do_take_0(void *a) { take_as(a, 0); }
static inline void do_take_1(void *a) { take_as(a, 1); }

static void do_take_handed(void *a) { take_as(a, COORDINATOR); }

static void do_execute_handed(void *a)
{
    struct drama *d = a;
    execute(d, &d->h[COORDINATOR], d->kept[0]);
}

static void do_give_back(void *a)
{
    struct drama *d = a;
    mpb_handler_give_back(&d->h[COORDINATOR], (uint32_t)d->kept[0]);
}

static void do_wait_handed(void *a)
{
    struct drama *d = a;
    mpb_handler_wait(&d->h[COORDINATOR], false, 20000);
}

static void do_execute(void *a)
{
    struct drama *d = a;
    execute(d, &d->h[0], d->kept[0]);
}

static void do_park(void *a)
{
    struct drama *d = a;
    mpb_park(&d->h[0], (uint32_t)d->kept[0], MPB_PARKED_FETCH);
    mpb_watch_partition(&d->w.core, 3, 0);
    mpb_resume(&d->h[0], (uint32_t)d->kept[0]);
    execute(d, &d->h[0], d->kept[0]);
}

static void do_close(void *a)
{
    struct drama *d = a;
    static const uint8_t bytes[200];
    mpb_answer_bytes(&d->h[0], (uint32_t)d->kept[0], MPB_ANSWER_CLOSE, bytes, sizeof bytes);
}

static void do_wait(void *a)
{
    struct drama *d = a;
    mpb_handler_wait(&d->h[0], false, 20000);
}

static void collect_as(struct drama *d, int processor)
{
    int64_t entry = mpb_collect(&d->p[processor]);
    if (entry < 0)
        return;
    d->answered[id_of(d, entry)]++;
    mpb_sent(&d->p[processor], (uint32_t)entry, 1, false);
}
static void do_collect_0(void *a) { collect_as(a, 0); }
static void do_collect_1(void *a) { collect_as(a, 1); }

static void do_processor_sleep(void *a)
{
    struct drama *d = a;
    if (mpb_processor_prepare_sleep(&d->p[0]))
        mpb_processor_cancel_sleep(&d->p[0]);
}

static void do_notify(void *a)
{
    struct drama *d = a;
    mpb_notify_partition(&d->w.core, 3, MPB_SLOT_HANDLERS);
}

static void do_send_command(void *a)
{
    struct drama *d = a;
    mpb_command_send(&d->w.core, MPB_SLOT_HANDLERS, MPB_SLOT_CONTROLLER, operation_of(d), "make", 4);
}

static void do_control(void *a)
{
    struct drama *d = a;
    int64_t command = mpb_command_claim(&d->w.core, MPB_SLOT_CONTROLLER);
    if (command < 0)
        return;
    d->commands_executed[d->w.core.commands[command].operation % MAX_IDS]++;
    mpb_command_complete(&d->w.core, MPB_SLOT_CONTROLLER, (uint32_t)command, "done", 4, 1);
}

static const struct scene scenes[] = {
    {"submit", PROCESSOR, 0, set_one, do_submit_small},
    {"submit into the arena", PROCESSOR, 0, set_nothing, do_submit_arena},
    {"submit control", PROCESSOR, 0, set_three, do_submit_control},
    {"submit when full", PROCESSOR, 0, set_full, do_submit_full},
    {"retry", PROCESSOR, 0, set_parked_submission, do_retry},
    {"take", HANDLER, 0, set_three, do_take_0},
    {"take and make room", HANDLER, 0, set_waiting_for_room, do_take_0},
    {"answer inline", HANDLER, 0, set_claimed_inline, do_execute},
    {"answer with cells", HANDLER, 0, set_claimed_cells, do_execute},
    {"answer in an extent", HANDLER, 0, set_claimed_extent, do_execute},
    {"answer nothing", HANDLER, 0, set_claimed_none, do_execute},
    {"answer and close", HANDLER, 0, set_claimed_extent, do_close},
    {"park and resume", HANDLER, 0, set_claimed_extent, do_park},
    {"wait for work", HANDLER, 0, set_nothing, do_wait},
    {"wait with work", HANDLER, 0, set_one, do_wait},
    {"notify", HANDLER, 0, set_watched, do_notify},
    {"send a command", HANDLER, 0, set_command_claimed, do_send_command},
    {"collect inline", PROCESSOR, 0, set_answered_inline, do_collect_0},
    {"collect an extent", PROCESSOR, 0, set_answered_extent, do_collect_0},
    {"collect and reuse", PROCESSOR, 0, set_answered_and_more, do_collect_0},
    {"answer beside another", HANDLER, 0, set_answered_and_claimed, do_execute},
    {"collect cells", PROCESSOR, 1, set_answered_cells, do_collect_1},
    {"processor sleeps", PROCESSOR, 0, set_nothing, do_processor_sleep},
    {"processor stays awake", PROCESSOR, 0, set_answered_inline, do_processor_sleep},
    {"hand over", HANDLER, 0, set_for_group, do_take_0},
    {"take what was handed", HANDLER, COORDINATOR, set_handed, do_take_handed},
    {"answer what was handed", HANDLER, COORDINATOR, set_handed_claimed, do_execute_handed},
    {"give back", HANDLER, COORDINATOR, set_handed_claimed, do_give_back},
    {"wait for what is handed", HANDLER, COORDINATOR, set_nothing, do_wait_handed},
    {"control", CONTROLLER, 0, set_command_sent, do_control},
    /* Under disciplines; repairs are no others there, so `make long` alone kills them, and plays the last three. */
    {"submit into a class", PROCESSOR, 0, set_fair, do_submit_small},
    {"retry into a class", PROCESSOR, 0, set_fair_parked, do_retry},
    {"take fairly", HANDLER, 0, set_fair, do_take_0},
    {"submit into a class when full", PROCESSOR, 0, set_fair_and_full, do_submit_full},
    {"take the earliest", HANDLER, 0, set_deadlines, do_take_0},
    {"take a class's share", HANDLER, 0, set_shortest, do_take_0},
};
enum { SCENES = sizeof scenes / sizeof scenes[0], PLAIN_SCENES = SCENES - 6, RARE_SCENES = 3 };

/* ------------------------------------------------------------------ a death and what follows */
static inline void successor(struct drama *d, const struct scene *s)
{
    if (s->actor == PROCESSOR)
        replace_processor(d, s->index);
    else if (s->actor == HANDLER)
        replace_handler(d, s->index);
}

struct recovery_of {
    struct drama *d;
    const struct scene *s;
};

static inline void do_recover(void *a)
{
    struct recovery_of *r = a;
    struct mpb_recovery done;
    if (r->s->actor == PROCESSOR)
        mpb_recover_processor(&r->d->p[r->s->index], &done);
    else if (r->s->actor == HANDLER)
        mpb_recover_handler(&r->d->h[r->s->index], &done);
    else
        mpb_recover_controller(&r->d->w.core, MPB_SLOT_CONTROLLER, &done);
}

/* The others go on before anybody repairs anything; processors not always: answers then lie about meanwhile. */
static inline void survivors_work(struct drama *d, const struct scene *s, unsigned handlers, unsigned processors)
{
    d->no_controller = s->actor == CONTROLLER;
    drain(d, handlers & ~(s->actor == HANDLER ? 1u << s->index : 0),
          processors & ~(s->actor == PROCESSOR ? 1u << s->index : 0));
    d->no_controller = false;
}

static void check_bells(struct drama *d)
{
    for (int h = 0; h < CAST; h++) { /* whoever slept has been woken, and told to look at what it parked */
        HOLD(d, mpb_load_relaxed(&d->w.core.doorbells->handler[h].word) == 1);
        HOLD(d, mpb_load_relaxed(&d->w.core.doorbells->handler[h].poke) & MPB_POKE_SCAN);
    }
    for (int p = 0; p < 2; p++)
        HOLD(d, mpb_load_relaxed(&d->w.core.doorbells->processor[p].asleep) == 0);
}

#endif
