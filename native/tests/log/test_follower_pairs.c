#define _GNU_SOURCE
/* One process changes a replica and is killed after every one of its instructions; then another one changes it in another
 * way: a fetcher's append or truncation beside the agent's new role, one fetcher's end beside its successor's append. The
 * second one is killed, too, in its repair or its own work, and a third completes it.
 *
 * Whenever they died, the end is that of the first change, so far as it was committed, and then the second one.
 * The guard of a transaction (KIP-890) is the same: verified, appended, ended, in every order of two.
 *
 * test_follower_pairs [pair]: that one only. LONG=1: the second one is filmed after every first death, else a sample. */
#include "tests/log/log_film.h"
#include "tests/stepping/stepper.h"

enum { SECOND_FILMS = 2, SECOND_STILLS = 8, MOST_OUTCOMES = 14 };

struct pair {
    const char *name;
    void (*prepare)(struct fixture *f);
    void (*first)(struct mpb_log *log);
    void (*second)(struct mpb_log *log);
};

static void lead_on(struct mpb_log *log)
{
    struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 6, 1);
    note(mpb_become(log, 0, &role));
}

static void follow_on(struct mpb_log *log)
{
    struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 6, 0);
    note(mpb_become(log, 0, &role));
}

static void truncate_all(struct mpb_log *log) { truncate_to(log, 9); }

/* The coordinator is asked about producer 2 under a guard, which a marker that comes meanwhile takes out. */
enum { GUARD = -7, MARKER_ENTRY = 3 };

static void note_guard(struct mpb_log *log)
{
    int16_t in_force;
    note(mpb_txn_guard(log, 0, NULL, 2, 0, GUARD, &in_force));
}
static void verify(struct mpb_log *log) { note(mpb_txn_verify(log, 0, NULL, 2, 0, GUARD)); }
static void open_one(struct mpb_log *log) { append_in_transaction(log, 2, 0); }
static void end(struct mpb_log *log)
{
    struct mpb_append_options options = small_segments();
    struct mpb_append_result result;
    struct mpb_marker marker = {
        .producer_id = 2, .commit = true, .now_ms = 6000, .leader_epoch = -1, .entry = MARKER_ENTRY};
    options.segment_bytes = 1 << 20;
    mpb_append_marker(log, &options, &marker, &result);
    note(result.error);
}

static void prepare_guarded(struct fixture *f)
{
    prepare_transactions(f);
    note_guard(&f->log);
}

static void prepare_verified(struct fixture *f)
{
    prepare_guarded(f);
    verify(&f->log);
}

static const struct pair PAIRS[] = {
    {"append, then leads", prepare_follower, run_fetched_batches, lead_on},
    {"append, then follows another", prepare_follower, run_fetched_batches, follow_on},
    {"append, then stops", prepare_follower, run_fetched_batches, run_stop},
    {"append that rolls, then leads", prepare_follower, run_fetched_and_rolled, lead_on},
    {"append, then truncates", prepare_follower, run_fetched_batches, truncate_all},
    {"append, then begins anew", prepare_follower, run_fetched_batches, run_start_beyond},
    {"leads, then append", prepare_follower, lead_on, run_fetched_batches},
    {"follows another, then append", prepare_follower, follow_on, run_fetched_batches},
    {"truncates, then append", prepare_follower, truncate_all, run_fetched_batches},
    {"begins anew, then append", prepare_follower, run_start_beyond, run_fetched_batches},
    {"truncates, then leads", prepare_follower_of_transactions, run_truncate_transactions, lead_on},
    {"truncates, then follows", prepare_follower_of_transactions, run_truncate_marker, follow_on},
    {"truncates below start, then leads", prepare_segments_of_follower, run_truncate_below_start, lead_on},
    {"truncates below all, then leads", prepare_later_segments, run_truncate_below_all, lead_on},
    {"begins anew, then leads", prepare_segments_of_follower, run_start_beyond, lead_on},
    {"leads, then truncates", prepare_follower_of_transactions, lead_on, run_truncate_transactions},
    {"leads, then begins anew", prepare_segments_of_follower, lead_on, run_start_beyond},
    {"guards, then ends", prepare_transactions, note_guard, end},
    {"verifies, then ends", prepare_guarded, verify, end},
    {"ends, then verifies", prepare_guarded, end, verify},
    {"verifies, then opens", prepare_guarded, verify, open_one},
    {"ends, then opens", prepare_verified, end, open_one},
    {"opens, then ends", prepare_verified, open_one, end},
};
enum { PAIR_COUNT = sizeof PAIRS / sizeof *PAIRS };

/* What tells apart how far the first one was committed. */
struct mark {
    int64_t leo, log_start, active_base;
    int32_t leader_epoch, role;
    uint64_t truncations, open_transactions, txn_epochs;
};

struct outcome {
    struct mark mark;
    struct log_world want; /* with the second one */
    int error;             /* of that */
    long reached;
};

static struct trial trial;
static struct film *first_film, *second_film;
static struct outcome outcome[MOST_OUTCOMES];
static uint32_t outcomes;
static const struct pair *the_pair;
static long worlds, second_worlds;

static void run_either(struct mpb_log *log)
{
    (log->slot == MPB_SLOT_HANDLERS ? the_pair->first : the_pair->second)(log);
}

static struct mark mark_of(struct fixture *f)
{
    const struct mpb_partition *row = &f->core.partitions[0];
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    const struct mpb_producer *producer = producer_of(row, f->core.producers, 2);
    struct mark mark;
    memset(&mark, 0, sizeof mark);
    mark.leo = now->leo;
    mark.log_start = now->log_start;
    mark.active_base = now->active_base;
    mark.leader_epoch = now->leader_epoch;
    mark.role = now->role;
    mark.truncations = now->truncations;
    mark.open_transactions = now->open_transactions;
    mark.txn_epochs = producer == NULL ? UINT64_MAX : mpb_load_relaxed(&producer->txn_epochs);
    return mark;
}

/* The second one by a process that nobody kills, and one more append, so that a wrong state shows. */
static void complete(uint32_t slot, bool repair_first)
{
    static const struct batch_spec AFTER = {.records = 3, .producer_id = -1, .timestamp = 3000, .payload = 300};
    struct mpb_append_options options = small_segments();
    options.segment_bytes = 1 << 20;
    trial.slot = slot;
    trial.repair_first = repair_first;
    trial_process(&trial);
    bool leads = mpb_partition_in_force(&trial.f.core.partitions[0])->role == MPB_ROLE_LEADER;
    CHECK_EQ(append_batch(&trial.f.log, &options, 0, AFTER_ENTRY, 0, &AFTER).error,
             leads ? 0 : MPB_ERR_NOT_LEADER_OR_FOLLOWER);
}

/* Nobody dies: the first one does so much of its work, and perhaps rolls, which is a commit of its own. */
static void expect(size_t fetched, bool does_first, bool rolls)
{
    struct outcome *to = &outcome[outcomes];
    trial_reset(&trial, &trial.before);
    trial.f.log.slot = MPB_SLOT_HANDLERS;
    fetched_most = fetched;
    if (does_first)
        the_pair->first(&trial.f.log);
    if (rolls)
        CHECK_EQ(mpb_roll(&trial.f.log, 0, 6000), 0);
    fetched_most = SIZE_MAX;
    to->mark = mark_of(&trial.f);
    for (uint32_t i = 0; i < outcomes; i++)
        if (memcmp(&outcome[i].mark, &to->mark, sizeof to->mark) == 0)
            return;
    complete(MPB_SLOT_HANDLERS + 1, false);
    to->error = scenario_error;
    to->reached = 0;
    world_save(&trial.f, &to->want);
    CHECK(++outcomes < MOST_OUTCOMES);
}

static void expect_all(void)
{
    const struct fetched *all = fetched_batches();
    bool rolls = the_pair->first == run_fetched_and_rolled;
    outcomes = 0;
    expect(0, false, false);
    for (size_t at = 0; rolls || the_pair->first == run_fetched_batches;) {
        expect(at, true, false);
        if (rolls)
            expect(at, true, true);
        if (at == all->length)
            return;
        at += (size_t)mpb_be32(all->bytes + at + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES;
    }
    expect(SIZE_MAX, true, false);
}

static struct outcome *outcome_at(uint32_t still)
{
    film_restore(&trial, first_film, still);
    trial.f.log.slot = MPB_SLOT_HANDLERS + 1;
    world_is_whole(&trial.f);
    const struct mark mark = mark_of(&trial.f);
    uint32_t at = 0;
    while (at < outcomes && memcmp(&outcome[at].mark, &mark, sizeof mark) != 0)
        at++;
    CHECK(at < outcomes);
    outcome[at].reached++;
    return &outcome[at];
}

/* The second one is filmed in its repair and its own work after the first one's death; a third process completes it. */
static void die_twice(uint32_t first, const struct outcome *want)
{
    film_restore(&trial, first_film, first);
    trial.slot = MPB_SLOT_HANDLERS + 1;
    trial.repair_first = first % 2 == 0;
    film_process(&trial, second_film);
    uint32_t stride = second_film->stills / SECOND_STILLS + 1;
    for (uint32_t i = first % stride; i < second_film->stills; i += stride, second_worlds++) {
        film_restore(&trial, second_film, i);
        complete(MPB_SLOT_HANDLERS + 2, i / stride % 2 == 0);
        CHECK_EQ(scenario_error, want->error);
        world_compare(&trial.f, &want->want);
    }
}

static void begin(const struct pair *pair, struct scenario *scenario)
{
    *scenario = (struct scenario){pair->name, pair->prepare, run_either, 1, false};
    memset(&trial, 0, sizeof trial);
    the_pair = pair;
    trial.scenario = scenario;
    fixture_open(&trial.f);
    pair->prepare(&trial.f);
    for (uint32_t entry = SCENARIO_ENTRY; entry <= MARKER_ENTRY; entry++)
        fixture_fill(&trial.f, entry, 1);
    world_save(&trial.f, &trial.before);
}

static void run(const struct pair *pair, bool all)
{
    struct scenario scenario;
    begin(pair, &scenario);
    expect_all();
    trial_reset(&trial, &trial.before);
    trial.slot = MPB_SLOT_HANDLERS;
    film_process(&trial, first_film);
    uint32_t stride = all ? 1 : first_film->stills / SECOND_FILMS + 1;
    worlds = second_worlds = 0;
    for (uint32_t i = 0; i < first_film->stills; i++, worlds++) {
        struct outcome *want = outcome_at(i);
        film_restore(&trial, first_film, i);
        complete(MPB_SLOT_HANDLERS + 1, i % 2 == 0);
        CHECK_EQ(scenario_error, want->error);
        world_compare(&trial.f, &want->want);
        if (i % stride == stride / 2)
            die_twice(i, want);
    }
    trial_end(&trial);
    long ends = 0;
    for (uint32_t i = 0; i < outcomes; i++)
        ends += outcome[i].reached > 0;
    printf("  %-34s %5ld instructions (%4ld worlds) with %ld ends; the second one again in %5ld worlds\n", pair->name,
           first_film->steps, worlds, ends, second_worlds);
    fflush(stdout);
    CHECK(worlds > 10 && second_worlds > 0 && ends > 1);
}

int main(int argc, char **argv)
{
    int only = argc > 1 ? atoi(argv[1]) : -1;
    bind_now(argv);
    if (!STEPPING) {
        puts("follower pairs: NOT RUN, no trap flag here or a sanitizer in the way");
        return 0;
    }
    first_film = film_new();
    second_film = film_new();
    for (int i = 0; i < PAIR_COUNT; i++)
        if (only < 0 || only == i)
            run(&PAIRS[i], getenv("LONG") != NULL);
    printf("follower pairs: %lu checks\n", checks_made);
    return 0;
}
