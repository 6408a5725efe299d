/* The log's own bounds: what lies behind a table is not looked at, full tables give way as they should, sizes of batches
 * about the limit of one write, and what happens to a partition while another has it, or in an empty or offline one. */
#include "tests/log/append_scenarios.h"

#include <errno.h>
#include <limits.h>

#include "log/aborted.h"
#include "log/ended.h"
#include "log/log_flush.h"
#include "log/log_io.h"
#include "log/producer.h"
#include "log/transaction.h"
#include "log/txn_index.h"
#include "shm/doorbell.h"
#include "tests/log/failing_calls.h"
#include "tests/stepping/guarded.h"

enum { WAITER = 9, ENTRY = 2 };

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }
static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row()); }

static bool rung(void)
{
    bool found = mpb_load_acquire(&row()->watchers) == 0;
    mpb_watch_partition(&f.core, 0, WAITER);
    return found;
}

static struct mpb_append_result append(uint32_t ordinal, const struct batch_spec *spec)
{
    return append_batch(&f.log, &FIX_OPTIONS, ordinal, MPB_NO_REQUEST, 0, spec);
}

/* ------------------------------------------------------------------ behind the tables */
/* Behind the last place of a row, and behind the last entry, there is nothing that anybody may read. */
static void ends_of_tables(void)
{
    static struct mpb_replicas none;
    struct guarded guarded = guarded_open(sizeof none);
    struct mpb_replicas *replicas = (void *)guarded_copy(&guarded, &none, sizeof none);
    for (int i = 0; i <= MPB_ENDED_PLACES; i++) {
        mpb_ended_note(replicas, 10, 100 + i, 200 + i);
        CHECK_EQ(mpb_ended_least(replicas, 10), 100);
    }
    mpb_ended_cut(replicas, 150);
    CHECK(mpb_ended_least(replicas, 149) == 100 && mpb_ended_least(replicas, 150) == INT64_MAX);
    memset(replicas, 0, sizeof none);
    mpb_ended_note(replicas, 0, 5, 9);
    mpb_ended_cut(replicas, 3); /* neither its beginning nor its end is left, at offset 0 neither */
    CHECK(mpb_load_relaxed(&replicas->ended_end) == 3 && mpb_ended_least(replicas, 0) == INT64_MAX);
    fixture_open(&f);
    guarded = guarded_open(FIX_ENTRIES * sizeof *f.core.entries);
    struct mpb_entry *entries = f.core.entries;
    f.core.entries = (void *)guarded_copy(&guarded, entries, FIX_ENTRIES * sizeof *entries);
    uint64_t fill = fixture_fill(&f, FIX_ENTRIES - 1, 1);
    CHECK(mpb_entry_fill_number(&f.core, FIX_ENTRIES - 1) == fill && mpb_entry_fill_number(&f.core, FIX_ENTRIES) == 0);
    CHECK(mpb_cell_find(&f.core, FIX_ENTRIES - 1, 0, fill) != NULL);
    CHECK(mpb_cell_find(&f.core, FIX_ENTRIES, 0, 0) == NULL);
    f.core.entries = entries;
    fixture_close(&f);
}

/* The cache of descriptors, with all places taken: those that go are closed, and what lies behind the last is no place. */
static void ends_of_the_cache(void)
{
    struct mpb_log few;
    const char *dirs[] = {f.dir};
    char path[64];
    uint32_t bad;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_log_open(&few, &f.core, MPB_SLOT_HANDLERS + 1, dirs, 1, MPB_SEGMENT_WAYS, &bad), 0);
    struct mpb_open_segment *places = few.open_segments;
    struct guarded guarded = guarded_open(MPB_SEGMENT_WAYS * sizeof *places);
    few.open_segments = (void *)guarded_copy(&guarded, places, MPB_SEGMENT_WAYS * sizeof *places);
    const uint32_t open = open_descriptors();
    const struct mpb_partition_copy copy = {.active_base = 99, .segment_id = 1};
    for (int base = 0; base <= MPB_SEGMENT_WAYS; base++) {
        snprintf(path, sizeof path, "t-0/%020d.log", base);
        int fd = openat(f.log.dir_fd[0], path, O_RDWR | O_CREAT, 0644);
        CHECK(fd >= 0);
        close(fd);
        CHECK(mpb_segment_fd(&few, row(), &copy, base, MPB_FILE_LOG) >= 0);
        CHECK_EQ(open_descriptors() - open, base < MPB_SEGMENT_WAYS ? base + 1 : MPB_SEGMENT_WAYS);
    }
    few.lists[0] = NULL;
    mpb_segment_close_partition(&few, 1);
    CHECK_EQ(open_descriptors() - open, MPB_SEGMENT_WAYS);
    CHECK_EQ(mpb_segment_close_stale(&few), MPB_SEGMENT_WAYS); /* all of a life that is over */
    CHECK_EQ(open_descriptors(), open);
    for (int base = 0; base < MPB_SEGMENT_WAYS; base++)
        CHECK(mpb_segment_fd(&few, row(), &copy, base, MPB_FILE_LOG) >= 0);
    mpb_segment_close_partition(&few, 0);
    CHECK_EQ(open_descriptors(), open);
    CHECK(mpb_segment_fd(&few, row(), &copy, 3, MPB_FILE_LOG) >= 0);
    mpb_segment_close_all(&few);
    CHECK_EQ(open_descriptors(), open);
    few.open_segments = places;
    CHECK(mpb_segment_fd(&few, row(), &copy, 3, MPB_FILE_LOG) >= 0);
    mpb_log_close(&few); /* closes what is cached, and its directory */
    CHECK_EQ(open_descriptors(), open - 1);
    fixture_close(&f);
}

/* A segment has three files that are made, and no call is made for a fourth. */
static void calls_for_a_segment(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    let_fail(MPB_IO_OPEN, MPB_SEGMENT_FILES, EIO, 1);
    CHECK(mpb_segment_create(&f.log, row(), 7) == 0 && failing_calls.failed == 0);
    mpb_io_fault = NULL;
    fixture_close(&f);
}

/* At the limit of descriptors the directory is listed once the cached ones are given back, and from the beginning. */
static void a_list_at_the_limit_of_descriptors(void)
{
    static const int ERRORS[] = {EMFILE, ENFILE};
    const struct mpb_segment_list *list;
    fixture_open(&f);
    prepare_segments(&f);
    const uint32_t open = open_descriptors();
    for (int i = 0; i < 2; i++) {
        CHECK(mpb_segment_fd(&f.log, row(), now(), now()->active_base, MPB_FILE_LOG) >= 0);
        let_fail(MPB_IO_OPEN, 0, ERRORS[i], 1);
        CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
        CHECK(failing_calls.failed == 1 && list->count == now()->segment_count && list->bases[0] == 0);
        CHECK_EQ(list->bases[list->count - 1], now()->active_base);
        CHECK(open_descriptors() < open);
        let_fail(MPB_IO_OPEN, 0, ERRORS[i], 2);
        CHECK(mpb_segment_list_all(&f.log, row(), &list) == -ERRORS[i] && list->count == 0);
        mpb_io_fault = NULL;
    }
    let_fail(MPB_IO_OPEN, 0, EIO, 1); /* for any other error nobody tries again */
    CHECK(mpb_segment_list_all(&f.log, row(), &list) == -EIO && failing_calls.failed == 1);
    mpb_io_fault = NULL;
    fixture_close(&f);
}

/* Places are stale by either flag of their partition; not while somebody changes its state again and again. */
static void stale_places(void)
{
    static const struct {
        uint32_t set, clear, stale;
    } CASES[] = {{0, MPB_PART_ONLINE, 0}, {0, MPB_PART_EXISTS, 1}, {MPB_PART_DELETED, 0, 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        fixture_open(&f);
        fixture_partition(&f, 0);
        CHECK(mpb_segment_fd(&f.log, row(), now(), 0, MPB_FILE_LOG) >= 0);
        struct mpb_partition_copy *in_force = &row()->copy[mpb_load_relaxed(&row()->selector) & 1];
        in_force->truncations++;
        in_force->segment_id++; /* it would be stale */
        CHECK_EQ(mpb_segment_close_stale(&f.log), 0);
        in_force->truncations--;
        in_force->segment_id--;
        CHECK_EQ(mpb_segment_close_stale(&f.log), 0);
        mpb_store_release(&row()->flags, (mpb_load_relaxed(&row()->flags) | CASES[i].set) & ~CASES[i].clear);
        CHECK_EQ(mpb_segment_close_stale(&f.log), CASES[i].stale);
        CHECK_EQ(mpb_segment_close_stale(&f.log), 0);
        fixture_close(&f);
    }
}

/* ------------------------------------------------------------------ sizes of writes */
/* Small batches are written in one piece, large ones in two: the file has both as they came, and not a byte more. */
static void about_one_write(void)
{
    static const uint32_t SIZES[] = {62, 8191, 8192, 8193, 20000};
    static uint8_t want[32768], got[32768];
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const struct batch_spec spec = {.records = 1,
                                        .producer_id = -1,
                                        .timestamp = 7,
                                        .payload = SIZES[i] - MPB_BATCH_HEADER_BYTES,
                                        .mark = (uint8_t)(i + 1)};
        fixture_open(&f);
        fixture_partition(&f, 0);
        for (int64_t times = 0; times < 2; times++) {
            struct stat status;
            CHECK_EQ(append(0, &spec).base_offset, times);
            make_batch(want, &spec);
            mpb_put_be64(want, times);
            mpb_put_be32(want + MPB_BATCH_LEADER_EPOCH, 3);
            int fd = mpb_segment_fd(&f.log, row(), now(), 0, MPB_FILE_LOG);
            CHECK(fstat(fd, &status) == 0 && status.st_size == (times + 1) * SIZES[i]);
            CHECK_EQ(pread(fd, got, SIZES[i], times * SIZES[i]), SIZES[i]);
            CHECK_EQ(memcmp(got, want, SIZES[i]), 0);
        }
        fixture_close(&f);
    }
}

/* ------------------------------------------------------------------ full tables */
/* A new producer gets the row of its chain's that wrote once; else of another partition's; where all are in transactions it
 * is refused, which is counted once, and stands in the cell. */
static void appends_without_room(void)
{
    enum { OF_THE_CHAIN, OF_ANOTHER, OF_NOBODY };
    for (int which = OF_THE_CHAIN; which <= OF_NOBODY; which++) {
        const struct batch_spec old = numbered(7, 0, 1), new = numbered(7 + MPB_PRODUCER_CHAINS, 0, 2);
        struct mpb_append_result again;
        fixture_open(&f);
        fixture_partition(&f, 0);
        fixture_partition(&f, 1);
        for (int i = 0; i < FIX_PRODUCERS - (which == OF_THE_CHAIN); i++) {
            struct batch_spec other = numbered(100 + i, 0, 40);
            CHECK_EQ(append(1, &other).error, 0);
        }
        for (int i = 0; which == OF_NOBODY && i < FIX_PRODUCERS; i++)
            mpb_txn_store_epochs(&f.core.producers[i], (struct mpb_txn_epochs){0, MPB_NO_EPOCH, 0});
        if (which == OF_THE_CHAIN)
            CHECK_EQ(append(0, &old).error, 0);
        uint64_t fill = fixture_fill(&f, ENTRY, 1);
        struct mpb_append_result result = append_batch(&f.log, &FIX_OPTIONS, 0, ENTRY, 0, &new);
        const int error = which == OF_NOBODY ? MPB_ERR_THROTTLING_QUOTA_EXCEEDED : 0;
        CHECK(result.error == error && result.base_offset == (which == OF_NOBODY ? -1 : which == OF_ANOTHER ? 0 : 2));
        CHECK_EQ(mpb_producer_find(&f.core, row(), 7 + MPB_PRODUCER_CHAINS) != 0, which != OF_NOBODY);
        CHECK_EQ(mpb_producer_find(&f.core, row(), 7), 0);
        CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_FULL), which == OF_NOBODY);
        CHECK_EQ(counted(&f, MPB_C_LOG_PRODUCERS_REPLACED), which != OF_NOBODY);
        int left = 0;
        for (int i = 0; i < FIX_PRODUCERS; i++)
            left += mpb_producer_find(&f.core, &f.core.partitions[1], 100 + i) != 0;
        CHECK_EQ(left, FIX_PRODUCERS - (which != OF_NOBODY));
        memset(&again, 0, sizeof again);
        CHECK(mpb_cell_read(&f.core, ENTRY, 0, fill, &again) && again.error == error);
        fixture_is_free(&f, 0);
        fixture_close(&f);
    }
}

/* What could not be written is answered so to whoever runs the request again, though there is room by then. */
static void a_failed_write_stands_in_the_cell(void)
{
    const struct batch_spec spec = numbered(0, 0, 1), next = numbered(0, 2, 2);
    struct mpb_append_result again = {0};
    fixture_open(&f);
    fixture_partition(&f, 0);
    uint64_t fill = fixture_fill(&f, ENTRY, 1);
    let_fail(MPB_IO_WRITE, 0, ENOSPC, 1);
    struct mpb_append_result result = append_batch(&f.log, &FIX_OPTIONS, 0, ENTRY, 0, &spec);
    mpb_io_fault = NULL;
    CHECK(result.error == MPB_ERR_KAFKA_STORAGE_ERROR && result.base_offset == -1 && result.log_start == -1);
    CHECK_EQ(mpb_load_relaxed(&row()->intent.word), 0); /* it is undone already */
    CHECK(mpb_cell_read(&f.core, ENTRY, 0, fill, &again) && again.error == MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK(append_batch(&f.log, &FIX_OPTIONS, 0, ENTRY, 0, &spec).replayed && now()->leo == 0);
    CHECK_EQ(append(0, &spec).base_offset, 0); /* of producer 0, which is one like any other */
    result = append(0, &spec);
    CHECK(result.duplicate && result.base_offset == 0 && result.end_offset == 2 && result.append_time_ms == 1001);
    CHECK(result.leader_epoch == 3 && result.log_start == 0);
    CHECK_EQ(append(0, &next).base_offset, 2);
    CHECK(append(0, &next).duplicate && append(0, &spec).duplicate && now()->leo == 4);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ aborted transactions */
static void end_transaction(int64_t producer_id, bool commit)
{
    struct mpb_append_result result;
    const struct mpb_marker marker = {
        .producer_id = producer_id, .commit = commit, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
    CHECK_EQ(result.error, 0);
}

static void begin_transaction(int64_t producer_id, int32_t sequence)
{
    const struct batch_spec spec = in_transaction(producer_id, sequence, 20);
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, producer_id, 0, MPB_NO_GUARD), 0);
    CHECK_EQ(append(0, &spec).error, 0);
}

/* An entry says how far committed records could be read when the marker came: up to the oldest that was open then, else as
 * far as the marker. */
static void entries_of_aborted_ones(void)
{
    static const struct mpb_aborted WANT[] = {
        {.producer_id = 2, .first_offset = 2, .last_offset = 4, .last_stable = 0},
        {.producer_id = 0, .first_offset = 0, .last_offset = 5, .last_stable = 6},
        {.producer_id = 0, .first_offset = 6, .last_offset = 8, .last_stable = 9},
    };
    uint8_t bytes[MPB_TXN_INDEX_ENTRY_BYTES];
    fixture_open(&f);
    fixture_partition(&f, 0);
    begin_transaction(0, 0);
    begin_transaction(2, 0);
    end_transaction(2, false);
    CHECK(now()->lso == 0 && now()->open_transactions == 1 && now()->aborted_end == 5);
    end_transaction(0, false);
    begin_transaction(0, 2);
    end_transaction(0, false);
    CHECK(now()->lso == 9 && now()->open_transactions == 0 && now()->aborted_end == 9);
    uint32_t producer = mpb_producer_find(&f.core, row(), 0); /* whose newest batch is no marker */
    CHECK_EQ(mpb_producer_newest(&f.core.producers[producer - 1])->base_offset, 6);
    int fd = mpb_segment_fd(&f.log, row(), now(), 0, MPB_FILE_TXN_INDEX);
    for (int i = 0; i < 3; i++) {
        struct mpb_aborted entry;
        CHECK_EQ(pread(fd, bytes, sizeof bytes, i * (int)sizeof bytes), sizeof bytes);
        CHECK(mpb_aborted_read(bytes, &entry) && entry.producer_id == WANT[i].producer_id);
        CHECK(entry.first_offset == WANT[i].first_offset && entry.last_offset == WANT[i].last_offset);
        CHECK_EQ(entry.last_stable, WANT[i].last_stable);
    }
    CHECK_EQ(now()->txn_index_bytes, 3 * sizeof bytes);
    fixture_close(&f);
}

/* A marker that was cut away again is nothing that a flush has to write; and a flush keeps no descriptor. */
static void a_cut_abort_is_not_flushed(void)
{
    const struct batch_spec spec = numbered(-1, 0, 1);
    int64_t flushed;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append(0, &spec).error, 0);
    CHECK(mpb_log_flush(&f.log, 0, &flushed) == 0 && flushed == 2);
    mpb_segment_close_all(&f.log);
    const uint32_t open = open_descriptors();
    begin_transaction(4, 0);
    end_transaction(4, false);
    CHECK_EQ(mpb_truncate(&f.log, 0, 4), 0);
    CHECK(now()->aborted_end == 4 && now()->txn_index_bytes == 0);
    let_fail(MPB_IO_SYNC, 0, 0, INT_MAX); /* none fails: they are counted */
    CHECK(mpb_log_flush(&f.log, 0, &flushed) == 0 && flushed == 4);
    mpb_io_fault = NULL;
    CHECK_EQ(failing_calls.failed, 1); /* the log alone, of a segment that was flushed before */
    CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
    CHECK_EQ(append(0, &spec).error, 0);
    CHECK(mpb_log_flush(&f.log, 0, &flushed) == 0 && flushed == 6);
    mpb_segment_close_all(&f.log);
    CHECK_EQ(open_descriptors(), open);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ rows */
/* A row that somebody has is not published over; a repair that fails is told, lets go, and is no reason to keep a topic. */
static void rows_in_use(void)
{
    const struct mpb_partition_identity identity = {.dir = "t-9", .partition = 9};
    const struct mpb_partition_copy state = {.segment_count = 1};
    fixture_open(&f);
    prepare_segments(&f);
    struct fixture_holder holder = fixture_hold(&f, 0);
    CHECK_EQ(mpb_partition_publish(&f.log, 0, &identity, &state), MPB_ERR_REQUEST_TIMED_OUT);
    CHECK(row()->partition == 0 && now()->leo == 60 && strcmp(row()->dir, "t-0") == 0);
    fixture_let_go(&holder);
    row()->intent.target = mpb_load_relaxed(&row()->selector) + 1; /* of one that died before its commit */
    mpb_intent_set(&f.log, row(), MPB_INTENT_APPEND);
    mpb_segment_close_all(&f.log);
    let_fail(MPB_IO_OPEN, 0, ENOMEM, 3);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), MPB_ERR_KAFKA_STORAGE_ERROR);
    mpb_io_fault = NULL;
    CHECK(mpb_load_relaxed(&row()->intent.word) != 0);
    CHECK_EQ(mpb_partition_lock(&f.log, 0), 0); /* is repaired, and held */
    pid_t other = fork();
    if (other == 0)
        _exit(mpb_partition_lock(&f.log, 0) == MPB_ERR_REQUEST_TIMED_OUT ? 0 : 1);
    int status;
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    mpb_partition_unlock(&f.log, 0);
    CHECK(mpb_load_relaxed(&row()->intent.word) == 0 && now()->leo == 60);
    fixture_is_free(&f, 0);
    row()->intent.target = mpb_load_relaxed(&row()->selector) + 1;
    mpb_intent_set(&f.log, row(), MPB_INTENT_APPEND);
    mpb_segment_close_all(&f.log);
    let_fail(MPB_IO_OPEN, 0, ENOMEM, 9);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, 0, MPB_PART_ONLINE), MPB_ERR_KAFKA_STORAGE_ERROR);
    CHECK_EQ(mpb_load_relaxed(&row()->flags), MPB_PART_EXISTS | MPB_PART_ONLINE);
    CHECK_EQ(mpb_partition_set_flags(&f.log, 0, MPB_PART_DELETED, MPB_PART_EXISTS), 0);
    CHECK_EQ(mpb_load_relaxed(&row()->flags), MPB_PART_DELETED | MPB_PART_ONLINE);
    mpb_io_fault = NULL;
    fixture_close(&f);
}

/* Log start never passes the last stable offset without taking it along. */
static void log_start_in_a_transaction(void)
{
    static const struct {
        int64_t to, lso;
    } CASES[] = {{0, 2}, {1, 2}, {2, 2}, {3, 3}, {5, 5}, {4, 5}};
    const struct batch_spec spec = numbered(-1, 0, 1);
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append(0, &spec).error, 0);
    begin_transaction(4, 0);
    CHECK_EQ(append(0, &spec).error, 0);
    CHECK(now()->hw == 6 && now()->lso == 2);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        rung();
        CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, CASES[i].to), 0);
        CHECK(now()->lso == CASES[i].lso && now()->hw == 6 && rung());
    }
    CHECK_EQ(now()->log_start, 5);
    fixture_close(&f);
}

/* A log that begins anew, at offset 0, too, knows of no transaction that ended; who waits for a cut one hears of it. */
static void begun_anew(void)
{
    fixture_open(&f);
    prepare_later_segments(&f);
    struct mpb_replicas *replicas = mpb_replicas_of(&f.core, row());
    mpb_ended_note(replicas, 0, 40, 50);
    CHECK_EQ(mpb_load_relaxed(&replicas->ended_end), 50);
    rung();
    CHECK_EQ(mpb_truncate_follower(&f.log, 0, 55, 5, 7000), 0);
    CHECK(rung() && now()->leo < 56 && mpb_load_relaxed(&replicas->ended_end) == 50);
    CHECK_EQ(mpb_truncate_follower(&f.log, 0, 45, 5, 7000), 0);
    CHECK(now()->leo <= 45 && mpb_load_relaxed(&replicas->ended_end) == (uint64_t)now()->leo);
    CHECK_EQ(mpb_start_at(&f.log, 0, SWAP_END, 5, 7000), MPB_ERR_OFFSET_OUT_OF_RANGE); /* what it has, it has */
    rung();
    CHECK_EQ(mpb_start_at(&f.log, 0, 0, 5, 7000), 0);
    CHECK(rung() && now()->leo == 0 && now()->log_start == 0 && now()->segment_count == 1);
    CHECK(mpb_load_relaxed(&replicas->ended_end) == 0 && mpb_ended_least(replicas, 0) == INT64_MAX);
    fixture_is_free(&f, 0);
    fixture_close(&f);
}

/* What a follower takes as one run counts as the batches and records that it was made of; a marker of producer 0 ends its
 * transaction there as anywhere. */
static void counts_of_a_run(void)
{
    const struct batch_spec plain = numbered(-1, 0, 1), begun = in_transaction(0, 0, 2);
    const struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 5, 0);
    static uint8_t bytes[2048];
    struct mpb_follower_appended out;
    fixture_open(&f);
    fixture_partition(&f, 1);
    CHECK_EQ(mpb_txn_verify(&f.log, 1, NULL, 0, 0, MPB_NO_GUARD), 0);
    CHECK_EQ(append(1, &begun).error, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(append(1, &plain).error, 0);
    struct mpb_append_result result;
    const struct mpb_marker marker = {
        .ordinal = 1, .commit = true, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
    CHECK_EQ(result.base_offset, 8);
    const struct mpb_partition_copy leader = *mpb_partition_in_force(&f.core.partitions[1]);
    int fd = mpb_segment_fd(&f.log, &f.core.partitions[1], &leader, 0, MPB_FILE_LOG);
    CHECK_EQ(pread(fd, bytes, leader.position, 0), leader.position);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    struct mpb_follower_append request = {
        .leader_epoch = 5, .records = bytes, .length = leader.position - MPB_MARKER_BYTES, .now_ms = 6000};
    mpb_append_follower(&f.log, &FIX_OPTIONS, &request, &out);
    CHECK(out.error == 0 && out.batches == 4 && now()->open_transactions == 1);
    CHECK(now()->records_in == 8 && now()->bytes_in == request.length && now()->log_bytes == (int64_t)request.length);
    request.offset = 8;
    request.leader_hw = 9;
    request.records += request.length;
    request.length = MPB_MARKER_BYTES;
    mpb_append_follower(&f.log, &FIX_OPTIONS, &request, &out);
    CHECK(out.error == 0 && out.batches == 1 && now()->open_transactions == 0 && now()->lso == 9);
    CHECK(now()->records_in == 9 && now()->txn_index_bytes == 0);
    fixture_close(&f);
}

int main(void)
{
    ends_of_tables();
    ends_of_the_cache();
    calls_for_a_segment();
    a_list_at_the_limit_of_descriptors();
    stale_places();
    about_one_write();
    appends_without_room();
    a_failed_write_stands_in_the_cell();
    entries_of_aborted_ones();
    a_cut_abort_is_not_flushed();
    rows_in_use();
    log_start_in_a_transaction();
    begun_anew();
    counts_of_a_run();
    printf("log_bounds: %lu checks\n", checks_made);
    return 0;
}
