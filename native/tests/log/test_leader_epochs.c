/* The epochs of a partition against a plain list: those that begin, are cut off by a truncation, are found again and are
 * forgotten once they are written down; what a start loads of them; and what becomes of them with a new role. */
#include "tests/log/append_scenarios.h"

#include "log/leader_epochs.h"
#include "log/start_at.h"

enum { MOST = 4000 };

static struct fixture f;
static struct mpb_epoch_start all[MOST];
static bool is_written[MOST];
static uint32_t low; /* of the list, what is not forgotten */
static uint32_t refusals;
static struct mpb_partition_copy copy;
static uint64_t dice;

static uint32_t roll_dice(uint32_t sides) { return random_below(&dice, sides); }

static const struct mpb_partition *row(void) { return &f.core.partitions[0]; }
static const struct mpb_partition_copy *now(void) { return mpb_partition_in_force(row()); }

static int32_t latest(void) { return copy.epochs > low ? all[copy.epochs - 1].epoch : MPB_UNDEFINED_EPOCH; }

/* An epoch without records, which begins where its successor does, is none. */
static uint32_t kept(struct mpb_epoch_start out[MPB_KEPT_EPOCHS])
{
    uint32_t count = 0;
    for (uint32_t i = low; i < copy.epochs; i++) {
        bool has_records = true;
        for (uint32_t later = i + 1; later < copy.epochs; later++)
            has_records &= all[later].offset > all[i].offset;
        if (has_records)
            out[count++] = all[i];
    }
    return count;
}

/* Where an epoch ended, as Kafka has it: the last one known that is not later, and the first offset of the next. */
static void ends_are_right(const struct mpb_epoch_start *known, uint32_t count, bool has_older)
{
    const int32_t last = count == 0 ? 3 : known[count - 1].epoch;
    for (int32_t asked = last > 90 ? last - 90 : -2; asked <= last + 2; asked++) {
        struct mpb_epoch_end want = {MPB_UNDEFINED_EPOCH, -1}, end = {77, 77};
        bool told = count > 0 || !has_older;
        if (count > 0 && asked == last)
            want = (struct mpb_epoch_end){asked, copy.leo};
        else if (count > 0 && asked >= 0 && asked < last) {
            uint32_t next = 0;
            for (; known[next].epoch <= asked; next++)
                ;
            told = next > 0 || !has_older;
            if (told)
                want = (struct mpb_epoch_end){next > 0 ? known[next - 1].epoch : asked, known[next].offset};
        }
        CHECK_EQ(mpb_epochs_end_of(&f.core, row(), &copy, asked, &end), told);
        CHECK(!told || (end.epoch == want.epoch && end.offset == want.offset));
    }
}

static void all_is_right(void)
{
    struct mpb_epoch_start want[MPB_KEPT_EPOCHS], got[MPB_KEPT_EPOCHS];
    bool has_older;
    uint32_t count = kept(want);
    CHECK_EQ(mpb_epochs_read(&f.core, row(), &copy, got, &has_older), count);
    for (uint32_t i = 0; i < count; i++)
        CHECK(got[i].epoch == want[i].epoch && got[i].offset == want[i].offset);
    CHECK_EQ(has_older, (low < copy.epochs ? low : copy.epochs) > 0);
    CHECK_EQ(mpb_epochs_latest(&f.core, row(), &copy), latest());
    ends_are_right(want, count, has_older);
}

/* The oldest makes room for one more, if that one is written down or has no record. */
static void begin_one(void)
{
    int32_t epoch = latest() - 2 + (int32_t)roll_dice(6);
    bool is_new = epoch >= 0 && epoch > latest();
    bool fits = copy.epochs < low + MPB_KEPT_EPOCHS || is_written[low] || all[low].offset == all[low + 1].offset;
    CHECK_EQ(mpb_epochs_begin(&f.core, row(), &copy, epoch, copy.leo), fits || !is_new);
    refusals += is_new && !fits;
    if (is_new && fits) {
        low = copy.epochs > low + MPB_KEPT_EPOCHS ? copy.epochs - MPB_KEPT_EPOCHS : low;
        all[copy.epochs - 1] = (struct mpb_epoch_start){.offset = copy.leo, .epoch = epoch};
        is_written[copy.epochs - 1] = false;
    }
}

/* As the log keeper: it looks, writes its file, and says so when others have gone on. */
static struct mpb_epoch_start noted[MPB_KEPT_EPOCHS];
static uint32_t in_file;

static void look(void)
{
    bool has_older;
    in_file = mpb_epochs_read(&f.core, row(), &copy, noted, &has_older);
}

static void say_written(void)
{
    mpb_partition_write_idle(&f.core, &f.core.partitions[0], &copy);
    mpb_partition_commit(&f.core.partitions[0]);
    mpb_epochs_written(&f.core, row(), noted, in_file);
    for (uint32_t i = low; i < copy.epochs; i++)
        for (uint32_t k = 0; k < in_file; k++)
            is_written[i] |= noted[k].epoch == all[i].epoch && noted[k].offset == all[i].offset;
}

static void against_a_list(void)
{
    fixture_open(&f);
    fixture_replicate(&f);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        dice = seed;
        low = in_file = 0;
        copy = (struct mpb_partition_copy){0};
        mpb_replicas_forget(&f.core, row());
        struct mpb_replicas *replicas = mpb_replicas_of(&f.core, row());
        CHECK(replicas == &f.core.replicas[0] && replicas->ids[0][0] == -1 &&
              replicas->ids[1][MPB_MAX_REPLICAS - 1] == -1);
        for (int step = 0; step < 600; step++) {
            uint32_t choice = roll_dice(40), before = copy.epochs;
            if (choice < 26)
                begin_one();
            else if (choice < 36)
                copy.leo += roll_dice(4);
            else if (choice < 39) { /* what is written down may be forgotten; the odd ones' keeper is slow */
                if (roll_dice(2) == 0 && (seed % 2 == 0 || roll_dice(8) == 0))
                    look();
                else
                    say_written();
            } else if (before > 0) {
                uint32_t at = before - 1 - roll_dice(before < 6 ? before : 6);
                int64_t offset = all[at].offset + (int64_t)roll_dice(3) - 1;
                while (before > low && all[before - 1].offset >= offset)
                    before--;
                mpb_epochs_cut(&f.core, row(), &copy, offset);
                CHECK_EQ(copy.epochs, before);
                copy.leo = offset > 0 && offset < copy.leo ? offset : copy.leo;
            }
            all_is_right();
        }
        CHECK(low > 0);
    }
    CHECK(refusals > 0);
    fixture_close(&f);
}

/* A broker alone keeps none, and nobody asks it. */
static void alone(void)
{
    struct mpb_epoch_start out[MPB_KEPT_EPOCHS];
    struct mpb_epoch_end end = {77, 77};
    bool has_older = true;
    fixture_open(&f);
    copy = (struct mpb_partition_copy){.epochs = 2};
    CHECK(mpb_replicas_of(&f.core, row()) == NULL);
    CHECK(mpb_epochs_begin(&f.core, row(), &copy, 4, 9) && copy.epochs == 2);
    mpb_epochs_cut(&f.core, row(), &copy, 0);
    CHECK(copy.epochs == 2 && mpb_epochs_latest(&f.core, row(), &copy) == MPB_UNDEFINED_EPOCH);
    CHECK(mpb_epochs_read(&f.core, row(), &copy, out, &has_older) == 0 && !has_older);
    CHECK(!mpb_epochs_end_of(&f.core, row(), &copy, 1, &end) && end.epoch == MPB_UNDEFINED_EPOCH && end.offset == -1);
    CHECK_EQ(mpb_load_epochs(&f.log, 0, out, 0), MPB_ERR_INVALID_REQUEST);
    fixture_close(&f);
}

/* Of the file's epochs the last ones; the partition is nobody's, whatever it was. */
static void loaded(void)
{
    static const uint32_t COUNTS[] = {0, 1, MPB_KEPT_EPOCHS - 1, MPB_KEPT_EPOCHS, MPB_KEPT_EPOCHS + 1, 40};
    struct mpb_epoch_start file[40], want[MPB_KEPT_EPOCHS], got[MPB_KEPT_EPOCHS];
    for (int32_t i = 0; i < 40; i++)
        file[i] = (struct mpb_epoch_start){.offset = 10 * i, .epoch = 2 * i, .is_written = 1};
    for (size_t n = 0; n < sizeof COUNTS / sizeof *COUNTS; n++) {
        const uint32_t count = COUNTS[n], least = count > MPB_KEPT_EPOCHS ? count - MPB_KEPT_EPOCHS : 0;
        bool has_older;
        fixture_open(&f);
        fixture_replicate(&f);
        fixture_partition(&f, 0);
        CHECK(now()->role == MPB_ROLE_LEADER && now()->isr != 0 && f.core.replicas[0].ids[now()->ids_at & 1][0] != -1);
        mpb_store_relaxed(&f.core.replicas[0].place[1].tag, 5);
        CHECK_EQ(mpb_load_epochs(&f.log, 0, file, count), 0);
        CHECK_EQ(mpb_partition_lock(&f.log, 0), 0); /* it is free */
        mpb_partition_unlock(&f.log, 0);
        CHECK(now()->role == MPB_ROLE_NONE && now()->leader == -1 && now()->isr == 0 && now()->maximal_isr == 0);
        CHECK(f.core.replicas[0].ids[0][0] == -1 && f.core.replicas[0].ids[1][0] == -1);
        CHECK_EQ(mpb_load_relaxed(&f.core.replicas[0].place[1].tag), 0);
        for (uint32_t i = least; i < count; i++)
            CHECK_EQ(f.core.replicas[0].epoch[i % MPB_KEPT_EPOCHS].is_written, 1);
        CHECK_EQ(mpb_load_relaxed(&f.core.replicas[0].epochs_low), least);
        CHECK_EQ(now()->epochs, count);
        memcpy(all, file, sizeof file);
        copy = *now();
        low = least;
        uint32_t kept_count = kept(want);
        CHECK_EQ(mpb_epochs_read(&f.core, row(), now(), got, &has_older), kept_count);
        CHECK(kept_count == count - least && has_older == (least > 0));
        CHECK(memcmp(got, want, kept_count * sizeof *got) == 0);
        all_is_right();
        fixture_close(&f);
    }
    fixture_open(&f);
    fixture_replicate(&f);
    CHECK_EQ(mpb_load_epochs(&f.log, 0, file, 1), MPB_ERR_UNKNOWN_TOPIC_OR_PARTITION); /* nobody made it yet */
    CHECK_EQ(f.core.partitions[0].copy[0].epochs | f.core.partitions[0].copy[1].epochs, 0);
    fixture_close(&f);
}

/* A leader begins its epoch at its log's end; as the only one in sync it waits for nobody. */
static void roles(void)
{
    struct mpb_new_role role = fixture_role(MPB_ROLE_FOLLOWER, 4, 0);
    struct batch_spec spec = numbered(-1, 0, 40);
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).end_offset, 2);
    CHECK_EQ(mpb_partition_set_high_watermark(&f.log, 0, 1), 0);
    CHECK(now()->epoch_start == 0 && now()->leader_since == 3);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->role == MPB_ROLE_FOLLOWER && now()->leader == FIX_OTHER && now()->self == 1 && now()->isr == 0);
    CHECK(now()->epoch_start == 0 && now()->hw == 1 && now()->leader_since == 3);
    CHECK_EQ(mpb_epochs_latest(&f.core, row(), now()), 3); /* a follower's come with its leader's batches */
    role = fixture_role(MPB_ROLE_LEADER, 6, 2);
    role.partition_epoch = 11;
    role.now_ms = 8000;
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->epoch_start == 2 && now()->leader_since == 6 && now()->hw == 1 && now()->partition_epoch == 11);
    CHECK(now()->leader == FIX_SELF && now()->isr == 3 && now()->maximal_isr == 3);
    CHECK_EQ(f.core.replicas[0].led_since_ms, 8000);
    CHECK_EQ(mpb_epochs_latest(&f.core, row(), now()), 6);
    role.isr[0] = FIX_THIRD, role.isr_count = 1; /* the same epoch once more: nothing of it is taken but the least */
    role.min_isr = 2, role.partition_epoch = 12, role.now_ms = 9000;
    CHECK_EQ(now()->min_isr, 1);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->isr == 3 && now()->hw == 1 && now()->min_isr == 2 && now()->partition_epoch == 11);
    CHECK_EQ(f.core.replicas[0].led_since_ms, 8000);
    role = fixture_role(MPB_ROLE_LEADER, 7, 1);
    CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    CHECK(now()->hw == 2 && now()->lso == 2 && now()->isr == 2 && now()->leader_since == 6);
    fixture_close(&f);
}

/* A leadership that would push an epoch out which nobody has written down is put off, and nothing is changed. */
static void put_off(void)
{
    const struct mpb_epoch_start first = {.offset = 0, .epoch = 3}, another = {.offset = 1, .epoch = 3};
    struct batch_spec spec = numbered(-1, 0, 40);
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0); /* in epoch 3, the first */
    for (int32_t number = 2; number <= MPB_KEPT_EPOCHS + 1; number++) {
        const struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, 2 + number, 1);
        bool fits = number <= MPB_KEPT_EPOCHS;
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        CHECK_EQ(mpb_become(&f.log, 0, &role), fits ? 0 : MPB_ERR_REQUEST_TIMED_OUT);
        CHECK_EQ(now()->leader_epoch, fits ? 2 + number : 1 + number);
        if (!fits) {
            mpb_epochs_written(&f.core, row(), &another, 1);
            CHECK_EQ(mpb_become(&f.log, 0, &role), MPB_ERR_REQUEST_TIMED_OUT);
            mpb_epochs_written(&f.core, row(), &first, 1);
            CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
            CHECK_EQ(now()->leader_epoch, 2 + number);
        }
    }
    fixture_close(&f);
}

/* Leaders of no record may come and go: nothing is lost with them. What was written down before they were cut says nothing of
 * those that took their numbers. */
static void without_a_word(void)
{
    struct mpb_epoch_start in_force[MPB_KEPT_EPOCHS];
    struct batch_spec spec = numbered(-1, 0, 40);
    bool has_older;
    int32_t epoch = 4;
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    for (; epoch < 4 + 3 * MPB_KEPT_EPOCHS; epoch++) {
        const struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, epoch, 1);
        CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
    }
    CHECK_EQ(mpb_epochs_read(&f.core, row(), now(), in_force, &has_older), 1);
    for (int round = 0; round < 2; round++) {
        int last = 0;
        for (int i = 0; i < MPB_KEPT_EPOCHS + 1 && last == 0; i++, epoch++) {
            const struct mpb_new_role role = fixture_role(MPB_ROLE_LEADER, epoch, 1);
            last = mpb_become(&f.log, 0, &role);
            CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        }
        CHECK_EQ(last, MPB_ERR_REQUEST_TIMED_OUT); /* the second time, too: they are others */
        if (round == 0) {
            uint32_t count = mpb_epochs_read(&f.core, row(), now(), in_force, &has_older);
            CHECK_EQ(mpb_truncate(&f.log, 0, 1), 0);
            mpb_epochs_written(&f.core, row(), in_force, count);
        }
    }
    fixture_close(&f);
}

/* A log that begins anew knows nothing of the old one's epochs, nor does the file; they are counted from none on. */
static void begun_anew(void)
{
    const struct mpb_new_role follower = fixture_role(MPB_ROLE_FOLLOWER, 100, 0);
    struct mpb_epoch_start file[40], got[MPB_KEPT_EPOCHS];
    struct batch_spec spec = numbered(-1, 0, 40);
    bool has_older;
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    for (int32_t i = 0; i < 40; i++)
        file[i] = (struct mpb_epoch_start){.offset = i, .epoch = 2 * i};
    CHECK_EQ(mpb_load_epochs(&f.log, 0, file, 40), 0);
    CHECK(mpb_epochs_read(&f.core, row(), now(), got, &has_older) == MPB_KEPT_EPOCHS && has_older);
    CHECK_EQ(mpb_become(&f.log, 0, &follower), 0);
    CHECK_EQ(mpb_start_at(&f.log, 0, 1000, 100, 5000), 0);
    CHECK(mpb_epochs_read(&f.core, row(), now(), got, &has_older) == 0 && !has_older);
    CHECK_EQ(mpb_epochs_latest(&f.core, row(), now()), MPB_UNDEFINED_EPOCH);
    for (uint32_t i = 1; i <= MPB_KEPT_EPOCHS; i++) {
        const struct mpb_new_role leader = fixture_role(MPB_ROLE_LEADER, 100 + (int32_t)i, 1);
        CHECK_EQ(mpb_become(&f.log, 0, &leader), 0);
        CHECK_EQ(append_batch(&f.log, &FIX_OPTIONS, 0, MPB_NO_REQUEST, 0, &spec).error, 0);
        CHECK(mpb_epochs_read(&f.core, row(), now(), got, &has_older) == i && !has_older);
        CHECK(got[0].epoch == 101 && got[0].offset == 1000 && got[i - 1].epoch == 100 + (int32_t)i);
    }
    fixture_close(&f);
}

/* The list of replicas that comes into force is written beside the one that was, which a death in between leaves in force;
 * one that says the same is not written at all. */
static void lists_of_replicas(void)
{
    static const bool IS_OTHER[] = {false, true, true, false, true, false, false, true};
    fixture_open(&f);
    fixture_replicate(&f);
    fixture_partition(&f, 0);
    const struct mpb_replicas *replicas = &f.core.replicas[0];
    bool was_other = false;
    for (size_t i = 0; i < sizeof IS_OTHER / sizeof *IS_OTHER; i++) {
        struct mpb_new_role role = fixture_role(i % 3 == 0 ? MPB_ROLE_FOLLOWER : MPB_ROLE_LEADER, 4 + (int32_t)i, 1);
        const uint32_t at = now()->ids_at;
        int32_t before[MPB_MAX_REPLICAS], want[MPB_MAX_REPLICAS];
        memcpy(before, replicas->ids[at], sizeof before);
        memset(want, 0xff, sizeof want);
        role.replicas[2] = IS_OTHER[i] ? 9 : FIX_THIRD;
        role.replica_count = IS_OTHER[i] ? 3 : 2;
        role.replicas[2 + IS_OTHER[i]] = 77; /* of nobody: there are no more */
        memcpy(want, role.replicas, role.replica_count * sizeof *want);
        CHECK_EQ(mpb_become(&f.log, 0, &role), 0);
        CHECK(memcmp(replicas->ids[now()->ids_at], want, sizeof want) == 0);
        CHECK(memcmp(replicas->ids[at], before, sizeof before) == 0);
        CHECK_EQ(now()->ids_at != at, i == 0 || IS_OTHER[i] != was_other);
        was_other = IS_OTHER[i];
    }
    fixture_close(&f);
}

int main(void)
{
    against_a_list();
    alone();
    loaded();
    roles();
    put_off();
    without_a_word();
    begun_anew();
    lists_of_replicas();
    printf("leader_epochs: %lu checks\n", checks_made);
    return 0;
}
