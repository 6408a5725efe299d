#include "log/txn_verify.h"

#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/producer_room.h"
#include "log/transaction.h"

#define ROOM_ROUNDS 8

/* With the lock held: what becomes of the row's verified epoch or guard. */
typedef int change(int16_t *verified, int16_t to, int16_t guard);

static int change_locked(struct mpb_log *log, uint32_t ordinal, int64_t producer_id, change *make, int16_t *to,
                         int16_t guard)
{
    if (mpb_partition_in_force(&log->core->partitions[ordinal])->role != MPB_ROLE_LEADER)
        return MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    uint32_t at = mpb_producer_row(log, ordinal, producer_id, true);
    if (at == 0)
        return MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
    struct mpb_producer *producer = &log->core->producers[at - 1];
    struct mpb_txn_epochs epochs = mpb_txn_epochs_of(producer);
    int error = make(&epochs.verified, *to, guard);
    if (error == 0)
        mpb_txn_store_epochs(producer, epochs);
    *to = epochs.verified;
    return error;
}

static int change_row(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t producer_id, change *make,
                      int16_t *to, int16_t guard)
{
    for (int i = 0; i < ROOM_ROUNDS; i++) {
        int error = mpb_partition_lock_usable(log, ordinal, topic_id);
        if (error != 0)
            return error;
        error = change_locked(log, ordinal, producer_id, make, to, guard);
        mpb_partition_unlock(log, ordinal);
        if (error != MPB_ERR_THROTTLING_QUOTA_EXCEEDED)
            return error;
        if (!mpb_producers_make_room(log))
            break;
    }
    mpb_log_count(log, MPB_C_LOG_PRODUCERS_FULL, 1);
    return MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
}

static int set_verified(int16_t *verified, int16_t to, int16_t guard)
{
    if (guard < MPB_NO_GUARD && *verified != guard && *verified != to)
        return MPB_ERR_INVALID_TXN_STATE;
    *verified = to;
    return 0;
}

static int set_guard(int16_t *verified, int16_t to, int16_t epoch)
{
    *verified = *verified < MPB_NO_GUARD || *verified == epoch ? *verified : to;
    return 0;
}

int mpb_txn_verify(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t producer_id, int16_t epoch,
                   int16_t guard)
{
    return change_row(log, ordinal, topic_id, producer_id, set_verified, &epoch, guard);
}

int mpb_txn_guard(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t producer_id, int16_t epoch,
                  int16_t guard, int16_t *in_force)
{
    *in_force = guard;
    return change_row(log, ordinal, topic_id, producer_id, set_guard, in_force, epoch);
}
