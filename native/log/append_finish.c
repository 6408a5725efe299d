#include "log/append_finish.h"

#include "log/partition_row.h"
#include "log/producer.h"
#include "log/result_cell.h"
#include "log/transaction.h"

void mpb_append_finish(struct mpb_log *log, struct mpb_partition *row)
{
    const struct mpb_intent *intent = &row->intent;
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    if (intent->producer_row != 0 && !mpb_is_marker(intent->batch_kind)) {
        struct mpb_producer_batch batch = {
            .base_offset = intent->base_offset,
            .timestamp_ms = intent->timestamp_ms,
            .first_sequence = intent->first_sequence,
            .last_sequence = intent->last_sequence,
            .last_offset_delta = (int32_t)(intent->last_offset - intent->base_offset),
            .epoch = intent->producer_epoch,
        };
        mpb_producer_keep(log->core, intent->producer_row, &batch, intent->written_ms);
        MPB_CRASH(log->core, "append.producer");
    }
    if (intent->batch_kind != MPB_BATCH_PLAIN) {
        mpb_txn_finish(log->core, intent);
        MPB_CRASH(log->core, "append.transaction");
    }
    struct mpb_append_result result = {
        .base_offset = intent->base_offset,
        .end_offset = intent->last_offset + 1,
        .append_time_ms = intent->append_time_ms,
        .log_start = now->log_start,
        .leader_epoch = now->leader_epoch,
    };
    mpb_step();
    mpb_cell_fill(log->core, (uint32_t)(row - log->core->partitions), intent->entry, intent->cell, intent->fill_number,
                  &result);
    MPB_CRASH(log->core, "append.cell");
    mpb_intent_clear(row);
    MPB_CRASH(log->core, "append.cleared");
}
