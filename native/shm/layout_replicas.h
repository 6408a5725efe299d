/* The part of layout.h that only a broker of a cluster has: what a partition's leader knows of its followers, and where the
 * last leader epochs began. One row for each row of `partitions`; none in a broker that is alone. Written under the partition's
 * lock; it needs no second copy: each part is either named by the copy in force or carries its own tag. */
#ifndef MPB_LAYOUT_REPLICAS_H
#define MPB_LAYOUT_REPLICAS_H

#include <stdint.h>
#include "shm/atomics.h"

#define MPB_MAX_REPLICAS 16
#define MPB_KEPT_EPOCHS 32

enum mpb_replica_role {
    MPB_ROLE_LEADER = 0,
    MPB_ROLE_FOLLOWER = 1,
    MPB_ROLE_NONE = 2 /* no controller has said yet, or there is no replica here */
};

struct mpb_replica_place { /* a line: what a follower said in its last fetch */
    mpb_atomic64 tag;      /* leader epoch 32 | broker id 32, + 1: of whom, and under which leader; 0: of nobody */
    mpb_atomic64 leo;      /* stored last but for a new tag */
    int64_t log_start;
    int64_t leader_leo;   /* the leader's log end then */
    int64_t fetched_ms;   /* the broker's monotonic clock */
    int64_t caught_up_ms; /* when it last had all that the leader had */
    int64_t broker_epoch;
    uint64_t unused;
};
_Static_assert(sizeof(struct mpb_replica_place) == 64, "place of a replica: a line");

struct mpb_epoch_start {
    int64_t offset;
    int32_t epoch;
    uint32_t is_written; /* 1: it stands in the file (log keeper) */
};

enum mpb_proposal_state { MPB_PROPOSAL_NONE = 0, MPB_PROPOSAL_PENDING = 1, MPB_PROPOSAL_SENT = 2 };

#define MPB_ENDED_PLACES 16
struct mpb_ended {    /* a transaction whose marker was above the high watermark when it was written (log/ended.h) */
    int64_t first;    /* its first offset */
    mpb_atomic64 end; /* behind its marker; stored last. Counts while it is above the high watermark */
};

struct mpb_replicas {
    int32_t ids[2][MPB_MAX_REPLICAS]; /* broker ids by place, -1: none; the copy's `ids_at` names the list in force */
    mpb_atomic64 proposal;            /* an ISR to be asked for: leader epoch 32 | state 16 | places 16; one store */
    int64_t led_since_ms;             /* monotonic clock when its leader epoch began here */
    mpb_atomic32 epochs_low;          /* epochs below this number stand in the file alone */
    uint32_t unused_word;
    mpb_atomic64 ended_end; /* no `end` of those in `ended` is above it */
    uint8_t unused[32];
    struct mpb_epoch_start
        epoch[MPB_KEPT_EPOCHS]; /* by number modulo the size; those from copy.epochs on do not count */
    struct mpb_replica_place place[MPB_MAX_REPLICAS];
    struct mpb_ended ended[MPB_ENDED_PLACES];
};
_Static_assert(sizeof(struct mpb_replicas) == 128 + 64 + 512 + 1024 + 256, "replicas row");

#endif
