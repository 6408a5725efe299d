#include "request/recover.h"
#include "request/command.h"
#include "shm/counters.h"
#include "shm/doorbell.h"
#include "shm/inject.h"
#include "request/handed.h"
#include "shm/intents.h"
#include "request/killers.h"
#include "request/plane.h"
#include "request/request_metrics.h"
#include "trace/trace_record.h"
#include <string.h>
#include <time.h>

/* Bit per row: "its present generation has a hint in one of these rings". On the stack: a repair must not depend on
 * a heap that another thread of a dying process, or a kill, left behind. */
struct present {
    uint64_t bits[(1u << MPB_INDEX_BITS) / 64];
};

static void scan_rings(struct mpb_core *core, struct present *present, uint32_t first, uint32_t count, uint32_t rows)
{
    memset(present->bits, 0, (rows / 64 + 1) * sizeof present->bits[0]);
    for (uint32_t i = 0; i < count; i++) {
        struct mpb_ring ring = mpb_ring_view(core, first + i);
        mpb_ring_scan(&ring, present->bits);
    }
}

/* Both planes: class rings that were ever in use, and what was put back. */
static void scan_planes(struct mpb_core *core, struct present *present)
{
    memset(present->bits, 0, (core->entry_count / 64 + 1) * sizeof present->bits[0]);
    for (uint32_t plane = 0; plane < 2; plane++)
        for (uint32_t c = 0; c < MPB_MAX_CLASSES; c++)
            if (c < mpb_plane_classes(core, plane) || c == MPB_CLASS_REQUEUED) {
                struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(plane, c));
                mpb_ring_scan(&ring, present->bits);
            }
}

static bool has(const struct present *present, uint32_t index) { return present->bits[index / 64] >> index % 64 & 1; }

static void finish_recovery(struct mpb_core *core, uint32_t slot)
{
    MPB_CRASH(core, "recover.before_ring");
    mpb_ring_everybody(core);
    mpb_count(core, slot, MPB_C_RECOVERIES, 1);
}

/* Rows of a processor that were ever used. */
static uint32_t rows_used(const struct mpb_core *core, uint32_t processor)
{
    uint32_t high = mpb_load_acquire(&core->doorbells->processor_mark[processor].entries_high);
    return high < core->header->entries_per_processor ? high : core->header->entries_per_processor;
}

/* ------------------------------------------------------------------ processor */
/* What was never wholly received is just freed; so is what was finished, and only not yet freed. */
static void drop(struct mpb_processor *p, uint32_t index, struct mpb_recovery *done)
{
    struct mpb_entry *entry = &p->core->entries[index];
    if (mpb_load_relaxed(&entry->received) != 0) {
        mpb_request_account(p->core, p->index, entry);
        mpb_trace_commit(p->lane, entry, MPB_TF_ABORTED);
        MPB_CRASH(p->core, "recover.traced");
        mpb_count_finished(p, entry);
    }
    mpb_entry_free(p->core, index, p->slot);
    done->freed++;
}

static void recover_own_entry(struct mpb_processor *p, uint32_t index, const struct present *present,
                              struct mpb_recovery *done)
{
    uint64_t word = mpb_load_acquire(&p->core->entries[index].state);
    if (mpb_state_owner(word) != p->slot)
        return;
    switch (mpb_state_of(word)) {
    case MPB_E_FILL: /* half filled, or parked because its plane was full: that one was received */
    case MPB_E_SENDING:
        drop(p, index, done);
        break;
    case MPB_E_QUEUED: /* not hinted, so nobody else can have seen it: it never entered the ring */
        if (!has(present, index))
            drop(p, index, done);
        break;
    default:
        break;
    }
}

void mpb_recover_processor(struct mpb_processor *p, struct mpb_recovery *done)
{
    struct mpb_core *core = p->core;
    *done = (struct mpb_recovery){0};
    struct present present;
    scan_planes(core, &present);
    MPB_CRASH(core, "recover.processor.scanned");
    mpb_store_release(&core->doorbells->processor_mark[p->index].pushing, 0);
    for (uint32_t i = 0; i < rows_used(core, p->index); i++)
        mpb_settle_count(core, p->slot, &core->entries[p->first_entry + i]);
    for (uint32_t i = 0; i < rows_used(core, p->index); i++)
        recover_own_entry(p, p->first_entry + i, &present, done);
    mpb_processor_rebuild(p);
    atomic_store(&core->doorbells->processor[p->index].asleep, 0);
    atomic_fetch_and(&core->doorbells->want_space, ~(0x100000001ull << p->index));
    finish_recovery(core, p->slot);
}

/* ------------------------------------------------------------------ handler */
static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Counts a death of the request in hand once per generation: one store, so that a repeated repair counts nothing. */
static uint32_t count_attempt(struct mpb_core *core, uint32_t index, uint32_t generation)
{
    struct mpb_entry *entry = &core->entries[index];
    uint32_t seen = mpb_load_relaxed(&entry->attempts), mark = (generation + 1) & 0xffffff;
    if (seen >> 8 != mark) {
        seen = mark << 8 | ((seen & 0xff) < 0xff ? (seen & 0xff) + 1 : 0xff);
        mpb_store_release(&entry->attempts, seen);
        MPB_CRASH(core, "recover.attempt_counted");
        if ((seen & 0xff) == MPB_KILLS_REFUSED)
            mpb_killer_add(core, mpb_frame_digest(mpb_payload(core, entry), entry->payload_length), now_ms(),
                           MPB_KILLS_REFUSED);
    }
    return seen & 0xff;
}

static void hint_answer(struct mpb_core *core, uint32_t index, uint32_t generation, uint32_t slot)
{
    uint32_t processor = index / core->header->entries_per_processor;
    struct mpb_ring ring = mpb_ring_view(core, MPB_RING_RESPONSE + processor);
    mpb_ring_push_sure(&ring, mpb_hint(index, generation));
    MPB_CRASH(core, "recover.answer_hinted");
    mpb_ring_processor(core, processor, slot);
}

/* What the coordinator held goes back to the coordinator, everything else to its plane. */
static void requeue(struct mpb_handler *h, uint32_t index)
{
    if (h->is_coordinator)
        mpb_handed_requeue(h->core, index);
    else
        mpb_plane_requeue(h->core, index);
}

static void put_back(struct mpb_handler *h, uint32_t index, uint64_t word, struct mpb_recovery *done)
{
    struct mpb_core *core = h->core;
    struct mpb_entry *entry = &core->entries[index];
    uint32_t generation = mpb_state_generation(word), attempts = mpb_attempts(entry);
    if (mpb_load_acquire(&core->doorbells->handler_mark[h->index].in_hand) == index + 1)
        attempts = count_attempt(core, index, generation);
    mpb_extent_free(core, entry->answer_extent, index); /* of an answer that was never final */
    mpb_step();
    entry->answer_extent = MPB_NO_EXTENT;
    entry->answer_length = 0;
    mpb_step();
    if (attempts >= MPB_ATTEMPTS_LAST && mpb_intended_row(core, index) < 0) {
        entry->answer_kind = MPB_ANSWER_CLOSE;
        entry->error = -1;
        mpb_trace_of(entry->trace)->flags |= MPB_TF_REDISPATCHED;
        mpb_step();
        mpb_store_release(&entry->state, mpb_state_word(generation, MPB_E_DONE, h->slot));
        MPB_CRASH(core, "recover.closed");
        hint_answer(core, index, generation, h->slot);
        mpb_count(core, h->slot, MPB_C_POISONED, 1);
        done->closed++;
        return;
    }
    mpb_trace_again(entry->trace);
    mpb_step();
    mpb_store_release(&entry->state, mpb_state_word(generation + 1, MPB_E_REQUEUED, h->slot));
    MPB_CRASH(core, "recover.requeued");
    requeue(h, index);
    MPB_CRASH(core, "recover.requeue_hinted");
    mpb_count(core, h->slot, MPB_C_REQUEUED, 1);
    done->requeued++;
}

/* What lies in rings: of the planes, of the coordinator, of answers. */
struct hinted {
    struct present queued, handed, answered;
};

static void recover_claim(struct mpb_handler *h, uint32_t index, const struct hinted *hinted, struct mpb_recovery *done)
{
    uint64_t word = mpb_load_acquire(&h->core->entries[index].state);
    if (mpb_state_owner(word) != h->slot)
        return;
    switch (mpb_state_of(word)) {
    case MPB_E_CLAIMED:
        put_back(h, index, word, done);
        break;
    case MPB_E_REQUEUED: /* by an earlier repair that was killed before it hinted */
        if (!has(h->is_coordinator ? &hinted->handed : &hinted->queued, index)) {
            requeue(h, index);
            done->hinted++;
        }
        break;
    case MPB_E_HANDED: /* a hint of it in its plane is stale */
        if (!has(&hinted->handed, index)) {
            mpb_handed_push(h->core, index);
            done->hinted++;
        }
        break;
    case MPB_E_DONE:
        if (!has(&hinted->answered, index)) {
            hint_answer(h->core, index, mpb_state_generation(word), h->slot);
            done->hinted++;
        }
        break;
    default:
        break;
    }
}

void mpb_recover_handler(struct mpb_handler *h, struct mpb_recovery *done)
{
    struct mpb_core *core = h->core;
    *done = (struct mpb_recovery){0};
    struct hinted hinted;
    scan_planes(core, &hinted.queued);
    scan_rings(core, &hinted.handed, MPB_RING_COORDINATOR, 2, core->entry_count);
    scan_rings(core, &hinted.answered, MPB_RING_RESPONSE, core->header->processor_count, core->entry_count);
    MPB_CRASH(core, "recover.handler.scanned");
    mpb_handler_withdraw(core, h->index);
    /* Before the requests: whoever runs one of them again must not adopt a command that nobody will ever see. */
    mpb_commands_recover_handler(core, h->slot);
    MPB_CRASH(core, "recover.handler.commands");
    for (uint32_t p = 0; p < core->header->processor_count; p++)
        for (uint32_t i = 0; i < rows_used(core, p); i++)
            recover_claim(h, p * core->header->entries_per_processor + i, &hinted, done);
    MPB_CRASH(core, "recover.handler.put_back");
    mpb_store_release(&core->doorbells->handler_mark[h->index].in_hand, 0);
    mpb_extents_collect(core, h->index);
    mpb_extents_rebuild(&h->extents);
    finish_recovery(core, h->slot);
}

/* ------------------------------------------------------------------ controller */
void mpb_recover_controller(struct mpb_core *core, uint32_t self, struct mpb_recovery *done)
{
    *done = (struct mpb_recovery){0};
    struct present present;
    scan_rings(core, &present, mpb_command_ring(self), 1, core->command_count);
    struct mpb_ring ring = mpb_ring_view(core, mpb_command_ring(self));
    for (uint32_t i = 0; i < core->command_count; i++) {
        uint64_t word = mpb_load_acquire(&core->commands[i].state);
        uint32_t state = mpb_state_of(word), generation = mpb_state_generation(word);
        if (mpb_state_owner(word) != self)
            continue;
        if (state == MPB_E_CLAIMED) {
            generation++;
            mpb_store_release(&core->commands[i].state, mpb_state_word(generation, MPB_E_REQUEUED, self));
            MPB_CRASH(core, "recover.command.requeued");
        } else if (state != MPB_E_REQUEUED || has(&present, i)) {
            continue;
        }
        mpb_ring_push_sure(&ring, mpb_hint(i, generation));
        done->requeued++;
    }
    finish_recovery(core, self);
}
