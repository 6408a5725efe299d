/* The table of commands, row by row: what a sent one holds, whose it becomes when its request is run again, which answers
 * nobody waits for any more, who may complete and free it, and what a handler's successor takes back. */
#include "shm/counters.h"
#include "tests/shm/shm_world.h"

enum { COMMANDS = 130, ROWS = 129, HANDLER = MPB_SLOT_HANDLERS + 1, OTHER = MPB_SLOT_HANDLERS + 2 };
enum { SELF = MPB_SLOT_CONTROLLER, CLUSTER = MPB_SLOT_CLUSTER_CONTROLLER };

static struct world w;

/* The table ends one row before the memory does: what lies behind it is nobody's. */
static void fresh(uint32_t rows)
{
    world_reset(&w);
    w.core.command_count = COMMANDS;
    for (uint32_t i = 0; i < COMMANDS; i++)
        memset((void *)&w.core.commands[i], 0, 64);
    struct mpb_ring_ctl *unused = &w.core.rings[MPB_RING_DATA + 6],
                        *cluster = &w.core.rings[MPB_RING_CLUSTER_CONTROLLER];
    cluster->capacity = unused->capacity;
    cluster->slots_first = unused->slots_first;
    unused->capacity = 0;
    for (uint32_t slot = 0; slot < MPB_MAX_SLOTS; slot++)
        mpb_store_relaxed(&w.core.processes[slot].incarnation, 10 + slot);
    w.core.header->processor_count = 2;
    w.core.command_count = rows;
}

static uint64_t counted(uint32_t slot, uint32_t counter)
{
    return mpb_load_relaxed(&w.core.counters[slot].value[counter]);
}

static void put(uint32_t i, uint32_t state, uint32_t owner, uint64_t operation, uint32_t handler_slot)
{
    struct mpb_command *command = &w.core.commands[i];
    mpb_store_relaxed(&command->state, mpb_state_word(5 + i, state, owner));
    command->operation = operation;
    mpb_store_relaxed(&command->handler_slot, handler_slot);
    command->handler_incarnation = 10 + handler_slot;
}

static void check_state(uint32_t i, uint32_t generation, uint32_t state, uint32_t owner)
{
    CHECK_EQ(mpb_load_relaxed(&w.core.commands[i].state), mpb_state_word(generation, state, owner));
}

/* ------------------------------------------------------------------ sending */
static void test_what_a_sent_one_holds(void)
{
    static uint8_t bytes[MPB_COMMAND_REQUEST + 1];
    static const uint32_t LENGTHS[] = {0, 1, 6, MPB_COMMAND_REQUEST - 1, MPB_COMMAND_REQUEST};
    memset(bytes, 0x33, sizeof bytes);
    fresh(ROWS);
    for (uint32_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        struct mpb_command *command = &w.core.commands[i];
        uint32_t target = i % 2 ? CLUSTER : SELF;
        uint64_t sent = counted(HANDLER, MPB_C_COMMANDS_SENT);
        command->answer_length = 99;
        memset(command->request, 0x44, sizeof command->request);
        mpb_store_relaxed(&w.core.doorbells->service_word[target], 0);
        CHECK_EQ(mpb_command_send(&w.core, HANDLER, target, 1000 + i, bytes, LENGTHS[i]), i);
        check_state(i, 0, MPB_E_QUEUED, HANDLER);
        CHECK(command->operation == 1000 + i && command->request_length == LENGTHS[i] && command->answer_length == 0);
        CHECK_EQ(mpb_load_relaxed(&command->handler_slot), HANDLER);
        CHECK_EQ(command->handler_incarnation, 10 + HANDLER);
        for (uint32_t at = 0; at < MPB_COMMAND_REQUEST; at += at + 997 < LENGTHS[i] ? 997 : 1)
            CHECK_EQ(command->request[at], at < LENGTHS[i] ? 0x33 : 0x44);
        CHECK_EQ(counted(HANDLER, MPB_C_COMMANDS_SENT), sent + 1);
        CHECK_EQ(mpb_load_relaxed(&w.core.doorbells->service_word[target]), 2);
        CHECK_EQ(mpb_command_claim(&w.core, target == SELF ? CLUSTER : SELF), -1);
        CHECK_EQ(mpb_command_claim(&w.core, target), i);
        check_state(i, 0, MPB_E_CLAIMED, target);
    }
    uint64_t sent = counted(HANDLER, MPB_C_COMMANDS_SENT);
    CHECK_EQ(mpb_command_send(&w.core, HANDLER, SELF, 1, bytes, sizeof bytes), MPB_COMMAND_TOO_LONG);
    CHECK_EQ(counted(HANDLER, MPB_C_COMMANDS_SENT), sent);
    check_state(5, 0, MPB_E_FREE, 0);
}

/* Whoever runs a request again finds what its earlier run sent, whatever has become of it; but not what was never sent, nor
 * another operation's, nor a row behind the table. A command of no request is nobody's. */
static void test_whose_it_becomes(void)
{
    static const uint32_t AT[] = {0, 1, ROWS - 1, ROWS};
    static const uint32_t SLOTS[] = {OTHER, MPB_SLOT_COORDINATOR};
    for (uint32_t state = MPB_E_FREE; state <= MPB_E_DONE; state++)
        for (size_t a = 0; a < sizeof AT / sizeof *AT; a++)
            for (int asked = 0; asked < 4; asked++) { /* the same, by another handler; another one; none */
                uint32_t i = AT[a], slot = SLOTS[asked & 1], handler = mpb_slot_handler(&w.core, slot);
                uint64_t operation = asked < 2 ? 777 : asked == 2 ? 778 : 0;
                fresh(ROWS);
                put(i, state, HANDLER, asked == 3 ? 0 : 777, HANDLER);
                uint64_t sent = counted(slot, MPB_C_COMMANDS_SENT);
                bool found = i < ROWS && asked < 2 && state != MPB_E_FREE && state != MPB_E_FILL;
                int64_t got = mpb_command_send(&w.core, slot, SELF, operation, "x", 1);
                uint32_t first_free = i == 0 && state != MPB_E_FREE ? 1 : 0;
                CHECK_EQ(got, found ? i : first_free);
                CHECK_EQ(counted(slot, MPB_C_COMMANDS_SENT), sent + !found);
                uint64_t poke = mpb_load_relaxed(&w.core.doorbells->handler[handler].poke);
                CHECK_EQ(poke, found && state == MPB_E_DONE ? MPB_POKE_COMMAND : 0);
                const struct mpb_command *command = &w.core.commands[i];
                if (got != i) {
                    CHECK_EQ(mpb_load_relaxed(&command->handler_slot), HANDLER);
                    CHECK_EQ(mpb_load_relaxed(&command->state), mpb_state_word(5 + i, state, HANDLER));
                } else {
                    CHECK_EQ(mpb_load_relaxed(&command->handler_slot), slot);
                    CHECK_EQ(command->handler_incarnation, 10 + slot);
                }
            }
}

/* ------------------------------------------------------------------ a full table */
static void entry_at(uint32_t i, uint32_t state, uint64_t fill_number)
{
    mpb_store_relaxed(&w.core.entries[i].state, mpb_state_word(1, state, MPB_SLOT_PROCESSORS));
    w.core.entries[i].fill_number = fill_number;
}

static void marks(uint32_t first, uint32_t second)
{
    mpb_store_relaxed(&w.core.doorbells->processor_mark[0].entries_high, first);
    mpb_store_relaxed(&w.core.doorbells->processor_mark[1].entries_high, second);
}

/* Room is made of answers that nobody waits for: their request is not in flight any more, or, for no request, their handler
 * is another process now. */
static void test_which_answers_are_wanted(void)
{
    enum { FILL = 12 };
    static const struct {
        uint32_t entry, state, first_high, second_high,
            processors; /* where the request is; which rows were ever used */
        uint64_t fill_number;
        bool wanted;
    } TABLE[] = {
        {0, MPB_E_CLAIMED, 1, 0, 2, FILL, true},   {0, MPB_E_CLAIMED, 0, 6, 2, FILL, false},
        {0, MPB_E_FREE, 1, 0, 2, FILL, false},     {0, MPB_E_CLAIMED, 1, 0, 2, FILL + 1, false},
        {5, MPB_E_QUEUED, 6, 0, 2, FILL, true},    {5, MPB_E_QUEUED, 5, 6, 2, FILL, false},
        {2, MPB_E_REQUEUED, 2, 6, 2, FILL, false}, {2, MPB_E_REQUEUED, 3, 0, 2, FILL, true},
        {6, MPB_E_DONE, 0, 1, 2, FILL, true},      {6, MPB_E_DONE, 7, 0, 2, FILL, false}, /* the second one's */
        {11, MPB_E_SENDING, 6, 6, 2, FILL, true},  {11, MPB_E_SENDING, 0, 5, 2, FILL, false},
        {6, MPB_E_CLAIMED, 6, 6, 1, FILL, false}, /* of a processor that there is not */
        {10, MPB_E_HANDED, 0, 5, 2, FILL, true},
    };
    for (size_t t = 0; t < sizeof TABLE / sizeof *TABLE; t++)
        for (int part = 0; part < 2; part++) {
            fresh(3);
            marks(TABLE[t].first_high, TABLE[t].second_high);
            w.core.header->processor_count = TABLE[t].processors;
            entry_at(TABLE[t].entry, TABLE[t].state, TABLE[t].fill_number);
            for (uint32_t i = 0; i < 3; i++)
                put(i, MPB_E_CLAIMED, SELF, 9, HANDLER);
            put(3, MPB_E_DONE, SELF, 8, HANDLER); /* behind the table */
            put(1, MPB_E_DONE, SELF, FILL * MPB_COMMAND_PARTS + (part ? MPB_COMMAND_PARTS - 1 : 0), HANDLER);
            uint64_t full = counted(OTHER, MPB_C_COMMANDS_FULL);
            int64_t got = mpb_command_send(&w.core, OTHER, SELF, 5, "x", 1);
            CHECK_EQ(got, TABLE[t].wanted ? MPB_COMMAND_FULL : 1);
            CHECK_EQ(counted(OTHER, MPB_C_COMMANDS_FULL), full + TABLE[t].wanted);
            check_state(3, 8, MPB_E_DONE, SELF);
            if (TABLE[t].wanted)
                check_state(1, 6, MPB_E_DONE, SELF);
            else
                check_state(1, 7, MPB_E_QUEUED, OTHER); /* a life later */
        }
    for (int same = 0; same < 2; same++) { /* of no request */
        fresh(3);
        for (uint32_t i = 0; i < 3; i++)
            put(i, MPB_E_DONE, SELF, 0, HANDLER + i % 2);
        w.core.commands[0].handler_incarnation += !same;
        w.core.commands[2].handler_incarnation += !same;
        CHECK_EQ(mpb_command_send(&w.core, OTHER, SELF, 5, "x", 1), same ? MPB_COMMAND_FULL : 0);
        check_state(1, 6, MPB_E_DONE, SELF);
        check_state(2, same ? 7 : 8, same ? MPB_E_DONE : MPB_E_FREE, same ? SELF : 0);
    }
    for (uint32_t state = MPB_E_FILL; state <= MPB_E_REQUEUED;
         state++) { /* and what is not answered stays, wanted or not */
        fresh(1);
        put(0, state, OTHER, 99, HANDLER);
        CHECK_EQ(mpb_command_send(&w.core, HANDLER, SELF, 5, "x", 1), MPB_COMMAND_FULL);
        check_state(0, 5, state, OTHER);
        check_state(1, 0, MPB_E_FREE, 0);
        w.core.command_count = 2;
        CHECK_EQ(mpb_command_send(&w.core, HANDLER, SELF, 5, "x", 1), 1);
        check_state(0, 5, state, OTHER);
        check_state(1, 0, MPB_E_QUEUED, HANDLER);
    }
}

/* ------------------------------------------------------------------ answers */
static void test_who_completes(void)
{
    static uint8_t bytes[MPB_COMMAND_ANSWER + 1];
    static const struct {
        uint32_t row, state, owner, length;
        bool done;
    } TABLE[] = {{0, MPB_E_CLAIMED, SELF, 4, true},
                 {2, MPB_E_CLAIMED, SELF, MPB_COMMAND_ANSWER, true},
                 {2, MPB_E_CLAIMED, SELF, MPB_COMMAND_ANSWER + 1, false},
                 {3, MPB_E_CLAIMED, SELF, 4, false}, /* behind the table */
                 {4, MPB_E_CLAIMED, SELF, 4, false},
                 {0, MPB_E_CLAIMED, CLUSTER, 4, false},
                 {0, MPB_E_QUEUED, SELF, 4, false},
                 {0, MPB_E_DONE, SELF, 4, false}};
    static const uint32_t SLOTS[] = {HANDLER, MPB_SLOT_COORDINATOR};
    memset(bytes, 0x66, sizeof bytes);
    for (size_t t = 0; t < sizeof TABLE / sizeof *TABLE; t++)
        for (int s = 0; s < 2; s++) {
            uint32_t handler = mpb_slot_handler(&w.core, SLOTS[s]), row = TABLE[t].row;
            fresh(3);
            put(row, TABLE[t].state, TABLE[t].owner, 9, SLOTS[s]);
            struct mpb_command *command = &w.core.commands[row];
            command->answer_length = 77;
            command->generation_after = 1;
            memset(command->answer, 0x11, 100);
            mpb_handler_announce(&w.core, handler);
            uint64_t before = counted(SELF, MPB_C_COMMANDS_DONE);
            CHECK_EQ(mpb_command_complete(&w.core, SELF, row, bytes, TABLE[t].length, 44), TABLE[t].done);
            check_state(row, 5 + row, TABLE[t].done ? MPB_E_DONE : TABLE[t].state,
                        TABLE[t].done ? SELF : TABLE[t].owner);
            CHECK_EQ(command->answer_length, TABLE[t].done ? TABLE[t].length : 77);
            CHECK_EQ(command->generation_after, TABLE[t].done ? 44 : 1);
            CHECK_EQ(command->answer[3], TABLE[t].done ? 0x66 : 0x11);
            CHECK_EQ(command->answer[4], TABLE[t].done && TABLE[t].length > 4 ? 0x66 : 0x11);
            CHECK_EQ(counted(SELF, MPB_C_COMMANDS_DONE), before + TABLE[t].done);
            uint64_t poke = mpb_load_relaxed(&w.core.doorbells->handler[handler].poke);
            CHECK_EQ(poke, TABLE[t].done ? MPB_POKE_COMMAND : 0);
            CHECK_EQ(atomic_load(&w.core.doorbells->sleepers), TABLE[t].done ? 0 : 1ull << handler);
        }
}

static void test_whose_answers_are_found(void)
{
    fresh(5);
    for (uint32_t i = 0; i < 6; i++)
        put(i, MPB_E_DONE, SELF, 9, HANDLER);
    put(1, MPB_E_CLAIMED, SELF, 9, HANDLER);
    put(2, MPB_E_DONE, SELF, 9, OTHER);
    w.core.commands[3]
        .handler_incarnation++; /* asked by another process of that slot: not found, but it may be freed */
    static const int64_t FOUND[] = {0, 4, 4, 4, 4, -1, -1};
    for (uint32_t from = 0; from < sizeof FOUND / sizeof *FOUND; from++)
        CHECK_EQ(mpb_command_answered(&w.core, HANDLER, from), FOUND[from]);
    CHECK_EQ(mpb_command_answered(&w.core, OTHER, 0), 2);
    CHECK_EQ(mpb_command_answered(&w.core, OTHER + 1, 0), -1);
    static const bool FREED[] = {true, false, false, true, true, false, false};
    for (uint32_t i = 0; i < sizeof FREED / sizeof *FREED; i++)
        CHECK_EQ(mpb_command_free(&w.core, HANDLER, i), FREED[i]);
    check_state(5, 10, MPB_E_DONE, SELF);
    check_state(0, 6, MPB_E_FREE, 0);
    check_state(1, 6, MPB_E_CLAIMED, SELF);
}

/* ------------------------------------------------------------------ a successor */
/* What the dead handler was still filling, or had queued and not hinted to either controller, is free again; all else stays. */
static void test_what_a_successor_takes_back(void)
{
    uint64_t seed = 20261127;
    for (int round = 0; round < 50; round++) {
        uint64_t before[COMMANDS];
        bool freed[COMMANDS] = {false};
        uint32_t hints[2] = {0};
        fresh(ROWS);
        for (uint32_t i = 0; i < COMMANDS; i++) {
            uint64_t random = next_random(&seed);
            uint32_t state = random % 4 == 0 ? MPB_E_FILL : random % 4 < 3 ? MPB_E_QUEUED : random >> 8 & 7;
            bool is_mine = (random >> 16 & 3) != 0, is_hinted = random >> 20 & 1, to_cluster = random >> 24 & 1;
            put(i, state, is_mine ? HANDLER : OTHER, 9, HANDLER);
            before[i] = mpb_load_relaxed(&w.core.commands[i].state);
            is_hinted &= i < ROWS && hints[to_cluster] < 30;
            if (is_hinted) {
                struct mpb_ring ring = mpb_ring_view(&w.core, mpb_command_ring(to_cluster ? CLUSTER : SELF));
                CHECK_EQ(mpb_ring_push(&ring, mpb_hint(i, 5 + i)), 0);
                hints[to_cluster]++;
            }
            freed[i] = i < ROWS && is_mine && (state == MPB_E_FILL || (state == MPB_E_QUEUED && !is_hinted));
        }
        mpb_commands_recover_handler(&w.core, HANDLER);
        for (uint32_t i = 0; i < COMMANDS; i++) {
            uint64_t now = mpb_load_relaxed(&w.core.commands[i].state);
            CHECK_EQ(now, freed[i] ? mpb_state_word(5 + i + 1, MPB_E_FREE, 0) : before[i]);
        }
    }
}

int main(void)
{
    static const struct world_plan plan = {2, 4, 0, 6, 40, 2, COMMANDS, 64 << 10, 256 << 10};
    world_open(&w, &plan);
    test_what_a_sent_one_holds();
    test_whose_it_becomes();
    test_which_answers_are_wanted();
    test_who_completes();
    test_whose_answers_are_found();
    test_what_a_successor_takes_back();
    w.core.command_count = COMMANDS;
    world_close(&w);
    printf("command values: %lu checks\n", checks_made);
    return 0;
}
