/* Counts and durations by API: which bucket a duration falls into, codes, versions, requests without a trace, and rows
 * of different processors. */
#include "request/request_metrics.h"
#include "tests/stepping/check.h"
#include "trace/trace_record.h"
#include <string.h>

#define PROCESSORS 2
static struct mpb_api_row rows[PROCESSORS * MPB_API_ROWS];
static struct mpb_core core = {.apis = rows, .api_count = PROCESSORS * MPB_API_ROWS};

static struct mpb_entry request(int16_t api_key, int16_t version, int32_t error)
{
    struct mpb_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.api_key = api_key;
    entry.api_version = version;
    entry.error = error;
    entry.payload_length = 96;
    entry.answer_length = 50;
    mpb_trace_begin(entry.trace, 1000);
    return entry;
}

static void with_total(uint32_t ticks, uint32_t bucket)
{
    memset(rows, 0, sizeof rows);
    struct mpb_entry entry = request(1, 4, 0);
    struct mpb_trace *t = mpb_trace_of(entry.trace);
    t->stage[MPB_STAGE_FRAME_DONE] = 7;
    t->stage[MPB_STAGE_SEND_DONE] = 7 + ticks;
    mpb_request_account(&core, 0, &entry);
    const struct mpb_time_histogram *total = &rows[1].time[MPB_TIME_TOTAL];
    CHECK_EQ(total->ticks, ticks);
    for (uint32_t i = 0; i < MPB_TIME_BUCKETS; i++)
        CHECK_EQ(total->bucket[i], i == bucket);
    CHECK_EQ(rows[1].time[MPB_TIME_LOCAL].ticks, 0); /* stages that were not reached: no duration */
    CHECK_EQ(rows[1].time[MPB_TIME_LOCAL].bucket[0], 0);
}

static void test_buckets(void)
{
    with_total(0, 0);
    with_total(MPB_TIME_FIRST_TICKS, 0);
    with_total(MPB_TIME_FIRST_TICKS + 1, 1);
    with_total(2 * MPB_TIME_FIRST_TICKS, 1);
    with_total(2 * MPB_TIME_FIRST_TICKS + 1, 2);
    with_total(MPB_TIME_FIRST_TICKS << (MPB_TIME_BUCKETS - 2), MPB_TIME_BUCKETS - 2);
    with_total((MPB_TIME_FIRST_TICKS << (MPB_TIME_BUCKETS - 2)) + 1, MPB_TIME_BUCKETS - 1);
    with_total(0xFFFFFFF0u, MPB_TIME_BUCKETS - 1);
}

static void test_each_stage_goes_to_its_histogram(void)
{
    memset(rows, 0, sizeof rows);
    struct mpb_entry entry = request(0, 7, 0);
    struct mpb_trace *t = mpb_trace_of(entry.trace);
    const int stages[] = {MPB_STAGE_FRAME_DONE, MPB_STAGE_ENQUEUED, MPB_STAGE_DEQUEUED, MPB_STAGE_LOCAL_DONE,
                          MPB_STAGE_RESP_ENQ,   MPB_STAGE_RESP_DEQ, MPB_STAGE_SEND_DONE};
    for (uint32_t i = 0, at = 0; i < 7; i++, at += i * 100)
        t->stage[stages[i]] = at;
    mpb_request_account(&core, 1, &entry);
    const struct mpb_time_histogram *time = rows[MPB_API_ROWS].time;
    CHECK_EQ(time[MPB_TIME_REQUEST_QUEUE].ticks, 200);
    CHECK_EQ(time[MPB_TIME_LOCAL].ticks, 300);
    CHECK_EQ(time[MPB_TIME_REMOTE].ticks, 400);
    CHECK_EQ(time[MPB_TIME_RESPONSE_QUEUE].ticks, 500);
    CHECK_EQ(time[MPB_TIME_RESPONSE_SEND].ticks, 600);
    CHECK_EQ(time[MPB_TIME_TOTAL].ticks, 2100);
    CHECK_EQ(rows[0].request_bytes, 0); /* another processor's row */
    CHECK_EQ(rows[MPB_API_ROWS].request_bytes, 100);
    CHECK_EQ(rows[MPB_API_ROWS].response_bytes, 50);
}

static void test_versions_and_errors(void)
{
    memset(rows, 0, sizeof rows);
    const struct {
        int16_t version;
        int32_t error;
    } asked[] = {{0, 0},  {18, 3}, {19, 3}, {99, -1}, {-1, 10}, {0, 11},
                 {0, 12}, {0, 13}, {0, 14}, {0, 15},  {0, 16},  {0, 3}};
    for (uint32_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct mpb_entry entry = request(MPB_API_ROWS - 1, asked[i].version, asked[i].error);
        mpb_trace_of(entry.trace)->t0_ns = 0; /* not traced: counted all the same */
        mpb_request_account(&core, 0, &entry);
    }
    const struct mpb_api_row *row = &rows[MPB_API_ROWS - 1];
    CHECK_EQ(row->version[0], 8);
    CHECK_EQ(row->version[18], 1);
    CHECK_EQ(row->version[MPB_API_VERSIONS - 1], 3);
    CHECK_EQ((int32_t)row->error[0].code, 3);
    CHECK_EQ(row->error[0].count, 3);
    CHECK_EQ((int32_t)row->error[1].code, -1);
    CHECK_EQ(row->error[MPB_API_ERRORS - 1].count, 1);
    CHECK_EQ(row->other_errors, 1); /* 16 was the ninth code */
    CHECK_EQ(row->time[MPB_TIME_TOTAL].ticks, 0);
}

static void test_keys_that_nobody_serves(void)
{
    memset(rows, 0, sizeof rows);
    const int16_t keys[] = {-1, (int16_t)MPB_API_ROWS, INT16_MAX, INT16_MIN};
    for (int i = 0; i < 4; i++) {
        struct mpb_entry entry = request(keys[i], 0, 1);
        mpb_request_account(&core, 1, &entry);
    }
    for (uint32_t i = 0; i < sizeof rows; i++)
        CHECK_EQ(((const uint8_t *)rows)[i], 0);
}

int main(void)
{
    test_buckets();
    test_each_stage_goes_to_its_histogram();
    test_versions_and_errors();
    test_keys_that_nobody_serves();
    printf("request metrics: %lu checks\n", checks_made);
    return 0;
}
