#include "replication/steady_frames.h"

#include "record/frame_writer.h"

enum { FETCH_KEY = 1, FETCH_VERSION = 17, REPLICA_STATE_TAG = 1, REPLICA_STATE_BYTES = 13, LAST_EPOCH = INT32_MAX };

/* ------------------------------------------------------------------ the answer */
/* Partitions come in the session's order most often: looked for from behind the last one on. */
static struct mpb_steady_partition *find(struct mpb_steady_session *session, uint32_t *at, const uint8_t *topic_id,
                                         int32_t partition)
{
    for (uint32_t i = 0; i < session->count; i++) {
        struct mpb_steady_partition *one = &session->partitions[(*at + i) % session->count];
        if (one->partition == partition && memcmp(one->topic_id, topic_id, sizeof one->topic_id) == 0) {
            *at += i + 1;
            return one;
        }
    }
    return NULL;
}

/* A length or count that is there; a cursor of a flexible version. */
static bool take_count(struct mpb_cursor *c, uint32_t *count)
{
    return mpb_take_length(c, true, count) && *count != MPB_ABSENT;
}

static bool take_no_tags(struct mpb_cursor *c)
{
    uint32_t count = 0;
    return mpb_take_varint(c, &count) && count == 0;
}

static bool take_head(struct mpb_cursor *c, const struct mpb_steady_session *session)
{
    int32_t correlation_id, throttle_ms, session_id;
    int16_t error;
    return mpb_take32(c, &correlation_id) && take_no_tags(c) && mpb_take32(c, &throttle_ms) && mpb_take16(c, &error) &&
           mpb_take32(c, &session_id) && correlation_id == session->correlation_id && error == 0 &&
           session_id == session->session_id;
}

/* No aborted transactions are named to a follower. */
static bool take_part(struct mpb_cursor *c, int32_t *partition, struct mpb_steady_part *part)
{
    int64_t last_stable;
    int32_t preferred;
    int16_t error;
    uint32_t aborted;
    if (!mpb_take32(c, partition) || !mpb_take16(c, &error) || error != 0 || !mpb_take64(c, &part->high_watermark) ||
        !mpb_take64(c, &last_stable) || !mpb_take64(c, &part->log_start) || !mpb_take_length(c, true, &aborted) ||
        (aborted != 0 && aborted != MPB_ABSENT) || !mpb_take32(c, &preferred) ||
        !mpb_take_length(c, true, &part->length))
        return false;
    if (part->length == MPB_ABSENT)
        part->length = 0;
    part->records = mpb_take(c, part->length);
    return part->records != NULL && take_no_tags(c);
}

/* The parts of one topic, behind the `count` there are. False: not ordinary. */
static bool take_topic(struct mpb_cursor *c, struct mpb_steady_session *session, uint32_t *at,
                       struct mpb_steady_part *parts, uint32_t *count)
{
    uint32_t partitions;
    int32_t number;
    const uint8_t *topic_id = mpb_take(c, 16);
    if (topic_id == NULL || !take_count(c, &partitions))
        return false;
    for (uint32_t i = 0; i < partitions; i++) {
        struct mpb_steady_part part;
        if (!take_part(c, &number, &part))
            return false;
        part.of = find(session, at, topic_id, number);
        if (part.of == NULL || part.of->has_come)
            return false;
        part.of->has_come = true;
        parts[(*count)++] = part; /* each of the session's once: there is room */
    }
    return take_no_tags(c);
}

int mpb_steady_read(struct mpb_steady_session *session, const uint8_t *frame, size_t length,
                    struct mpb_steady_part parts[MPB_STEADY_PARTITIONS])
{
    struct mpb_cursor c = {.at = frame, .left = length, .flexible = true};
    uint32_t topics, count = 0, at = 0;
    if (!take_head(&c, session) || !take_count(&c, &topics))
        return -1;
    for (uint32_t i = 0; i < session->count; i++)
        session->partitions[i].has_come = false;
    for (uint32_t i = 0; i < topics; i++)
        if (!take_topic(&c, session, &at, parts, &count))
            return -1;
    return take_no_tags(&c) && c.left == 0 ? (int)count : -1;
}

/* ------------------------------------------------------------------ the request */
static uint32_t next_untold(const struct mpb_steady_session *session, uint32_t at)
{
    while (at < session->count && !session->partitions[at].untold)
        at++;
    return at;
}

/* How many that are untold follow each other as one topic, from `at` on, which is untold; and where the next one begins. */
static uint32_t untold_of_topic(const struct mpb_steady_session *session, uint32_t at, uint32_t *next)
{
    const uint8_t *topic_id = session->partitions[at].topic_id;
    uint32_t count = 0;
    for (; at < session->count && memcmp(session->partitions[at].topic_id, topic_id, 16) == 0;
         at = next_untold(session, at + 1))
        count++;
    *next = at;
    return count;
}

static void write_head(struct mpb_writer *w, struct mpb_steady_session *session)
{
    session->correlation_id = (int32_t)(((uint32_t)session->correlation_id + 1) & INT32_MAX);
    session->session_epoch = session->session_epoch == LAST_EPOCH ? 1 : session->session_epoch + 1;
    mpb_write16(w, FETCH_KEY);
    mpb_write16(w, FETCH_VERSION);
    mpb_write32(w, session->correlation_id);
    mpb_write16(w, (int16_t)session->client_id_bytes);
    mpb_write_bytes(w, session->client_id, session->client_id_bytes);
    mpb_write_no_tags(w);
    mpb_write32(w, session->max_wait_ms);
    mpb_write32(w, session->min_bytes);
    mpb_write32(w, session->max_bytes);
    mpb_write_bytes(w, (const uint8_t[]){0}, 1); /* isolation: all that is there */
    mpb_write32(w, session->session_id);
    mpb_write32(w, session->session_epoch);
}

static void write_partition(struct mpb_writer *w, const struct mpb_steady_session *session,
                            struct mpb_steady_partition *one)
{
    mpb_write32(w, one->partition);
    mpb_write32(w, one->leader_epoch);
    mpb_write64(w, one->offset);
    mpb_write32(w, one->last_epoch);
    mpb_write64(w, one->log_start);
    mpb_write32(w, session->partition_max_bytes);
    mpb_write_no_tags(w);
    one->untold = false;
}

static void write_replica_state(struct mpb_writer *w, const struct mpb_steady_session *session)
{
    mpb_write_varint(w, 1);
    mpb_write_varint(w, REPLICA_STATE_TAG);
    mpb_write_varint(w, REPLICA_STATE_BYTES);
    mpb_write32(w, session->node_id);
    mpb_write64(w, session->broker_epoch);
    mpb_write_no_tags(w);
}

uint32_t mpb_steady_write(struct mpb_steady_session *session, uint8_t *frame)
{
    struct mpb_writer w = {.frame = frame, .at = 4, .flexible = true};
    uint32_t topics = 0;
    write_head(&w, session);
    for (uint32_t at = next_untold(session, 0); at < session->count; topics++)
        untold_of_topic(session, at, &at);
    mpb_write_count(&w, topics);
    for (uint32_t at = next_untold(session, 0), next; at < session->count; at = next) {
        mpb_write_bytes(&w, session->partitions[at].topic_id, 16);
        mpb_write_count(&w, untold_of_topic(session, at, &next));
        for (; at != next; at = next_untold(session, at + 1))
            write_partition(&w, session, &session->partitions[at]);
        mpb_write_no_tags(&w);
    }
    mpb_write_count(&w, 0);  /* forgotten */
    mpb_write_varint(&w, 1); /* no rack */
    write_replica_state(&w, session);
    mpb_put_be32(frame, (int32_t)(w.at - 4));
    return w.at;
}
