#include "fetch/fetch_request.h"

#include "record/frame_cursor.h"

#define FIRST_VERSION 4
#define LAST_VERSION 17
#define HEADER_BYTES 8 /* key, version, correlation id; the client id follows */
#define CONSUMER (-1)
#define REPLICA_STATE 1 /* tag of the request: a follower says who it is */

/* The name or the id that begins a topic. False: not readable; *topic is NULL for one that is not known. */
static bool take_topic(struct mpb_cursor *c, const struct mpb_native_topics *topics, int16_t version,
                       const struct mpb_native_topic **topic)
{
    if (version >= MPB_FETCH_FIRST_BY_ID) {
        const uint8_t *id = mpb_take(c, 16);
        *topic = id == NULL ? NULL : mpb_native_by_id(topics, id);
        return id != NULL;
    }
    uint32_t length;
    if (!mpb_take_length(c, false, &length) || length == MPB_ABSENT)
        return false;
    const uint8_t *name = mpb_take(c, length);
    *topic = name == NULL ? NULL : mpb_native_by_name(topics, name, length);
    return name != NULL;
}

static bool take_partition(struct mpb_cursor *c, int16_t version, struct mpb_session_partition *asked)
{
    *asked = (struct mpb_session_partition){
        .high_watermark = -1, .log_start = -1, .asked_log_start = -1, .leader_epoch = -1, .last_epoch = -1};
    return mpb_take32(c, &asked->partition) && (version < 9 || mpb_take32(c, &asked->leader_epoch)) &&
           mpb_take64(c, &asked->fetch_offset) && (version < 12 || mpb_take32(c, &asked->last_epoch)) &&
           (version < 5 || mpb_take64(c, &asked->asked_log_start)) && mpb_take32(c, &asked->max_bytes) &&
           mpb_take_tags(c, NULL);
}

static enum mpb_fetch_left read_partition(struct mpb_cursor *c, struct mpb_fetch_request *request,
                                          const struct mpb_native_topic *topic, uint32_t first)
{
    if (request->asked_count == MPB_FETCH_PARTITIONS)
        return MPB_FETCH_LEFT_PARTITIONS;
    struct mpb_fetch_asked *part = &request->asked[request->asked_count];
    if (!take_partition(c, request->version, &part->asked))
        return MPB_FETCH_LEFT_FRAME;
    if (part->asked.partition < 0 || (uint32_t)part->asked.partition >= topic->partition_count)
        return MPB_FETCH_LEFT_PARTITIONS;
    if (part->asked.max_bytes < 0)
        return MPB_FETCH_LEFT_FRAME;
    for (uint32_t i = first; i < request->asked_count; i++)
        if (request->asked[i].asked.partition == part->asked.partition)
            return MPB_FETCH_LEFT_PARTITIONS;
    part->topic = topic;
    request->asked_count++;
    return MPB_FETCH_SERVE;
}

static enum mpb_fetch_left read_topic(struct mpb_cursor *c, const struct mpb_native_topics *topics,
                                      struct mpb_fetch_request *request)
{
    const struct mpb_native_topic *topic;
    uint32_t partitions, first = request->asked_count;
    if (!take_topic(c, topics, request->version, &topic) || !mpb_take_length(c, true, &partitions))
        return MPB_FETCH_LEFT_FRAME;
    if (topic == NULL)
        return MPB_FETCH_LEFT_TOPIC;
    if (partitions == 0 || partitions > MPB_FETCH_PARTITIONS)
        return MPB_FETCH_LEFT_PARTITIONS;
    for (uint32_t i = 0; i < first; i++)
        if (request->asked[i].topic == topic)
            return MPB_FETCH_LEFT_PARTITIONS;
    for (uint32_t i = 0; i < partitions; i++) {
        enum mpb_fetch_left left = read_partition(c, request, topic, first);
        if (left != MPB_FETCH_SERVE)
            return left;
    }
    return mpb_take_tags(c, NULL) ? MPB_FETCH_SERVE : MPB_FETCH_LEFT_FRAME;
}

static enum mpb_fetch_left read_forgotten(struct mpb_cursor *c, const struct mpb_native_topics *topics,
                                          struct mpb_fetch_request *request)
{
    const struct mpb_native_topic *topic;
    uint32_t partitions;
    if (!take_topic(c, topics, request->version, &topic) || !mpb_take_length(c, true, &partitions))
        return MPB_FETCH_LEFT_FRAME;
    if (topic == NULL)
        return MPB_FETCH_LEFT_TOPIC;
    if (partitions > MPB_FETCH_PARTITIONS - request->forgotten_count)
        return MPB_FETCH_LEFT_PARTITIONS;
    for (uint32_t i = 0; i < partitions; i++) {
        struct mpb_fetch_asked *gone = &request->forgotten[request->forgotten_count++];
        gone->topic = topic;
        if (!mpb_take32(c, &gone->asked.partition))
            return MPB_FETCH_LEFT_FRAME;
    }
    return mpb_take_tags(c, NULL) ? MPB_FETCH_SERVE : MPB_FETCH_LEFT_FRAME;
}

/* From behind the correlation id to the array of topics. */
static enum mpb_fetch_left read_head(struct mpb_cursor *c, struct mpb_fetch_request *request, uint32_t *topics)
{
    int16_t client_length;
    int32_t replica = CONSUMER;
    if (!mpb_take16(c, &client_length) || client_length < -1 ||
        (client_length > 0 && mpb_take(c, (size_t)client_length) == NULL) || !mpb_take_tags(c, NULL) ||
        (request->version < 15 && !mpb_take32(c, &replica)) || !mpb_take32(c, &request->max_wait_ms) ||
        !mpb_take32(c, &request->min_bytes) || !mpb_take32(c, &request->max_bytes) ||
        !mpb_take8(c, &request->isolation))
        return MPB_FETCH_LEFT_FRAME;
    request->session_id = 0;
    request->session_epoch = -1;
    if (request->version >= MPB_FETCH_FIRST_SESSION &&
        (!mpb_take32(c, &request->session_id) || !mpb_take32(c, &request->session_epoch)))
        return MPB_FETCH_LEFT_FRAME;
    if (!mpb_take_length(c, true, topics) || *topics == MPB_ABSENT || replica != CONSUMER || request->isolation < 0 ||
        request->isolation > 1 || request->max_bytes < 0)
        return MPB_FETCH_LEFT_FRAME;
    return *topics > MPB_FETCH_PARTITIONS ? MPB_FETCH_LEFT_PARTITIONS : MPB_FETCH_SERVE;
}

/* Who follows, if that is the only tag. */
static bool take_replica_state(struct mpb_cursor *c, struct mpb_fetch_request *request)
{
    uint32_t tags, tag, bytes;
    return mpb_take_varint(c, &tags) && tags == 1 && mpb_take_varint(c, &tag) && tag == REPLICA_STATE &&
           mpb_take_varint(c, &bytes) && mpb_take32(c, &request->replica) && mpb_take64(c, &request->replica_epoch) &&
           mpb_take_tags(c, NULL) && c->left == 0 && request->replica >= CONSUMER;
}

/* From behind the topics to the end. */
static enum mpb_fetch_left read_tail(struct mpb_cursor *c, const struct mpb_native_topics *topics,
                                     struct mpb_fetch_request *request)
{
    uint32_t forgotten = 0, rack, seen = 0;
    enum mpb_fetch_left left = MPB_FETCH_SERVE;
    if (request->version >= MPB_FETCH_FIRST_SESSION &&
        (!mpb_take_length(c, true, &forgotten) || forgotten == MPB_ABSENT))
        return MPB_FETCH_LEFT_FRAME;
    if (forgotten > MPB_FETCH_PARTITIONS)
        return MPB_FETCH_LEFT_PARTITIONS;
    for (uint32_t i = 0; left == MPB_FETCH_SERVE && i < forgotten; i++)
        left = read_forgotten(c, topics, request);
    if (left != MPB_FETCH_SERVE)
        return left;
    if (request->version >= 11 && (!mpb_take_length(c, false, &rack) || rack != 0))
        return MPB_FETCH_LEFT_FRAME; /* a rack: another replica may be nearer */
    struct mpb_cursor tags = *c;
    if (!mpb_take_tags(c, &seen))
        return MPB_FETCH_LEFT_FRAME;
    bool is_read = (seen >> REPLICA_STATE & 1) == 0 || take_replica_state(&tags, request);
    return is_read ? MPB_FETCH_SERVE : MPB_FETCH_LEFT_FRAME;
}

enum mpb_fetch_left mpb_fetch_read(const struct mpb_native_topics *topics, const uint8_t *frame, size_t length,
                                   struct mpb_fetch_request *request)
{
    struct mpb_cursor c = {.at = frame, .left = length};
    uint32_t named;
    const uint8_t *head = mpb_take(&c, HEADER_BYTES);
    if (head == NULL)
        return MPB_FETCH_LEFT_FRAME;
    request->version = mpb_be16(head + 2);
    request->asked_count = request->forgotten_count = request->count = 0;
    request->replica = CONSUMER;
    request->replica_epoch = -1;
    if (request->version < FIRST_VERSION || request->version > LAST_VERSION)
        return MPB_FETCH_LEFT_FRAME;
    c.flexible = request->version >= MPB_FETCH_FIRST_FLEXIBLE;
    enum mpb_fetch_left left = read_head(&c, request, &named);
    for (uint32_t i = 0; left == MPB_FETCH_SERVE && i < named; i++)
        left = read_topic(&c, topics, request);
    return left == MPB_FETCH_SERVE ? read_tail(&c, topics, request) : left;
}
