#include "log/append.h"

#include <string.h>

#include "log/append_finish.h"
#include "log/append_write.h"
#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/producer_room.h"
#include "log/repair.h"
#include "log/replica_role.h"
#include "log/roll.h"
#include "log/transaction.h"

#define ROOM_ROUNDS 8

static int append_locked(struct mpb_log *log, struct mpb_partition *row, const struct mpb_append_options *options,
                         const struct mpb_append_request *request, uint64_t fill_number,
                         uint8_t header[MPB_BATCH_HEADER_BYTES], struct mpb_append_result *out)
{
    const struct mpb_batch_info *info = request->info;
    struct mpb_append_write write;
    int64_t max_timestamp = options->log_append_time                       ? request->now_ms
                            : request->max_timestamp != MPB_RECORDS_UNSEEN ? request->max_timestamp
                                                                           : info->max_timestamp;
    if (mpb_roll_is_due(mpb_partition_in_force(row), options, info, max_timestamp, request->now_ms)) {
        int error = mpb_roll_locked(log, row, request->now_ms);
        if (error != 0)
            return error;
    }
    write.producer_row = 0;
    if (info->producer_id >= 0) {
        write.producer_row = mpb_producer_row(log, request->ordinal, info->producer_id, true);
        if (write.producer_row == 0)
            return MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
    }
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    out->base_offset = next.leo;
    write.batch = request->batch;
    write.header = header;
    write.info = info;
    write.base_offset = next.leo;
    write.max_timestamp = max_timestamp;
    write.max_timestamp_offset = next.leo + info->last_offset_delta;
    write.append_time_ms = out->append_time_ms;
    write.now_ms = request->now_ms;
    write.fill_number = fill_number;
    write.entry = request->entry;
    write.cell = request->cell;
    write.coordinator_epoch = request->coordinator_epoch;
    write.plan.kind = request->marker != MPB_BATCH_PLAIN ? request->marker : mpb_txn_kind(info);
    if (write.plan.kind != MPB_BATCH_PLAIN)
        mpb_txn_look(log->core, row, write.producer_row, &write.plan);
    mpb_append_write_intent(log, row, &write);
    mpb_put_be64(header + MPB_BATCH_BASE_OFFSET, next.leo); /* append rule 8: never into the request's bytes */
    mpb_put_be32(header + MPB_BATCH_LEADER_EPOCH, next.leader_epoch);
    int error = mpb_append_write_files(log, row, options, &write, &next);
    if (error != 0) { /* append rule 4: the same repair as after a death */
        int answer = mpb_log_io_error(log, row, error);
        mpb_repair(log, row);
        return answer;
    }
    if ((next.maximal_isr & ~(1u << next.self)) == 0 && !mpb_is_under_min_isr(&next)) /* nobody else to wait for */
        next.hw = next.leo;
    mpb_txn_move(log->core, row, &write.plan, &next);
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "append.committed");
    mpb_append_finish(log, row);
    out->end_offset = next.leo;
    out->waits = request->acks < 0 && next.hw < next.leo;
    out->flush_due = next.leo - (int64_t)mpb_load_relaxed(&row->flushed_offset) >= options->flush_messages;
    mpb_log_count(log, MPB_C_LOG_APPENDS, 1);
    mpb_log_count(log, MPB_C_LOG_APPEND_BYTES, info->batch_bytes);
    return 0;
}

/* Last of all: what is in the log already is acknowledged on a full disk, too. */
static bool has_no_room(struct mpb_log *log, const struct mpb_partition *row, struct mpb_append_result *out)
{
    if (mpb_log_takes_own_appends(log, row->log_dir))
        return false;
    out->error = MPB_ERR_KAFKA_STORAGE_ERROR;
    mpb_log_count(log, MPB_C_LOG_APPENDS_REFUSED, 1);
    return true;
}

/* The first leader epoch since which this broker leads: the controller of a cluster raises the epoch at every change of the
 * ISR, which deposes nobody. */
static int32_t led_since(const struct mpb_core *core, const struct mpb_partition_copy *now)
{
    return core->replica_count != 0 ? now->leader_since : now->leader_epoch;
}

/* Everything that can refuse a batch or answer it without writing. Returns true when `out` is the answer. */
static bool decide_without_writing(struct mpb_log *log, struct mpb_partition *row,
                                   const struct mpb_append_options *options, const struct mpb_append_request *request,
                                   struct mpb_append_result *out)
{
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    struct mpb_producer_check check;
    out->log_start = now->log_start;
    out->leader_epoch = now->leader_epoch;
    out->error = (int16_t)mpb_partition_usable(log->core, row, request->topic_id);
    bool deposed = request->leader_epoch >= 0 &&
                   (request->leader_epoch > now->leader_epoch || request->leader_epoch < led_since(log->core, now));
    if (out->error == 0 && (now->role != MPB_ROLE_LEADER || deposed))
        out->error = MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    if (out->error == 0 && request->acks < 0 && mpb_is_under_min_isr(now))
        out->error = MPB_ERR_NOT_ENOUGH_REPLICAS;
    bool is_marker = mpb_is_marker(request->marker);
    if (out->error == 0 && request->info->batch_bytes > (uint32_t)options->segment_bytes && !is_marker)
        out->error = MPB_ERR_RECORD_LIST_TOO_LARGE;
    if (out->error != 0)
        return true;
    if (request->info->producer_id < 0)
        return has_no_room(log, row, out);
    check.duplicate = false;
    if (is_marker)
        out->error = (int16_t)mpb_txn_check_marker(log->core, row, request->info, request->coordinator_epoch);
    else if (mpb_txn_kind(request->info) != MPB_BATCH_PLAIN)
        out->error = (int16_t)mpb_txn_check_batch(log->core, row, request->info, &out->unverified);
    if (out->error == 0 && !is_marker)
        out->error = (int16_t)mpb_producer_check(log->core, row, request->info, options->by_coordinator, &check);
    if (out->error == 0 && check.duplicate) {
        out->duplicate = true;
        out->append_time_ms = check.original.timestamp_ms; /* told for every kind of topic, as Kafka does */
        out->base_offset = check.original.base_offset;
        out->end_offset = check.original.base_offset + check.original.last_offset_delta + 1;
        out->waits = request->acks < 0 && now->hw < out->end_offset;
        mpb_log_count(log, MPB_C_LOG_DUPLICATES, 1);
    }
    return out->error != 0 || check.duplicate || has_no_room(log, row, out);
}

static void no_offsets(struct mpb_append_result *out) { out->base_offset = out->end_offset = out->append_time_ms = -1; }

static void no_result(struct mpb_append_result *out)
{
    memset(out, 0, sizeof *out);
    no_offsets(out);
    out->log_start = out->leader_epoch = -1;
}

/* False: `out` says why not. */
static bool lock(struct mpb_log *log, uint32_t ordinal, struct mpb_append_result *out)
{
    out->error = (int16_t)mpb_partition_lock(log, ordinal);
    out->busy = out->error == MPB_ERR_REQUEST_TIMED_OUT;
    return out->error == 0;
}

void mpb_append_refuse(struct mpb_log *log, const struct mpb_append_request *request, int error,
                       struct mpb_append_result *out)
{
    struct mpb_core *core = log->core;
    const struct mpb_partition *row = &core->partitions[request->ordinal];
    uint64_t fill_number = mpb_entry_fill_number(core, request->entry);
    no_result(out);
    if (!lock(log, request->ordinal, out))
        return;
    if (!mpb_cell_read(core, request->entry, request->cell, fill_number, out)) {
        int unusable = mpb_partition_usable(core, row, request->topic_id); /* Kafka looks for the partition first */
        out->error = (int16_t)(unusable != 0 ? unusable : error);
        if (mpb_error_tells_log_start(out->error) && !mpb_error_is_of_verification(out->error))
            out->log_start = mpb_partition_in_force(row)->log_start;
        mpb_cell_fill(core, request->ordinal, request->entry, request->cell, fill_number, out);
    }
    mpb_partition_unlock(log, request->ordinal);
}

void mpb_append_not_synced(struct mpb_log *log, const struct mpb_append_request *request, int error,
                           struct mpb_append_result *out)
{
    no_result(out);
    out->error = (int16_t)error;
    if (mpb_partition_lock(log, request->ordinal) != 0)
        return;
    mpb_cell_fail(log->core, request->entry, request->cell, mpb_entry_fill_number(log->core, request->entry), error);
    mpb_partition_unlock(log, request->ordinal);
}

/* Returns false with nothing answered if it needs a row for a new producer and there is none: the caller looks for one
 * without the lock. `last`: then that is the answer. */
static bool try_append(struct mpb_log *log, const struct mpb_append_options *options,
                       const struct mpb_append_request *request, uint64_t fill_number, bool last,
                       struct mpb_append_result *out)
{
    struct mpb_core *core = log->core;
    struct mpb_partition *row = &core->partitions[request->ordinal];
    uint8_t header[MPB_BATCH_HEADER_BYTES];
    no_result(out);
    out->append_time_ms = options->log_append_time ? request->now_ms : -1;
    mpb_batch_patch_header(request->batch, request->info->batch_bytes, header, 0, 0, out->append_time_ms);
    if (!options->log_append_time && request->max_timestamp != MPB_RECORDS_UNSEEN)
        mpb_batch_patch_timestamp(request->batch, request->info->batch_bytes, header, false, request->max_timestamp);
    if (!lock(log, request->ordinal, out))
        return true;
    MPB_CRASH(core, "append.locked");
    if (mpb_cell_read(core, request->entry, request->cell, fill_number,
                      out)) { /* append rule 2: only after lock and repair */
        out->waits = request->acks < 0 && out->error == 0;
        mpb_log_count(log, MPB_C_LOG_REPLAYS, 1);
        mpb_partition_unlock(log, request->ordinal);
        return true;
    }
    bool decided = decide_without_writing(log, row, options, request, out);
    if (out->unverified) { /* no answer yet: the cell stays empty */
        no_offsets(out);
        mpb_partition_unlock(log, request->ordinal);
        return true;
    }
    if (!decided)
        out->error = (int16_t)append_locked(log, row, options, request, fill_number, header, out);
    bool full = !decided && out->error == MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
    if (full && !last) {
        mpb_partition_unlock(log, request->ordinal);
        return false;
    }
    mpb_log_count(log, MPB_C_LOG_PRODUCERS_FULL, full);
    if (out->error != 0)
        no_offsets(out);
    if (!mpb_error_tells_log_start(out->error))
        out->log_start = -1;
    if (decided || out->error != 0)
        mpb_cell_fill(core, request->ordinal, request->entry, request->cell, fill_number, out);
    mpb_partition_unlock(log, request->ordinal);
    MPB_CRASH(core, "append.unlocked");
    if (!decided && out->error == 0 && out->waits)
        mpb_partition_appended(log, request->ordinal);
    else if (!decided && out->error == 0)
        mpb_partition_moved(log, request->ordinal);
    return true;
}

void mpb_append(struct mpb_log *log, const struct mpb_append_options *options, const struct mpb_append_request *request,
                struct mpb_append_result *out)
{
    uint64_t fill_number = mpb_entry_fill_number(log->core, request->entry);
    bool done = try_append(log, options, request, fill_number, mpb_producers_have_no_room(log), out);
    for (int i = 1; !done; i++) { /* another one may be quicker and take the row that was freed */
        bool last = i == ROOM_ROUNDS || !mpb_producers_make_room(log);
        done = try_append(log, options, request, fill_number, last, out);
    }
}
