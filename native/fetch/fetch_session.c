#include "fetch/fetch_session.h"

#include <string.h>

static const struct mpb_native_topic *topic_of(const struct mpb_fetch_turn *turn, bool by_id,
                                               const struct mpb_session_topic *topic)
{
    return by_id ? mpb_native_by_id(turn->topics, topic->id)
                 : mpb_native_by_name(turn->topics, topic->name, topic->name_length);
}

static void add_part(struct mpb_fetch_request *request, const struct mpb_fetch_asked *asked)
{
    struct mpb_fetch_part *part = &request->parts[request->count++];
    part->topic = asked->topic;
    part->asked = asked->asked;
}

/* All that the session reads. */
static enum mpb_fetch_left load(struct mpb_fetch_turn *turn, uint32_t row)
{
    struct mpb_fetch_request *request = turn->request;
    const struct mpb_fetch_session *session = &turn->core->fetch_sessions[row];
    const struct mpb_session_topic *topics = mpb_session_topics(turn->core, row);
    const struct mpb_session_partition *partitions = mpb_session_partitions(turn->core, row);
    bool by_id = (session->flags & MPB_SESSION_BY_ID) != 0;
    if (session->partitions > MPB_FETCH_PARTITIONS || session->topics > MPB_FETCH_PARTITIONS)
        return MPB_FETCH_LEFT_PARTITIONS;
    const struct mpb_native_topic *known[MPB_FETCH_PARTITIONS];
    for (uint32_t i = 0; i < session->topics; i++) {
        known[i] = topic_of(turn, by_id, &topics[i]);
        if (known[i] == NULL)
            return MPB_FETCH_LEFT_TOPIC;
    }
    request->count = 0;
    for (uint32_t i = 0; i < session->partitions; i++) {
        const struct mpb_fetch_asked one = {known[partitions[i].topic], partitions[i]};
        if (one.asked.partition < 0 || (uint32_t)one.asked.partition >= one.topic->partition_count)
            return MPB_FETCH_LEFT_PARTITIONS;
        add_part(request, &one);
    }
    return MPB_FETCH_SERVE;
}

static struct mpb_fetch_part *find(struct mpb_fetch_request *request, const struct mpb_fetch_asked *asked)
{
    for (uint32_t i = 0; i < request->count; i++)
        if (request->parts[i].asked.partition == asked->asked.partition && request->parts[i].topic == asked->topic)
            return &request->parts[i];
    return NULL;
}

/* The request's changes. */
static enum mpb_fetch_left merge(struct mpb_fetch_request *request)
{
    for (uint32_t i = 0; i < request->asked_count; i++) {
        const struct mpb_fetch_asked *asked = &request->asked[i];
        struct mpb_fetch_part *part = find(request, asked);
        if (part == NULL && request->count == MPB_FETCH_PARTITIONS)
            return MPB_FETCH_LEFT_PARTITIONS;
        if (part == NULL) {
            add_part(request, asked);
            continue;
        }
        struct mpb_session_partition known = part->asked;
        part->asked = asked->asked;
        part->asked.topic = known.topic;
        part->asked.high_watermark = known.high_watermark;
        part->asked.log_start = known.log_start;
    }
    for (uint32_t i = 0; i < request->forgotten_count; i++) {
        struct mpb_fetch_part *part = find(request, &request->forgotten[i]);
        if (part == NULL)
            continue;
        struct mpb_fetch_part *end = &request->parts[--request->count];
        memmove(part, part + 1, (size_t)(end - part) * sizeof *part);
    }
    return request->count == 0 ? MPB_FETCH_LEFT_SESSION : MPB_FETCH_SERVE;
}

/* The places of the topics in the session, in the order in which they come; how many there are. */
static uint32_t number_topics(struct mpb_fetch_request *request, const struct mpb_native_topic **topics)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t at = i > 0 && request->parts[i].topic == request->parts[i - 1].topic
                          ? request->parts[i - 1].asked.topic
                          : 0;
        while (at < count && topics[at] != request->parts[i].topic)
            at++;
        if (at == count)
            topics[count++] = request->parts[i].topic;
        request->parts[i].asked.topic = at;
    }
    return count;
}

static void write_partitions(const struct mpb_fetch_turn *turn, uint32_t row)
{
    struct mpb_session_partition *out = mpb_session_partitions(turn->core, row);
    for (uint32_t i = 0; i < turn->request->count; i++)
        out[i] = turn->request->parts[i].asked;
}

/* Everything into a row that has room for it. */
static void write_all(const struct mpb_fetch_turn *turn, uint32_t row, bool by_id,
                      const struct mpb_native_topic *const *topics, uint32_t count)
{
    struct mpb_session_topic *out = mpb_session_topics(turn->core, row);
    for (uint32_t i = 0; i < count; i++) {
        memset(&out[i], 0, sizeof out[i]);
        if (by_id)
            memcpy(out[i].id, topics[i]->id, sizeof out[i].id);
        memcpy(out[i].name, topics[i]->name, topics[i]->name_length);
        out[i].name_length = topics[i]->name_length;
    }
    write_partitions(turn, row);
}

/* The session is held, in the epoch that the request goes on with. */
static enum mpb_fetch_left go_on(struct mpb_fetch_turn *turn, uint32_t row)
{
    struct mpb_fetch_request *request = turn->request;
    struct mpb_fetch_session *session = &turn->core->fetch_sessions[row];
    const struct mpb_native_topic *topics[MPB_FETCH_PARTITIONS];
    enum mpb_fetch_left left = load(turn, row);
    if (left == MPB_FETCH_SERVE && (request->asked_count != 0 || request->forgotten_count != 0)) {
        left = merge(request);
        if (left != MPB_FETCH_SERVE)
            return left;
        uint32_t count = number_topics(request, topics);
        if (!mpb_session_resize(turn->core, row, count, request->count))
            return MPB_FETCH_LEFT_SESSION;
        write_all(turn, row, (session->flags & MPB_SESSION_BY_ID) != 0, topics, count);
    }
    if (left != MPB_FETCH_SERVE)
        return left;
    if (request->count == 0)
        return MPB_FETCH_LEFT_SESSION;
    session->epoch = session->epoch == INT32_MAX ? 1 : session->epoch + 1;
    session->flags &= ~(uint32_t)MPB_SESSION_ANSWERED;
    session->fill_number = turn->fill_number;
    mpb_store_relaxed(&session->used_ms, turn->now_ms);
    return MPB_FETCH_SERVE;
}

static enum mpb_fetch_left begin_incremental(struct mpb_fetch_turn *turn)
{
    const struct mpb_fetch_request *request = turn->request;
    enum mpb_fetch_left left = MPB_FETCH_LEFT_SESSION;
    uint32_t row;
    if (request->session_id <= 0 || request->session_epoch <= 0 ||
        mpb_session_hold(turn->core, turn->slot, (uint32_t)request->session_id, &row) != MPB_SESSION_HELD)
        return left;
    const struct mpb_fetch_session *session = &turn->core->fetch_sessions[row];
    bool by_id = (session->flags & MPB_SESSION_BY_ID) != 0;
    if (session->fill_number == turn->fill_number) /* it went on already, in an earlier look or run */
        left = (session->flags & MPB_SESSION_ANSWERED) != 0 ? MPB_FETCH_LEFT_SESSION : load(turn, row);
    else if (session->epoch == (uint32_t)request->session_epoch && by_id == (request->version >= MPB_FETCH_FIRST_BY_ID))
        left = go_on(turn, row);
    mpb_session_release(turn->core, row);
    turn->session_id = (uint32_t)request->session_id;
    return left;
}

enum mpb_fetch_left mpb_fetch_session_begin(struct mpb_fetch_turn *turn)
{
    struct mpb_fetch_request *request = turn->request;
    uint32_t row;
    turn->session_id = 0;
    turn->kind = request->session_epoch == -1  ? MPB_FETCH_SESSIONLESS
                 : request->session_epoch == 0 ? MPB_FETCH_FULL
                                               : MPB_FETCH_INCREMENTAL;
    if (turn->kind == MPB_FETCH_INCREMENTAL)
        return begin_incremental(turn);
    if (request->asked_count == 0)
        return MPB_FETCH_LEFT_PARTITIONS;
    if (request->session_id > 0 &&
        mpb_session_hold(turn->core, turn->slot, (uint32_t)request->session_id, &row) == MPB_SESSION_HELD)
        mpb_session_drop(turn->core, row);
    request->count = 0;
    for (uint32_t i = 0; i < request->asked_count; i++)
        add_part(request, &request->asked[i]);
    return MPB_FETCH_SERVE;
}

static bool is_known(const struct mpb_fetch_part *part)
{
    return part->asked.high_watermark == part->plan.high_watermark && part->asked.log_start == part->plan.log_start;
}

void mpb_fetch_session_choose(struct mpb_fetch_turn *turn)
{
    for (uint32_t i = 0; i < turn->request->count; i++) {
        struct mpb_fetch_part *part = &turn->request->parts[i];
        part->told = turn->kind != MPB_FETCH_INCREMENTAL || part->plan.length != 0 || !is_known(part);
    }
}

/* What the client knows now; who gave records goes to the end, so that others have their turn. */
static void write_known(const struct mpb_fetch_turn *turn, uint32_t row, bool turns)
{
    struct mpb_session_partition *out = mpb_session_partitions(turn->core, row);
    for (int gave = 0; gave < 2; gave++)
        for (uint32_t i = 0; i < turn->request->count; i++) {
            struct mpb_fetch_part *part = &turn->request->parts[i];
            if (turns && (part->plan.length != 0) != (gave == 1))
                continue;
            if (!turns && gave == 1)
                return;
            part->asked.high_watermark = part->plan.high_watermark;
            part->asked.log_start = part->plan.log_start;
            *out++ = part->asked;
        }
}

static void create(struct mpb_fetch_turn *turn)
{
    const struct mpb_native_topic *topics[MPB_FETCH_PARTITIONS];
    bool by_id = turn->request->version >= MPB_FETCH_FIRST_BY_ID;
    uint32_t row, count = number_topics(turn->request, topics);
    struct mpb_session_wish wish = {.now_ms = turn->now_ms,
                                    .eviction_ms = MPB_SESSION_EVICTION_MS,
                                    .flags = by_id ? MPB_SESSION_BY_ID : 0,
                                    .topics = count,
                                    .partitions = turn->request->count};
    turn->session_id = mpb_session_create(turn->core, turn->slot, &wish, &row);
    if (turn->session_id == 0)
        return;
    write_all(turn, row, by_id, topics, count);
    write_known(turn, row, false);
    mpb_session_release(turn->core, row);
}

bool mpb_fetch_session_conclude(struct mpb_fetch_turn *turn)
{
    uint32_t row;
    bool changed = false;
    if (turn->kind == MPB_FETCH_FULL)
        create(turn);
    if (turn->kind != MPB_FETCH_INCREMENTAL)
        return true;
    enum mpb_session_found found = mpb_session_hold(turn->core, turn->slot, turn->session_id, &row);
    if (found != MPB_SESSION_HELD) /* if it is gone, the next request will hear of that */
        return found != MPB_SESSION_BUSY;
    struct mpb_fetch_session *session = &turn->core->fetch_sessions[row];
    bool is_mine = session->fill_number == turn->fill_number && session->partitions == turn->request->count;
    for (uint32_t i = 0; i < turn->request->count; i++)
        changed |= turn->request->parts[i].told;
    if (is_mine && changed) {
        session->flags |= MPB_SESSION_ANSWERED;
        write_known(turn, row, true);
    }
    mpb_session_release(turn->core, row);
    return is_mine;
}
