#include "shm/extent.h"
#include "shm/arena.h"
#include "shm/inject.h"
#include "shm/ring.h"
#include <stdlib.h>
#include <string.h>

static uint64_t word_of(uint32_t entry, uint32_t generation, uint32_t token)
{
    return (uint64_t)(entry + 1) << 47 | (uint64_t)(generation & MPB_GENERATION_MASK) << 32 | token;
}
static uint32_t word_entry(uint64_t word) { return (uint32_t)(word >> 47) - 1; }

int mpb_extents_open(struct mpb_extents *extents, struct mpb_core *core, uint32_t handler)
{
    memset(extents, 0, sizeof *extents);
    extents->core = core;
    extents->handler = handler;
    extents->part = mpb_arena_handler(core, handler);
    extents->words = core->extents + (size_t)handler * MPB_EXTENTS_PER_HANDLER;
    uint64_t bytes = core->header->arena_handler_bytes;
    if (bytes > 65535ull * MPB_UNIT_BYTES)
        bytes = 65535ull * MPB_UNIT_BYTES;
    extents->free_words = malloc(MPB_EXTENTS_PER_HANDLER * sizeof *extents->free_words);
    extents->held = malloc(MPB_EXTENTS_PER_HANDLER * sizeof *extents->held);
    bool fresh = mpb_load_acquire(&core->processes[mpb_handler_slot(core, handler)].incarnation) <= 1;
    if (mpb_units_open(&extents->units, bytes, MPB_UNIT_BYTES, fresh) < 0 || !extents->free_words || !extents->held) {
        mpb_extents_close(extents);
        return -1;
    }
    mpb_extents_rebuild(extents);
    return 0;
}

void mpb_extents_close(struct mpb_extents *extents)
{
    mpb_units_close(&extents->units);
    free(extents->free_words);
    free(extents->held);
    extents->free_words = NULL;
    extents->held = NULL;
}

static void hold(struct mpb_extents *extents, uint32_t word, uint32_t token)
{
    extents->held[extents->held_count++] = (struct mpb_held){(uint16_t)word, (uint16_t)(token >> 16),
                                                             (uint16_t)(token & 0xffff)};
}

void mpb_extents_rebuild(struct mpb_extents *extents)
{
    uint32_t high = mpb_load_acquire(&extents->core->doorbells->handler_mark[extents->handler].extents_high);
    mpb_units_clear(&extents->units);
    extents->free_count = extents->held_count = extents->sweep_at = 0;
    extents->fresh = high < MPB_EXTENTS_PER_HANDLER ? high : MPB_EXTENTS_PER_HANDLER;
    for (uint32_t i = extents->fresh; i-- > 0;) { /* low numbers on top of the stack */
        uint64_t word = mpb_load_acquire(&extents->words[i]);
        if (word == 0) {
            extents->free_words[extents->free_count++] = (uint16_t)i;
        } else {
            mpb_units_mark(&extents->units, (uint32_t)word >> 16, (uint32_t)word & 0xffff);
            hold(extents, i, (uint32_t)word);
        }
    }
}

/* Looks whether processors have freed some of the oldest held words. */
static void sweep(struct mpb_extents *extents, uint32_t limit)
{
    for (uint32_t n = 0; n < limit && extents->held_count > 0; n++) {
        if (extents->sweep_at >= extents->held_count)
            extents->sweep_at = 0;
        struct mpb_held *held = &extents->held[extents->sweep_at];
        if (mpb_load_acquire(&extents->words[held->word]) != 0) {
            extents->sweep_at++;
            continue;
        }
        mpb_units_give(&extents->units, held->first, held->units);
        extents->free_words[extents->free_count++] = held->word;
        *held = extents->held[--extents->held_count];
    }
}

static uint64_t quarter_of_free(const struct mpb_extents *extents)
{
    return (uint64_t)(extents->units.count - extents->units.used) * MPB_UNIT_BYTES / 4;
}

uint64_t mpb_extent_room(struct mpb_extents *extents, uint64_t wanted)
{
    if (wanted > quarter_of_free(extents))
        sweep(extents, 2 * extents->held_count);
    uint64_t room = quarter_of_free(extents);
    return wanted < room ? wanted : room;
}

int64_t mpb_extent_take(struct mpb_extents *extents, uint64_t bytes)
{
    if (bytes == 0 || bytes > (uint64_t)extents->units.count * MPB_UNIT_BYTES)
        return -1;
    uint32_t n = mpb_units_for(&extents->units, bytes);
    sweep(extents, 8);
    int64_t first = mpb_units_take(&extents->units, n);
    if (first < 0) {
        sweep(extents, 2 * extents->held_count);
        first = mpb_units_take(&extents->units, n);
    }
    MPB_CRASH(extents->core, "extent.taken");
    return first < 0 ? -1 : first << 16 | n;
}

bool mpb_extent_release(struct mpb_extents *extents, uint32_t token)
{
    return mpb_units_give(&extents->units, token >> 16, token & 0xffff);
}

uint32_t mpb_extent_link(struct mpb_extents *extents, uint32_t token, uint32_t entry, uint32_t generation)
{
    uint32_t word;
    if (extents->free_count == 0 && extents->fresh == MPB_EXTENTS_PER_HANDLER)
        sweep(extents, 2 * extents->held_count);
    if (extents->free_count > 0) {
        word = extents->free_words[--extents->free_count];
    } else if (extents->fresh < MPB_EXTENTS_PER_HANDLER) {
        word = extents->fresh++;
        mpb_store_release(&extents->core->doorbells->handler_mark[extents->handler].extents_high, word + 1);
    } else {
        return MPB_NO_EXTENT;
    }
    mpb_step(); /* the mark before the word: a successor scans below it */
    mpb_store_release(&extents->words[word], word_of(entry, generation, token));
    MPB_CRASH(extents->core, "extent.word_stored");
    hold(extents, word, token);
    return extents->handler * MPB_EXTENTS_PER_HANDLER + word + 1;
}

void mpb_extent_free(struct mpb_core *core, uint32_t number, uint32_t entry)
{
    if (number == MPB_NO_EXTENT || number > core->extent_count)
        return;
    uint64_t word = mpb_load_acquire(&core->extents[number - 1]);
    if (word != 0 && word_entry(word) == entry)
        mpb_cas64(&core->extents[number - 1], &word, 0);
}

void mpb_extents_collect(struct mpb_core *core, uint32_t handler)
{
    uint32_t base = handler * MPB_EXTENTS_PER_HANDLER;
    uint32_t high = mpb_load_acquire(&core->doorbells->handler_mark[handler].extents_high);
    for (uint32_t i = base; i < base + high && i < core->extent_count; i++) {
        uint64_t word = mpb_load_acquire(&core->extents[i]);
        if (word == 0)
            continue;
        uint32_t index = word_entry(word);
        const struct mpb_entry *entry = index < core->entry_count ? &core->entries[index] : NULL;
        bool linked = entry != NULL && mpb_state_of(mpb_load_acquire(&core->entries[index].state)) != MPB_E_FREE &&
                      (entry->answer_extent == i + 1 || entry->cells_extent == i + 1);
        if (!linked) {
            mpb_store_release(&core->extents[i], 0);
            MPB_CRASH(core, "extent.collected");
        }
    }
}

uint64_t mpb_extents_idle(struct mpb_extents *extents, uint64_t now_ns)
{
    sweep(extents, 2 * extents->held_count);
    return mpb_units_punch(&extents->units, extents->core->arena + extents->part, MPB_EXTENT_KEEP_BYTES, now_ns,
                           MPB_ARENA_IDLE_NS);
}
