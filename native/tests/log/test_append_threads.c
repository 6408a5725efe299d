/* Appends, rolls, reads and high watermarks of the same partitions by threads, each with a log of its own, for the thread sanitizer: what
 * the processes share is ordered by the selector, the lock and the cells alone. */
#include "tests/log/log_fixture.h"
#include "log/roll.h"

enum { WRITERS = 3, READERS = 2, SHARED_PARTITIONS = 2, APPENDS = 2000 };

static struct fixture f;
static mpb_atomic32 running = WRITERS;
static mpb_atomic64 reads;

static bool done_or_busy(int error) { return error == 0 || error == MPB_ERR_REQUEST_TIMED_OUT; }

static void *write_some(void *argument)
{
    uint32_t worker = (uint32_t)(uintptr_t)argument;
    struct mpb_log log;
    struct mpb_append_options options = FIX_OPTIONS;
    uint8_t bytes[MPB_BATCH_HEADER_BYTES + 50];
    struct batch_spec spec = {.records = 1, .producer_id = 100 + worker, .payload = 50, .timestamp = 1};
    options.segment_bytes = 20000;
    options.index_interval_bytes = 300;
    fixture_handle(&f, &log, MPB_SLOT_HANDLERS + worker);
    for (int i = 0; i < APPENDS; i++) {
        struct mpb_batch_info info;
        struct mpb_append_result result;
        spec.sequence = i / SHARED_PARTITIONS;
        make_batch(bytes, &spec);
        mpb_batch_read(bytes, &info);
        fixture_fill(&f, worker, 1);
        struct mpb_append_request request = {.ordinal = (uint32_t)i % SHARED_PARTITIONS,
                                             .entry = worker,
                                             .batch = bytes,
                                             .info = &info,
                                             .max_timestamp = MPB_RECORDS_UNSEEN,
                                             .now_ms = i,
                                             .leader_epoch = -1};
        do /* on a busy machine a holder may be off the processor for longer than one waits for it */
            mpb_append(&log, &options, &request, &result);
        while (result.busy);
        CHECK_EQ(result.error, 0);
        if (worker == 0 && i % 100 == 0)
            CHECK(done_or_busy(mpb_roll(&log, (uint32_t)i % SHARED_PARTITIONS, i)));
    }
    mpb_log_close(&log);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *read_some(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument * 77 + 1;
    struct mpb_log log;
    uint8_t bytes[4096];
    fixture_handle(&f, &log, MPB_SLOT_HANDLERS + WRITERS + (uint32_t)(uintptr_t)argument);
    while (mpb_load_acquire(&running) != 0) {
        struct mpb_partition_copy copy;
        struct mpb_read_plan plan;
        uint32_t length, partition = (uint32_t)(next_random(&random) % SHARED_PARTITIONS);
        CHECK_EQ(mpb_partition_snapshot(&log, partition, &copy), 0);
        if (copy.leo == 0)
            continue;
        int64_t offset = (int64_t)(next_random(&random) % (uint64_t)copy.leo);
        CHECK_EQ(mpb_log_find(&log, partition, NULL, offset, MPB_READ_TO_HIGH_WATERMARK, sizeof bytes, true, &plan), 0);
        CHECK_EQ(mpb_log_read(&log, &plan, bytes, &length), 0);
        CHECK_EQ(mpb_be64(bytes), offset);
        atomic_fetch_add(&reads, 1);
    }
    mpb_log_close(&log);
    return NULL;
}

/* What a replica manager does beside the appends: every writer of the copies holds the lock (append rule 12). */
static void *move_high_watermark(void *unused)
{
    struct mpb_log log;
    (void)unused;
    fixture_handle(&f, &log, MPB_SLOT_HANDLERS + WRITERS + READERS);
    while (mpb_load_acquire(&running) != 0)
        for (uint32_t p = 0; p < SHARED_PARTITIONS; p++)
            CHECK(done_or_busy(mpb_partition_set_high_watermark(&log, p, INT64_MAX)));
    mpb_log_close(&log);
    return NULL;
}

int main(void)
{
    pthread_t threads[WRITERS + READERS], mover;
    fixture_open(&f);
    for (uint32_t p = 0; p < SHARED_PARTITIONS; p++)
        fixture_partition(&f, p);
    for (uintptr_t i = 0; i < WRITERS + READERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i < WRITERS ? write_some : read_some,
                                (void *)(i < WRITERS ? i : i - WRITERS)),
                 0);
    CHECK_EQ(pthread_create(&mover, NULL, move_high_watermark, NULL), 0);
    CHECK_EQ(pthread_join(mover, NULL), 0);
    for (int i = 0; i < WRITERS + READERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (uint32_t p = 0; p < SHARED_PARTITIONS; p++) {
        struct mpb_partition_copy copy;
        CHECK_EQ(mpb_partition_snapshot(&f.log, p, &copy), 0);
        CHECK_EQ(copy.leo, WRITERS * APPENDS / SHARED_PARTITIONS);
    }
    CHECK(mpb_load_relaxed(&reads) > 0);
    printf("append threads: %llu reads beside %d appends\n", (unsigned long long)mpb_load_relaxed(&reads),
           WRITERS * APPENDS);
    fixture_close(&f);
    return 0;
}
