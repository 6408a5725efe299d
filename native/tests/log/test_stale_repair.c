/* A repairer that is stopped after each instruction of its repair, while the request it works for is run again, answered
 * and its entry used by another client: what it writes when it goes on must not land there. A second run asks
 * mpb_intended_row before it begins (append rule 2); without that the new request's cell is lost and its re-run appends
 * twice, or bytes of another client's answer are overwritten. */
#include "tests/log/log_fixture.h"
#include "tests/stepping/stepping.h"
#include "shm/inject.h"
#include "shm/intents.h"

static struct fixture f;
static struct mpb_log repairer;
static struct frozen frozen;

static void repair(void *unused)
{
    (void)unused;
    if (mpb_partition_lock(&repairer, 0) == 0)
        mpb_partition_unlock(&repairer, 0);
}

/* A request with two cells whose handler died with its append to partition 0 committed and nothing more. */
static void a_dead_handler(uint32_t cell, const struct batch_spec *spec)
{
    int status;
    fixture_open(&f);
    fixture_partition(&f, 0);
    fixture_partition(&f, 1);
    fixture_handle(&f, &repairer, MPB_SLOT_HANDLERS + 1);
    fixture_fill(&f, 0, 2);
    f.core.entries[0].cells_offset = 0;
    mpb_inject_arm(&f.core, "append.committed");
    if (fork() == 0) {
        append_batch(&f.log, &FIX_OPTIONS, 0, 0, cell, spec);
        _exit(0);
    }
    wait(&status);
    CHECK(WIFSIGNALED(status));
    mpb_inject_clear(&f.core);
    CHECK_EQ(mpb_partition_lock(&f.log, 1), 0); /* its lock is no part of this */
    mpb_partition_unlock(&f.log, 1);
}

/* Another client's request in the same entry, with a result in its first cell. */
static void used_again(const struct batch_spec *spec)
{
    fixture_fill(&f, 0, 2);
    memset(f.core.arena, 0xaa, sizeof(struct mpb_cell)); /* somebody's answer lies where the old cells were */
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 1, 0, 0, spec).base_offset, 0);
}

static void is_untouched(const struct batch_spec *spec)
{
    struct mpb_append_result again = append_batch(&f.log, &FIX_OPTIONS, 1, 0, 0, spec);
    CHECK(again.replayed && again.error == 0);
    CHECK_EQ(again.base_offset, 0);
    for (size_t i = 0; i < sizeof(struct mpb_cell); i++)
        CHECK_EQ(f.core.arena[i], 0xaa);
}

/* The second run: its answer, once it may give one. False: not yet. */
static bool run_again(uint32_t cell, const struct batch_spec *spec)
{
    if (mpb_intended_row(&f.core, 0) >= 0)
        return false;
    struct mpb_append_result result = append_batch(&f.log, &FIX_OPTIONS, 0, 0, cell, spec);
    CHECK(result.busy || (result.replayed && result.base_offset == 0));
    return true; /* if it is busy, at its timeout */
}

int main(void)
{
    struct batch_spec first = {.records = 1, .producer_id = -1, .timestamp = 6000, .payload = 10, .mark = 1};
    struct batch_spec other = first;
    long waited[2] = {0}, answered[2] = {0};
    long stride = getenv("LONG") != NULL ? 1 : 3;
    other.mark = 9;
    if (!STEPPING) {
        puts("stale repair: NOT RUN here");
        return 0;
    }
    stepping_install();
    for (uint32_t cell = 0; cell < 2; cell++) {
        trail_forget(&frozen.trail);
        for (long at = 1;; at += stride) {
            a_dead_handler(cell, &first);
            freeze_at(&frozen, repair, NULL, at);
            bool ended = frozen.ended;
            if (!ended && run_again(cell, &first)) {
                answered[cell]++;
                used_again(&other);
                thaw(&frozen);
                is_untouched(&other);
            } else if (!ended) {
                waited[cell]++;
                thaw(&frozen);
                CHECK(run_again(cell, &first));
            }
            CHECK_EQ(mpb_partition_in_force(&f.core.partitions[0])->leo, 1);
            mpb_log_close(&repairer);
            fixture_close(&f);
            if (ended)
                break;
        }
    }
    CHECK(waited[0] > 20 && waited[1] > 20 && answered[0] > 5 && answered[1] > 5);
    printf("stale repair: stopped after %ld instructions, %ld times the second run waited\n",
           waited[0] + answered[0] + waited[1] + answered[1], waited[0] + waited[1]);
    return 0;
}
