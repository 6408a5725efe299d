#include "log/result_cell.h"

#include "record/kafka_errors.h"
#include "shm/inject.h"

uint64_t mpb_entry_fill_number(const struct mpb_core *core, uint32_t entry)
{
    return entry < core->entry_count ? mpb_load_acquire((const mpb_atomic64 *)&core->entries[entry].fill_number) : 0;
}

struct mpb_cell *mpb_cell_find(struct mpb_core *core, uint32_t entry, uint32_t cell, uint64_t fill_number)
{
    if (entry >= core->entry_count || mpb_entry_fill_number(core, entry) != fill_number)
        return NULL;
    struct mpb_entry *e = &core->entries[entry];
    if (cell == 0)
        return &e->cell;
    uint64_t offset = e->cells_offset + (uint64_t)(cell - 1) * sizeof(struct mpb_cell);
    if (cell >= e->cell_count || offset + sizeof(struct mpb_cell) > core->header->arena_bytes)
        return NULL;
    return (struct mpb_cell *)(core->arena + offset);
}

/* Append rule 1: the tag last. */
void mpb_cell_fill(struct mpb_core *core, uint32_t ordinal, uint32_t entry, uint32_t index, uint64_t fill_number,
                   const struct mpb_append_result *result)
{
    struct mpb_cell *cell = mpb_cell_find(core, entry, index, fill_number);
    if (cell == NULL || mpb_load_acquire(&cell->tag) == fill_number)
        return;
    cell->base_offset = result->base_offset;
    cell->end_offset = result->end_offset;
    cell->append_time_ms = result->append_time_ms;
    mpb_step();
    MPB_CRASH(core, "append.cell_half");
    cell->log_start = result->log_start;
    cell->leader_epoch = result->leader_epoch;
    cell->ordinal = ordinal;
    cell->error = result->error;
    mpb_step();
    mpb_store_release(&cell->tag, fill_number);
    mpb_step();
}

bool mpb_cell_read(struct mpb_core *core, uint32_t entry, uint32_t index, uint64_t fill_number,
                   struct mpb_append_result *out)
{
    struct mpb_cell *cell = mpb_cell_find(core, entry, index, fill_number);
    if (cell == NULL || mpb_load_acquire(&cell->tag) != fill_number)
        return false;
    out->replayed = true;
    out->error = cell->error;
    if (out->error != 0) { /* offsets beside an error are those of an append that was not synced */
        out->base_offset = out->end_offset = out->append_time_ms = -1;
        out->log_start = mpb_error_tells_log_start(out->error) ? cell->log_start : -1;
        return true;
    }
    out->base_offset = cell->base_offset;
    out->end_offset = cell->end_offset;
    out->append_time_ms = cell->append_time_ms;
    out->log_start = cell->log_start;
    out->leader_epoch = cell->leader_epoch;
    return true;
}

void mpb_cell_fail(struct mpb_core *core, uint32_t entry, uint32_t index, uint64_t fill_number, int error)
{
    struct mpb_cell *cell = mpb_cell_find(core, entry, index, fill_number);
    if (cell == NULL || mpb_load_acquire(&cell->tag) != fill_number)
        return;
    cell->error = (int16_t)error;
    mpb_step();
    cell->base_offset = cell->end_offset = cell->append_time_ms = cell->log_start = -1;
    mpb_step();
}
