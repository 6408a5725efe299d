#include "request/request_metrics.h"
#include "trace/trace_record.h"

static void add(mpb_atomic64 *cell, uint64_t n) { mpb_store_relaxed(cell, mpb_load_relaxed(cell) + n); }

/* 0: up to MPB_TIME_FIRST_TICKS; each further bucket twice as long; the last: anything longer. */
static uint32_t bucket_of(uint32_t ticks)
{
    if (ticks <= MPB_TIME_FIRST_TICKS)
        return 0;
    uint32_t bucket = 28u - (uint32_t)__builtin_clz(ticks - 1); /* 17 .. 32 ticks: 1 */
    return bucket < MPB_TIME_BUCKETS - 1 ? bucket : MPB_TIME_BUCKETS - 1;
}
_Static_assert(MPB_TIME_FIRST_TICKS == 16, "bucket_of");

/* One of the times; inlined with constants, which a loop over a table of stages would cost twice the instructions. */
static inline void add_time(struct mpb_api_row *row, const struct mpb_trace *t, int which, int from, int to)
{
    uint32_t begun = t->stage[from], ended = t->stage[to];
    if (begun == MPB_TRACE_NOT_REACHED || ended == MPB_TRACE_NOT_REACHED)
        return;
    uint32_t ticks = ended > begun ? ended - begun : 0;
    add(&row->time[which].ticks, ticks);
    add(&row->time[which].bucket[bucket_of(ticks)], 1);
}

static void add_times(struct mpb_api_row *row, const struct mpb_trace *t)
{
    add_time(row, t, MPB_TIME_REQUEST_QUEUE, MPB_STAGE_ENQUEUED, MPB_STAGE_DEQUEUED);
    add_time(row, t, MPB_TIME_LOCAL, MPB_STAGE_DEQUEUED, MPB_STAGE_LOCAL_DONE);
    add_time(row, t, MPB_TIME_REMOTE, MPB_STAGE_LOCAL_DONE, MPB_STAGE_RESP_ENQ);
    add_time(row, t, MPB_TIME_RESPONSE_QUEUE, MPB_STAGE_RESP_ENQ, MPB_STAGE_RESP_DEQ);
    add_time(row, t, MPB_TIME_RESPONSE_SEND, MPB_STAGE_RESP_DEQ, MPB_STAGE_SEND_DONE);
    add_time(row, t, MPB_TIME_TOTAL, MPB_STAGE_FRAME_DONE, MPB_STAGE_SEND_DONE);
}
_Static_assert(MPB_REQUEST_TIMES == 6, "add_times");

/* A table of few codes: an API answers with few different ones. What finds no place is counted without its code. */
static void add_error(struct mpb_api_row *row, int32_t code)
{
    for (int i = 0; i < MPB_API_ERRORS; i++) {
        uint64_t count = mpb_load_relaxed(&row->error[i].count);
        if (count == 0)
            mpb_store_relaxed(&row->error[i].code, (uint32_t)code);
        else if ((int32_t)mpb_load_relaxed(&row->error[i].code) != code)
            continue;
        mpb_store_release(&row->error[i].count, count + 1);
        return;
    }
    add(&row->other_errors, 1);
}

void mpb_request_account(struct mpb_core *core, uint32_t processor, struct mpb_entry *entry)
{
    struct mpb_api_row *row = mpb_api_row_of(core, processor, entry->api_key);
    if (row == NULL)
        return;
    const struct mpb_trace *t = mpb_trace_of(entry->trace);
    bool known = entry->api_version >= 0 && entry->api_version < MPB_API_VERSIONS - 1;
    add(&row->version[known ? entry->api_version : MPB_API_VERSIONS - 1], 1);
    add(&row->request_bytes, entry->payload_length + 4u);
    add(&row->response_bytes, entry->answer_length);
    if (entry->error != 0)
        add_error(row, entry->error);
    if (t->t0_ns != 0)
        add_times(row, t);
}
