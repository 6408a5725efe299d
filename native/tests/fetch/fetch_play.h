/* Fetch requests that are served without the interpreter from a real log, by handlers of a world in which a script owns the
 * clocks: their frames of any version, and what their answers tell, read field by field. */
#ifndef MPB_TESTS_FETCH_PLAY_H
#define MPB_TESTS_FETCH_PLAY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/syscall.h>

#include "tests/stepping/scripted_calls.h"
#include "tests/log/log_fixture.h"
#include "tests/request/request_drama.h"
#include "fetch/waiting_fetch.h"
#include "trace/trace_record.h"

enum { PLAY_TOPICS = 3, PLAY_PARTITIONS = 3, PLAY_PARTS = 12, PLAY_BATCH = 100, PLAY_FRAME = 2048, PLAY_EPOCH = 3 };
/* Rows of the partition table: topic * PLAY_PARTITIONS + partition, but for one that is not there. */
enum { TOPIC_T, TOPIC_U, TOPIC_ZSTD };

static const char *const PLAY_NAMES[PLAY_TOPICS] = {"t", "other", "zstd"};
static const uint32_t PLAY_COUNTS[PLAY_TOPICS] = {3, 3, 2};

/* ------------------------------------------------------------------ requests */
struct asked_part {
    int topic;
    int32_t partition, leader_epoch, last_epoch, max_bytes;
    int64_t offset, log_start;
};

struct asked_fetch {
    int16_t version;
    int32_t max_wait_ms, min_bytes, max_bytes, session_id, session_epoch;
    int8_t isolation;
    int32_t follower; /* -1: a consumer */
    uint32_t count, forgotten_count;
    struct asked_part parts[PLAY_PARTS], forgotten[PLAY_PARTS];
};

struct frame_out {
    uint8_t bytes[PLAY_FRAME];
    uint32_t length;
    bool flexible;
};

static inline void put(struct frame_out *o, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        o->bytes[o->length++] = (uint8_t)(value >> (8 * i));
}

static inline void put_count(struct frame_out *o, uint32_t count, int bytes)
{
    put(o, o->flexible ? count + 1 : count, o->flexible ? 1 : bytes); /* all counts are below 127 */
}

static inline void put_tags(struct frame_out *o)
{
    if (o->flexible)
        put(o, 0, 1);
}

static inline void put_topic(struct frame_out *o, int16_t version, int topic)
{
    uint32_t length = (uint32_t)strlen(PLAY_NAMES[topic]);
    if (version >= 13) {
        for (int i = 0; i < 16; i++)
            put(o, (uint64_t)(topic + 1), 1);
        return;
    }
    put_count(o, length, 2);
    memcpy(o->bytes + o->length, PLAY_NAMES[topic], length);
    o->length += length;
}

/* How many parts from `at` on are of one topic. */
static inline uint32_t same_topic(const struct asked_part *parts, uint32_t count, uint32_t at)
{
    uint32_t end = at;
    while (end < count && parts[end].topic == parts[at].topic)
        end++;
    return end - at;
}

static inline uint32_t topics_of(const struct asked_part *parts, uint32_t count)
{
    uint32_t topics = 0;
    for (uint32_t at = 0; at < count; at += same_topic(parts, count, at))
        topics++;
    return topics;
}

static inline void put_part(struct frame_out *o, int16_t version, const struct asked_part *part)
{
    put(o, (uint64_t)(int64_t)part->partition, 4);
    if (version >= 9)
        put(o, (uint64_t)(int64_t)part->leader_epoch, 4);
    put(o, (uint64_t)part->offset, 8);
    if (version >= 12)
        put(o, (uint64_t)(int64_t)part->last_epoch, 4);
    if (version >= 5)
        put(o, (uint64_t)part->log_start, 8);
    put(o, (uint64_t)(int64_t)part->max_bytes, 4);
    put_tags(o);
}

static inline void put_parts(struct frame_out *o, const struct asked_fetch *a, bool forgotten)
{
    const struct asked_part *parts = forgotten ? a->forgotten : a->parts;
    uint32_t count = forgotten ? a->forgotten_count : a->count;
    put_count(o, topics_of(parts, count), 4);
    for (uint32_t at = 0; at < count;) {
        uint32_t end = at + same_topic(parts, count, at);
        put_topic(o, a->version, parts[at].topic);
        put_count(o, end - at, 4);
        for (; at < end; at++)
            if (forgotten)
                put(o, (uint64_t)(int64_t)parts[at].partition, 4);
            else
                put_part(o, a->version, &parts[at]);
        put_tags(o);
    }
}

static inline void write_fetch(struct frame_out *o, const struct asked_fetch *a)
{
    *o = (struct frame_out){.flexible = a->version >= 12};
    put(o, 1, 2);
    put(o, (uint64_t)a->version, 2);
    put(o, 77, 4);
    put(o, 0, 2);
    put_tags(o);
    if (a->version < 15)
        put(o, UINT32_MAX, 4);
    put(o, (uint64_t)(int64_t)a->max_wait_ms, 4);
    put(o, (uint64_t)(int64_t)a->min_bytes, 4);
    put(o, (uint64_t)(int64_t)a->max_bytes, 4);
    put(o, (uint64_t)a->isolation, 1);
    if (a->version >= 7) {
        put(o, (uint64_t)(int64_t)a->session_id, 4);
        put(o, (uint64_t)(int64_t)a->session_epoch, 4);
    }
    put_parts(o, a, false);
    if (a->version >= 7)
        put_parts(o, a, true);
    if (a->version >= 11)
        put_count(o, 0, 2); /* rack */
    if (a->follower < 0) {
        put_tags(o);
        return;
    }
    put(o, 1, 1); /* one tag, 1, of 13 bytes: who follows */
    put(o, 1, 1);
    put(o, 13, 1);
    put(o, (uint64_t)(int64_t)a->follower, 4);
    put(o, 9, 8);
    put(o, 0, 1);
}

static inline struct asked_fetch ordinary_fetch(int16_t version)
{
    return (struct asked_fetch){
        .version = version, .max_bytes = 1 << 20, .session_id = 0, .session_epoch = -1, .follower = -1};
}

static inline void ask_part(struct asked_fetch *a, int topic, int32_t partition, int64_t offset, int32_t max_bytes)
{
    a->parts[a->count++] = (struct asked_part){.topic = topic,
                                               .partition = partition,
                                               .leader_epoch = -1,
                                               .last_epoch = -1,
                                               .max_bytes = max_bytes,
                                               .offset = offset,
                                               .log_start = -1};
}

/* ------------------------------------------------------------------ answers */
struct told_part {
    int topic;
    int32_t partition, aborted, replica;
    int16_t error;
    int64_t high_watermark, last_stable, log_start;
    uint32_t length;
    const uint8_t *records;
};

struct told_fetch {
    int32_t session_id;
    uint32_t count, topics;
    struct told_part parts[PLAY_PARTS];
};

struct frame_in {
    const uint8_t *at, *end;
    bool flexible;
};

static inline uint64_t get(struct frame_in *i, int bytes)
{
    uint64_t value = 0;
    CHECK(i->at + bytes <= i->end);
    for (int n = 0; n < bytes; n++)
        value = value << 8 | *i->at++;
    return value;
}

/* A count or a length; -1: null. */
static inline int64_t get_count(struct frame_in *i, int bytes)
{
    if (!i->flexible)
        return bytes == 2 ? (int16_t)get(i, 2) : (int32_t)get(i, 4);
    uint64_t value = 0, byte = 128;
    for (int shift = 0; byte & 128; shift += 7) {
        byte = get(i, 1);
        value |= (byte & 127) << shift;
    }
    return (int64_t)value - 1;
}

static inline void get_no_tags(struct frame_in *i)
{
    if (i->flexible)
        CHECK_EQ(get(i, 1), 0);
}

static inline int get_topic(struct frame_in *i, int16_t version)
{
    if (version >= 13) {
        uint64_t first = get(i, 1);
        for (int n = 1; n < 16; n++)
            CHECK_EQ(get(i, 1), first);
        return (int)first - 1;
    }
    int64_t length = get_count(i, 2);
    for (int topic = 0; topic < PLAY_TOPICS; topic++)
        if ((int64_t)strlen(PLAY_NAMES[topic]) == length && memcmp(i->at, PLAY_NAMES[topic], (size_t)length) == 0) {
            i->at += length;
            return topic;
        }
    CHECK(!"a topic that is known");
    return -1;
}

static inline struct told_part get_part(struct frame_in *i, int16_t version, int topic)
{
    struct told_part p = {
        .topic = topic, .partition = (int32_t)get(i, 4), .error = (int16_t)get(i, 2), .log_start = -2};
    p.high_watermark = (int64_t)get(i, 8);
    p.last_stable = (int64_t)get(i, 8);
    if (version >= 5)
        p.log_start = (int64_t)get(i, 8);
    p.aborted = (int32_t)get_count(i, 4);
    p.replica = version >= 11 ? (int32_t)get(i, 4) : -1;
    p.length = (uint32_t)get_count(i, 4);
    p.records = i->at;
    CHECK(i->at + p.length <= i->end);
    i->at += p.length;
    get_no_tags(i);
    return p;
}

static inline void read_told(struct told_fetch *told, int16_t version, const uint8_t *frame, uint32_t length)
{
    struct frame_in i = {frame, frame + length, version >= 12};
    *told = (struct told_fetch){0};
    CHECK_EQ(get(&i, 4), length - 4);
    CHECK_EQ(get(&i, 4), 77);
    get_no_tags(&i);
    CHECK_EQ(get(&i, 4), 0); /* throttle time */
    if (version >= 7) {
        CHECK_EQ(get(&i, 2), 0);
        told->session_id = (int32_t)get(&i, 4);
    }
    told->topics = (uint32_t)get_count(&i, 4);
    for (uint32_t t = 0; t < told->topics; t++) {
        int topic = get_topic(&i, version);
        int64_t parts = get_count(&i, 4);
        CHECK(parts > 0);
        for (int64_t p = 0; p < parts; p++)
            told->parts[told->count++] = get_part(&i, version, topic);
        get_no_tags(&i);
    }
    get_no_tags(&i);
    CHECK(i.at == i.end);
}

/* ------------------------------------------------------------------ the stage */
static struct play {
    struct drama d;
    struct fixture f;
    struct mpb_native_topics topics;
    uint64_t generation;
    struct mpb_native_fetch native[2]; /* of handlers 0 and 1 */
    struct mpb_waiting_fetches waiting[2];
    uint32_t batches[PLAY_TOPICS * PLAY_PARTITIONS]; /* of each row, one record each, all PLAY_BATCH bytes long */
} play;

/* The next read of so many bytes fails; or the log is truncated behind it; or, before any read, something else happens. */
static struct {
    size_t bytes;
    int error;
    struct mpb_partition *truncated;
    void (*before)(void);
} next_read;

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    void (*before)(void) = next_read.before;
    next_read.before = NULL;
    if (before != NULL)
        before();
    if (next_read.bytes == count && next_read.error != 0) {
        errno = next_read.error;
        next_read.bytes = 0;
        return -1;
    }
    if (next_read.bytes == count && next_read.truncated != NULL) {
        next_read.truncated->copy[0].truncations++;
        next_read.truncated->copy[1].truncations++;
        next_read.bytes = 0;
    }
    return syscall(SYS_pread64, fd, bytes, count, at);
}

static inline uint32_t row_of(int topic, int32_t partition) { return (uint32_t)(topic * PLAY_PARTITIONS + partition); }

static inline struct mpb_partition_copy *state_in_force(int topic, int32_t partition)
{
    return copy_in_force(&play.d, row_of(topic, partition));
}

static inline void append_record(int topic, int32_t partition, uint32_t bytes)
{
    uint32_t row = row_of(topic, partition);
    struct batch_spec spec = {.records = 1,
                              .producer_id = -1,
                              .timestamp = 5,
                              .payload = bytes - MPB_BATCH_HEADER_BYTES,
                              .mark = (uint8_t)(20 * row + play.batches[row])};
    CHECK_EQ(append_batch(&play.f.log, &FIX_OPTIONS, row, MPB_NO_REQUEST, 0, &spec).base_offset, play.batches[row]);
    play.batches[row]++;
}

/* Before the stage is opened: brokers 0 and 2 follow each partition, 0 in sync; this one, 1, leads. */
static bool play_replicates;

static inline void play_lead(uint32_t ordinal)
{
    struct mpb_new_role leader = fixture_role(MPB_ROLE_LEADER, PLAY_EPOCH, 2);
    for (int32_t i = 0; i < 3; i++)
        leader.replicas[i] = i;
    leader.leader = leader.self = 1;
    leader.isr[0] = 1;
    leader.isr[1] = 0;
    CHECK_EQ(mpb_become(&play.f.log, ordinal, &leader), 0);
}

static inline void play_open_log(void)
{
    static const struct mpb_batch_rules RULES = {0};
    uint32_t bad;
    fixture_make_dir(&play.f);
    const char *dirs[] = {play.f.dir};
    play.f.core = play.d.w.core;
    CHECK_EQ(mpb_log_open(&play.f.log, &play.d.w.core, MPB_SLOT_HANDLERS, dirs, 1, 16, &bad), 0);
    memset(play.batches, 0, sizeof play.batches);
    for (int t = 0; t < PLAY_TOPICS; t++) {
        uint32_t ordinals[PLAY_PARTITIONS];
        uint8_t id[16];
        memset(id, t + 1, sizeof id);
        for (uint32_t p = 0; p < PLAY_COUNTS[t]; p++) {
            char dir[32];
            struct mpb_partition_identity identity = {.partition = p, .dir = dir};
            memcpy(identity.topic_id, id, sizeof id);
            snprintf(dir, sizeof dir, "%s-%u", PLAY_NAMES[t], p);
            ordinals[p] = row_of(t, (int32_t)p);
            CHECK_EQ(mpb_partition_create(&play.f.log, ordinals[p], &identity, PLAY_EPOCH, 1000), 0);
            if (play_replicates)
                play_lead(ordinals[p]);
        }
        struct mpb_native_topic *topic = mpb_native_add(&play.topics, (const uint8_t *)PLAY_NAMES[t],
                                                        (uint32_t)strlen(PLAY_NAMES[t]), id, ordinals, PLAY_COUNTS[t],
                                                        &FIX_OPTIONS, &RULES);
        CHECK(topic != NULL);
        topic->is_zstd = t == TOPIC_ZSTD;
    }
}

static inline void play_open(const struct world_plan *plan)
{
    script.monotonic_ns[0] = 1000000000;
    script.wall_ns[0] = 1;
    script.monotonic_lines = script.wall_lines = 1;
    world_open(&play.d.w, plan);
    if (play_replicates) {
        play.d.w.core.replicas = shared_bytes(PLAY_TOPICS * PLAY_PARTITIONS * sizeof *play.d.w.core.replicas);
        play.d.w.core.replica_count = 8;
    }
    drama_open(&play.d);
    play_open_log();
    play.generation = 5;
    mpb_store_relaxed(&play.d.w.core.header->metadata_generation, 5);
    for (uint32_t h = 0; h < 2; h++) {
        play.native[h] = (struct mpb_native_fetch){.handler = &play.d.h[h],
                                                   .log = &play.f.log,
                                                   .topics = &play.topics,
                                                   .generation = &play.generation,
                                                   .max_bytes = 1 << 20,
                                                   .now_ms = 1000};
        play.waiting[h] = (struct mpb_waiting_fetches){.native = &play.native[h],
                                                       .expired_counter = MPB_C_FETCH_LEFT_FRAME,
                                                       .parks = true,
                                                       .earliest_ms = INT64_MAX};
    }
}

static inline void play_close(void)
{
    for (uint32_t h = 0; h < 2; h++)
        mpb_fetch_forget_waiting(&play.waiting[h]);
    mpb_native_forget(&play.topics);
    mpb_log_close(&play.f.log);
    remove_tree(play.f.dir);
    drama_close(&play.d);
    if (play_replicates)
        munmap(play.d.w.core.replicas, PLAY_TOPICS * PLAY_PARTITIONS * sizeof *play.d.w.core.replicas);
    world_close(&play.d.w);
}

/* ------------------------------------------------------------------ moves */
static inline uint64_t counted_by(uint32_t handler, uint32_t counter) { return counted_in(&play.d, handler, counter); }

/* The request in the hand of handler 0 or 1. */
static inline uint32_t taken_by(uint32_t handler, const struct asked_fetch *a)
{
    struct frame_out frame;
    write_fetch(&frame, a);
    struct mpb_submission s = plain_submission(1, frame.bytes, frame.length);
    return taken_in_hand(&play.d, handler, &s);
}

/* The answer that is there for it; its bytes are good until something else is answered. */
static inline void collected(uint32_t entry, int16_t version, struct told_fetch *told)
{
    static uint8_t kept[1 << 17];
    const struct mpb_entry *e = &play.d.w.core.entries[entry];
    CHECK_EQ(mpb_collect(&play.d.p[0]), entry);
    CHECK_EQ(e->answer_kind, e->answer_extent != MPB_NO_EXTENT ? MPB_ANSWER_EXTENT : MPB_ANSWER_INLINE);
    CHECK(e->answer_length <= sizeof kept);
    memcpy(kept, e->answer_extent != MPB_NO_EXTENT ? play.d.w.core.arena + e->answer_offset : e->answer_bytes,
           e->answer_length);
    read_told(told, version, kept, e->answer_length);
    CHECK(mpb_sent(&play.d.p[0], entry, 1, false));
}

static inline void dismissed(uint32_t handler, uint32_t entry) { dismissed_by(&play.d, handler, entry); }

#endif
