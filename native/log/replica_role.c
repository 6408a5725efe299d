#include "log/replica_role.h"

#include "log/leader_epochs.h"

int mpb_role_refuses(const struct mpb_partition_copy *now, int32_t leader_epoch)
{
    if (now->role != MPB_ROLE_LEADER)
        return MPB_ERR_NOT_LEADER_OR_FOLLOWER;
    if (leader_epoch < 0 || leader_epoch == now->leader_epoch)
        return 0;
    return leader_epoch < now->leader_epoch ? MPB_ERR_FENCED_LEADER_EPOCH : MPB_ERR_UNKNOWN_LEADER_EPOCH;
}

int mpb_replica_place(const struct mpb_core *core, const struct mpb_partition *row,
                      const struct mpb_partition_copy *now, int32_t broker)
{
    const struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    for (int place = 0; replicas != NULL && broker >= 0 && place < MPB_MAX_REPLICAS; place++)
        if (replicas->ids[now->ids_at & 1][place] == broker)
            return place;
    return -1;
}
