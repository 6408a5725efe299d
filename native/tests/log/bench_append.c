/* What the commit protocol costs beside a plain pwrite: nanoseconds of CPU per append of one batch, median of rounds,
 * the variants taken in turn. bench_append [batch bytes [appends [rounds]]]; the directory is TMPDIR or /tmp. */
#include "tests/log/log_fixture.h"
#include <time.h>

enum { MAX_ROUNDS = 51 };

static struct fixture f;
static uint8_t *batch;
static size_t batch_length;
static long appends;
static int plain_fd;

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void plain_write(void)
{
    static mpb_atomic64 end;
    for (long i = 0; i < appends; i++) {
        CHECK_EQ(pwrite(plain_fd, batch, batch_length, (off_t)(i * (long)batch_length)), (ssize_t)batch_length);
        mpb_store_release(&end, (uint64_t)i + 1);
    }
}

static void checked_write(void)
{
    static const struct mpb_batch_rules RULES = {.produce_version = 7, .from_client = true};
    struct mpb_batch_info info;
    for (long i = 0; i < appends; i++) {
        CHECK_EQ(mpb_batch_check(batch, batch_length, &RULES, &info), 0);
        CHECK_EQ(pwrite(plain_fd, batch, batch_length, (off_t)(i * (long)batch_length)), (ssize_t)batch_length);
    }
}

static void protocol(uint32_t ordinal, bool idempotent)
{
    static int32_t sequence;
    struct mpb_append_options options = FIX_OPTIONS;
    struct mpb_batch_info info;
    struct mpb_append_result result;
    options.segment_bytes = 1 << 30;
    options.index_max_bytes = 10485760;
    mpb_batch_read(batch, &info);
    struct mpb_append_request request = {.ordinal = ordinal,
                                         .entry = 1,
                                         .batch = batch,
                                         .info = &info,
                                         .max_timestamp = MPB_RECORDS_UNSEEN,
                                         .now_ms = 5000,
                                         .leader_epoch = -1};
    for (long i = 0; i < appends; i++) {
        f.core.entries[1].fill_number++;
        if (idempotent) {
            info.producer_id = 5;
            info.producer_epoch = 0;
            info.base_sequence = sequence++;
        }
        mpb_append(&f.log, &options, &request, &result);
        CHECK_EQ(result.error, 0);
    }
}

static void plain_protocol(void) { protocol(0, false); }
static void idempotent_protocol(void) { protocol(1, true); }

static void checked_protocol(void)
{
    static const struct mpb_batch_rules RULES = {.produce_version = 7, .from_client = true};
    struct mpb_batch_info info;
    for (long i = 0; i < appends; i++)
        CHECK_EQ(mpb_batch_check(batch, batch_length, &RULES, &info), 0);
    protocol(0, false);
}

static void snapshots(void)
{
    struct mpb_partition_copy copy;
    for (long i = 0; i < appends; i++)
        CHECK_EQ(mpb_partition_snapshot(&f.log, 0, &copy), 0);
}

static void finds(void)
{
    struct mpb_read_plan plan;
    struct mpb_partition_copy copy;
    CHECK_EQ(mpb_partition_snapshot(&f.log, 0, &copy), 0);
    for (long i = 0; i < appends; i++)
        CHECK_EQ(mpb_log_find(&f.log, 0, NULL, copy.leo - 1 - i % 1000, MPB_READ_TO_END, 4096, true, &plan), 0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } VARIANTS[] = {
        {"pwrite and one store", plain_write},
        {"check (CRC) and pwrite", checked_write},
        {"the protocol", plain_protocol},
        {"the protocol, idempotent", idempotent_protocol},
        {"check and the protocol", checked_protocol},
        {"a reader's snapshot", snapshots},
        {"find near the end", finds},
    };
    enum { VARIANT_COUNT = sizeof VARIANTS / sizeof *VARIANTS };
    static double ns[VARIANT_COUNT][MAX_ROUNDS];
    uint32_t bytes = argc > 1 ? (uint32_t)atoi(argv[1]) : 100;
    appends = argc > 2 ? atol(argv[2]) : 20000;
    int rounds = argc > 3 ? atoi(argv[3]) : 15;
    CHECK(bytes >= MPB_BATCH_HEADER_BYTES && bytes <= 1 << 20 && rounds >= 1 && rounds <= MAX_ROUNDS);
    struct batch_spec spec = {
        .records = 1, .producer_id = -1, .timestamp = 1, .payload = bytes - MPB_BATCH_HEADER_BYTES};
    batch = malloc(bytes);
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    fixture_fill(&f, 1, 1);
    batch_length = make_batch(batch, &spec);
    plain_fd = openat(f.log.dir_fd[0], "plain", O_RDWR | O_CREAT, 0600);
    for (int round = 0; round < rounds; round++)
        for (int v = 0; v < VARIANT_COUNT; v++) {
            CHECK_EQ(ftruncate(plain_fd, 0), 0);
            int64_t before = cpu_ns();
            VARIANTS[v].run();
            ns[v][round] = (double)(cpu_ns() - before) / (double)appends;
        }
    printf("ns of CPU per operation, batch of %zu bytes, median (best) of %d rounds of %ld\n", batch_length, rounds,
           appends);
    for (int v = 0; v < VARIANT_COUNT; v++) {
        qsort(ns[v], (size_t)rounds, sizeof(double), by_value);
        printf("  %-26s %8.0f  (%.0f)\n", VARIANTS[v].name, ns[v][rounds / 2], ns[v][0]);
    }
    fixture_close(&f);
    return 0;
}
