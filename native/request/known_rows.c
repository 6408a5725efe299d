#include "request/known_rows.h"
#include <string.h>

struct mpb_known_table mpb_known_table(struct mpb_core *core, enum mpb_known_kind kind)
{
    if (kind == MPB_KNOWN_GROUPS)
        return (struct mpb_known_table){core->groups, core->group_count, &core->header->groups_high};
    return (struct mpb_known_table){core->members, core->member_count, &core->header->members_high};
}

void mpb_known_put(const struct mpb_known_table *table, uint32_t row, const uint8_t key[16], uint64_t word)
{
    struct mpb_known *known = &table->rows[row];
    if (mpb_load_relaxed(table->high) <= row)
        mpb_store_release(table->high, row + 1); /* before the row: a successor scans below it */
    mpb_step();
    if (mpb_load_relaxed(&known->word) == 0)
        memcpy(known->key, key, sizeof known->key);
    mpb_step();
    mpb_store_release(&known->word, word);
}

void mpb_known_drop(const struct mpb_known_table *table, uint32_t row) { mpb_store_release(&table->rows[row].word, 0); }

static struct mpb_address *address_row(const struct mpb_core *core, uint32_t processor, uint32_t number)
{
    return number < MPB_ADDRESS_ROWS ? &core->addresses[processor * MPB_ADDRESS_ROWS + number] : NULL;
}

void mpb_address_put(struct mpb_core *core, uint32_t processor, uint32_t number, uint32_t generation,
                     const uint8_t address[16])
{
    struct mpb_address *row = address_row(core, processor, number);
    if (row == NULL)
        return;
    atomic_store(&row->generation, 0); /* whoever reads meanwhile finds nobody */
    mpb_fence_full();
    memcpy(row->address, address, sizeof row->address);
    mpb_store_release(&row->generation, (uint64_t)generation + 1);
}

bool mpb_address_of(const struct mpb_core *core, uint32_t processor, uint32_t number, uint32_t generation,
                    uint8_t address[16])
{
    struct mpb_address *row = address_row(core, processor, number);
    if (row == NULL || mpb_load_acquire(&row->generation) != (uint64_t)generation + 1)
        return false;
    memcpy(address, row->address, sizeof row->address);
    mpb_fence_full();
    return mpb_load_acquire(&row->generation) == (uint64_t)generation + 1;
}
