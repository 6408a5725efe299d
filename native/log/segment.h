/* Segment files: their names, and each process's bounded cache of their descriptors. A cached descriptor is found by
 * topic id, partition, base offset and segment id, so that a file unlinked and created again under the same name is
 * never taken for the old one (append rule 10: acknowledged records once went into an unlinked inode). */
#ifndef MPB_SEGMENT_H
#define MPB_SEGMENT_H

#include "log/log.h"

#define MPB_SEGMENT_PATH_BYTES 320

/* "topic-0/00000000000000000042.index", with ".deleted" behind if asked. */
void mpb_segment_path(char out[MPB_SEGMENT_PATH_BYTES], const struct mpb_partition *row, int64_t base,
                      enum mpb_segment_file file, bool deleted);

/* Active segment: the selector value that committed it. Older ones: the truncation count with the top bit set, because
 * their files change only by a truncation. */
uint64_t mpb_segment_id(const struct mpb_partition_copy *copy, int64_t base);

/* Descriptor of one file of a segment, opened if need be; stays valid until the next call but seven. A negative errno
 * if it cannot be opened; a retired segment is also looked for under its ".deleted" name. */
int mpb_segment_fd(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                   int64_t base, enum mpb_segment_file file);

/* The same for the index of aborted transactions of the active segment, which is made if there is none. */
int mpb_segment_txn_index_fd(struct mpb_log *log, const struct mpb_partition *row,
                             const struct mpb_partition_copy *copy);

/* Creates the three empty files of a new segment, over empty ones and indexes that a dead process left under those names,
 * and removes an index of aborted transactions. -EEXIST: a log with records has that name, and nothing was changed. */
int mpb_segment_create(struct mpb_log *log, const struct mpb_partition *row, int64_t base);

/* Removes the files of a segment that did not come to its commit; none if its log holds anything: then it is not that. */
int mpb_segment_unmake(struct mpb_log *log, const struct mpb_partition *row, int64_t base);

/* Removes the files of a segment, indexes before log. */
int mpb_segment_unlink(struct mpb_log *log, const struct mpb_partition *row, int64_t base);

/* Renames them to ".deleted", indexes before log; what is not there counts as done. Returns 0 or a negative errno. */
int mpb_segment_retire(struct mpb_log *log, const struct mpb_partition *row, int64_t base);

/* Size in bytes of one file, indexes rounded down to whole entries; or a negative errno. A missing index is empty. */
int64_t mpb_segment_bytes(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                          int64_t base, enum mpb_segment_file file);

void mpb_segment_close_partition(struct mpb_log *log, uint32_t ordinal);
void mpb_segment_close_all(struct mpb_log *log);

/* Whether what is open is still a segment of the partition: not of one that was unlinked and made again. */
bool mpb_segment_is_current(const struct mpb_open_segment *segment, const struct mpb_partition *row,
                            const struct mpb_partition_copy *copy);
/* Empties a place of the cache; an empty one stays empty. */
void mpb_segment_close(struct mpb_open_segment *segment);

#endif
