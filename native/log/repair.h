/* What a dead or failing holder of a partition's lock left undone: finished if its selector store happened, undone if
 * not. Every step may run twice, so a repairer may die too. */
#ifndef MPB_REPAIR_H
#define MPB_REPAIR_H

#include "log/log.h"

/* The caller holds the lock and the row's intent word is not zero. 0 with the intent cleared; or KAFKA_STORAGE_ERROR
 * with the intent left for the next one who locks (append rule 3). */
int mpb_repair(struct mpb_log *log, struct mpb_partition *row);

#endif
