/* Producer rows that dead processes lost, of all partitions. */
#ifndef MPB_PRODUCER_SWEEP_H
#define MPB_PRODUCER_SWEEP_H

#include "log/log.h"

/* Frees rows that a dead process took but never chained. Takes each owner's lock in turn, so the caller holds none. */
uint32_t mpb_producers_sweep(struct mpb_log *log);

#endif
