#define _GNU_SOURCE
/* A stands still in the middle of an operation, alive; B is killed in the middle of one; B's slot is repaired and the
 * others work; then A goes on. Every combination of operations and of states of the ring, at a stride (all of them with
 * LONG=1): nothing may be stuck, lost, doubled or leaked, and nobody may wait for A. A may also be the successor of a
 * processor, which repairs its slot while the others take, answer and die. */
#include "tests/request/request_stills.h"
#include "tests/stepping/stepping.h"

static long pairs;

#define STILLS 4096
static uint8_t *stills;
static size_t still_size;

struct film {
    struct drama *d;
    long count;
};

static void shoot(void *cookie)
{
    struct film *film = cookie;
    if (film->count < STILLS)
        still_copy(film->d, stills + (size_t)film->count++ * still_size, false);
}

static void answered_and(struct drama *d, int queued)
{
    answered_id(d, 4);
    answered_id(d, 7);
    for (uint32_t id = 8; id < 8 + (uint32_t)queued; id++)
        ask(d, (int)id % 2, MPB_PLANE_DATA, id, id == 9 ? 2000 : 100);
}
static void set_queue_empty(struct drama *d) { answered_and(d, 0); }
static void set_queue_two(struct drama *d) { answered_and(d, 2); }
static void set_queue_full(struct drama *d) { answered_and(d, 4); }

static void (*const setups[])(struct drama *) = {set_queue_empty, set_queue_two, set_queue_full};

/* Processor 1 has died with one request of each kind that a repair meets: being sent, waiting or (where the plane is
 * full) parked, and one that was about to enter the ring. */
static void set_dead_1(struct drama *d)
{
    struct mpb_processor *p = &d->p[1];
    HOLD(d, mpb_collect(p) >= 0);
    submit_as(d, 1, 3, 2000);
    submit_as(d, 1, 15, 100);
    mpb_atomic64 *last = &d->w.core.entries[p->free_stack[p->free_count]].state;
    uint64_t word = mpb_load_relaxed(last);
    if (mpb_state_of(word) == MPB_E_FILL)
        mpb_store_relaxed(last, mpb_state_word(mpb_state_generation(word), MPB_E_QUEUED, p->slot));
    replace_processor(d, 1);
}

static void do_repair_1(void *a)
{
    struct drama *d = a;
    struct mpb_recovery done;
    mpb_recover_processor(&d->p[1], &done);
}

static const struct scene frozen_ones[] = {
    {"submit", PROCESSOR, 1, NULL, do_submit_1},
    {"take and answer", HANDLER, 1, NULL, do_take_1},
    {"collect and send", PROCESSOR, 1, NULL, do_collect_1},
    {"repair", PROCESSOR, 1, set_dead_1, do_repair_1},
};
enum { FROZEN_ONES = sizeof frozen_ones / sizeof *frozen_ones };
static const struct scene killed_ones[] = {
    {"submit", PROCESSOR, 0, NULL, do_submit_arena},
    {"take and answer", HANDLER, 0, NULL, do_take_0},
    {"collect and send", PROCESSOR, 0, NULL, do_collect_0},
};

static unsigned handlers_but(const struct scene *s)
{
    return s->actor == HANDLER ? ALL_HANDLERS & ~(1u << s->index) : ALL_HANDLERS;
}
static unsigned processors_but(const struct scene *s) { return s->actor == PROCESSOR ? 3u & ~(1u << s->index) : 3u; }

/* ------------------------------------------------------------------ A, who stands still */
static struct frozen frozen;
static struct {
    struct mpb_handler h;
    struct mpb_processor p;
    ucontext_t inside;
    uint8_t stack[sizeof frozen.stack];
    uint64_t bits[8];
    uint8_t books[2][256];
} kept;

/* What A has in private memory, and its stack: away, or back. */
static void copy_a(struct drama *d, const struct scene *a, bool back)
{
#define COPY(mine, theirs, size) \
    memcpy(back ? (void *)(theirs) : (void *)(mine), back ? (void *)(mine) : (void *)(theirs), size)
    COPY(&kept.inside, &frozen.inside, sizeof kept.inside);
    COPY(kept.stack, frozen.stack, sizeof kept.stack);
    if (a->actor == HANDLER) {
        struct mpb_handler *h = &d->h[a->index];
        COPY(kept.bits, h->extents.units.bits, 8);
        COPY(kept.books[0], h->extents.held, 48);
        COPY(kept.books[1], h->extents.free_words, 16);
        COPY(&kept.h, h, sizeof *h);
    } else {
        struct mpb_processor *p = &d->p[a->index];
        COPY(kept.bits, p->arena.units.bits, 16);
        COPY(kept.books[0], p->free_stack, 28);
        COPY(&kept.p, p, sizeof *p);
    }
    frozen.ended = false;
}

/* A request that handler 2, who is neither A nor B, has in its hand while A goes on; or nothing. */
static int64_t in_hand_meanwhile(struct drama *d)
{
    atomic_exchange(&d->w.core.doorbells->handler[2].poke, 0);
    int64_t entry = mpb_handler_claim(&d->h[2], false);
    return entry >= 0 && !mpb_handler_hand_over(&d->h[2], (uint32_t)entry) ? entry : -1;
}

static void finish(struct drama *d, const struct scene *a, const struct scene *b, bool work_first)
{
    drama_reopen(d, ALL_HANDLERS & ~handlers_but(a), 3u & ~processors_but(a));
    if (work_first)
        survivors_work(d, b, handlers_but(a), processors_but(a));
    successor(d, b);
    do_recover(&(struct recovery_of){d, b});
    check_bells(d);
    int64_t in_hand = work_first ? -1 : in_hand_meanwhile(d);
    unsigned busy = in_hand < 0 ? 0 : 1u << 2;
    drain(d, handlers_but(a) & ~busy, processors_but(a)); /* nobody waits for A */
    thaw(&frozen);
    if (in_hand >= 0)
        execute(d, &d->h[2], in_hand);
    drain(d, ALL_HANDLERS, 3);
    check_rest(d);
    refill(d);
}

/* A stands still after `at` instructions: B is killed after every `stride`-th of its own. False: A had ended. */
static bool play_at(struct drama *d, const struct scene *a, const struct scene *b, void (*setup)(struct drama *),
                    long at, long stride)
{
    struct film film = {d, 0};
    drama_open(d);
    setup(d);
    if (a->setup != NULL)
        a->setup(d);
    freeze_at(&frozen, a->operation, d, at);
    if (!frozen.ended) {
        copy_a(d, a, false);
        step_each(b->operation, d, 1 + at % stride, 1000000, stride, shoot, &film);
        CHECK(film.count < STILLS);
    }
    for (long i = 0; i < film.count; i++, pairs++) {
        still_copy(d, stills + (size_t)i * still_size, true);
        copy_a(d, a, true);
        d->at = at;
        d->again = 1 + at % stride + i * stride;
        finish(d, a, b, i % 2);
    }
    drama_close(d);
    return film.count > 0;
}

static void play(struct drama *d, const struct scene *a, const struct scene *b, void (*setup)(struct drama *),
                 long a_stride, long b_stride)
{
    static char name[80];
    snprintf(name, sizeof name, "%s frozen, %s killed", a->name, b->name);
    d->scene = name;
    trail_forget(&frozen.trail);
    for (long at = 1; play_at(d, a, b, setup, at, b_stride); at += a_stride)
        ;
}

int main(void)
{
    static struct drama d;
    bool all = getenv("LONG") != NULL;
    if (!STEPPING) {
        printf("request pairs: not run (needs x86-64 without a sanitizer)\n");
        return 0;
    }
    stepping_install();
    world_open(&d.w, &small_plan);
    still_size = still_bytes(&d);
    CHECK((stills = malloc(STILLS * still_size)) != NULL);
    for (int setup = 0; setup < 3; setup++)
        for (int a = 0; a < FROZEN_ONES; a++)
            for (int b = 0; b < 3; b++)
                play(&d, &frozen_ones[a], &killed_ones[b], setups[setup], all ? 3 : 211, all ? 1 : 11);
    CHECK(pairs > 5000);
    printf("request pairs: %ld, one frozen and one killed; %lu checks\n", pairs, checks_made);
    return 0;
}
