/* What keeps processors and handlers out of each other's cache lines: numbers of their own, and questions that are
 * answered from what one has at hand. (Which word stands in which line, layout.h asserts.) */
#include "request/killers.h"
#include "shm/doorbell.h"
#include "tests/request/request_drama.h"

static struct drama d;

/* A handler's share of one request; its fill number. */
static uint64_t answer_one(void)
{
    int64_t entry = mpb_handler_claim(&d.h[0], false);
    CHECK(entry >= 0);
    uint64_t number = d.w.core.entries[entry].fill_number;
    mpb_answer_nothing(&d.h[0], (uint32_t)entry, MPB_ANSWER_NONE);
    return number;
}

/* Each processor counts in its own word; a successor goes on behind what its predecessor took. */
static void test_fill_numbers(void)
{
    uint64_t last[2] = {0};
    drama_open(&d);
    d.scene = "fill numbers";
    for (uint32_t id = 0; id < 6; id++) {
        uint32_t p = id % 2;
        if (id == 4) {
            mpb_processor_close(&d.p[0]);
            CHECK_EQ(mpb_processor_open(&d.p[0], &d.w.core, 0), 0);
        }
        CHECK(submit(&d.p[p], MPB_PLANE_DATA, id, 50) >= 0);
        uint64_t number = answer_one();
        CHECK_EQ(number >> MPB_FILL_INDEX_SHIFT, p);
        CHECK(number > last[p]);
        last[p] = number;
        CHECK_EQ(mpb_load_relaxed(&d.w.core.doorbells->processor_mark[p].fills), id / 2 + 1);
    }
    drama_close(&d);
}

enum { LONG_FRAME = 1 << 20 };

/* A frame is compared by its length first, then by its begin and its end: a processor hashes no 100 MiB. */
static void test_killers_are_looked_at_by_length(void)
{
    static uint8_t frame[LONG_FRAME];
    drama_open(&d);
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 7);
    CHECK_EQ((uint32_t)mpb_frame_digest(frame, sizeof frame), sizeof frame);
    mpb_killer_add(&d.w.core, mpb_frame_digest(frame, sizeof frame), 1, MPB_KILLS_REFUSED);
    CHECK(mpb_killer_known(&d.w.core, frame, sizeof frame));
    CHECK(!mpb_killer_known(&d.w.core, frame, sizeof frame - 1));
    CHECK(!mpb_killer_known(&d.w.core, frame + 1, sizeof frame - 1));
    frame[5] ^= 1; /* the correlation id */
    CHECK(mpb_killer_known(&d.w.core, frame, sizeof frame));
    frame[LONG_FRAME / 2] ^= 1; /* neither begin nor end */
    CHECK(mpb_killer_known(&d.w.core, frame, sizeof frame));
    const size_t told_apart[] = {0, 3, 8, 65000, LONG_FRAME - 65000, LONG_FRAME - 1};
    for (size_t i = 0; i < sizeof told_apart / sizeof *told_apart; i++) {
        frame[told_apart[i]] ^= 1;
        CHECK(!mpb_killer_known(&d.w.core, frame, sizeof frame));
        frame[told_apart[i]] ^= 1;
    }
    for (uint32_t length = 1; length < 20; length++) { /* shorter than a header */
        mpb_killer_add(&d.w.core, mpb_frame_digest(frame, length), 1 + length, MPB_KILLS_REFUSED);
        CHECK(mpb_killer_known(&d.w.core, frame, length));
    }
    drama_close(&d);
}

/* The peak is exact although a push seldom looks at the takers' end. */
static void test_peaks(void)
{
    drama_open(&d);
    struct mpb_ring ring = mpb_ring_view(&d.w.core, mpb_plane_ring(MPB_PLANE_DATA, 0));
    static const uint32_t waves[] = {2, 1, 3, 2};
    uint32_t id = 0, peak = 0;
    for (size_t i = 0; i < sizeof waves / sizeof *waves; i++) {
        for (uint32_t n = 0; n < waves[i]; n++)
            CHECK(submit(&d.p[(id + n) % 2], MPB_PLANE_DATA, id + n, 50) >= 0);
        for (uint32_t n = 0; n < waves[i]; n++)
            answer_one();
        id += waves[i];
        peak = waves[i] > peak ? waves[i] : peak;
        CHECK_EQ(mpb_load_relaxed(&ring.ctl->peak), peak);
    }
    CHECK(mpb_load_relaxed(&ring.ctl->head_seen) < mpb_load_relaxed(&ring.ctl->head)); /* it was not always looked at */
    drama_close(&d);
}

int main(void)
{
    world_open(&d.w, &small_plan);
    test_fill_numbers();
    test_killers_are_looked_at_by_length();
    test_peaks();
    printf("cache lines: %lu checks\n", checks_made);
    return 0;
}
