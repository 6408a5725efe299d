/* The cast of request_drama.h at real work: Produce requests that come through sockets and a processor's turn, or from
 * test code, are served by handlers without the interpreter and appended to a log; answers go back the same way. What
 * must hold afterwards: every request is in the log at most once, an answered one exactly once at the offset it was told,
 * nobody has two answers, and those whose processor lived have one. */
#ifndef MPB_TESTS_TURN_PLAY_H
#define MPB_TESTS_TURN_PLAY_H

#include <sys/epoll.h>
#include <sys/socket.h>

#include "tests/stepping/film.h"
#include "network/network_turn.h"
#include "tests/produce/produce_frames.h"
#include "produce/serve_produce.h"
#include "log/repair.h"
#include "tests/request/request_scenes.h"
#include "tests/request/request_stills.h"

enum { PLAY_IDS = 16, PLAY_LANE = 64, PLAY_STREAM = 1 << 18, PLAY_CLIENTS = FILM_CLIENTS };

struct play {
    struct drama d;
    struct fixture f; /* log directory, and a handle of nobody's */
    struct mpb_log log[3];
    struct mpb_native_produce native[3];
    struct mpb_waiting_one waiting[3][PLAY_IDS];
    struct mpb_lane lane[2];
    void *lane_base[2];
    struct film_set set;
    uint8_t *base; /* the world before every scene */
    struct world_files base_files;
    /* one scene */
    struct mpb_turn turn; /* of processor 0 */
    struct mpb_connection c[PLAY_CLIENTS];
    struct ask asks[PLAY_IDS];
    uint8_t asked[PLAY_IDS]; /* 1 + its processor; not set: it never had to arrive */
    int client_of[PLAY_IDS];
    uint32_t stream_bytes[PLAY_CLIENTS];
    uint8_t stream[PLAY_CLIENTS][PLAY_STREAM]; /* everything a client was sent */
    /* one death in it */
    uint8_t answers[PLAY_IDS], torn;
    int64_t told[PLAY_IDS][ASK_PARTITIONS];
};

static const struct mpb_batch_rules PLAY_RULES = {.max_message_bytes = 1048588,
                                                  .from_client = true,
                                                  .timestamp_before_max_ms = INT64_MAX,
                                                  .timestamp_after_max_ms = INT64_MAX};

/* ------------------------------------------------------------------ the stage */
static void play_open_log(struct play *p)
{
    static const uint8_t id[16] = {7};
    static const uint32_t ordinals[ASK_PARTITIONS] = {0, 1, 2, 3};
    uint32_t bad;
    fixture_make_dir(&p->f);
    const char *dirs[] = {p->f.dir};
    p->f.core = p->d.w.core;
    CHECK_EQ(mpb_log_open(&p->f.log, &p->d.w.core, MPB_SLOT_CONTROLLER, dirs, 1, 16, &bad), 0);
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++)
        fixture_partition(&p->f, i);
    for (uint32_t h = 0; h < 3; h++) {
        CHECK_EQ(mpb_log_open(&p->log[h], &p->d.w.core, MPB_SLOT_HANDLERS + h, dirs, 1, 16, &bad), 0);
        p->native[h].handler = &p->d.h[h];
        p->native[h].log = &p->log[h];
        p->native[h].now_ms = -1;
        p->native[h].waiting = (struct mpb_waiting_produces){.handler = &p->d.h[h],
                                                             .topics = &p->native[h].topics,
                                                             .generation = &p->native[h].generation,
                                                             .served = &p->native[h].served,
                                                             .now_ms = 1,
                                                             .of = p->waiting[h],
                                                             .room = PLAY_IDS};
        for (int name = 0; name < 2; name++) {
            struct mpb_native_topic *topic = mpb_native_add(&p->native[h].topics, (const uint8_t *)ask_topic(name == 1),
                                                            (uint32_t)strlen(ask_topic(name == 1)), id, ordinals,
                                                            ASK_PARTITIONS, &FIX_OPTIONS, &PLAY_RULES);
            CHECK(topic != NULL && mpb_native_may_produce(topic));
            topic->produces = true;
        }
    }
}

static void play_open(struct play *p)
{
    world_open(&p->d.w, &small_plan);
    play_open_log(p);
    struct film_set *set = &p->set;
    struct mpb_core *c = &p->d.w.core;
    *set = (struct film_set){.fixture = &p->f};
    set->ranges = list_ranges(&p->d, set->range);
    set->range[set->ranges++] = (struct range){c->partitions, 4 * sizeof *c->partitions};
    set->range[set->ranges++] = (struct range){c->header, sizeof *c->header};
    for (uint32_t i = 0; i < 2; i++) {
        p->lane_base[i] = shared_bytes(mpb_lane_bytes(PLAY_LANE));
        CHECK_EQ(mpb_lane_format(p->lane_base[i], mpb_lane_bytes(PLAY_LANE), PLAY_LANE, i, 7), 0);
        set->range[set->ranges++] = (struct range){p->lane_base[i], 256}; /* the header's page is empty behind that */
        set->range[set->ranges++] = (struct range){(uint8_t *)p->lane_base[i] + MPB_PAGE_BYTES,
                                                   PLAY_LANE * MPB_TRACE_BYTES};
    }
    CHECK(set->ranges <= MAX_RANGES);
    set->bytes = ranges_bytes(set->range, set->ranges);
    drama_open(&p->d);
    drama_close(&p->d);
    CHECK((p->base = malloc(set->bytes)) != NULL);
    ranges_save(set->range, set->ranges, p->base);
    world_read_files(&p->f, &p->base_files);
}

static void play_close(struct play *p)
{
    for (int h = 0; h < 3; h++) {
        mpb_native_forget(&p->native[h].topics);
        mpb_log_close(&p->log[h]);
    }
    mpb_log_close(&p->f.log);
    remove_tree(p->f.dir);
    free(p->base);
    world_close(&p->d.w);
}

/* What a process finds beyond what drama_open and drama_reopen give it. */
static void play_attach(struct play *p)
{
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(mpb_lane_attach(&p->lane[i], p->lane_base[i], mpb_lane_bytes(PLAY_LANE)), 0);
        p->d.p[i].lane = &p->lane[i];
    }
    for (uint32_t h = 0; h < 3; h++) {
        p->d.h[h].serve = mpb_serve_produce;
        p->d.h[h].serve_with = &p->native[h];
        p->native[h].waiting.count = 0;
    }
}

static void play_restore(struct play *p, const uint8_t *memory, const struct world_files *files)
{
    world_restore_files(&p->f, files);
    ranges_restore(p->set.range, p->set.ranges, memory);
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++) {
        mpb_segment_close_partition(&p->f.log, i);
        for (int h = 0; h < 3; h++)
            mpb_segment_close_partition(&p->log[h], i);
    }
    memset(p->answers, 0, sizeof p->answers);
}

/* Everybody in the world of a still, between two operations of theirs. */
static void play_still(struct play *p, const struct film *film, uint32_t still)
{
    drama_open(&p->d);
    play_restore(p, film_memory(film, &p->set, still), film_files(film, still));
    drama_reopen(&p->d, 0, 0);
    play_attach(p);
}

/* ------------------------------------------------------------------ requests */
static uint32_t play_frame(struct play *p, const struct ask *ask, uint8_t frame[ASK_BYTES], bool certain, int processor)
{
    CHECK(ask->id < PLAY_IDS && p->asks[ask->id].partitions == 0);
    p->asks[ask->id] = *ask;
    p->asked[ask->id] = certain ? (uint8_t)(1 + processor) : 0;
    return ask_frame(frame, ask);
}

/* Through a processor, but not through a socket. */
static int64_t play_ask(struct play *p, int processor, const struct ask *ask)
{
    uint8_t frame[ASK_BYTES];
    uint32_t length = play_frame(p, ask, frame, true, processor);
    struct mpb_submission s = {.plane = MPB_PLANE_DATA,
                               .connection = 100 + ask->id,
                               .connection_generation = 1,
                               .frame = frame + 4,
                               .length = length - 4,
                               .offset = MPB_PAYLOAD_INLINE,
                               .t0_ns = 1,
                               .frame_done_ns = 1,
                               .client_hash = 1};
    return mpb_submit(&p->d.p[processor], &s);
}

/* Into a client's socket; what becomes of it depends on processor 0's life. */
static void play_send(struct play *p, int client, const struct ask *ask)
{
    uint8_t frame[ASK_BYTES];
    uint32_t length = play_frame(p, ask, frame, false, 0);
    CHECK_EQ(write(p->set.client[client], frame, length), length);
    p->client_of[ask->id] = client;
}

static void play_connect(struct play *p, int clients, int buffer_bytes)
{
    memset((void *)&p->turn, 0xa5, sizeof p->turn); /* as memory is that was used before */
    CHECK_EQ(mpb_turn_open(&p->turn, &p->d.p[0], epoll_create1(0)), 0);
    p->turn.max_request_bytes = 1 << 20;
    p->turn.apis[0] = (struct mpb_api_range){3, 7};
    p->d.p[0].batching = true;
    for (int i = 0; i < clients; i++) {
        int pair[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        if (buffer_bytes > 0)
            CHECK_EQ(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes), 0);
        struct epoll_event events = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = pair[0]};
        CHECK_EQ(epoll_ctl(p->turn.epoll, EPOLL_CTL_ADD, pair[0], &events), 0);
        p->c[i] = (struct mpb_connection){.fd = pair[0], .number = (uint32_t)i, .generation = 1};
        CHECK_EQ(mpb_turn_add(&p->turn, &p->c[i]), 0);
        p->set.client[i] = pair[1];
    }
    p->set.clients = clients;
}

/* After the film: what every client was sent, and an end of its connections. */
static void play_disconnect(struct play *p)
{
    if (p->set.clients == 0)
        return;
    for (int i = 0; i < p->set.clients; i++) {
        ssize_t n = read(p->set.client[i], p->stream[i], PLAY_STREAM);
        p->stream_bytes[i] = n > 0 ? (uint32_t)n : 0;
        CHECK(p->stream_bytes[i] < PLAY_STREAM);
        close(p->c[i].fd);
        close(p->set.client[i]);
        mpb_connection_close(&p->c[i]);
    }
    close(p->turn.epoll);
    mpb_turn_close(&p->turn);
    p->set.clients = 0;
}

/* ------------------------------------------------------------------ work */
static void play_answered(struct play *p, const uint8_t *frame, uint32_t length)
{
    struct drama *d = &p->d;
    uint32_t id = (uint32_t)mpb_be32(frame);
    HOLD(d, id < PLAY_IDS && p->asks[id].partitions > 0 && p->asks[id].acks != 0);
    HOLD(d, ++p->answers[id] == 1);
    read_answer(frame, length, &p->asks[id], p->told[id]);
}

/* What a client has when its processor dies: whole answers, the last one perhaps not. */
static void play_hear(struct play *p, int client, uint32_t bytes)
{
    HOLD(&p->d, bytes <= p->stream_bytes[client]);
    const uint8_t *at = p->stream[client], *end = at + bytes;
    while (end - at >= 4 && mpb_be32(at) <= end - at - 4) {
        uint32_t length = (uint32_t)mpb_be32(at);
        if ((uint32_t)mpb_be32(at + 4) < PLAY_IDS) /* else a made-up one that is there for its size */
            play_answered(p, at + 4, length);
        at += 4 + length;
    }
    if (at < end)
        p->torn++;
}

/* The followers have everything: the high watermark is where the log ends. */
static void play_replicate(struct play *p, int index)
{
    struct mpb_log *log = &p->log[index];
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++) {
        struct mpb_partition *row = &p->d.w.core.partitions[i];
        HOLD(&p->d, mpb_partition_lock(log, i) == 0);
        struct mpb_partition_copy next = *mpb_partition_in_force(row);
        next.hw = next.leo;
        mpb_partition_write_idle(log->core, row, &next);
        mpb_partition_commit(row);
        mpb_partition_unlock(log, i);
        mpb_partition_moved(log, i);
    }
}

/* What waits for followers is answered once they have it; nothing of it is Python's. */
static bool play_acknowledge(struct play *p, int index)
{
    struct mpb_waiting_produces *waiting = &p->native[index].waiting;
    bool waited = waiting->count > 0;
    if (waited) {
        play_replicate(p, index);
        mpb_produce_look_again(waiting);
        HOLD(&p->d, waiting->count == 0);
    }
    return waited;
}

/* A handler's loop; what the native path leaves to Python, which is a request that somebody died with before, is served
 * as Python does it: by the same append, which finds the cells that are filled. */
static bool play_serve(struct play *p, int index)
{
    struct drama *d = &p->d;
    struct mpb_handler *h = &d->h[index];
    bool moved = false;
    int64_t entry;
    while ((entry = mpb_handler_serve_or_claim(h, false, UINT64_MAX)) != MPB_CLAIM_NOTHING) {
        moved = true;
        if (entry == MPB_CLAIM_POKED) {
            atomic_exchange(&d->w.core.doorbells->handler[index].poke, 0);
            continue;
        }
        HOLD(d, entry >= 0 && mpb_attempts(&d->w.core.entries[entry]) > 0);
        mpb_store_relaxed(&d->w.core.entries[entry].attempts, 0);
        if (mpb_serve_produce(&p->native[index], (uint32_t)entry))
            continue;
        /* A replay with acks=all is left to wait for the replicas; there are none, so it has waited enough. */
        uint8_t *acks = (uint8_t *)(uintptr_t)mpb_payload(&d->w.core, &d->w.core.entries[entry]) + 13;
        HOLD(d, acks[0] == 0xFF && acks[1] == 0xFF);
        memcpy(acks, "\0\1", 2); /* at once: a victim that dies here leaves the old one or the new one */
        HOLD(d, mpb_serve_produce(&p->native[index], (uint32_t)entry));
    }
    return play_acknowledge(p, index) || moved;
}

static bool play_collect(struct play *p, int index)
{
    struct drama *d = &p->d;
    int64_t entry;
    bool moved = false;
    for (; (entry = mpb_collect(&d->p[index])) >= 0; moved = true) {
        struct mpb_entry *e = &d->w.core.entries[entry];
        const uint8_t *bytes = e->answer_extent ? d->w.core.arena + e->answer_offset : e->answer_bytes;
        uint32_t id = (uint32_t)e->correlation_id;
        HOLD(d, id < PLAY_IDS && p->asked[id] == index + 1);
        HOLD(d, e->answer_extent == 0 ||
                    mpb_load_acquire(&d->w.core.extents[e->answer_extent - 1]) >> 47 == (uint64_t)entry + 1);
        if (e->answer_length > 0) {
            HOLD(d, mpb_be32(bytes) == (int32_t)e->answer_length - 4);
            play_answered(p, bytes + 4, e->answer_length - 4);
        } else {
            HOLD(d, p->asks[id].acks == 0 && ++p->answers[id] == 1);
            HOLD(d, e->answer_kind == (p->asks[id].corrupt ? MPB_ANSWER_CLOSE : MPB_ANSWER_NONE));
        }
        HOLD(d, mpb_sent(&d->p[index], (uint32_t)entry, 1, false));
    }
    return moved;
}

/* Everybody alive works until nothing moves; bit masks of those that may. */
static void play_drain(struct play *p, unsigned handlers, unsigned processors)
{
    bool moved = true;
    for (int turn = 0; moved; turn++) {
        HOLD(&p->d, turn < 100);
        moved = false;
        for (int i = 0; i < 3; i++)
            moved |= (handlers >> i & 1) && play_serve(p, i);
        for (int i = 0; i < 2; i++)
            moved |= (processors >> i & 1) && play_collect(p, i);
    }
}

/* ------------------------------------------------------------------ what must hold */
/* How often each request is in the log of a partition, and where last. */
static void play_read_log(struct play *p, uint8_t copies[PLAY_IDS][ASK_PARTITIONS],
                          int64_t at[PLAY_IDS][ASK_PARTITIONS])
{
    static struct world_files files;
    memset(copies, 0, PLAY_IDS * ASK_PARTITIONS);
    world_read_files(&p->f, &files);
    for (uint32_t i = 0; i < files.count; i++) {
        const struct world_file *file = &files.file[i];
        if (strstr(file->path, ".log") == NULL)
            continue;
        int partition = atoi(strchr(file->path, '-') + 1);
        int64_t next = 0;
        for (size_t byte = 0; byte < file->length; next++) {
            struct mpb_batch_info info;
            mpb_batch_read(files.bytes + file->start + byte, &info);
            HOLD(&p->d, info.base_offset == next && byte + info.batch_bytes <= file->length);
            int64_t id = info.max_timestamp - ASK_TIME;
            HOLD(&p->d, id >= 0 && id < PLAY_IDS && partition < p->asks[id].partitions && !p->asks[id].corrupt);
            HOLD(&p->d, ++copies[id][partition] == 1);
            at[id][partition] = info.base_offset;
            byte += info.batch_bytes;
        }
    }
}

static void play_check_log(struct play *p, int dead_processor)
{
    uint8_t copies[PLAY_IDS][ASK_PARTITIONS];
    int64_t at[PLAY_IDS][ASK_PARTITIONS];
    struct drama *d = &p->d;
    play_read_log(p, copies, at);
    for (uint32_t id = 0; id < PLAY_IDS; id++) {
        const struct ask *ask = &p->asks[id];
        bool owed = p->asked[id] != 0 && p->asked[id] != dead_processor + 1;
        HOLD(d, p->answers[id] == 1 || !owed);
        for (int32_t i = 0; i < ask->partitions && !ask->corrupt; i++) {
            HOLD(d, copies[id][i] == copies[id][0]); /* whole or not at all */
            HOLD(d, copies[id][i] == 1 || (p->answers[id] == 0 && !owed));
            HOLD(d, p->answers[id] == 0 || ask->acks == 0 || p->told[id][i] == at[id][i]);
        }
    }
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++)
        HOLD(d, mpb_load_relaxed(&d->w.core.partitions[i].intent.word) == 0);
}

/* One record for each finished request. */
static void play_check_lanes(struct play *p)
{
    uint8_t records[PLAY_IDS] = {0};
    for (int i = 0; i < 2; i++) {
        struct mpb_lane_counters counters = mpb_lane_read_counters(&p->lane[i]);
        HOLD(&p->d, counters.finished == counters.written && counters.dropped == 0);
        for (uint64_t r = 0; r < counters.written; r++) {
            uint32_t id = (uint32_t)p->lane[i].records[r].corr_id;
            HOLD(&p->d, id >= PLAY_IDS || ++records[id] == 1);
        }
    }
    for (uint32_t id = 0; id < PLAY_IDS; id++)
        HOLD(&p->d, records[id] == 1 || p->answers[id] == 0);
}

static void play_settle(struct play *p, int dead_processor)
{
    play_drain(p, 7, 3);
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++) { /* whoever asks next repairs what nobody asked for since */
        CHECK_EQ(mpb_partition_lock(&p->f.log, i), 0);
        mpb_partition_unlock(&p->f.log, i);
    }
    play_check_log(p, dead_processor);
    play_check_lanes(p);
    check_rest(&p->d);
    refill(&p->d);
    drama_close(&p->d);
}

#endif
