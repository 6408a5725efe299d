#include "log/append_write.h"

#include <string.h>

#include "log/log_io.h"
#include "log/partition_row.h"
#include "log/producer.h"
#include "log/roll.h"
#include "log/segment.h"
#include "log/txn_index.h"

#define ONE_WRITE_BYTES 8192 /* up to here a copy costs less than the second part of a gather write */

void mpb_append_write_intent(struct mpb_log *log, struct mpb_partition *row, const struct mpb_append_write *write)
{
    const struct mpb_batch_info *info = write->info;
    struct mpb_intent *intent = &row->intent;
    intent->fill_number = write->fill_number;
    intent->entry = write->entry;
    intent->cell = write->cell;
    mpb_step();
    MPB_CRASH(log->core, "append.intent_half"); /* the target is still the last one's, which was committed */
    intent->target = mpb_load_relaxed(&row->selector) + 1;
    intent->base_offset = write->base_offset;
    intent->position = mpb_partition_in_force(row)->position;
    intent->length = info->batch_bytes;
    intent->producer_row = write->producer_row;
    intent->producer_id = info->producer_id;
    intent->producer_epoch = info->producer_epoch;
    intent->batch_kind = (uint16_t)write->plan.kind;
    intent->coordinator_epoch = write->coordinator_epoch;
    intent->first_sequence = info->base_sequence;
    intent->last_sequence = mpb_last_sequence(info->base_sequence, info->record_count);
    intent->last_offset = write->base_offset + info->last_offset_delta;
    intent->timestamp_ms = write->max_timestamp;
    intent->append_time_ms = write->append_time_ms;
    intent->written_ms = write->now_ms;
    mpb_intent_set(log, row, MPB_INTENT_APPEND);
    MPB_CRASH(log->core, "append.intent");
}

/* Append rule 8: base offset and leader epoch go into a copy of the header, never into the request's bytes. */
static int write_batch(int fd, const uint8_t header[MPB_BATCH_HEADER_BYTES], const uint8_t *batch, size_t length,
                       uint64_t position)
{
    const uint8_t *rest = batch + MPB_BATCH_HEADER_BYTES;
    size_t rest_length = length - MPB_BATCH_HEADER_BYTES;
    if (length > ONE_WRITE_BYTES)
        return mpb_io_write_two(fd, header, MPB_BATCH_HEADER_BYTES, rest, rest_length, position);
    uint8_t whole[ONE_WRITE_BYTES];
    memcpy(whole, header, MPB_BATCH_HEADER_BYTES);
    memcpy(whole + MPB_BATCH_HEADER_BYTES, rest, rest_length);
    return mpb_io_write(fd, whole, length, position);
}

/* Before the commit: what is in the index counts only up to the length that the commit names. */
static int index_abort(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_append_write *write,
                       struct mpb_partition_copy *next)
{
    const struct mpb_txn_plan *plan = &write->plan;
    struct mpb_aborted aborted = {
        .producer_id = write->info->producer_id, .first_offset = plan->first, .last_offset = write->base_offset};
    aborted.last_stable = plan->others > 0 ? plan->others_first : write->base_offset + 1;
    int error = mpb_txn_index_append(log, row, next, &aborted);
    if (error == 0)
        MPB_CRASH(log->core, "append.abort_indexed");
    return error;
}

int mpb_append_write_files(struct mpb_log *log, const struct mpb_partition *row,
                           const struct mpb_append_options *options, const struct mpb_append_write *write,
                           struct mpb_partition_copy *next)
{
    const struct mpb_batch_info *info = write->info;
    int64_t last_offset = write->base_offset + info->last_offset_delta;
    int fd = mpb_segment_fd(log, row, next, next->active_base, MPB_FILE_LOG);
    if (fd < 0)
        return fd;
    int error = write_batch(fd, write->header, write->batch, info->batch_bytes, next->position);
    if (error != 0)
        return error;
    MPB_CRASH(log->core, "append.log_written");
    if (next->position == 0)
        next->first_timestamp = write->max_timestamp;
    if (write->max_timestamp > next->max_timestamp) {
        next->max_timestamp = write->max_timestamp;
        next->max_timestamp_offset = write->max_timestamp_offset;
    }
    if (next->bytes_since_index > (uint32_t)options->index_interval_bytes) {
        error = mpb_segment_index(log, row, next, last_offset, (uint32_t)next->position);
        if (error != 0)
            return error;
        next->bytes_since_index = 0;
        MPB_CRASH(log->core, "append.index_written");
    }
    if (write->plan.kind == MPB_BATCH_ABORT && write->plan.first >= 0) {
        error = index_abort(log, row, write, next);
        if (error != 0)
            return error;
    }
    next->bytes_since_index += info->batch_bytes;
    next->position += info->batch_bytes;
    next->log_bytes += info->batch_bytes;
    next->bytes_in += info->batch_bytes;
    next->records_in += (uint32_t)info->record_count;
    next->leo = last_offset + 1;
    return 0;
}
