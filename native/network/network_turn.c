#include "network/network_turn.h"
#include "shm/counters.h"
#include "trace/trace_record.h"
#include "shm/waits.h"
#include "record/wire.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int mpb_turn_open(struct mpb_turn *turn, struct mpb_processor *port, int epoll)
{
    memset(turn, 0, sizeof *turn);
    turn->port = port;
    turn->epoll = epoll;
    turn->awake_since_ns = mpb_trace_clock_ns();
    turn->arrivals.wanted = port->lane != NULL;
    for (int key = 0; key < MPB_API_KEYS; key++)
        turn->apis[key] = (struct mpb_api_range){0, -1};
    turn->scratch = malloc(MPB_RECEIVE_BYTES);
    return turn->scratch == NULL ? -1 : 0;
}

void mpb_turn_close(struct mpb_turn *turn)
{
    free(turn->scratch);
    free(turn->events);
    free(turn->by_fd.at);
    free(turn->by_number.at);
    free(turn->scheduled.at);
    free(turn->current.at);
    free(turn->holding.at);
    memset(turn, 0, sizeof *turn);
}

/* ------------------------------------------------------------------ lists */
static bool reach(struct mpb_connections *list, uint32_t count)
{
    if (count <= list->capacity)
        return true;
    uint32_t capacity = count + count / 2 + 16;
    struct mpb_connection **grown = realloc(list->at, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    memset(grown + list->capacity, 0, (capacity - list->capacity) * sizeof *grown);
    list->at = grown;
    list->capacity = capacity;
    return true;
}

static void drop(struct mpb_connections *list, const struct mpb_connection *c)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] != c)
            list->at[kept++] = list->at[i];
    list->count = kept;
}

int mpb_turn_add(struct mpb_turn *turn, struct mpb_connection *c)
{
    uint32_t fd = (uint32_t)c->fd;
    if (c->fd < 0 || !reach(&turn->by_fd, fd + 1) || !reach(&turn->by_number, c->number + 1))
        return -1;
    /* The lists below hold each connection once: room made here means that none of them fails later. */
    uint32_t all = turn->by_fd.count + 1;
    if (!reach(&turn->scheduled, all) || !reach(&turn->current, all) || !reach(&turn->holding, all))
        return -1;
    turn->by_fd.at[fd] = c;
    turn->by_number.at[c->number] = c;
    turn->by_fd.count = all; /* connections, not places: places are found by `capacity` */
    return 0;
}

void mpb_turn_forget(struct mpb_turn *turn, struct mpb_connection *c)
{
    if (c->fd < 0 || (uint32_t)c->fd >= turn->by_fd.capacity || turn->by_fd.at[c->fd] != c)
        return;
    mpb_connection_give_up(c, turn->port);
    turn->by_fd.at[c->fd] = NULL;
    turn->by_number.at[c->number] = NULL;
    turn->by_fd.count--;
    drop(&turn->scheduled, c);
    drop(&turn->current, c);
    drop(&turn->holding, c);
    for (uint32_t i = 0; i < turn->event_count; i++) /* nobody may hear of it any more */
        if (turn->events[i].connection == c)
            turn->events[i--] = turn->events[--turn->event_count];
    mpb_connection_close(c);
}

void mpb_turn_schedule(struct mpb_turn *turn, struct mpb_connection *c)
{
    if (c->scheduled || c->closed || c->waits)
        return;
    c->scheduled = true;
    turn->scheduled.at[turn->scheduled.count++] = c;
}

static void event(struct mpb_turn *turn, enum mpb_event_kind kind, struct mpb_connection *c, int64_t first,
                  int64_t second)
{
    if (turn->event_count == turn->event_capacity) {
        uint32_t capacity = turn->event_capacity * 2 + 64;
        struct mpb_event *grown = realloc(turn->events, capacity * sizeof *grown);
        if (grown == NULL) {
            turn->out_of_memory = true;
            return;
        }
        turn->events = grown;
        turn->event_capacity = capacity;
    }
    turn->events[turn->event_count++] = (struct mpb_event){kind, c, first, second};
}

/* ------------------------------------------------------------------ answers */
/* Its request is answered: it is read again. */
static void unmute(struct mpb_turn *turn, struct mpb_connection *c)
{
    c->in_flight = false;
    if (c->readable || c->start < c->end)
        mpb_turn_schedule(turn, c);
}

/* Sends what is in `out`; what follows when all of it is gone. */
static void send_out(struct mpb_turn *turn, struct mpb_connection *c)
{
    enum mpb_send sent = mpb_connection_send(c, turn->port);
    if (sent == MPB_SEND_LOST || (sent == MPB_SEND_DONE && c->close_after_send)) {
        event(turn, MPB_EVENT_CLOSE, c, sent == MPB_SEND_DONE, 0);
    } else if (sent == MPB_SEND_DONE && c->unmute_after_send) {
        c->unmute_after_send = false;
        unmute(turn, c);
    }
}

static void answer_one(struct mpb_turn *turn, struct mpb_connection *c, uint32_t entry, bool hold)
{
    if (c->out_count == MPB_MAX_OUT) { /* cannot be: it was not read while that much waited */
        mpb_sent(turn->port, entry, 0, true);
        event(turn, MPB_EVENT_CLOSE, c, 0, 0);
        return;
    }
    c->out[c->out_count++] = entry;
    if (hold && !c->blocked && c->out_count < MPB_MAX_HELD) {
        if (!c->holding) {
            c->holding = true;
            turn->holding.at[turn->holding.count++] = c;
        }
        unmute(turn, c);
        return;
    }
    c->unmute_after_send = !c->close_after_send;
    if (!c->blocked)
        send_out(turn, c);
}

static void answer(struct mpb_turn *turn, uint32_t index)
{
    const struct mpb_entry *entry = &turn->port->core->entries[index];
    struct mpb_connection *c = entry->connection < turn->by_number.capacity ? turn->by_number.at[entry->connection]
                                                                            : NULL;
    if (c == NULL || c->generation != entry->connection_generation) {
        mpb_sent(turn->port, index, 0, true);
        event(turn, MPB_EVENT_STRAY, NULL, index, 0);
        return;
    }
    bool nothing = entry->answer_length == 0, close = entry->answer_kind == MPB_ANSWER_CLOSE;
    if (nothing || entry->answer_kind == MPB_ANSWER_NONE) {
        uint64_t now_ns = mpb_trace_clock_ns();
        mpb_sent_at(turn->port, index, now_ns, now_ns);
        if (close)
            event(turn, MPB_EVENT_CLOSE, c, 1, 0);
        else
            unmute(turn, c);
        return;
    }
    c->close_after_send |= close;
    answer_one(turn, c, index, entry->answer_kind == MPB_ANSWER_INLINE && mpb_connection_has_frame(c));
}

uint32_t mpb_turn_answer(struct mpb_turn *turn, uint32_t limit)
{
    uint32_t count = 0;
    for (; count < limit; count++) {
        int64_t index = mpb_collect(turn->port);
        if (index < 0)
            break;
        answer(turn, (uint32_t)index);
    }
    turn->port->collected_ns = 0; /* the next turn looks anew */
    return count;
}

void mpb_turn_end(struct mpb_turn *turn, bool will_sleep)
{
    if (turn->holding.count == 0)
        return;
    if (++turn->held_turns < MPB_MAX_HELD_TURNS && !will_sleep)
        return;
    turn->held_turns = 0;
    uint32_t count = turn->holding.count;
    turn->holding.count = 0; /* nothing below holds an answer anew */
    for (uint32_t i = 0; i < count; i++) {
        struct mpb_connection *c = turn->holding.at[i];
        c->holding = false;
        if (c->out_count > 0 && !c->blocked)
            send_out(turn, c);
    }
    turn->port->collected_ns = 0;
}

/* ------------------------------------------------------------------ requests */
bool mpb_turn_over_limit(const struct mpb_turn *turn)
{
    if (turn->queued_bytes_limit <= 0)
        return false;
    const struct mpb_core *core = turn->port->core;
    uint64_t sum = 0;
    for (uint32_t p = 0; p < core->header->processor_count; p++) /* each publishes its own number */
        sum += mpb_load_relaxed(&core->counters[MPB_SLOT_PROCESSORS + p].value[MPB_C_QUEUED_BYTES]);
    return sum >= (uint64_t)turn->queued_bytes_limit;
}

bool mpb_turn_serves(struct mpb_turn *turn, struct mpb_connection *c, const uint8_t *frame)
{
    int16_t key = (int16_t)mpb_get_be16(frame), version = (int16_t)mpb_get_be16(frame + 2);
    const struct mpb_api_range *api = key >= 0 && key < MPB_API_KEYS ? &turn->apis[key] : NULL;
    bool known = api != NULL && api->newest >= api->oldest;
    if (known && (key == MPB_API_VERSIONS_KEY || (version >= api->oldest && version <= api->newest)))
        return true;
    event(turn, MPB_EVENT_UNSUPPORTED, c, key, version);
    return false;
}

bool mpb_turn_submitted(struct mpb_turn *turn, struct mpb_connection *c, const struct mpb_submission *s, int64_t code)
{
    if (code == MPB_NO_ENTRY || code == MPB_NO_SPACE) {
        event(turn, MPB_EVENT_NO_ROOM, c, code, 0);
        return false;
    }
    if (code == MPB_POISON) {
        event(turn, MPB_EVENT_POISON, c, 0, 0);
        return false;
    }
    if (turn->port->lane != NULL && mpb_connection_introduces(c, s->frame, s->length, s->client_hash))
        event(turn, MPB_EVENT_INTRODUCED, c, s->client_hash, 0);
    c->first_ns = c->later_ns;
    c->first_arrival_ns = c->later_arrival_ns;
    c->last_active_ns = s->frame_done_ns;
    c->frame_started_ns = 0;
    c->in_flight = true;
    c->requests++;
    if (code == MPB_PLANE_FULL)
        event(turn, MPB_EVENT_PARKED, c, turn->port->parked, 0);
    return true;
}

/* The keys of the controller and of brokers among each other: they never wait behind data if `classifies`. */
static uint32_t plane_of(const struct mpb_turn *turn, const uint8_t *frame)
{
    switch (mpb_get_be16(frame)) {
    case 4:  /* LeaderAndIsr */
    case 5:  /* StopReplica */
    case 6:  /* UpdateMetadata */
    case 7:  /* ControlledShutdown */
    case 56: /* AlterPartition */
    case 67: /* AllocateProducerIds */
        return MPB_PLANE_CONTROL;
    default:
        return turn->plane;
    }
}

/* Steps of a turn that follow each other closely share a reading of the clock: it costs as much as half of the step. */
static uint64_t moment_ns(const struct mpb_turn *turn)
{
    return turn->now_ns != 0 ? turn->now_ns : mpb_trace_clock_ns();
}

static bool submit(struct mpb_turn *turn, struct mpb_connection *c, const uint8_t *frame, uint32_t length)
{
    c->frame_started_ns = 0;
    if (!mpb_turn_serves(turn, c, frame))
        return false;
    bool traced = turn->port->lane != NULL;
    struct mpb_submission s = {.plane = turn->classifies ? plane_of(turn, frame) : turn->plane,
                               .listener = turn->listener,
                               .connection = c->number,
                               .connection_generation = c->generation,
                               .frame = frame,
                               .length = length,
                               .offset = UINT64_MAX,
                               .t0_ns = traced ? c->first_ns : 0,
                               .frame_done_ns = moment_ns(turn),
                               .arrival_ns = c->first_arrival_ns,
                               .client_hash = traced ? mpb_client_hash(frame, length) : 0,
                               .inflight = c->out_count};
    bool anew = turn->now_ns == 0;
    int64_t code = mpb_turn_over_limit(turn) ? MPB_NO_SPACE : mpb_submit(turn->port, &s);
    turn->now_ns = anew && length <= MPB_INLINE_PAYLOAD ? s.frame_done_ns : 0; /* good for one more step */
    if (!mpb_turn_submitted(turn, c, &s, code))
        return false;
    mpb_connection_take(c, length + 4);
    return code >= 0;
}

bool mpb_turn_submit(struct mpb_turn *turn, struct mpb_connection *c)
{
    const uint8_t *frame;
    int32_t length;
    turn->now_ns = 0;
    if (mpb_connection_frame(c, turn->max_request_bytes, &frame, &length) != MPB_FRAME_WHOLE)
        return false;
    return submit(turn, c, frame, (uint32_t)length);
}

/* No whole frame is here: a large one may be worth room in the arena now. */
static void wait_for_more(struct mpb_turn *turn, struct mpb_connection *c)
{
    uint32_t wanted = mpb_connection_wants_arena(c);
    if (c->frame_started_ns == 0 && mpb_connection_buffered(c) > 0) {
        c->frame_started_ns = mpb_trace_clock_ns();
        c->frame_bytes_seen = 0;
    }
    if (wanted > 0)
        event(turn, MPB_EVENT_LARGE, c, wanted, 0);
    else if (c->readable)
        mpb_turn_schedule(turn, c);
}

static void read_one(struct mpb_turn *turn, struct mpb_connection *c)
{
    const uint8_t *frame;
    int32_t length = 0;
    enum mpb_frame found = mpb_connection_frame(c, turn->max_request_bytes, &frame, &length);
    if (found == MPB_FRAME_PART && c->readable) {
        uint64_t begun_ns = moment_ns(turn);
        turn->now_ns = 0; /* to receive takes time */
        if (mpb_connection_receive(c, turn->scratch, begun_ns, &turn->arrivals) < 0) {
            event(turn, MPB_EVENT_CLOSE, c, 0, 0);
            return;
        }
        found = mpb_connection_frame(c, turn->max_request_bytes, &frame, &length);
    }
    if (found == MPB_FRAME_INVALID)
        event(turn, MPB_EVENT_INVALID, c, length, 0);
    else if (found == MPB_FRAME_WHOLE)
        submit(turn, c, frame, (uint32_t)length);
    else
        wait_for_more(turn, c);
}

void mpb_turn_receive(struct mpb_turn *turn, bool may_read)
{
    struct mpb_connections all = turn->scheduled;
    turn->scheduled = turn->current;
    turn->scheduled.count = 0;
    turn->current = all;
    turn->now_ns = 0;
    for (uint32_t i = 0; i < turn->current.count; i++) {
        struct mpb_connection *c = turn->current.at[i];
        c->scheduled = false;
        if (!may_read && !c->large) {
            mpb_turn_schedule(turn, c); /* no room for more: it stays as it is */
            continue;
        }
        if (c->in_flight || c->waits)
            continue;
        uint32_t before = turn->event_count;
        if (c->large)
            event(turn, MPB_EVENT_LARGE, c, 0, 0);
        else
            read_one(turn, c);
        for (; before < turn->event_count; before++)
            may_read &= turn->events[before].kind != MPB_EVENT_NO_ROOM && turn->events[before].kind != MPB_EVENT_PARKED;
    }
    turn->current.count = 0;
}

bool mpb_turn_has_work(const struct mpb_turn *turn, bool may_read)
{
    if (may_read)
        return turn->scheduled.count > 0;
    for (uint32_t i = 0; i < turn->scheduled.count; i++)
        if (turn->scheduled.at[i]->large)
            return true;
    return false;
}

/* ------------------------------------------------------------------ waiting */
static void socket_event(struct mpb_turn *turn, struct mpb_connection *c, uint32_t what)
{
    const uint32_t broken = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if ((what & EPOLLOUT) && c->blocked) {
        send_out(turn, c);
        turn->port->collected_ns = 0; /* who answers next looks anew */
    }
    if (what & (EPOLLIN | broken)) {
        c->readable = true;
        c->hung_up |= (what & broken) != 0;
        if (!c->in_flight)
            mpb_turn_schedule(turn, c);
    }
}

/* It has done its work by waking us: every turn looks for answers. */
static void empty_bell(int fd)
{
    uint64_t rings;
    while (read(fd, &rings, sizeof rings) < 0 && errno == EINTR)
        ;
}

bool mpb_turn_poll(struct mpb_turn *turn, int timeout_ms)
{
    struct epoll_event found[MPB_MAX_POLLED];
    int count = epoll_wait(turn->epoll, found, MPB_MAX_POLLED, timeout_ms);
    for (int i = 0; i < count; i++) {
        int fd = found[i].data.fd;
        struct mpb_connection *c = (uint32_t)fd < turn->by_fd.capacity ? turn->by_fd.at[fd] : NULL;
        if (c != NULL)
            socket_event(turn, c, found[i].events);
        else if (fd == turn->port->core->eventfds[turn->port->index])
            empty_bell(fd);
        else
            event(turn, MPB_EVENT_DESCRIPTOR, NULL, fd, 0);
    }
    return count >= 0 || errno != EINTR;
}

void mpb_turn_sleep(struct mpb_turn *turn, int timeout_ms)
{
    struct mpb_process *row = &turn->port->core->processes[turn->port->slot];
    uint64_t before = mpb_trace_clock_ns();
    mpb_store_relaxed(&row->busy_ns, mpb_load_relaxed(&row->busy_ns) + (before - turn->awake_since_ns));
    mpb_store_release(&row->wait, MPB_WAIT_EPOLL);
    mpb_turn_poll(turn, mpb_processor_doze_ms(turn->port, before, timeout_ms));
    mpb_processor_cancel_sleep(turn->port);
    mpb_store_release(&row->wait, MPB_WAIT_NONE);
    turn->awake_since_ns = mpb_trace_clock_ns();
    mpb_store_relaxed(&row->idle_ns, mpb_load_relaxed(&row->idle_ns) + (turn->awake_since_ns - before));
}

uint32_t mpb_turn_run(struct mpb_turn *turn, uint32_t turns, uint64_t until_ns, uint32_t answers)
{
    uint32_t unrung_turns = 0;
    mpb_atomic64 *heartbeat = &turn->port->core->processes[turn->port->slot].heartbeat_ns;
    for (; turns > 0 && turn->event_count == 0; turns--) {
        uint32_t answered = mpb_turn_answer(turn, answers);
        if (turn->event_count > 0)
            break;
        mpb_turn_receive(turn, true);
        uint64_t now_ns = mpb_trace_clock_ns();
        mpb_store_relaxed(heartbeat, now_ns);
        bool busy = answered > 0 || turn->scheduled.count > 0;
        mpb_turn_end(turn, !busy);
        if (!busy || ++unrung_turns >= MPB_UNRUNG_TURNS || turn->port->unrung[MPB_PLANE_CONTROL] > 0 ||
            turn->port->unrung[MPB_PLANE_DATA] >= MPB_UNRUNG_REQUESTS) {
            mpb_processor_ring(turn->port);
            unrung_turns = 0;
        }
        if (turn->event_count > 0 || now_ns >= until_ns)
            break;
        if (!busy)
            return turns - 1;
        mpb_turn_poll(turn, 0);
    }
    return 0;
}
