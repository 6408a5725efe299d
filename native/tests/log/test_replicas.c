/* What a leader makes of its followers' fetches, at every bound: who is refused, what diverges, when the high watermark moves,
 * who is proposed to join and to leave, what the controller's answers change; and who is told of it: those that watch the
 * partition, when one of its ends moved, and only then. */
#include "tests/log/append_scenarios.h"
#include "shm/doorbell.h"

static struct fixture f;

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

static void watch(void)
{
    mpb_watch_partition(&f.core, 0, 2);
    mpb_watch_acknowledged(&f.core, 0, 2);
}

/* Since `watch`. */
static bool told(void) { return mpb_load_relaxed(&f.core.partitions[0].watchers) == 0; }
static bool told_of_acknowledged(void) { return mpb_load_relaxed(&f.core.partitions[0].ack_watchers) == 0; }

static bool first_list; /* that of the two lists of replicas which is in force */

static struct mpb_partition_copy *in_force(void)
{
    struct mpb_partition *row = &f.core.partitions[0];
    return &row->copy[mpb_load_relaxed(&row->selector) & 1];
}

/* Whichever list it was: the other one names brokers that have no replica. */
static void put_in_list(void)
{
    struct mpb_replicas *replicas = &f.core.replicas[0];
    int32_t ids[MPB_MAX_REPLICAS];
    memcpy(ids, replicas->ids[in_force()->ids_at], sizeof ids);
    in_force()->ids_at = first_list ? 0 : 1;
    memcpy(replicas->ids[in_force()->ids_at], ids, sizeof ids);
    for (int place = 0; place < MPB_MAX_REPLICAS; place++)
        replicas->ids[in_force()->ids_at ^ 1][place] = 70 + place;
}

/* A leader in epoch 4 from offset 18 on, in epoch 3 before; its log is 10 to 20. FIX_OTHER is in sync, FIX_THIRD is not. */
static void begin(void)
{
    fixture_open(&f);
    prepare_leader_of_three(&f);
    put_in_list();
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, 10), 0);
    CHECK(now()->leo == 20 && now()->hw == 18 && now()->isr == 3);
}

static struct mpb_follower_answer fetched(int32_t broker, int32_t epoch, int64_t offset, int32_t last_epoch, int64_t ms)
{
    const struct mpb_follower_fetch fetch = {.broker = broker,
                                             .broker_epoch = 70 + broker,
                                             .leader_epoch = epoch,
                                             .offset = offset,
                                             .last_epoch = last_epoch,
                                             .log_start = 6,
                                             .now_ms = ms};
    struct mpb_follower_answer answer;
    watch();
    mpb_follower_fetched(&f.log, 0, &fetch, &answer);
    return answer;
}

static const struct mpb_replica_place *place(int at) { return &f.core.replicas[0].place[at]; }

static void refused_or_diverging(void)
{
    static const struct {
        int32_t broker, epoch;
        int64_t offset;
        int32_t last_epoch;
        int error;
        int32_t end_epoch;
        int64_t end;
    } CASES[] = {
        {FIX_OTHER, 3, 18, -1, MPB_ERR_FENCED_LEADER_EPOCH, -1, -1},
        {FIX_OTHER, 5, 18, -1, MPB_ERR_UNKNOWN_LEADER_EPOCH, -1, -1},
        {7, 4, 18, -1, MPB_ERR_UNKNOWN_LEADER_EPOCH, -1, -1},
        {-1, 4, 18, -1, MPB_ERR_UNKNOWN_LEADER_EPOCH, -1, -1},
        {FIX_SELF, 4, 18, -1, MPB_ERR_UNKNOWN_LEADER_EPOCH, -1, -1},
        {FIX_OTHER, 4, 9, -1, MPB_ERR_OFFSET_OUT_OF_RANGE, -1, -1},
        {FIX_OTHER, 4, 21, -1, MPB_ERR_OFFSET_OUT_OF_RANGE, -1, -1},
        {FIX_OTHER, 4, 21, 4, 0, 4, 20},
        {FIX_OTHER, 4, 19, 3, 0, 3, 18},
        {FIX_OTHER, 4, 12, 0, 0, 0, 0},
        {FIX_OTHER, 4, 18, 5, MPB_ERR_OFFSET_OUT_OF_RANGE, -1, -1},
    };
    begin();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct mpb_follower_answer answer = fetched(CASES[i].broker, CASES[i].epoch, CASES[i].offset,
                                                    CASES[i].last_epoch, 9000);
        CHECK_EQ(answer.error, CASES[i].error);
        CHECK_EQ(answer.diverging.epoch, CASES[i].end_epoch);
        CHECK_EQ(answer.diverging.offset, CASES[i].end);
        CHECK(!answer.ask_file && !answer.proposed && !told());
        CHECK(now()->hw == 18 && mpb_load_relaxed(&place(0)->tag) == 0);
    }
    fixture_close(&f);
}

/* What is told of a follower, and when it had all that there was. */
static void positions(void)
{
    begin();
    const struct mpb_replica_place *at = place(0);
    CHECK_EQ(fetched(FIX_OTHER, 4, 10, 3, 9000).error, 0); /* the least that it may ask for */
    CHECK(!told() && now()->hw == 18);                     /* the watermark goes forward only */
    CHECK_EQ(mpb_load_relaxed(&at->leo), 10);
    CHECK_EQ(at->log_start, 6);
    CHECK_EQ(at->broker_epoch, 70 + FIX_OTHER);
    CHECK_EQ(at->leader_leo, 20);
    CHECK_EQ(at->fetched_ms, 9000);
    CHECK_EQ(at->caught_up_ms, 4000); /* in sync: since the epoch began */
    CHECK_EQ(mpb_load_relaxed(&at->tag),
             ((uint64_t)4 << 32 | FIX_OTHER) + 1); /* of whom, for whoever reads it without a lock */
    CHECK_EQ(fetched(FIX_OTHER, -1, 19, 4, 9100).error, 0);
    CHECK(told() && told_of_acknowledged() && now()->hw == 19 && now()->lso == 19);
    CHECK_EQ(at->caught_up_ms, 4000);
    struct batch_spec more = numbered(-1, 0, 45);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &more).end_offset, 22);
    CHECK_EQ(fetched(FIX_OTHER, 4, 20, 4, 9200).error, 0);
    CHECK_EQ(at->caught_up_ms, 9100); /* it has what there was when it last fetched */
    CHECK_EQ(at->leader_leo, 22);
    CHECK_EQ(fetched(FIX_OTHER, 4, 22, 4, 9300).error, 0);
    CHECK_EQ(at->caught_up_ms, 9300);
    CHECK(told() && now()->hw == 22);
    CHECK_EQ(fetched(FIX_OTHER, 4, 22, 4, 9200).error, 0); /* once more, by a clock that went back */
    CHECK(!told() && !told_of_acknowledged());
    fixture_close(&f);
}

/* What was told under an earlier leadership, or by another broker, says nothing of this one. */
static void positions_of_others(void)
{
    static const struct {
        int64_t offset, caught_up_ms;
    } CASES[] = {{19, 4000}, {20, 9000}};
    for (int at = 0; at <= 2; at += 2)
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            begin();
            struct mpb_replica_place *other = &f.core.replicas[0].place[at];
            in_force()->isr = in_force()->maximal_isr = 7;
            *other = (struct mpb_replica_place){.leader_leo = 5, .fetched_ms = 7000, .caught_up_ms = 6000};
            mpb_store_relaxed(&other->tag, ((uint64_t)3 << 32 | (uint32_t)(at == 0 ? FIX_OTHER : FIX_THIRD)) + 1);
            CHECK_EQ(fetched(at == 0 ? FIX_OTHER : FIX_THIRD, 4, CASES[i].offset, 4, 9000).error, 0);
            CHECK_EQ(other->caught_up_ms, CASES[i].caught_up_ms); /* in sync: since the epoch began, or now */
            CHECK(now()->hw == 18 && !told());                    /* nothing is known of the third */
            fixture_close(&f);
        }
}

/* An epoch that this log knows nothing of ended here with the one before; what only the file knows changes nothing. */
static void asked_of_epochs(void)
{
    struct mpb_epoch_start file[MPB_KEPT_EPOCHS + 2];
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 6, 2);
    begin();
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    struct mpb_follower_answer answer = fetched(FIX_OTHER, 6, 18, 5, 9000);
    CHECK(answer.error == 0 && answer.diverging.epoch == 4 && answer.diverging.offset == 20);
    CHECK_EQ(mpb_load_relaxed(&place(0)->tag), 0);
    answer = fetched(FIX_OTHER, 6, 18, 4, 9000);
    CHECK(answer.error == 0 && answer.diverging.epoch == -1 && mpb_load_relaxed(&place(0)->tag) != 0);
    for (int32_t i = 0; i < MPB_KEPT_EPOCHS + 2; i++)
        file[i] = (struct mpb_epoch_start){.offset = i < MPB_KEPT_EPOCHS - 2 ? i - 20 : 18, .epoch = i};
    CHECK_EQ(mpb_load_epochs(&f.log, 0, file, MPB_KEPT_EPOCHS + 2), 0);
    role = fixture_role(MPB_ROLE_LEADER, 40, 2);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    watch();
    answer = fetched(FIX_OTHER, 40, 20, 1, 9000);
    CHECK(answer.error == 0 && answer.ask_file && !answer.proposed && !told());
    CHECK(answer.diverging.epoch == -1 && answer.diverging.offset == -1);
    CHECK(mpb_load_relaxed(&place(0)->tag) == 0 && now()->hw == 18);
    CHECK(!fetched(FIX_OTHER, 40, 20, 33, 9000).ask_file && now()->hw == 20);
    fixture_close(&f);
}

/* Who joins has the high watermark, and the records before this leadership. */
static void joins_from(void)
{
    static const struct {
        int64_t hw, epoch_start, offset;
        bool joins;
    } CASES[] = {{18, 15, 17, false}, {18, 15, 18, true}, {15, 18, 17, false}, {15, 18, 18, true}, {20, 20, 20, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        begin();
        in_force()->hw = in_force()->lso = CASES[i].hw;
        in_force()->epoch_start = CASES[i].epoch_start;
        CHECK_EQ(fetched(FIX_THIRD, 4, CASES[i].offset, -1, 9000).proposed, CASES[i].joins);
        CHECK_EQ(now()->maximal_isr, CASES[i].joins ? 7 : 3);
        CHECK(!fetched(FIX_OTHER, 4, 20, -1, 9000).proposed); /* it is in sync already */
        in_force()->isr = in_force()->maximal_isr = 7;
        mpb_store_relaxed(&f.core.replicas[0].proposal, 0);
        CHECK(!fetched(FIX_THIRD, 4, 20, -1, 9000).proposed);
        fixture_close(&f);
    }
}

/* Of the one that is out of sync: nothing is known but what it told in this epoch. */
static void joining(void)
{
    struct mpb_isr_proposal proposal;
    begin();
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), 0);
    CHECK(!fetched(FIX_THIRD, 4, 17, 3, 9000).proposed && place(2)->caught_up_ms == 0);
    CHECK_EQ(now()->maximal_isr, 3);
    CHECK(fetched(FIX_THIRD, 4, 18, 3, 9000).proposed); /* the watermark, and where the epoch began */
    CHECK_EQ(now()->maximal_isr, 7);
    CHECK(!told());                                      /* no end moved */
    CHECK(!fetched(FIX_THIRD, 4, 19, 4, 9000).proposed); /* once */
    CHECK_EQ(fetched(FIX_OTHER, 4, 20, 4, 9000).error, 0);
    CHECK_EQ(now()->hw, 19); /* it is waited for from now on */
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 1);
    CHECK(proposal.ordinal == 0 && proposal.leader_epoch == 4 && proposal.partition_epoch == 4);
    CHECK(proposal.isr_count == 3 && proposal.isr[0] == FIX_OTHER && proposal.isr[1] == FIX_SELF &&
          proposal.isr[2] == FIX_THIRD);
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 0); /* sent */
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), 1);  /* its sender's successor */
    CHECK_EQ(proposal.isr_count, 3);
    fixture_close(&f);
}

static void answers(void)
{
    static const struct {
        int error;
        uint16_t isr, maximal;
        int again; /* whether it is proposed again */
        int sent;  /* or stands as sent */
    } CASES[] = {
        {0, 7, 7, 0, 0},
        {MPB_ERR_OPERATION_NOT_ATTEMPTED, 3, 3, 0, 0},
        {MPB_ERR_INELIGIBLE_REPLICA, 3, 3, 0, 0},
        {MPB_ERR_INVALID_UPDATE_VERSION, 3, 7, 0, 1},
        {MPB_ERR_FENCED_LEADER_EPOCH, 3, 7, 0, 1},
        {MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION, 3, 7, 0, 1},
        {MPB_ERR_UNKNOWN_TOPIC_ID, 3, 7, 0, 1},
        {MPB_ERR_INVALID_REQUEST, 3, 7, 0, 1},
        {MPB_ERR_NEW_LEADER_ELECTED, 3, 7, 0, 1},
        {MPB_ERR_REQUEST_TIMED_OUT, 3, 7, 1, 1},
    };
    struct mpb_isr_proposal proposal,
        answer = {.leader_epoch = 4, .partition_epoch = 5, .isr = {FIX_OTHER, FIX_SELF, FIX_THIRD, 77}, .isr_count = 4};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        begin();
        CHECK(fetched(FIX_THIRD, 4, 18, 3, 9000).proposed);
        CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 1);
        struct mpb_isr_proposal other = answer;
        other.leader_epoch = 3; /* of an earlier leadership: says nothing */
        CHECK_EQ(mpb_isr_answered(&f.log, &other, 0), 0);
        CHECK(now()->isr == 3 && now()->maximal_isr == 7);
        watch();
        CHECK_EQ(mpb_isr_answered(&f.log, &answer, CASES[i].error), 0);
        CHECK_EQ(now()->isr, CASES[i].isr);
        CHECK_EQ(now()->maximal_isr, CASES[i].maximal);
        CHECK_EQ(now()->partition_epoch, CASES[i].error == 0 ? 5 : 4);
        CHECK_EQ(told(), CASES[i].maximal == CASES[i].isr);
        CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), CASES[i].again);
        CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), CASES[i].sent);
        if (CASES[i].error == 0) { /* an answer that is not newer */
            answer.isr_count = 2;
            CHECK_EQ(mpb_isr_answered(&f.log, &answer, 0), 0);
            CHECK_EQ(now()->isr, 7);
            answer.isr_count = 4;
        }
        fixture_close(&f);
    }
}

/* Who has not had all for longer than the bound leaves, unless it stands at the end. */
static void leaving(void)
{
    struct mpb_isr_proposal proposal;
    begin();
    CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 4500), 0); /* the epoch began at 4000 */
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 0);
    CHECK_EQ(fetched(FIX_OTHER, 4, 20, 4, 5000).error, 0);
    CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 99000), 0); /* nothing new for it */
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 0);
    struct batch_spec more = numbered(-1, 0, 45);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &more).end_offset, 22);
    CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 5500), 0);
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 0);
    CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 5501), 0);
    CHECK_EQ(now()->isr, 3); /* until the controller has answered */
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 1);
    CHECK(proposal.isr_count == 1 && proposal.isr[0] == FIX_SELF);
    CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 9000), 0); /* one at a time */
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 0);
    const struct mpb_isr_proposal alone = {.leader_epoch = 4, .partition_epoch = 5, .isr = {FIX_SELF}, .isr_count = 1};
    CHECK_EQ(mpb_isr_answered(&f.log, &alone, 0), 0);
    CHECK(now()->isr == 2 && now()->hw == 22);
    fixture_close(&f);
    begin();
    CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 4501), 0); /* never heard of in this epoch */
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, false, &proposal), 1);
    CHECK_EQ(mpb_isr_shrink(&f.log, 7, 500, 4501), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fixture_close(&f);
    fixture_open(&f); /* a broker alone has no ISR */
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 4501), MPB_ERR_INVALID_REQUEST);
    CHECK_EQ(mpb_isr_answered(&f.log, &alone, 0), MPB_ERR_INVALID_REQUEST);
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), 0);
    fixture_close(&f);
}

/* The last of three leaves; and nothing is asked for, or answered, by who leads no more. */
static void leaving_and_stopped(void)
{
    struct mpb_isr_proposal proposal;
    const struct mpb_isr_proposal answer = {
        .leader_epoch = 4, .partition_epoch = 5, .isr = {FIX_SELF, 77, FIX_OTHER}, .isr_count = 2};
    for (int stopped = 0; stopped < 2; stopped++) {
        begin();
        in_force()->isr = in_force()->maximal_isr = 7;
        CHECK_EQ(fetched(FIX_OTHER, 4, 20, 4, 5000).error, 0);
        CHECK_EQ(mpb_isr_shrink(&f.log, 0, 500, 4501), 0);
        if (stopped)
            CHECK_EQ(mpb_stop(&f.log, 0), 0);
        const uint64_t asked = mpb_load_relaxed(&f.core.replicas[0].proposal);
        CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), !stopped);
        CHECK(stopped || (proposal.isr_count == 2 && proposal.isr[0] == FIX_OTHER && proposal.isr[1] == FIX_SELF));
        CHECK_EQ(mpb_isr_answered(&f.log, &answer, 0), 0);
        CHECK_EQ(now()->isr, stopped ? 0 : 2); /* who has no replica is nobody */
        CHECK_EQ(now()->partition_epoch, stopped ? 4 : 5);
        CHECK_EQ(mpb_load_relaxed(&f.core.replicas[0].proposal), stopped ? asked : 0);
        fixture_close(&f);
    }
}

/* While another process has the partition there may be a proposal; in a partition that is deleted there is none. */
static void not_to_be_had(void)
{
    struct mpb_isr_proposal proposal;
    begin();
    CHECK(fetched(FIX_THIRD, 4, 18, 3, 9000).proposed);
    const struct fixture_holder holder = fixture_hold(&f, 0);
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), MPB_ERR_REQUEST_TIMED_OUT);
    fixture_let_go(&holder);
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), 1);
    mpb_store_relaxed(&f.core.partitions[0].flags, mpb_load_relaxed(&f.core.partitions[0].flags) | MPB_PART_DELETED);
    CHECK_EQ(mpb_isr_take_proposal(&f.log, 0, true, &proposal), 0);
    CHECK_EQ(fetched(FIX_OTHER, 4, 20, -1, 9000).error, MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    CHECK(now()->hw == 18 && !told());
    fixture_close(&f);
}

/* A follower that begins anew below its log: a transaction that ended in what is gone holds nothing back. */
static void begun_anew(void)
{
    const struct mpb_new_role follower = fixture_role(MPB_ROLE_FOLLOWER, 6, 0);
    fixture_open(&f);
    prepare_ended_above_high_watermark(&f);
    const int64_t end = now()->leo, hw = now()->hw;
    CHECK(mpb_ended_least(&f.core.replicas[0], hw) < end);
    CHECK_EQ(mpb_become(&f.log, 0, &follower), 0);
    CHECK_EQ(mpb_start_at(&f.log, 0, end + 10, 5, 7000), MPB_ERR_FENCED_LEADER_EPOCH);
    CHECK_EQ(mpb_start_at(&f.log, 0, end, 6, 7000), MPB_ERR_OFFSET_OUT_OF_RANGE); /* what is there goes on */
    CHECK_EQ(mpb_start_at(&f.log, 0, -1, 6, 7000), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(mpb_start_at(&f.log, 0, end + 10, 6, 7000), 0);
    CHECK(now()->log_start == end + 10 && now()->leo == end + 10 && now()->hw == end + 10);
    CHECK_EQ(mpb_ended_least(&f.core.replicas[0], hw), INT64_MAX);
    fixture_close(&f);
}

/* Below min.insync.replicas the high watermark stands. */
static void under_min_isr(void)
{
    begin();
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 5, 1);
    role.min_isr = 2;
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->hw == 18 && now()->min_isr == 2);
    CHECK(fetched(FIX_OTHER, 5, 20, 4, 9000).proposed);
    CHECK(now()->hw == 18 && !told());
    const struct mpb_isr_proposal both = {
        .leader_epoch = 5, .partition_epoch = 6, .isr = {FIX_SELF, FIX_OTHER}, .isr_count = 2};
    watch();
    CHECK_EQ(mpb_isr_answered(&f.log, &both, 0), 0);
    CHECK(now()->hw == 20 && told());
    role.min_isr = 9; /* never more than there are */
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK_EQ(now()->min_isr, 3);
    role.min_isr = 0;
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK_EQ(now()->min_isr, 1);
    fixture_close(&f);
}

static void refused_roles(void)
{
    begin();
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 5, 1);
    watch();
    role.isr[0] = 7; /* no replica */
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_INVALID_REQUEST);
    role.isr[0] = FIX_SELF;
    role.self = 7;
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_INVALID_REQUEST);
    role.self = FIX_SELF;
    role.leader_epoch = -1;
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_INVALID_REQUEST);
    role.leader_epoch = 3;
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_FENCED_LEADER_EPOCH);
    role.leader_epoch = 5;
    role.replica_count = 0;
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_INVALID_REQUEST);
    CHECK(!told() && now()->leader_epoch == 4);
    CHECK_EQ(mpb_stop(&f.log, 0), 0);
    CHECK(told() && now()->role == MPB_ROLE_NONE && now()->leader == -1 && now()->isr == 0 && now()->maximal_isr == 0);
    fixture_close(&f);
}

/* Who waits for replicas sleeps through an append that none of them has. */
static void told_of_appends(void)
{
    struct mpb_batch_info info;
    struct mpb_append_result result;
    struct batch_spec spec = numbered(-1, 0, 50);
    begin();
    mpb_batch_read(batch_bytes(&spec), &info);
    struct mpb_append_request request = {.ordinal = 0,
                                         .entry = MPB_NO_REQUEST,
                                         .batch = batch_bytes(&spec),
                                         .info = &info,
                                         .max_timestamp = MPB_RECORDS_UNSEEN,
                                         .now_ms = 5000,
                                         .leader_epoch = -1,
                                         .acks = -1};
    watch();
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    CHECK(result.error == 0 && result.waits && told() && !told_of_acknowledged());
    watch();
    request.acks = 1;
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    CHECK(result.error == 0 && !result.waits && told() && told_of_acknowledged());
    watch();
    request.leader_epoch = 5; /* of a leadership that is none */
    mpb_append(&f.log, &FIX_OPTIONS, &request, &result);
    CHECK_EQ(result.error, MPB_ERR_NOT_LEADER_OR_FOLLOWER);
    CHECK(!told() && !told_of_acknowledged());
    fixture_close(&f);
}

/* Who reads from a follower is told of what it took and of a high watermark that moved, not of what was refused. */
static void told_of_a_followers_appends(void)
{
    fixture_open(&f);
    prepare_follower(&f);
    int64_t leo = now()->leo;
    struct mpb_follower_append request = {.leader_epoch = 5, .offset = leo, .leader_hw = leo, .now_ms = 6000};
    struct mpb_follower_appended out;
    watch();
    mpb_append_follower(&f.log, &FIX_OPTIONS, &request, &out);
    CHECK(out.error == 0 && out.batches == 0 && told());
    CHECK(out.leo == leo && out.hw == now()->hw && out.log_start == now()->log_start);
    watch();
    request.leader_epoch = 4;
    mpb_append_follower(&f.log, &FIX_OPTIONS, &request, &out);
    CHECK(out.error == MPB_ERR_FENCED_LEADER_EPOCH && !told());
    CHECK(out.leo == -1 && out.hw == -1 && out.batches == 0);
    request.leader_epoch = 5;
    request.offset = leo + 1;
    mpb_append_follower(&f.log, &FIX_OPTIONS, &request, &out);
    CHECK(out.error == MPB_ERR_OFFSET_OUT_OF_RANGE && !told());
    watch();
    run_fetched_batches(&f.log);
    CHECK(now()->leo > leo && told());
    fixture_close(&f);
}

static bool is_silent(const struct scenario *s)
{
    static const char *const NAMES[] = {"roll", "verify", "follower's fetch that joins"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(s->name, NAMES[i]) == 0)
            return true;
    return s->cells > 0;
}

/* Of every change, whether those that watch partition 0 are told: not of what no reader sees, nor of a request's appends,
 * which whoever has the request tells of. */
static void told_of_changes(void)
{
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof *SCENARIOS; i++) {
        const struct scenario *s = &SCENARIOS[i];
        fixture_open(&f);
        scenario_error = 0;
        s->prepare(&f);
        watch();
        s->run(&f.log);
        CHECK_EQ(scenario_error, 0);
        CHECK_EQ(told(), !is_silent(s));
        fixture_close(&f);
    }
}

/* Of what the controller and the keeper of the log set. */
static void told_of_settings(void)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = -1, .now_ms = 9000};
    uint32_t count;
    fixture_open(&f);
    prepare_segments(&f);
    watch();
    CHECK_EQ(mpb_retain(&f.log, 0, &rules, removed, &count), 0);
    CHECK(count == 0 && !told()); /* nothing was due */
    CHECK_EQ(mpb_partition_set_high_watermark(&f.log, 0, 10), 0);
    CHECK(told() && now()->hw == 10);
    watch();
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, 11), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK(!told());
    CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, 4), 0);
    CHECK(told() && now()->log_start == 4);
    watch();
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, 0, 0), 0);
    CHECK(told());
    for (int64_t written = 3; written >= 2; written--) { /* it goes forward only */
        watch();
        CHECK_EQ(mpb_start_written(&f.log, 0, NULL, written), 0);
        CHECK(told() && mpb_load_relaxed(&f.core.partitions[0].start_written) == 3);
    }
    fixture_close(&f);
}

int main(void)
{
    for (int list = 0; list < 2; list++) {
        first_list = list == 0;
        refused_or_diverging();
        positions();
        positions_of_others();
        asked_of_epochs();
        joins_from();
        joining();
        answers();
        leaving();
        leaving_and_stopped();
    }
    not_to_be_had();
    begun_anew();
    under_min_isr();
    refused_roles();
    told_of_appends();
    told_of_a_followers_appends();
    told_of_changes();
    told_of_settings();
    printf("replicas: %lu checks\n", checks_made);
    return 0;
}
