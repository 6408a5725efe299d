/* A handler dies between "command QUEUED" and the hint that shows it to the controller; its successor dies, too, at every
 * point of its repair. Whoever runs the request again, and whenever: its command reaches the controller. */
#include "tests/shm/shm_world.h"
#include "tests/stepping/killed_at.h"

/* A repair pokes every handler, which would be told first. */
static int64_t claimed(struct mpb_handler *h)
{
    mpb_store_release(&h->core->doorbells->handler[h->index].poke, 0);
    return mpb_handler_claim(h, false);
}

static void send_and_die(void *of)
{
    struct world *w = of;
    struct mpb_handler d;
    CHECK_EQ(mpb_handler_open(&d, &w->core, 0), 0);
    int64_t entry = claimed(&d);
    CHECK(entry >= 0);
    mpb_command_send(&w->core, d.slot, MPB_SLOT_CONTROLLER, w->core.entries[entry].fill_number * MPB_COMMAND_PARTS,
                     "create", 6);
}

static void repair(void *of)
{
    struct world *w = of;
    struct mpb_handler successor;
    struct mpb_recovery done;
    CHECK_EQ(mpb_handler_open(&successor, &w->core, 0), 0);
    mpb_recover_handler(&successor, &done);
    mpb_handler_close(&successor);
}

static void play(const char *repair_dies_at)
{
    struct world w;
    struct mpb_processor p;
    struct mpb_handler h1;
    world_open(&w, &small_plan);
    world_reset(&w);
    CHECK_EQ(mpb_processor_open(&p, &w.core, 0), 0);
    CHECK_EQ(mpb_handler_open(&h1, &w.core, 1), 0);
    int64_t entry = submit(&p, MPB_PLANE_DATA, 5, 40);
    CHECK(entry >= 0);
    uint64_t operation = w.core.entries[entry].fill_number * MPB_COMMAND_PARTS;
    CHECK(killed_at(&w.core, "command.published", send_and_die, &w));
    CHECK(killed_at(&w.core, repair_dies_at, repair, &w));
    int64_t command = -1;
    if (claimed(&h1) == entry) { /* put back already: another handler is quick */
        command = mpb_command_send(&w.core, h1.slot, MPB_SLOT_CONTROLLER, operation, "create", 6);
        CHECK(command >= 0);
    }
    repair(&w); /* the next successor */
    if (command < 0) {
        CHECK_EQ(claimed(&h1), entry);
        command = mpb_command_send(&w.core, h1.slot, MPB_SLOT_CONTROLLER, operation, "create", 6);
    }
    CHECK_EQ(mpb_command_claim(&w.core, MPB_SLOT_CONTROLLER), command);
    CHECK_EQ(mpb_command_claim(&w.core, MPB_SLOT_CONTROLLER), -1);
    mpb_handler_close(&h1);
    mpb_processor_close(&p);
    world_close(&w);
}

/* Each time a command is freed its generation goes up by one, and at no other step: a hint of an earlier life is stale. */
static void generations_go_up(void)
{
    struct world w;
    world_open(&w, &small_plan);
    world_reset(&w);
    uint32_t slot = MPB_SLOT_HANDLERS, first = mpb_state_generation(mpb_load_relaxed(&w.core.commands[0].state));
    for (uint32_t life = 0; life < 3; life++) {
        uint32_t index = (uint32_t)mpb_command_send(&w.core, slot, MPB_SLOT_CONTROLLER, 0, "create", 6);
        CHECK_EQ(index, 0);
        mpb_atomic64 *state = &w.core.commands[0].state;
        CHECK_EQ(mpb_load_relaxed(state), mpb_state_word(first + life, MPB_E_QUEUED, slot));
        CHECK(!mpb_command_free(&w.core, slot, index));
        CHECK_EQ(mpb_command_claim(&w.core, MPB_SLOT_CONTROLLER), 0);
        CHECK_EQ(mpb_load_relaxed(state), mpb_state_word(first + life, MPB_E_CLAIMED, MPB_SLOT_CONTROLLER));
        CHECK(mpb_command_complete(&w.core, MPB_SLOT_CONTROLLER, index, "done", 4, 7));
        CHECK_EQ(mpb_load_relaxed(state), mpb_state_word(first + life, MPB_E_DONE, MPB_SLOT_CONTROLLER));
        CHECK(!mpb_command_free(&w.core, slot + 1, index) && !mpb_command_free(&w.core, slot, w.core.command_count));
        CHECK(mpb_command_free(&w.core, slot, index));
        CHECK_EQ(mpb_load_relaxed(state), mpb_state_word(first + life + 1, MPB_E_FREE, 0));
        CHECK(!mpb_command_free(&w.core, slot, index));
    }
    world_close(&w);
}

int main(void)
{
    generations_go_up();
    static const char *const points[] = {"recover.handler.scanned", "recover.handler.commands", "recover.requeued",
                                         "recover.requeue_hinted", "recover.handler.put_back"};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        play(points[i]);
    printf("command recovery: %zu deaths of a repair\n", sizeof points / sizeof points[0]);
    return 0;
}
