/* What the coordinator's successor must know and the log does not say: generations of groups, member ids that were issued.
 * Rows of shared memory under a 128-bit key, found by scanning: who uses them keeps an index of its own. The coordinator
 * alone writes; `word` is stored last, so that a row is whole or not there whenever its writer is killed. */
#ifndef MPB_KNOWN_ROWS_H
#define MPB_KNOWN_ROWS_H

#include "shm/core.h"

enum mpb_known_kind { MPB_KNOWN_GROUPS = 0, MPB_KNOWN_MEMBERS = 1 };

struct mpb_known_table { /* a view */
    struct mpb_known *rows;
    uint32_t count;
    mpb_atomic32 *high; /* rows from here on were never used: a scan need not touch them */
};

struct mpb_known_table mpb_known_table(struct mpb_core *core, enum mpb_known_kind kind);
/* Fills a free row, or gives a row that has this key another word; `word` is not 0. */
void mpb_known_put(const struct mpb_known_table *table, uint32_t row, const uint8_t key[16], uint64_t word);
void mpb_known_drop(const struct mpb_known_table *table, uint32_t row);
static inline uint64_t mpb_known_word(const struct mpb_known_table *table, uint32_t row)
{
    return mpb_load_acquire(&table->rows[row].word);
}

/* Addresses of connections, by processor and connection number: whose request it is that another process looks at. The
 * connection's generation says whether a row is still about the same one. */
void mpb_address_put(struct mpb_core *core, uint32_t processor, uint32_t number, uint32_t generation,
                     const uint8_t address[16]);
/* False: not known (any more). */
bool mpb_address_of(const struct mpb_core *core, uint32_t processor, uint32_t number, uint32_t generation,
                    uint8_t address[16]);

#endif
