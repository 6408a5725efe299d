/* A partition's leadership and the end of it, as one commit each, and what is known of both at a start. A new leader's epoch
 * begins before any record of it: successive elections need it (KIP-279). */
#ifndef MPB_BECOME_H
#define MPB_BECOME_H

#include "log/log.h"

struct mpb_new_role {
    enum mpb_replica_role role;
    int32_t leader_epoch;
    int32_t partition_epoch;
    int32_t leader; /* broker id */
    int32_t self;
    int32_t min_isr; /* min.insync.replicas */
    int32_t replicas[MPB_MAX_REPLICAS];
    uint32_t replica_count;
    int32_t isr[MPB_MAX_REPLICAS];
    uint32_t isr_count;
    int64_t now_ms; /* monotonic */
};

/* Takes the role in one commit; a new leader's epoch begins at its log's end, before any record of it. The same role and epoch
 * again changes min.insync.replicas only. 0; FENCED_LEADER_EPOCH for an older epoch, or another role in the same one;
 * INVALID_REQUEST if the lists do not fit; REQUEST_TIMED_OUT: busy, or too many epochs are not written down yet. */
int mpb_become(struct mpb_log *log, uint32_t ordinal, const struct mpb_new_role *role);
/* Leads nothing and follows nobody until told again; the epochs stay. */
int mpb_stop(struct mpb_log *log, uint32_t ordinal);
/* Seeds the ring of epochs at a start: those that the file and the log have, rising; and takes the role NONE. */
int mpb_load_epochs(struct mpb_log *log, uint32_t ordinal, const struct mpb_epoch_start *epochs, uint32_t count);

#endif
