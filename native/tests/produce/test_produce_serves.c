/* A Produce request from its frame to the log and its answer: what is appended, told, counted and traced; what is left to
 * Python, and what waits for replicas. */
#include "tests/produce/produce_play.h"

static uint32_t next_id = 1;
static int64_t ends[ASK_PARTITIONS];

static struct ask asked(int16_t acks, int32_t partitions)
{
    return (struct ask){.id = next_id++ % 200, .acks = acks, .partitions = partitions};
}

/* Each partition's records stand where the answer says, one behind the other. */
static void check_offsets(const struct ask *ask, const int64_t offsets[ASK_PARTITIONS])
{
    for (int32_t i = 0; i < ask->partitions; i++) {
        CHECK_EQ(offsets[i], ask->corrupt ? -1 : ends[i]);
        ends[i] += !ask->corrupt;
        CHECK_EQ(state_in_force((uint32_t)i)->leo, ends[i]);
    }
}

/* ------------------------------------------------------------------ served */
static void test_what_is_served(void)
{
    for (int way = 0; way < 16; way++) {
        struct ask ask = asked(way & 1 ? 0 : 1, way & 2 ? 2 : 1);
        ask.corrupt = way & 4;
        ask.long_name = way & 8;
        for (int traced = 0; traced < 2; traced++) {
            int64_t offsets[ASK_PARTITIONS];
            uint64_t native = counted_here(MPB_C_PRODUCE_NATIVE), served = play.native.served,
                     errors = counted_here(ERRORS);
            uint32_t entry = taken(&ask, (uint64_t)traced);
            struct mpb_entry *e = entry_of(entry);
            script.monotonic_reads = 0;
            CHECK(mpb_serve_produce(&play.native, entry));
            CHECK(play.native.served == served + 1 && counted_here(MPB_C_PRODUCE_NATIVE) == native + 1);
            CHECK_EQ(counted_here(ERRORS), errors + (ask.corrupt ? (uint64_t)ask.partitions : 0));
            CHECK_EQ(e->error, ask.corrupt ? 2 : 0);
            CHECK_EQ(handler()->io_done_ns, 0);
            CHECK_EQ(script.monotonic_reads, traced); /* one reading for the log and the answer */
            const struct mpb_trace *t = mpb_trace_of(e->trace);
            CHECK_EQ(t->topic_hash, mpb_crc32c(0, ask_topic(ask.long_name), strlen(ask_topic(ask.long_name))));
            CHECK(t->nparts == ask.partitions && t->aux == (uint32_t)ask.partitions);
            CHECK(!traced || (t->flags & MPB_TF_ACKS) == (way & 1 ? 0 : 1));
            uint32_t io_ticks = (1000000000 - 1) >> MPB_TRACE_TICK_SHIFT;
            CHECK(!traced || (t->stage[MPB_STAGE_IO_DONE] == io_ticks && t->stage[MPB_STAGE_LOCAL_DONE] == io_ticks));
            if (ask.acks != 0) {
                collected(entry, &ask, offsets);
                check_offsets(&ask, offsets);
                continue;
            }
            CHECK_EQ(e->answer_kind, ask.corrupt ? MPB_ANSWER_CLOSE : MPB_ANSWER_NONE);
            CHECK(e->answer_length == 0 && e->answer_extent == MPB_NO_EXTENT);
            for (int32_t i = 0; i < ask.partitions; i++)
                CHECK_EQ(state_in_force((uint32_t)i)->leo, ends[i] += !ask.corrupt);
            CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
            CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
        }
    }
}

/* The first partition's error is the request's, whatever the others have. */
static void test_whose_error_it_is(void)
{
    struct ask ask = asked(1, 2);
    int64_t offsets[ASK_PARTITIONS];
    for (uint32_t refused = 0; refused < 2; refused++) {
        uint64_t errors = counted_here(ERRORS);
        uint32_t entry = taken(&ask, 1);
        state_in_force(refused)->role = MPB_ROLE_FOLLOWER;
        CHECK(mpb_serve_produce(&play.native, entry));
        state_in_force(refused)->role = MPB_ROLE_LEADER;
        CHECK_EQ(entry_of(entry)->error, MPB_ERR_NOT_LEADER_OR_FOLLOWER);
        CHECK_EQ(counted_here(ERRORS), errors + 1);
        CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
        const uint8_t *part = entry_of(entry)->answer_bytes + 4 + 10 + 1 + 4;
        for (uint32_t i = 0; i < 2; i++) {
            offsets[i] = mpb_be64(part + 30 * i + 6);
            CHECK_EQ(mpb_be16(part + 30 * i + 4), i == refused ? MPB_ERR_NOT_LEADER_OR_FOLLOWER : 0);
            CHECK_EQ(offsets[i], i == refused ? -1 : ends[i]++);
        }
        CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
    }
    for (uint32_t offline = 0; offline < 2; offline++) { /* each has its own */
        mpb_atomic32 *flags = &play.d.w.core.partitions[offline].flags;
        uint32_t kept = mpb_load_relaxed(flags), entry = taken(&ask, 1);
        uint64_t errors = counted_here(ERRORS);
        state_in_force(1 - offline)->role = MPB_ROLE_FOLLOWER;
        mpb_store_relaxed(flags, kept & ~(uint32_t)MPB_PART_ONLINE);
        CHECK(mpb_serve_produce(&play.native, entry));
        mpb_store_relaxed(flags, kept);
        state_in_force(1 - offline)->role = MPB_ROLE_LEADER;
        CHECK_EQ(entry_of(entry)->error, offline == 0 ? MPB_ERR_KAFKA_STORAGE_ERROR : MPB_ERR_NOT_LEADER_OR_FOLLOWER);
        CHECK_EQ(counted_here(ERRORS), errors + 2);
        CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
        CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
    }
}

/* The wall clock by which a record's time is judged: a test's, or the system's in milliseconds. Records of 1,000 + id. */
static void test_whose_time(void)
{
    static const struct {
        int64_t own_ms, wall_ns;
        uint32_t id;
    } ROWS[] = {{1007, 5, 7}, {-1, 1007000000, 7}, {-1, 1007999999, 7}, {-1, 1190000000, 190}, {-5, 1001000000, 1}};
    struct mpb_batch_rules *rules = &((struct mpb_native_topic *)(uintptr_t)mpb_native_by_name(&play.native.topics,
                                                                                               (const uint8_t *)"t", 1))
                                         ->rules;
    rules->timestamp_before_max_ms = rules->timestamp_after_max_ms = 0;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        for (int64_t off_ms = -1; off_ms <= 1; off_ms++) {
            struct ask ask = {.id = ROWS[i].id, .acks = 0, .partitions = 1};
            play.native.now_ms = ROWS[i].own_ms < 0 ? ROWS[i].own_ms : ROWS[i].own_ms + off_ms;
            script.wall_ns[0] = ROWS[i].wall_ns + off_ms * 1000000;
            uint32_t entry = taken(&ask, 1);
            CHECK(mpb_serve_produce(&play.native, entry));
            CHECK_EQ(entry_of(entry)->error, off_ms == 0 ? 0 : MPB_ERR_INVALID_TIMESTAMP);
            ends[0] += off_ms == 0;
            CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
            CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
        }
    play.native.now_ms = 0; /* is a time, too */
    struct ask early = {.id = 1, .acks = 0, .partitions = 1};
    script.wall_ns[0] = 1001000000;
    uint32_t entry = taken(&early, 1);
    CHECK(mpb_serve_produce(&play.native, entry));
    CHECK_EQ(entry_of(entry)->error, MPB_ERR_INVALID_TIMESTAMP);
    CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
    CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
    rules->timestamp_before_max_ms = rules->timestamp_after_max_ms = INT64_MAX;
    play.native.now_ms = 2000;
}

/* ------------------------------------------------------------------ left */
static void left_as(uint32_t entry, uint32_t counter)
{
    uint64_t before = counted_here(counter), native = counted_here(MPB_C_PRODUCE_NATIVE);
    CHECK(!mpb_serve_produce(&play.native, entry));
    CHECK_EQ(counted_here(counter), before + 1);
    CHECK(counted_here(MPB_C_PRODUCE_NATIVE) == native && entry_of(entry)->answer_extent == MPB_NO_EXTENT);
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++)
        CHECK_EQ(state_in_force(i)->leo, ends[i]);
    dismissed(entry);
}

static void test_what_is_left(void)
{
    struct ask ask = asked(1, 2);
    uint64_t before = counted_here(MPB_C_PRODUCE_LEFT_FRAME);
    uint32_t entry = taken(&ask, 1);
    entry_of(entry)->api_key = 1;
    CHECK(!mpb_serve_produce(&play.native, entry));
    CHECK_EQ(counted_here(MPB_C_PRODUCE_LEFT_FRAME), before);
    dismissed(entry);
    entry = taken(&ask, 1);
    mpb_store_relaxed(&entry_of(entry)->attempts, 1);
    left_as(entry, MPB_C_PRODUCE_LEFT_RERUN);
    play.native.generation++;
    left_as(taken(&ask, 1), MPB_C_PRODUCE_LEFT_TOPIC);
    play.native.generation--;
    ask.acks = 2;
    left_as(taken(&ask, 1), MPB_C_PRODUCE_LEFT_FRAME);
    ask.acks = 1;
    struct mpb_extents *extents = &handler()->extents; /* no room for cells, or for the answer alone */
    for (int32_t partitions = 1; partitions < 3; partitions++) {
        ask.partitions = partitions;
        ask.long_name = true;
        entry = taken(&ask, 1);
        uint32_t fresh = extents->fresh, free_count = extents->free_count, held = extents->held_count;
        extents->fresh = MPB_EXTENTS_PER_HANDLER;
        extents->free_count = extents->held_count = 0;
        left_as(entry, MPB_C_PRODUCE_LEFT_MEMORY);
        extents->fresh = fresh;
        extents->free_count = free_count;
        extents->held_count = held;
    }
}

/* ------------------------------------------------------------------ waits */
/* What its replicas have yet to get is appended, described, and waits here if such requests do; else it is Python's, and the
 * room of its answer is free again. */
static void test_what_waits(void)
{
    for (int parks = 0; parks < 2; parks++)
        for (int16_t acks = -1; acks < 2; acks++)
            for (int32_t partitions = 2; partitions < 5; partitions++) {
                struct ask ask = asked(acks, partitions);
                ask.long_name = true;
                play.native.parks = parks;
                bool waits = acks < 0 && partitions > 2;
                uint64_t left = counted_here(MPB_C_PRODUCE_LEFT_WAITS), native = counted_here(MPB_C_PRODUCE_NATIVE);
                uint32_t entry = taken(&ask, 1);
                CHECK_EQ(mpb_serve_produce(&play.native, entry), !waits || parks);
                for (int32_t i = 0; i < partitions; i++)
                    CHECK_EQ(state_in_force((uint32_t)i)->leo, ++ends[i]);
                CHECK_EQ(counted_here(MPB_C_PRODUCE_LEFT_WAITS), left + (waits && !parks));
                CHECK_EQ(counted_here(MPB_C_PRODUCE_NATIVE), native + !waits);
                CHECK_EQ(waiting()->count, waits && parks);
                const struct mpb_trace *t = mpb_trace_of(entry_of(entry)->trace);
                CHECK_EQ(t->nparts, waits && !parks ? 0 : partitions);
                CHECK_EQ(t->flags & MPB_TF_ACKS, waits && !parks ? 0 : acks < 0 ? 3 : acks);
                CHECK_EQ(t->stage[MPB_STAGE_IO_DONE] != MPB_TRACE_NOT_REACHED, !waits || parks);
                if (!waits) {
                    CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
                    CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
                    continue;
                }
                CHECK_EQ(entry_of(entry)->answer_extent, MPB_NO_EXTENT);
                CHECK_EQ(entry_of(entry)->parked_kind, parks ? MPB_PARKED_PRODUCE : MPB_PARKED_NOT);
                mpb_produce_forget_waiting(waiting());
                dismissed(entry);
            }
    play.native.parks = false;
}

int main(void)
{
    play_open();
    test_what_is_served();
    test_whose_error_it_is();
    test_whose_time();
    test_what_is_left();
    test_what_waits();
    play_close();
    printf("produce serves: %lu checks\n", checks_made);
    return 0;
}
