#include "log/become.h"

#include <string.h>

#include "log/isr.h"
#include "log/leader_epochs.h"
#include "log/partition_lock.h"

static int place_in(const int32_t *ids, uint32_t count, int32_t broker)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == broker)
            return (int)i;
    return -1;
}

/* Into the list that is not in force, unless the one in force says the same. */
static void write_ids(struct mpb_replicas *replicas, const struct mpb_new_role *role, struct mpb_partition_copy *next)
{
    int32_t ids[MPB_MAX_REPLICAS];
    for (uint32_t i = 0; i < MPB_MAX_REPLICAS; i++)
        ids[i] = i < role->replica_count ? role->replicas[i] : -1;
    if (memcmp(ids, replicas->ids[next->ids_at & 1], sizeof ids) == 0)
        return;
    next->ids_at ^= 1;
    memcpy(replicas->ids[next->ids_at & 1], ids, sizeof ids);
    mpb_step();
}

/* The ISR as places. -1: somebody in it has no replica. */
static int places_of(const struct mpb_new_role *role)
{
    int places = 0;
    for (uint32_t i = 0; i < role->isr_count; i++) {
        int place = place_in(role->replicas, role->replica_count, role->isr[i]);
        if (place < 0)
            return -1;
        places |= 1 << place;
    }
    return places;
}

static int check(const struct mpb_new_role *role, const struct mpb_partition_copy *now)
{
    if (role->replica_count == 0 || role->leader_epoch < 0 ||
        place_in(role->replicas, role->replica_count, role->self) < 0 || places_of(role) < 0)
        return MPB_ERR_INVALID_REQUEST;
    bool same = role->leader_epoch == now->leader_epoch && now->role != MPB_ROLE_NONE;
    if (role->leader_epoch < now->leader_epoch || (same && role->role != now->role))
        return MPB_ERR_FENCED_LEADER_EPOCH;
    return 0;
}

static bool take_role(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_new_role *role,
                      struct mpb_partition_copy *next)
{
    struct mpb_replicas *replicas = mpb_replicas_of(log->core, row);
    bool leads = role->role == MPB_ROLE_LEADER;
    if (leads && !mpb_epochs_begin(log->core, row, next, role->leader_epoch, next->leo))
        return false;
    write_ids(replicas, role, next);
    replicas->led_since_ms = role->now_ms;
    mpb_step();
    if (leads && next->role != MPB_ROLE_LEADER)
        next->leader_since = role->leader_epoch;
    next->role = (uint8_t)role->role;
    next->self = (uint8_t)place_in(role->replicas, role->replica_count, role->self);
    next->leader = leads ? role->self : role->leader;
    next->leader_epoch = role->leader_epoch;
    next->partition_epoch = role->partition_epoch;
    next->isr = next->maximal_isr = leads ? (uint16_t)places_of(role) : 0;
    next->epoch_start = leads ? next->leo : 0;
    return true;
}

static int become_locked(struct mpb_log *log, struct mpb_partition *row, const struct mpb_new_role *role)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    int error = check(role, &next);
    if (error != 0)
        return error;
    bool again = next.role == role->role && next.leader_epoch == role->leader_epoch;
    if (!again && !take_role(log, row, role, &next))
        return MPB_ERR_REQUEST_TIMED_OUT;
    uint32_t least = role->min_isr < 1 ? 1 : (uint32_t)role->min_isr;
    next.min_isr = (uint8_t)(least < role->replica_count ? least : role->replica_count);
    mpb_isr_raise_high_watermark(log->core, row, &next);
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "become.committed");
    return 0;
}

int mpb_become(struct mpb_log *log, uint32_t ordinal, const struct mpb_new_role *role)
{
    if (log->core->replica_count == 0)
        return MPB_ERR_INVALID_REQUEST;
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error;
    error = become_locked(log, &log->core->partitions[ordinal], role);
    mpb_partition_unlock(log, ordinal);
    if (error == 0)
        mpb_partition_moved(log, ordinal);
    return error;
}

int mpb_stop(struct mpb_log *log, uint32_t ordinal)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error;
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    next.role = MPB_ROLE_NONE;
    next.isr = next.maximal_isr = 0;
    next.leader = -1;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    mpb_partition_unlock(log, ordinal);
    mpb_partition_moved(log, ordinal);
    return 0;
}

int mpb_load_epochs(struct mpb_log *log, uint32_t ordinal, const struct mpb_epoch_start *epochs, uint32_t count)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    struct mpb_replicas *replicas = mpb_replicas_of(log->core, row);
    int error = replicas == NULL ? MPB_ERR_INVALID_REQUEST : mpb_partition_lock(log, ordinal);
    if (error != 0)
        return error;
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    mpb_replicas_forget(log->core, row);
    uint32_t low = count > MPB_KEPT_EPOCHS ? count - MPB_KEPT_EPOCHS : 0;
    for (uint32_t i = low; i < count; i++)
        replicas->epoch[i % MPB_KEPT_EPOCHS] = (struct mpb_epoch_start){
            .offset = epochs[i].offset, .epoch = epochs[i].epoch, .is_written = 1};
    mpb_store_relaxed(&replicas->epochs_low, low);
    next.epochs = count;
    next.role = MPB_ROLE_NONE;
    next.leader = -1;
    next.isr = next.maximal_isr = 0;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    mpb_partition_unlock(log, ordinal);
    return 0;
}
