/* What this broker is for a partition, leader, follower or nothing yet, and under which epochs: part of the state that the
 * selector commits, so that every append, fetch and truncation meets one role, under the lock. The controller's word comes
 * through the agent; a broker that is alone leads everything, which a row of zeros says. */
#ifndef MPB_REPLICA_ROLE_H
#define MPB_REPLICA_ROLE_H

#include "log/log.h"

/* With the lock held: what an append or a fetch of this leader epoch (-1: any) is refused with; 0: nothing. */
int mpb_role_refuses(const struct mpb_partition_copy *now, int32_t leader_epoch);
static inline bool mpb_is_under_min_isr(const struct mpb_partition_copy *now)
{
    return __builtin_popcount(now->isr) < now->min_isr;
}

/* The place of a broker in the list in force, -1: none. */
int mpb_replica_place(const struct mpb_core *core, const struct mpb_partition *row,
                      const struct mpb_partition_copy *now, int32_t broker);

#endif
