/* Fetch sessions beside a naive model of KIP-227: any requests in any order, and after each of them the answer tells what the
 * client does not know yet, and the row in shared memory holds what it knows now, in the order in which it is read. */
#include "tests/fetch/fetch_play.h"
#include "tests/stepping/guarded.h"
#include "fetch/fetch_answer.h"
#include "fetch/session_table.h"

enum { CLIENTS = 3, MODEL_PARTS = 8 };

struct known_part {
    struct asked_part asked;
    int64_t high_watermark, log_start; /* as the client was told; -1: it was not */
};

struct session {
    int16_t version;
    uint32_t id, epoch, count;
    uint64_t used_ms;
    bool answered; /* the last request that went on with it told something */
    struct known_part parts[PLAY_PARTS];
};

static struct session sessions[CLIENTS];
static uint64_t seed = 20261127, now_ms = 1000;
static uint32_t full_ones, incremental_ones, quiet_ones, left_ones;

static uint32_t draw(uint32_t n) { return (uint32_t)(next_random(&seed) >> 33) % n; }

static int32_t partition_of(int topic) { return (int32_t)draw(PLAY_COUNTS[topic]); }

static struct known_part *find(struct session *s, const struct asked_part *asked)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->parts[i].asked.topic == asked->topic && s->parts[i].asked.partition == asked->partition)
            return &s->parts[i];
    return NULL;
}

/* Without what the version does not say. */
static struct asked_part as_read(const struct asked_part *asked, int16_t version)
{
    struct asked_part read = *asked;
    if (version < 12)
        read.last_epoch = -1;
    if (version < 9)
        read.leader_epoch = -1;
    return read;
}

/* ------------------------------------------------------------------ what a request does */
static void merge(struct session *s, const struct asked_fetch *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        struct known_part *part = find(s, &a->parts[i]);
        if (part == NULL) {
            part = &s->parts[s->count++];
            part->high_watermark = part->log_start = -1;
        }
        part->asked = as_read(&a->parts[i], a->version);
    }
    for (uint32_t i = 0; i < a->forgotten_count; i++) {
        struct known_part *part = find(s, &a->forgotten[i]);
        if (part != NULL)
            memmove(part, part + 1, (size_t)(&s->parts[--s->count] - part) * sizeof *part);
    }
}

static uint32_t there(const struct asked_part *asked)
{
    int64_t end = state_in_force(asked->topic, asked->partition)->leo;
    return (uint32_t)(end - asked->offset) * PLAY_BATCH;
}

/* What is told, and what the client knows then: who gave records has had its turn. */
static void check_told(struct session *s, const struct told_fetch *told, bool all)
{
    struct known_part gave[PLAY_PARTS], rest[PLAY_PARTS];
    uint32_t gave_count = 0, rest_count = 0, at = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        struct known_part part = s->parts[i];
        const struct mpb_partition_copy *now = state_in_force(part.asked.topic, part.asked.partition);
        uint32_t length = there(&part.asked);
        if (all || length > 0 || part.high_watermark != now->hw || part.log_start != now->log_start) {
            const struct told_part *p = &told->parts[at++];
            CHECK(p->topic == part.asked.topic && p->partition == part.asked.partition && p->length == length);
            CHECK(p->high_watermark == now->hw && p->log_start == now->log_start);
        }
        part.high_watermark = now->hw;
        part.log_start = now->log_start;
        if (length > 0 && !all)
            gave[gave_count++] = part;
        else
            rest[rest_count++] = part;
    }
    CHECK_EQ(told->count, at);
    s->answered = at > 0 && !all;
    if (at == 0) {
        quiet_ones++;
        return;
    }
    memcpy(s->parts, rest, rest_count * sizeof *rest);
    memcpy(s->parts + rest_count, gave, gave_count * sizeof *gave);
}

static void check_topics(const struct session *s, uint32_t row, bool by_id)
{
    const struct mpb_session_topic *topics = mpb_session_topics(&play.d.w.core, row);
    uint32_t places[PLAY_TOPICS] = {99, 99, 99}, count = 0;
    for (uint32_t i = 0; i < play.d.w.core.fetch_sessions[row].topics; i++)
        for (int t = 0; t < PLAY_TOPICS; t++)
            if (topics[i].name_length == strlen(PLAY_NAMES[t]) &&
                memcmp(topics[i].name, PLAY_NAMES[t], topics[i].name_length) == 0) {
                places[t] = i;
                for (int n = 0; n < 16; n++)
                    CHECK_EQ(topics[i].id[n], by_id ? t + 1 : 0);
                count++;
            }
    CHECK_EQ(count, play.d.w.core.fetch_sessions[row].topics);
    const struct mpb_session_partition *partitions = mpb_session_partitions(&play.d.w.core, row);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct known_part *part = &s->parts[i];
        CHECK_EQ(partitions[i].topic, places[part->asked.topic]);
        CHECK_EQ(partitions[i].partition, part->asked.partition);
        CHECK_EQ(partitions[i].fetch_offset, part->asked.offset);
        CHECK_EQ(partitions[i].max_bytes, part->asked.max_bytes);
        CHECK_EQ(partitions[i].leader_epoch, part->asked.leader_epoch);
        CHECK_EQ(partitions[i].last_epoch, part->asked.last_epoch);
        CHECK_EQ(partitions[i].asked_log_start, part->asked.log_start);
        CHECK_EQ(partitions[i].high_watermark, part->high_watermark);
        CHECK_EQ(partitions[i].log_start, part->log_start);
    }
}

static void check_row(const struct session *s, uint64_t fill_number)
{
    uint32_t row;
    CHECK_EQ(mpb_session_hold(&play.d.w.core, 60, s->id, &row), MPB_SESSION_HELD);
    const struct mpb_fetch_session *now = &play.d.w.core.fetch_sessions[row];
    bool by_id = s->version >= 13;
    CHECK_EQ(now->epoch, s->epoch);
    CHECK_EQ(now->flags, (by_id ? MPB_SESSION_BY_ID : 0) | (s->answered ? MPB_SESSION_ANSWERED : 0));
    CHECK_EQ(now->fill_number, fill_number);
    CHECK_EQ(mpb_load_relaxed(&now->used_ms), s->used_ms);
    CHECK_EQ(now->partitions, s->count);
    check_topics(s, row, by_id);
    mpb_session_release(&play.d.w.core, row);
}

/* ------------------------------------------------------------------ requests */
static bool is_named(const struct asked_part *parts, uint32_t count, int topic, int32_t partition)
{
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].topic == topic && parts[i].partition == partition)
            return true;
    return false;
}

/* Some partitions, topic by topic: none is named twice. */
static uint32_t draw_parts(struct asked_part parts[PLAY_PARTS], uint32_t one_in)
{
    uint32_t count = 0;
    for (uint32_t n = 0, first = draw(PLAY_TOPICS); n < PLAY_TOPICS; n++) {
        int topic = (int)((first + n) % PLAY_TOPICS);
        for (uint32_t tries = 0; tries < PLAY_COUNTS[topic]; tries++) {
            int32_t partition = partition_of(topic);
            if (draw(one_in) != 0 || is_named(parts, count, topic, partition))
                continue;
            int64_t end = state_in_force(topic, partition)->leo;
            parts[count++] = (struct asked_part){.topic = topic,
                                                 .partition = partition,
                                                 .leader_epoch = draw(2) ? -1 : PLAY_EPOCH,
                                                 .last_epoch = draw(2) ? -1 : PLAY_EPOCH,
                                                 .max_bytes = (1 << 20) + (int32_t)draw(9),
                                                 .offset = draw(2) ? end : draw((uint32_t)end + 1),
                                                 .log_start = -1};
        }
    }
    return count;
}

static void go_on(struct session *s, const struct asked_fetch *a, bool served, const struct told_fetch *told,
                  uint64_t fill_number)
{
    bool known = s->id != 0 && (uint32_t)a->session_id == s->id && (uint32_t)a->session_epoch == s->epoch;
    struct session next = *s;
    merge(&next, a);
    bool goes = known && a->session_epoch > 0 && (a->version >= 13) == (s->version >= 13) && next.count > 0;
    CHECK_EQ(served, goes);
    if (!goes) {
        left_ones++;
        return;
    }
    CHECK_EQ(told->session_id, (int32_t)s->id);
    *s = next;
    check_told(s, told, false);
    s->epoch++;
    s->used_ms = now_ms;
    check_row(s, fill_number);
    incremental_ones++;
}

static void begin(struct session *s, const struct asked_fetch *a, const struct told_fetch *told)
{
    s->count = 0;
    merge(s, a);
    check_told(s, told, true);
    s->version = a->version;
    s->id = 0;
    if (a->session_epoch == -1) {
        CHECK_EQ(told->session_id, 0);
        return;
    }
    CHECK(told->session_id > 0);
    s->id = (uint32_t)told->session_id;
    s->epoch = 1;
    s->used_ms = now_ms;
    check_row(s, 0);
    full_ones++;
}

/* One request of one client; now and then with an epoch, an id or a version that is not the session's. */
static void next_request(struct session *s)
{
    struct asked_fetch a = ordinary_fetch(s->version);
    uint32_t kind = draw(16);
    a.session_id = (int32_t)s->id;
    a.session_epoch = s->id == 0 || kind == 0 ? 0 : kind == 1 ? -1 : (int32_t)s->epoch;
    if (kind == 2 && a.session_epoch > 0)
        a.session_epoch += draw(2) ? 1 : -1;
    if (kind == 3 && a.session_epoch > 0)
        a.session_id ^= 4;
    if (kind == 4 && a.session_epoch > 0)
        a.version = s->version >= 13 ? 12 : 13;
    if (a.session_epoch <= 0 && draw(2))
        a.version = (int16_t)(7 + draw(11));
    if (kind > 5 || a.session_epoch <= 0)
        a.count = draw_parts(a.parts, a.session_epoch <= 0 ? 2 : 4);
    if (kind > 9 && a.session_epoch > 0)
        a.forgotten_count = draw_parts(a.forgotten, 4);
    if (a.count == 0 && a.session_epoch <= 0)
        ask_part(&a, TOPIC_U, 1, 0, 1 << 20);
    if (a.version < 10) /* old readers of zstd are Python's */
        for (uint32_t i = 0; i < a.count; i++)
            if (a.parts[i].topic == TOPIC_ZSTD)
                a.count = i--;
    if (a.count == 0 && a.session_epoch <= 0)
        ask_part(&a, TOPIC_T, 1, 0, 1 << 20);
    struct told_fetch told;
    uint32_t handler = draw(2), entry = taken_by(handler, &a);
    uint64_t fill_number = play.d.w.core.entries[entry].fill_number;
    play.native[handler].now_ms = (int64_t)now_ms;
    bool served = mpb_serve_fetch(&play.native[handler], entry);
    if (served)
        collected(entry, a.version, &told);
    else
        dismissed(handler, entry);
    if (a.session_epoch <= 0) {
        CHECK(served);
        uint32_t row, old = s->id;
        begin(s, &a, &told);
        CHECK(old == 0 || mpb_session_hold(&play.d.w.core, 60, old, &row) == MPB_SESSION_UNKNOWN);
    } else {
        go_on(s, &a, served, &told, fill_number);
    }
}

static void test_beside_the_model(void)
{
    for (int i = 0; i < CLIENTS; i++)
        sessions[i].version = (int16_t)(10 + 3 * i);
    for (int round = 0; round < 6000; round++) {
        int topic = (int)draw(PLAY_TOPICS);
        int32_t partition = partition_of(topic);
        if (draw(8) == 0 && play.batches[row_of(topic, partition)] < 12)
            append_record(topic, partition, PLAY_BATCH);
        now_ms += draw(3);
        next_request(&sessions[draw(CLIENTS)]);
    }
    CHECK(full_ones > 300 && incremental_ones > 1500 && quiet_ones > 100 && left_ones > 300);
}

/* As many partitions as a request can have, behind which nothing may be looked at; and where there are no records to be
 * sent, no log is asked for them. */
static void test_the_most_partitions(void)
{
    static const struct mpb_native_topic topic = {.name = "topic", .name_length = 5};
    static struct mpb_fetch_request all = {.version = 12, .count = MPB_FETCH_PARTITIONS};
    static uint8_t frame[MPB_FETCH_PARTITIONS * 64];
    CHECK_EQ(sizeof all, offsetof(struct mpb_fetch_request, parts) + sizeof all.parts);
    for (int32_t i = 0; i < MPB_FETCH_PARTITIONS; i++) {
        all.parts[i].topic = &topic;
        all.parts[i].asked.partition = i;
        all.parts[i].asked.high_watermark = -1; /* which is not what its plan says */
    }
    const struct guarded guarded = guarded_open(sizeof all);
    struct mpb_fetch_request *request = (void *)guarded_copy(&guarded, &all, sizeof all);
    struct mpb_fetch_turn turn = {.request = request};
    uint32_t none = mpb_fetch_answer(request, 77, NULL, NULL);
    for (turn.kind = MPB_FETCH_SESSIONLESS; turn.kind <= MPB_FETCH_INCREMENTAL; turn.kind++) {
        for (uint32_t i = 0; i < MPB_FETCH_PARTITIONS; i++)
            request->parts[i].told = false;
        mpb_fetch_session_choose(&turn);
        for (uint32_t i = 0; i < MPB_FETCH_PARTITIONS; i++)
            CHECK(request->parts[i].told);
    }
    uint32_t length = mpb_fetch_answer(request, 77, NULL, NULL);
    CHECK(length > none + MPB_FETCH_PARTITIONS * 34 && length <= sizeof frame);
    CHECK_EQ(mpb_fetch_answer(request, 77, NULL, frame), length);
    CHECK_EQ(mpb_be32(frame), length - 4);
}

int main(void)
{
    test_the_most_partitions();
    play_open(&small_plan);
    test_beside_the_model();
    play_close();
    printf("fetch sessions: %lu checks, %u incremental\n", checks_made, incremental_ones);
    return 0;
}
