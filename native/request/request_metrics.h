/* Counts and durations by API, of all requests that a processor finished: what `/metrics` shows. They are exact where the
 * trace is a sample: a record may be dropped or sampled out, a row counts each request. Single writer: the processor
 * whose rows these are (its successor after it); a reader sums over the processors. A request whose processor was killed
 * while it was finished may be counted twice. */
#ifndef MPB_REQUEST_METRICS_H
#define MPB_REQUEST_METRICS_H

#include "shm/core.h"

/* The row of an API; NULL when its key is not one that a broker serves. */
static inline struct mpb_api_row *mpb_api_row_of(const struct mpb_core *core, uint32_t processor, int16_t api_key)
{
    uint32_t key = (uint16_t)api_key; /* a negative one is beyond the rows, too */
    return key < MPB_API_ROWS ? &core->apis[processor * MPB_API_ROWS + key] : NULL;
}

/* Accounts for a request whose answer was sent or dropped. Call it before its trace record is committed. */
void mpb_request_account(struct mpb_core *core, uint32_t processor, struct mpb_entry *entry);

#endif
