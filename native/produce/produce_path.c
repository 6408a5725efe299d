#include "produce/produce_path.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shm/arena.h"
#include "record/crc32c.h"
#include "trace/trace_record.h"

#define FIRST_VERSION 3
#define LAST_VERSION 7
#define VERSION_WITH_LOG_START 5
#define HEADER_BYTES 8 /* key, version, correlation id; the client id follows */
#define NO_FLUSH INT64_MAX

struct part { /* one partition of the request */
    const struct mpb_plain_topic *topic;
    const uint8_t *records;
    size_t batch_len;
    int32_t index;
    bool first_of_topic;
    uint32_t parts_of_topic;
    struct mpb_append_result result;
};

struct plain {
    int16_t version;
    int16_t acks;
    uint32_t count;
    uint32_t topics;
    uint32_t records;
    struct part parts[MPB_PLAIN_PARTITIONS];
};

struct cursor {
    const uint8_t *at;
    size_t left;
};

static const uint8_t *take(struct cursor *c, size_t n)
{
    if (n > c->left)
        return NULL;
    const uint8_t *p = c->at;
    c->at += n;
    c->left -= n;
    return p;
}

static bool take32(struct cursor *c, int32_t *value)
{
    const uint8_t *p = take(c, 4);
    if (p)
        *value = mpb_be32(p);
    return p != NULL;
}

static bool take16(struct cursor *c, int16_t *value)
{
    const uint8_t *p = take(c, 2);
    if (p)
        *value = mpb_be16(p);
    return p != NULL;
}

static uint32_t place_of(const struct mpb_produce_path *path, const uint8_t *name, uint32_t length, uint32_t hash)
{
    uint32_t at = hash & (MPB_PLAIN_TOPICS - 1);
    for (; path->topics[at] != NULL; at = (at + 1) & (MPB_PLAIN_TOPICS - 1))
        if (path->topics[at]->name_length == length && memcmp(path->topics[at]->name, name, length) == 0)
            break;
    return at;
}

void mpb_produce_path_clear(struct mpb_produce_path *path)
{
    for (uint32_t i = 0; i < MPB_PLAIN_TOPICS; i++) {
        if (path->topics[i] == NULL)
            continue;
        free(path->topics[i]->ordinals);
        free(path->topics[i]);
        path->topics[i] = NULL;
    }
    path->topic_count = 0;
}

bool mpb_produce_path_add(struct mpb_produce_path *path, const uint8_t *name, uint32_t name_length,
                          const uint8_t id[16], const uint32_t *ordinals, uint32_t partition_count,
                          const struct mpb_append_options *append, const struct mpb_batch_rules *rules)
{
    if (name_length == 0 || name_length > sizeof path->topics[0]->name || partition_count == 0 ||
        partition_count > MPB_PLAIN_TOPIC_PARTITIONS || append->flush_messages != NO_FLUSH)
        return false;
    uint32_t hash = mpb_crc32c(0, name, name_length);
    uint32_t at = place_of(path, name, name_length, hash);
    if (path->topics[at] != NULL || path->topic_count >= MPB_PLAIN_TOPICS / 2)
        return false;
    struct mpb_plain_topic *topic = calloc(1, sizeof *topic);
    uint32_t *rows = malloc(partition_count * sizeof *rows);
    if (topic == NULL || rows == NULL) {
        free(topic);
        free(rows);
        return false;
    }
    memcpy(rows, ordinals, partition_count * sizeof *rows);
    memcpy(topic->name, name, name_length);
    memcpy(topic->id, id, 16);
    topic->name_length = name_length;
    topic->hash = hash;
    topic->partition_count = partition_count;
    topic->ordinals = rows;
    topic->append = *append;
    topic->rules = *rules;
    path->topics[at] = topic;
    path->topic_count++;
    return true;
}

/* Whether the records are one uncompressed batch that passes the checks made before a partition is looked up. */
static bool plain_records(const struct mpb_plain_topic *topic, const uint8_t *records, size_t length, int16_t version,
                          size_t *batch_len)
{
    bool transactional;
    struct mpb_batch_rules rules = topic->rules;
    rules.produce_version = version;
    return mpb_batch_peek(records, length, &transactional) == 0 && !transactional &&
           mpb_batch_check_request(records, length, &rules, batch_len) == 0 && *batch_len >= MPB_BATCH_HEADER_BYTES &&
           (mpb_be16(records + MPB_BATCH_ATTRIBUTES) & MPB_CODEC_MASK) == MPB_CODEC_NONE;
}

static bool read_partition(struct cursor *c, struct plain *plain, const struct mpb_plain_topic *topic,
                           const struct part *first)
{
    int32_t index, length;
    if (plain->count == MPB_PLAIN_PARTITIONS || !take32(c, &index) || !take32(c, &length) || length < 0)
        return false;
    const uint8_t *records = take(c, (size_t)length);
    if (records == NULL || index < 0 || (uint32_t)index >= topic->partition_count)
        return false;
    for (const struct part *other = first; other < &plain->parts[plain->count]; other++)
        if (other->index == index)
            return false; /* named twice: the last one counts, which the Python handler sees to */
    struct part *part = &plain->parts[plain->count];
    *part = (struct part){.topic = topic, .records = records, .index = index};
    if (!plain_records(topic, records, (size_t)length, plain->version, &part->batch_len))
        return false;
    plain->count++;
    return true;
}

static bool read_topic(struct cursor *c, const struct mpb_produce_path *path, struct plain *plain)
{
    int16_t name_length;
    int32_t partitions;
    if (!take16(c, &name_length) || name_length <= 0)
        return false;
    const uint8_t *name = take(c, (size_t)name_length);
    if (name == NULL || !take32(c, &partitions) || partitions <= 0 || partitions > MPB_PLAIN_PARTITIONS)
        return false;
    uint32_t hash = mpb_crc32c(0, name, (size_t)name_length);
    const struct mpb_plain_topic *topic = path->topics[place_of(path, name, (uint32_t)name_length, hash)];
    if (topic == NULL)
        return false;
    for (uint32_t i = 0; i < plain->count; i++)
        if (plain->parts[i].topic == topic)
            return false; /* a topic in two pieces is answered in one */
    struct part *first = &plain->parts[plain->count];
    for (int32_t i = 0; i < partitions; i++)
        if (!read_partition(c, plain, topic, first))
            return false;
    first->first_of_topic = true;
    first->parts_of_topic = (uint32_t)partitions;
    return true;
}

static bool read_request(const struct mpb_produce_path *path, const uint8_t *frame, size_t length, struct plain *plain)
{
    struct cursor c = {frame, length};
    int16_t client_length, transactional_id;
    int32_t timeout_ms, topics;
    const uint8_t *head = take(&c, HEADER_BYTES);
    if (head == NULL || mpb_be16(head) != 0)
        return false;
    plain->version = mpb_be16(head + 2);
    plain->count = plain->records = 0;
    if (plain->version < FIRST_VERSION || plain->version > LAST_VERSION || !take16(&c, &client_length) ||
        (client_length > 0 && take(&c, (size_t)client_length) == NULL))
        return false;
    if (!take16(&c, &transactional_id) || transactional_id >= 0 || !take16(&c, &plain->acks) || plain->acks < -1 ||
        plain->acks > 1 || !take32(&c, &timeout_ms) || !take32(&c, &topics) || topics <= 0 ||
        topics > MPB_PLAIN_PARTITIONS)
        return false;
    plain->topics = (uint32_t)topics;
    for (int32_t i = 0; i < topics; i++)
        if (!read_topic(&c, path, plain))
            return false;
    return true;
}

static void append_part(struct mpb_produce_path *path, uint32_t entry, uint32_t cell, struct plain *plain,
                        struct part *part, int64_t now_ms)
{
    const struct mpb_plain_topic *topic = part->topic;
    struct mpb_batch_rules rules = topic->rules;
    struct mpb_batch_info info;
    struct mpb_records_info found = {.max_timestamp = MPB_NO_TIMESTAMP};
    uint32_t ordinal = topic->ordinals[part->index];
    rules.produce_version = plain->version;
    rules.now_ms = now_ms;
    int error = mpb_batch_check_append(part->records, part->batch_len, &rules, &info);
    if (error == 0)
        error = mpb_records_check(info.records, info.records_len, &info, &rules, &found);
    if (error != 0) {
        mpb_append_refuse(path->log, ordinal, entry, cell, error, &part->result);
        return;
    }
    plain->records += (uint32_t)info.record_count;
    struct mpb_append_request request = {.ordinal = ordinal,
                                         .entry = entry,
                                         .cell = cell,
                                         .batch = part->records,
                                         .info = &info,
                                         .max_timestamp = found.max_timestamp,
                                         .now_ms = now_ms,
                                         .leader_epoch = -1,
                                         .topic_id = topic->id};
    mpb_append(path->log, &topic->append, &request, &part->result);
}

static uint8_t *put16(uint8_t *p, int16_t v)
{
    mpb_put_be16(p, v);
    return p + 2;
}

static uint8_t *put32(uint8_t *p, int32_t v)
{
    mpb_put_be32(p, v);
    return p + 4;
}

static uint8_t *put64(uint8_t *p, int64_t v)
{
    mpb_put_be64(p, v);
    return p + 8;
}

/* The whole response frame: at most 32 topics of 252 bytes and 32 partitions of 30, which MPB_PLAIN_FRAME_BYTES holds. */
static uint32_t write_response(const struct plain *plain, int32_t correlation_id, uint8_t *frame)
{
    uint8_t *p = put32(put32(frame + 4, correlation_id), (int32_t)plain->topics);
    for (uint32_t i = 0; i < plain->count; i++) {
        const struct part *part = &plain->parts[i];
        if (part->first_of_topic) {
            p = put16(p, (int16_t)part->topic->name_length);
            memcpy(p, part->topic->name, part->topic->name_length);
            p = put32(p + part->topic->name_length, (int32_t)part->parts_of_topic);
        }
        p = put64(put16(put32(p, part->index), part->result.error), part->result.base_offset);
        p = put64(p, part->result.append_time_ms);
        if (plain->version >= VERSION_WITH_LOG_START)
            p = put64(p, part->result.log_start);
    }
    p = put32(p, 0); /* throttle time */
    put32(frame, (int32_t)(p - frame - 4));
    return (uint32_t)(p - frame);
}

static void describe(const struct plain *plain, struct mpb_entry *entry)
{
    struct mpb_trace *trace = mpb_trace_of(entry->trace);
    trace->topic_hash = plain->parts[0].topic->hash;
    trace->nparts = (uint16_t)plain->count;
    trace->aux = plain->records;
    trace->flags |= (uint16_t)(plain->acks & MPB_TF_ACKS);
}

static uint64_t stamp_io(struct mpb_entry *entry) /* 0: it is not traced */
{
    if (mpb_trace_of(entry->trace)->t0_ns == 0)
        return 0;
    uint64_t now_ns = mpb_trace_clock_ns();
    mpb_trace_stamp(entry->trace, MPB_STAGE_IO_DONE, now_ns);
    return now_ns;
}

enum mpb_plain_result mpb_produce_plain(struct mpb_produce_path *path, uint32_t index, int64_t now_ms,
                                        uint8_t frame[MPB_PLAIN_FRAME_BYTES], uint32_t *frame_length, uint32_t *errors)
{
    struct mpb_core *core = path->handler->core;
    struct mpb_entry *entry = &core->entries[index];
    struct plain plain;
    *errors = 0;
    if (mpb_load_acquire(&core->header->metadata_generation) != path->generation || mpb_attempts(entry) != 0 ||
        !read_request(path, mpb_payload(core, entry), entry->payload_length, &plain) ||
        !mpb_cells_ensure(path->handler, index, plain.count))
        return MPB_PLAIN_NOT;
    for (uint32_t i = 0; i < plain.count; i++) {
        append_part(path, index, i, &plain, &plain.parts[i], now_ms);
        if (plain.parts[i].result.error != 0 && (*errors)++ == 0)
            entry->error = plain.parts[i].result.error;
    }
    describe(&plain, entry);
    path->handler->io_done_ns = stamp_io(
        entry); /* the answer is a few dozen bytes: one reading of the clock is enough */
    bool sent = true;
    if (plain.acks == 0) {
        mpb_answer_nothing(path->handler, index, *errors ? MPB_ANSWER_CLOSE : MPB_ANSWER_NONE);
    } else {
        *frame_length = write_response(&plain, entry->correlation_id, frame);
        sent = mpb_answer_bytes(path->handler, index, MPB_ANSWER_INLINE, frame, *frame_length);
    }
    path->handler->io_done_ns = 0;
    return sent ? MPB_PLAIN_ANSWERED : MPB_PLAIN_NO_ROOM;
}

bool mpb_produce_serve(void *opaque, uint32_t index)
{
    struct mpb_produce_path *path = opaque;
    uint32_t errors;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    enum mpb_plain_result result = mpb_produce_plain(path, index, now_ms, path->frame, &path->frame_length, &errors);
    if (errors != 0)
        mpb_count(path->handler->core, path->handler->slot, path->errors_counter, errors);
    path->frame_entry = result == MPB_PLAIN_NO_ROOM ? index : UINT32_MAX;
    return result == MPB_PLAIN_ANSWERED;
}
