/* The part of layout.h that only a broker of a cluster has: who leads and holds the cluster's partitions, one row for each
 * row of `partitions`, and the brokers that live. Rows have two copies and a selector (low bit: copy in force), written by
 * the controller process alone, read by everybody (cluster.h). */
#ifndef MPB_LAYOUT_CLUSTER_H
#define MPB_LAYOUT_CLUSTER_H

#include <stdint.h>
#include "shm/atomics.h"

#define MPB_MAX_ASSIGNED 16   /* replicas of a partition */
#define MPB_MAX_BROKERS 64    /* of the cluster */
#define MPB_BROKER_BYTES 4048 /* of a broker's endpoints and rack, as MessagePack */

struct mpb_assignment_copy {
    uint8_t topic_id[16]; /* zeros: nothing is known of the row's partition */
    int32_t partition;
    int32_t leader; /* -1: none */
    int32_t leader_epoch;
    int32_t partition_epoch;
    int32_t controller_epoch;
    uint8_t replica_count;
    uint8_t isr_count;
    uint8_t offline_count;
    uint8_t unused;
    int32_t replicas[MPB_MAX_ASSIGNED];
    int32_t isr[MPB_MAX_ASSIGNED];
    int32_t offline[MPB_MAX_ASSIGNED];
    uint64_t unused1[3];
};
_Static_assert(sizeof(struct mpb_assignment_copy) == 256, "assignment copy: whole lines");

struct mpb_assignment {
    mpb_atomic64 selector;
    uint64_t unused[7];
    struct mpb_assignment_copy copy[2];
};

struct mpb_broker_copy {
    int32_t id;
    uint32_t length; /* of `endpoints`; 0: nobody */
    int64_t epoch;   /* of its registration */
    uint8_t endpoints[MPB_BROKER_BYTES];
};

struct mpb_broker {
    mpb_atomic64 selector;
    uint64_t unused[3];
    struct mpb_broker_copy copy[2];
};
_Static_assert(sizeof(struct mpb_broker) == 32 + 2 * 4064, "broker row");

#endif
