/* Still pictures of shared memory, as a kill would leave it, for the stepping tests. */
#ifndef MPB_TESTS_REQUEST_STILLS_H
#define MPB_TESTS_REQUEST_STILLS_H

#include "tests/stepping/ranges.h"
#include "tests/request/request_scenes.h"

/* What a kill leaves behind is shared memory and this book-keeping; `still` copies both, `still_restore` brings them
 * back. Only the parts these scenes write. */
static size_t list_ranges(struct drama *d, struct range *r)
{
    struct mpb_core *c = &d->w.core;
    struct mpb_doorbells *bells = c->doorbells;
    size_t n = 0;
#define RANGE(pointer, size) (r[n++] = (struct range){(void *)(uintptr_t)(pointer), (size)})
    RANGE(c->entries, c->entry_count * sizeof *c->entries);
    RANGE(c->slots, c->slot_count * 8);
    RANGE(bells, offsetof(struct mpb_doorbells, dirty));
    RANGE(bells->handler_mark, sizeof *bells - offsetof(struct mpb_doorbells, handler_mark));
    RANGE(c->killers, MPB_KILLER_ROWS * sizeof *c->killers);
    RANGE(&c->rings[0], sizeof *c->rings);
    RANGE(&c->rings[MPB_RING_CONTROL + MPB_CLASS_REQUEUED],
          12 * sizeof *c->rings); /* and data, the controller's, the coordinator's */
    RANGE(c->header->plane_classes, sizeof c->header->plane_classes);
    RANGE(&c->rings[MPB_RING_RESPONSE], 2 * sizeof *c->rings);
    RANGE(&c->processes[MPB_SLOT_PROCESSORS], 2 * sizeof *c->processes);
    RANGE(&c->processes[MPB_SLOT_HANDLERS], 3 * sizeof *c->processes);
    RANGE(&c->processes[MPB_SLOT_COORDINATOR], sizeof *c->processes);
    RANGE(&c->partitions[3].watchers, 8);
    for (uint32_t i = 0; i < c->command_count; i++) {
        RANGE(&c->commands[i], 128);
        RANGE(c->commands[i].answer, 64);
    }
    for (uint32_t h = 0; h < CAST; h++) {
        RANGE(bells->dirty[h], 8);
        RANGE(c->extents + h * MPB_EXTENTS_PER_HANDLER, 16 * 8);
        RANGE(c->arena + mpb_arena_handler(c, h), 512);
        RANGE(c->arena + mpb_arena_handler(c, h) + MPB_UNIT_BYTES, 512);
    }
    for (uint32_t p = 0; p < 2; p++) {
        RANGE(c->arena + mpb_arena_processor(c, p), 8192);
        RANGE(c->counters[MPB_SLOT_PROCESSORS + p].value, (MPB_C_REQUESTS_FINISHED + 1) * 8); /* received, finished */
    }
    RANGE(d->executed, offsetof(struct drama, kept) - offsetof(struct drama, executed));
#undef RANGE
    CHECK(n <= MAX_RANGES);
    return n;
}

static inline size_t still_bytes(struct drama *d)
{
    struct range r[MAX_RANGES];
    return ranges_bytes(r, list_ranges(d, r));
}

static inline void still_copy(struct drama *d, uint8_t *still, bool restore)
{
    struct range r[MAX_RANGES];
    size_t n = list_ranges(d, r);
    if (restore)
        ranges_restore(r, n, still);
    else
        ranges_save(r, n, still);
}

/* Private state of everybody, but those in the masks, anew from shared memory: what anybody knows who is between two
 * operations. */
static void drama_reopen(struct drama *d, unsigned not_handlers, unsigned not_processors)
{
    uint32_t parked = d->p[0].parked;
    for (int i = 0; i < 2; i++) {
        if (not_processors >> i & 1)
            continue;
        mpb_processor_close(&d->p[i]);
        CHECK_EQ(mpb_processor_open(&d->p[i], &d->w.core, (uint32_t)i), 0);
    }
    d->p[0].parked = parked;
    for (int i = 0; i < CAST; i++) {
        if (not_handlers >> i & 1)
            continue;
        mpb_handler_close(&d->h[i]);
        handler_open(d, i);
    }
}

#endif
