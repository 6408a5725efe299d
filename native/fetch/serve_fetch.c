#include "fetch/serve_fetch.h"

#include <time.h>

#include "fetch/fetch_answer.h"
#include "log/isr.h"
#include "shm/arena.h"
#include "shm/counters.h"
#include "shm/doorbell.h"
#include "shm/inject.h"
#include "trace/trace_record.h"

#define FETCH_KEY 1
#define FIRST_WITH_ZSTD 10
#define READ_COMMITTED 1

static const enum mpb_counter LEFT_COUNTERS[MPB_FETCH_LEFT_REASONS] = {
    [MPB_FETCH_LEFT_FRAME] = MPB_C_FETCH_LEFT_FRAME,           [MPB_FETCH_LEFT_TOPIC] = MPB_C_FETCH_LEFT_TOPIC,
    [MPB_FETCH_LEFT_PARTITIONS] = MPB_C_FETCH_LEFT_PARTITIONS, [MPB_FETCH_LEFT_SESSION] = MPB_C_FETCH_LEFT_SESSION,
    [MPB_FETCH_LEFT_ERROR] = MPB_C_FETCH_LEFT_ERROR,           [MPB_FETCH_LEFT_ABORTED] = MPB_C_FETCH_LEFT_ABORTED,
    [MPB_FETCH_LEFT_RERUN] = MPB_C_FETCH_LEFT_RERUN,           [MPB_FETCH_LEFT_MEMORY] = MPB_C_FETCH_LEFT_MEMORY,
    [MPB_FETCH_LEFT_CHANGED] = MPB_C_FETCH_LEFT_CHANGED,
};

int64_t mpb_fetch_now_ms(const struct mpb_native_fetch *native)
{
    struct timespec now;
    if (native->now_ms >= 0)
        return native->now_ms;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Where the bytes are, within the limits of partition and request; no record is read. */
static enum mpb_fetch_left plan_part(struct mpb_native_fetch *native, struct mpb_fetch_part *part, uint32_t limit,
                                     bool min_one)
{
    const struct mpb_fetch_request *request = &native->request;
    const struct mpb_session_partition *asked = &part->asked;
    int64_t bound = request->replica >= 0                  ? MPB_READ_TO_END
                    : request->isolation == READ_COMMITTED ? MPB_READ_TO_STABLE
                                                           : MPB_READ_TO_HIGH_WATERMARK;
    if (request->version < FIRST_WITH_ZSTD && part->topic->is_zstd)
        return MPB_FETCH_LEFT_ERROR;
    int error = mpb_log_find(native->log, part->topic->ordinals[asked->partition], part->topic->id, asked->fetch_offset,
                             bound, limit, min_one, &part->plan);
    bool is_of_now = asked->leader_epoch < 0 || asked->leader_epoch == part->plan.leader_epoch;
    bool read_of_now = asked->last_epoch < 0 ||
                       asked->last_epoch == part->plan.leader_epoch; /* it ends at the log's end */
    if (error != 0 || !is_of_now || !read_of_now)
        return MPB_FETCH_LEFT_ERROR;
    bool may_name = request->isolation == READ_COMMITTED && part->plan.aborted_end > asked->fetch_offset;
    return may_name ? MPB_FETCH_LEFT_ABORTED : MPB_FETCH_SERVE;
}

static enum mpb_fetch_left plan(struct mpb_native_fetch *native, uint64_t *total)
{
    struct mpb_fetch_request *request = &native->request;
    uint32_t most = (uint32_t)request->max_bytes;
    most = most < native->max_bytes ? most : native->max_bytes;
    *total = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        struct mpb_fetch_part *part = &request->parts[i];
        uint32_t limit = (uint32_t)part->asked.max_bytes < most ? (uint32_t)part->asked.max_bytes : most;
        enum mpb_fetch_left left = plan_part(native, part, limit, *total == 0);
        if (left != MPB_FETCH_SERVE)
            return left;
        most -= part->plan.length < most ? part->plan.length : most;
        *total += part->plan.length;
    }
    return MPB_FETCH_SERVE;
}

/* A follower that has no session yet, or wants what only Python tells, is Python's. */
static enum mpb_fetch_left check_reader(const struct mpb_native_fetch *native)
{
    const struct mpb_fetch_request *request = &native->request;
    if (request->replica < 0)
        return MPB_FETCH_SERVE;
    if (!native->serves_followers || request->isolation != 0)
        return MPB_FETCH_LEFT_FRAME;
    return request->session_id == 0 || request->session_epoch <= 0 ? MPB_FETCH_LEFT_SESSION : MPB_FETCH_SERVE;
}

/* That it asks for an offset says that the follower has everything below. */
static enum mpb_fetch_left count_position(struct mpb_native_fetch *native, const struct mpb_fetch_part *part,
                                          int64_t at_ms)
{
    const struct mpb_session_partition *asked = &part->asked;
    struct mpb_follower_answer found;
    struct mpb_follower_fetch fetch = {.broker = native->request.replica,
                                       .broker_epoch = native->request.replica_epoch,
                                       .leader_epoch = asked->leader_epoch < 0 ? -1 : asked->leader_epoch,
                                       .offset = asked->fetch_offset,
                                       .last_epoch = asked->last_epoch < 0 ? -1 : asked->last_epoch,
                                       .log_start = asked->asked_log_start,
                                       .now_ms = at_ms,
                                       .topic_id = part->topic->id};
    mpb_follower_fetched(native->log, part->topic->ordinals[asked->partition], &fetch, &found);
    if (found.proposed)
        mpb_ring_service(native->handler->core, MPB_SLOT_CONTROLLER);
    if (found.error == MPB_ERR_REQUEST_TIMED_OUT) /* its lock is not to be had now: the next fetch says it again */
        return MPB_FETCH_SERVE;
    bool parts = found.diverging.epoch >= 0 || found.diverging.offset >= 0;
    return found.error != 0 || found.ask_file || parts ? MPB_FETCH_LEFT_ERROR : MPB_FETCH_SERVE;
}

static enum mpb_fetch_left count_positions(struct mpb_native_fetch *native, int64_t at_ms)
{
    enum mpb_fetch_left left = MPB_FETCH_SERVE;
    for (uint32_t i = 0; left == MPB_FETCH_SERVE && i < native->request.count; i++)
        left = count_position(native, &native->request.parts[i], at_ms);
    return left;
}

/* Everything before the answer: what is read, and how much there is of it. `first`: a follower's position counts, once. */
static enum mpb_fetch_left look(struct mpb_native_fetch *native, uint32_t index, struct mpb_fetch_turn *turn,
                                bool first, uint64_t *total)
{
    struct mpb_core *core = native->handler->core;
    struct mpb_entry *entry = &core->entries[index];
    *turn = (struct mpb_fetch_turn){.core = core,
                                    .slot = native->handler->slot,
                                    .fill_number = entry->fill_number,
                                    .now_ms = (uint64_t)mpb_fetch_now_ms(native),
                                    .topics = native->topics,
                                    .request = &native->request};
    if (mpb_attempts(entry) != 0)
        return MPB_FETCH_LEFT_RERUN;
    if (mpb_load_acquire(&core->header->metadata_generation) != *native->generation)
        return MPB_FETCH_LEFT_TOPIC;
    enum mpb_fetch_left left = mpb_fetch_read(native->topics, mpb_payload(core, entry), entry->payload_length,
                                              &native->request);
    if (left == MPB_FETCH_SERVE)
        left = check_reader(native);
    if (left == MPB_FETCH_SERVE)
        left = mpb_fetch_session_begin(turn);
    if (left == MPB_FETCH_SERVE && first && native->request.replica >= 0)
        left = count_positions(native, (int64_t)turn->now_ms);
    return left == MPB_FETCH_SERVE ? plan(native, total) : left;
}

static void describe(const struct mpb_fetch_request *request, struct mpb_entry *entry)
{
    struct mpb_trace *trace = mpb_trace_of(entry->trace);
    trace->topic_hash = request->parts[0].topic->hash;
    trace->nparts = (uint16_t)request->count;
    trace->aux = request->max_wait_ms > 0 ? (uint32_t)request->max_wait_ms : 0;
}

static void finish(struct mpb_native_fetch *native, uint32_t index, uint32_t length, bool read)
{
    struct mpb_handler *handler = native->handler;
    struct mpb_entry *entry = &handler->core->entries[index];
    const struct mpb_trace *trace = mpb_trace_of(entry->trace);
    if (read && trace->t0_ns != 0 &&
        trace->stage[MPB_STAGE_LOCAL_DONE] == MPB_TRACE_NOT_REACHED) { /* it did not wait */
        handler->io_done_ns = mpb_trace_clock_ns();
        mpb_trace_stamp(entry->trace, MPB_STAGE_IO_DONE, handler->io_done_ns);
    }
    mpb_answer_reserved(handler, index, length);
    handler->io_done_ns = 0;
    native->served++;
    mpb_count(handler->core, handler->slot, MPB_C_FETCH_NATIVE, 1);
}

/* Records into the answer, then the session, then away with it. */
static enum mpb_fetch_left answer(struct mpb_native_fetch *native, uint32_t index, struct mpb_fetch_turn *turn,
                                  uint64_t total)
{
    struct mpb_handler *handler = native->handler;
    struct mpb_entry *entry = &handler->core->entries[index];
    if (total != 0 && mpb_extent_room(&handler->extents, total) < total)
        return MPB_FETCH_LEFT_MEMORY;
    mpb_fetch_session_choose(turn);
    uint8_t *frame = mpb_answer_reserve(handler, index,
                                        mpb_fetch_answer(&native->request, entry->correlation_id, native->log, NULL));
    if (frame == NULL)
        return MPB_FETCH_LEFT_MEMORY;
    uint32_t length = mpb_fetch_answer(&native->request, entry->correlation_id, native->log, frame);
    bool concluded = length != 0 && mpb_fetch_session_conclude(turn);
    if (!concluded) {
        mpb_answer_unreserve(handler, index);
        return length == 0 ? MPB_FETCH_LEFT_CHANGED : MPB_FETCH_LEFT_SESSION;
    }
    MPB_CRASH(handler->core, "fetch.concluded");
    mpb_fetch_answer_session(&native->request, turn->session_id, frame);
    finish(native, index, length, total != 0);
    return MPB_FETCH_SERVE;
}

static bool leave(struct mpb_native_fetch *native, enum mpb_fetch_left left)
{
    if (left < MPB_FETCH_LEFT_REASONS)
        mpb_count(native->handler->core, native->handler->slot, LEFT_COUNTERS[left], 1);
    return false;
}

bool mpb_serve_fetch(struct mpb_native_fetch *native, uint32_t index)
{
    struct mpb_entry *entry = &native->handler->core->entries[index];
    struct mpb_fetch_turn turn;
    uint64_t total = 0;
    native->waits = false;
    if (entry->api_key != FETCH_KEY || native->off)
        return false;
    enum mpb_fetch_left left = look(native, index, &turn, true, &total);
    if (left == MPB_FETCH_SERVE) {
        describe(&native->request, entry);
        if (native->request.max_wait_ms <= 0 || (int64_t)total >= native->request.min_bytes)
            left = answer(native, index, &turn, total);
        else
            left = MPB_FETCH_WAIT;
    }
    native->waits = left == MPB_FETCH_WAIT;
    return left == MPB_FETCH_SERVE || leave(native, left);
}

bool mpb_fetch_is_ready(struct mpb_native_fetch *native, uint32_t index)
{
    struct mpb_fetch_turn turn;
    uint64_t total = 0;
    return look(native, index, &turn, false, &total) != MPB_FETCH_SERVE || (int64_t)total >= native->request.min_bytes;
}

enum mpb_fetch_left mpb_fetch_go_on(struct mpb_native_fetch *native, uint32_t index, bool is_over)
{
    struct mpb_fetch_turn turn;
    uint64_t total = 0;
    enum mpb_fetch_left left = look(native, index, &turn, false, &total);
    if (left == MPB_FETCH_SERVE && !is_over && (int64_t)total < native->request.min_bytes)
        return MPB_FETCH_WAIT;
    mpb_resume(native->handler, index);
    MPB_CRASH(native->handler->core, "fetch.resumed");
    if (left == MPB_FETCH_SERVE)
        left = answer(native, index, &turn, total);
    if (left != MPB_FETCH_SERVE)
        leave(native, left);
    return left;
}
