#include "request/discipline.h"
#include "request/plane.h"

#define FETCH_KEY 1
#define LARGE_PRODUCE 16384u

static const uint8_t CLASSES[MPB_DISCIPLINES] = {1, 1, 4, MPB_CLASSES, MPB_CLASSES, 6};

uint32_t mpb_discipline_classes(uint32_t discipline) { return discipline < MPB_DISCIPLINES ? CLASSES[discipline] : 1; }

/* ------------------------------------------------------------------ of a request, its class */
/* The keys that `mpbroker.control.classify` names, ranked: who leads decides which data requests are answered at all. */
static uint32_t rank_of(int16_t key)
{
    switch (key) {
    case 4: /* LeaderAndIsr */
        return 1;
    case 5:  /* StopReplica */
    case 7:  /* ControlledShutdown */
    case 56: /* AlterPartition */
    case 67: /* AllocateProducerIds */
        return 2;
    case 6: /* UpdateMetadata */
        return 3;
    default:
        return 0;
    }
}

/* Who sends no name is told apart by connection. Neighbours in a class change with time. */
static uint32_t client_class(const struct mpb_entry *entry, uint32_t client_hash, uint64_t now_ns)
{
    uint64_t who = client_hash != 0 ? client_hash : (uint64_t)entry->connection << 32 | entry->connection_generation;
    uint64_t mixed = (who ^ (now_ns >> MPB_PERTURB_SHIFT) * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
    mixed = (mixed ^ mixed >> 33) * 0xc4ceb9fe1a85ec53ull;
    return 1 + (uint32_t)((mixed >> 32) % (MPB_CLASSES - 1));
}

static uint32_t size_of(uint32_t bytes)
{
    uint32_t bits = bytes < 256 ? 0 : (33u - (uint32_t)__builtin_clz(bytes >> 8)) / 2;
    return bits < MPB_LEARNED_SIZES ? bits : MPB_LEARNED_SIZES - 1;
}

/* Below 16 us, 64 us, 256 us, 1 ms, 4 ms, and more: classes 1 to 6. */
static uint32_t service_class(uint32_t ns)
{
    uint32_t ticks = ns >> 14, bits = ticks == 0 ? 0 : (33u - (uint32_t)__builtin_clz(ticks)) / 2;
    return bits < MPB_CLASSES - 2 ? 1 + bits : MPB_CLASSES - 1;
}

static uint32_t expected_class(const struct mpb_entry *entry, const struct mpb_expected *expected)
{
    uint32_t key = (uint16_t)entry->api_key;
    uint32_t ns = expected != NULL && key < MPB_LEARNED_APIS ? expected->ns[key][size_of(entry->payload_length)] : 0;
    return ns == 0 ? 0 : service_class(ns);
}

/* What a class of `deadline` may wait (docs/operations.md says it to users). */
static const uint64_t TARGET_NS[MPB_CLASSES] = {100000000, 2000000, 10000000, 20000000, 50000000, 50000000};

static uint32_t target_class(const struct mpb_entry *entry)
{
    switch (entry->api_key) {
    case 8:  /* OffsetCommit */
    case 11: /* JoinGroup */
    case 12: /* Heartbeat */
    case 13: /* LeaveGroup */
    case 14: /* SyncGroup */
    case 68: /* ConsumerGroupHeartbeat */
    case 76: /* ShareGroupHeartbeat */
        return 2;
    case 0: /* Produce */
        return entry->payload_length < LARGE_PRODUCE ? 3 : 4;
    case FETCH_KEY:
        return 5;
    default:
        return rank_of(entry->api_key) != 0 ? 1 : 0;
    }
}

uint32_t mpb_class_of(uint32_t discipline, struct mpb_entry *entry, uint32_t client_hash, uint64_t arrived_ns,
                      const struct mpb_expected *expected)
{
    uint32_t target = 0;
    switch (discipline) {
    case MPB_PRIORITY:
        return rank_of(entry->api_key);
    case MPB_FAIR:
        return client_class(entry, client_hash, arrived_ns);
    case MPB_SHORTEST:
        return expected_class(entry, expected);
    case MPB_DEADLINE:
        target = target_class(entry);
        break;
    default:
        break;
    }
    mpb_store_relaxed(&entry->due_ns, arrived_ns + TARGET_NS[target]);
    return target;
}

void mpb_expected_learn(struct mpb_expected *expected, const struct mpb_entry *entry)
{
    uint32_t key = (uint16_t)entry->api_key, took = entry->service_ns;
    if (key >= MPB_LEARNED_APIS || took == 0)
        return;
    uint32_t *ns = &expected->ns[key][size_of(entry->payload_length)];
    *ns = *ns == 0 ? took : *ns - *ns / 8 + took / 8;
}

/* ------------------------------------------------------------------ of the classes, which is next */
#define WAITING (MPB_STATE_BIT(MPB_E_QUEUED) | MPB_STATE_BIT(MPB_E_REQUEUED))

static int64_t take_class(struct mpb_core *core, uint32_t ring_class, uint32_t owner)
{
    struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(MPB_PLANE_DATA, ring_class));
    return mpb_ring_take(&ring, WAITING, MPB_E_CLAIMED, owner);
}

/* The order in which strict disciplines look; what nothing is known of goes in the middle. */
static const uint8_t ORDER[MPB_DISCIPLINES][MPB_CLASSES] = {
    [MPB_FIFO] = {0, 1, 2, 3, 4, 5, 6},
    [MPB_PLANE_ALONE] = {0, 1, 2, 3, 4, 5, 6},
    [MPB_PRIORITY] = {1, 2, 3, 0, 4, 5, 6},
    [MPB_SHORTEST] = {1, 2, 3, 0, 4, 5, 6},
};

/* In `order`, but every MPB_SHARE-th request from the next class that waits, whatever its place. */
static int64_t take_in_order(struct mpb_core *core, struct mpb_chooser *c, uint32_t owner, uint32_t classes)
{
    int64_t index = -1;
    if (++c->takes >= MPB_SHARE) {
        c->takes = 0;
        for (uint32_t i = 1; index < 0 && i <= classes; i++) {
            uint32_t ring_class = (c->share_of + i) % classes;
            index = take_class(core, ring_class, owner);
            c->share_of = index < 0 ? c->share_of : ring_class;
        }
        return index;
    }
    for (uint32_t i = 0; index < 0 && i < MPB_CLASSES; i++)
        if (ORDER[c->discipline][i] < classes)
            index = take_class(core, ORDER[c->discipline][i], owner);
    if (index < 0)
        c->takes--; /* nothing waits: nobody's share is due for it */
    return index;
}

/* The heads of the classes were read a moment ago: somebody else may have taken one, then the next best of then it is. */
static int64_t take_earliest(struct mpb_core *core, uint32_t owner, uint32_t classes)
{
    uint64_t due[MPB_CLASSES];
    uint32_t order[MPB_CLASSES], n = 0;
    for (uint32_t c = 0; c < classes; c++) {
        struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(MPB_PLANE_DATA, c));
        int64_t head = mpb_ring_peek(&ring);
        if (head < 0)
            continue;
        uint64_t at = mpb_load_relaxed(&core->entries[head].due_ns);
        uint32_t place = n++;
        for (; place > 0 && due[place - 1] > at; place--) {
            due[place] = due[place - 1];
            order[place] = order[place - 1];
        }
        due[place] = at;
        order[place] = c;
    }
    int64_t index = -1;
    for (uint32_t i = 0; index < 0 && i < n; i++)
        index = take_class(core, order[i], owner);
    return index;
}

/* As many rounds as it takes until a class that waits has something to spend; false: none waits. Debts are paid by who does
 * not wait as well, but nobody saves up. */
static bool next_rounds(struct mpb_core *core, struct mpb_chooser *c, uint32_t classes)
{
    int64_t rounds = INT64_MAX;
    bool waits[MPB_CLASSES];
    for (uint32_t i = 0; i < classes; i++) {
        struct mpb_ring ring = mpb_ring_view(core, mpb_plane_ring(MPB_PLANE_DATA, i));
        waits[i] = !mpb_ring_empty(&ring);
        int64_t needs = c->deficit_ns[i] > 0 ? 0 : -c->deficit_ns[i] / MPB_QUANTUM_NS + 1;
        if (waits[i] && needs < rounds)
            rounds = needs;
    }
    if (rounds == INT64_MAX)
        return false;
    for (uint32_t i = 0; i < classes; i++) {
        c->deficit_ns[i] += rounds * MPB_QUANTUM_NS;
        if (!waits[i] && c->deficit_ns[i] > 0)
            c->deficit_ns[i] = 0;
    }
    return true;
}

static int64_t take_in_turn(struct mpb_core *core, struct mpb_chooser *c, uint32_t owner, uint32_t classes)
{
    for (uint32_t i = 0; i < classes; i++) {
        uint32_t ring_class = (c->turn + i) % classes;
        if (c->deficit_ns[ring_class] <= 0)
            continue;
        int64_t index = take_class(core, ring_class, owner);
        if (index >= 0) {
            c->turn = ring_class;
            return index;
        }
        c->deficit_ns[ring_class] = 0; /* it waits for nothing: its turn is over */
    }
    return -1;
}

static int64_t take_fairly(struct mpb_core *core, struct mpb_chooser *c, uint32_t owner, uint32_t classes)
{
    for (;;) { /* ends: a round without a request is followed by another only while somebody else takes them */
        int64_t index = take_in_turn(core, c, owner, classes);
        if (index >= 0 || !next_rounds(core, c, classes))
            return index;
    }
}

int64_t mpb_discipline_take(struct mpb_core *core, struct mpb_chooser *chooser, uint32_t owner)
{
    uint32_t classes = mpb_plane_classes(core, MPB_PLANE_DATA);
    int64_t index = take_class(core, MPB_CLASS_REQUEUED, owner);
    if (index >= 0)
        return index;
    if (chooser->discipline == MPB_FAIR)
        return take_fairly(core, chooser, owner, classes);
    if (chooser->discipline == MPB_DEADLINE)
        return take_earliest(core, owner, classes);
    return take_in_order(core, chooser, owner, classes);
}

void mpb_discipline_charge(struct mpb_chooser *chooser, uint32_t ring_class, uint64_t ns)
{
    if (ring_class < MPB_CLASSES)
        chooser->deficit_ns[ring_class] -= (int64_t)ns;
}
