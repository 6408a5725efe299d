/* Look-ups in a log against the list of its batches: by offset up to every limit and number of bytes, by time and for the
 * largest time, from every log start on; times go up and down, and some batches have none. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/log_read.h"

enum { BATCHES = 60, EARLIEST = 1000 };

struct listed {
    int64_t base, last, timestamp;
    uint32_t bytes, segment; /* number of its segment, position in it */
    uint64_t position;
};

static struct fixture f;
static struct listed list[BATCHES];
static int64_t first_base, end; /* of the log */
static uint64_t dice;

static uint32_t roll_dice(uint32_t sides) { return random_below(&dice, sides); }

static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(&f.core.partitions[0]); }

/* An empty log that begins at `first_base`, as after a start beyond the leader's log start. */
static void begin_at_base(void)
{
    const struct mpb_partition_identity identity = {.topic_id = {7}, .dir = "t-0"};
    const struct mpb_partition_copy state = {.log_start = first_base,
                                             .leo = first_base,
                                             .hw = first_base,
                                             .lso = first_base,
                                             .active_base = first_base,
                                             .segment_count = 1,
                                             .leader_epoch = 3,
                                             .max_timestamp = -1,
                                             .max_timestamp_offset = -1,
                                             .first_timestamp = -1,
                                             .indexed_timestamp = -1};
    CHECK_EQ(mpb_segment_unlink(&f.log, &f.core.partitions[0], 0), 0);
    CHECK_EQ(mpb_segment_create(&f.log, &f.core.partitions[0], first_base), 0);
    CHECK_EQ(mpb_partition_publish(&f.log, 0, &identity, &state), 0);
}

static void make_log(bool with_times)
{
    struct mpb_append_options options = FIX_OPTIONS;
    options.segment_bytes = 1200;
    options.index_interval_bytes = 150;
    fixture_open(&f);
    fixture_partition(&f, 0);
    if (first_base != 0)
        begin_at_base();
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct batch_spec spec = {.records = 1 + (int32_t)roll_dice(3), .producer_id = -1, .payload = roll_dice(120)};
        spec.timestamp = with_times && roll_dice(9) != 0 ? EARLIEST + (int64_t)roll_dice(60) : -1;
        struct mpb_append_result result = append_batch(&f.log, &options, 0, MPB_NO_REQUEST, 0, &spec);
        CHECK_EQ(result.error, 0);
        list[i] = (struct listed){.base = result.base_offset,
                                  .last = result.end_offset - 1,
                                  .timestamp = spec.timestamp,
                                  .bytes = MPB_BATCH_HEADER_BYTES + spec.payload,
                                  .segment = now()->segment_count - 1,
                                  .position = now()->position - MPB_BATCH_HEADER_BYTES - spec.payload};
    }
    end = list[BATCHES - 1].last + 1;
    CHECK(now()->segment_count > 4);
}

static uint32_t holder_of(int64_t offset)
{
    uint32_t i = 0;
    while (list[i].last < offset)
        i++;
    return i;
}

/* Whole batches below the limit, of one segment, as many bytes as are asked for; the first one whole, if one is wanted. */
static void by_offset(int64_t offset, int64_t limit, uint32_t most, bool min_one)
{
    struct mpb_read_plan plan;
    uint32_t available = 0, first = offset < end ? holder_of(offset) : BATCHES;
    for (uint32_t i = first; i < BATCHES && list[i].segment == list[first].segment && list[i].last < limit; i++)
        available += list[i].bytes;
    if (offset >= limit)
        available = 0;
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, offset, limit, most, min_one, &plan), 0);
    uint32_t wanted = most < available ? most : available;
    if (available != 0 && most < list[first].bytes)
        wanted = min_one ? list[first].bytes : 0;
    CHECK_EQ(plan.length, wanted);
    CHECK(plan.log_start == now()->log_start && plan.end_offset == end && plan.high_watermark == end);
    CHECK(plan.last_stable == end && plan.leader_epoch == 3 && plan.ordinal == 0);
    if (plan.length != 0)
        CHECK(plan.first_offset == list[first].base && plan.position == list[first].position &&
              plan.first_batch_bytes == list[first].bytes);
}

static void by_offsets(void)
{
    struct mpb_read_plan plan;
    for (int64_t offset = now()->log_start; offset <= end; offset++)
        for (int64_t limit = offset - 1; limit <= end + 1; limit += 1 + roll_dice(9)) {
            uint32_t bytes = offset < end ? list[holder_of(offset)].bytes : 10;
            by_offset(offset, limit < 0 ? 0 : limit, bytes - 1 + roll_dice(3), roll_dice(2) == 0);
            by_offset(offset, limit < 0 ? 0 : limit, 1 + roll_dice(1200), roll_dice(2) == 0);
        }
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, end + 1, MPB_READ_TO_END, 9, true, &plan), MPB_ERR_OFFSET_OUT_OF_RANGE);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, now()->log_start - 1, MPB_READ_TO_END, 9, true, &plan),
             MPB_ERR_OFFSET_OUT_OF_RANGE);
}

static void by_times(void)
{
    for (int64_t from = first_base - 1; from <= end; from += 1 + roll_dice(4))
        for (int64_t time = EARLIEST - 1; time <= EARLIEST + 60; time += 1 + roll_dice(3)) {
            struct mpb_read_plan plan;
            int64_t least = from > now()->log_start ? from : now()->log_start;
            uint32_t found = least < end ? holder_of(least) : BATCHES;
            while (found < BATCHES && list[found].timestamp < time)
                found++;
            CHECK_EQ(mpb_log_find_time(&f.log, 0, NULL, time, from, &plan), 0);
            CHECK_EQ(plan.length, found < BATCHES ? list[found].bytes : 0);
            if (found < BATCHES)
                CHECK(plan.first_offset == list[found].base && plan.position == list[found].position &&
                      plan.first_batch_bytes == plan.length);
        }
}

static void largest_time(void)
{
    int64_t largest = -1, told = 77;
    for (uint32_t i = 0; i < BATCHES; i++)
        if (list[i].last >= now()->log_start && list[i].timestamp > largest)
            largest = list[i].timestamp;
    CHECK_EQ(mpb_log_largest_time(&f.log, 0, NULL, &told), 0);
    CHECK_EQ(told, largest);
}

/* A file that was emptied from outside: the reader is told, and why is noted. */
static void emptied(void)
{
    struct mpb_read_plan plan;
    uint8_t bytes[400];
    uint32_t length = 7;
    int fd = mpb_segment_fd(&f.log, &f.core.partitions[0], now(), now()->active_base, MPB_FILE_LOG);
    CHECK_EQ(mpb_log_find(&f.log, 0, NULL, now()->active_base, MPB_READ_TO_END, 300, true, &plan), 0);
    for (int rest = 1; rest >= 0; rest--) {
        CHECK_EQ(ftruncate(fd, rest), 0);
        CHECK_EQ(mpb_log_read(&f.log, &plan, bytes, &length), MPB_ERR_KAFKA_STORAGE_ERROR);
        CHECK_EQ(length, 0);
        CHECK_EQ(mpb_load_relaxed(&f.core.processes[f.log.slot].log_errno), ERANGE);
        mpb_store_relaxed(&f.core.processes[f.log.slot].log_errno, 0);
    }
    CHECK(mpb_log_dir_online(&f.core, 0));
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        dice = seed;
        first_base = seed == 3 ? 5000000000 : 0; /* beyond 32 bits */
        make_log(seed != 4);
        for (int64_t start = first_base; start < end; start += 1 + roll_dice(5)) {
            CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, start), 0);
            largest_time();
            if (start % 4 == 0)
                by_times();
        }
        fixture_close(&f);
        make_log(seed != 4);
        CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, first_base + (int64_t)seed), 0);
        by_offsets();
        emptied();
        fixture_close(&f);
    }
    printf("read_model: %lu checks\n", checks_made);
    return 0;
}
