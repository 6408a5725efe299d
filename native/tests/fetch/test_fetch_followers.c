/* Fetch sessions where something comes between: who waits in one, is overtaken, finds it gone or held; and followers, whose
 * position counts once, at the first look, and who read to the log's end. */
#include "tests/fetch/fetch_play.h"

static struct mpb_waiting_fetches *const W = &play.waiting[0];

/* A session that reads partition 0 of T and 1 of U from their ends on; its id. */
static int32_t begun(int16_t version)
{
    struct told_fetch told;
    struct asked_fetch a = ordinary_fetch(version);
    a.session_epoch = 0;
    ask_part(&a, TOPIC_T, 0, play.batches[row_of(TOPIC_T, 0)], 1 << 20);
    ask_part(&a, TOPIC_U, 1, play.batches[row_of(TOPIC_U, 1)], 1 << 20);
    uint32_t entry = taken_by(0, &a);
    CHECK(mpb_serve_fetch(&play.native[0], entry));
    collected(entry, version, &told);
    CHECK(told.count == 2 && told.session_id > 0);
    return told.session_id;
}

static struct asked_fetch going_on(int16_t version, int32_t session_id, int32_t epoch)
{
    struct asked_fetch a = ordinary_fetch(version);
    a.session_id = session_id;
    a.session_epoch = epoch;
    return a;
}

static struct mpb_fetch_session *row_with(int32_t session_id)
{
    for (uint32_t row = 0; row < play.d.w.core.fetch_session_count; row++)
        if (mpb_load_relaxed(&play.d.w.core.fetch_sessions[row].word) >> 32 == (uint32_t)session_id)
            return &play.d.w.core.fetch_sessions[row];
    return NULL;
}

static void left_as(const struct asked_fetch *a, uint32_t counter)
{
    uint64_t before = counted_by(0, counter);
    uint32_t entry = taken_by(0, a);
    CHECK(!mpb_serve_fetch(&play.native[0], entry));
    CHECK_EQ(counted_by(0, counter), before + 1);
    CHECK_EQ(play.d.w.core.entries[entry].answer_extent, MPB_NO_EXTENT);
    dismissed(0, entry);
}

/* ------------------------------------------------------------------ waiting in a session */
/* However often it is looked at, a request goes on with its session once, and is answered out of it. */
static void test_a_session_that_waits(void)
{
    struct told_fetch told;
    int32_t id = begun(11);
    struct asked_fetch a = going_on(11, id, 1);
    a.max_wait_ms = 500;
    a.min_bytes = 2 * PLAY_BATCH;
    uint32_t entry = taken_by(0, &a);
    CHECK(mpb_fetch_serve_or_wait(W, entry) && W->count == 1);
    for (int n = 0; n < 2; n++) {
        CHECK(row_with(id)->epoch == 2 && (row_with(id)->flags & MPB_SESSION_ANSWERED) == 0);
        append_record(TOPIC_U, 1, PLAY_BATCH);
        mpb_fetch_look_again(W, UINT64_MAX);
    }
    CHECK(W->count == 0 && row_with(id)->epoch == 2 && (row_with(id)->flags & MPB_SESSION_ANSWERED) != 0);
    collected(entry, 11, &told);
    CHECK(told.session_id == id && told.count == 1 && told.parts[0].length == 2 * PLAY_BATCH);
    uint64_t fill_number = row_with(id)->fill_number; /* a second run of what was answered already */
    a = going_on(11, id, 2);
    entry = taken_by(0, &a);
    play.d.w.core.entries[entry].fill_number = fill_number;
    CHECK(!mpb_serve_fetch(&play.native[0], entry));
    CHECK_EQ(row_with(id)->epoch, 2);
    dismissed(0, entry);
}

/* Another request of the session came meanwhile: the one that waits is Python's, which knows what to say. */
static void test_overtaken(void)
{
    struct told_fetch told;
    int64_t deadline_ms;
    int32_t id = begun(11);
    struct asked_fetch a = going_on(11, id, 1), b = going_on(11, id, 2);
    a.max_wait_ms = 500;
    a.min_bytes = 1;
    uint32_t entry = taken_by(0, &a), other = taken_by(1, &b);
    CHECK(mpb_fetch_serve_or_wait(W, entry));
    CHECK(mpb_serve_fetch(&play.native[1], other));
    collected(other, 11, &told);
    CHECK(told.count == 0 && told.session_id == id);
    append_record(TOPIC_T, 0, PLAY_BATCH);
    uint64_t left = counted_by(0, MPB_C_FETCH_LEFT_SESSION);
    mpb_fetch_look_again(W, UINT64_MAX);
    CHECK(W->count == 1 && W->of[0].is_for_python && row_with(id)->epoch == 3);
    CHECK_EQ(counted_by(0, MPB_C_FETCH_LEFT_SESSION), left + 1);
    CHECK_EQ(mpb_fetch_take_over(W, 0, &deadline_ms), entry);
    dismissed(0, entry);
}

/* ------------------------------------------------------------------ what comes before the end */
static int32_t meanwhile_id;

static void drop_it(void)
{
    struct mpb_fetch_session *session = row_with(meanwhile_id);
    mpb_session_drop(&play.d.w.core, (uint32_t)(session - play.d.w.core.fetch_sessions));
}
static void go_on_with_it(void) { row_with(meanwhile_id)->fill_number++; }
static void resize_it(void) { row_with(meanwhile_id)->partitions--; }
static void hold_it(void) { row_with(meanwhile_id)->word |= 99; }

/* Between its begin and its end somebody else has the session: an answer that does not go with it is not given. If it is
 * gone, the client's next request hears of that. */
static void test_what_comes_between(void)
{
    static void (*const MEANWHILE[])(void) = {drop_it, go_on_with_it, resize_it, hold_it};
    for (int way = 0; way < 4; way++) {
        struct told_fetch told;
        meanwhile_id = begun(11);
        append_record(TOPIC_T, 0, PLAY_BATCH);
        struct asked_fetch a = going_on(11, meanwhile_id, 1);
        next_read.before = MEANWHILE[way];
        if (way == 0) {
            uint32_t entry = taken_by(0, &a);
            CHECK(mpb_serve_fetch(&play.native[0], entry));
            collected(entry, 11, &told);
            CHECK(told.session_id == meanwhile_id && told.parts[0].length == PLAY_BATCH);
            continue;
        }
        left_as(&a, MPB_C_FETCH_LEFT_SESSION);
        row_with(meanwhile_id)->word &= ~0xffull;
        CHECK_EQ(row_with(meanwhile_id)->flags & MPB_SESSION_ANSWERED, 0);
        drop_it();
    }
}

/* A session may name what is not there any more: then it is Python's, also when the request changes something. */
static void test_what_is_not_there(void)
{
    static const int32_t PARTITIONS[] = {-1, 0, 2, 3, 4};
    for (size_t i = 0; i < sizeof PARTITIONS / sizeof *PARTITIONS; i++)
        for (int changes = 0; changes < 2; changes++) {
            struct told_fetch told;
            int32_t id = begun(11);
            uint32_t row = (uint32_t)(row_with(id) - play.d.w.core.fetch_sessions);
            mpb_session_partitions(&play.d.w.core, row)[0].partition = PARTITIONS[i];
            struct asked_fetch a = going_on(11, id, 1);
            if (changes)
                ask_part(&a, TOPIC_T, 1, 0, 1 << 20);
            meanwhile_id = id;
            if (PARTITIONS[i] < 0 || PARTITIONS[i] > 2) {
                left_as(&a, MPB_C_FETCH_LEFT_PARTITIONS);
                CHECK_EQ(row_with(id)->epoch, 1);
            } else {
                mpb_session_partitions(&play.d.w.core, row)[0].fetch_offset = 0;
                uint32_t entry = taken_by(0, &a);
                CHECK(mpb_serve_fetch(&play.native[0], entry));
                collected(entry, 11, &told);
            }
            drop_it();
        }
}

/* Nobody gives way: the request is served, without a session. */
static void test_no_room_for_a_session(void)
{
    struct told_fetch told;
    struct mpb_core *core = &play.d.w.core;
    for (uint32_t row = 0; row < core->fetch_session_count; row++)
        mpb_store_relaxed(&core->fetch_sessions[row].word, 99);
    struct asked_fetch a = ordinary_fetch(11);
    a.session_epoch = 0;
    ask_part(&a, TOPIC_T, 0, 0, 1 << 20);
    uint32_t entry = taken_by(0, &a);
    CHECK(mpb_serve_fetch(&play.native[0], entry));
    collected(entry, 11, &told);
    CHECK(told.session_id == 0 && told.count == 1);
    for (uint32_t row = 0; row < core->fetch_session_count; row++) {
        CHECK_EQ(mpb_load_relaxed(&core->fetch_sessions[row].word), 99);
        mpb_store_relaxed(&core->fetch_sessions[row].word, 0);
    }
}

/* ------------------------------------------------------------------ followers */
static int64_t position_of(int place)
{
    return (int64_t)mpb_load_acquire(&play.d.w.core.replicas[row_of(TOPIC_T, 0)].place[place].leo);
}

static struct asked_fetch follows(int32_t id, int32_t epoch, int32_t broker, int64_t offset)
{
    struct asked_fetch a = going_on(15, id, epoch);
    a.follower = broker;
    ask_part(&a, TOPIC_T, 0, offset, 1 << 20);
    return a;
}

static void test_followers(void)
{
    struct told_fetch told;
    mpb_atomic32 *bell = &play.d.w.core.doorbells->service_word[MPB_SLOT_CONTROLLER];
    int64_t end = play.batches[row_of(TOPIC_T, 0)], hw = state_in_force(TOPIC_T, 0)->hw;
    CHECK(end - hw >= 3); /* which waits for broker 0 */
    play.native[0].serves_followers = true;
    int32_t id = begun(15), epoch = 1;
    struct asked_fetch a = follows(id, epoch, 0, end - 2);
    mpb_store_relaxed(bell, 0);
    uint32_t entry = taken_by(0, &a);
    CHECK(mpb_serve_fetch(&play.native[0], entry));
    collected(entry, 15, &told);
    CHECK(told.parts[0].length == 2 * PLAY_BATCH && told.parts[0].high_watermark == end - 2);
    CHECK(position_of(0) == end - 2 && mpb_load_relaxed(bell) == 0);
    a = follows(id, ++epoch, 0, end - 1); /* of another epoch: that counts for nothing */
    a.parts[0].leader_epoch = 0;
    left_as(&a, MPB_C_FETCH_LEFT_ERROR);
    CHECK_EQ(position_of(0), end - 2);
    a = follows(id, ++epoch, 0, end);
    entry = taken_by(0, &a);
    CHECK(mpb_serve_fetch(&play.native[0], entry));
    collected(entry, 15, &told);
    CHECK(told.parts[0].length == 0 && told.parts[0].high_watermark == end);
    a = follows(id, ++epoch, 9, end); /* nobody's replica */
    left_as(&a, MPB_C_FETCH_LEFT_ERROR);
    mpb_store_relaxed(bell, 0);
    a = follows(id, ++epoch, 2, end); /* it has caught up: the controller is asked to count it in */
    a.max_wait_ms = 500;
    a.min_bytes = 1;
    entry = taken_by(0, &a);
    CHECK(mpb_fetch_serve_or_wait(W, entry) && W->count == 1);
    CHECK(position_of(2) == end && mpb_load_relaxed(bell) == 2);
    mpb_store_release(&play.d.w.core.replicas[row_of(TOPIC_T, 0)].place[2].leo, 1);
    mpb_fetch_look_again(W, UINT64_MAX); /* it said so once, a while ago */
    CHECK(W->count == 1 && position_of(2) == 1 && !mpb_fetch_is_ready(&play.native[0], entry) && position_of(2) == 1);
    append_record(TOPIC_T, 0, PLAY_BATCH);
    mpb_fetch_look_again(W, UINT64_MAX);
    collected(entry, 15, &told);
    CHECK(told.parts[0].length == PLAY_BATCH && position_of(2) == 1);
    play.native[0].serves_followers = false;
}

/* A request for a new session ends the one that it names, which may have the lowest id of all. */
static void test_a_session_that_is_replaced(void)
{
    struct mpb_core *core = &play.d.w.core;
    struct told_fetch told;
    uint32_t row;
    while (mpb_load_relaxed(&core->fetch_sessions[1].word) == 0)
        begun(11);
    mpb_store_release(&core->fetch_sessions[1].word, 1ull << 32);
    struct asked_fetch a = going_on(11, 1, 0);
    ask_part(&a, TOPIC_T, 0, play.batches[row_of(TOPIC_T, 0)], 1 << 20);
    uint32_t entry = taken_by(0, &a);
    CHECK(mpb_serve_fetch(&play.native[0], entry));
    collected(entry, 11, &told);
    CHECK(told.session_id > 1);
    CHECK_EQ(mpb_session_hold(core, 60, 1, &row), MPB_SESSION_UNKNOWN);
}

int main(void)
{
    play_open(&small_plan);
    test_a_session_that_waits();
    test_overtaken();
    test_what_comes_between();
    test_what_is_not_there();
    test_no_room_for_a_session();
    play_close();
    play.native[0] = play.native[1] = (struct mpb_native_fetch){0};
    play_replicates = true;
    play_open(&small_plan);
    for (int i = 0; i < 4; i++)
        append_record(TOPIC_T, 0, PLAY_BATCH);
    test_followers();
    test_a_session_that_is_replaced();
    play_close();
    printf("fetch followers: %lu checks\n", checks_made);
    return 0;
}
