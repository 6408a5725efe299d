#include "produce/produce_answer.h"

#include <string.h>

#include "record/uvarint.h"

#define VERSION_WITH_LOG_START 5
#define VERSION_WITH_RECORD_ERRORS 8

struct writer {
    uint8_t *frame;
    uint32_t at;
    bool flexible;
};

static void put16(struct writer *w, int16_t value)
{
    mpb_put_be16(w->frame + w->at, value);
    w->at += 2;
}

static void put32(struct writer *w, int32_t value)
{
    mpb_put_be32(w->frame + w->at, value);
    w->at += 4;
}

static void put64(struct writer *w, int64_t value)
{
    mpb_put_be64(w->frame + w->at, value);
    w->at += 8;
}

static void put_bytes(struct writer *w, const uint8_t *bytes, uint32_t length)
{
    memcpy(w->frame + w->at, bytes, length);
    w->at += length;
}

static void put_varint(struct writer *w, uint32_t value)
{
    w->at += (uint32_t)mpb_put_uvarint(w->frame + w->at, value);
}

static void put_count(struct writer *w, uint32_t count)
{
    if (w->flexible)
        put_varint(w, count + 1);
    else
        put32(w, (int32_t)count);
}

static void put_name(struct writer *w, const struct mpb_native_topic *topic)
{
    if (w->flexible)
        put_varint(w, topic->name_length + 1);
    else
        put16(w, (int16_t)topic->name_length);
    put_bytes(w, topic->name, topic->name_length);
}

static void put_no_tags(struct writer *w)
{
    if (w->flexible)
        put_varint(w, 0);
}

/* An answer that has to say more (records, a leader) is Python's. */
static void put_part(struct writer *w, int16_t version, const struct mpb_produce_part *part)
{
    put32(w, part->index);
    put16(w, part->result.error);
    put64(w, part->result.base_offset);
    put64(w, part->result.append_time_ms);
    if (version >= VERSION_WITH_LOG_START)
        put64(w, part->result.log_start);
    if (version >= VERSION_WITH_RECORD_ERRORS) {
        put_count(w, 0);
        if (w->flexible)
            put_varint(w, 0); /* no message */
        else
            put16(w, -1);
    }
    put_no_tags(w);
}

static uint32_t count_bytes(bool flexible, uint32_t count)
{
    return flexible ? (uint32_t)mpb_uvarint_bytes(count + 1) : 4;
}

static uint32_t part_bytes(int16_t version, bool flexible)
{
    uint32_t bytes = 4 + 2 + 8 + 8 + (flexible ? 1 : 0);
    if (version >= VERSION_WITH_LOG_START)
        bytes += 8;
    if (version >= VERSION_WITH_RECORD_ERRORS)
        bytes += flexible ? 1 + 1 : 4 + 2;
    return bytes;
}

static uint32_t topic_bytes(int16_t version, bool flexible, const struct mpb_produce_part *first)
{
    uint32_t length = first->topic->name_length, tags = flexible ? 1 : 0;
    uint32_t name = flexible ? (uint32_t)mpb_uvarint_bytes(length + 1) + length : 2 + length;
    return (version >= MPB_PRODUCE_FIRST_BY_ID ? 16 : name) + count_bytes(flexible, first->parts_of_topic) + tags;
}

uint32_t mpb_produce_answer_bytes(const struct mpb_produce_request *request)
{
    bool flexible = request->version >= MPB_PRODUCE_FIRST_FLEXIBLE;
    uint32_t bytes = 4 + 4 + 4 +
                     (flexible ? 2 : 0); /* length, correlation id, throttle time; tags behind two of them */
    bytes += count_bytes(flexible, request->topics) + request->count * part_bytes(request->version, flexible);
    for (uint32_t i = 0; i < request->count; i += request->parts[i].parts_of_topic)
        bytes += topic_bytes(request->version, flexible, &request->parts[i]);
    return bytes;
}

uint32_t mpb_produce_answer(const struct mpb_produce_request *request, int32_t correlation_id, uint8_t *frame)
{
    struct writer w = {.frame = frame, .at = 4, .flexible = request->version >= MPB_PRODUCE_FIRST_FLEXIBLE};
    put32(&w, correlation_id);
    put_no_tags(&w);
    put_count(&w, request->topics);
    for (uint32_t i = 0; i < request->count;) {
        const struct mpb_produce_part *first = &request->parts[i];
        if (request->version >= MPB_PRODUCE_FIRST_BY_ID)
            put_bytes(&w, first->topic->id, 16);
        else
            put_name(&w, first->topic);
        put_count(&w, first->parts_of_topic);
        for (uint32_t end = i + first->parts_of_topic; i < end; i++)
            put_part(&w, request->version, &request->parts[i]);
        put_no_tags(&w);
    }
    put32(&w, 0); /* throttle time */
    put_no_tags(&w);
    mpb_put_be32(frame, (int32_t)(w.at - 4));
    return w.at;
}
