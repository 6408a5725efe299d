/* Compaction of record batches: which records of a log are the newest of their key, and batches without the others. Pure
 * functions over bytes. Facts: Kafka's LogCleaner, KIP-98 (a producer's last batch stays, emptied if need be), KIP-534
 * (the first compaction that meets a tombstone, or a marker of whose transaction nothing is left, writes into its batch
 * when it may go: the delete horizon).
 *
 * What is left of a batch keeps its base offset, last offset delta, producer, sequence and the records' bytes. Records of
 * a compressed batch are handed in by the caller, who also compresses what is left. */
#ifndef MPB_COMPACTION_H
#define MPB_COMPACTION_H

#include "record/key_map.h"
#include "record/producer_set.h"
#include "record/record_batch.h"

struct mpb_producer_end { /* last offset of a producer's newest batch; sorted by id */
    int64_t producer_id;
    int64_t last_offset;
};

/* A transaction that was aborted: what its producer wrote in it counts for nothing. Sorted by id, then offset. */
struct mpb_aborted_range {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset; /* of its marker */
};

struct mpb_aborted_ranges {
    const struct mpb_aborted_range *range;
    size_t count;
};

bool mpb_batch_is_aborted(const struct mpb_aborted_ranges *aborted, const struct mpb_batch_info *info);

struct mpb_compaction {
    struct mpb_aborted_ranges aborted;
    struct mpb_key_map *map;
    int64_t now_ms;
    int64_t delete_retention_ms;
    const struct mpb_producer_end *producers;
    size_t producer_count;
    /* Producers of whom there is a batch of the transaction that is looked at, their marker lies ahead: from the log's
     * beginning, so that a marker goes once nothing of its transaction is left. NULL: markers stay. */
    struct mpb_producer_set *open;
};

enum mpb_compaction_stop {
    MPB_COMPACT_END,        /* no whole batch is left in the bytes given */
    MPB_COMPACT_COMPRESSED, /* the batch there is compressed: its records are needed */
    MPB_COMPACT_FULL,       /* the map takes no further key, or `out` no further batch */
    MPB_COMPACT_CORRUPT,    /* what stands there is no sound batch */
    MPB_COMPACT_UNTIL       /* the batch there begins at or above `until` */
};

/* Puts the keys of the batches in `bytes` into the map, from *at on, of offsets from `from` on, without those of aborted
 * transactions. *at is left at the first batch that was not wholly taken in. */
enum mpb_compaction_stop mpb_compaction_learn(struct mpb_key_map *map, const struct mpb_aborted_ranges *aborted,
                                              const uint8_t *bytes, size_t length, size_t *at, int64_t from,
                                              int64_t until);
/* The same for one batch whose records are handed in. END: taken in. */
enum mpb_compaction_stop mpb_compaction_learn_batch(struct mpb_key_map *map, const struct mpb_batch_info *info,
                                                    const uint8_t *records, size_t length, int64_t from);

/* Copies what stays of the batches in `bytes`, from *at on, to `out`; *produced is what has been written there so far. */
enum mpb_compaction_stop mpb_compaction_apply(const struct mpb_compaction *rules, const uint8_t *bytes, size_t length,
                                              size_t *at, uint8_t *out, size_t capacity, size_t *produced);

enum mpb_compaction_verdict {
    MPB_COMPACT_KEEP,    /* the batch stays as it is */
    MPB_COMPACT_DROP,    /* nothing of it stays */
    MPB_COMPACT_REWRITE, /* `out` holds header and records of what stays */
    MPB_COMPACT_BROKEN   /* its records cannot be read */
};

/* Most bytes that a batch takes when it is rewritten: a delete horizon may lengthen each record's timestamp. */
static inline size_t mpb_compaction_room(size_t records_length, int32_t record_count)
{
    return MPB_BATCH_HEADER_BYTES + records_length + (size_t)(record_count < 0 ? 0 : record_count) * 10;
}

/* What stays of one batch. `records`: decompressed; `out` has mpb_compaction_room bytes. The rewritten header says how
 * many records there are, their largest timestamp and the horizon; length and CRC are set for uncompressed records. */
enum mpb_compaction_verdict mpb_compaction_batch(const struct mpb_compaction *rules, const uint8_t *header,
                                                 const uint8_t *records, size_t length, uint8_t *out,
                                                 size_t *out_length);

/* Length and CRC of a whole batch whose records follow its header. */
void mpb_compaction_seal(uint8_t *batch, size_t length);

#endif
