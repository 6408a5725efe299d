#include "produce/serve_produce.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "produce/produce_answer.h"
#include "produce/produce_request.h"
#include "record/lz4.h"
#include "shm/arena.h"
#include "trace/trace_record.h"

#define PRODUCE_KEY 0
#define VERSION_WITH_RECORD_ERRORS 8

static const enum mpb_counter LEFT_COUNTERS[MPB_LEFT_REASONS] = {
    [MPB_LEFT_FRAME] = MPB_C_PRODUCE_LEFT_FRAME, [MPB_LEFT_TRANSACTION] = MPB_C_PRODUCE_LEFT_TRANSACTION,
    [MPB_LEFT_TOPIC] = MPB_C_PRODUCE_LEFT_TOPIC, [MPB_LEFT_PARTITIONS] = MPB_C_PRODUCE_LEFT_PARTITIONS,
    [MPB_LEFT_BATCH] = MPB_C_PRODUCE_LEFT_BATCH, [MPB_LEFT_RECORDS] = MPB_C_PRODUCE_LEFT_RECORDS,
    [MPB_LEFT_RERUN] = MPB_C_PRODUCE_LEFT_RERUN, [MPB_LEFT_MEMORY] = MPB_C_PRODUCE_LEFT_MEMORY,
    [MPB_LEFT_BUSY] = MPB_C_PRODUCE_LEFT_BUSY,   [MPB_LEFT_WAITS] = MPB_C_PRODUCE_LEFT_WAITS,
};

/* Whether the records of a batch are decompressed now. A frame that is damaged is read once more by Python, which says
 * how. The memory stays: what a batch does not need of it is never touched. */
static bool unpack(struct mpb_native_produce *native, const struct mpb_batch_info *info, size_t *length)
{
    if (info->codec != MPB_CODEC_LZ4)
        return false;
    if (native->unpacked == NULL && (native->unpacked = malloc(MPB_UNPACKED_BYTES)) == NULL)
        return false;
    int64_t written = mpb_lz4_read(info->records, info->records_len, native->unpacked, MPB_UNPACKED_BYTES);
    if (written < 0)
        return false; /* `length` still says how long the frame is */
    *length = (size_t)written;
    return true;
}

/* The records of a batch whose header is good. MPB_SERVE with the part's error set or 0, or why it is left to Python. */
static enum mpb_left check_records(struct mpb_native_produce *native, struct mpb_produce_part *part,
                                   const struct mpb_batch_rules *rules, struct mpb_records_info *found)
{
    const uint8_t *records = part->info.records;
    size_t length = part->info.records_len;
    const struct mpb_decompressor *d = &native->decompressor;
    if (part->info.codec == MPB_CODEC_NONE) {
        part->error = mpb_records_check(records, length, &part->info, rules, found);
        return MPB_SERVE;
    }
    if (d->decompress == NULL)
        return MPB_LEFT_BATCH;
    if (unpack(native, &part->info, &length)) {
        part->error = mpb_records_check(native->unpacked, length, &part->info, rules, found);
        return MPB_SERVE;
    }
    int error = d->decompress(d->with, part->info.codec, records, length, rules->max_message_bytes, &records, &length);
    if (error == MPB_DECOMPRESS_FAILED)
        return MPB_LEFT_MEMORY;
    part->error = error != 0 ? error : mpb_records_check(records, length, &part->info, rules, found);
    d->release(d->with);
    return MPB_SERVE;
}

static enum mpb_left check_part(struct mpb_native_produce *native, const struct mpb_produce_request *asked,
                                struct mpb_produce_part *part, int64_t now_ms)
{
    struct mpb_batch_rules rules = part->topic->rules;
    struct mpb_records_info found = {.max_timestamp = MPB_NO_TIMESTAMP, .bad_record = -1};
    rules.now_ms = now_ms;
    part->error = mpb_batch_check_append(part->records, part->batch_len, &rules, &part->info);
    if (part->error != 0)
        return MPB_SERVE;
    enum mpb_left left = check_records(native, part, &rules, &found);
    part->max_timestamp = found.max_timestamp;
    bool named = part->error == MPB_ERR_INVALID_RECORD || part->error == MPB_ERR_INVALID_TIMESTAMP;
    if (left == MPB_SERVE && named && found.bad_record >= 0 && asked->version >= VERSION_WITH_RECORD_ERRORS)
        return MPB_LEFT_RECORDS;
    return left;
}

static void append_part(struct mpb_native_produce *native, uint32_t entry, uint32_t cell, struct mpb_produce_part *part,
                        int16_t acks, int64_t now_ms)
{
    const struct mpb_native_topic *topic = part->topic;
    struct mpb_append_request request = {.ordinal = topic->ordinals[part->index],
                                         .entry = entry,
                                         .cell = cell,
                                         .batch = part->records,
                                         .info = &part->info,
                                         .max_timestamp = part->max_timestamp,
                                         .now_ms = now_ms,
                                         .leader_epoch = -1,
                                         .topic_id = topic->id,
                                         .acks = acks};
    if (part->error == 0)
        mpb_append(native->log, &topic->append, &request, &part->result);
    else
        mpb_append_refuse(native->log, &request, part->error, &part->result);
}

static void describe(const struct mpb_produce_request *asked, struct mpb_entry *entry)
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
#define SOME_UNVERIFIED (UINT32_MAX - 1)
#define SOME_WAIT (UINT32_MAX - 2)

/* Returns the number of partitions in error; the first error goes to the trace. SOME_BUSY: a partition's lock is not to
 * be had now; SOME_UNVERIFIED: one knows nothing of the batch's transaction; SOME_WAIT: one is not to be acknowledged
 * yet. What was done is in the cells. */
static uint32_t append_all(struct mpb_native_produce *native, uint32_t index, struct mpb_produce_request *asked,
                           int64_t now_ms)
{
    struct mpb_entry *entry = &native->handler->core->entries[index];
    uint32_t errors = 0;
    int16_t first_error = 0;
    bool busy = false, unverified = false, waits = false;
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct mpb_append_result *result = &asked->parts[i].result;
        append_part(native, index, i, &asked->parts[i], asked->acks, now_ms);
        busy |= result->busy;
        unverified |= result->unverified;
        waits |= result->waits;
        if (result->error != 0 && errors++ == 0)
            first_error = result->error;
    }
    if (busy || unverified || waits)
        return busy ? SOME_BUSY : unverified ? SOME_UNVERIFIED : SOME_WAIT;
    if (errors != 0) {
        entry->error = first_error;
        mpb_count(native->handler->core, native->handler->slot, native->errors_counter, errors);
    }
    return errors;
}

/* Everything that may leave the request to Python: no effect on a log comes before the end of it. */
static enum mpb_left prepare(struct mpb_native_produce *native, uint32_t index, struct mpb_produce_request *asked,
                             int64_t now_ms, uint8_t **answer)
{
    struct mpb_handler *handler = native->handler;
    struct mpb_entry *entry = &handler->core->entries[index];
    if (mpb_attempts(entry) != 0) /* what the coordinator gave back may be served: its cells say what is done */
        return MPB_LEFT_RERUN;
    if (mpb_load_acquire(&handler->core->header->metadata_generation) != native->generation)
        return MPB_LEFT_TOPIC;
    enum mpb_left left = mpb_produce_read(&native->topics, mpb_payload(handler->core, entry), entry->payload_length,
                                          asked);
    for (uint32_t i = 0; left == MPB_SERVE && i < asked->count; i++)
        left = check_part(native, asked, &asked->parts[i], now_ms);
    if (left != MPB_SERVE)
        return left;
    if (!mpb_cells_ensure(handler, index, asked->count))
        return MPB_LEFT_MEMORY;
    if (asked->acks == 0)
        return MPB_SERVE;
    *answer = mpb_answer_reserve(handler, index, mpb_produce_answer_bytes(asked));
    return *answer == NULL ? MPB_LEFT_MEMORY : MPB_SERVE;
}

bool mpb_serve_produce(void *opaque, uint32_t index)
{
    struct mpb_native_produce *native = opaque;
    struct mpb_handler *handler = native->handler;
    struct mpb_core *core = handler->core;
    struct mpb_entry *entry = &core->entries[index];
    struct mpb_produce_request asked;
    uint8_t *answer = NULL;
    if (entry->api_key != PRODUCE_KEY)
        return false;
    int64_t now_ms = wall_clock_ms(native);
    enum mpb_left left = prepare(native, index, &asked, now_ms, &answer);
    uint32_t errors = left == MPB_SERVE ? append_all(native, index, &asked, now_ms) : 0;
    if (errors >= SOME_WAIT)
        mpb_answer_unreserve(handler, index);
    if (errors == SOME_WAIT && native->parks) {
        describe(&asked, entry);
        stamp_io(entry);
        if (mpb_produce_wait(&native->waiting, index, &asked))
            return true;
    }
    if (errors >= SOME_WAIT) { /* the Python handler can let it wait, as it does a second run */
        left = errors == SOME_BUSY ? MPB_LEFT_BUSY : errors == SOME_WAIT ? MPB_LEFT_WAITS : MPB_LEFT_TRANSACTION;
    }
    if (left != MPB_SERVE) {
        mpb_count(core, handler->slot, LEFT_COUNTERS[left], 1);
        return false;
    }
    describe(&asked, entry);
    handler->io_done_ns = stamp_io(entry);
    if (asked.acks == 0)
        mpb_answer_nothing(handler, index, errors != 0 ? MPB_ANSWER_CLOSE : MPB_ANSWER_NONE);
    else
        mpb_answer_reserved(handler, index, mpb_produce_answer(&asked, entry->correlation_id, answer));
    handler->io_done_ns = 0;
    native->served++;
    mpb_count(core, handler->slot, MPB_C_PRODUCE_NATIVE, 1);
    return true;
}
