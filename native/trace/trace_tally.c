#include "trace/trace_tally.h"
#include "record/crc32.h"
#include <stdbool.h>
#include <string.h>

static void add_request(struct mpb_trace_tally *tally, const struct mpb_trace *t)
{
    bool first = tally->t0_max_ns == 0;
    tally->next_seq++;
    tally->t0_min_ns = first || t->t0_ns < tally->t0_min_ns ? t->t0_ns : tally->t0_min_ns;
    tally->t0_max_ns = t->t0_ns > tally->t0_max_ns ? t->t0_ns : tally->t0_max_ns;
    uint32_t total = t->stage[MPB_STAGE_SEND_DONE];
    if (total != MPB_TRACE_NOT_REACHED && total > tally->max_total_ticks)
        tally->max_total_ticks = total;
    tally->api_counts[t->api_key >= 0 && t->api_key < MPB_TALLY_APIS - 1 ? t->api_key : MPB_TALLY_APIS - 1]++;
}

void mpb_tally_add(struct mpb_trace_tally *tally, const void *records, size_t count)
{
    tally->crc = mpb_crc32(tally->crc, records, count * MPB_TRACE_BYTES);
    tally->count += count;
    for (size_t i = 0; i < count; i++) {
        struct mpb_trace t; /* a buffer may begin anywhere */
        memcpy(&t, (const uint8_t *)records + i * MPB_TRACE_BYTES, sizeof t);
        if (t.kind == MPB_TRACE_REQUEST)
            add_request(tally, &t);
    }
}
