/* Which replicas are in sync, as their leader sees it: what followers said in their fetches, the high watermark that follows
 * from it, and the changes of the ISR that the agent proposes to the controller (KIP-497, KIP-841).
 *
 * The high watermark is the least log end of the maximal ISR and of positions told in the current leader epoch only; it goes
 * forward only, and stands still below min.insync.replicas. A replica that is to join counts in the maximal ISR at once, one
 * that is to leave counts until the controller has answered. */
#ifndef MPB_ISR_H
#define MPB_ISR_H

#include "log/leader_epochs.h"
#include "log/log.h"

/* The high watermark of a leader's state whose end, ISR or followers changed, into `next`. */
void mpb_isr_raise_high_watermark(struct mpb_core *core, const struct mpb_partition *row,
                                  struct mpb_partition_copy *next);

struct mpb_follower_fetch {
    int32_t broker;
    int64_t broker_epoch; /* -1: it says none */
    int32_t leader_epoch; /* -1: it says none */
    int64_t offset;       /* what it asks for: its log end */
    int32_t last_epoch;   /* of its last record, -1: none, or not told */
    int64_t log_start;
    int64_t now_ms; /* monotonic */
    const uint8_t *topic_id;
};

struct mpb_follower_answer {
    int error;
    bool ask_file;                  /* nothing was done: only the file knows where its last epoch ended */
    struct mpb_epoch_end diverging; /* epoch -1: its log is a prefix of this one */
    bool proposed;                  /* a change of the ISR waits for the agent */
};

/* A follower fetches: fenced and compared with the log, then its position counts. With a diverging end or an error nothing
 * counts: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (also for who has no replica),
 * OFFSET_OUT_OF_RANGE. */
void mpb_follower_fetched(struct mpb_log *log, uint32_t ordinal, const struct mpb_follower_fetch *fetch,
                          struct mpb_follower_answer *out);

struct mpb_isr_proposal {
    uint32_t ordinal;
    int32_t leader_epoch;
    int32_t partition_epoch;
    uint32_t isr_count;
    int32_t isr[MPB_MAX_REPLICAS];
};

/* Proposes to leave out whoever has not caught up for `lag_ms`. Looks at one partition; 0 or a Kafka error. */
int mpb_isr_shrink(struct mpb_log *log, uint32_t ordinal, int64_t lag_ms, int64_t now_ms);
/* The pending proposal of a partition, which from now on counts as sent. `again`: also one that was sent, for the
 * successor of who sent it. 1: it is in `out`; 0: none; REQUEST_TIMED_OUT: there may be one, the lock is not to be had. */
int mpb_isr_take_proposal(struct mpb_log *log, uint32_t ordinal, bool again, struct mpb_isr_proposal *out);
/* The controller's answer: 0 with the ISR in force since; what it refused for good (INELIGIBLE_REPLICA,
 * OPERATION_NOT_ATTEMPTED) is taken back; what says that the leadership is news here waits for LeaderAndIsr; the rest is
 * proposed again. */
int mpb_isr_answered(struct mpb_log *log, const struct mpb_isr_proposal *answer, int error);

#endif
