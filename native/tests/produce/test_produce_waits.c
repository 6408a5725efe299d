/* Produce requests that wait for replicas: when each is acknowledged, left to Python or waits on, by what the partition's row
 * and its own cells say; what the answer tells then; and in which order their times are over. */
#include "tests/produce/produce_play.h"
#include "tests/shm/counted_frees.h"
#include "tests/stepping/starved.h"

enum { END = 10 }; /* offset that the high watermark must reach */

static uint32_t next_id = 1;
static struct mpb_produce_request read_request;

static void set_rows(int64_t hw)
{
    for (uint32_t i = 0; i < ASK_PARTITIONS; i++) {
        struct mpb_partition_copy *now = state_in_force(i);
        now->hw = hw;
        now->role = MPB_ROLE_LEADER;
        now->leader_since = PLAY_EPOCH;
        now->min_isr = 2;
        now->maximal_isr = 0x5;
    }
}

/* A request for partitions 0 to n - 1 whose appends ended at END, as its cells say. */
static uint32_t appended(struct ask *ask, int32_t partitions, bool long_name)
{
    *ask = (struct ask){.id = next_id++ % 200, .acks = -1, .partitions = partitions, .long_name = long_name};
    uint32_t entry = taken(ask, 1);
    struct mpb_entry *e = entry_of(entry);
    CHECK_EQ(mpb_produce_read(&play.native.topics, mpb_payload(&play.d.w.core, e), e->payload_length, &read_request),
             MPB_SERVE);
    CHECK(mpb_cells_ensure(handler(), entry, (uint32_t)partitions));
    for (uint32_t i = 0; i < (uint32_t)partitions; i++) {
        struct mpb_cell *cell = mpb_cell(&play.d.w.core, entry, i);
        cell->base_offset = END - 1 - i;
        cell->end_offset = END;
        cell->append_time_ms = 70 + i;
        cell->log_start = i;
        cell->leader_epoch = PLAY_EPOCH;
        cell->ordinal = i;
        cell->error = 0;
        mpb_store_release(&cell->tag, e->fill_number);
    }
    return entry;
}

static uint32_t let_wait(struct ask *ask, int32_t partitions, int32_t timeout_ms)
{
    uint32_t entry = appended(ask, partitions, false);
    read_request.timeout_ms = timeout_ms;
    CHECK(mpb_produce_wait(waiting(), entry, &read_request));
    return entry;
}

static mpb_atomic64 *poke(void) { return &play.d.w.core.doorbells->handler[0].poke; }

static uint64_t ack_watchers(uint32_t i) { return atomic_load(&play.d.w.core.partitions[i].ack_watchers); }

static void check_acknowledged(uint32_t entry, const struct ask *ask)
{
    int64_t offsets[ASK_PARTITIONS];
    const struct mpb_entry *e = entry_of(entry);
    const uint8_t *frame = e->answer_extent != MPB_NO_EXTENT ? play.d.w.core.arena + e->answer_offset : e->answer_bytes;
    const uint8_t *part = frame + 4 + 4 + 4 + 2 + strlen(ask_topic(ask->long_name)) + 4;
    for (int32_t i = 0; i < ask->partitions; i++) { /* as the cells say */
        CHECK_EQ(mpb_be64(part + 30 * i + 14), 70 + i);
        CHECK_EQ(mpb_be64(part + 30 * i + 22), i);
    }
    collected(entry, ask, offsets);
    for (int32_t i = 0; i < ask->partitions; i++)
        CHECK_EQ(offsets[i], END - 1 - i);
}

/* ------------------------------------------------------------------ one that waits */
static void test_what_it_watches(void)
{
    static const struct {
        int32_t timeout_ms;
        int64_t deadline_ms;
    } ROWS[] = {{500, 1500}, {1, 1001}, {0, 1000}, {-1, 1000}};
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
        struct ask ask;
        set_rows(END - 1);
        for (uint32_t i = 0; i < ASK_PARTITIONS; i++)
            atomic_store(&play.d.w.core.partitions[i].ack_watchers, 0);
        uint32_t entry = let_wait(&ask, 3, ROWS[r].timeout_ms);
        const struct mpb_waiting_one *one = waiting()->of;
        CHECK(waiting()->count == 1 && waiting()->room == 16 && waiting()->earliest_ms == ROWS[r].deadline_ms);
        CHECK(one->entry == entry && one->deadline_ms == ROWS[r].deadline_ms && !one->is_for_python);
        CHECK_EQ(one->generation, mpb_state_generation(mpb_load_relaxed(&entry_of(entry)->state)));
        CHECK(entry_of(entry)->parked_kind == MPB_PARKED_PRODUCE && in_hand() == 0);
        for (uint32_t i = 0; i < ASK_PARTITIONS; i++)
            CHECK_EQ(ack_watchers(i), i < 3);
        CHECK_EQ(atomic_load(poke()), 0);
        atomic_store(&play.d.w.core.partitions[1].ack_watchers, 0); /* it was told: not enough, it watches on */
        state_in_force(0)->hw = END;
        mpb_produce_look_again(waiting());
        CHECK(waiting()->count == 1 && ack_watchers(1) == 1 && !handler()->serving);
        set_rows(END);
        for (uint32_t i = 0; i < ASK_PARTITIONS; i++)
            atomic_store(&play.d.w.core.partitions[i].ack_watchers, 0);
        atomic_store(&play.d.w.core.doorbells->processor[0].asleep, 1);
        script.monotonic_ns[0] += 500;
        uint64_t served = play.native.served, native = counted_here(MPB_C_PRODUCE_NATIVE);
        mpb_produce_look_again(waiting());
        CHECK(waiting()->count == 0 && waiting()->earliest_ms == INT64_MAX && !handler()->serving && in_hand() == 0);
        CHECK(play.native.served == served + 1 && counted_here(MPB_C_PRODUCE_NATIVE) == native + 1);
        CHECK_EQ(atomic_load(&play.d.w.core.doorbells->processor[0].asleep), 0);
        CHECK_EQ(handler()->taken_ns, script.monotonic_ns[0]); /* it was in hand again */
        for (uint32_t i = 0; i < ASK_PARTITIONS; i++)          /* and watches nothing more */
            CHECK_EQ(ack_watchers(i), 0);
        CHECK(mpb_trace_of(entry_of(entry)->trace)->stage[MPB_STAGE_PURG_LEAVE] != MPB_TRACE_NOT_REACHED);
        check_acknowledged(entry, &ask);
    }
}

/* What moved before it watched is seen: it is told so itself, by the row of its first partition. */
static void test_what_moved_before(void)
{
    struct ask ask;
    set_rows(END);
    memset((void *)play.d.w.core.doorbells->dirty[0], 0, sizeof play.d.w.core.doorbells->dirty[0]);
    uint32_t entry = appended(&ask, 2, false);
    for (uint32_t i = 0; i < 2; i++)
        mpb_cell(&play.d.w.core, entry, i)->ordinal = 3 - i;
    CHECK(mpb_produce_wait(waiting(), entry, &read_request));
    CHECK_EQ(atomic_load(poke()), MPB_POKE_DIRTY);
    CHECK_EQ(atomic_load(&play.d.w.core.doorbells->dirty[0][0]), 1 << 3);
    mpb_produce_look_again(waiting());
    check_acknowledged(entry, &ask);
}

/* ------------------------------------------------------------------ verdicts */
enum verdict { ACKNOWLEDGED, WAITS, PYTHON };

static void check_verdict(uint32_t entry, const struct ask *ask, enum verdict verdict)
{
    int64_t deadline_ms = -1;
    mpb_produce_look_again(waiting());
    CHECK_EQ(waiting()->count, verdict != ACKNOWLEDGED);
    if (verdict == ACKNOWLEDGED) {
        check_acknowledged(entry, ask);
        return;
    }
    CHECK_EQ(waiting()->of[0].is_for_python, verdict == PYTHON);
    CHECK_EQ(waiting()->earliest_ms, verdict == PYTHON ? INT64_MIN : 1500);
    set_rows(END); /* Python's from now on, whatever moves */
    mpb_produce_look_again(waiting());
    if (verdict == WAITS) {
        check_acknowledged(entry, ask);
        return;
    }
    uint64_t left = counted_here(MPB_C_PRODUCE_LEFT_WAITS);
    CHECK_EQ(mpb_produce_take_over(waiting(), INT64_MIN, &deadline_ms), entry);
    CHECK(deadline_ms == 1500 && waiting()->count == 0 && in_hand() == entry + 1);
    CHECK_EQ(counted_here(MPB_C_PRODUCE_LEFT_WAITS), left + 1);
    dismissed(entry);
}

/* Every partition must have been appended to, by this leader since then, and have all its replicas in sync, enough of them. */
static void test_verdicts(void)
{
    static const struct {
        int64_t hw;
        uint8_t role, min_isr;
        uint16_t maximal_isr;
        int32_t leader_since;
        int16_t error;
        uint32_t flags_off;
        uint64_t tag_off;
        uint32_t ordinal;
        enum verdict verdict;
    } ROWS[] = {
        {END, MPB_ROLE_LEADER, 2, 0x5, 3, 0, 0, 0, 1, ACKNOWLEDGED},
        {END + 1, MPB_ROLE_LEADER, 2, 0x5, 3, 0, 0, 0, 1, ACKNOWLEDGED},
        {END - 1, MPB_ROLE_LEADER, 2, 0x5, 3, 0, 0, 0, 1, WAITS},
        {END, MPB_ROLE_LEADER, 2, 0x7, 3, 0, 0, 0, 1, ACKNOWLEDGED},
        {END, MPB_ROLE_LEADER, 2, 0x4, 3, 0, 0, 0, 1, PYTHON}, /* too few are in sync */
        {END - 1, MPB_ROLE_LEADER, 2, 0x4, 3, 0, 0, 0, 1, WAITS},
        {END, MPB_ROLE_LEADER, 1, 0x4, 3, 0, 0, 0, 1, ACKNOWLEDGED},
        {END, MPB_ROLE_FOLLOWER, 2, 0x5, 3, 0, 0, 0, 1, PYTHON},
        {END - 1, MPB_ROLE_FOLLOWER, 2, 0x5, 3, 0, 0, 0, 1, PYTHON},
        {END, MPB_ROLE_LEADER, 2, 0x5, 2, 0, 0, 0, 1, ACKNOWLEDGED},
        {END, MPB_ROLE_LEADER, 2, 0x5, 4, 0, 0, 0, 1, PYTHON}, /* it led again meanwhile: what it had may be gone */
        {END - 1, MPB_ROLE_LEADER, 2, 0x5, 4, 0, 0, 0, 1, PYTHON},
        {END, MPB_ROLE_LEADER, 2, 0x5, 3, 7, 0, 0, 1, PYTHON},
        {END, MPB_ROLE_LEADER, 2, 0x5, 3, 0, MPB_PART_ONLINE, 0, 1, PYTHON},
        {END - 1, MPB_ROLE_LEADER, 2, 0x5, 3, 0, MPB_PART_ONLINE, 0, 1, PYTHON},
        {END, MPB_ROLE_LEADER, 2, 0x5, 3, 0, 0, 1, 1, PYTHON}, /* its cell is another request's */
        {END, MPB_ROLE_LEADER, 2, 0x5, 3, 0, 0, 0, 8, PYTHON}, /* of eight rows */
        {END, MPB_ROLE_LEADER, 2, 0x5, 3, 0, 0, 0, 9, PYTHON},
    };
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++)
        for (uint32_t other = 0; other < 2; other++) { /* beside one that is acknowledged, or waits */
            struct ask ask;
            set_rows(END - 1);
            uint32_t entry = let_wait(&ask, 2, 500);
            state_in_force(0)->hw = END - other;
            struct mpb_partition_copy *now = state_in_force(1);
            now->hw = ROWS[r].hw;
            now->role = ROWS[r].role;
            now->min_isr = ROWS[r].min_isr;
            now->maximal_isr = ROWS[r].maximal_isr;
            now->leader_since = ROWS[r].leader_since;
            mpb_atomic32 *flags = &play.d.w.core.partitions[1].flags;
            uint32_t kept = mpb_load_relaxed(flags);
            mpb_store_relaxed(flags, kept & ~ROWS[r].flags_off);
            struct mpb_cell *cell = mpb_cell(&play.d.w.core, entry, 1);
            cell->error = ROWS[r].error;
            cell->tag += ROWS[r].tag_off;
            cell->ordinal = ROWS[r].ordinal;
            enum verdict verdict = ROWS[r].verdict == ACKNOWLEDGED && other ? WAITS : ROWS[r].verdict;
            check_verdict(entry, &ask, verdict);
            mpb_store_relaxed(flags, kept);
        }
}

/* Each cell is judged by its own row, in whatever order they come; a row behind the table is none. */
static void test_which_row_counts(void)
{
    for (uint32_t waits = 0; waits < 2; waits++)
        for (uint32_t first = 0; first < 2; first++) {
            struct ask ask;
            set_rows(END - 1);
            uint32_t entry = let_wait(&ask, 2, 500);
            for (uint32_t i = 0; i < 2; i++)
                mpb_cell(&play.d.w.core, entry, i)->ordinal = i ^ first;
            set_rows(END);
            state_in_force(waits)->hw = END - 1;
            check_verdict(entry, &ask, WAITS);
        }
    struct ask ask;
    set_rows(END - 1);
    uint32_t entry = let_wait(&ask, 2, 500), rows = play.d.w.core.partition_count;
    set_rows(END);
    play.d.w.core.partition_count = 1;
    check_verdict(entry, &ask, PYTHON);
    play.d.w.core.partition_count = rows;
}

/* Without memory for one more nothing is parked. */
static void test_no_memory(void)
{
    struct ask ask;
    if (!CAN_STARVE)
        return;
    uint32_t entry = appended(&ask, 1, false);
    struct mpb_waiting_produces many = *waiting(), before;
    many.of = NULL;
    many.count = many.room = 1u << 27; /* the next list has gigabytes */
    before = many;
    starve();
    bool waits = mpb_produce_wait(&many, entry, &read_request);
    feed();
    CHECK(!waits && memcmp(&many, &before, sizeof many) == 0 && in_hand() == entry + 1);
    dismissed(entry);
}

/* What cannot be answered here, though it may be acknowledged, is Python's, with nothing changed. */
static void test_what_cannot_be_answered(void)
{
    for (int way = 0; way < 5; way++) {
        struct ask ask;
        set_rows(END - 1);
        uint32_t entry = appended(&ask, 2, true);
        struct mpb_extents *extents = &handler()->extents, kept = *extents;
        read_request.timeout_ms = 500;
        CHECK(mpb_produce_wait(waiting(), entry, &read_request));
        set_rows(END);
        struct mpb_entry *e = entry_of(entry);
        uint8_t *version = (uint8_t *)(uintptr_t)mpb_payload(&play.d.w.core, e) + 3;
        if (way == 1)
            play.native.generation++; /* the topic may have changed */
        if (way == 2)
            *version = 99;
        if (way == 3)
            e->cell_count = 1;
        if (way == 4) { /* no word for the answer, which is long */
            extents->fresh = MPB_EXTENTS_PER_HANDLER;
            extents->free_count = extents->held_count = 0;
        }
        uint64_t served = play.native.served;
        mpb_produce_look_again(waiting());
        CHECK_EQ(waiting()->count, way != 0);
        CHECK_EQ(play.native.served, served + (way == 0));
        *version = 7;
        if (way == 1)
            play.native.generation--;
        if (way == 3)
            e->cell_count = 2;
        if (way == 4) {
            extents->fresh = kept.fresh;
            extents->free_count = kept.free_count;
            extents->held_count = kept.held_count;
        }
        if (way == 0) {
            check_acknowledged(entry, &ask);
            continue;
        }
        int64_t deadline_ms;
        CHECK(waiting()->of[0].is_for_python && waiting()->earliest_ms == INT64_MIN && in_hand() == 0);
        CHECK_EQ(entry_of(entry)->answer_extent, MPB_NO_EXTENT);
        CHECK_EQ(mpb_produce_take_over(waiting(), 0, &deadline_ms), entry);
        dismissed(entry);
    }
}

/* What is not this handler's any more is forgotten, by a look and by the clock; it is nobody's to go on with. */
static void test_what_is_not_ours(void)
{
    for (int way = 0; way < 3; way++) {
        int64_t deadline_ms = -1;
        struct ask ask[2];
        set_rows(END - 1);
        uint32_t first = let_wait(&ask[0], 1, 500), second = let_wait(&ask[1], 1, way == 2 ? 500 : 700);
        waiting()->of[0].generation++; /* as if a successor had put it back */
        waiting()->of[0].is_for_python = way == 2;
        if (way == 0)
            mpb_produce_look_again(waiting());
        else
            CHECK_EQ(mpb_produce_take_over(waiting(), 1500, &deadline_ms), way == 2 ? (int64_t)second : -1);
        CHECK_EQ(waiting()->count, way != 2);
        if (way != 2) {
            CHECK(waiting()->of[0].entry == second && waiting()->earliest_ms == (way == 0 ? 1500 : 1700));
            CHECK_EQ(mpb_produce_take_over(waiting(), 1700, &deadline_ms), second);
        }
        CHECK_EQ(deadline_ms, way == 2 ? 1500 : 1700);
        dismissed(second);
        dismissed(first);
    }
}

/* ------------------------------------------------------------------ many */
/* Whose time is over is taken over one by one, and none before; the list grows, and its earliest deadline is told anew. */
static void test_whose_time_is_over(void)
{
    enum { MANY = PLAY_ENTRIES - 4 };
    struct ask ask[MANY];
    uint32_t entries[MANY], taken_over = 0;
    int64_t deadlines[MANY], deadline_ms, earliest_ms = INT64_MAX;
    mpb_produce_forget_waiting(waiting());
    set_rows(END - 1);
    for (uint32_t n = 0; n < MANY; n++) {
        entries[n] = let_wait(&ask[n], 1, (int32_t)(100 + 7 * (n * 7 % MANY) / 2));
        deadlines[n] = 1100 + 7 * (n * 7 % MANY) / 2;
        earliest_ms = deadlines[n] < earliest_ms ? deadlines[n] : earliest_ms;
        CHECK(waiting()->count == n + 1 && waiting()->room == (n < 16 ? 16 : 32) &&
              waiting()->earliest_ms == earliest_ms);
    }
    CHECK_EQ(mpb_produce_take_over(waiting(), 1099, &deadline_ms), -1);
    for (int64_t now_ms = 1099; taken_over < MANY; now_ms++) {
        for (int64_t entry; (entry = mpb_produce_take_over(waiting(), now_ms, &deadline_ms)) >= 0; taken_over++) {
            uint32_t n = 0;
            while (entries[n] != entry)
                n++;
            CHECK(deadlines[n] == now_ms && deadline_ms == now_ms && in_hand() == entry + 1);
            deadlines[n] = INT64_MAX;
            dismissed((uint32_t)entry);
        }
        earliest_ms = INT64_MAX;
        for (uint32_t n = 0; n < MANY; n++)
            earliest_ms = deadlines[n] < earliest_ms ? deadlines[n] : earliest_ms;
        CHECK_EQ(waiting()->earliest_ms, earliest_ms);
        CHECK_EQ(waiting()->count, MANY - taken_over);
    }
    CHECK_EQ(mpb_produce_take_over(waiting(), INT64_MAX, &deadline_ms), -1);
    unsigned long before = frees;
    mpb_produce_forget_waiting(waiting());
    CHECK_EQ(frees, before + FREES_COUNT);
    CHECK(waiting()->of == NULL && waiting()->count == 0 && waiting()->room == 0);
}

/* A test's clock, or the system's. */
static void test_whose_clock(void)
{
    static const struct {
        int64_t own_ms, system_ns, now_ms;
    } ROWS[] = {{0, 7000000000, 0},
                {5, 7000000000, 5},
                {-1, 7000000000, 7000},
                {-1, 7999000000, 7999},
                {-9, 12001000000, 12001}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct ask ask;
        set_rows(END - 1);
        waiting()->now_ms = ROWS[i].own_ms;
        script.monotonic_ns[0] = ROWS[i].system_ns;
        uint32_t entry = let_wait(&ask, 1, 10);
        CHECK_EQ(waiting()->of[0].deadline_ms, ROWS[i].now_ms + 10);
        set_rows(END);
        mpb_produce_look_again(waiting());
        check_acknowledged(entry, &ask);
    }
    waiting()->now_ms = 1000;
}

int main(void)
{
    play_open();
    test_what_it_watches();
    test_what_moved_before();
    test_verdicts();
    test_which_row_counts();
    test_no_memory();
    test_what_cannot_be_answered();
    test_what_is_not_ours();
    test_whose_clock();
    test_whose_time_is_over();
    play_close();
    printf("produce waits: %lu checks\n", checks_made);
    return 0;
}
