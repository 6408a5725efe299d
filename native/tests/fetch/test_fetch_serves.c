/* A Fetch request without a session, from its frame to its answer: what is read of each partition and what is told of it,
 * against a naive reading of the limits, in every version; and what is left to Python, why, and with nothing changed. */
#include "tests/fetch/fetch_play.h"

static const uint32_t LEFT_COUNTERS[MPB_FETCH_LEFT_REASONS] = {
    MPB_C_FETCH_LEFT_FRAME,   MPB_C_FETCH_LEFT_TOPIC,  MPB_C_FETCH_LEFT_PARTITIONS,
    MPB_C_FETCH_LEFT_SESSION, MPB_C_FETCH_LEFT_ERROR,  MPB_C_FETCH_LEFT_ABORTED,
    MPB_C_FETCH_LEFT_RERUN,   MPB_C_FETCH_LEFT_MEMORY, MPB_C_FETCH_LEFT_CHANGED};
enum { NOT_LEFT = MPB_FETCH_LEFT_REASONS };

/* Whether it is served; else why it is left, which is counted once, and nothing is answered or kept. */
static void check_left(const struct asked_fetch *a, int left, uint32_t entry)
{
    uint64_t before[MPB_FETCH_LEFT_REASONS], native = counted_by(0, MPB_C_FETCH_NATIVE), served = play.native[0].served;
    for (int i = 0; i < MPB_FETCH_LEFT_REASONS; i++)
        before[i] = counted_by(0, LEFT_COUNTERS[i]);
    CHECK_EQ(mpb_serve_fetch(&play.native[0], entry), left == NOT_LEFT);
    for (int i = 0; i < MPB_FETCH_LEFT_REASONS; i++)
        CHECK_EQ(counted_by(0, LEFT_COUNTERS[i]) - before[i], i == left);
    CHECK_EQ(counted_by(0, MPB_C_FETCH_NATIVE) - native, left == NOT_LEFT);
    CHECK_EQ(play.native[0].served - served, left == NOT_LEFT);
    CHECK(!play.native[0].waits && play.d.h[0].io_done_ns == 0);
    if (left == NOT_LEFT) {
        struct told_fetch told;
        collected(entry, a->version, &told);
        return;
    }
    CHECK_EQ(play.d.w.core.entries[entry].answer_extent, MPB_NO_EXTENT);
    dismissed(0, entry);
}

static void left_as(const struct asked_fetch *a, int left) { check_left(a, left, taken_by(0, a)); }

/* ------------------------------------------------------------------ what is read */
/* Whole batches from the one that is asked for, as many as the limits of partition and request let through; the first that
 * has any gives one at least. */
static uint32_t naive_length(const struct asked_part *part, uint32_t *most, uint64_t total)
{
    uint32_t limit = (uint32_t)part->max_bytes < *most ? (uint32_t)part->max_bytes : *most, length = 0;
    uint32_t there = (play.batches[row_of(part->topic, part->partition)] - (uint32_t)part->offset) * PLAY_BATCH;
    if (there > 0 && limit < PLAY_BATCH)
        length = total == 0 ? PLAY_BATCH : 0;
    else
        length = there < limit ? there : limit; /* a last one may be cut */
    *most -= length < *most ? length : *most;
    return length;
}

static void check_records(const struct told_part *p, int64_t offset)
{
    for (uint32_t at = 0; at < p->length; at += PLAY_BATCH, offset++) {
        uint32_t left = p->length - at < PLAY_BATCH ? p->length - at : PLAY_BATCH;
        if (left < PLAY_BATCH)
            break;
        CHECK_EQ(mpb_be64(p->records + at), offset);
        CHECK_EQ(p->records[at + PLAY_BATCH - 1], (uint8_t)(20 * row_of(p->topic, p->partition) + (uint32_t)offset));
    }
}

static void serve(const struct asked_fetch *a, uint32_t broker_most)
{
    struct told_fetch told;
    uint64_t total = 0;
    uint32_t most = (uint32_t)a->max_bytes < broker_most ? (uint32_t)a->max_bytes : broker_most;
    play.native[0].max_bytes = broker_most;
    uint32_t entry = taken_by(0, a);
    CHECK(mpb_serve_fetch(&play.native[0], entry));
    const struct mpb_trace t = *mpb_trace_of(play.d.w.core.entries[entry].trace);
    collected(entry, a->version, &told);
    CHECK_EQ(told.session_id, 0);
    CHECK_EQ(told.count, a->count);
    CHECK_EQ(told.topics, topics_of(a->parts, a->count));
    for (uint32_t i = 0; i < a->count; i++) {
        const struct asked_part *asked = &a->parts[i];
        const struct told_part *p = &told.parts[i];
        int64_t end = play.batches[row_of(asked->topic, asked->partition)];
        CHECK(p->topic == asked->topic && p->partition == asked->partition && p->error == 0);
        CHECK(p->high_watermark == end && p->last_stable == end);
        CHECK_EQ(p->log_start, a->version >= 5 ? 0 : -2);
        CHECK_EQ(p->aborted, a->isolation == 1 ? 0 : -1);
        CHECK_EQ(p->replica, -1);
        CHECK_EQ(p->length, naive_length(asked, &most, total));
        total += p->length;
        check_records(p, asked->offset);
    }
    CHECK_EQ(t.topic_hash, mpb_crc32c(0, PLAY_NAMES[a->parts[0].topic], strlen(PLAY_NAMES[a->parts[0].topic])));
    CHECK_EQ(t.nparts, a->count);
    CHECK_EQ(t.aux, a->max_wait_ms > 0 ? a->max_wait_ms : 0);
    CHECK_EQ(t.stage[MPB_STAGE_IO_DONE] != MPB_TRACE_NOT_REACHED, total != 0);
    CHECK(t.stage[MPB_STAGE_LOCAL_DONE] != MPB_TRACE_NOT_REACHED);
}

static void test_what_is_read(void)
{
    static const int32_t MOST[] = {0, 1, 99, 100, 101, 199, 200, 201, 350, 1 << 20};
    for (int16_t version = 4; version <= 17; version++)
        for (size_t m = 0; m < sizeof MOST / sizeof *MOST; m++)
            for (size_t each = 0; each < sizeof MOST / sizeof *MOST; each++) {
                struct asked_fetch a = ordinary_fetch(version);
                a.isolation = (int8_t)(m & 1);
                a.max_bytes = MOST[m];
                a.max_wait_ms = (int32_t)(each % 4) - 1;
                ask_part(&a, TOPIC_T, 2, 0, MOST[each]); /* nothing is there */
                ask_part(&a, TOPIC_T, 0, 1, MOST[each]);
                ask_part(&a, TOPIC_U, 1, 0, MOST[each]);
                ask_part(&a, TOPIC_U, 0, 3, MOST[each]); /* its end */
                if (version >= 10)
                    ask_part(&a, TOPIC_ZSTD, 0, 0, 150);
                a.min_bytes = 0;
                serve(&a, 1 << 20);
                serve(&a, 150);
                play.native[0].max_bytes = 1 << 20;
            }
}

/* ------------------------------------------------------------------ what is left */
static struct asked_fetch one(int16_t version, int topic, int64_t offset)
{
    struct asked_fetch a = ordinary_fetch(version);
    ask_part(&a, topic, 0, offset, 1 << 20);
    return a;
}

static void test_what_is_left_before_it_is_read(void)
{
    struct asked_fetch a = one(11, TOPIC_T, 0);
    struct mpb_entry *entries = play.d.w.core.entries;
    uint32_t entry = taken_by(0, &a);
    entries[entry].api_key = 0;
    check_left(&a, -1, entry);
    play.native[0].off = true;
    left_as(&a, -1);
    play.native[0].off = false;
    entry = taken_by(0, &a);
    mpb_store_relaxed(&entries[entry].attempts, 1);
    check_left(&a, MPB_FETCH_LEFT_RERUN, entry);
    entry = taken_by(0, &a);
    mpb_store_relaxed(&entries[entry].attempts, 1 << 8); /* a mark, and no death */
    check_left(&a, NOT_LEFT, entry);
    play.generation++;
    left_as(&a, MPB_FETCH_LEFT_TOPIC);
    play.generation--;
    a = one(3, TOPIC_T, 0);
    left_as(&a, MPB_FETCH_LEFT_FRAME);
    a = ordinary_fetch(11);
    left_as(&a, MPB_FETCH_LEFT_PARTITIONS);
    for (int16_t version = 4; version <= 12; version++) {
        a = one(version, TOPIC_ZSTD, 0);
        left_as(&a, version < 10 ? MPB_FETCH_LEFT_ERROR : NOT_LEFT);
    }
}

/* An error of a partition is Python's: an offset that is not there, another leader's epoch. */
static void test_what_is_left_of_a_partition(void)
{
    for (int64_t offset = -1; offset <= 6; offset++) {
        struct asked_fetch a = one(11, TOPIC_T, offset);
        left_as(&a, offset >= 0 && offset <= 5 ? NOT_LEFT : MPB_FETCH_LEFT_ERROR);
    }
    for (int32_t epoch = -2; epoch <= PLAY_EPOCH + 1; epoch++) {
        struct asked_fetch a = one(12, TOPIC_T, 0);
        a.parts[0].leader_epoch = epoch;
        left_as(&a, epoch < 0 || epoch == PLAY_EPOCH ? NOT_LEFT : MPB_FETCH_LEFT_ERROR);
        a = one(12, TOPIC_T, 0);
        a.parts[0].last_epoch = epoch;
        left_as(&a, epoch < 0 || epoch == PLAY_EPOCH ? NOT_LEFT : MPB_FETCH_LEFT_ERROR);
    }
    state_in_force(TOPIC_T, 0)->aborted_end = 3;
    for (int64_t offset = 0; offset <= 5; offset++)
        for (int8_t isolation = 0; isolation < 2; isolation++) {
            struct asked_fetch a = one(11, TOPIC_T, offset);
            a.isolation = isolation;
            left_as(&a, isolation == 1 && offset < 3 ? MPB_FETCH_LEFT_ABORTED : NOT_LEFT);
        }
    state_in_force(TOPIC_T, 0)->aborted_end = 0;
}

/* Read committed ends at the last stable offset, others at the high watermark, below which it lies. */
static void test_where_reading_ends(void)
{
    struct mpb_partition_copy *now = state_in_force(TOPIC_T, 0);
    now->lso = 2;
    now->hw = 4;
    for (int8_t isolation = 0; isolation < 2; isolation++) {
        struct told_fetch told;
        struct asked_fetch a = one(11, TOPIC_T, 0);
        a.isolation = isolation;
        uint32_t entry = taken_by(0, &a);
        CHECK(mpb_serve_fetch(&play.native[0], entry));
        collected(entry, 11, &told);
        CHECK(told.parts[0].high_watermark == 4 && told.parts[0].last_stable == 2);
        CHECK_EQ(told.parts[0].length, (isolation == 1 ? 2 : 4) * PLAY_BATCH);
    }
    now->lso = now->hw = 5;
}

/* Followers are Python's where not all of them may be served, and without a session; broker 0 is one as well. */
static void test_which_followers_are_left(void)
{
    static const struct {
        bool serves;
        int8_t isolation;
        int32_t session_id, session_epoch;
        int left;
    } ROWS[] = {{false, 0, 5, 1, MPB_FETCH_LEFT_FRAME},   {true, 1, 5, 1, MPB_FETCH_LEFT_FRAME},
                {true, 0, 0, 1, MPB_FETCH_LEFT_SESSION},  {true, 0, 5, 0, MPB_FETCH_LEFT_SESSION},
                {true, 0, 5, -1, MPB_FETCH_LEFT_SESSION}, {true, 0, 0, 0, MPB_FETCH_LEFT_SESSION},
                {true, 0, 1, 1, MPB_FETCH_LEFT_SESSION}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int32_t follower = 0; follower < 2; follower++) {
            struct asked_fetch a = one(15, TOPIC_T, 0);
            a.follower = follower;
            a.isolation = ROWS[i].isolation;
            a.session_id = ROWS[i].session_id;
            a.session_epoch = ROWS[i].session_epoch;
            play.native[0].serves_followers = ROWS[i].serves;
            left_as(&a, ROWS[i].left);
        }
    play.native[0].serves_followers = false;
}

/* ------------------------------------------------------------------ enough, or too much */
static void test_when_it_waits(void)
{
    for (int32_t wait_ms = -1; wait_ms <= 1; wait_ms++)
        for (int32_t min_bytes = 499; min_bytes <= 501; min_bytes++) { /* of 500 */
            struct asked_fetch a = one(11, TOPIC_T, 0);
            a.max_wait_ms = wait_ms;
            a.min_bytes = min_bytes;
            uint32_t entry = taken_by(0, &a);
            bool waits = wait_ms > 0 && min_bytes > 500;
            CHECK_EQ(mpb_fetch_is_ready(&play.native[0], entry), min_bytes <= 500);
            CHECK_EQ(mpb_serve_fetch(&play.native[0], entry), !waits);
            CHECK_EQ(play.native[0].waits, waits);
            struct told_fetch told;
            if (waits)
                dismissed(0, entry);
            else
                collected(entry, 11, &told);
        }
}

/* At most a quarter of the handler's free room goes into one answer. */
static void test_when_there_is_no_room(void)
{
    struct mpb_extents *extents = &play.d.h[0].extents;
    mpb_extents_idle(extents, 0);
    uint64_t quarter = (uint64_t)(extents->units.count - extents->units.used) * MPB_UNIT_BYTES / 4;
    append_record(TOPIC_U, 2, (uint32_t)quarter);
    append_record(TOPIC_U, 2, (uint32_t)quarter + 1);
    struct asked_fetch a = ordinary_fetch(11);
    ask_part(&a, TOPIC_U, 2, 0, (int32_t)quarter);
    left_as(&a, NOT_LEFT);
    mpb_extents_idle(extents, 0);
    a.parts[0].offset = 1;
    left_as(&a, MPB_FETCH_LEFT_MEMORY);
    a = one(11, TOPIC_T, 0);
    uint32_t fresh = extents->fresh, free_count = extents->free_count;
    extents->fresh = MPB_EXTENTS_PER_HANDLER; /* no word for an answer */
    extents->free_count = 0;
    left_as(&a, MPB_FETCH_LEFT_MEMORY);
    extents->fresh = fresh;
    extents->free_count = free_count;
}

/* The log changed between the plan and the read: an error, or a truncation that the read was not spared. */
static void test_when_the_log_changed(void)
{
    struct asked_fetch a = one(11, TOPIC_T, 0);
    a.max_bytes = 2 * PLAY_BATCH; /* the plan is made from longer reads */
    next_read.bytes = 2 * PLAY_BATCH;
    next_read.error = ENOENT;
    left_as(&a, MPB_FETCH_LEFT_CHANGED);
    next_read.error = 0;
    next_read.bytes = 2 * PLAY_BATCH;
    next_read.truncated = &play.d.w.core.partitions[row_of(TOPIC_T, 0)];
    left_as(&a, MPB_FETCH_LEFT_CHANGED);
    CHECK_EQ(next_read.bytes, 0);
    next_read.truncated = NULL;
    left_as(&a, NOT_LEFT);
    mpb_extents_idle(&play.d.h[0].extents, 0);
    CHECK_EQ(play.d.h[0].extents.units.used, 0); /* whatever was reserved is free */
}

/* A test's clock, or the system's. */
static void test_whose_time(void)
{
    static const struct {
        int64_t own_ms, system_ns, now_ms;
    } ROWS[] = {{0, 7000000000, 0},     {5, 7000000000, 5},     {-1, 7000000000, 7000},
                {-1, 7999999999, 7999}, {-1, 7999000000, 7999}, {-9, 12001000000, 12001}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        play.native[0].now_ms = ROWS[i].own_ms;
        script.monotonic_ns[0] = ROWS[i].system_ns;
        CHECK_EQ(mpb_fetch_now_ms(&play.native[0]), ROWS[i].now_ms);
    }
    play.native[0].now_ms = 1000;
}

int main(void)
{
    play_open(&small_plan);
    for (int i = 0; i < 5; i++)
        append_record(TOPIC_T, 0, PLAY_BATCH);
    for (int i = 0; i < 3; i++) {
        append_record(TOPIC_U, 0, PLAY_BATCH);
        append_record(TOPIC_U, 1, PLAY_BATCH);
    }
    append_record(TOPIC_ZSTD, 0, PLAY_BATCH);
    test_what_is_read();
    test_what_is_left_before_it_is_read();
    test_what_is_left_of_a_partition();
    test_where_reading_ends();
    test_which_followers_are_left();
    test_when_it_waits();
    test_when_the_log_changed();
    test_when_there_is_no_room();
    test_whose_time();
    play_close();
    printf("fetch serves: %lu checks\n", checks_made);
    return 0;
}
