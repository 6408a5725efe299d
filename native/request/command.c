#include "request/command.h"
#include "shm/counters.h"
#include "shm/doorbell.h"
#include "shm/inject.h"
#include <string.h>

#define MPB_NOBODY_ASKS_AGAIN 0 /* no request's fill number: such a command has no earlier run to adopt */

static bool move(struct mpb_core *core, uint32_t index, uint64_t seen, uint32_t state, uint32_t owner)
{
    uint32_t generation = mpb_state_generation(seen) + (state == MPB_E_FREE);
    return mpb_cas64(&core->commands[index].state, &seen, mpb_state_word(generation, state, owner));
}

/* A command of this operation that an earlier run of the request sent: it is this handler's now. */
static int64_t adopt(struct mpb_core *core, uint32_t slot, uint64_t operation)
{
    for (uint32_t i = 0; i < core->command_count; i++) {
        struct mpb_command *command = &core->commands[i];
        uint32_t state = mpb_state_of(mpb_load_acquire(&command->state));
        if (state == MPB_E_FREE || state == MPB_E_FILL || command->operation != operation)
            continue;
        command->handler_incarnation = mpb_load_acquire(&core->processes[slot].incarnation);
        mpb_store_release(&command->handler_slot, slot);
        mpb_fence_full(); /* either the controller sees the new slot, or we see that it is done */
        if (mpb_state_of(mpb_load_acquire(&command->state)) == MPB_E_DONE)
            atomic_fetch_or(&core->doorbells->handler[mpb_slot_handler(core, slot)].poke, MPB_POKE_COMMAND);
        return i;
    }
    return -1;
}

static bool is_in_flight(const struct mpb_core *core, uint64_t operation)
{
    uint64_t fill_number = operation / MPB_COMMAND_PARTS;
    uint32_t rows = core->header->entries_per_processor;
    for (uint32_t p = 0; p < core->header->processor_count; p++)
        for (uint32_t i = 0; i < rows && i < mpb_load_acquire(&core->doorbells->processor_mark[p].entries_high); i++) {
            struct mpb_entry *entry = &core->entries[p * rows + i];
            if (mpb_state_of(mpb_load_acquire(&entry->state)) != MPB_E_FREE && entry->fill_number == fill_number)
                return true;
        }
    return false;
}

/* Whether somebody will still take this command's answer. */
static bool is_wanted(const struct mpb_core *core, const struct mpb_command *command)
{
    if (command->operation != MPB_NOBODY_ASKS_AGAIN)
        return is_in_flight(core, command->operation);
    uint32_t slot = mpb_load_acquire(&command->handler_slot);
    return mpb_load_acquire(&core->processes[slot].incarnation) == command->handler_incarnation;
}

/* Answers whose request is gone (its handler died and it was closed): frees them. */
static void reap(struct mpb_core *core)
{
    for (uint32_t i = 0; i < core->command_count; i++) {
        uint64_t word = mpb_load_acquire(&core->commands[i].state);
        if (mpb_state_of(word) == MPB_E_DONE && !is_wanted(core, &core->commands[i]))
            move(core, i, word, MPB_E_FREE, 0);
    }
}

static int64_t take_free(struct mpb_core *core, uint32_t slot)
{
    for (uint32_t i = 0; i < core->command_count; i++) {
        uint64_t word = mpb_load_acquire(&core->commands[i].state);
        if (mpb_state_of(word) == MPB_E_FREE && move(core, i, word, MPB_E_FILL, slot))
            return i;
    }
    return -1;
}

int64_t mpb_command_send(struct mpb_core *core, uint32_t slot, uint32_t target, uint64_t operation, const void *bytes,
                         uint32_t length)
{
    if (length > MPB_COMMAND_REQUEST)
        return MPB_COMMAND_TOO_LONG;
    int64_t index = operation == MPB_NOBODY_ASKS_AGAIN ? -1 : adopt(core, slot, operation);
    if (index >= 0)
        return index;
    index = take_free(core, slot);
    if (index < 0) {
        reap(core);
        index = take_free(core, slot);
    }
    if (index < 0) {
        mpb_count(core, slot, MPB_C_COMMANDS_FULL, 1);
        return MPB_COMMAND_FULL;
    }
    struct mpb_command *command = &core->commands[index];
    MPB_CRASH(core, "command.fill");
    command->operation = operation;
    mpb_store_relaxed(&command->handler_slot, slot);
    command->handler_incarnation = mpb_load_acquire(&core->processes[slot].incarnation);
    command->request_length = length;
    command->answer_length = 0;
    memcpy(command->request, bytes, length);
    uint64_t word = mpb_load_acquire(&command->state);
    mpb_store_release(&command->state, mpb_state_word(mpb_state_generation(word), MPB_E_QUEUED, slot));
    MPB_CRASH(core, "command.published");
    struct mpb_ring ring = mpb_ring_view(core, mpb_command_ring(target));
    mpb_ring_push_sure(&ring, mpb_hint((uint32_t)index, mpb_state_generation(word)));
    mpb_count(core, slot, MPB_C_COMMANDS_SENT, 1);
    mpb_ring_service(core, target);
    return index;
}

int64_t mpb_command_answered(struct mpb_core *core, uint32_t slot, uint32_t from)
{
    uint32_t incarnation = mpb_load_acquire(&core->processes[slot].incarnation);
    for (uint32_t i = from; i < core->command_count; i++) {
        struct mpb_command *command = &core->commands[i];
        if (mpb_state_of(mpb_load_acquire(&command->state)) == MPB_E_DONE &&
            mpb_load_acquire(&command->handler_slot) == slot && command->handler_incarnation == incarnation)
            return i;
    }
    return -1;
}

bool mpb_command_free(struct mpb_core *core, uint32_t slot, uint32_t index)
{
    if (index >= core->command_count || mpb_load_acquire(&core->commands[index].handler_slot) != slot)
        return false;
    uint64_t word = mpb_load_acquire(&core->commands[index].state);
    return mpb_state_of(word) == MPB_E_DONE && move(core, index, word, MPB_E_FREE, 0);
}

int64_t mpb_command_claim(struct mpb_core *core, uint32_t self)
{
    struct mpb_ring ring = mpb_ring_view(core, mpb_command_ring(self));
    int64_t index = mpb_ring_take(&ring, MPB_STATE_BIT(MPB_E_QUEUED) | MPB_STATE_BIT(MPB_E_REQUEUED), MPB_E_CLAIMED,
                                  self);
    MPB_CRASH(core, "command.claimed");
    return index;
}

bool mpb_command_complete(struct mpb_core *core, uint32_t self, uint32_t index, const void *bytes, uint32_t length,
                          uint64_t generation_after)
{
    if (index >= core->command_count || length > MPB_COMMAND_ANSWER)
        return false;
    struct mpb_command *command = &core->commands[index];
    uint64_t word = mpb_load_acquire(&command->state);
    if (mpb_state_of(word) != MPB_E_CLAIMED || mpb_state_owner(word) != self)
        return false;
    memcpy(command->answer, bytes, length);
    command->answer_length = length;
    command->generation_after = generation_after;
    mpb_store_release(&command->state, mpb_state_word(mpb_state_generation(word), MPB_E_DONE, self));
    MPB_CRASH(core, "command.done");
    mpb_count(core, self, MPB_C_COMMANDS_DONE, 1);
    mpb_fence_full();
    uint32_t slot = mpb_load_acquire(&command->handler_slot);
    mpb_poke_handler(core, mpb_slot_handler(core, slot), MPB_POKE_COMMAND, self);
    return true;
}

void mpb_commands_recover_handler(struct mpb_core *core, uint32_t slot)
{
    uint64_t present[MPB_MAX_COMMANDS / 64 + 1] = {0};
    struct mpb_ring ring = mpb_ring_view(core, MPB_RING_CONTROLLER);
    struct mpb_ring other = mpb_ring_view(core, MPB_RING_CLUSTER_CONTROLLER);
    mpb_ring_scan(&ring, present);
    mpb_ring_scan(&other, present);
    for (uint32_t i = 0; i < core->command_count && i < MPB_MAX_COMMANDS; i++) {
        uint64_t word = mpb_load_acquire(&core->commands[i].state);
        uint32_t state = mpb_state_of(word);
        bool unseen = state == MPB_E_FILL || (state == MPB_E_QUEUED && !(present[i / 64] >> i % 64 & 1));
        if (mpb_state_owner(word) == slot && unseen)
            move(core, i, word, MPB_E_FREE, 0);
    }
}
