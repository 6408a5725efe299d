/* Every named crash point of the append and its neighbours, at its first, second, ... passing, in every operation; and
 * every point of the repair after each of them. A point that nothing passes fails the test. */
#include "tests/log/append_scenarios.h"
#include "shm/inject.h"
#include "tests/stepping/stepper.h"

static const char *const POINTS[] = {
    "append.locked",        "append.intent_half",
    "append.intent",        "append.log_written",
    "append.index_written", "append.copy_half",
    "append.committed",     "append.producer_half",
    "append.producer",      "append.cell_half",
    "append.cell",          "append.cleared",
    "append.unlocked",      "roll.log_created",
    "roll.index_created",   "roll.committed",
    "truncate.committed",   "truncate.segment_unlinked",
    "truncate.log_cut",     "truncate.producers_half",
    "retain.committed",     "retain.index_removed",
    "swap.intent",          "swap.committed",
    "swap.retired",         "swap.renamed",
    "swap.finished",        "append.abort_indexed",
    "move.copied",          "move.intent",
    "move.committed",       "move.renamed",
    "move.retired",         "move.finished",
    "append.transaction",   "append.marker_half",
};
static const char *const REPAIR_POINTS[] = {"repair.begin", "repair.log_cut", "repair.middle", "repair.before_clear"};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS, REPAIR_COUNT = sizeof REPAIR_POINTS / sizeof *REPAIR_POINTS };

static struct trial trial;
static long killed_at[POINT_COUNT], killed_in_repair[REPAIR_COUNT];

static bool kill_at(uint32_t slot, const char *point, long nth)
{
    char spec[80];
    snprintf(spec, sizeof spec, "%s:%ld", point, nth);
    mpb_inject_clear(&trial.f.core);
    CHECK_EQ(mpb_inject_arm(&trial.f.core, spec), 0);
    trial.slot = slot;
    bool died = run_unstepped(trial_process, &trial);
    mpb_inject_clear(&trial.f.core);
    return died;
}

static void complete(uint32_t slot)
{
    trial.slot = slot;
    trial_complete(&trial);
    world_compare(&trial.f, &trial.want);
}

static void repair_points(const struct log_world *after_first)
{
    for (int r = 0; r < REPAIR_COUNT; r++)
        for (int first = 0; first <= 1; first++) {
            trial_reset(&trial, after_first);
            trial.repair_first = first == 1;
            killed_in_repair[r] += kill_at(MPB_SLOT_HANDLERS + 1, REPAIR_POINTS[r], 1);
            trial.repair_first = first == 0;
            complete(MPB_SLOT_HANDLERS + 2);
        }
}

int main(void)
{
    static struct log_world after_first;
    long kills = 0, repair_kills = 0;
    if (!KILLS_WORK) {
        puts("append points: NOT RUN under the thread sanitizer");
        return 0;
    }
    for (int i = 0; i < SCENARIO_COUNT; i++) {
        trial_begin(&trial, &SCENARIOS[i]);
        for (int p = 0; p < POINT_COUNT; p++)
            for (long nth = 1;; nth++) {
                trial_reset(&trial, &trial.before);
                trial.repair_first = false;
                bool died = kill_at(MPB_SLOT_HANDLERS, POINTS[p], nth);
                world_save(&trial.f, &after_first);
                trial.repair_first = nth % 2 == 0;
                complete(MPB_SLOT_HANDLERS + 1);
                if (!died)
                    break;
                killed_at[p]++;
                if ((p + i) % SAMPLE == 0)
                    repair_points(&after_first);
            }
        trial_end(&trial);
    }
    for (int p = 0; p < POINT_COUNT; p++) {
        if (killed_at[p] == 0)
            fprintf(stderr, "nothing passes %s\n", POINTS[p]);
        CHECK(killed_at[p] > 0);
        kills += killed_at[p];
    }
    for (int r = 0; r < REPAIR_COUNT; r++) {
        if (killed_in_repair[r] == 0)
            fprintf(stderr, "nothing passes %s\n", REPAIR_POINTS[r]);
        CHECK(killed_in_repair[r] > 0);
        repair_kills += killed_in_repair[r];
    }
    printf("append points: %ld kills, %ld in repairs, %lu checks\n", kills, repair_kills, checks_made);
    return 0;
}
