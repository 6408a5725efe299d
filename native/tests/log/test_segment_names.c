/* Which files of a directory are segments, and which of those count; in a directory with the longest name, too; and how
 * many a retention takes. */
#include "tests/log/append_scenarios.h"

#include <errno.h>

#include "log/log_flush.h"
#include "log/segment_list.h"
#include "tests/stepping/refused.h"

static struct fixture f;

static struct mpb_partition *row(void) { return &f.core.partitions[0]; }
static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row()); }

static void make_file(const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", row()->dir, name);
    int fd = openat(f.log.dir_fd[row()->log_dir], path, O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0);
    close(fd);
}

/* Twenty digits and .log, of a number that an offset can be; in the order of the numbers, whatever the directory's is. */
static void names(void)
{
    static const char *const OTHERS[] = {
        "a0000000000000000007.log",      "0000000000000000000a.log",   "0000000000000000008.log",
        ":0000000000000000009.log",      "00000000000000000007.index", "00000000000000000007.log.deleted",
        "00000000000000000007.log.swap", "0000000000000000007.log",    "000000000000000000007.log",
        "18446744073709551615.log",      "00000000000000000007",       "leader-epoch-checkpoint"};
    static const int64_t BASES[] = {0, 3, 20, 1000000000000};
    const struct mpb_segment_list *list;
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        make_file(OTHERS[i]);
    make_file("01000000000000.log"); /* too short */
    make_file("00000001000000000000.log");
    make_file("00000000000000000020.log");
    make_file("00000000000000000003.log");
    CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
    CHECK_EQ(list->count, sizeof BASES / sizeof *BASES);
    CHECK(memcmp(list->bases, BASES, sizeof BASES) == 0);
    for (int64_t i = 0; i < 40; i++) { /* more than there was room for at first */
        char name[40];
        snprintf(name, sizeof name, "%020lld.log", (long long)(100 - i));
        make_file(name);
    }
    CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
    CHECK_EQ(list->count, 44);
    for (uint32_t i = 1; i < list->count; i++)
        CHECK(list->bases[i - 1] < list->bases[i]);
    row()->log_dir = f.log.dir_count; /* that is none */
    CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), -ENOENT);
    fixture_close(&f);
}

/* A list without room for the active segment is none: it is made again when it is asked for, whole. */
static void no_memory_for_a_list(void)
{
    enum { BELOW = 16, ACTIVE = 99 }; /* as many as there is room for at first */
    const struct mpb_segment_list *list;
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (int i = 1; i < BELOW; i++) {
        char name[40];
        snprintf(name, sizeof name, "%020d.log", i);
        make_file(name);
    }
    struct mpb_partition_copy copy = *now();
    copy.active_base = ACTIVE;
    refuse(BY_REALLOC, 1); /* but that room */
    int error = mpb_segment_list_get(&f.log, row(), &copy, &list);
    refuse(NO_ALLOCATION, 0);
    CHECK_EQ(error, CAN_REFUSE ? -ENOMEM : 0);
    CHECK_EQ(list->count, CAN_REFUSE ? BELOW : BELOW + 1);
    CHECK_EQ(mpb_segment_list_get(&f.log, row(), &copy, &list), 0);
    CHECK(list->count == BELOW + 1 && list->bases[BELOW] == ACTIVE);
    fixture_close(&f);
}

/* What was never committed stands in the list of all files, and in no other, whichever was made last. */
static void uncommitted(void)
{
    const struct mpb_segment_list *list;
    fixture_open(&f);
    prepare_segments(&f);
    const uint32_t count = now()->segment_count;
    for (int round = 0; round < 2; round++) {
        CHECK_EQ(mpb_segment_list_get(&f.log, row(), now(), &list), 0);
        CHECK(list->count == count && list->bases[count - 1] == now()->active_base);
        CHECK_EQ(mpb_segment_list_find(list, now()->leo), count - 1);
        for (uint32_t i = 0; i < count; i++) {
            CHECK_EQ(mpb_segment_list_find(list, list->bases[i]), i);
            CHECK_EQ(mpb_segment_list_find(list, list->bases[i] - 1), i == 0 ? 0 : i - 1);
        }
        make_file("00000000000000009999.log");
        CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
        CHECK_EQ(list->count, count + 1);
    }
    fixture_close(&f);
}

/* Descriptors of segments below log start are given back, of the one that holds it and of those above not. */
static void stale(void)
{
    const struct mpb_segment_list *list;
    int64_t bases[8];
    fixture_open(&f);
    prepare_segments(&f);
    CHECK_EQ(mpb_segment_list_get(&f.log, row(), now(), &list), 0);
    const uint32_t count = list->count;
    CHECK(count >= 3 && count <= 8);
    memcpy(bases, list->bases, count * sizeof *bases);
    for (int after = 0; after < 3; after++) {
        mpb_segment_close_all(&f.log);
        for (uint32_t i = 0; i < count; i++)
            CHECK(mpb_segment_fd(&f.log, row(), now(), bases[i], MPB_FILE_LOG) >= 0);
        CHECK_EQ(mpb_partition_set_log_start(&f.log, 0, bases[1] + after - 1), 0);
        CHECK_EQ(mpb_segment_close_stale(&f.log), after > 0);
        CHECK_EQ(mpb_segment_close_stale(&f.log), 0);
    }
    fixture_close(&f);
}

/* All 255 bytes of it. */
static void the_longest_name(void)
{
    char name[sizeof row()->dir];
    const struct mpb_partition_identity identity = {.dir = name};
    const struct mpb_segment_list *list;
    struct batch_spec spec = numbered(-1, 0, 1);
    int64_t flushed = 0;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    fixture_open(&f);
    if (!fixture_takes_name(&f, sizeof name - 1)) {
        fixture_close(&f);
        return;
    }
    CHECK_EQ(mpb_partition_create(&f.log, 0, &identity, 3, 1000), 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
    CHECK_EQ(mpb_segment_list_all(&f.log, row(), &list), 0);
    CHECK_EQ(list->count, 1);
    CHECK_EQ(mpb_log_flush(&f.log, 0, &flushed), 0);
    CHECK_EQ(flushed, 2);
    fixture_close(&f);
}

/* No more than there is room for, from where the last call ended. */
static void what_is_not_flushed(void)
{
    uint32_t out[3], next = 0;
    int64_t flushed;
    fixture_open(&f);
    for (uint32_t p = 0; p < 4; p++) {
        struct batch_spec spec = numbered(-1, 0, 1);
        fixture_partition(&f, p);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, p, MPB_NO_REQUEST, 0, &spec).error, 0);
    }
    CHECK_EQ(mpb_log_flush(&f.log, 1, &flushed), 0);
    out[1] = out[2] = 77;
    CHECK(mpb_log_unflushed(&f.log, false, &next, out, 1) == 1 && out[0] == 0 && out[1] == 77);
    CHECK(mpb_log_unflushed(&f.log, false, &next, out, 2) == 2 && out[0] == 2 && out[1] == 3 && out[2] == 77);
    CHECK_EQ(mpb_log_unflushed(&f.log, false, &next, out, 2), 0);
    next = 0;
    CHECK_EQ(mpb_log_unflushed(&f.log, true, &next, out, 3), 0); /* nothing that was rolled */
    CHECK(mpb_log_set_flushed(&f.log, 0, 2) == 0 && mpb_load_relaxed(&row()->flushed_offset) == 2);
    CHECK(mpb_log_set_flushed(&f.log, 0, 3) == 0 && mpb_load_relaxed(&row()->flushed_offset) == 2); /* beyond the end */
    CHECK(mpb_log_set_flushed(&f.log, 0, 0) == 0 && mpb_load_relaxed(&row()->flushed_offset) == 0);
    CHECK_EQ(mpb_log_set_flushed(&f.log, 6, 0), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION); /* nobody made it yet */
    fixture_close(&f);
}

/* In an empty segment every search ends at its front, with no batch. */
static void nothing_in_it(void)
{
    struct mpb_batch_info batch = {.batch_bytes = 5};
    uint64_t position = 77;
    fixture_open(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(mpb_segment_find(&f.log, row(), now(), 0, 0, &position, &batch), 0);
    CHECK(position == 0 && batch.batch_bytes == 0);
    fixture_close(&f);
}

/* A retention takes so many segments at a time, and the next one goes on. */
static void many_segments(void)
{
    enum { SEGMENTS = MPB_RETAIN_MAX_REMOVED + 6, ACTIVE = 5000 };
    static int64_t removed[MPB_RETAIN_MAX_REMOVED];
    const struct mpb_partition_identity identity = {.dir = "t-0"};
    const struct mpb_partition_copy state = {.log_start = ACTIVE,
                                             .leo = ACTIVE,
                                             .hw = ACTIVE,
                                             .lso = ACTIVE,
                                             .active_base = ACTIVE,
                                             .segment_count = SEGMENTS + 1};
    const struct mpb_retain_rules rules = {.retention_ms = -1, .retention_bytes = -1, .now_ms = 9000};
    uint32_t count;
    fixture_open(&f);
    fixture_partition(&f, 0);
    for (int i = 0; i < SEGMENTS; i++) {
        char name[40];
        snprintf(name, sizeof name, "%020d.log", i);
        make_file(name);
    }
    CHECK_EQ(mpb_segment_create(&f.log, row(), ACTIVE), 0);
    CHECK_EQ(mpb_partition_publish(&f.log, 0, &identity, &state), 0);
    for (int left = SEGMENTS; left > 0; left -= (int)count) {
        CHECK_EQ(mpb_retain(&f.log, 0, &rules, removed, &count), 0);
        CHECK_EQ(count, left < MPB_RETAIN_MAX_REMOVED ? left : MPB_RETAIN_MAX_REMOVED);
        CHECK(removed[0] == SEGMENTS - left && removed[count - 1] == SEGMENTS - left + (int)count - 1);
        CHECK(now()->segment_count == (uint32_t)left - count + 1 && now()->log_start == ACTIVE);
    }
    CHECK(mpb_retain(&f.log, 0, &rules, removed, &count) == 0 && count == 0);
    fixture_close(&f);
}

int main(void)
{
    many_segments();
    nothing_in_it();
    names();
    no_memory_for_a_list();
    uncommitted();
    stale();
    the_longest_name();
    what_is_not_flushed();
    printf("segment_names: %lu checks\n", checks_made);
    return 0;
}
