#include "shm/intents.h"

int64_t mpb_intended_row(const struct mpb_core *core, uint32_t entry)
{
    uint64_t fill_number = core->entries[entry].fill_number;
    uint32_t high = mpb_load_acquire(&core->header->partitions_high);
    for (uint32_t i = 0; i < high && i < core->partition_count; i++) {
        const struct mpb_intent *intent = &core->partitions[i].intent;
        if (mpb_load_acquire(&intent->word) >> 24 == MPB_INTENT_APPEND && intent->entry == entry &&
            intent->fill_number == fill_number)
            return i;
    }
    return -1;
}
