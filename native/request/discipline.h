/* Queueing disciplines of the data plane. A discipline is two functions: of a request, its class (a processor asks, when
 * it fills the entry); of the classes, which is next (a handler asks, when it takes a request). A class is a ring
 * (plane.h), so neither function moves anything: they choose where a hint goes and where a handler looks first, and
 * claiming is what it was (request rules 1 to 5). What they know is private memory of the process that asks and dies with
 * it; nothing of it must be right for a request to be answered.
 *
 *   fifo, plane   one class
 *   priority      the controller's requests by rank, then all others; a share for each class that waits
 *   fair          clients by hash; deficit round robin by the time that handlers spent
 *   shortest      by the time expected of the API and the size; a share for each class that waits
 *   deadline      the earliest of arrival + what the class may wait
 *
 * Class 0 is also where requests of a listener wait that keeps `fifo` beside another's discipline. */
#ifndef MPB_DISCIPLINE_H
#define MPB_DISCIPLINE_H

#include "shm/core.h"

enum mpb_discipline {
    MPB_FIFO = 0,
    MPB_PLANE_ALONE = 1, /* KIP-291: the control plane goes first, within the data plane there is one class */
    MPB_PRIORITY = 2,
    MPB_FAIR = 3,
    MPB_SHORTEST = 4,
    MPB_DEADLINE = 5,
    MPB_DISCIPLINES = 6,
    MPB_DEADLINE_REST = 6, /* of a processor: a listener that keeps `fifo` while the handlers go by deadlines */
};

#define MPB_CLASSES MPB_CLASS_REQUEUED /* of a plane, 0 .. 6 */
#define MPB_SHARE 8u          /* strict disciplines: every so many-th request comes from the class whose turn it is */
#define MPB_QUANTUM_NS 200000 /* fair: what a class that waits gets in a round */
#define MPB_PERTURB_SHIFT 33  /* fair: clients meet in a class for 8.6 s, then they are hashed anew */

/* What a processor learned of how long requests take. */
#define MPB_LEARNED_APIS 128
#define MPB_LEARNED_SIZES 8 /* below 256 bytes, 1 KiB, 4 KiB ... 1 MiB, above */
struct mpb_expected {
    uint32_t ns[MPB_LEARNED_APIS][MPB_LEARNED_SIZES]; /* 0: nothing yet */
};

/* Classes that requests of this discipline are put into. */
uint32_t mpb_discipline_classes(uint32_t discipline);
/* First function. The entry is filled but for its class; `client_hash` as in struct mpb_submission, `arrived_ns`
 * monotonic; `expected` of the processor, of use for MPB_SHORTEST alone. */
uint32_t mpb_class_of(uint32_t discipline, struct mpb_entry *entry, uint32_t client_hash, uint64_t arrived_ns,
                      const struct mpb_expected *expected);
/* What a request took (`entry->service_ns`), once it is answered. */
void mpb_expected_learn(struct mpb_expected *expected, const struct mpb_entry *entry);

/* A handler's half. */
struct mpb_chooser { /* private */
    uint32_t discipline;
    uint32_t takes;    /* since a class had its share */
    uint32_t share_of; /* the class that had it last */
    uint32_t turn;     /* fair: the class that is served */
    int64_t deficit_ns[MPB_CLASSES];
};

/* Second function, and the taking: the next request of the data plane for `owner`, row or -1. */
int64_t mpb_discipline_take(struct mpb_core *core, struct mpb_chooser *chooser, uint32_t owner);
/* A handler spent so long on a request of that class. */
void mpb_discipline_charge(struct mpb_chooser *chooser, uint32_t ring_class, uint64_t ns);
/* Whether it wants to know. */
static inline bool mpb_discipline_measures(uint32_t discipline)
{
    return discipline == MPB_FAIR || discipline == MPB_SHORTEST;
}

#endif
