#include "log/txn_verify.h"

#include "log/partition_lock.h"
#include "log/producer.h"
#include "log/producer_room.h"
#include "log/transaction.h"

#define ROOM_ROUNDS 8

int mpb_txn_verify(struct mpb_log *log, uint32_t ordinal, const uint8_t *topic_id, int64_t producer_id, int16_t epoch)
{
    for (int i = 0; i < ROOM_ROUNDS; i++) {
        int error = mpb_partition_lock_usable(log, ordinal, topic_id);
        if (error != 0)
            return error;
        if (mpb_partition_in_force(&log->core->partitions[ordinal])->role != MPB_ROLE_LEADER) {
            mpb_partition_unlock(log, ordinal);
            return MPB_ERR_NOT_LEADER_OR_FOLLOWER;
        }
        uint32_t at = mpb_producer_row(log, ordinal, producer_id, true);
        if (at != 0) {
            struct mpb_producer *producer = &log->core->producers[at - 1];
            struct mpb_txn_epochs epochs = mpb_txn_epochs_of(producer);
            epochs.verified = epoch;
            mpb_txn_store_epochs(producer, epochs);
        }
        mpb_partition_unlock(log, ordinal);
        if (at != 0)
            return 0;
        if (!mpb_producers_make_room(log))
            break;
    }
    mpb_log_count(log, MPB_C_LOG_PRODUCERS_FULL, 1);
    return MPB_ERR_THROTTLING_QUOTA_EXCEEDED;
}
