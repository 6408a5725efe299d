/* What is known of a producer, against a list of its batches: the last five, which of them truncations take back, what is a
 * duplicate, what follows and what does not (KIP-98), with transactions and without. */
#include "tests/log/append_scenarios.h"

#include "log/ended.h"
#include "log/leader_epochs.h"
#include "log/producer.h"
#include "log/producer_sweep.h"
#include "log/transaction.h"

enum { ID = 9, STEPS = 3000 };

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }

static struct mpb_producer_batch kept_batch(int64_t base, int16_t epoch, int32_t first, int32_t last)
{
    return (struct mpb_producer_batch){.base_offset = base,
                                       .timestamp_ms = 1000 + base,
                                       .first_sequence = first,
                                       .last_sequence = last,
                                       .last_offset_delta = last - first,
                                       .epoch = epoch};
}

static struct mpb_producer *begin(uint32_t *at)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    *at = mpb_producer_row(&f.log, 0, ID, true);
    CHECK(*at != 0 && mpb_producer_find(&f.core, row(), ID) == *at);
    return &f.core.producers[*at - 1];
}

static int check(int16_t epoch, int32_t first, int32_t records, bool transactional, struct mpb_producer_check *out)
{
    const struct mpb_batch_info info = {.producer_id = ID,
                                        .producer_epoch = epoch,
                                        .base_sequence = first,
                                        .record_count = records,
                                        .attributes = transactional ? MPB_ATTRIBUTE_TRANSACTIONAL : 0};
    *out = (struct mpb_producer_check){.duplicate = true};
    return mpb_producer_check(&f.core, row(), &info, false, out);
}

/* A ring of six, of which five are told: what a truncation takes back may have overwritten older ones. */
static void against_a_list(void)
{
    static struct mpb_producer_batch list[STEPS + 1];
    struct mpb_producer_batch kept[MPB_PRODUCER_KEPT];
    struct mpb_producer_check found;
    uint32_t at, count = 0, in_ring = 0, taken_back = 0;
    uint64_t dice = 3;
    struct mpb_producer *producer = begin(&at);
    for (int step = 0; step < STEPS; step++) {
        dice = dice * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t side = (uint32_t)(dice >> 33) % 40;
        int32_t records = 1 + (int32_t)side % 3, next = count == 0 ? 0 : list[count - 1].last_sequence + 1;
        int64_t base = count == 0 ? 0 : list[count - 1].base_offset + 3 + side % 2;
        if (side < 32 || count == 0) {
            list[count] = kept_batch(base, 2, next, next + records - 1);
            mpb_producer_keep(&f.core, at, &list[count++], 5000 + step);
            in_ring += in_ring < MPB_PRODUCER_RING;
            mpb_producer_keep(&f.core, at, &list[count - 1], 4000); /* once more, as a repair does */
            CHECK_EQ(mpb_load_relaxed(&producer->written_ms), 5000 + step);
        } else {
            uint32_t gone = side - 32 < count ? side - 32 : count;
            int64_t end = gone == 0 ? base : list[count - gone].base_offset;
            bool nothing = gone >= in_ring;
            CHECK_EQ(mpb_producers_truncate(&f.core, row(), end), nothing);
            CHECK_EQ(mpb_producer_rebuilding(&f.core, row(), ID), nothing ? at : 0);
            mpb_producers_rebuilt(&f.core, row());
            CHECK_EQ(mpb_producer_rebuilding(&f.core, row(), ID), 0);
            count = nothing ? 0 : count - gone; /* the log that is left would tell */
            in_ring = nothing ? 0 : in_ring - gone;
            taken_back += gone;
        }
        uint32_t told = mpb_producer_kept(producer, kept);
        CHECK_EQ(told, in_ring < MPB_PRODUCER_KEPT ? in_ring : MPB_PRODUCER_KEPT);
        for (uint32_t i = 0; i < told; i++)
            CHECK(memcmp(&kept[i], &list[count - told + i], sizeof kept[i]) == 0);
        for (uint32_t i = count < 8 ? 0 : count - 8; i < count; i++) {
            const struct mpb_producer_batch *one = &list[i];
            int error = check(2, one->first_sequence, one->last_offset_delta + 1, false, &found);
            CHECK_EQ(error, i + told >= count ? 0 : MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
            CHECK_EQ(found.duplicate, i + told >= count);
            CHECK(!found.duplicate || found.original.base_offset == one->base_offset);
        }
    }
    CHECK(taken_back > 100);
    fixture_close(&f);
}

enum { ANY = 0, DUPLICATE = -1, EPOCH = MPB_ERR_INVALID_PRODUCER_EPOCH, ORDER = MPB_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER };
enum { STATE = MPB_ERR_INVALID_TXN_STATE };

/* Batches of a producer: `marker` is the epoch of its last marker, `open` where its transaction began; -1: none. */
struct known {
    uint32_t batches;
    int16_t marker;
    int64_t open;
    struct mpb_producer_batch batch[2];
};

static void make_known(const struct known *known)
{
    uint32_t at;
    struct mpb_producer *producer = begin(&at);
    for (uint32_t i = 0; i < known->batches; i++)
        mpb_producer_keep(&f.core, at, &known->batch[i], 5000);
    if (known->marker >= 0 || known->open >= 0)
        mpb_txn_restore(producer, (struct mpb_txn_epochs){4, known->marker, MPB_NO_EPOCH}, known->open, 6000);
    int16_t newest = known->batches > 0 ? known->batch[known->batches - 1].epoch : -1;
    CHECK_EQ(mpb_producer_epoch(producer), newest > known->marker ? newest : known->marker);
}

static const struct known
    NOTHING = {0, -1, -1, {{0}}},
    ENDED_ONCE = {0, 0, -1, {{0}}}, ENDED = {0, 3, -1, {{0}}},
    ONE = {1, -1, -1, {{.base_offset = 10, .last_sequence = 4, .last_offset_delta = 4, .epoch = 3}}},
    FENCED = {1, 5, -1, {{.base_offset = 10, .last_sequence = 4, .epoch = 3}}},
    MARKED = {1, 3, -1, {{.base_offset = 10, .last_sequence = 4, .epoch = 3}}},
    RAISED = {2,
              -1,
              -1,
              {{.base_offset = 10, .last_sequence = 1, .epoch = 3},
               {.base_offset = 20, .last_sequence = 1, .epoch = 4}}},
    OPEN = {2,
            -1,
            20,
            {{.base_offset = 19, .last_sequence = 1, .epoch = 3},
             {.base_offset = 20, .first_sequence = 2, .last_sequence = 3, .epoch = 3}}},
    CLOSED = {2,
              -1,
              -1,
              {{.base_offset = 19, .last_sequence = 1, .epoch = 3},
               {.base_offset = 20, .first_sequence = 2, .last_sequence = 3, .epoch = 3}}},
    LAST = {1, -1, -1, {{.base_offset = 10, .first_sequence = INT32_MAX, .last_sequence = INT32_MAX, .epoch = 0}}};

static void sequences(void)
{
    static const struct {
        const struct known *known;
        int16_t epoch;
        int32_t first, records;
        int plain, transactional; /* the answer to a batch of either kind */
    } CASES[] = {
        {&NOTHING, 0, 77, 2, ANY, ANY},
        {&ENDED_ONCE, 0, 0, 1, ANY, ANY},
        {&ENDED_ONCE, 0, 1, 1, ORDER, ORDER},
        {&ENDED, 2, 0, 1, EPOCH, EPOCH},
        {&ENDED, 3, 0, 1, ANY, ANY},
        {&ENDED, 3, 1, 1, ORDER, ORDER},
        {&ENDED, 4, 0, 1, ANY, ANY},
        {&ONE, 3, 5, 1, ANY, ANY},
        {&ONE, 3, 0, 5, DUPLICATE, ORDER},
        {&ONE, 3, 0, 4, ORDER, ORDER},
        {&ONE, 3, 1, 4, ORDER, ORDER},
        {&ONE, 3, 6, 1, ORDER, ORDER},
        {&ONE, 3, 4, 1, ORDER, ORDER},
        {&ONE, 2, 5, 1, EPOCH, EPOCH},
        {&ONE, 2, 0, 5, EPOCH, EPOCH},
        {&ONE, 4, 0, 5, ANY, ANY},
        {&ONE, 4, 5, 1, ORDER, ORDER},
        {&FENCED, 3, 5, 1, EPOCH, EPOCH},
        {&FENCED, 4, 0, 1, EPOCH, EPOCH},
        {&FENCED, 5, 0, 1, ANY, ANY},
        {&FENCED, 5, 5, 1, ORDER, ORDER},
        {&MARKED, 3, 5, 1, ANY, ANY},
        {&MARKED, 3, 0, 1, ORDER, ORDER},
        {&RAISED, 4, 0, 2, DUPLICATE, ORDER},
        {&RAISED, 4, 2, 1, ANY, ANY},
        {&RAISED, 3, 0, 2, EPOCH, EPOCH},
        {&OPEN, 3, 2, 2, DUPLICATE, DUPLICATE},
        {&OPEN, 3, 0, 2, DUPLICATE, ORDER},
        {&OPEN, 3, 4, 1, STATE, ANY},
        {&OPEN, 3, 5, 1, ORDER, ORDER},
        {&OPEN, 2, 4, 1, EPOCH, EPOCH},
        {&CLOSED, 3, 2, 2, DUPLICATE, ORDER},
        {&CLOSED, 3, 4, 1, ANY, ANY},
        {&LAST, 0, 0, 3, ANY, ANY},
        {&LAST, 0, INT32_MAX, 1, DUPLICATE, ORDER},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        make_known(CASES[i].known);
        for (int transactional = 0; transactional < 2; transactional++) {
            struct mpb_producer_check found;
            int error = check(CASES[i].epoch, CASES[i].first, CASES[i].records, transactional, &found);
            int want = transactional ? CASES[i].transactional : CASES[i].plain;
            if (error != (want == DUPLICATE ? 0 : want))
                printf("case %d, %d\n", (int)i, transactional);
            CHECK_EQ(error, want == DUPLICATE ? 0 : want);
            CHECK_EQ(found.duplicate, want == DUPLICATE);
        }
        const struct mpb_batch_info own = {.producer_id = ID, .producer_epoch = CASES[i].epoch, .base_sequence = 60};
        struct mpb_producer_check found = {.duplicate = true}; /* of the coordinator the epoch alone counts */
        CHECK_EQ(mpb_producer_check(&f.core, row(), &own, true, &found), CASES[i].plain == EPOCH ? EPOCH : 0);
        CHECK(!found.duplicate);
        fixture_close(&f);
    }
    CHECK_EQ(mpb_last_sequence(0, 1), 0);
    CHECK_EQ(mpb_last_sequence(INT32_MAX, 1), INT32_MAX);
    CHECK_EQ(mpb_last_sequence(INT32_MAX - 1, 4), 1);
}

/* Nothing of who had it before is left in a row, and a row that is none is left alone. */
static void rows(void)
{
    const struct mpb_producer_batch one = kept_batch(3, 0, 0, 1);
    uint32_t at, again_at;
    int64_t ms = 0;
    bool again = true;
    struct mpb_producer *producer = begin(&at);
    CHECK(mpb_producer_time(&f.core, at - 1, &ms, &again) && ms == -1 && !again); /* of whom nothing is known */
    mpb_producer_keep(&f.core, 0, &one, 5000);
    mpb_producer_keep(&f.core, FIX_PRODUCERS + 1, &one, 5000);
    CHECK_EQ(mpb_load_relaxed(&producer->count), 0);
    mpb_producer_keep(&f.core, at, &one, 5000);
    CHECK(mpb_producer_time(&f.core, at - 1, &ms, &again) && ms == 5000 && !again);
    mpb_producer_keep(&f.core, at, &one, 6000);
    CHECK(mpb_load_relaxed(&producer->count) == 1 && mpb_load_relaxed(&producer->written_ms) == 5000);
    mpb_txn_store_epochs(producer, (struct mpb_txn_epochs){4, 0, 0});
    CHECK(mpb_producer_time(&f.core, at - 1, &ms, &again) && again); /* verified, by epoch 0, too */
    CHECK_EQ(mpb_producers_expire(&f.log, 0, INT64_MAX, INT64_MAX), 0);
    mpb_txn_store_epochs(producer, (struct mpb_txn_epochs){4, 0, MPB_NO_EPOCH});
    CHECK(mpb_producer_time(&f.core, at - 1, &ms, &again) && !again);
    mpb_txn_restore(producer, mpb_txn_epochs_of(producer), 7, 100);
    CHECK(mpb_producer_time(&f.core, at - 1, &ms, &again) && again && mpb_txn_first(producer) == 7);
    mpb_store_relaxed(&producer->rebuild, 1);
    mpb_producers_free(&f.log, 0);
    CHECK(!mpb_producer_time(&f.core, at - 1, &ms, &again) && mpb_producer_find(&f.core, row(), ID) == 0);
    f.log.producer_hint = at - 1; /* the next search begins here */
    again_at = mpb_producer_row(&f.log, 0, ID + 1, true);
    CHECK_EQ(again_at, at);
    CHECK(producer->producer_id == ID + 1 && mpb_load_relaxed(&producer->count) == 0);
    CHECK(mpb_load_relaxed(&producer->rebuild) == 0 && mpb_load_relaxed(&producer->written_ms) == 0);
    CHECK(mpb_txn_first(producer) == -1 && mpb_producer_epoch(producer) == -1);
    CHECK(mpb_txn_epochs_of(producer).coordinator == -1 && mpb_txn_epochs_of(producer).verified == MPB_NO_EPOCH);
    CHECK_EQ(mpb_producer_row(&f.log, 0, ID + 1, true), at); /* it is there */
    fixture_close(&f);
}

/* Every row of the table, in one chain or in all of them: each is walked to once, found, and given back by its own. */
static void many(int64_t apart)
{
    bool seen[FIX_PRODUCERS] = {false};
    uint32_t of_another, chain = 0, at = 0, count = 0;
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    of_another = mpb_producer_row(&f.log, 1, 3 * apart, false);
    for (int64_t i = 0; i < FIX_PRODUCERS - 1; i++) {
        uint32_t taken = mpb_producer_row(&f.log, 0, i * apart, false);
        const struct mpb_producer_batch one = kept_batch(i, 0, 0, 1);
        CHECK(taken != 0 && taken != of_another);
        if (i % 2 == 0)
            mpb_producer_keep(&f.core, taken, &one, 5000 + i);
    }
    CHECK_EQ(mpb_producer_row(&f.log, 0, FIX_PRODUCERS * apart, false), 0); /* there are no more */
    CHECK(mpb_load_relaxed(&f.core.producers[FIX_PRODUCERS - 1].owner) != 0);
    for (struct mpb_producer *p; (p = mpb_producer_next(&f.core, row(), &chain, &at)) != NULL; count++) {
        CHECK(p == &f.core.producers[at - 1] && p->producer_id % apart == 0 && !seen[p->producer_id / apart]);
        seen[p->producer_id / apart] = true;
    }
    CHECK_EQ(count, FIX_PRODUCERS - 1);
    CHECK_EQ(mpb_producers_truncate(&f.core, row(), FIX_PRODUCERS), 0); /* nothing is above; some have nothing at all */
    CHECK_EQ(mpb_producers_truncate(&f.core, row(), 0), FIX_PRODUCERS / 2);
    for (int64_t i = 0; i < FIX_PRODUCERS - 1; i++) {
        uint32_t found = mpb_producer_find(&f.core, row(), i * apart);
        CHECK(found != 0 && f.core.producers[found - 1].producer_id == i * apart);
        CHECK_EQ(mpb_producer_rebuilding(&f.core, row(), i * apart), i % 2 == 0 ? found : 0);
        CHECK(!mpb_producer_free_lost(&f.core, found - 1, 0) && !mpb_producer_free_lost(&f.core, found - 1, 1));
        CHECK(!mpb_producer_forget(&f.core, found - 1, 1, -1, false));
    }
    CHECK_EQ(mpb_producer_rebuilding(&f.core, row(), FIX_PRODUCERS * apart), 0);
    mpb_producers_rebuilt(&f.core, row());
    for (int64_t i = 0; i < FIX_PRODUCERS - 1; i++)
        CHECK_EQ(mpb_producer_rebuilding(&f.core, row(), i * apart), 0);
    const uint32_t freed = mpb_load_relaxed(&f.core.header->producers_freed);
    for (int64_t i = 0; i < FIX_PRODUCERS / 2; i++) { /* from the middle of a chain, too: the others stay */
        uint32_t found = mpb_producer_find(&f.core, row(), i * apart);
        CHECK(mpb_producer_forget(&f.core, found - 1, 0, -1, false)); /* nothing is known of any */
        CHECK(mpb_load_relaxed(&f.core.producers[found - 1].owner) == 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.producers[found - 1].count), 0);
        CHECK(mpb_producer_find(&f.core, row(), i * apart) == 0);
        CHECK(mpb_producer_find(&f.core, row(), (FIX_PRODUCERS - 2) * apart) != 0);
    }
    mpb_producers_free(&f.log, 0);
    CHECK_EQ(mpb_load_relaxed(&f.core.header->producers_freed) - freed, FIX_PRODUCERS - 1);
    chain = at = 0;
    CHECK(mpb_producer_next(&f.core, row(), &chain, &at) == NULL);
    CHECK_EQ(mpb_producer_find(&f.core, &f.core.partitions[1], 3 * apart), of_another);
    fixture_close(&f);
}

/* How many rows are looked at for a free one: many, until as many as there are were seen to be taken; then few, and many
 * again once somebody says that one was freed. Rows that nobody ever took are known. */
static void searches(void)
{
    enum { MANY = 256, FEW = 8, TAKEN = 40 };
    static const struct {
        uint32_t seen;   /* to be taken, in a row */
        bool freed;      /* somebody says so */
        uint32_t looked; /* at how many rows */
    } CASES[] = {{0, false, MANY},
                 {FIX_PRODUCERS - 1, false, MANY},
                 {FIX_PRODUCERS, false, FEW},
                 {FIX_PRODUCERS + 1, false, FEW},
                 {FIX_PRODUCERS, true, MANY},
                 {FIX_PRODUCERS, false, FEW}};
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (uint32_t i = 0; i < FIX_PRODUCERS; i++)
        mpb_store_relaxed(&f.core.producers[i].owner, 2);
    mpb_store_relaxed(&f.core.header->producers_high, FIX_PRODUCERS);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const uint64_t before = f.log.producer_looks;
        f.log.producers_taken_seen = CASES[i].seen;
        mpb_add_relaxed(&f.core.header->producers_freed, CASES[i].freed);
        CHECK_EQ(mpb_producer_row(&f.log, 0, ID, true), 0);
        CHECK_EQ(f.log.producer_looks - before, CASES[i].looked);
        CHECK_EQ(f.log.producers_taken_seen, (CASES[i].freed ? 0 : CASES[i].seen) + CASES[i].looked);
    }
    f.log.producers_taken_seen = FIX_PRODUCERS;
    for (uint32_t i = TAKEN; i < FIX_PRODUCERS; i++)
        mpb_store_relaxed(&f.core.producers[i].owner, 0);
    mpb_store_relaxed(&f.core.header->producers_high, TAKEN);
    f.log.producer_hint = FIX_PRODUCERS;
    const uint64_t before = f.log.producer_looks;
    CHECK_EQ(mpb_producer_row(&f.log, 0, ID, true), TAKEN + 1);
    CHECK_EQ(f.log.producer_looks - before, FEW + 1);
    CHECK_EQ(mpb_load_relaxed(&f.core.header->producers_high), TAKEN + 1);
    CHECK(f.log.producers_taken_seen == 0 && f.log.producer_hint == TAKEN + 1);
    CHECK_EQ(mpb_load_relaxed(&f.core.producers[TAKEN].owner), 1);
    fixture_close(&f);
}

/* Rows that a dead process took and put into no chain are given back, each under its own partition's lock. */
static void swept(void)
{
    static const uint32_t LOST[][2] = {{0, 1}, {7, 2}, {40, 1}}; /* row, partition's ordinal + 1 */
    enum { HIGH = 41, NO_PARTITION = FIX_PARTITIONS + 1, UNMADE = 6, CHAINED = 3 };
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    f.log.producer_hint = CHAINED;
    CHECK_EQ(mpb_producer_row(&f.log, 1, ID, true), CHAINED + 1);
    for (size_t i = 0; i < sizeof LOST / sizeof *LOST; i++)
        mpb_store_relaxed(&f.core.producers[LOST[i][0]].owner, LOST[i][1]);
    mpb_store_relaxed(&f.core.producers[9].owner, NO_PARTITION);
    mpb_store_relaxed(&f.core.producers[10].owner, UNMADE + 1); /* whose lock nobody made */
    mpb_store_relaxed(&f.core.producers[HIGH].owner, 1);        /* nobody ever took one from here on */
    mpb_store_relaxed(&f.core.header->producers_high, HIGH);
    CHECK_EQ(mpb_producers_sweep(&f.log), 3);
    for (size_t i = 0; i < sizeof LOST / sizeof *LOST; i++)
        CHECK_EQ(mpb_load_relaxed(&f.core.producers[LOST[i][0]].owner), 0);
    CHECK(mpb_load_relaxed(&f.core.producers[9].owner) != 0 && mpb_load_relaxed(&f.core.producers[10].owner) != 0);
    CHECK(mpb_load_relaxed(&f.core.producers[HIGH].owner) == 1);
    CHECK_EQ(mpb_producer_find(&f.core, &f.core.partitions[1], ID), CHAINED + 1);
    mpb_store_relaxed(&f.core.header->producers_high, FIX_PRODUCERS + 9); /* whatever it says, the table ends */
    CHECK_EQ(mpb_producers_sweep(&f.log), 1);
    CHECK_EQ(mpb_producers_sweep(&f.log), 0);
    for (uint32_t p = 0; p < 2; p++) { /* every lock is free */
        CHECK_EQ(mpb_partition_lock(&f.log, p), 0);
        mpb_partition_unlock(&f.log, p);
    }
    fixture_close(&f);
}

/* A row is taken from another partition under its lock only: while that is not to be had, there is no room. */
static void another_partition_is_busy(void)
{
    struct batch_spec spec = numbered(ID, 0, 20);
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    for (int64_t i = 0; i < FIX_PRODUCERS; i++) {
        const struct mpb_producer_batch one = kept_batch(i, 0, 0, 1);
        mpb_producer_keep(&f.core, mpb_producer_row(&f.log, 1, 100 + i, false), &one, 5000 + i);
    }
    const struct fixture_holder holder = fixture_hold(&f, 1);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, MPB_ERR_THROTTLING_QUOTA_EXCEEDED);
    CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), 0);
    for (int64_t i = 0; i < FIX_PRODUCERS; i++)
        CHECK(mpb_producer_find(&f.core, &f.core.partitions[1], 100 + i) != 0);
    fixture_let_go(&holder);
    fixture_close(&f);
}

/* Nothing above the high watermark is stable, nor what lies behind the first record of a transaction that is open, or whose
 * marker the high watermark has not passed; what is below log start holds nothing back. */
static void last_stable(void)
{
    static const struct {
        bool open;
        int64_t ended, marker_end; /* -1: none */
        int64_t log_start, hw, stable;
    } CASES[] = {
        {false, -1, -1, 0, 20, 20}, {true, -1, -1, 0, 20, 12},  {true, -1, -1, 0, 12, 12}, {true, -1, -1, 0, 11, 11},
        {true, -1, -1, 13, 20, 13}, {true, -1, -1, 12, 20, 12}, {true, 8, 25, 0, 20, 8},   {true, 8, 25, 0, 24, 8},
        {true, 8, 25, 0, 25, 12},   {true, 14, 25, 0, 24, 12},  {true, 8, 25, 9, 24, 9},   {false, 8, 25, 0, 24, 8},
        {false, 8, 25, 0, 25, 25},  {false, 0, 25, 0, 24, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int replicated = 0; replicated < 2; replicated++) {
            fixture_open(&f);
            if (replicated)
                fixture_replicate(&f);
            fixture_partition(&f, 0);
            f.log.producer_hint = FIX_PRODUCERS; /* the table's first row is next */
            CHECK_EQ(mpb_producer_row(&f.log, 0, ID, true), 1);
            if (CASES[i].open)
                mpb_txn_restore(&f.core.producers[0], (struct mpb_txn_epochs){4, 0, MPB_NO_EPOCH}, 12, 6000);
            if (CASES[i].ended >= 0)
                mpb_ended_note(&f.core.replicas[0], 7, CASES[i].ended, CASES[i].marker_end);
            const struct mpb_partition_copy next = {
                .log_start = CASES[i].log_start, .hw = CASES[i].hw, .leo = 30, .open_transactions = CASES[i].open};
            if (replicated || CASES[i].ended < 0) /* a broker alone has no high watermark to wait for */
                CHECK_EQ(mpb_txn_last_stable(&f.core, row(), &next), CASES[i].stable);
            else
                CHECK_EQ(mpb_txn_last_stable(&f.core, row(), &next),
                         !CASES[i].open || CASES[i].hw < 12 ? CASES[i].hw : 12);
            fixture_close(&f);
        }
}

/* A marker above the high watermark holds the last stable offset back until that has passed it, wherever its transaction
 * began, at the log's first record too; what is no marker, or ends none, holds nothing. */
static void held_by_a_marker(void)
{
    static const struct {
        enum mpb_batch_kind kind;
        int64_t first, hw, stable, least; /* of a log that ends at 30; the last stable offset was 20 */
    } CASES[] = {
        {MPB_BATCH_COMMIT, 12, 29, 12, 12},        {MPB_BATCH_ABORT, 12, 29, 12, 12},
        {MPB_BATCH_COMMIT, 0, 29, 5, 0},           {MPB_BATCH_COMMIT, 1, 29, 5, 1},
        {MPB_BATCH_COMMIT, -1, 29, 20, INT64_MAX}, {MPB_BATCH_IN_TRANSACTION, 12, 29, 20, INT64_MAX},
        {MPB_BATCH_PLAIN, 12, 29, 20, INT64_MAX},  {MPB_BATCH_COMMIT, 12, 30, 20, INT64_MAX},
        {MPB_BATCH_COMMIT, 25, 29, 20, 25},
    };
    fixture_open(&f);
    fixture_replicate(&f);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct mpb_txn_plan plan = {.kind = (uint16_t)CASES[i].kind, .first = CASES[i].first};
        struct mpb_partition_copy next = {.log_start = 5, .hw = CASES[i].hw, .lso = 20, .leo = 30};
        mpb_replicas_forget(&f.core, row());
        mpb_txn_hold(&f.core, row(), &plan, &next);
        CHECK_EQ(next.lso, CASES[i].stable);
        CHECK_EQ(mpb_ended_least(&f.core.replicas[0], CASES[i].hw), CASES[i].least);
        CHECK(next.hw == CASES[i].hw && next.leo == 30 && next.log_start == 5);
    }
    fixture_close(&f);
}

int main(void)
{
    another_partition_is_busy();
    swept();
    many(1);
    many(MPB_PRODUCER_CHAINS);
    against_a_list();
    sequences();
    rows();
    searches();
    last_stable();
    held_by_a_marker();
    printf("producer: %lu checks\n", checks_made);
    return 0;
}
