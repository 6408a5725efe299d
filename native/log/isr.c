#include "log/isr.h"

#include "log/partition_lock.h"
#include "log/replica_role.h"
#include "log/transaction.h"

/* proposal: leader epoch 32 | state 16 | places 16 */
static uint64_t proposal_word(int32_t leader_epoch, enum mpb_proposal_state state, uint16_t places)
{
    return (uint64_t)(uint32_t)leader_epoch << 32 | (uint64_t)state << 16 | places;
}

static enum mpb_proposal_state state_of(uint64_t proposal, const struct mpb_partition_copy *now)
{
    if ((int32_t)(proposal >> 32) != now->leader_epoch)
        return MPB_PROPOSAL_NONE;
    return (enum mpb_proposal_state)(proposal >> 16 & 0xffff);
}

static uint64_t tag_of(const struct mpb_partition_copy *now, int32_t broker)
{
    return ((uint64_t)(uint32_t)now->leader_epoch << 32 | (uint32_t)broker) + 1;
}

/* What is known of the replica at a place in this leader epoch; NULL: nothing. */
static struct mpb_replica_place *known(struct mpb_replicas *replicas, const struct mpb_partition_copy *now, int place)
{
    struct mpb_replica_place *at = &replicas->place[place];
    bool counts = mpb_load_acquire(&at->tag) == tag_of(now, replicas->ids[now->ids_at & 1][place]);
    return counts ? at : NULL;
}

void mpb_isr_raise_high_watermark(struct mpb_core *core, const struct mpb_partition *row,
                                  struct mpb_partition_copy *next)
{
    if (next->role != MPB_ROLE_LEADER || mpb_is_under_min_isr(next))
        return;
    int64_t least = next->leo;
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    for (int place = 0; replicas != NULL && place < MPB_MAX_REPLICAS; place++) {
        if (place == next->self || (next->maximal_isr >> place & 1) == 0)
            continue;
        const struct mpb_replica_place *at = known(replicas, next, place);
        if (at == NULL)
            return;
        int64_t leo = (int64_t)mpb_load_acquire(&at->leo);
        least = leo < least ? leo : least;
    }
    if (least <= next->hw)
        return;
    next->hw = least;
    next->lso = mpb_txn_last_stable(core, row, next);
}

/* Times first, the end last; a place that was another's, or of another epoch, says nothing while it is written. */
static void note_position(struct mpb_replicas *replicas, const struct mpb_partition_copy *now, int place,
                          const struct mpb_follower_fetch *fetch)
{
    struct mpb_replica_place *at = &replicas->place[place];
    if (known(replicas, now, place) == NULL) {
        mpb_store_release(&at->tag, 0);
        mpb_step();
        at->caught_up_ms = (now->isr >> place & 1) != 0 ? replicas->led_since_ms : 0;
        at->leader_leo = INT64_MAX;
        mpb_step();
    }
    if (fetch->offset >= now->leo)
        at->caught_up_ms = fetch->now_ms;
    else if (fetch->offset >= at->leader_leo && at->fetched_ms > at->caught_up_ms)
        at->caught_up_ms = at->fetched_ms;
    at->leader_leo = now->leo;
    at->fetched_ms = fetch->now_ms;
    at->log_start = fetch->log_start;
    at->broker_epoch = fetch->broker_epoch;
    mpb_step();
    mpb_store_release(&at->leo, (uint64_t)fetch->offset);
    mpb_step();
    mpb_store_release(&at->tag, tag_of(now, fetch->broker));
    mpb_step();
}

static int refusal(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now,
                   const struct mpb_follower_fetch *fetch, struct mpb_follower_answer *out)
{
    int error = mpb_role_refuses(now, fetch->leader_epoch);
    if (error != 0)
        return error;
    if (mpb_replica_place(log->core, row, now, fetch->broker) < 0 || fetch->broker == now->leader)
        return MPB_ERR_UNKNOWN_LEADER_EPOCH;
    if (fetch->last_epoch >= 0) {
        struct mpb_epoch_end end;
        out->ask_file = !mpb_epochs_end_of(log->core, row, now, fetch->last_epoch, &end);
        if (out->ask_file)
            return 0;
        if (end.offset < 0)
            return MPB_ERR_OFFSET_OUT_OF_RANGE;
        if (end.epoch < fetch->last_epoch || end.offset < fetch->offset) {
            out->diverging = end;
            return 0;
        }
    }
    return fetch->offset < now->log_start || fetch->offset > now->leo ? MPB_ERR_OFFSET_OUT_OF_RANGE : 0;
}

/* Returns whether the end or the ISR in `next` moved, and so must be committed. */
static bool count_position(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_follower_fetch *fetch,
                           struct mpb_partition_copy *next, bool *proposed)
{
    struct mpb_replicas *replicas = mpb_replicas_of(log->core, row);
    int place = mpb_replica_place(log->core, row, next, fetch->broker);
    const int64_t hw = next->hw;
    note_position(replicas, next, place, fetch);
    bool joins = (next->isr >> place & 1) == 0 && fetch->offset >= next->hw && fetch->offset >= next->epoch_start;
    uint64_t proposal = mpb_load_relaxed(&replicas->proposal);
    if (joins && state_of(proposal, next) == MPB_PROPOSAL_NONE) {
        next->maximal_isr = (uint16_t)(next->isr | 1 << place);
        *proposed = true;
    }
    mpb_isr_raise_high_watermark(log->core, row, next);
    return next->hw != hw || *proposed;
}

/* Returns whether the high watermark moved. */
static bool fetched_locked(struct mpb_log *log, struct mpb_partition *row, const struct mpb_follower_fetch *fetch,
                           struct mpb_follower_answer *out)
{
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    const int64_t hw = next.hw;
    out->error = refusal(log, row, &next, fetch, out);
    if (out->error != 0 || out->ask_file || out->diverging.epoch >= 0 || out->diverging.offset >= 0)
        return false;
    if (!count_position(log, row, fetch, &next, &out->proposed))
        return false;
    mpb_partition_write_idle(log->core, row, &next);
    mpb_partition_commit(row);
    MPB_CRASH(log->core, "follower.committed");
    if (out->proposed) /* behind the commit: nothing is proposed that the high watermark does not wait for */
        mpb_store_release(&log->core->replicas[row - log->core->partitions].proposal,
                          proposal_word(next.leader_epoch, MPB_PROPOSAL_PENDING, next.maximal_isr));
    mpb_step();
    return next.hw != hw;
}

void mpb_follower_fetched(struct mpb_log *log, uint32_t ordinal, const struct mpb_follower_fetch *fetch,
                          struct mpb_follower_answer *out)
{
    *out = (struct mpb_follower_answer){.diverging = {MPB_UNDEFINED_EPOCH, -1}};
    out->error = mpb_partition_lock_usable(log, ordinal, fetch->topic_id);
    if (out->error != 0)
        return;
    bool moved = fetched_locked(log, &log->core->partitions[ordinal], fetch, out);
    mpb_partition_unlock(log, ordinal);
    if (moved)
        mpb_partition_moved(log, ordinal);
}

/* Out of sync: not at the leader's end, and for longer than `lag_ms` not caught up with it. */
static uint16_t in_sync(struct mpb_replicas *replicas, const struct mpb_partition_copy *now, int64_t lag_ms,
                        int64_t now_ms)
{
    uint16_t left = now->isr;
    for (int place = 0; place < MPB_MAX_REPLICAS; place++) {
        if (place == now->self || (now->isr >> place & 1) == 0)
            continue;
        const struct mpb_replica_place *at = known(replicas, now, place);
        int64_t caught_up_ms = at != NULL ? at->caught_up_ms : replicas->led_since_ms;
        bool at_end = at != NULL && (int64_t)mpb_load_acquire(&at->leo) == now->leo;
        if (!at_end && now_ms - caught_up_ms > lag_ms)
            left = (uint16_t)(left & ~(1 << place));
    }
    return left;
}

int mpb_isr_shrink(struct mpb_log *log, uint32_t ordinal, int64_t lag_ms, int64_t now_ms)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    struct mpb_replicas *replicas = mpb_replicas_of(log->core, row);
    int error = replicas == NULL ? MPB_ERR_INVALID_REQUEST : mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error;
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    if (now->role == MPB_ROLE_LEADER && state_of(mpb_load_relaxed(&replicas->proposal), now) == MPB_PROPOSAL_NONE) {
        uint16_t left = in_sync(replicas, now, lag_ms, now_ms);
        if (left != now->isr)
            mpb_store_release(&replicas->proposal, proposal_word(now->leader_epoch, MPB_PROPOSAL_PENDING, left));
    }
    mpb_partition_unlock(log, ordinal);
    return 0;
}

int mpb_isr_take_proposal(struct mpb_log *log, uint32_t ordinal, bool again, struct mpb_isr_proposal *out)
{
    struct mpb_partition *row = &log->core->partitions[ordinal];
    struct mpb_replicas *replicas = mpb_replicas_of(log->core, row);
    if (replicas == NULL || mpb_load_acquire(&replicas->proposal) == 0)
        return 0;
    int error = mpb_partition_lock_usable(log, ordinal, NULL);
    if (error != 0)
        return error == MPB_ERR_REQUEST_TIMED_OUT ? error : 0;
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    uint64_t proposal = mpb_load_relaxed(&replicas->proposal);
    enum mpb_proposal_state state = state_of(proposal, now);
    bool take = now->role == MPB_ROLE_LEADER &&
                (state == MPB_PROPOSAL_PENDING || (again && state == MPB_PROPOSAL_SENT));
    *out = (struct mpb_isr_proposal){
        .ordinal = ordinal, .leader_epoch = now->leader_epoch, .partition_epoch = now->partition_epoch};
    for (int place = 0; take && place < MPB_MAX_REPLICAS; place++)
        if ((proposal >> place & 1) != 0)
            out->isr[out->isr_count++] = replicas->ids[now->ids_at & 1][place];
    if (take)
        mpb_store_release(&replicas->proposal, proposal_word(now->leader_epoch, MPB_PROPOSAL_SENT, (uint16_t)proposal));
    mpb_partition_unlock(log, ordinal);
    return take;
}

static uint16_t places_of(const struct mpb_core *core, const struct mpb_partition *row,
                          const struct mpb_partition_copy *now, const struct mpb_isr_proposal *answer)
{
    int places = 0;
    for (uint32_t i = 0; i < answer->isr_count; i++) {
        int place = mpb_replica_place(core, row, now, answer->isr[i]);
        places |= place < 0 ? 0 : 1 << place;
    }
    return (uint16_t)places;
}

/* Returns whether `next` is to be committed; *open: whether the proposal goes on, in which state. */
static bool answer_of(const struct mpb_core *core, const struct mpb_partition *row,
                      const struct mpb_isr_proposal *answer, int error, struct mpb_partition_copy *next,
                      enum mpb_proposal_state *open)
{
    *open = MPB_PROPOSAL_NONE;
    switch (error) {
    case 0:
        if (answer->partition_epoch <= next->partition_epoch)
            return false;
        next->isr = next->maximal_isr = places_of(core, row, next, answer);
        next->partition_epoch = answer->partition_epoch;
        return true;
    case MPB_ERR_OPERATION_NOT_ATTEMPTED:
    case MPB_ERR_INELIGIBLE_REPLICA:
        next->maximal_isr = next->isr;
        return true;
    case MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION:
    case MPB_ERR_UNKNOWN_TOPIC_ID:
    case MPB_ERR_FENCED_LEADER_EPOCH:
    case MPB_ERR_INVALID_UPDATE_VERSION:
    case MPB_ERR_INVALID_REQUEST:
    case MPB_ERR_NEW_LEADER_ELECTED:
        *open = MPB_PROPOSAL_SENT; /* until a LeaderAndIsr says what is new */
        return false;
    default:
        *open = MPB_PROPOSAL_PENDING;
        return false;
    }
}

int mpb_isr_answered(struct mpb_log *log, const struct mpb_isr_proposal *answer, int error)
{
    struct mpb_partition *row = &log->core->partitions[answer->ordinal];
    struct mpb_replicas *replicas = mpb_replicas_of(log->core, row);
    enum mpb_proposal_state open;
    int busy = replicas == NULL ? MPB_ERR_INVALID_REQUEST : mpb_partition_lock_usable(log, answer->ordinal, NULL);
    if (busy != 0)
        return busy;
    struct mpb_partition_copy next = *mpb_partition_in_force(row);
    uint64_t proposal = mpb_load_relaxed(&replicas->proposal);
    bool counts = next.role == MPB_ROLE_LEADER && next.leader_epoch == answer->leader_epoch;
    bool changed = counts && answer_of(log->core, row, answer, error, &next, &open);
    if (changed) {
        mpb_isr_raise_high_watermark(log->core, row, &next);
        mpb_partition_write_idle(log->core, row, &next);
        mpb_partition_commit(row);
        MPB_CRASH(log->core, "isr.committed");
    }
    if (counts)
        mpb_store_release(&replicas->proposal,
                          open == MPB_PROPOSAL_NONE ? 0 : proposal_word(next.leader_epoch, open, (uint16_t)proposal));
    mpb_partition_unlock(log, answer->ordinal);
    if (changed)
        mpb_partition_moved(log, answer->ordinal);
    return 0;
}
