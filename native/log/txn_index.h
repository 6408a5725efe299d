/* The index of aborted transactions (Kafka's .txnindex): entries of 34 bytes, in the order of their markers. A segment has
 * the entries of the abort markers in it, and no such file if there are none. Written under the partition's lock, before
 * the commit of the marker; read without (aborted.h). */
#ifndef MPB_TXN_INDEX_H
#define MPB_TXN_INDEX_H

#include "log/log.h"

struct mpb_aborted {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset; /* of the marker */
    int64_t last_stable; /* behind the marker */
};

void mpb_aborted_write(uint8_t out[MPB_TXN_INDEX_ENTRY_BYTES], const struct mpb_aborted *aborted);
/* False: of a version that is not known. */
bool mpb_aborted_read(const uint8_t in[MPB_TXN_INDEX_ENTRY_BYTES], struct mpb_aborted *out);

/* Writes an entry behind those of the active segment, whose file is made if there is none. Returns 0 or a negative errno. */
int mpb_txn_index_append(struct mpb_log *log, const struct mpb_partition *row, struct mpb_partition_copy *next,
                         const struct mpb_aborted *aborted);
/* Cuts the active segment's file to the committed length, if there is one. Returns 0 or a negative errno. */
int mpb_txn_index_cut(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now);

#endif
