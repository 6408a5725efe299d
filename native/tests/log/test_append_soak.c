/* Random kills under load: four handlers append requests of one to three partitions (two of them idempotent), two
 * readers read, a keeper rolls and retains; the parent kills them at random and forks successors, which finish what
 * their predecessors had in hand. At the end every acknowledged batch stands exactly once where its answer said, no
 * batch stands twice, offsets have no gap and every index entry points at a batch; and each append rang who waited for its
 * partition. test_append_soak [seconds [seed]] */
#include "tests/log/log_fixture.h"
#include "log/log_flush.h"
#include "log/repair.h"
#include "log/retain.h"
#include "log/roll.h"
#include "shm/doorbell.h"
#include "tests/stepping/stepper.h"
#include <sys/prctl.h>
#include <time.h>

enum {
    HANDLERS = 4,
    WAITERS = 40,
    READERS = 2,
    WORKERS = HANDLERS + READERS + 1,
    PARTITIONS = 4,
    WIDTH = 3,
    MAX_REQUESTS = 400000
};

struct request { /* of one handler: number `answered` is in hand when `filled` is one more */
    mpb_atomic32 answered, filled;
    uint32_t width, first_partition;
};

static struct soak {
    mpb_atomic32 stop;
    mpb_atomic64 reads;
    struct request request[HANDLERS];
    int64_t answered[HANDLERS][MAX_REQUESTS][WIDTH]; /* base offset + 1 */
} *soak;

static struct fixture f;
static uint8_t seen[HANDLERS][MAX_REQUESTS][WIDTH];

static struct mpb_append_options options(void)
{
    struct mpb_append_options o = FIX_OPTIONS;
    o.segment_bytes = 60000;
    o.index_interval_bytes = 512;
    return o;
}

/* Whoever waits for the partition is rung: taken off the watchers before the append returns. `fresh` is false of a request
 * that a predecessor may have appended: then the successor rings everybody. */
static void append_and_look(struct mpb_log *log, const struct mpb_append_options *o,
                            const struct mpb_append_request *append, bool fresh, struct mpb_append_result *result)
{
    uint32_t waiter = WAITERS + append->entry;
    mpb_watch_partition(&f.core, append->ordinal, waiter);
    mpb_append(log, o, append, result);
    CHECK(!fresh || result->busy ||
          (mpb_load_acquire(&f.core.partitions[append->ordinal].watchers) >> waiter & 1) == 0);
}

static void run_request(struct mpb_log *log, uint32_t h, bool fresh)
{
    struct request *r = &soak->request[h];
    uint32_t number = mpb_load_acquire(&r->answered);
    struct mpb_append_options o = options();
    uint8_t bytes[MPB_BATCH_HEADER_BYTES + 64];
    struct mpb_batch_info info;
    struct mpb_append_result result;
    for (uint32_t i = 0; i < r->width; i++) {
        uint32_t partition = (r->first_partition + i) % PARTITIONS;
        struct batch_spec spec = {.records = 1 + (int32_t)(number % 3),
                                  .producer_id = -1,
                                  .payload = 16 + number % 48,
                                  .timestamp = number,
                                  .mark = (uint8_t)h};
        if (h < 2) /* every request of these goes to all its partitions, so that sequences follow */
            spec.producer_id = 10 + (int64_t)h * WIDTH + i, spec.records = 1, spec.sequence = (int32_t)number;
        make_batch(bytes, &spec);
        uint32_t words[3] = {h, number, i};
        memcpy(bytes + MPB_BATCH_HEADER_BYTES, words, sizeof words);
        size_t length = MPB_BATCH_HEADER_BYTES + spec.payload;
        mpb_put_be32(bytes + MPB_BATCH_CRC,
                     (int32_t)mpb_crc32c(0, bytes + MPB_BATCH_ATTRIBUTES, length - MPB_BATCH_ATTRIBUTES));
        mpb_batch_read(bytes, &info);
        struct mpb_append_request append = {.ordinal = partition,
                                            .entry = h,
                                            .cell = i,
                                            .batch = bytes,
                                            .info = &info,
                                            .max_timestamp = MPB_RECORDS_UNSEEN,
                                            .now_ms = 1,
                                            .leader_epoch = -1};
        do
            append_and_look(log, &o, &append, fresh, &result);
        while (result.busy && mpb_load_acquire(&soak->stop) == 0); /* a handler would park it meanwhile */
        if (result.busy)
            _exit(0);
        CHECK_EQ(result.error, 0);
        CHECK(!result.duplicate);
        soak->answered[h][number][i] = result.base_offset + 1;
    }
}

static void handler(struct mpb_log *log, uint32_t h, uint64_t *random)
{
    struct request *r = &soak->request[h];
    while (mpb_load_acquire(&soak->stop) == 0 && mpb_load_acquire(&r->answered) < MAX_REQUESTS) {
        uint32_t next = mpb_load_acquire(&r->answered) + 1;
        bool fresh = mpb_load_acquire(&r->filled) != next;
        if (fresh) {
            fixture_fill(&f, h, WIDTH);
            r->width = h < 2 ? WIDTH : 1 + (uint32_t)(next_random(random) % WIDTH);
            r->first_partition = h < 2 ? h : (uint32_t)(next_random(random) % PARTITIONS);
            mpb_store_release(&r->filled, next);
        }
        run_request(log, h, fresh);
        mpb_store_release(&r->answered, next);
    }
}

static void reader(struct mpb_log *log, uint64_t *random)
{
    static uint8_t bytes[8192];
    struct mpb_read_plan plan;
    while (mpb_load_acquire(&soak->stop) == 0) {
        uint32_t length, partition = (uint32_t)(next_random(random) % PARTITIONS);
        struct mpb_partition_copy copy;
        CHECK_EQ(mpb_partition_snapshot(log, partition, &copy), 0);
        CHECK(copy.log_start <= copy.hw && copy.hw <= copy.leo && copy.active_base <= copy.leo);
        if (copy.leo == copy.log_start)
            continue;
        int64_t offset = copy.log_start + (int64_t)(next_random(random) % (uint64_t)(copy.leo - copy.log_start));
        int error = mpb_log_find(log, partition, NULL, offset, MPB_READ_TO_HIGH_WATERMARK, sizeof bytes, false, &plan);
        if (error == 0)
            error = mpb_log_read(log, &plan, bytes, &length);
        if (error == MPB_ERR_OFFSET_OUT_OF_RANGE) /* retention was faster */
            continue;
        CHECK_EQ(error, 0);
        CHECK(length >= plan.first_batch_bytes && mpb_batch_crc_ok(bytes, plan.first_batch_bytes));
        CHECK(mpb_be64(bytes) <= offset && offset <= mpb_be64(bytes) + mpb_be32(bytes + MPB_BATCH_LAST_OFFSET_DELTA));
        mpb_add_relaxed(&soak->reads, 1);
    }
}

static bool done_or_busy(int error) { return error == 0 || error == MPB_ERR_REQUEST_TIMED_OUT; }

static void keeper(struct mpb_log *log, uint64_t *random)
{
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    while (mpb_load_acquire(&soak->stop) == 0) {
        uint32_t count, partition = (uint32_t)(next_random(random) % PARTITIONS);
        int64_t flushed;
        struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = 200000};
        CHECK(done_or_busy(mpb_retain(log, partition, &rules, removed, &count)));
        if (next_random(random) % 8 == 0)
            CHECK(done_or_busy(mpb_roll(log, partition, 1)));
        if (next_random(random) % 64 == 0)
            CHECK(done_or_busy(mpb_log_flush(log, partition, &flushed)));
        mpb_segment_close_stale(log);
        usleep(2000);
    }
}

static pid_t start(uint32_t worker, uint64_t seed)
{
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child != 0)
        return child;
    struct mpb_log log;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before that */
        _exit(1);
    fixture_handle(&f, &log, MPB_SLOT_HANDLERS + worker);
    if (seed % 2 == 0)
        mpb_repair_slot(&log, MPB_SLOT_HANDLERS + worker);
    if (worker < HANDLERS)
        handler(&log, worker, &seed);
    else if (worker < HANDLERS + READERS)
        reader(&log, &seed);
    else
        keeper(&log, &seed);
    _exit(0);
}

/* For what is said at the end to mean something. */
static bool has_enough(long kills)
{
    long answered = 0;
    for (uint32_t h = 0; h < HANDLERS; h++)
        answered += mpb_load_acquire(&soak->request[h].answered);
    return kills > 20 && answered > 1000;
}

/* For so long, and on a machine that has little time for it up to fifteen times as long, until it is enough. */
static long kill_for(double seconds, uint64_t *random)
{
    double spent;
    struct timespec begin, now;
    pid_t pids[WORKERS];
    long kills = 0;
    for (uint32_t w = 0; w < WORKERS; w++)
        pids[w] = start(w, next_random(random) | 1);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        usleep((useconds_t)(next_random(random) % 4000));
        uint32_t w = (uint32_t)(next_random(random) % WORKERS);
        int status;
        kill(pids[w], SIGKILL);
        CHECK_EQ(waitpid(pids[w], &status, 0), pids[w]);
        CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        kills += WIFSIGNALED(status);
        pids[w] = start(w, next_random(random));
        clock_gettime(CLOCK_MONOTONIC, &now);
        spent = (double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec);
    } while (spent < seconds || (spent < 15 * seconds && !has_enough(kills)));
    mpb_store_release(&soak->stop, 1);
    for (uint32_t w = 0; w < WORKERS; w++) {
        int status;
        CHECK_EQ(waitpid(pids[w], &status, 0), pids[w]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return kills;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_log(const struct dirent *entry) { return strstr(entry->d_name, ".log") != NULL; }

/* One segment, retained or not: contiguous offsets, no batch twice, and each where its answer said. */
static int64_t check_segment(uint32_t partition, const char *path, int64_t next, uint8_t *bytes, size_t room)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, room);
    close(fd);
    CHECK(n >= 0 && n < (ssize_t)room);
    struct mpb_batch_scan scan = {.data = bytes, .len = (size_t)n, .check_crc = true};
    struct mpb_batch_info info;
    size_t need;
    enum mpb_scan_result result;
    while ((result = mpb_batch_scan_next(&scan, &info, &need)) == MPB_SCAN_BATCH) {
        uint32_t words[3];
        memcpy(words, info.records, sizeof words);
        CHECK_EQ(info.base_offset, next);
        next += info.last_offset_delta + 1;
        CHECK(words[0] < HANDLERS && words[1] < MAX_REQUESTS && words[2] < WIDTH);
        CHECK_EQ(seen[words[0]][words[1]][words[2]], 0);
        seen[words[0]][words[1]][words[2]] = 1;
        int64_t answered = soak->answered[words[0]][words[1]][words[2]];
        if (answered != 0)
            CHECK_EQ(answered, info.base_offset + 1);
        (void)partition;
    }
    CHECK_EQ(result, MPB_SCAN_END);
    return next;
}

/* Every offset is found through the index as well as by walking. */
static void check_lookups(uint32_t partition, uint64_t *random)
{
    struct mpb_partition_copy copy;
    struct mpb_read_plan plan;
    uint8_t bytes[4096];
    CHECK_EQ(mpb_partition_snapshot(&f.log, partition, &copy), 0);
    for (int i = 0; i < 3000 && copy.leo > copy.log_start; i++) {
        int64_t offset = copy.log_start + (int64_t)(next_random(random) % (uint64_t)(copy.leo - copy.log_start));
        uint32_t length;
        CHECK_EQ(mpb_log_find(&f.log, partition, NULL, offset, MPB_READ_TO_END, 1, true, &plan), 0);
        CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), 0);
        CHECK(mpb_be64(bytes) <= offset && offset <= mpb_be64(bytes) + mpb_be32(bytes + MPB_BATCH_LAST_OFFSET_DELTA));
    }
}

static long check_all(uint64_t *random)
{
    static uint8_t bytes[1 << 18];
    long acknowledged = 0;
    for (uint32_t partition = 0; partition < PARTITIONS; partition++) {
        char dir[256], path[600];
        struct dirent **names;
        int64_t next = 0;
        CHECK_EQ(mpb_partition_lock(&f.log, partition), 0);
        mpb_partition_unlock(&f.log, partition);
        snprintf(dir, sizeof dir, "%s/t-%u", f.dir, partition);
        int count = scandir(dir, &names, is_log, by_name);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
            next = check_segment(partition, path, next, bytes, sizeof bytes);
            free(names[i]);
        }
        free(names);
        CHECK_EQ(mpb_partition_in_force(&f.core.partitions[partition])->leo, next);
        check_lookups(partition, random);
    }
    for (uint32_t h = 0; h < HANDLERS; h++)
        for (uint32_t n = 0; n < mpb_load_acquire(&soak->request[h].answered); n++)
            for (uint32_t i = 0; i < WIDTH; i++)
                if (soak->answered[h][n][i] != 0) {
                    CHECK_EQ(seen[h][n][i], 1); /* nothing acknowledged is lost */
                    acknowledged++;
                }
    return acknowledged;
}

int main(int argc, char **argv)
{
    if (!KILLS_WORK) {
        puts("append soak: NOT RUN under the thread sanitizer");
        return 0;
    }
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : (uint64_t)time(NULL) * 2 + 1, seed = random;
    fixture_open(&f);
    soak = shared_bytes(sizeof *soak);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        fixture_partition(&f, p);
    long kills = kill_for(seconds, &random);
    long acknowledged = check_all(&random);
    CHECK(kills > 20 && acknowledged > 1000);
    printf("append soak: seed %llu, %ld kills, %ld batches acknowledged, %llu reads, %lu checks\n",
           (unsigned long long)seed, kills, acknowledged, (unsigned long long)mpb_load_relaxed(&soak->reads),
           checks_made);
    fixture_close(&f);
    return 0;
}
