/* SIGKILL after every single instruction of an operation on a partition, and after every instruction of its repair and
 * re-run: whatever happened, the state must end as if nobody had died.
 *
 * test_append_steps [budget [operation]]: instructions to step through per operation and form; a point n instructions
 * in costs n. With an operation's number, only that one.
 * The default takes an even sample; `make long` gives a budget that reaches every instruction of the short ones. */
#include "append_scenarios.h"
#include "stepper.h"

enum { DEFAULT_BUDGET = 25000, SECOND_ROUNDS = 5 };

static struct trial trial;

/* Distance between points so that all of them together step through about `budget` instructions. */
static long stride_for(long steps, long budget)
{
    long points = budget / (steps / 2 + 1);
    return points >= steps ? 1 : steps / (points + 1) + 1;
}

static long count_steps(void)
{
    trial_reset(&trial, &trial.before);
    trial.slot = MPB_SLOT_HANDLERS;
    trial.repair_first = false;
    return run_stepped(trial_process, &trial, 0);
}

/* Victim 1 dies after `first` instructions; victims 2 die all over the repair and re-run; a third process completes. */
static long kill_twice(long first, long stride)
{
    static struct world after_first;
    long points = 0;
    trial_reset(&trial, &trial.before);
    trial.slot = MPB_SLOT_HANDLERS;
    trial.repair_first = false;
    CHECK_EQ(run_stepped(trial_process, &trial, first), 0);
    world_save(&trial.f, &after_first);
    for (long second = 1 + first % stride;; second += stride) {
        trial.slot = MPB_SLOT_HANDLERS + 1;
        trial.repair_first = second % 2 == 0;
        long lived = run_stepped(trial_process, &trial, second);
        trial.slot = MPB_SLOT_HANDLERS + 2;
        trial_complete(&trial);
        world_compare(&trial.f, &trial.want);
        if (lived != 0)
            return points;
        points++;
        /* The kernel has marked the first victim's locks: the next one who asks inherits them, in every copy. */
        trial_reset(&trial, &after_first);
    }
}

static long kill_once(long stride)
{
    long points = 0;
    for (long n = 1 + stride / 3;; n += stride) {
        trial_reset(&trial, &trial.before);
        trial.slot = MPB_SLOT_HANDLERS;
        trial.repair_first = false;
        long lived = run_stepped(trial_process, &trial, n);
        trial.slot = MPB_SLOT_HANDLERS + 1;
        trial.repair_first = n % 2 == 0;
        trial_complete(&trial);
        world_compare(&trial.f, &trial.want);
        if (lived != 0)
            return points;
        points++;
    }
}

int main(int argc, char **argv)
{
    long budget = argc > 1 ? atol(argv[1]) : DEFAULT_BUDGET, total = 0, second_total = 0;
    int only = argc > 2 ? atoi(argv[2]) : -1;
    bind_now(argv);
    if (!STEPPER_WORKS) {
        puts("append steps: NOT RUN, no trap flag here or a sanitizer in the way");
        return 0;
    }
    for (int i = 0; i < SCENARIO_COUNT; i++) {
        if (only >= 0 && only != i)
            continue;
        trial_begin(&trial, &SCENARIOS[i]);
        long steps = count_steps(), second = 0;
        long points = kill_once(stride_for(steps, budget));
        long rounds = budget > 4 * DEFAULT_BUDGET ? SECOND_ROUNDS * 8 : SECOND_ROUNDS;
        for (long round = 1; round <= rounds; round++)
            second += kill_twice(steps * round / (rounds + 1), stride_for(steps, budget / rounds / (budget > 4 * DEFAULT_BUDGET ? 4 : 1)));
        CHECK(points > 0 && second > 0);
        printf("  %-32s %6ld instructions, killed at %6ld, a second time at %6ld\n", SCENARIOS[i].name, steps, points,
               second);
        fflush(stdout);
        total += points;
        second_total += second;
        trial_end(&trial);
    }
    printf("append steps: %ld crash points, %ld second ones, %lu checks\n", total, second_total, checks_made);
    return 0;
}
