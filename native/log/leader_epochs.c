#include "log/leader_epochs.h"

#include <string.h>

#include "log/partition_row.h"

struct mpb_replicas *mpb_replicas_of(const struct mpb_core *core, const struct mpb_partition *row)
{
    return core->replica_count == 0 ? NULL : &core->replicas[row - core->partitions];
}

void mpb_replicas_forget(const struct mpb_core *core, const struct mpb_partition *row)
{
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    memset(replicas, 0, sizeof *replicas);
    memset(replicas->ids, 0xff, sizeof replicas->ids);
}

static struct mpb_epoch_start *place(struct mpb_replicas *replicas, uint32_t number)
{
    return &replicas->epoch[number % MPB_KEPT_EPOCHS];
}

static uint32_t first_kept(const struct mpb_replicas *replicas, const struct mpb_partition_copy *copy)
{
    uint32_t low = mpb_load_relaxed(&replicas->epochs_low);
    return low < copy->epochs ? low : copy->epochs;
}

/* Not where an epoch without records stands before: the one in force stays as it is until the commit, and readers leave out
 * whoever begins where its successor does. Such a one need not be written down before its place is taken. */
bool mpb_epochs_begin(const struct mpb_core *core, const struct mpb_partition *row, struct mpb_partition_copy *next,
                      int32_t epoch, int64_t offset)
{
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    if (replicas == NULL || epoch < 0 || epoch <= mpb_epochs_latest(core, row, next))
        return true;
    if (mpb_load_relaxed(&replicas->epochs_low) > next->epochs) /* all were cleared: they are counted anew */
        mpb_store_relaxed(&replicas->epochs_low, next->epochs);
    uint32_t lost = next->epochs + 1 > MPB_KEPT_EPOCHS ? next->epochs + 1 - MPB_KEPT_EPOCHS : 0;
    if (mpb_load_relaxed(&replicas->epochs_low) < lost) {
        const struct mpb_epoch_start *oldest = place(replicas, lost - 1);
        if (oldest->is_written == 0 && oldest->offset < place(replicas, lost)->offset)
            return false;
        mpb_store_relaxed(&replicas->epochs_low, lost);
    }
    mpb_step();
    *place(replicas, next->epochs) = (struct mpb_epoch_start){.offset = offset, .epoch = epoch};
    mpb_step();
    next->epochs++;
    return true;
}

void mpb_epochs_cut(const struct mpb_core *core, const struct mpb_partition *row, struct mpb_partition_copy *next,
                    int64_t offset)
{
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    if (replicas == NULL)
        return;
    uint32_t low = first_kept(replicas, next);
    while (next->epochs > low && place(replicas, next->epochs - 1)->offset >= offset)
        next->epochs--;
}

/* `epochs_low` follows when the next one begins: until then the copy in force says that there are none. */
void mpb_epochs_clear(struct mpb_partition_copy *next) { next->epochs = 0; }

/* By what it is, not by its number: one that was cut meanwhile has given its number to another. */
void mpb_epochs_written(const struct mpb_core *core, const struct mpb_partition *row,
                        const struct mpb_epoch_start *written, uint32_t count)
{
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    const struct mpb_partition_copy *now = mpb_partition_in_force(row);
    if (replicas == NULL)
        return;
    for (uint32_t number = first_kept(replicas, now), at = 0; number < now->epochs; number++) {
        struct mpb_epoch_start *each = place(replicas, number);
        while (at < count && written[at].epoch < each->epoch)
            at++;
        if (at < count && written[at].epoch == each->epoch && written[at].offset == each->offset)
            each->is_written = 1;
    }
}

uint32_t mpb_epochs_read(const struct mpb_core *core, const struct mpb_partition *row,
                         const struct mpb_partition_copy *copy, struct mpb_epoch_start out[MPB_KEPT_EPOCHS],
                         bool *has_older)
{
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    *has_older = false;
    if (replicas == NULL)
        return 0;
    uint32_t low = first_kept(replicas, copy), count = 0;
    *has_older = low > 0;
    for (uint32_t number = low; number < copy->epochs; number++) {
        const struct mpb_epoch_start *each = place(replicas, number);
        while (count > 0 && out[count - 1].offset >= each->offset)
            count--;
        out[count++] = *each;
    }
    return count;
}

int32_t mpb_epochs_latest(const struct mpb_core *core, const struct mpb_partition *row,
                          const struct mpb_partition_copy *copy)
{
    struct mpb_replicas *replicas = mpb_replicas_of(core, row);
    if (replicas == NULL || copy->epochs == first_kept(replicas, copy))
        return MPB_UNDEFINED_EPOCH;
    return place(replicas, copy->epochs - 1)->epoch;
}

bool mpb_epochs_end_of(const struct mpb_core *core, const struct mpb_partition *row,
                       const struct mpb_partition_copy *copy, int32_t asked, struct mpb_epoch_end *out)
{
    struct mpb_epoch_start epoch[MPB_KEPT_EPOCHS];
    bool has_older;
    uint32_t count = mpb_epochs_read(core, row, copy, epoch, &has_older), next = 0;
    *out = (struct mpb_epoch_end){MPB_UNDEFINED_EPOCH, -1};
    if (count == 0)
        return core->replica_count != 0 && !has_older;
    if (asked < 0 || asked > epoch[count - 1].epoch)
        return true;
    if (asked == epoch[count - 1].epoch) {
        *out = (struct mpb_epoch_end){asked, copy->leo};
        return true;
    }
    while (epoch[next].epoch <= asked)
        next++;
    if (next == 0 && has_older)
        return false;
    *out = (struct mpb_epoch_end){next == 0 ? asked : epoch[next - 1].epoch, epoch[next].offset};
    return true;
}
