#include "produce/produce_request.h"

#include <string.h>

#include "record/crc32c.h"
#include "record/frame_cursor.h"

#define FIRST_VERSION 3
#define LAST_VERSION 13
#define HEADER_BYTES 8 /* key, version, correlation id; the client id follows */

/* A request with a transactional id has the batches of one producer. */
static bool is_of_one_producer(struct mpb_produce_request *request, const uint8_t *batch)
{
    int64_t producer_id = mpb_be64(batch + MPB_BATCH_PRODUCER_ID);
    int16_t epoch = mpb_be16(batch + MPB_BATCH_PRODUCER_EPOCH);
    if (!request->transactional)
        return false;
    if (producer_id >= 0 && request->producer_id < 0) {
        request->producer_id = producer_id;
        request->producer_epoch = epoch;
    }
    return producer_id < 0 || (producer_id == request->producer_id && epoch == request->producer_epoch);
}

/* Whether the records are one batch that passes the checks made before a partition is looked up. */
static enum mpb_left look_at_batch(struct mpb_produce_request *request, const struct mpb_native_topic *topic,
                                   const uint8_t *records, size_t length, size_t *batch_len)
{
    bool transactional;
    struct mpb_batch_rules rules = topic->rules;
    rules.produce_version = request->version;
    if (mpb_batch_peek(records, length, &transactional) != 0)
        return MPB_LEFT_BATCH;
    bool fits = mpb_batch_check_request(records, length, &rules, batch_len) == 0;
    if (!fits || *batch_len < MPB_BATCH_HEADER_BYTES)
        return MPB_LEFT_BATCH;
    return transactional && !is_of_one_producer(request, records) ? MPB_LEFT_TRANSACTION : MPB_SERVE;
}

static enum mpb_left read_partition(struct mpb_cursor *c, struct mpb_produce_request *request,
                                    const struct mpb_native_topic *topic, const struct mpb_produce_part *first)
{
    int32_t index;
    uint32_t length;
    if (request->count == MPB_NATIVE_PARTITIONS)
        return MPB_LEFT_PARTITIONS;
    if (!mpb_take32(c, &index) || !mpb_take_length(c, true, &length))
        return MPB_LEFT_FRAME;
    if (length == MPB_ABSENT)
        return MPB_LEFT_BATCH;
    const uint8_t *records = mpb_take(c, length);
    if (records == NULL || !mpb_take_tags(c, NULL))
        return MPB_LEFT_FRAME;
    if (index < 0 || (uint32_t)index >= topic->partition_count)
        return MPB_LEFT_PARTITIONS;
    for (const struct mpb_produce_part *other = first; other < &request->parts[request->count]; other++)
        if (other->index == index)
            return MPB_LEFT_PARTITIONS; /* named twice: the last one counts, which the Python handler sees to */
    struct mpb_produce_part *part = &request->parts[request->count];
    part->topic = topic;
    part->records = records;
    part->index = index;
    enum mpb_left left = look_at_batch(request, topic, records, length, &part->batch_len);
    if (left != MPB_SERVE)
        return left;
    int32_t last_delta = mpb_be32(records + MPB_BATCH_LAST_OFFSET_DELTA);
    request->records += last_delta >= 0 ? (uint64_t)last_delta + 1 : 0;
    request->count++;
    return MPB_SERVE;
}

/* The name or the id that begins a topic. NULL: not readable; *topic is NULL for one that is not known. */
static bool take_topic(struct mpb_cursor *c, const struct mpb_native_topics *topics, int16_t version,
                       const struct mpb_native_topic **topic)
{
    if (version >= MPB_PRODUCE_FIRST_BY_ID) {
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

static enum mpb_left read_topic(struct mpb_cursor *c, const struct mpb_native_topics *topics,
                                struct mpb_produce_request *request)
{
    const struct mpb_native_topic *topic;
    uint32_t partitions;
    if (!take_topic(c, topics, request->version, &topic) || !mpb_take_length(c, true, &partitions))
        return MPB_LEFT_FRAME;
    if (topic == NULL || !topic->produces)
        return MPB_LEFT_TOPIC;
    if (partitions == 0 || partitions == MPB_ABSENT)
        return MPB_LEFT_FRAME;
    if (partitions > MPB_NATIVE_PARTITIONS)
        return MPB_LEFT_PARTITIONS;
    for (uint32_t i = 0; i < request->count; i++)
        if (request->parts[i].topic == topic)
            return MPB_LEFT_PARTITIONS; /* a topic in two pieces is answered in one */
    struct mpb_produce_part *first = &request->parts[request->count];
    for (uint32_t i = 0; i < partitions; i++) {
        enum mpb_left left = read_partition(c, request, topic, first);
        if (left != MPB_SERVE)
            return left;
    }
    first->parts_of_topic = partitions;
    return mpb_take_tags(c, NULL) ? MPB_SERVE : MPB_LEFT_FRAME;
}

/* From behind the correlation id to the array of topics. */
static enum mpb_left read_head(struct mpb_cursor *c, struct mpb_produce_request *request, uint32_t *topics)
{
    int16_t client_length;
    uint32_t transactional_id;
    if (!mpb_take16(c, &client_length) || client_length < -1 ||
        (client_length > 0 && mpb_take(c, (size_t)client_length) == NULL) || !mpb_take_tags(c, NULL) ||
        !mpb_take_length(c, false, &transactional_id) ||
        (transactional_id != MPB_ABSENT && mpb_take(c, transactional_id) == NULL))
        return MPB_LEFT_FRAME;
    request->transactional = transactional_id != MPB_ABSENT;
    request->producer_id = -1;
    if (!mpb_take16(c, &request->acks) || request->acks < -1 || request->acks > 1 ||
        !mpb_take32(c, &request->timeout_ms) || !mpb_take_length(c, true, topics) || *topics == 0 ||
        *topics == MPB_ABSENT)
        return MPB_LEFT_FRAME;
    return *topics > MPB_NATIVE_PARTITIONS ? MPB_LEFT_PARTITIONS : MPB_SERVE;
}

enum mpb_left mpb_produce_read(const struct mpb_native_topics *topics, const uint8_t *frame, size_t length,
                               struct mpb_produce_request *request)
{
    struct mpb_cursor c = {.at = frame, .left = length};
    const uint8_t *head = mpb_take(&c, HEADER_BYTES);
    if (head == NULL)
        return MPB_LEFT_FRAME;
    request->version = mpb_be16(head + 2);
    request->count = 0;
    request->records = 0;
    if (request->version < FIRST_VERSION || request->version > LAST_VERSION)
        return MPB_LEFT_FRAME;
    c.flexible = request->version >= MPB_PRODUCE_FIRST_FLEXIBLE;
    enum mpb_left left = read_head(&c, request, &request->topics);
    for (uint32_t i = 0; left == MPB_SERVE && i < request->topics; i++)
        left = read_topic(&c, topics, request);
    return left == MPB_SERVE && !mpb_take_tags(&c, NULL) ? MPB_LEFT_FRAME : left;
}
