/* What a processor does in its turns and a handler in its loop, with what came before. */
#ifndef MPB_TESTS_TURN_SCENES_H
#define MPB_TESTS_TURN_SCENES_H

#include "tests/network/turn_play.h"

struct act {
    const char *name;
    enum actor actor; /* index 0 of it dies */
    void (*setup)(struct play *);
    void (*operation)(void *);
};

enum { NO_ONE = 200, BIG_ANSWER = 20000 }; /* correlation id of an answer that is there for its size */

/* ------------------------------------------------------------------ a processor's turns */
static void handle_events(struct play *p)
{
    for (uint32_t i = 0; i < p->turn.event_count; i++) {
        struct mpb_event event = p->turn.events[i];
        if (event.kind == MPB_EVENT_PARKED)
            mpb_abandon(&p->d.p[0], (uint32_t)event.first);
        if (event.kind == MPB_EVENT_CLOSE || event.kind == MPB_EVENT_PARKED || event.kind == MPB_EVENT_POISON) {
            mpb_turn_forget(&p->turn, event.connection);
            i = UINT32_MAX; /* the list has changed */
        }
    }
    p->turn.event_count = 0;
}

static void one_turn(struct play *p)
{
    mpb_turn_poll(&p->turn, 0);
    mpb_turn_run(&p->turn, 3, UINT64_MAX, 64);
    handle_events(p);
}

/* As network/processor.py goes through its loop: two turns, then to sleep if nothing is there. */
static void do_turns(void *a)
{
    struct play *p = a;
    one_turn(p);
    one_turn(p);
    mpb_turn_end(&p->turn, true);
    handle_events(p);
    mpb_processor_ring(&p->d.p[0]);
    if (mpb_processor_prepare_sleep(&p->d.p[0]))
        mpb_turn_sleep(&p->turn, 0);
}

static void do_forget(void *a)
{
    struct play *p = a;
    one_turn(p);
    for (int i = 0; i < p->set.clients; i++)
        mpb_turn_forget(&p->turn, &p->c[i]);
    mpb_turn_answer(&p->turn, 64); /* what arrives for them now is nobody's */
}

static void set_frames(struct play *p)
{
    play_connect(p, 2, 0);
    play_send(p, 0, &(struct ask){.id = 1, .acks = 1, .partitions = 1});
    play_send(p, 1, &(struct ask){.id = 2, .acks = -1, .partitions = 3});
    play_send(p, 1, &(struct ask){.id = 3, .acks = 1, .partitions = 1}); /* stays in the buffer */
    play_ask(p, 1, &(struct ask){.id = 4, .acks = 1, .partitions = 1});
}

/* Three requests of as many clients and one of the other processor, answered, but not sent. */
static void set_answers(struct play *p)
{
    play_connect(p, 3, 0);
    play_send(p, 0, &(struct ask){.id = 1, .acks = 1, .partitions = 1});
    play_send(p, 1, &(struct ask){.id = 2, .acks = 1, .partitions = 2, .long_name = true});
    play_send(p, 2, &(struct ask){.id = 3, .acks = 0, .partitions = 1});
    play_ask(p, 1, &(struct ask){.id = 4, .acks = 1, .partitions = 1});
    one_turn(p);
    play_serve(p, 1);
}

static void set_answers_and_frames(struct play *p)
{
    set_answers(p);
    for (uint32_t i = 0; i < 3; i++)
        play_send(p, (int)i, &(struct ask){.id = 5 + i, .acks = 1, .partitions = 1 + (int32_t)i});
}

/* Another request of a connection whose answer is held, so that two go together. */
static void set_held(struct play *p)
{
    play_connect(p, 1, 0);
    for (uint32_t i = 0; i < 3; i++)
        play_send(p, 0, &(struct ask){.id = 1 + i, .acks = 1, .partitions = 1});
    one_turn(p);
    play_serve(p, 1);
    mpb_turn_answer(&p->turn, 1);
    HOLD(&p->d, p->c[0].holding);
    mpb_turn_receive(&p->turn, true);
    play_serve(p, 1);
}

static void set_plane_full(struct play *p)
{
    play_connect(p, 1, 0);
    for (uint32_t i = 0; i < 4; i++)
        play_ask(p, 1, &(struct ask){.id = 2 + i, .acks = 1, .partitions = 1});
    play_send(p, 0, &(struct ask){.id = 1, .acks = 1, .partitions = 3});
}

static void set_client_gone(struct play *p)
{
    set_answers(p);
    shutdown(p->set.client[0], SHUT_RDWR);
    shutdown(p->set.client[1], SHUT_RDWR);
}

static void set_refused(struct play *p)
{
    play_connect(p, 2, 0);
    play_send(p, 0, &(struct ask){.id = 1, .acks = 0, .partitions = 2, .corrupt = true});
    play_send(p, 1, &(struct ask){.id = 2, .acks = 1, .partitions = 2, .corrupt = true});
    one_turn(p);
    play_serve(p, 1);
}

/* An answer larger than the socket has room for. */
static void set_socket_full(struct play *p)
{
    static uint8_t answer[BIG_ANSWER], frame[40];
    play_connect(p, 1, 4608);
    mpb_put_be32(frame, sizeof frame - 4);
    mpb_put_be16(frame + 6, 7);
    mpb_put_be32(frame + 8, NO_ONE);
    mpb_put_be16(frame + 12, -1);
    CHECK_EQ(write(p->set.client[0], frame, sizeof frame), sizeof frame);
    one_turn(p);
    int64_t entry = mpb_handler_claim(&p->d.h[1], false);
    mpb_put_be32(answer, BIG_ANSWER - 4);
    mpb_put_be32(answer + 4, NO_ONE);
    HOLD(&p->d, entry >= 0 && mpb_answer_bytes(&p->d.h[1], (uint32_t)entry, MPB_ANSWER_INLINE, answer, BIG_ANSWER));
}

/* ------------------------------------------------------------------ a handler's loop */
static void do_serve(void *a)
{
    struct play *p = a;
    mpb_handler_serve_or_claim(&p->d.h[0], false, UINT64_MAX);
    mpb_handler_wait(&p->d.h[0], false, 20000);
}

static void asleep(struct play *p)
{
    for (int i = 0; i < 2; i++)
        HOLD(&p->d, mpb_processor_prepare_sleep(&p->d.p[i]));
}

static void set_one_request(struct play *p)
{
    play_ask(p, 0, &(struct ask){.id = 1, .acks = 1, .partitions = 1});
    asleep(p);
}

static void set_four_requests(struct play *p)
{
    for (uint32_t i = 0; i < 4; i++)
        play_ask(p, (int)i % 2, &(struct ask){.id = 1 + i, .acks = i == 2 ? 0 : 1, .partitions = i == 1 ? 3 : 1});
    asleep(p);
}

static void set_four_partitions(struct play *p)
{
    play_ask(p, 1, &(struct ask){.id = 1, .acks = -1, .partitions = 4, .long_name = true});
    asleep(p);
}

static void set_bad_requests(struct play *p)
{
    play_ask(p, 0, &(struct ask){.id = 1, .acks = 1, .partitions = 2, .corrupt = true});
    play_ask(p, 1, &(struct ask){.id = 2, .acks = 0, .partitions = 1, .corrupt = true});
    asleep(p);
}

static int64_t hoard; /* a token of handler 0's memory */

/* Room for the result cells, but none for the answer. */
static void set_no_room(struct play *p)
{
    set_four_partitions(p);
    struct mpb_extents *extents = &p->d.h[0].extents;
    int64_t first = mpb_extent_take(extents, 1); /* for the cells, where a film looks */
    hoard = mpb_extent_take(extents, (uint64_t)(extents->units.count - 1) * MPB_UNIT_BYTES);
    HOLD(&p->d, hoard >= 0 && mpb_extent_release(extents, (uint32_t)first));
}

static void do_serve_without_room(void *a)
{
    struct play *p = a;
    struct mpb_handler *h = &p->d.h[0];
    int64_t entry = mpb_handler_serve_or_claim(h, false, UINT64_MAX);
    if (entry < 0)
        return;
    mpb_extent_release(&h->extents, (uint32_t)hoard);
    HOLD(&p->d,
         mpb_serve_produce(&p->native[0], (uint32_t)entry)); /* as Python would, later: nothing was done before */
}

/* Two requests whose replicas have nothing yet, and one that waits for nobody. */
static void set_replicated(struct play *p)
{
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++) {
        struct mpb_partition *row = &p->d.w.core.partitions[i];
        row->copy[mpb_load_relaxed(&row->selector) & 1].isr = 3;
        row->copy[mpb_load_relaxed(&row->selector) & 1].maximal_isr = 3;
    }
    for (int h = 0; h < 3; h++)
        p->native[h].parks = true;
    play_ask(p, 0, &(struct ask){.id = 1, .acks = -1, .partitions = 1});
    play_ask(p, 1, &(struct ask){.id = 2, .acks = 1, .partitions = 1});
    play_ask(p, 1, &(struct ask){.id = 3, .acks = -1, .partitions = 3, .long_name = true});
    asleep(p);
}

static void do_serve_replicated(void *a)
{
    struct play *p = a;
    mpb_handler_serve_or_claim(&p->d.h[0], false, UINT64_MAX);
    play_replicate(p, 0);
    mpb_produce_look_again(&p->native[0].waiting);
    mpb_handler_wait(&p->d.h[0], false, 20000);
}

static const struct act ACTS[] = {
    {"receive", PROCESSOR, set_frames, do_turns},
    {"send", PROCESSOR, set_answers, do_turns},
    {"send and receive", PROCESSOR, set_answers_and_frames, do_turns},
    {"send what was held", PROCESSOR, set_held, do_turns},
    {"park and give up", PROCESSOR, set_plane_full, do_turns},
    {"clients are gone", PROCESSOR, set_client_gone, do_turns},
    {"refused requests", PROCESSOR, set_refused, do_turns},
    {"close with answers there", PROCESSOR, set_answers, do_forget},
    {"the socket is full", PROCESSOR, set_socket_full, do_forget},
    {"serve one", HANDLER, set_one_request, do_serve},
    {"serve four", HANDLER, set_four_requests, do_serve},
    {"serve four partitions", HANDLER, set_four_partitions, do_serve},
    {"refuse", HANDLER, set_bad_requests, do_serve},
    {"serve what waits for replicas", HANDLER, set_replicated, do_serve_replicated},
    {"serve without memory", HANDLER, set_no_room, do_serve_without_room},
};
enum { ACT_COUNT = sizeof ACTS / sizeof *ACTS };

#endif
