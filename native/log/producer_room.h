/* Room in the table of producers, of all partitions: a new producer of one partition is not refused because of another
 * partition's. */
#ifndef MPB_PRODUCER_ROOM_H
#define MPB_PRODUCER_ROOM_H

#include "log/log.h"

/* Frees the row of a producer that wrote a single batch, else of one that wrote more, of those it comes by the one that wrote
 * longest ago; never of one in a transaction. Takes that partition's lock, so the caller holds none. False: there is no such
 * row, or its partition is busy; true: it may be tried again. */
bool mpb_producers_make_room(struct mpb_log *log);

/* Whether the last search found nothing and nothing was freed since: who writes for the first time does so in a row that
 * was freed, so there is no more to find. */
bool mpb_producers_have_no_room(struct mpb_log *log);

#endif
