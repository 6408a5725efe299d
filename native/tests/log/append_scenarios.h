/* The operations whose every instruction is a crash point. Each begins from the same saved world; `run` is what the
 * victim does and what its successor does again with the same request. */
#ifndef MPB_TESTS_APPEND_SCENARIOS_H
#define MPB_TESTS_APPEND_SCENARIOS_H

#include "tests/log/log_world.h"
#include "log/append_follower.h"
#include "log/delete_records.h"
#include "log/isr.h"
#include "log/marker.h"
#include "log/move.h"
#include "log/repair.h"
#include "log/retain.h"
#include "log/roll.h"
#include "log/start_at.h"
#include "log/swap.h"
#include "log/txn_verify.h"
#include "log/truncate.h"

enum { SCENARIO_ENTRY = 1, AFTER_ENTRY = 2 };
enum { SWAP_END = 32 }; /* base of the third segment of prepare_segments */

struct scenario {
    const char *name;
    void (*prepare)(struct fixture *f);
    void (*run)(struct mpb_log *log);
    uint32_t cells; /* of the request */
    bool cold;      /* the victim has no descriptor open */
};

static int scenario_error; /* first one of the last run */

static void note(int error)
{
    if (scenario_error == 0)
        scenario_error = error;
}

static struct mpb_append_options small_segments(void)
{
    struct mpb_append_options options = FIX_OPTIONS;
    options.segment_bytes = 1000;
    options.index_interval_bytes = 250;
    return options;
}

static struct batch_spec numbered(int64_t producer_id, int32_t sequence, uint8_t mark)
{
    return (struct batch_spec){.records = 2,
                               .producer_id = producer_id,
                               .sequence = sequence,
                               .timestamp = 1000 + mark,
                               .payload = 60,
                               .mark = mark};
}

/* Six batches of producer 1 and three of none in each of the first five partitions; no segment is full yet. */
static void prepare_some(struct fixture *f)
{
    struct mpb_append_options options = small_segments();
    options.segment_bytes = 1 << 20;
    for (uint32_t p = 0; p < 5; p++) {
        fixture_partition(f, p);
        for (int i = 0; i < 9; i++) {
            struct batch_spec spec = numbered(i < 6 ? 1 : -1, 2 * i, (uint8_t)(i + 1));
            CHECK_EQ(append_batch(&f->log, &options, p, MPB_NO_REQUEST, 0, &spec).error, 0);
        }
    }
}

/* No row of a producer is free: partition `p` has all but those of prepare_some, each with one batch. */
static void fill_producers(struct fixture *f, uint32_t p)
{
    struct mpb_append_options options = small_segments();
    options.segment_bytes = 1 << 20;
    prepare_some(f);
    for (int i = 0; i < FIX_PRODUCERS - 5; i++) {
        struct batch_spec spec = numbered(100 + i, 0, 40);
        CHECK_EQ(append_batch(&f->log, &options, p, MPB_NO_REQUEST, 0, &spec).error, 0);
    }
}

static void prepare_full_of_own(struct fixture *f) { fill_producers(f, 0); }
static void prepare_full_of_others(struct fixture *f) { fill_producers(f, 1); }

/* Four segments in partition 0, with three producers. */
static void prepare_segments(struct fixture *f)
{
    struct mpb_append_options options = small_segments();
    fixture_partition(f, 0);
    for (int i = 0; i < 30; i++) {
        struct batch_spec spec = numbered(1 + i % 3, 2 * (i / 3), (uint8_t)(i + 1));
        CHECK_EQ(append_batch(&f->log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    }
}

/* Of the first two segments, cleaned: their first and their last batch. */
static void prepare_swap(struct fixture *f)
{
    static const char *const SUFFIX[] = {".log", ".index", ".timeindex"};
    const struct mpb_segment_list *list;
    prepare_segments(f);
    const struct mpb_partition *row = &f->core.partitions[0];
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    CHECK_EQ(mpb_segment_list_get(&f->log, row, now, &list), 0);
    for (int file = 0; file < MPB_SEGMENT_FILES; file++) {
        char path[64];
        uint8_t bytes[4096];
        snprintf(path, sizeof path, "t-0/%020d%s.compacted", 0, SUFFIX[file]);
        int to = openat(f->log.dir_fd[0], path, O_CREAT | O_WRONLY, 0644);
        for (uint32_t i = 0; file == 0 && i < 2; i++) {
            int64_t length = mpb_segment_bytes(&f->log, row, now, list->bases[i], MPB_FILE_LOG);
            int fd = mpb_segment_fd(&f->log, row, now, list->bases[i], MPB_FILE_LOG);
            int64_t batch = MPB_BATCH_HEADER_BYTES + 60, at = i == 0 ? 0 : length - batch;
            CHECK_EQ(pread(fd, bytes, (size_t)batch, at), batch);
            CHECK_EQ(write(to, bytes, (size_t)batch), batch);
        }
        close(to);
    }
}

static struct mpb_move the_move; /* what prepare_move has copied */

/* A copy of partition 0 in the other log directory, which lacks the end of the active segment's files. */
static void prepare_move(struct fixture *f)
{
    static uint8_t bytes[1 << 16];
    static const char *const SUFFIX[] = {"log", "index", "timeindex", "txnindex"};
    const struct mpb_segment_list *list;
    char name[96], path[160];
    prepare_segments(f);
    f->moves = true;
    const struct mpb_partition *row = &f->core.partitions[0];
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    CHECK_EQ(mpb_segment_list_get(&f->log, row, now, &list), 0);
    CHECK_EQ(mpb_move_ask(&f->log, 0, NULL, 1), 0);
    world_move_name(f, 3, name);
    CHECK_EQ(mkdirat(f->log.dir_fd[0], name, 0755), 0);
    the_move = (struct mpb_move){.to = 1,
                                 .number = mpb_load_relaxed(&row->move_number),
                                 .truncations = now->truncations,
                                 .segment_count = now->segment_count,
                                 .active_base = now->active_base,
                                 .lengths = {now->position / 2, now->index_bytes / 2, 0, 0}};
    for (uint32_t i = 0; i < list->count; i++)
        for (int file = 0; file < MPB_SEGMENT_FILES; file++) {
            int64_t length = mpb_segment_bytes(&f->log, row, now, list->bases[i], (enum mpb_segment_file)file);
            int from = mpb_segment_fd(&f->log, row, now, list->bases[i], (enum mpb_segment_file)file);
            snprintf(path, sizeof path, "%s/%020lld.%s", name, (long long)list->bases[i], SUFFIX[file]);
            int to = openat(f->log.dir_fd[0], path, O_CREAT | O_WRONLY, 0644);
            length = i + 1 < list->count ? length : (int64_t)the_move.lengths[file];
            CHECK_EQ(pread(from, bytes, (size_t)length, 0), length);
            CHECK_EQ(write(to, bytes, (size_t)length), length);
            close(to);
        }
}

static void append_to(struct mpb_log *log, uint32_t partitions, int64_t producer_id, int32_t sequence, int32_t segment)
{
    struct mpb_append_options options = small_segments();
    options.segment_bytes = segment;
    for (uint32_t p = 0; p < partitions; p++) {
        struct batch_spec spec = numbered(producer_id, sequence, (uint8_t)(50 + p));
        note(append_batch(log, &options, p, SCENARIO_ENTRY, p, &spec).error);
    }
}

static void run_plain(struct mpb_log *log) { append_to(log, 1, -1, 0, 1 << 20); }
static void run_idempotent(struct mpb_log *log) { append_to(log, 1, 1, 12, 1 << 20); }
static void run_new_producer(struct mpb_log *log) { append_to(log, 1, 4, 0, 1 << 20); }
static void run_duplicate(struct mpb_log *log) { append_to(log, 1, 1, 10, 1 << 20); }
static void run_three(struct mpb_log *log) { append_to(log, 3, -1, 0, 1 << 20); }
static void run_five(struct mpb_log *log) { append_to(log, 5, 1, 12, 1 << 20); }
static void run_append_and_roll(struct mpb_log *log) { append_to(log, 1, 1, 12, 700); }
static void run_roll(struct mpb_log *log) { note(mpb_roll(log, 0, 7000)); }
static void run_log_start(struct mpb_log *log)
{
    int64_t start = -1;
    note(mpb_delete_records(log, 0, NULL, 9, &start));
    if (start != 9 || mpb_load_relaxed(&log->core->partitions[0].start_asked) != 9) /* or nobody would write it down */
        note(MPB_ERR_UNKNOWN_SERVER_ERROR);
}
static void run_truncate(struct mpb_log *log) { note(mpb_truncate(log, 0, 24)); }
static void run_truncate_little(struct mpb_log *log) { note(mpb_truncate(log, 0, 58)); }
static void run_swap(struct mpb_log *log)
{
    int error = mpb_swap(log, 0, NULL, 0, SWAP_END, 2);
    note(error == MPB_SWAP_CHANGED ? 0
                                   : error); /* a predecessor got beyond the first commit: what is there is compared */
}
static void run_move(struct mpb_log *log)
{
    int error = mpb_move_end(log, 0, NULL, &the_move);
    note(error == MPB_MOVE_CHANGED ? 0 : error); /* as above */
}
static void run_retain(struct mpb_log *log)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = 1900, .now_ms = 9000};
    uint32_t count;
    note(mpb_retain(log, 0, &rules, removed, &count));
}

static struct batch_spec in_transaction(int64_t producer_id, int32_t sequence, uint8_t mark)
{
    struct batch_spec spec = numbered(producer_id, sequence, mark);
    spec.transactional = true;
    return spec;
}

static void append_in_transaction(struct mpb_log *log, int64_t producer_id, int32_t sequence)
{
    struct batch_spec spec = in_transaction(producer_id, sequence, 60);
    struct mpb_append_options options = small_segments();
    options.segment_bytes = 1 << 20;
    note(append_batch(log, &options, 0, SCENARIO_ENTRY, 0, &spec).error);
}

/* In partition 0, producer 1 may begin a transaction, producers 3 and 4 have one open, and 3 has aborted one before. */
static void prepare_transactions(struct fixture *f)
{
    struct mpb_append_options options = small_segments();
    prepare_some(f);
    CHECK_EQ(mpb_txn_verify(&f->log, 0, NULL, 1, 0, MPB_NO_GUARD), 0);
    for (int i = 0; i < 3; i++) {
        struct batch_spec spec = in_transaction(i == 1 ? 4 : 3, i == 2 ? 2 : 0, (uint8_t)(20 + i));
        struct mpb_marker marker = {.producer_id = 3, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
        struct mpb_append_result result;
        options.segment_bytes = 1 << 20;
        CHECK_EQ(mpb_txn_verify(&f->log, 0, NULL, spec.producer_id, 0, MPB_NO_GUARD), 0);
        CHECK_EQ(append_batch(&f->log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        if (i == 0)
            mpb_append_marker(&f->log, &options, &marker, &result);
    }
    CHECK_EQ(mpb_partition_in_force(&f->core.partitions[0])->open_transactions, 2);
}

static void append_marker(struct mpb_log *log, int64_t producer_id, int16_t epoch, bool commit, int32_t segment)
{
    struct mpb_append_options options = small_segments();
    struct mpb_append_result result;
    struct mpb_marker marker = {.producer_id = producer_id,
                                .producer_epoch = epoch,
                                .coordinator_epoch = 7,
                                .commit = commit,
                                .now_ms = 6000,
                                .leader_epoch = -1,
                                .entry = SCENARIO_ENTRY};
    options.segment_bytes = segment;
    mpb_append_marker(log, &options, &marker, &result);
    note(result.error);
}

static void run_verify(struct mpb_log *log) { note(mpb_txn_verify(log, 0, NULL, 2, 0, MPB_NO_GUARD)); }
static void run_open(struct mpb_log *log) { append_in_transaction(log, 1, 12); }
static void run_transactional(struct mpb_log *log) { append_in_transaction(log, 4, 2); }
static void run_commit(struct mpb_log *log) { append_marker(log, 4, 0, true, 1 << 20); }
static void run_abort(struct mpb_log *log) { append_marker(log, 4, 1, false, 1 << 20); }
static void run_abort_later(struct mpb_log *log) { append_marker(log, 3, 0, false, 1 << 20); }
static void run_abort_and_roll(struct mpb_log *log) { append_marker(log, 4, 0, false, 700); }
static void run_marker_of_none(struct mpb_log *log) { append_marker(log, 2, 0, false, 1 << 20); }

static void prepare_replicated(struct fixture *f)
{
    fixture_replicate(f);
    prepare_some(f);
}

/* A leader of three, which one of the others has followed from the start. */
static void prepare_leader_of_three(struct fixture *f)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 4, 2);
    prepare_replicated(f);
    CHECK_EQ(mpb_become(&f->log, 0, &role), 0);
    struct mpb_append_options options = small_segments();
    struct batch_spec spec = numbered(-1, 0, 44);
    options.segment_bytes = 1 << 20;
    CHECK_EQ(append_batch(&f->log, &options, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    CHECK_EQ(mpb_partition_in_force(&f->core.partitions[0])->hw, 18);
}

static void become(struct mpb_log *log, enum mpb_replica_role kind, uint32_t in_sync)
{
    struct mpb_new_role role = fixture_role(kind, 5, in_sync);
    role.replicas[2] = 9; /* another list of replicas */
    note(mpb_become(log, 0, &role));
}

static void fetch_as(struct mpb_log *log, int32_t broker, int64_t offset)
{
    const struct mpb_follower_fetch fetch = {
        .broker = broker, .leader_epoch = 4, .offset = offset, .last_epoch = -1, .now_ms = 9000};
    struct mpb_follower_answer answer;
    mpb_follower_fetched(log, 0, &fetch, &answer);
    note(answer.error);
}

static void run_lead(struct mpb_log *log) { become(log, MPB_ROLE_LEADER, 2); }
static void run_follow(struct mpb_log *log) { become(log, MPB_ROLE_FOLLOWER, 0); }
static void run_stop(struct mpb_log *log) { note(mpb_stop(log, 0)); }
static void run_fetched(struct mpb_log *log) { fetch_as(log, FIX_OTHER, 20); }
static void run_joins(struct mpb_log *log) { fetch_as(log, FIX_THIRD, 20); }
static void run_answered(struct mpb_log *log)
{
    const struct mpb_isr_proposal answer = {.leader_epoch = 4, .partition_epoch = 9, .isr = {FIX_SELF}, .isr_count = 1};
    note(mpb_isr_answered(log, &answer, 0));
}

/* ---- a follower: batches as a leader would send them, some in a later epoch, some in transactions */
struct fetched {
    uint8_t bytes[4096];
    size_t length;
};

static void add_batch(struct fetched *to, const struct batch_spec *spec, int64_t base, int32_t epoch)
{
    uint8_t *at = to->bytes + to->length;
    to->length += make_batch(at, spec);
    mpb_put_be64(at + MPB_BATCH_BASE_OFFSET, base);
    mpb_put_be32(at + MPB_BATCH_LEADER_EPOCH, epoch);
}

static const struct fetched *fetched_batches(void)
{
    static struct fetched made;
    if (made.length == 0) {
        struct batch_spec plain = numbered(1, 12, 70), begun = in_transaction(2, 0, 71),
                          more = in_transaction(2, 2, 72), first = numbered(-1, -1, 73), joined = numbered(-1, -1, 74);
        add_batch(&made, &plain, 18, 3);
        add_batch(&made, &begun, 22, 4); /* behind a gap that compaction left */
        add_batch(&made, &more, 24, 5);
        add_batch(&made, &first, 26, 5); /* written as one with the next */
        add_batch(&made, &joined, 28, 5);
    }
    return &made;
}

static void prepare_follower(struct fixture *f)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0);
    prepare_replicated(f);
    CHECK_EQ(mpb_become(&f->log, 0, &role), 0);
}

static size_t fetched_most = SIZE_MAX; /* bytes that the leader has sent */

/* The fetcher's successor goes on from the end, wherever that is. */
static void append_fetched(struct mpb_log *log, int32_t segment)
{
    const struct fetched *all = fetched_batches();
    struct mpb_append_options options = small_segments();
    struct mpb_follower_appended out;
    options.segment_bytes = segment;
    options.index_interval_bytes = 600;
    int error = mpb_partition_lock(log, 0);
    if (error != 0) {
        note(error);
        return;
    }
    int64_t leo = mpb_partition_in_force(&log->core->partitions[0])->leo;
    mpb_partition_unlock(log, 0);
    size_t at = 0, length = all->length < fetched_most ? all->length : fetched_most;
    while (at < length && mpb_be64(all->bytes + at) < leo)
        at += (size_t)mpb_be32(all->bytes + at + MPB_BATCH_LENGTH) + MPB_BATCH_OVERHEAD_BYTES;
    const struct mpb_follower_append request = {.leader_epoch = 5,
                                                .offset = leo,
                                                .records = all->bytes + at,
                                                .length = length - at,
                                                .leader_hw = 24,
                                                .leader_log_start = 2,
                                                .now_ms = 6000};
    mpb_append_follower(log, &options, &request, &out);
    note(out.error);
}

/* What a follower with transactions may lose: the end of one, another wholly, and an epoch. */
static void prepare_follower_of_transactions(struct fixture *f)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0),
                              leader = fixture_role(MPB_ROLE_LEADER, 4, 1);
    struct mpb_append_options options = small_segments();
    struct mpb_append_result result;
    struct mpb_marker marker = {.producer_id = 3, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    fixture_replicate(f);
    prepare_transactions(f);
    CHECK_EQ(mpb_become(&f->log, 0, &leader), 0);
    options.segment_bytes = 1 << 20;
    mpb_append_marker(&f->log, &options, &marker, &result);
    CHECK_EQ(result.error, 0);
    CHECK_EQ(mpb_partition_in_force(&f->core.partitions[0])->open_transactions, 1);
    CHECK_EQ(mpb_become(&f->log, 0, &role), 0);
}

/* A leader whose followers have all that is below the two open transactions' ends. */
static void prepare_leader_of_transactions(struct fixture *f)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 4, 2);
    fixture_replicate(f);
    prepare_transactions(f);
    CHECK_EQ(mpb_become(&f->log, 0, &role), 0);
}

/* One of them is over, which nobody else knows: it holds the last stable offset as if it were not. */
static void prepare_ended_above_high_watermark(struct fixture *f)
{
    struct mpb_append_options options = small_segments();
    struct mpb_append_result result;
    struct mpb_marker marker = {
        .producer_id = 4, .commit = true, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    prepare_leader_of_transactions(f);
    options.segment_bytes = 1 << 20;
    mpb_append_marker(&f->log, &options, &marker, &result);
    CHECK_EQ(result.error, 0);
    const struct mpb_partition_copy *now = mpb_partition_in_force(&f->core.partitions[0]);
    CHECK_EQ(now->open_transactions, 1);
    CHECK(now->hw < now->leo && now->lso == 21);
}

static void prepare_segments_of_follower(struct fixture *f)
{
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0);
    fixture_replicate(f);
    prepare_segments(f);
    CHECK_EQ(mpb_partition_set_log_start(&f->log, 0, 10), 0);
    CHECK_EQ(mpb_become(&f->log, 0, &role), 0);
}

/* Without its first segment. */
static void prepare_later_segments(struct fixture *f)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    const struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = -1, .now_ms = 9000};
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0);
    uint32_t count;
    fixture_replicate(f);
    prepare_segments(f);
    CHECK_EQ(mpb_partition_set_log_start(&f->log, 0, SWAP_END), 0);
    CHECK_EQ(mpb_retain(&f->log, 0, &rules, removed, &count), 0);
    CHECK(count > 0);
    CHECK_EQ(mpb_become(&f->log, 0, &role), 0);
}

static void truncate_to(struct mpb_log *log, int64_t offset) { note(mpb_truncate_follower(log, 0, offset, 5, 7000)); }

static void run_fetched_batches(struct mpb_log *log) { append_fetched(log, 1 << 20); }
static void run_fetched_and_rolled(struct mpb_log *log) { append_fetched(log, 1300); }
static void run_truncate_transactions(struct mpb_log *log) { truncate_to(log, 24); }
static void run_truncate_marker(struct mpb_log *log) { truncate_to(log, 25); }
static void run_marker_replicated(struct mpb_log *log) { fetch_as(log, FIX_OTHER, 26); }
static void run_truncate_below_start(struct mpb_log *log) { truncate_to(log, 4); }
static void run_truncate_below_all(struct mpb_log *log) { truncate_to(log, 4); }
static void run_start_beyond(struct mpb_log *log) { note(mpb_start_at(log, 0, 1000, 5, 7000)); }

static const struct scenario SCENARIOS[] = {
    {"plain append", prepare_some, run_plain, 1, false},
    {"plain append, cold descriptors", prepare_some, run_plain, 1, true},
    {"idempotent append", prepare_some, run_idempotent, 1, false},
    {"append of a new producer", prepare_some, run_new_producer, 1, false},
    {"duplicate", prepare_some, run_duplicate, 1, false},
    {"three partitions", prepare_some, run_three, 3, false},
    {"five partitions, idempotent", prepare_some, run_five, 5, false},
    {"append that rolls", prepare_some, run_append_and_roll, 1, false},
    {"roll", prepare_some, run_roll, 0, false},
    {"log start", prepare_some, run_log_start, 0, false},
    {"truncate", prepare_segments, run_truncate, 0, false},
    {"truncate within the segment", prepare_segments, run_truncate_little, 0, false},
    {"retain", prepare_segments, run_retain, 0, false},
    {"swap", prepare_swap, run_swap, 0, false},
    {"move", prepare_move, run_move, 0, false},
    {"producer in another's row", prepare_full_of_own, run_new_producer, 1, false},
    {"producer in another partition's", prepare_full_of_others, run_new_producer, 1, false},
    {"verify", prepare_transactions, run_verify, 0, false},
    {"append that opens a transaction", prepare_transactions, run_open, 1, false},
    {"append in a transaction", prepare_transactions, run_transactional, 1, false},
    {"commit", prepare_transactions, run_commit, 1, false},
    {"abort of a raised epoch", prepare_transactions, run_abort, 1, false},
    {"abort, cold descriptors", prepare_transactions, run_abort_later, 1, true},
    {"first abort of a segment", prepare_transactions, run_abort_and_roll, 1, false},
    {"marker without a transaction", prepare_transactions, run_marker_of_none, 1, false},
    {"append of a cluster's leader", prepare_replicated, run_idempotent, 1, false},
    {"become leader", prepare_replicated, run_lead, 0, false},
    {"become follower", prepare_replicated, run_follow, 0, false},
    {"stop", prepare_replicated, run_stop, 0, false},
    {"follower's fetch", prepare_leader_of_three, run_fetched, 0, false},
    {"follower's fetch that joins", prepare_leader_of_three, run_joins, 0, false},
    {"answer about the ISR", prepare_leader_of_three, run_answered, 0, false},
    {"follower's append", prepare_follower, run_fetched_batches, 0, false},
    {"follower's append that rolls", prepare_follower, run_fetched_and_rolled, 0, false},
    {"truncation of transactions", prepare_follower_of_transactions, run_truncate_transactions, 0, false},
    {"truncation that opens one again", prepare_follower_of_transactions, run_truncate_marker, 0, false},
    {"commit of a cluster's leader", prepare_leader_of_transactions, run_commit, 1, false},
    {"follower's fetch that has a marker", prepare_ended_above_high_watermark, run_marker_replicated, 0, false},
    {"truncation below log start", prepare_segments_of_follower, run_truncate_below_start, 0, false},
    {"truncation below the segments", prepare_later_segments, run_truncate_below_all, 0, false},
    {"start beyond the end", prepare_segments_of_follower, run_start_beyond, 0, false},
};
enum { SCENARIO_COUNT = sizeof SCENARIOS / sizeof *SCENARIOS };

/* One scenario at work: fixture, the world before it and the world as it must be afterwards. */
struct trial {
    struct fixture f;
    const struct scenario *scenario;
    struct log_world before, want;
    uint32_t slot;     /* of the next process */
    bool repair_first; /* the successor repairs its predecessor's slot before it runs the request again */
};

static void trial_warm(struct trial *t)
{
    t->f.log.producer_hint = t->f.log.producers_taken_seen = t->f.log.producers_freed_seen =
        0; /* each is a new process */
    t->f.log.room_hint = t->f.log.room_freed_seen = t->f.log.room_pause = 0;
    for (uint32_t i = 0; i < FIX_PARTITIONS && !t->scenario->cold; i++) {
        const struct mpb_partition *row = &t->f.core.partitions[i];
        for (int file = 0; mpb_load_relaxed(&row->flags) != 0 && file < MPB_SEGMENT_FILES; file++)
            CHECK(t->f.moves ||
                  mpb_segment_fd(&t->f.log, row, mpb_partition_in_force(row), mpb_partition_in_force(row)->active_base,
                                 (enum mpb_segment_file)file) >= 0);
    }
}

/* What a process of the next slot does: the request, perhaps after a repair. */
static void trial_process(void *argument)
{
    struct trial *t = argument;
    t->f.log.slot = t->slot;
    scenario_error = 0;
    if (t->repair_first)
        mpb_repair_slot(&t->f.log, t->slot - 1);
    t->scenario->run(&t->f.log);
}

/* The request by a process that nobody kills, then one more append by it, so that a wrong state shows. */
static void trial_complete(struct trial *t)
{
    static const struct batch_spec AFTER = {
        .records = 3, .producer_id = 2, .sequence = 100, .epoch = 1, .timestamp = 3000, .payload = 300, .mark = 200};
    struct batch_spec first = AFTER;
    first.sequence = 0; /* a new epoch begins at 0, whatever the scenario left */
    if (t->repair_first)
        world_is_whole(&t->f);
    trial_process(t);
    CHECK_EQ(scenario_error, 0);
    struct mpb_append_options options = small_segments();
    options.segment_bytes = 1 << 20;
    bool leads = mpb_partition_in_force(&t->f.core.partitions[0])->role == MPB_ROLE_LEADER;
    CHECK_EQ(append_batch(&t->f.log, &options, 0, AFTER_ENTRY, 0, &first).error,
             leads ? 0 : MPB_ERR_NOT_LEADER_OR_FOLLOWER);
}

static void trial_reset(struct trial *t, const struct log_world *world)
{
    world_restore(&t->f, world);
    trial_warm(t);
}

static inline void trial_begin(struct trial *t, const struct scenario *scenario)
{
    memset(t, 0, sizeof *t);
    t->scenario = scenario;
    fixture_open(&t->f);
    scenario->prepare(&t->f);
    fixture_fill(&t->f, SCENARIO_ENTRY, scenario->cells);
    fixture_fill(&t->f, AFTER_ENTRY, 1);
    world_save(&t->f, &t->before);
    t->slot = MPB_SLOT_HANDLERS;
    trial_complete(t);
    world_save(&t->f, &t->want);
    trial_reset(t, &t->before);
}

static inline void trial_end(struct trial *t) { fixture_close(&t->f); }

#endif
