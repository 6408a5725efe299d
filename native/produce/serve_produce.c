#include "produce/serve_produce.h"

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
    const struct mpb_native_topic *topic;
    const uint8_t *records;
    size_t batch_len;
    int32_t index;
    bool first_of_topic;
    uint32_t parts_of_topic;
    struct mpb_append_result result;
};

struct produce {
    int16_t version;
    int16_t acks;
    uint32_t count;
    uint32_t topics;
    uint64_t records; /* sent, as the batches say */
    struct part parts[MPB_NATIVE_PARTITIONS];
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

static uint32_t place_of(const struct mpb_native_produce *native, const uint8_t *name, uint32_t length, uint32_t hash)
{
    uint32_t at = hash & (MPB_NATIVE_TOPICS - 1);
    for (; native->topics[at] != NULL; at = (at + 1) & (MPB_NATIVE_TOPICS - 1))
        if (native->topics[at]->name_length == length && memcmp(native->topics[at]->name, name, length) == 0)
            break;
    return at;
}

void mpb_native_forget(struct mpb_native_produce *native)
{
    for (uint32_t i = 0; i < MPB_NATIVE_TOPICS; i++) {
        if (native->topics[i] == NULL)
            continue;
        free(native->topics[i]->ordinals);
        free(native->topics[i]);
        native->topics[i] = NULL;
    }
    native->topic_count = 0;
}

bool mpb_native_add(struct mpb_native_produce *native, const uint8_t *name, uint32_t name_length, const uint8_t id[16],
                    const uint32_t *ordinals, uint32_t partition_count, const struct mpb_append_options *append,
                    const struct mpb_batch_rules *rules)
{
    if (name_length == 0 || name_length > sizeof native->topics[0]->name || partition_count == 0 ||
        partition_count > MPB_NATIVE_TOPIC_PARTITIONS || append->flush_messages != NO_FLUSH || !append->sole_replica)
        return false;
    uint32_t hash = mpb_crc32c(0, name, name_length);
    uint32_t at = place_of(native, name, name_length, hash);
    if (native->topics[at] != NULL || native->topic_count >= MPB_NATIVE_TOPICS / 2)
        return false;
    struct mpb_native_topic *topic = calloc(1, sizeof *topic);
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
    native->topics[at] = topic;
    native->topic_count++;
    return true;
}

/* Whether the records are one uncompressed batch that passes the checks made before a partition is looked up. */
static bool native_records(const struct mpb_native_topic *topic, const uint8_t *records, size_t length, int16_t version,
                           size_t *batch_len)
{
    bool transactional;
    struct mpb_batch_rules rules = topic->rules;
    rules.produce_version = version;
    return mpb_batch_peek(records, length, &transactional) == 0 && !transactional &&
           mpb_batch_check_request(records, length, &rules, batch_len) == 0 && *batch_len >= MPB_BATCH_HEADER_BYTES &&
           (mpb_be16(records + MPB_BATCH_ATTRIBUTES) & MPB_CODEC_MASK) == MPB_CODEC_NONE;
}

static bool read_partition(struct cursor *c, struct produce *asked, const struct mpb_native_topic *topic,
                           const struct part *first)
{
    int32_t index, length;
    if (asked->count == MPB_NATIVE_PARTITIONS || !take32(c, &index) || !take32(c, &length) || length < 0)
        return false;
    const uint8_t *records = take(c, (size_t)length);
    if (records == NULL || index < 0 || (uint32_t)index >= topic->partition_count)
        return false;
    for (const struct part *other = first; other < &asked->parts[asked->count]; other++)
        if (other->index == index)
            return false; /* named twice: the last one counts, which the Python handler sees to */
    struct part *part = &asked->parts[asked->count];
    *part = (struct part){.topic = topic, .records = records, .index = index};
    if (!native_records(topic, records, (size_t)length, asked->version, &part->batch_len))
        return false;
    int32_t last_delta = mpb_be32(records + MPB_BATCH_LAST_OFFSET_DELTA);
    asked->records += last_delta >= 0 ? (uint64_t)last_delta + 1 : 0;
    asked->count++;
    return true;
}

static bool read_topic(struct cursor *c, const struct mpb_native_produce *native, struct produce *asked)
{
    int16_t name_length;
    int32_t partitions;
    if (!take16(c, &name_length) || name_length <= 0)
        return false;
    const uint8_t *name = take(c, (size_t)name_length);
    if (name == NULL || !take32(c, &partitions) || partitions <= 0 || partitions > MPB_NATIVE_PARTITIONS)
        return false;
    uint32_t hash = mpb_crc32c(0, name, (size_t)name_length);
    const struct mpb_native_topic *topic = native->topics[place_of(native, name, (uint32_t)name_length, hash)];
    if (topic == NULL)
        return false;
    for (uint32_t i = 0; i < asked->count; i++)
        if (asked->parts[i].topic == topic)
            return false; /* a topic in two pieces is answered in one */
    struct part *first = &asked->parts[asked->count];
    for (int32_t i = 0; i < partitions; i++)
        if (!read_partition(c, asked, topic, first))
            return false;
    first->first_of_topic = true;
    first->parts_of_topic = (uint32_t)partitions;
    return true;
}

static bool read_request(const struct mpb_native_produce *native, const uint8_t *frame, size_t length,
                         struct produce *asked)
{
    struct cursor c = {frame, length};
    int16_t client_length, transactional_id;
    int32_t timeout_ms, topics;
    const uint8_t *head = take(&c, HEADER_BYTES);
    if (head == NULL || mpb_be16(head) != 0)
        return false;
    asked->version = mpb_be16(head + 2);
    asked->count = 0;
    asked->records = 0;
    if (asked->version < FIRST_VERSION || asked->version > LAST_VERSION || !take16(&c, &client_length) ||
        (client_length > 0 && take(&c, (size_t)client_length) == NULL))
        return false;
    if (!take16(&c, &transactional_id) || transactional_id >= 0 || !take16(&c, &asked->acks) || asked->acks < -1 ||
        asked->acks > 1 || !take32(&c, &timeout_ms) || !take32(&c, &topics) || topics <= 0 ||
        topics > MPB_NATIVE_PARTITIONS)
        return false;
    asked->topics = (uint32_t)topics;
    for (int32_t i = 0; i < topics; i++)
        if (!read_topic(&c, native, asked))
            return false;
    return true;
}

static void append_part(struct mpb_native_produce *native, uint32_t entry, uint32_t cell, struct produce *asked,
                        struct part *part, int64_t now_ms)
{
    const struct mpb_native_topic *topic = part->topic;
    struct mpb_batch_rules rules = topic->rules;
    struct mpb_batch_info info;
    struct mpb_records_info found = {.max_timestamp = MPB_NO_TIMESTAMP};
    struct mpb_append_request request = {.ordinal = topic->ordinals[part->index],
                                         .entry = entry,
                                         .cell = cell,
                                         .batch = part->records,
                                         .info = &info,
                                         .now_ms = now_ms,
                                         .leader_epoch = -1,
                                         .topic_id = topic->id};
    rules.produce_version = asked->version;
    rules.now_ms = now_ms;
    int error = mpb_batch_check_append(part->records, part->batch_len, &rules, &info);
    if (error == 0)
        error = mpb_records_check(info.records, info.records_len, &info, &rules, &found);
    request.max_timestamp = found.max_timestamp;
    if (error == 0)
        mpb_append(native->log, &topic->append, &request, &part->result);
    else
        mpb_append_refuse(native->log, &request, error, &part->result);
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

#define RESPONSE_BYTES 16u  /* length, correlation id, number of topics, throttle time */
#define TOPIC_BYTES 6u      /* length of the name, number of partitions */
#define PARTITION_BYTES 22u /* without the log start */
#define LOG_START_BYTES 8u

/* The length of the response frame. */
static uint32_t response_bytes(const struct produce *asked)
{
    uint32_t log_start = asked->version >= VERSION_WITH_LOG_START ? LOG_START_BYTES : 0;
    uint32_t bytes = RESPONSE_BYTES + asked->count * (PARTITION_BYTES + log_start);
    for (uint32_t i = 0; i < asked->count; i++)
        bytes += asked->parts[i].first_of_topic ? TOPIC_BYTES + asked->parts[i].topic->name_length : 0;
    return bytes;
}

/* The whole response frame; returns its length. */
static uint32_t write_response(const struct produce *asked, int32_t correlation_id, uint8_t *frame)
{
    uint8_t *p = put32(put32(frame + 4, correlation_id), (int32_t)asked->topics);
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct part *part = &asked->parts[i];
        if (part->first_of_topic) {
            p = put16(p, (int16_t)part->topic->name_length);
            memcpy(p, part->topic->name, part->topic->name_length);
            p = put32(p + part->topic->name_length, (int32_t)part->parts_of_topic);
        }
        p = put64(put16(put32(p, part->index), part->result.error), part->result.base_offset);
        p = put64(p, part->result.append_time_ms);
        if (asked->version >= VERSION_WITH_LOG_START)
            p = put64(p, part->result.log_start);
    }
    p = put32(p, 0); /* throttle time */
    put32(frame, (int32_t)(p - frame - 4));
    return (uint32_t)(p - frame);
}

static void describe(const struct produce *asked, struct mpb_entry *entry)
{
    struct mpb_trace *trace = mpb_trace_of(entry->trace);
    trace->topic_hash = asked->parts[0].topic->hash;
    trace->nparts = (uint16_t)asked->count;
    trace->aux = (uint32_t)(asked->records > UINT32_MAX ? UINT32_MAX : asked->records);
    trace->flags |= (uint16_t)(asked->acks & MPB_TF_ACKS);
}

/* The answer is a few dozen bytes: one reading of the clock for both is enough. 0: it is not traced. */
static uint64_t stamp_io(struct mpb_entry *entry)
{
    if (mpb_trace_of(entry->trace)->t0_ns == 0)
        return 0;
    uint64_t now_ns = mpb_trace_clock_ns();
    mpb_trace_stamp(entry->trace, MPB_STAGE_IO_DONE, now_ns);
    return now_ns;
}

static int64_t wall_clock_ms(const struct mpb_native_produce *native)
{
    struct timespec now;
    if (native->now_ms >= 0)
        return native->now_ms;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define SOME_BUSY UINT32_MAX

/* Returns the number of partitions in error; the first error goes to the trace. SOME_BUSY: a partition's lock is not to
 * be had now; what was done to the others is in their cells. */
static uint32_t append_all(struct mpb_native_produce *native, uint32_t index, struct produce *asked)
{
    struct mpb_entry *entry = &native->handler->core->entries[index];
    int64_t now_ms = wall_clock_ms(native);
    uint32_t errors = 0;
    int32_t first_error = 0;
    bool busy = false;
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct mpb_append_result *result = &asked->parts[i].result;
        append_part(native, index, i, asked, &asked->parts[i], now_ms);
        busy |= result->busy;
        if (result->error != 0 && errors++ == 0)
            first_error = result->error;
    }
    if (busy)
        return SOME_BUSY;
    if (errors != 0) {
        entry->error = first_error;
        mpb_count(native->handler->core, native->handler->slot, native->errors_counter, errors);
    }
    return errors;
}

bool mpb_serve_produce(void *opaque, uint32_t index)
{
    struct mpb_native_produce *native = opaque;
    struct mpb_handler *handler = native->handler;
    struct mpb_core *core = handler->core;
    struct mpb_entry *entry = &core->entries[index];
    struct produce asked;
    uint8_t *answer = NULL;
    if (mpb_load_acquire(&core->header->metadata_generation) != native->generation || mpb_attempts(entry) != 0 ||
        !read_request(native, mpb_payload(core, entry), entry->payload_length, &asked) ||
        !mpb_cells_ensure(handler, index, asked.count))
        return false;
    if (asked.acks != 0 && (answer = mpb_answer_reserve(handler, index, response_bytes(&asked))) == NULL)
        return false;
    uint32_t errors = append_all(native, index, &asked);
    if (errors == SOME_BUSY) { /* the Python handler can let it wait, as it does a second run */
        mpb_answer_unreserve(handler, index);
        return false;
    }
    describe(&asked, entry);
    handler->io_done_ns = stamp_io(entry);
    if (asked.acks == 0)
        mpb_answer_nothing(handler, index, errors != 0 ? MPB_ANSWER_CLOSE : MPB_ANSWER_NONE);
    else
        mpb_answer_reserved(handler, index, write_response(&asked, entry->correlation_id, answer));
    handler->io_done_ns = 0;
    native->served++;
    return true;
}
