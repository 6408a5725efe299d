/* Produce requests that are served without the interpreter into a real log, by a handler of a world in which a script owns
 * the clocks. Partitions 0 and 1 of each topic are this broker's alone; 2 and 3 wait for another one. */
#ifndef MPB_TESTS_PRODUCE_PLAY_H
#define MPB_TESTS_PRODUCE_PLAY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/stepping/scripted_calls.h"
#include "tests/log/log_fixture.h"
#include "tests/produce/produce_frames.h"
#include "tests/request/request_drama.h"
#include "produce/produce_answer.h"
#include "produce/serve_produce.h"
#include "trace/trace_record.h"

enum {
    PLAY_ENTRIES = 24,
    PLAY_EPOCH = 3,
    ERRORS = MPB_C_FETCH_LEFT_FRAME /* a counter that nothing else counts here */
};

static const struct world_plan play_plan = {2, 4, 0, PLAY_ENTRIES, PLAY_ENTRIES, 2, 2, 64 << 10, 1 << 20};

static struct play {
    struct drama d;
    struct fixture f;
    struct mpb_native_produce native;
} play;

static inline struct mpb_waiting_produces *waiting(void) { return &play.native.waiting; }
static inline struct mpb_handler *handler(void) { return &play.d.h[0]; }
static inline struct mpb_entry *entry_of(uint32_t entry) { return &play.d.w.core.entries[entry]; }

static inline struct mpb_partition_copy *state_in_force(uint32_t ordinal) { return copy_in_force(&play.d, ordinal); }
static inline uint64_t counted_here(uint32_t counter) { return counted_in(&play.d, 0, counter); }
static inline uint32_t in_hand(void) { return in_hand_of(&play.d, 0); }

static inline void play_partitions(void)
{
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++) {
        char dir[32];
        struct mpb_partition_identity identity = {.topic_id = {7}, .partition = i, .dir = dir};
        snprintf(dir, sizeof dir, "t-%u", i);
        CHECK_EQ(mpb_partition_create(&play.f.log, i, &identity, PLAY_EPOCH, 1000), 0);
        const struct mpb_new_role leader = fixture_role(MPB_ROLE_LEADER, PLAY_EPOCH, i < 2 ? 1 : 2);
        CHECK_EQ(mpb_become(&play.f.log, i, &leader), 0);
    }
}

static inline void play_open(void)
{
    static const uint8_t ID[16] = {7};
    static const uint32_t ORDINALS[ASK_PARTITIONS] = {0, 1, 2, 3};
    static const struct mpb_batch_rules RULES = {.max_message_bytes = 1048588,
                                                 .from_client = true,
                                                 .timestamp_before_max_ms = INT64_MAX,
                                                 .timestamp_after_max_ms = INT64_MAX};
    struct mpb_core *core = &play.d.w.core;
    uint32_t bad;
    script.monotonic_ns[0] = 1000000000;
    script.wall_ns[0] = 1;
    script.monotonic_lines = script.wall_lines = 1;
    world_open(&play.d.w, &play_plan);
    core->replicas = shared_bytes(FIX_PARTITIONS * sizeof *core->replicas);
    core->replica_count = FIX_PARTITIONS;
    drama_open(&play.d);
    fixture_make_dir(&play.f);
    const char *dirs[] = {play.f.dir};
    CHECK_EQ(mpb_log_open(&play.f.log, core, MPB_SLOT_HANDLERS, dirs, 1, 16, &bad), 0);
    play_partitions();
    play.native = (struct mpb_native_produce){
        .handler = handler(), .log = &play.f.log, .generation = 5, .errors_counter = ERRORS, .now_ms = 2000};
    mpb_store_relaxed(&core->header->metadata_generation, 5);
    *waiting() = (struct mpb_waiting_produces){.handler = handler(),
                                               .topics = &play.native.topics,
                                               .generation = &play.native.generation,
                                               .served = &play.native.served,
                                               .now_ms = 1000};
    for (int name = 0; name < 2; name++) {
        const char *topic_name = ask_topic(name == 1);
        struct mpb_native_topic *topic = mpb_native_add(&play.native.topics, (const uint8_t *)topic_name,
                                                        (uint32_t)strlen(topic_name), ID, ORDINALS, ASK_PARTITIONS,
                                                        &FIX_OPTIONS, &RULES);
        CHECK(topic != NULL);
        topic->produces = true;
    }
}

static inline void play_close(void)
{
    mpb_produce_forget_waiting(waiting());
    mpb_native_forget(&play.native.topics);
    mpb_log_close(&play.f.log);
    remove_tree(play.f.dir);
    drama_close(&play.d);
    munmap(play.d.w.core.replicas, FIX_PARTITIONS * sizeof *play.d.w.core.replicas);
    world_close(&play.d.w);
}

/* The request in the handler's hand. */
static inline uint32_t taken(const struct ask *ask, uint64_t t0_ns)
{
    uint8_t frame[ASK_BYTES];
    uint32_t length = ask_frame(frame, ask);
    struct mpb_submission s = plain_submission(ask->id, frame + 4, length - 4);
    s.t0_ns = t0_ns;
    return taken_in_hand(&play.d, 0, &s);
}

/* What is told of it, and away with it. */
static inline void collected(uint32_t entry, const struct ask *ask, int64_t offsets[ASK_PARTITIONS])
{
    const struct mpb_entry *e = entry_of(entry);
    const uint8_t *frame = e->answer_extent != MPB_NO_EXTENT ? play.d.w.core.arena + e->answer_offset : e->answer_bytes;
    CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
    CHECK_EQ(e->answer_kind, e->answer_extent != MPB_NO_EXTENT ? MPB_ANSWER_EXTENT : MPB_ANSWER_INLINE);
    CHECK_EQ(mpb_be32(frame), e->answer_length - 4);
    read_answer(frame + 4, e->answer_length - 4, ask, offsets);
    CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
}

static inline void dismissed(uint32_t entry) { dismissed_by(&play.d, 0, entry); }

#endif
