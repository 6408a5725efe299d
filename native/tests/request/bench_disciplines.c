/* What a request costs on its way through entry and rings under each discipline: submitted, taken, answered, collected,
 * freed, by one thread, `depth` requests waiting. Prints medians of rounds that take turns, in nanoseconds of
 * processor time. Build it
 * without crash points: `make -C native bench ONLY=disciplines`. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
#include "tests/shm/shm_world.h"

enum { REQUESTS = 20000, MOST_ROUNDS = 201 };
static const char *const NAMES[MPB_DISCIPLINES] = {"fifo", "plane", "priority", "fair", "shortest", "deadline"};
static struct world w;
static struct mpb_processor p[2];
static struct mpb_handler h;

static void push(uint32_t id)
{
    static const uint8_t frame[100] = {0, 0, 0, 7, 0, 0, 0, 1, 0xff, 0xff};
    struct mpb_submission s = {.connection = id,
                               .connection_generation = 1,
                               .frame = frame,
                               .length = sizeof frame,
                               .offset = MPB_PAYLOAD_INLINE,
                               .t0_ns = 1,
                               .frame_done_ns = 1,
                               .client_hash = id % 16 + 1};
    CHECK(mpb_submit(&p[id % 2], &s) >= 0);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double round_ns(uint32_t discipline, uint32_t depth)
{
    for (int i = 0; i < 2; i++)
        CHECK(mpb_processor_use(&p[i], discipline));
    h.chooser = (struct mpb_chooser){.discipline = discipline};
    uint64_t begin = cpu_ns();
    for (uint32_t n = 0; n < REQUESTS + depth - 1; n++) {
        if (n < REQUESTS)
            push(n);
        if (n + 1 < depth)
            continue;
        int64_t entry = mpb_handler_claim(&h, false);
        CHECK(entry >= 0);
        mpb_answer_nothing(&h, (uint32_t)entry, MPB_ANSWER_NONE);
        struct mpb_processor *owner = &p[w.core.entries[entry].connection % 2];
        CHECK_EQ(mpb_collect(owner), entry);
        CHECK(mpb_sent(owner, (uint32_t)entry, 1, false));
    }
    return (double)(cpu_ns() - begin) / REQUESTS;
}

static int by_size(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

int main(int argc, char **argv)
{
    static double ns[MPB_DISCIPLINES][MOST_ROUNDS];
    struct world_plan plan = {2, 2, 0, 512, 500, 20, 2, 64 << 10, 256 << 10};
    int rounds = argc > 1 ? atoi(argv[1]) : 31;
    uint32_t only = argc > 2 ? (uint32_t)atoi(argv[2]) : MPB_DISCIPLINES;
    CHECK(rounds > 0 && rounds <= MOST_ROUNDS);
    world_open(&w, &plan);
    for (uint32_t depth = 1; depth <= 64; depth *= 8) {
        for (uint32_t i = 0; i < 2; i++)
            CHECK_EQ(mpb_processor_open(&p[i], &w.core, i), 0);
        CHECK_EQ(mpb_handler_open(&h, &w.core, 0), 0);
        for (int r = 0; r < rounds; r++)
            for (uint32_t d = 0; d < MPB_DISCIPLINES; d++) {
                if (d == MPB_FIFO) /* as a broker that never had another discipline */
                    mpb_store_relaxed(&w.core.header->plane_classes[MPB_PLANE_DATA], 1);
                if (only == MPB_DISCIPLINES || only == d)
                    ns[d][r] = round_ns(d, depth);
            }
        for (uint32_t d = 0; d < MPB_DISCIPLINES; d++) {
            qsort(ns[d], (size_t)rounds, sizeof ns[d][0], by_size);
            printf("%-9s depth %2u: median %6.1f ns, 10 to 90 in a hundred %6.1f to %6.1f\n", NAMES[d], depth,
                   ns[d][rounds / 2], ns[d][rounds / 10], ns[d][rounds * 9 / 10]);
        }
        for (uint32_t i = 0; i < 2; i++)
            mpb_processor_close(&p[i]);
        mpb_handler_close(&h);
    }
    return 0;
}
