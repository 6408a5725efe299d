/* Fetch requests that wait in a handler: whom they watch, when they are looked at, answered or left to Python, and in which
 * order their times are over; at the end against a naive list of all that wait. */
#include "tests/fetch/fetch_play.h"
#include "tests/shm/counted_frees.h"
#include "tests/stepping/starved.h"

enum { WAITING = 40, EXPIRED = MPB_C_FETCH_LEFT_CHANGED }; /* a counter that nothing else counts here */

static const struct world_plan roomy = {2, 4, 0, WAITING, WAITING, 2, 2, 64 << 10, 2 << 20};
static struct mpb_waiting_fetches *const W = &play.waiting[0];

static struct asked_fetch waiting_for(int topic, int32_t partition, int32_t min_bytes, int32_t wait_ms)
{
    struct asked_fetch a = ordinary_fetch(11);
    a.max_wait_ms = wait_ms;
    a.min_bytes = min_bytes;
    ask_part(&a, topic, partition, play.batches[row_of(topic, partition)], 1 << 20);
    return a;
}

static mpb_atomic64 *watchers_of(int topic, int32_t partition)
{
    return &play.d.w.core.partitions[row_of(topic, partition)].watchers;
}

static uint64_t *clock_of(void) { return (uint64_t *)&play.native[0].now_ms; }
static mpb_atomic64 *poke(void) { return &play.d.w.core.doorbells->handler[0].poke; }
static uint32_t in_hand(void) { return in_hand_of(&play.d, 0); }
static uint64_t bit_of(int topic, int32_t partition) { return 1ull << row_of(topic, partition); }

static uint32_t let_wait(const struct asked_fetch *a)
{
    uint32_t entry = taken_by(0, a);
    CHECK(mpb_fetch_serve_or_wait(W, entry));
    return entry;
}

static void check_answered(uint32_t entry, uint32_t records)
{
    struct told_fetch told;
    collected(entry, 11, &told);
    CHECK_EQ(told.parts[0].length, records * PLAY_BATCH);
}

static bool is_answered(void)
{
    struct mpb_ring ring = mpb_ring_view(&play.d.w.core, MPB_RING_RESPONSE);
    return !mpb_ring_empty(&ring);
}

/* ------------------------------------------------------------------ one that waits */
static void test_what_it_watches(void)
{
    struct asked_fetch a = waiting_for(TOPIC_T, 1, 150, 500);
    ask_part(&a, TOPIC_U, 2, play.batches[row_of(TOPIC_U, 2)], 1 << 20);
    *clock_of() = 1000;
    W->parks = false;
    uint32_t entry = taken_by(0, &a);
    CHECK(!mpb_fetch_serve_or_wait(W, entry) && W->count == 0);
    dismissed(0, entry);
    W->parks = true;
    entry = let_wait(&a);
    const struct mpb_entry *e = &play.d.w.core.entries[entry];
    CHECK(W->count == 1 && W->room == 16 && W->earliest_ms == 1500);
    CHECK(W->of[0].entry == entry && W->of[0].deadline_ms == 1500 && !W->of[0].is_for_python);
    CHECK_EQ(W->of[0].generation, mpb_state_generation(mpb_load_relaxed(&e->state)));
    CHECK_EQ(W->of[0].rows, bit_of(TOPIC_T, 1) | bit_of(TOPIC_U, 2));
    CHECK(e->parked_kind == MPB_PARKED_FETCH && in_hand() == 0);
    for (int t = 0; t < PLAY_TOPICS; t++)
        for (int32_t p = 0; p < (int32_t)PLAY_COUNTS[t]; p++)
            CHECK_EQ(atomic_load(watchers_of(t, p)), (W->of[0].rows & bit_of(t, p)) != 0);
    CHECK_EQ(atomic_load(poke()), 0);

    append_record(TOPIC_U, 2, PLAY_BATCH); /* too little: it watches on, whatever rows it is told of */
    CHECK_EQ(atomic_load(poke()), MPB_POKE_DIRTY);
    CHECK_EQ(atomic_load(watchers_of(TOPIC_U, 2)), 0);
    mpb_fetch_look_again(W, ~W->of[0].rows);
    CHECK_EQ(atomic_load(watchers_of(TOPIC_U, 2)), 0);
    mpb_fetch_look_again(W, bit_of(TOPIC_T, 1));
    CHECK(W->count == 1 && atomic_load(watchers_of(TOPIC_U, 2)) == 1 && !play.d.h[0].serving);
    append_record(TOPIC_U, 2, PLAY_BATCH);
    atomic_store(&play.d.w.core.doorbells->processor[0].asleep, 1);
    uint64_t native = counted_by(0, MPB_C_FETCH_NATIVE);
    mpb_fetch_look_again(W, bit_of(TOPIC_T, 1) | bit_of(TOPIC_T, 0));
    CHECK(W->count == 0 && W->earliest_ms == INT64_MAX && !play.d.h[0].serving && in_hand() == 0);
    CHECK_EQ(counted_by(0, MPB_C_FETCH_NATIVE), native + 1);
    CHECK_EQ(atomic_load(&play.d.w.core.doorbells->processor[0].asleep), 0);
    struct told_fetch told;
    const struct mpb_trace t = *mpb_trace_of(play.d.w.core.entries[entry].trace);
    CHECK_EQ(t.stage[MPB_STAGE_IO_DONE], MPB_TRACE_NOT_REACHED); /* it waited: that is not what took its time */
    collected(entry, 11, &told);
    CHECK(told.parts[0].length == 0 && told.parts[1].length == 2 * PLAY_BATCH);
}

static void append_to_u(void) { append_record(TOPIC_U, 1, PLAY_BATCH); }

/* What moves between the look and the wait is seen: it is told so itself, by the row of its first partition. */
static void test_what_moves_meanwhile(void)
{
    for (int moves = 0; moves < 2; moves++) {
        struct asked_fetch a = waiting_for(TOPIC_U, 1, 150, 500);
        ask_part(&a, TOPIC_T, 0, play.batches[row_of(TOPIC_T, 0)] - 1, 1 << 20); /* 100 bytes, which are read */
        atomic_store(watchers_of(TOPIC_U, 1), 0);                                /* nobody else would tell it */
        atomic_store(poke(), 0);
        memset((void *)play.d.w.core.doorbells->dirty[0], 0, sizeof play.d.w.core.doorbells->dirty[0]);
        uint32_t entry = taken_by(0, &a);
        next_read.before = moves ? append_to_u : NULL;
        CHECK(mpb_fetch_serve_or_wait(W, entry));
        CHECK(W->count == 1 && next_read.before == NULL);
        CHECK_EQ(atomic_load(poke()), moves ? MPB_POKE_DIRTY : 0);
        CHECK_EQ(atomic_load(&play.d.w.core.doorbells->dirty[0][0]), moves ? bit_of(TOPIC_U, 1) : 0);
        if (!moves) { /* and between a look and the next wait */
            next_read.before = append_to_u;
            mpb_fetch_look_again(W, UINT64_MAX);
            CHECK(W->count == 0);
        }
        mpb_fetch_look_again(W, UINT64_MAX);
        CHECK(W->count == 0);
        struct told_fetch told;
        collected(entry, 11, &told);
        CHECK(told.parts[0].length == PLAY_BATCH && told.parts[1].length == PLAY_BATCH);
    }
}

/* Who need not wait is answered at once; who is nobody's here does not wait, though the one before did. */
static void test_who_does_not_wait(void)
{
    struct asked_fetch a = waiting_for(TOPIC_T, 1, 0, 500), b = waiting_for(TOPIC_T, 1, 1, 500);
    uint32_t entry = taken_by(0, &a);
    CHECK(mpb_fetch_serve_or_wait(W, entry) && W->count == 0);
    check_answered(entry, 0);
    uint32_t waits = let_wait(&b);
    entry = taken_by(0, &a);
    play.native[0].off = true;
    CHECK(!mpb_fetch_serve_or_wait(W, entry) && W->count == 1);
    play.native[0].off = false;
    dismissed(0, entry);
    append_record(TOPIC_T, 1, PLAY_BATCH);
    mpb_fetch_look_again(W, UINT64_MAX);
    check_answered(waits, 1);
}

/* Without memory for one more it does not wait here. */
static void test_no_memory(void)
{
    if (!CAN_STARVE)
        return;
    struct asked_fetch a = waiting_for(TOPIC_T, 1, 1, 500);
    struct mpb_waiting_fetches many = *W, before;
    uint32_t entry = taken_by(0, &a);
    many.of = NULL;
    many.count = many.room = 1u << 26; /* the next list has gigabytes */
    before = many;
    starve();
    bool waits = mpb_fetch_serve_or_wait(&many, entry);
    feed();
    CHECK(!waits && memcmp(&many, &before, sizeof many) == 0 && in_hand() == entry + 1);
    dismissed(0, entry);
}

/* ------------------------------------------------------------------ left to Python, or to nobody */
static void test_what_python_goes_on_with(void)
{
    int64_t deadline_ms = -1;
    struct asked_fetch a = waiting_for(TOPIC_T, 1, 1, 500);
    *clock_of() = 1000;
    uint32_t entry = let_wait(&a);
    play.generation++;
    uint64_t left = counted_by(0, MPB_C_FETCH_LEFT_TOPIC);
    mpb_fetch_look_again(W, UINT64_MAX);
    CHECK(W->count == 1 && W->of[0].is_for_python && W->earliest_ms == INT64_MIN);
    CHECK_EQ(counted_by(0, MPB_C_FETCH_LEFT_TOPIC), left + 1);
    play.generation--;
    append_record(TOPIC_T, 1, PLAY_BATCH);
    mpb_fetch_look_again(W, UINT64_MAX); /* Python's from now on, though it could be answered */
    CHECK(W->count == 1 && !is_answered());
    mpb_store_release(&play.d.w.core.doorbells->handler_mark[0].in_hand, 0);
    uint64_t expired = counted_by(0, EXPIRED);
    CHECK_EQ(mpb_fetch_take_over(W, INT64_MIN, &deadline_ms), entry);
    CHECK(deadline_ms == 1500 && W->count == 0 && in_hand() == entry + 1);
    CHECK_EQ(counted_by(0, EXPIRED), expired);
    CHECK_EQ(mpb_trace_of(play.d.w.core.entries[entry].trace)->flags & MPB_TF_PURG_TIMEOUT, 0);
    CHECK_EQ(mpb_fetch_take_over(W, INT64_MAX, &deadline_ms), -1);
    dismissed(0, entry);

    a = waiting_for(TOPIC_T, 1, 1, 500); /* its time is over, and it cannot be answered */
    entry = let_wait(&a);
    play.generation++;
    CHECK_EQ(mpb_fetch_take_over(W, 1499, &deadline_ms), -1);
    CHECK_EQ(mpb_fetch_take_over(W, 1500, &deadline_ms), entry);
    CHECK(deadline_ms == 1500 && W->count == 0 && in_hand() == entry + 1);
    CHECK_EQ(counted_by(0, EXPIRED), expired + 1);
    CHECK(mpb_trace_of(play.d.w.core.entries[entry].trace)->flags & MPB_TF_PURG_TIMEOUT);
    play.generation--;
    dismissed(0, entry);
}

/* What is not this handler's any more is forgotten, by a look and by the clock. */
static void test_what_is_not_ours(void)
{
    for (int way = 0; way < 2; way++) {
        int64_t deadline_ms = -1;
        struct asked_fetch a = waiting_for(TOPIC_T, 1, 1, 500);
        *clock_of() = 1000;
        uint32_t entry = let_wait(&a), other = let_wait(&a);
        W->of[0].generation++; /* as if a successor had put it back */
        append_record(TOPIC_T, 1, PLAY_BATCH);
        if (way == 0)
            mpb_fetch_look_again(W, 0); /* of whatever rows */
        else
            CHECK_EQ(mpb_fetch_take_over(W, 1499, &deadline_ms), -1);
        if (way == 1) { /* not before something is due */
            CHECK_EQ(W->count, 2);
            CHECK_EQ(mpb_fetch_take_over(W, 1500, &deadline_ms), -1);
            CHECK(W->count == 0);
        } else {
            CHECK(W->count == 1 && W->of[0].entry == other);
            mpb_fetch_look_again(W, UINT64_MAX);
        }
        check_answered(other, 1);
        dismissed(0, entry);
    }
}

/* A broker that is about to stop answers with what there is. */
static void test_the_end(void)
{
    struct asked_fetch a = waiting_for(TOPIC_T, 1, 1, 500);
    uint32_t entry = let_wait(&a);
    mpb_store_release(&play.d.w.core.header->state, MPB_RUNNING);
    mpb_fetch_look_again(W, UINT64_MAX);
    CHECK_EQ(W->count, 1);
    mpb_store_release(&play.d.w.core.header->state, MPB_DRAINING);
    mpb_fetch_look_again(W, UINT64_MAX);
    CHECK_EQ(W->count, 0);
    mpb_store_release(&play.d.w.core.header->state, MPB_RUNNING);
    check_answered(entry, 0);
}

/* The bytes that are enough, in a look and when it is over; and a deadline that is later leaves the earliest one. */
static void test_enough_and_earliest(void)
{
    int64_t deadline_ms;
    *clock_of() = 1000;
    struct asked_fetch a = waiting_for(TOPIC_T, 1, 2 * PLAY_BATCH, 500), b = waiting_for(TOPIC_T, 2, 1, 700);
    struct asked_fetch c = waiting_for(TOPIC_U, 1, 1, 300);
    uint32_t first = let_wait(&a), second = let_wait(&b);
    CHECK_EQ(W->earliest_ms, 1500);
    uint32_t third = let_wait(&c);
    CHECK(W->earliest_ms == 1300 && W->count == 3);
    CHECK_EQ(mpb_fetch_take_over(W, 1299, &deadline_ms), -1);
    CHECK_EQ(mpb_fetch_take_over(W, 1300, &deadline_ms), -1);
    CHECK(W->count == 2 && W->earliest_ms == 1500);
    check_answered(third, 0);
    append_record(TOPIC_T, 1, PLAY_BATCH);
    mpb_fetch_look_again(W, UINT64_MAX);
    CHECK_EQ(W->count, 2);
    append_record(TOPIC_T, 1, PLAY_BATCH);
    mpb_fetch_look_again(W, UINT64_MAX);
    CHECK(W->count == 1 && W->of[0].entry == second);
    check_answered(first, 2);
    CHECK_EQ(mpb_fetch_take_over(W, 1600, &deadline_ms), -1);
    CHECK_EQ(W->earliest_ms, 1700);
    CHECK_EQ(mpb_fetch_take_over(W, INT64_MAX, &deadline_ms), -1);
    CHECK(W->count == 0 && W->earliest_ms == INT64_MAX);
    check_answered(second, 0);
}

/* ------------------------------------------------------------------ many */
static struct one_waiting {
    bool waits;
    int topic;
    int32_t partition;
    uint32_t entry, offset, needs;
    int64_t deadline_ms;
} model[WAITING];

static uint32_t records_there(const struct one_waiting *one)
{
    return play.batches[row_of(one->topic, one->partition)] - one->offset;
}

/* Those are answered now, in any order, and no others. */
static void check_model(bool (*is_due)(const struct one_waiting *, uint64_t), uint64_t with)
{
    uint32_t left = 0;
    for (uint32_t n = 0; n < WAITING; n++) {
        struct one_waiting *one = &model[n];
        if (one->waits && is_due(one, with)) {
            CHECK_EQ(state_of(&play.d.w, one->entry), MPB_E_DONE);
            one->waits = false;
        } else if (one->waits) {
            CHECK_EQ(state_of(&play.d.w, one->entry), MPB_E_CLAIMED);
            left++;
        }
    }
    CHECK_EQ(W->count, left);
    for (int64_t entry; (entry = mpb_collect(&play.d.p[0])) >= 0;)
        CHECK(mpb_sent(&play.d.p[0], (uint32_t)entry, 1, false));
}

static bool is_enough(const struct one_waiting *one, uint64_t rows)
{
    return (rows & bit_of(one->topic, one->partition)) && records_there(one) >= one->needs;
}

static bool is_over(const struct one_waiting *one, uint64_t ms) { return one->deadline_ms <= (int64_t)ms; }

static void one_more(uint64_t *seed)
{
    uint32_t n = 0;
    while (n < WAITING && model[n].waits)
        n++;
    if (n == WAITING)
        return;
    struct one_waiting *one = &model[n];
    *one = (struct one_waiting){.waits = true,
                                .topic = (int)(next_random(seed) >> 33) % 2,
                                .partition = (int32_t)(next_random(seed) >> 33) % 3,
                                .needs = 1 + (uint32_t)(next_random(seed) >> 33) % 3};
    int32_t wait_ms = 1 + (int32_t)(next_random(seed) >> 33) % 200;
    one->offset = play.batches[row_of(one->topic, one->partition)];
    one->deadline_ms = (int64_t)*clock_of() + wait_ms;
    struct asked_fetch a = waiting_for(one->topic, one->partition, (int32_t)one->needs * PLAY_BATCH, wait_ms);
    one->entry = let_wait(&a);
}

static void test_beside_a_list(void)
{
    uint64_t seed = 20261127;
    uint32_t most = 0;
    for (int round = 0; round < 4000; round++) {
        uint32_t what = (uint32_t)(next_random(&seed) >> 33) % 8;
        uint64_t rows = next_random(&seed) >> 40;
        if (what < 4)
            one_more(&seed);
        else if (what == 4)
            append_record((int)(rows % 2), (int32_t)(rows / 2 % 3), PLAY_BATCH);
        else if (what < 7)
            mpb_fetch_look_again(W, rows);
        most = W->count > most ? W->count : most;
        if (what == 5 || what == 6) {
            check_model(is_enough, rows);
        } else if (what == 7) {
            int64_t deadline_ms, earliest_ms = INT64_MAX;
            *clock_of() += rows % 32;
            CHECK_EQ(mpb_fetch_take_over(W, (int64_t)*clock_of(), &deadline_ms), -1);
            check_model(is_over, *clock_of());
            for (uint32_t n = 0; n < WAITING; n++)
                if (model[n].waits && model[n].deadline_ms < earliest_ms)
                    earliest_ms = model[n].deadline_ms;
            CHECK(W->earliest_ms <= earliest_ms && W->earliest_ms > (int64_t)*clock_of());
        }
    }
    CHECK(most > 20 && W->room == 64);
    unsigned long before = frees;
    mpb_fetch_forget_waiting(W);
    CHECK_EQ(frees, before + FREES_COUNT);
    CHECK(W->of == NULL && W->count == 0 && W->room == 0 && W->earliest_ms == INT64_MAX);
}

int main(void)
{
    play_open(&roomy);
    W->expired_counter = EXPIRED;
    append_record(TOPIC_T, 0, PLAY_BATCH);
    test_what_it_watches();
    test_what_moves_meanwhile();
    test_who_does_not_wait();
    test_no_memory();
    test_what_python_goes_on_with();
    test_what_is_not_ours();
    test_the_end();
    test_enough_and_earliest();
    test_beside_a_list();
    play_close();
    printf("fetch waits: %lu checks\n", checks_made);
    return 0;
}
