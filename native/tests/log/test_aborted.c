/* The aborted transactions that a reader of committed records is told of, against the plainest search: from every offset, to
 * the end and a batch at a time, through indexes of more entries than one read takes, in segments that have none, one and
 * many. And what becomes of calls that fail, of damage, and of a truncation meanwhile. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/aborted.h"
#include "log/log_io.h"

enum { MOST = 2000, ROOM = 700, FIRST_ABORTS = 300, ALL_ABORTS = 340, BATCH_BYTES = MPB_BATCH_HEADER_BYTES + 60 };

static struct fixture f;
static struct mpb_aborted all[MOST];
static uint32_t all_count;
static long calls, fail_at;
static int fail_with;
static int32_t sequence[4];

static int inject(enum mpb_io_call call, size_t *limit)
{
    (void)call, (void)limit;
    return calls++ == fail_at ? fail_with : 0;
}

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

static int64_t put(int64_t producer_id)
{
    struct batch_spec spec = in_transaction(producer_id, sequence[producer_id], 1);
    struct mpb_append_options options = FIX_OPTIONS;
    options.index_interval_bytes = 2000;
    spec.records = 1;
    sequence[producer_id]++;
    CHECK_EQ(mpb_txn_verify(&f.log, 0, NULL, producer_id, 0, MPB_NO_GUARD), 0);
    struct mpb_append_result result = append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec);
    CHECK_EQ(result.error, 0);
    return result.base_offset;
}

static void end_one(int64_t producer_id, int64_t first, bool commit)
{
    struct mpb_marker marker = {
        .producer_id = producer_id, .commit = commit, .now_ms = 5000, .leader_epoch = -1, .entry = MPB_NO_REQUEST};
    struct mpb_append_result result;
    mpb_append_marker(&f.log, &FIX_OPTIONS, &marker, &result);
    CHECK_EQ(result.error, 0);
    all[all_count] = (struct mpb_aborted){
        .producer_id = producer_id, .first_offset = first, .last_offset = result.base_offset};
    all_count += !commit;
}

/* Transactions that overlap; of every eleven one is committed. The first segment has most of them, the second none, the third
 * one, the active one the rest; producer 3's spans all but the last few. */
static void begin(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    all_count = 0;
    memset(sequence, 0, sizeof sequence);
    int64_t long_one = put(3), other = put(2);
    for (int i = 0; all_count < ALL_ABORTS; i++) {
        int64_t first = put(1);
        end_one(1, first, i % 11 == 5);
        if (i % 7 == 3) {
            end_one(2, other, false);
            other = put(2);
        }
        if (all_count == FIRST_ABORTS && mpb_load_relaxed(&f.core.counters[f.log.slot].value[MPB_C_LOG_ROLLS]) == 0) {
            CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
            put(3);
            CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
            end_one(1, put(1), false);
            CHECK_EQ(mpb_roll(&f.log, 0, 7000), 0);
        }
    }
    end_one(2, other, true);
    end_one(3, long_one, false);
    int64_t last = put(1); /* behind the last stable offset from here on */
    CHECK_EQ(now()->lso, last);
    CHECK_EQ(now()->segment_count, 4);
}

static struct mpb_read_plan plan_from(int64_t offset, uint32_t bytes)
{
    struct mpb_read_plan plan;
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, offset, MPB_READ_TO_STABLE, bytes, true, &plan), 0);
    return plan;
}

static bool is_in(const struct mpb_aborted *found, uint32_t count, const struct mpb_aborted *one)
{
    for (uint32_t i = 0; i < count; i++)
        if (found[i].first_offset == one->first_offset && found[i].last_offset == one->last_offset &&
            found[i].producer_id == one->producer_id)
            return true;
    return false;
}

/* Where what is read ends at the latest: some 2000 bytes on, at the next entry of the offset index; there is none near the
 * end of a segment. */
static int64_t latest(const struct mpb_read_plan *plan, int64_t end)
{
    const struct mpb_segment_list *list;
    CHECK_EQ(mpb_segment_list_get(&f.log, &f.core.partitions[0], now(), &list), 0);
    uint32_t next = mpb_segment_list_find(list, plan->base) + 1;
    int64_t segment_end = next < list->count ? list->bases[next] : plan->last_stable;
    return end + 60 < segment_end ? end + 35 : plan->last_stable;
}

/* `end`: of what is read, exactly or at the latest. */
static void compare(const struct mpb_read_plan *plan, int64_t offset, int64_t end, int64_t latest_end)
{
    struct mpb_aborted found[ROOM];
    uint32_t count, needed = 0, possible = 0;
    CHECK_EQ(mpb_log_aborted(&f.log, plan, offset, found, ROOM, &count), 0);
    for (uint32_t i = 0; i < all_count; i++) {
        bool reaches = all[i].last_offset >= offset;
        if (reaches && all[i].first_offset < end) {
            CHECK(is_in(found, count, &all[i]));
            needed++;
        }
        possible += reaches && all[i].first_offset < latest_end;
    }
    CHECK(count >= needed);
    CHECK(count <= possible);
    for (uint32_t i = 1; i < count; i++)
        CHECK(found[i - 1].last_offset < found[i].last_offset);
}

static void from_everywhere(void)
{
    for (int64_t offset = 0; offset < now()->lso; offset++) {
        struct mpb_read_plan plan = plan_from(offset, 1 << 20);
        compare(&plan, offset, plan.last_stable, plan.last_stable);
        plan = plan_from(offset, 1);
        compare(&plan, offset, offset + 1, latest(&plan, offset + 1));
        plan = plan_from(offset, 20 * BATCH_BYTES);
        compare(&plan, offset, offset + 10, latest(&plan, offset + 25));
    }
}

/* Nothing is told of a transaction that begins where the last stable offset is, as it was when the read was planned: where
 * no index entry says that the read ends before. */
static void up_to_the_last_stable_offset(void)
{
    struct mpb_aborted found[ROOM];
    const int64_t offsets[] = {0, now()->active_base};
    for (size_t n = 0; n < sizeof offsets / sizeof *offsets; n++) {
        struct mpb_read_plan plan = plan_from(offsets[n], n == 0 ? 1 << 20 : 1); /* one batch, or the whole segment */
        const int64_t reaches = n == 0 ? now()->lso : offsets[n] + 10;
        for (int64_t stable = offsets[n] + 1; stable <= reaches; stable++) {
            uint32_t count, wanted = 0;
            for (uint32_t i = 0; i < all_count; i++)
                wanted += all[i].last_offset >= offsets[n] && all[i].first_offset < stable;
            plan.last_stable = stable;
            CHECK_EQ(mpb_log_aborted(&f.log, &plan, offsets[n], found, ROOM, &count), 0);
            CHECK_EQ(count, wanted);
        }
    }
}

/* *count says how many there are, whatever the room; nothing is asked where nothing was aborted. */
static void bounds(void)
{
    struct mpb_aborted found[4], mark = {.producer_id = 77};
    uint32_t count, all_of_them;
    struct mpb_read_plan plan = plan_from(0, 1 << 20);
    found[3] = mark;
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, 3, &count), 0);
    CHECK_EQ(found[3].producer_id, 77);
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, 0, &all_of_them), 0);
    CHECK(count == all_of_them && count == all_count);
    mpb_segment_close_all(&f.log);
    mpb_io_fault = inject;
    calls = 0;
    fail_at = -1;
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, plan.aborted_end, found, 3, &count), 0);
    CHECK(count == 0 && calls == 0);
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, plan.aborted_end - 1, found, 3, &count), 0);
    CHECK(count == 1 && calls > 0);
    calls = 0;
    plan.length = 0;
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, 3, &count), 0);
    CHECK(count == 0 && calls == 0);
    mpb_io_fault = NULL;
}

static int ask(uint32_t *count)
{
    struct mpb_aborted found[ROOM];
    struct mpb_read_plan plan = plan_from(100, BATCH_BYTES * 9);
    mpb_segment_close_all(&f.log);
    if (f.log.lists[0] != NULL)
        f.log.lists[0]->valid = false;
    calls = 0;
    mpb_io_fault = inject;
    int error = mpb_log_aborted(&f.log, &plan, 100, found, ROOM, count);
    mpb_io_fault = NULL;
    return error;
}

/* Noted is what failed, not what came of going on. */
static void failures(void)
{
    static const int ERRNOS[] = {ENOMEM, EIO};
    uint32_t wanted, count;
    fail_at = -1;
    CHECK_EQ(ask(&wanted), 0);
    const long number = calls;
    CHECK(wanted > 0 && number > 5);
    for (size_t n = 0; n < sizeof ERRNOS / sizeof *ERRNOS; n++)
        for (fail_at = 0; fail_at < number; fail_at++) {
            fail_with = ERRNOS[n];
            CHECK_EQ(ask(&count), MPB_ERR_KAFKA_STORAGE_ERROR);
            CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), fail_with);
            CHECK_EQ(mpb_log_dir_online(&f.core, 0), fail_with != EIO);
            mpb_store_release(&f.core.header->offline_log_dirs, 0);
        }
    fail_at = -1;
    CHECK_EQ(ask(&count), 0);
    CHECK_EQ(count, wanted);
}

/* Whoever reads from the third segment on needs no entry of the first one, which are all damaged. */
static void damage_before(void)
{
    static uint8_t kept[(FIRST_ABORTS + 40) * MPB_TXN_INDEX_ENTRY_BYTES], bad[sizeof kept];
    struct mpb_aborted found[ROOM];
    uint32_t wanted, count;
    const struct mpb_segment_list *list;
    CHECK_EQ(mpb_segment_list_get(&f.log, &f.core.partitions[0], now(), &list), 0);
    CHECK_EQ(list->count, 4);
    struct mpb_read_plan plan = plan_from(list->bases[2], 1 << 20);
    CHECK_EQ(plan.base, list->bases[2]);
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, plan.base, found, ROOM, &wanted), 0);
    CHECK(wanted > 0);
    int fd = openat(f.log.dir_fd[0], "t-0/00000000000000000000.txnindex", O_RDWR);
    ssize_t bytes = pread(fd, kept, sizeof kept, 0);
    CHECK(bytes >= FIRST_ABORTS * MPB_TXN_INDEX_ENTRY_BYTES && bytes < (ssize_t)sizeof kept);
    memset(bad, 0xff, sizeof bad);
    CHECK_EQ(pwrite(fd, bad, (size_t)bytes, 0), bytes);
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, plan.base, found, ROOM, &count), 0);
    CHECK_EQ(count, wanted);
    CHECK_EQ(pwrite(fd, kept, (size_t)bytes, 0), bytes);
    close(fd);
}

static void damage(void)
{
    struct mpb_aborted found[ROOM];
    uint8_t version[2];
    uint32_t count;
    int fd = openat(f.log.dir_fd[0], "t-0/00000000000000000000.txnindex", O_RDWR);
    struct mpb_read_plan plan = plan_from(0, 1 << 20);
    CHECK(fd >= 0);
    CHECK_EQ(pread(fd, version, 2, 40 * MPB_TXN_INDEX_ENTRY_BYTES), 2);
    CHECK_EQ(pwrite(fd, "\0\1", 2, 40 * MPB_TXN_INDEX_ENTRY_BYTES), 2);
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, ROOM, &count), MPB_ERR_CORRUPT_MESSAGE);
    CHECK_EQ(pwrite(fd, version, 2, 40 * MPB_TXN_INDEX_ENTRY_BYTES), 2);
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, ROOM, &count), 0);
    close(fd);
    fd = openat(f.log.dir_fd[0], "t-0", O_RDONLY | O_DIRECTORY);
    char name[40];
    snprintf(name, sizeof name, "%020lld.txnindex", (long long)now()->active_base);
    int active = openat(fd, name, O_RDWR);
    CHECK_EQ(ftruncate(active, now()->txn_index_bytes - 1), 0); /* shorter than what is committed */
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, ROOM, &count), MPB_ERR_CORRUPT_MESSAGE);
    CHECK_EQ(ftruncate(active, 0), 0); /* nothing is left of it: no entry, and not that of another transaction */
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, ROOM, &count), MPB_ERR_CORRUPT_MESSAGE);
    close(active);
    close(fd);
    CHECK_EQ(mpb_truncate(&f.log, 0, now()->leo - 1), 0);
    CHECK_EQ(mpb_log_aborted(&f.log, &plan, 0, found, ROOM, &count), MPB_ERR_NOT_LEADER_OR_FOLLOWER);
}

/* As many entries as one read takes, one fewer and one more: the first of them is found as well as the last. */
static void around_one_read(void)
{
    fixture_open(&f);
    fixture_partition(&f, 0);
    all_count = 0;
    memset(sequence, 0, sizeof sequence);
    while (all_count < 131) {
        end_one(1, put(1), false);
        if (all_count < 126)
            continue;
        struct mpb_read_plan plan = plan_from(0, 1 << 20);
        for (int64_t offset = 0; offset < 4; offset++)
            compare(&plan, offset, plan.last_stable, plan.last_stable);
    }
    fixture_close(&f);
}

int main(void)
{
    around_one_read();
    begin();
    from_everywhere();
    up_to_the_last_stable_offset();
    bounds();
    failures();
    damage_before();
    damage();
    fixture_close(&f);
    printf("aborted: %u transactions, %lu checks\n", all_count, checks_made);
    return 0;
}
