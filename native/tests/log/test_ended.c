/* Transactions that ended above the high watermark, against a plain list of them: what holds the last stable offset, also
 * where two share a place, and what a truncation takes out. And which roles a partition takes. */
#include "tests/log/log_fixture.h"

#include "log/ended.h"
#include "shm/doorbell.h"

enum { MOST = 3 * MPB_ENDED_PLACES };

static struct mpb_replicas replicas;
static struct {
    int64_t first, end;
} all[MOST];
static int count;

static int64_t least_of_all(int64_t hw)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < count; i++)
        if (all[i].end > hw && all[i].first < least)
            least = all[i].first;
    return least;
}

static void note(int64_t hw, int64_t first, int64_t end)
{
    mpb_ended_note(&replicas, hw, first, end);
    all[count].first = first;
    all[count++].end = end;
}

static void begin(void)
{
    memset(&replicas, 0, sizeof replicas);
    count = 0;
}

/* As long as each has a place of its own the answer is exact, at every high watermark. */
static void test_with_room(void)
{
    begin();
    CHECK_EQ(mpb_ended_least(&replicas, 0), INT64_MAX);
    for (int i = 0; i < MPB_ENDED_PLACES; i++) {
        note(10, 100 - 3 * i % 17, 200 + 5 * i);
        for (int64_t hw = 190; hw < 210 + 5 * MPB_ENDED_PLACES; hw++)
            CHECK_EQ(mpb_ended_least(&replicas, hw), least_of_all(hw));
    }
}

/* A place whose marker is below the high watermark is anybody's. */
static void test_places_are_used_again(void)
{
    begin();
    for (int i = 0; i < MOST; i++) {
        int64_t hw = 100 + 10 * i;
        note(hw, hw + i % 3, hw + 10 + (i % 2 == 0)); /* two count at most */
        for (int64_t at = hw; at < hw + 14; at++)
            CHECK_EQ(mpb_ended_least(&replicas, at), least_of_all(at));
    }
}

/* Without room two share a place: for longer than need be, never too short. */
static void test_without_room(void)
{
    begin();
    for (int i = 0; i < MOST; i++)
        note(10, 1000 - i, 2000 + i);
    for (int64_t hw = 1990; hw < 2000 + MOST - 1; hw++) {
        CHECK(mpb_ended_least(&replicas, hw) <= least_of_all(hw));
        CHECK(hw < 2000 + MPB_ENDED_PLACES || mpb_ended_least(&replicas, hw) == 1000 - MOST + 1);
    }
    CHECK_EQ(mpb_ended_least(&replicas, 2000 + MOST - 1), INT64_MAX);
}

/* It is the latest one that is shared: what it holds back is held for the shortest time. */
static void test_which_place_is_shared(void)
{
    begin();
    for (int i = 0; i < MOST; i++)
        note(10, 1000 + i, 2000 + i);
    for (int64_t hw = 1999; hw < 2000 + MOST - 1; hw++) {
        int64_t own = 1000 + (hw - 1999);
        CHECK_EQ(mpb_ended_least(&replicas, hw), own < 1000 + MPB_ENDED_PLACES - 1 ? own : 1000 + MPB_ENDED_PLACES - 1);
    }
}

/* All places are taken, and one ends exactly at the high watermark: it is free, and nothing of it stays. */
static void test_a_place_that_is_just_free(void)
{
    for (int just = 0; just < MPB_ENDED_PLACES; just++) {
        begin();
        for (int i = 0; i < MPB_ENDED_PLACES; i++)
            note(10, 1 + i, i == just ? 200 : 300 + i);
        note(200, 50, 900);
        CHECK_EQ(mpb_ended_least(&replicas, 200), just == 0 ? 2 : 1);
        CHECK_EQ(mpb_ended_least(&replicas, 400), 50);
        CHECK_EQ(mpb_ended_least(&replicas, 899), 50);
        CHECK_EQ(mpb_ended_least(&replicas, 900), INT64_MAX);
    }
}

/* What ended behind the new end goes; one that began below it may share its place with one that ended before. */
static void test_a_truncation(void)
{
    static const struct {
        int64_t end, hw, least;
    } CASES[] = {{40, 10, 5},         {40, 20, 15},        {40, 30, 28},     {39, 30, 28}, {39, 38, 28},
                 {39, 39, INT64_MAX}, {29, 20, 15},        {29, 28, 15},     {28, 20, 15}, {28, 28, INT64_MAX},
                 {15, 10, 5},         {15, 15, INT64_MAX}, {5, 4, INT64_MAX}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        begin();
        note(1, 5, 20);
        note(1, 15, 30);
        note(1, 28, 40);
        mpb_ended_cut(&replicas, CASES[i].end);
        CHECK_EQ(mpb_ended_least(&replicas, CASES[i].hw), CASES[i].least);
        CHECK_EQ(mpb_load_relaxed(&replicas.ended_end), CASES[i].end);
    }
}

/* ------------------------------------------------------------------ roles */
static struct fixture f;

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

static void test_roles(void)
{
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 5, 2);
    fixture_open(&f);
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_INVALID_REQUEST); /* a broker that is alone */
    fixture_replicate(&f);
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fixture_partition(&f, 0);
    struct mpb_new_role wrong = role;
    wrong.replica_count = 0;
    CHECK_EQ(mpb_become(&f.log, 0, &wrong), MPB_ERR_INVALID_REQUEST);
    wrong.replica_count = 1; /* this broker is the second */
    CHECK_EQ(mpb_become(&f.log, 0, &wrong), MPB_ERR_INVALID_REQUEST);
    wrong = role;
    wrong.leader_epoch = -1;
    CHECK_EQ(mpb_become(&f.log, 0, &wrong), MPB_ERR_INVALID_REQUEST);
    wrong = role;
    wrong.isr[1] = 99;
    CHECK_EQ(mpb_become(&f.log, 0, &wrong), MPB_ERR_INVALID_REQUEST);
    CHECK(now()->leader_epoch == 3 && now()->isr == 2);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->leader_epoch == 5 && now()->isr == 3 && now()->leader == FIX_SELF && now()->leader_since == 3);
    role.role = MPB_ROLE_FOLLOWER; /* within an epoch nobody changes sides, nor goes back to an earlier one */
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_FENCED_LEADER_EPOCH);
    role.leader_epoch = 4;
    CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_FENCED_LEADER_EPOCH);
    role.leader_epoch = 6;
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->role == MPB_ROLE_FOLLOWER && now()->isr == 0 && now()->leader == FIX_OTHER && now()->self == 1);
    fixture_close(&f);
}

static void check_ids(const struct mpb_new_role *role)
{
    for (uint32_t i = 0; i < MPB_MAX_REPLICAS; i++)
        CHECK_EQ(f.core.replicas[0].ids[now()->ids_at & 1][i], i < role->replica_count ? role->replicas[i] : -1);
    CHECK_EQ(f.core.replicas[0].led_since_ms, role->now_ms);
    CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].watchers), 0); /* who waits there looks again */
}

/* A broker that has the only replica, in the first epoch of all; then another list, beside the one that is in force. */
static void test_lists_of_replicas(void)
{
    fixture_open(&f);
    fixture_replicate(&f);
    struct mpb_partition_identity identity = {.topic_id = {7}, .dir = "t-0"};
    CHECK_EQ(mpb_partition_create(&f.log, 0, &identity, 0, 1000), 0);
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 0, 1);
    role.replicas[0] = FIX_SELF;
    role.replica_count = 1;
    mpb_watch_partition(&f.core, 0, 2);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->self == 0 && now()->isr == 1 && now()->epochs == 1);
    check_ids(&role);
    uint8_t at = now()->ids_at;
    struct mpb_new_role more = fixture_role(MPB_ROLE_FOLLOWER, 1, 0);
    more.now_ms = 4100;
    mpb_watch_partition(&f.core, 0, 2);
    CHECK_EQ(mpb_become(&f.log, 0, &more), 0);
    CHECK((now()->ids_at & 1) != (at & 1) && f.core.replicas[0].ids[at & 1][0] == FIX_SELF &&
          f.core.replicas[0].ids[at & 1][1] == -1);
    check_ids(&more);
    at = now()->ids_at;
    more.leader_epoch = 2; /* the same list again stays where it is */
    CHECK_EQ(mpb_become(&f.log, 0, &more), 0);
    CHECK_EQ(now()->ids_at, at);
    fixture_close(&f);
}

static void test_stop(void)
{
    fixture_open(&f);
    fixture_replicate(&f);
    CHECK_EQ(mpb_stop(&f.log, 0), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fixture_partition(&f, 0);
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 5, 2);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    struct mpb_partition_copy want = *now();
    mpb_watch_partition(&f.core, 0, 2);
    CHECK_EQ(mpb_stop(&f.log, 0), 0);
    want.role = MPB_ROLE_NONE;
    want.isr = want.maximal_isr = 0;
    want.leader = -1;
    CHECK(memcmp(now(), &want, sizeof want) == 0);
    CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].watchers), 0);
    CHECK_EQ(mpb_stop(&f.log, 0), 0); /* its lock was given back */
    fixture_close(&f);
}

/* min.insync.replicas is one at least, and never more than there are replicas. */
static void test_least_in_sync(void)
{
    static const int32_t ASKED[][2] = {{-1, 1}, {0, 1}, {1, 1}, {2, 2}, {3, 3}, {4, 3}, {300, 3}};
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    for (size_t i = 0; i < sizeof ASKED / sizeof ASKED[0]; i++) {
        struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 3, 1);
        role.min_isr = ASKED[i][0];
        CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
        CHECK_EQ(now()->min_isr, ASKED[i][1]);
        CHECK(now()->epochs == 1 && now()->leader_epoch == 3); /* the same role and epoch: nothing else changes */
    }
    fixture_close(&f);
}

int main(void)
{
    test_with_room();
    test_places_are_used_again();
    test_without_room();
    test_which_place_is_shared();
    test_a_place_that_is_just_free();
    test_a_truncation();
    test_roles();
    test_lists_of_replicas();
    test_stop();
    test_least_in_sync();
    printf("ended: %lu checks\n", checks_made);
    return 0;
}
