/* The repair of a dead handler is stopped after its instructions, at a command that the dead one left QUEUED without a
 * hint, while live handlers and the controller work on, or die and are repaired themselves; then it goes on late. The
 * request is run by one handler, its command is executed once, and its answer arrives.
 *
 * LONG=1: after every instruction, else a sample. */
#define _GNU_SOURCE
#include "tests/shm/shm_world.h"
#include "tests/stepping/killed_at.h"
#include "tests/stepping/stepping.h"

static struct world w;
static struct mpb_processor p;
static struct mpb_handler successor, live, second;
static struct frozen frozen;
static int executed;

/* A repair pokes every handler, which would be told first. */
static int64_t claimed(struct mpb_handler *h)
{
    mpb_store_release(&h->core->doorbells->handler[h->index].poke, 0);
    return mpb_handler_claim(h, false);
}

static void recover(struct mpb_handler *h)
{
    struct mpb_recovery done;
    mpb_recover_handler(h, &done);
}

static void repair(void *unused)
{
    (void)unused;
    recover(&successor);
}

static uint64_t operation(void) { return w.core.entries[0].fill_number * MPB_COMMAND_PARTS; }

static void claim_and_send(void *unused)
{
    struct mpb_handler dead;
    (void)unused;
    if (mpb_handler_open(&dead, &w.core, 0) == 0 && claimed(&dead) == 0)
        mpb_command_send(&w.core, dead.slot, MPB_SLOT_CONTROLLER, operation(), "create", 6);
}

static bool runs(struct mpb_handler *h)
{
    int64_t entry = claimed(h);
    if (entry < 0)
        return false;
    CHECK_EQ(entry, 0);
    CHECK(mpb_command_send(&w.core, h->slot, MPB_SLOT_CONTROLLER, operation(), "create", 6) >= 0);
    return true;
}

static void control(void)
{
    for (int64_t command; (command = mpb_command_claim(&w.core, MPB_SLOT_CONTROLLER)) >= 0; executed++)
        CHECK(mpb_command_complete(&w.core, MPB_SLOT_CONTROLLER, (uint32_t)command, "done", 4, 1));
}

/* Everybody else while the repair stands still. Returns who has the request, NULL: it is not put back yet. */
static struct mpb_handler *work_beside(bool dies)
{
    struct mpb_handler *runner = runs(&live) ? &live : NULL;
    if (dies) { /* it, too, with a repair of its own */
        recover(&live);
        runner = runs(&second) ? &second : NULL;
    }
    control();
    return runner;
}

static bool stopped_at(long at, bool dies)
{
    world_reset(&w);
    CHECK_EQ(mpb_processor_open(&p, &w.core, 0), 0);
    CHECK_EQ(submit(&p, MPB_PLANE_DATA, 5, 40), 0);
    executed = 0;
    CHECK(killed_at(&w.core, "command.published", claim_and_send, NULL)); /* stored, and not hinted */
    CHECK_EQ(mpb_handler_open(&successor, &w.core, 0), 0);
    CHECK_EQ(mpb_handler_open(&live, &w.core, 1), 0);
    CHECK_EQ(mpb_handler_open(&second, &w.core, 2), 0);
    freeze_at(&frozen, repair, NULL, at);
    bool ended = frozen.ended;
    struct mpb_handler *runner = work_beside(dies);
    thaw(&frozen);
    if (runner == NULL) {
        runner = &second;
        CHECK(runs(runner));
    }
    control();
    CHECK_EQ(claimed(&live), MPB_CLAIM_NOTHING);
    CHECK_EQ(executed, 1);
    CHECK(mpb_handler_owns(runner, 0, mpb_state_generation(mpb_load_acquire(&w.core.entries[0].state))));
    int64_t answer = mpb_command_answered(&w.core, runner->slot, 0);
    CHECK(answer >= 0 && mpb_command_free(&w.core, runner->slot, (uint32_t)answer));
    for (uint32_t i = 0; i < w.core.command_count; i++)
        CHECK_EQ(mpb_state_of(mpb_load_acquire(&w.core.commands[i].state)), MPB_E_FREE);
    mpb_handler_close(&successor);
    mpb_handler_close(&live);
    mpb_handler_close(&second);
    mpb_processor_close(&p);
    return !ended;
}

int main(void)
{
    long stops = 0, stride = getenv("LONG") != NULL ? 1 : 29;
    if (!STEPPING) {
        puts("command pairs: NOT RUN here");
        return 0;
    }
    stepping_install();
    world_open(&w, &small_plan);
    for (int dies = 0; dies < 2; dies++) {
        trail_forget(&frozen.trail);
        for (long at = 1; stopped_at(at, dies != 0); at += stride)
            stops++;
    }
    CHECK(stops > 20);
    printf("command pairs: a repair stopped at %ld instructions, %lu checks\n", stops, checks_made);
    return 0;
}
