/* Where the last leader epochs of a partition began (KIP-101), in shared memory: a ring of which the state in force says how
 * many there are, so that an epoch begins and a truncation cuts in the same commit that moves the ends. Older ones stand in
 * the file alone (mpbroker/log/leader_epochs.py). Under the partition's lock; without rows in a broker that is alone. */
#ifndef MPB_LEADER_EPOCHS_H
#define MPB_LEADER_EPOCHS_H

#include "log/log.h"

#define MPB_UNDEFINED_EPOCH (-1)

/* The partition's row of `replicas`; NULL in a broker that is alone. */
struct mpb_replicas *mpb_replicas_of(const struct mpb_core *core, const struct mpb_partition *row);
/* As for a partition that never had any. */
void mpb_replicas_forget(const struct mpb_core *core, const struct mpb_partition *row);

/* `epoch` begins at `offset`: into a place of the ring that no state in force names, and into `next`, which commits it.
 * Nothing if it began already. False: the ring is full of epochs that the log keeper has not written down yet. */
bool mpb_epochs_begin(const struct mpb_core *core, const struct mpb_partition *row, struct mpb_partition_copy *next,
                      int32_t epoch, int64_t offset);
/* Takes those that began at or beyond `offset` out of `next`. */
void mpb_epochs_cut(const struct mpb_core *core, const struct mpb_partition *row, struct mpb_partition_copy *next,
                    int64_t offset);

/* Takes all out of `next`, those that stand in the file alone, too. */
void mpb_epochs_clear(struct mpb_partition_copy *next);

/* Those of `written` (rising) that are still here stand in the file: their places may be taken. */
void mpb_epochs_written(const struct mpb_core *core, const struct mpb_partition *row,
                        const struct mpb_epoch_start *written, uint32_t count);

/* Those in memory, oldest first, each beginning beyond the one before. Returns how many; *has_older: the file knows more. */
uint32_t mpb_epochs_read(const struct mpb_core *core, const struct mpb_partition *row,
                         const struct mpb_partition_copy *copy, struct mpb_epoch_start out[MPB_KEPT_EPOCHS],
                         bool *has_older);
/* The latest, MPB_UNDEFINED_EPOCH if there is none. */
int32_t mpb_epochs_latest(const struct mpb_core *core, const struct mpb_partition *row,
                          const struct mpb_partition_copy *copy);

struct mpb_epoch_end { /* both -1: not known, as Kafka's leader answers */
    int32_t epoch;
    int64_t offset;
};

/* Where `asked` ended here. False: only the file can tell. */
bool mpb_epochs_end_of(const struct mpb_core *core, const struct mpb_partition *row,
                       const struct mpb_partition_copy *copy, int32_t asked, struct mpb_epoch_end *out);

#endif
