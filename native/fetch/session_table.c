#include "fetch/session_table.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "shm/counters.h"
#include "shm/inject.h"

#define HOLD_TRIES 400
#define HOLD_PAUSE_NS 50000
#define MAKE_TRIES 8u
#define HOLDER 0xffu

static inline uint32_t id_of(uint64_t word) { return (uint32_t)(word >> 32); }
static inline uint64_t word_of(uint32_t id, uint32_t slot) { return (uint64_t)id << 32 | (slot + 1); }

static uint32_t row_bits(const struct mpb_core *core)
{
    uint32_t bits = 0;
    while ((1u << bits) < core->fetch_session_count)
        bits++;
    return bits;
}

/* Holds a row whose word is `word`. */
static bool take(struct mpb_core *core, uint32_t slot, uint32_t row, uint64_t word)
{
    return (word & HOLDER) == 0 && mpb_cas64(&core->fetch_sessions[row].word, &word, word_of(id_of(word), slot));
}

enum mpb_session_found mpb_session_hold(struct mpb_core *core, uint32_t slot, uint32_t id, uint32_t *row)
{
    uint32_t at = id & ((1u << row_bits(core)) - 1);
    if (id == 0 || at >= core->fetch_session_count)
        return MPB_SESSION_UNKNOWN;
    for (int i = 0; i < HOLD_TRIES; i++) {
        uint64_t word = mpb_load_acquire(&core->fetch_sessions[at].word);
        if (id_of(word) != id)
            return MPB_SESSION_UNKNOWN;
        if (take(core, slot, at, word)) {
            *row = at;
            MPB_CRASH(core, "session.held");
            return MPB_SESSION_HELD;
        }
        nanosleep(&(struct timespec){0, HOLD_PAUSE_NS}, NULL);
    }
    return MPB_SESSION_BUSY;
}

void mpb_session_release(struct mpb_core *core, uint32_t row)
{
    mpb_atomic64 *word = &core->fetch_sessions[row].word;
    MPB_CRASH(core, "session.changed");
    mpb_store_release(word, mpb_load_relaxed(word) & ~(uint64_t)HOLDER);
}

/* Frees a run of units; of those that are not the row's (a repair ran before) none. */
static void give_units(struct mpb_core *core, uint32_t row, uint32_t first, uint32_t units)
{
    for (uint32_t i = first; i < first + units && i < core->session_unit_count; i++)
        if (mpb_load_relaxed(&core->session_owners[i]) == row + 1)
            mpb_store_release(&core->session_owners[i], 0);
}

void mpb_session_drop(struct mpb_core *core, uint32_t row)
{
    struct mpb_fetch_session *session = &core->fetch_sessions[row];
    give_units(core, row, session->first_unit, session->units);
    session->units = 0;
    MPB_CRASH(core, "session.units_freed");
    mpb_store_release(&session->word, 0);
}

/* Marks a run as the row's; how many of it are: all, or as many as were free. */
static uint32_t claim(struct mpb_core *core, uint32_t row, uint32_t first, uint32_t units)
{
    for (uint32_t i = 0; i < units; i++) {
        uint32_t nobody = 0;
        if (!mpb_cas32(&core->session_owners[first + i], &nobody, row + 1))
            return i;
    }
    return units;
}

/* The lowest free run of units, claimed; -1: there is none. */
static int64_t take_units(struct mpb_core *core, uint32_t row, uint32_t units)
{
    for (uint32_t first = 0, run = 0; first + units <= core->session_unit_count;) {
        while (run < units && mpb_load_relaxed(&core->session_owners[first + run]) == 0)
            run++;
        if (run == units) {
            uint32_t claimed = claim(core, row, first, units);
            if (claimed == units)
                return first;
            give_units(core, row, first, claimed); /* somebody else was faster */
            run = claimed;
        }
        first += run + 1;
        run = 0;
    }
    return -1;
}

bool mpb_session_resize(struct mpb_core *core, uint32_t row, uint32_t topics, uint32_t partitions)
{
    struct mpb_fetch_session *session = &core->fetch_sessions[row];
    uint64_t units = (mpb_session_bytes(topics, partitions) + MPB_SESSION_UNIT_BYTES - 1) / MPB_SESSION_UNIT_BYTES;
    if (units > core->session_unit_count / MPB_SESSION_SHARE)
        return false;
    if (units > session->units || units < session->units / 2) {
        int64_t first = units == 0 ? 0 : take_units(core, row, (uint32_t)units);
        if (first < 0)
            return false;
        MPB_CRASH(core, "session.units_taken");
        give_units(core, row, session->first_unit, session->units);
        session->first_unit = (uint32_t)first;
        session->units = (uint32_t)units;
    }
    session->topics = topics;
    session->partitions = partitions;
    return true;
}

struct mpb_session_topic *mpb_session_topics(const struct mpb_core *core, uint32_t row)
{
    return (void *)core->session_units[core->fetch_sessions[row].first_unit].bytes;
}

struct mpb_session_partition *mpb_session_partitions(const struct mpb_core *core, uint32_t row)
{
    return (void *)(mpb_session_topics(core, row) + core->fetch_sessions[row].topics);
}

/* How much a session is worth, as Kafka compares: followers, then many partitions, then a high id. */
static bool worth_less(const struct mpb_fetch_session *one, uint32_t one_id, bool privileged, uint32_t partitions,
                       uint32_t id)
{
    bool is_privileged = (one->flags & MPB_SESSION_PRIVILEGED) != 0;
    if (is_privileged != privileged)
        return privileged;
    if (one->partitions != partitions)
        return one->partitions < partitions;
    return one_id < id;
}

static bool may_go(const struct mpb_fetch_session *session, const struct mpb_session_wish *wish)
{
    bool for_follower = (wish->flags & MPB_SESSION_PRIVILEGED) != 0;
    bool is_old = mpb_load_relaxed(&session->used_ms) - mpb_load_relaxed(&session->created_ms) > wish->eviction_ms;
    return is_old || (for_follower && (session->flags & MPB_SESSION_PRIVILEGED) == 0);
}

struct victims {
    uint32_t oldest, least; /* rows; `least` of those that may go */
    uint32_t oldest_id, least_id;
};

/* Rows may change while this looks at them: who takes one looks at its word again. */
static struct victims look_for_victims(const struct mpb_core *core, const struct mpb_session_wish *wish)
{
    struct victims found = {0};
    for (uint32_t i = 0; i < core->fetch_session_count; i++) {
        const struct mpb_fetch_session *one = &core->fetch_sessions[i];
        const struct mpb_fetch_session *oldest = &core->fetch_sessions[found.oldest];
        const struct mpb_fetch_session *least = &core->fetch_sessions[found.least];
        uint64_t word = mpb_load_acquire(&one->word);
        if (id_of(word) == 0 || (word & HOLDER) != 0)
            continue;
        if (found.oldest_id == 0 || mpb_load_relaxed(&one->used_ms) < mpb_load_relaxed(&oldest->used_ms)) {
            found.oldest = i;
            found.oldest_id = id_of(word);
        }
        if (may_go(one, wish) &&
            (found.least_id == 0 || worth_less(one, id_of(word), (least->flags & MPB_SESSION_PRIVILEGED) != 0,
                                               least->partitions, found.least_id))) {
            found.least = i;
            found.least_id = id_of(word);
        }
    }
    return found;
}

/* Makes room by Kafka's rules: a session that nobody used for long; else the one that is worth least, if that is less than
 * the new one is worth. The row that is now held and empty, or -1. */
static int64_t evict(struct mpb_core *core, uint32_t slot, const struct mpb_session_wish *wish)
{
    bool privileged = (wish->flags & MPB_SESSION_PRIVILEGED) != 0;
    for (uint32_t tries = 0; tries < MAKE_TRIES; tries++) {
        struct victims found = look_for_victims(core, wish);
        if (found.oldest_id == 0)
            return -1;
        uint32_t row = found.oldest, id = found.oldest_id;
        if (wish->now_ms - mpb_load_relaxed(&core->fetch_sessions[row].used_ms) <= wish->eviction_ms) {
            row = found.least;
            id = found.least_id;
            if (id == 0 || !worth_less(&core->fetch_sessions[row], id, privileged, wish->partitions, 0))
                return -1;
        }
        if (!take(core, slot, row, (uint64_t)id << 32))
            continue;
        give_units(core, row, core->fetch_sessions[row].first_unit, core->fetch_sessions[row].units);
        core->fetch_sessions[row].units = 0;
        mpb_count(core, slot, MPB_C_FETCH_SESSIONS_EVICTED, 1);
        return row;
    }
    return -1;
}

static int64_t take_row(struct mpb_core *core, uint32_t slot, const struct mpb_session_wish *wish)
{
    for (uint32_t i = 0; i < core->fetch_session_count; i++)
        if (mpb_load_relaxed(&core->fetch_sessions[i].word) == 0 && take(core, slot, i, 0)) {
            core->fetch_sessions[i].units = 0;
            return i;
        }
    return evict(core, slot, wish);
}

static uint32_t new_id(const struct mpb_core *core, uint32_t row)
{
    uint32_t bits = row_bits(core), chosen;
    if (getrandom(&chosen, sizeof chosen, GRND_NONBLOCK) != sizeof chosen)
        chosen = (uint32_t)time(NULL) * 2654435761u;
    chosen &= INT32_MAX;
    if (chosen >> bits == 0)
        chosen |= 1u << 30; /* no id is 0 */
    return chosen >> bits << bits | row;
}

uint32_t mpb_session_create(struct mpb_core *core, uint32_t slot, const struct mpb_session_wish *wish, uint32_t *row)
{
    int64_t taken = take_row(core, slot, wish);
    if (taken < 0) {
        mpb_count(core, slot, MPB_C_FETCH_SESSIONS_REFUSED, 1);
        return 0;
    }
    *row = (uint32_t)taken;
    MPB_CRASH(core, "session.row_taken");
    if (!mpb_session_resize(core, *row, wish->topics, wish->partitions)) {
        mpb_session_drop(core, *row);
        mpb_count(core, slot, MPB_C_FETCH_SESSIONS_REFUSED, 1);
        return 0;
    }
    struct mpb_fetch_session *session = &core->fetch_sessions[*row];
    uint32_t id = new_id(core, *row);
    session->fill_number = 0;
    session->epoch = 1;
    session->flags = wish->flags;
    mpb_store_relaxed(&session->created_ms, wish->now_ms);
    mpb_store_relaxed(&session->used_ms, wish->now_ms);
    mpb_store_release(&session->word, word_of(id, slot));
    mpb_count(core, slot, MPB_C_FETCH_SESSIONS_MADE, 1);
    return id;
}

uint32_t mpb_session_recover(struct mpb_core *core, uint32_t slot)
{
    uint32_t dropped = 0;
    for (uint32_t row = 0; row < core->fetch_session_count; row++) {
        struct mpb_fetch_session *session = &core->fetch_sessions[row];
        if ((mpb_load_acquire(&session->word) & HOLDER) != slot + 1)
            continue;
        session->units = 0;
        give_units(core, row, 0, core->session_unit_count); /* also a run that no row names yet, or not any more */
        MPB_CRASH(core, "session.recovered_units");
        mpb_store_release(&session->word, 0);
        dropped++;
    }
    return dropped;
}
