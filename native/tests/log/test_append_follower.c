/* What a follower takes of one answer of its leader, at every bound: which batches are written together, what is refused and
 * what is left as it was then, where the ends go, and what happens without room for one more producer. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/producer.h"
#include "log/transaction.h"
#include "shm/doorbell.h"
#include "tests/log/failing_calls.h"

enum { EPOCH = 5, FIRST_BYTES = MPB_BATCH_HEADER_BYTES + 60, INTERVAL = 600 };

static struct fixture f;
static struct mpb_append_options options;
static struct mpb_follower_appended out;
static uint8_t bytes[1 << 14];

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

static const struct batch_spec NONE = {.producer_id = -1, .records = 2, .timestamp = 1000, .payload = 60};

/* One batch of the answer. `delta` and `records`: what the header claims instead of what fits, 0: nothing else. */
struct told {
    struct batch_spec spec;
    int64_t base;
    int32_t epoch, delta, records;
    bool damaged;
};

static size_t put(uint8_t *at, const struct told *told)
{
    size_t length = make_batch(at, &told->spec);
    if (told->delta != 0)
        mpb_put_be32(at + MPB_BATCH_LAST_OFFSET_DELTA, told->delta);
    if (told->records != 0)
        mpb_put_be32(at + MPB_BATCH_RECORD_COUNT, told->records);
    mpb_put_be64(at + MPB_BATCH_BASE_OFFSET, told->base);
    mpb_put_be32(at + MPB_BATCH_LEADER_EPOCH, told->epoch);
    uint32_t crc = mpb_crc32c(0, at + MPB_BATCH_ATTRIBUTES, length - MPB_BATCH_ATTRIBUTES);
    mpb_put_be32(at + MPB_BATCH_CRC, (int32_t)crc);
    at[length - 1] ^= told->damaged;
    return length;
}

static int append(const struct told *told, uint32_t count, int64_t leader_hw, int64_t leader_log_start)
{
    struct mpb_follower_append request = {.leader_epoch = EPOCH,
                                          .offset = now()->leo,
                                          .records = bytes,
                                          .leader_hw = leader_hw,
                                          .leader_log_start = leader_log_start,
                                          .now_ms = 6000};
    for (uint32_t i = 0; i < count; i++)
        request.length += put(bytes + request.length, &told[i]);
    mpb_append_follower(&f.log, &options, &request, &out);
    return out.error;
}

/* A follower with one batch of two records, written in epoch 4: behind it others may be written together. */
static void begin(void)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, EPOCH, 0);
    const struct told first = {.spec = NONE, .base = 0, .epoch = 4};
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    options = FIX_OPTIONS;
    options.index_interval_bytes = INTERVAL;
    CHECK_EQ(append(&first, 1, 0, 0), 0);
    CHECK(out.batches == 1 && now()->leo == 2 && now()->position == FIRST_BYTES);
}

static struct told at_base(int64_t base)
{
    struct told told = {.spec = NONE, .base = base, .epoch = 4};
    return told;
}

/* Two batches: how many commits they take, which is one where they are written together. */
struct pair {
    const char *what;
    struct told one, two;
    uint32_t commits;
    int error;
    int64_t leo;
    int64_t largest, largest_at;
};

static void check_pair(const struct pair *pair)
{
    const struct told both[] = {pair->one, pair->two};
    uint64_t before = mpb_load_relaxed(&f.core.partitions[0].selector);
    CHECK_EQ(append(both, 2, 0, 0), pair->error);
    uint64_t commits = mpb_load_relaxed(&f.core.partitions[0].selector) - before;
    if (commits != pair->commits || now()->leo != pair->leo || now()->max_timestamp_offset != pair->largest_at)
        printf("%s: %d commits, end %d\n", pair->what, (int)commits, (int)now()->leo);
    CHECK_EQ(commits, pair->commits);
    CHECK(now()->leo == pair->leo && out.leo == pair->leo);
    CHECK(now()->max_timestamp == pair->largest && now()->max_timestamp_offset == pair->largest_at);
}

static void written_together(void)
{
    struct pair pair = {"two of no producer", at_base(2), at_base(4), 1, 0, 6, 1000, 1};
    const struct pair plain = pair;
#define CASE(name, changes) \
    do {                    \
        pair = plain;       \
        pair.what = name;   \
        changes;            \
        begin();            \
        check_pair(&pair);  \
        fixture_close(&f);  \
    } while (0)
    CASE("plain", (void)0);
    CASE("of one record", (pair.one.spec.records = pair.two.spec.records = 1, pair.two.base = 3, pair.leo = 4));
    CASE("producer 0 first", (pair.one.spec.producer_id = 0, pair.commits = 2));
    CASE("producer 0 second", (pair.two.spec.producer_id = 0, pair.commits = 2));
    CASE("a gap before", (pair.one.base = 3, pair.two.base = 5, pair.leo = 7));
    CASE("a gap between", (pair.two.base = 5, pair.commits = 2, pair.leo = 7));
    CASE("another epoch", (pair.two.epoch = 5, pair.commits = 2));
    CASE("one epoch later", (pair.one.epoch = pair.two.epoch = 5));
    CASE("as much as an interval", (pair.two.spec.payload += INTERVAL - 2 * FIRST_BYTES));
    CASE("more than an interval", (pair.two.spec.payload += INTERVAL - 2 * FIRST_BYTES + 1, pair.commits = 2));
    CASE("later time second", (pair.two.spec.timestamp = 3000, pair.largest = 3000, pair.largest_at = 5));
    CASE("later time first", (pair.one.spec.timestamp = 3000, pair.largest = 3000, pair.largest_at = 3));
    CASE("both later",
         (pair.one.spec.timestamp = pair.two.spec.timestamp = 3000, pair.largest = 3000, pair.largest_at = 3));
    CASE("as many records as can be counted", (pair.one.records = INT32_MAX - 2));
    CASE("more records", (pair.one.records = INT32_MAX - 1, pair.commits = 2));
    CASE("a damaged one second", (pair.two.damaged = true, pair.error = MPB_ERR_CORRUPT_MESSAGE, pair.leo = 4));
    CASE("a damaged one first",
         (pair.one.damaged = true, pair.error = MPB_ERR_CORRUPT_MESSAGE, pair.leo = 2, pair.commits = 0));
    CASE("one that ends before it begins",
         (pair.two.delta = -1, pair.error = MPB_ERR_CORRUPT_MESSAGE, pair.leo = 4, pair.commits = 1));
    CASE("one that goes back",
         (pair.two.base = 3, pair.error = MPB_ERR_OFFSET_OUT_OF_RANGE, pair.leo = 4, pair.commits = 1));
    CASE("one of an epoch to come",
         (pair.two.epoch = 6, pair.error = MPB_ERR_OFFSET_OUT_OF_RANGE, pair.leo = 4, pair.commits = 1));
    /* Offsets of a segment are counted from its base in 31 bits: the second one begins another. */
    CASE("more offsets than a segment has",
         (pair.one.delta = INT32_MAX - 3, pair.two.base = INT32_MAX, pair.two.delta = 2, pair.commits = 3,
          pair.leo = INT32_MAX + 3ll, pair.largest_at = INT32_MAX + 2ll));
#undef CASE
}

/* The first batch of a segment stands for itself, and what does not fit begins another segment; a roll is one commit more. */
static void at_a_segments_bounds(void)
{
    static const struct {
        int32_t segment;
        uint32_t commits, segments;
    } CASES[] = {
        {4 * FIRST_BYTES, 1, 1}, {4 * FIRST_BYTES - 1, 3, 2}, {3 * FIRST_BYTES - 1, 4, 2}, {FIRST_BYTES, 6, 4}};
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, EPOCH, 0);
    const struct told three[] = {at_base(2), at_base(4), at_base(6)};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        begin();
        options.segment_bytes = CASES[i].segment;
        uint64_t before = mpb_load_relaxed(&f.core.partitions[0].selector);
        CHECK_EQ(append(three, 3, 0, 0), 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].selector) - before, CASES[i].commits);
        CHECK(now()->segment_count == CASES[i].segments && now()->leo == 8 && out.batches == 3);
        fixture_close(&f);
    }
    fixture_open(&f);
    options = FIX_OPTIONS;
    options.index_interval_bytes = INTERVAL;
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    uint64_t before = mpb_load_relaxed(&f.core.partitions[0].selector);
    CHECK_EQ(append(three, 3, 0, 0), 0);
    CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].selector) - before, 2);
    fixture_close(&f);
}

static int asked(int32_t epoch, int64_t offset, const uint8_t *topic_id)
{
    struct told one = at_base(2);
    struct mpb_follower_append request = {
        .leader_epoch = epoch, .offset = offset, .records = bytes, .length = put(bytes, &one), .topic_id = topic_id};
    out = (struct mpb_follower_appended){.error = 99, .batches = 9, .leo = 9, .hw = 9, .log_start = 9};
    mpb_append_follower(&f.log, &options, &request, &out);
    return out.error;
}

/* Nothing changes, and no end is told. */
static void refused(void)
{
    static const uint8_t OURS[16] = {7}, WRONG[16] = {8};
    static const struct {
        int32_t epoch;
        int64_t offset;
        const uint8_t *topic_id;
        bool full; /* the log directory takes no appends */
        int error;
    } CASES[] = {{EPOCH - 1, 2, OURS, false, MPB_ERR_FENCED_LEADER_EPOCH},
                 {EPOCH + 1, 2, OURS, false, MPB_ERR_FENCED_LEADER_EPOCH},
                 {EPOCH - 1, 2, NULL, false, MPB_ERR_FENCED_LEADER_EPOCH},
                 {EPOCH, 1, OURS, false, MPB_ERR_OFFSET_OUT_OF_RANGE},
                 {EPOCH, 3, OURS, false, MPB_ERR_OFFSET_OUT_OF_RANGE},
                 {EPOCH, 2, WRONG, false, MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION},
                 {EPOCH, 2, OURS, true, MPB_ERR_KAFKA_STORAGE_ERROR}};
    begin();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        mpb_log_dir_refuse_appends(&f.core, 0, CASES[i].full);
        CHECK_EQ(asked(CASES[i].epoch, CASES[i].offset, CASES[i].topic_id), CASES[i].error);
        CHECK(out.batches == 0 && out.leo == -1 && out.hw == -1 && out.log_start == 0 && now()->leo == 2);
    }
    mpb_log_dir_refuse_appends(&f.core, 0, false);
    CHECK_EQ(asked(EPOCH, 2, OURS), 0);
    CHECK(out.batches == 1 && out.leo == 4 && out.last_epoch == 4);
    const struct mpb_new_role leader = fixture_role(MPB_ROLE_LEADER, 6, 1);
    CHECK_EQ(mpb_become(&f.log, 0, &leader), 0);
    CHECK_EQ(asked(6, 4, OURS), MPB_ERR_FENCED_LEADER_EPOCH);
    fixture_close(&f);
}

/* Garbage behind whole batches is told of; what was sound stays, with its ends. A batch that is cut off is asked for again. */
static void damage_behind(void)
{
    const struct told one = at_base(2);
    struct mpb_follower_append request = {.leader_epoch = EPOCH, .records = bytes, .leader_hw = 4};
    for (int damaged = 0; damaged < 2; damaged++) {
        begin();
        size_t length = put(bytes, &one);
        put(bytes + length, &one);
        bytes[length + MPB_BATCH_MAGIC] = damaged ? 1 : 2;
        mpb_watch_partition(&f.core, 0, 2);
        request.offset = 2;
        request.length = 2 * length - (damaged ? 0 : 1);
        mpb_append_follower(&f.log, &options, &request, &out);
        CHECK_EQ(out.error, damaged ? MPB_ERR_CORRUPT_MESSAGE : 0);
        CHECK(out.batches == 1 && out.leo == 4 && out.hw == 4 && now()->hw == 4);
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].watchers), 0); /* readers are told of it */
        CHECK_EQ(counted(&f, MPB_C_LOG_APPENDS), 2);
        CHECK_EQ(counted(&f, MPB_C_LOG_APPEND_BYTES), 2 * FIRST_BYTES);
        fixture_close(&f);
    }
}

/* The ends go forward only, and never beyond each other. */
static void ends(void)
{
    static const struct {
        int64_t leader_hw, leader_log_start, hw, log_start;
        uint32_t commits;
    } CASES[] = {{1, 0, 1, 0, 1}, {1, 0, 1, 0, 0}, {0, 0, 1, 0, 0}, {1, 2, 1, 0, 0},
                 {1, 1, 1, 1, 1}, {2, 2, 2, 2, 1}, {9, 1, 2, 2, 0}, {-1, -1, 2, 2, 0}};
    begin();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint64_t before = mpb_load_relaxed(&f.core.partitions[0].selector);
        CHECK_EQ(append(NULL, 0, CASES[i].leader_hw, CASES[i].leader_log_start), 0);
        CHECK(now()->hw == CASES[i].hw && now()->lso == CASES[i].hw && now()->log_start == CASES[i].log_start);
        CHECK(out.hw == CASES[i].hw && out.log_start == CASES[i].log_start && out.leo == 2 && out.batches == 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].selector) - before, CASES[i].commits);
    }
    fixture_close(&f);
}

/* A transaction holds the last stable offset from the commit of its first batch on, at offset 0 and with producer 0, too. */
static void transactions(void)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, EPOCH, 0);
    struct told begun = at_base(0), more = at_base(2);
    fixture_open(&f);
    options = FIX_OPTIONS;
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    begun.spec.producer_id = more.spec.producer_id = 0;
    begun.spec.transactional = more.spec.transactional = true;
    more.spec.sequence = 2;
    CHECK_EQ(append(&begun, 1, 2, 0), 0);
    CHECK(now()->hw == 2 && now()->lso == 0 && now()->open_transactions == 1);
    CHECK_EQ(append(&more, 1, 4, 0), 0);
    CHECK(now()->hw == 4 && now()->lso == 0 && now()->open_transactions == 1);
    CHECK_EQ(append(NULL, 0, 4, 3), 0); /* what is deleted holds nothing */
    CHECK(now()->lso == 3 && now()->log_start == 3);
    fixture_close(&f);
}

/* Who has no row gets that of a producer that wrote once; where none can be had, its batch waits for the next answer. */
static void producers_without_room(void)
{
    for (int in_use = 0; in_use < 2; in_use++) {
        begin();
        fixture_partition(&f, 1);
        for (int i = 0; i < FIX_PRODUCERS; i++) {
            struct batch_spec spec = numbered(100 + i, 0, 40);
            CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 1, MPB_NO_REQUEST, 0, &spec).error, 0);
        }
        for (int i = 0; in_use && i < FIX_PRODUCERS; i++) /* in transactions */
            mpb_txn_store_epochs(&f.core.producers[i], (struct mpb_txn_epochs){0, MPB_NO_EPOCH, 0});
        const struct told two[] = {at_base(2), {.spec = numbered(0, 0, 0), .base = 4, .epoch = 4}};
        CHECK_EQ(append(two, 2, 6, 0), in_use ? MPB_ERR_THROTTLING_QUOTA_EXCEEDED : 0);
        CHECK(out.batches == (in_use ? 1 : 2) && now()->leo == (in_use ? 4 : 6) && now()->hw == now()->leo);
        CHECK_EQ(mpb_producer_find(&f.core, &f.core.partitions[0], 0) != 0, !in_use);
        CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), !in_use);
        fixture_close(&f);
    }
}

/* Of its own chain of producers one that wrote once goes first, though another partition's wrote longer ago. */
static void a_producer_in_anothers_row(void)
{
    begin();
    fixture_partition(&f, 1);
    for (int i = 0; i < FIX_PRODUCERS - 1; i++) {
        struct batch_spec spec = numbered(100 + i, 0, 40);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 1, MPB_NO_REQUEST, 0, &spec).error, 0);
    }
    const struct told two[] = {{.spec = numbered(7, 0, 0), .base = 2, .epoch = 4},
                               {.spec = numbered(7 + MPB_PRODUCER_CHAINS, 0, 0), .base = 4, .epoch = 4}};
    CHECK_EQ(append(two, 2, 6, 0), 0);
    CHECK_EQ(mpb_producer_find(&f.core, &f.core.partitions[0], 7), 0);
    CHECK(mpb_producer_find(&f.core, &f.core.partitions[0], 7 + MPB_PRODUCER_CHAINS) != 0);
    for (int i = 0; i < FIX_PRODUCERS - 1; i++)
        CHECK(mpb_producer_find(&f.core, &f.core.partitions[1], 100 + i) != 0);
    fixture_close(&f);
}

/* Nothing of a write that failed is left, and no end moves with it; the leader is asked again before another. */
static void a_full_disk(void)
{
    const struct told one = at_base(2);
    begin();
    let_fail(MPB_IO_WRITE, 0, ENOSPC, 1);
    CHECK_EQ(append(&one, 1, 2, 0), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(failing_calls.failed, 1);
    mpb_io_fault = NULL;
    CHECK(out.batches == 0 && out.leo == 2 && out.hw == 0 && now()->leo == 2 && now()->hw == 0);
    CHECK_EQ(mpb_load_relaxed(&f.core.partitions[0].intent.word), 0);
    CHECK_EQ(append(&one, 1, 4, 0), 0);
    CHECK(now()->leo == 4 && now()->hw == 4);
    fixture_close(&f);
}

/* Epochs that nobody has written down are not forgotten: until they are, no later one begins. */
static void too_many_epochs(void)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 2 * MPB_KEPT_EPOCHS, 0);
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0); /* in epoch 3 */
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    options = FIX_OPTIONS;
    for (int32_t i = 1; i <= MPB_KEPT_EPOCHS; i++) {
        struct told one = at_base(2 * i);
        struct mpb_follower_append request = {
            .leader_epoch = 2 * MPB_KEPT_EPOCHS, .offset = now()->leo, .records = bytes};
        one.epoch = 3 + i;
        request.length = put(bytes, &one);
        mpb_append_follower(&f.log, &options, &request, &out);
        CHECK_EQ(out.error, i < MPB_KEPT_EPOCHS ? 0 : MPB_ERR_REQUEST_TIMED_OUT);
        CHECK_EQ(out.last_epoch, i < MPB_KEPT_EPOCHS ? 3 + i : 2 + i);
    }
    mpb_epochs_written(&f.core, &f.core.partitions[0], &(struct mpb_epoch_start){.offset = 0, .epoch = 3}, 1);
    struct told one = at_base(2 * MPB_KEPT_EPOCHS);
    struct mpb_follower_append request = {.leader_epoch = 2 * MPB_KEPT_EPOCHS, .offset = now()->leo, .records = bytes};
    one.epoch = 3 + MPB_KEPT_EPOCHS;
    request.length = put(bytes, &one);
    mpb_append_follower(&f.log, &options, &request, &out);
    CHECK(out.error == 0 && out.last_epoch == 3 + MPB_KEPT_EPOCHS);
    fixture_close(&f);
}

int main(void)
{
    written_together();
    at_a_segments_bounds();
    refused();
    damage_behind();
    ends();
    transactions();
    producers_without_room();
    a_producer_in_anothers_row();
    a_full_disk();
    too_many_epochs();
    printf("append_follower: %lu checks\n", checks_made);
    return 0;
}
