/* Frames that killed: what their digest depends on, which rows remember them, and from when on they are refused. */
#include "tests/shm/shm_world.h"
#include "request/killers.h"

enum { PART = 65536, MOST = 3 * PART };

static struct world w;
static uint8_t frame[MOST + 8];

static void fill_frame(void)
{
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 31 + i / 256);
}

/* Broker processes of two versions may meet in one table: a frame has the same digest to both. */
static void test_digests(void)
{
    static const struct {
        uint32_t length;
        uint64_t digest;
    } ROWS[] = {{0, 0x7670cd200000000ull},
                {1, 0xfdccb98100000001ull},
                {3, 0x86fefc4600000003ull},
                {4, 0x2e01fc9900000004ull},
                {5, 0x2e01fc9900000005ull},
                {8, 0x2e01fc9900000008ull},
                {9, 0xcea3ceaa00000009ull},
                {15, 0xf1f6284e0000000full},
                {16, 0xd1f1d46200000010ull},
                {17, 0x5f1f242400000011ull},
                {1000, 0xa138a0a9000003e8ull},
                {PART + 7, 0xd0e8372d00010007ull},
                {PART + 8, 0x5eae3bb100010008ull},
                {PART + 9, 0x79df159e00010009ull},
                {2 * PART + 8, 0xf0d5f2f600020008ull},
                {2 * PART + 9, 0x9f6b2b1c00020009ull},
                {MOST + 8, 0xf0d5f2f600030008ull}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        CHECK_EQ(mpb_frame_digest(frame, ROWS[i].length), ROWS[i].digest);
}

/* Every byte of its begin and its end, but for the correlation id; not those between. */
static void test_what_a_digest_depends_on(void)
{
    static const uint32_t LENGTHS[] = {4, 8, 9, 16, 23, 40, 2 * PART + 8, 2 * PART + 9, MOST + 8};
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        uint32_t length = LENGTHS[i], step = length > 100 ? 4093 : 1;
        uint64_t digest = mpb_frame_digest(frame, length);
        CHECK_EQ((uint32_t)digest, length);
        CHECK(digest >> 32 != 0);
        for (uint32_t at = 0; at < length; at += at < 100 || at + 100 > length ? 1 : step) {
            bool counts = at < 4 || (at >= 8 && (at < 8 + PART || at >= length - PART));
            frame[at] ^= 0x10;
            CHECK_EQ(mpb_frame_digest(frame, length) != digest, counts);
            frame[at] ^= 0x10;
        }
    }
}

static const struct mpb_killer *row(int i) { return &w.core.killers[i]; }

static void check_row(int i, uint64_t digest, uint64_t when_ms, uint32_t kills)
{
    CHECK_EQ(row(i)->digest, digest);
    CHECK_EQ(row(i)->kills_when, (uint64_t)kills << 48 | when_ms);
}

static void test_which_row_remembers(void)
{
    world_reset(&w);
    for (int i = 0; i < MPB_KILLER_ROWS; i++) {
        mpb_killer_add(&w.core, 1000 + (uint64_t)i, 50 + (uint64_t)(i + 7) % MPB_KILLER_ROWS, 1);
        check_row(i, 1000 + (uint64_t)i, 50 + (uint64_t)(i + 7) % MPB_KILLER_ROWS, 1);
    }
    mpb_killer_add(&w.core, 1003, 90, 2); /* again: added up, and it was just now */
    check_row(3, 1003, 90, 3);
    int oldest = MPB_KILLER_ROWS - 7;
    mpb_killer_add(&w.core, 5000, 91, 1); /* none is free: the oldest goes, with what it was counted */
    check_row(oldest, 5000, 91, 1);
    mpb_killer_add(&w.core, 5001, 1ull << 48 | 92, 1); /* more than a moment has bits */
    check_row(oldest + 1, 5001, 92, 1);
    mpb_killer_add(&w.core, 5001, 93, 0xfffd);
    check_row(oldest + 1, 5001, 93, 0xfffe);
    mpb_killer_add(&w.core, 5001, 94, 1);
    check_row(oldest + 1, 5001, 94, 0xffff);
    mpb_killer_add(&w.core, 5001, 95, 1);
    check_row(oldest + 1, 5001, 95, 0xffff);
    check_row(0, 1000, 57, 1);
}

static void test_from_when_on_a_frame_is_refused(void)
{
    world_reset(&w);
    CHECK(!mpb_killer_known(&w.core, frame, 40));
    uint64_t digest = mpb_frame_digest(frame, 40), other = mpb_frame_digest(frame, 41);
    mpb_killer_add(&w.core, 40, 1, 9); /* another one of the same length, though no frame has this digest */
    mpb_killer_add(&w.core, other, 1, 9);
    for (uint32_t kills = 1; kills <= MPB_KILLS_REFUSED + 1; kills++) {
        mpb_killer_add(&w.core, digest, kills, 1);
        CHECK_EQ(mpb_killer_known(&w.core, frame, 40), kills >= MPB_KILLS_REFUSED);
    }
    frame[20] ^= 1;
    CHECK(!mpb_killer_known(&w.core, frame, 40) && !mpb_killer_known(&w.core, frame, 39));
    frame[20] ^= 1;
    CHECK(mpb_killer_known(&w.core, frame, 41));
    for (int i = 0; i < MPB_KILLER_ROWS - 3; i++)
        mpb_killer_add(&w.core, 7000 + (uint64_t)i, 9, 9);
    mpb_killer_add(&w.core, mpb_frame_digest(frame, 50), 9, MPB_KILLS_REFUSED); /* takes the place of the oldest */
    CHECK(mpb_killer_known(&w.core, frame, 50));
    world_reset(&w);
    for (int i = 0; i < MPB_KILLER_ROWS - 1; i++)
        mpb_killer_add(&w.core, 7000 + (uint64_t)i, 9, 9);
    mpb_killer_add(&w.core, digest, 9, MPB_KILLS_REFUSED); /* the last row is looked at, too */
    CHECK_EQ(row(MPB_KILLER_ROWS - 1)->digest, digest);
    CHECK(mpb_killer_known(&w.core, frame, 40));
}

int main(void)
{
    world_open(&w, &small_plan);
    fill_frame();
    test_digests();
    test_what_a_digest_depends_on();
    test_which_row_remembers();
    test_from_when_on_a_frame_is_refused();
    world_close(&w);
    printf("killers: %lu checks\n", checks_made);
    return 0;
}
