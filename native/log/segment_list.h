/* Which segments a partition has: a process's cached lists of their bases, from the log directory; and which of its open
 * segments are no longer among them. */
#ifndef MPB_SEGMENT_LIST_H
#define MPB_SEGMENT_LIST_H

#include "log/log.h"

/* Bases of the partition's segments, ascending, the active one last. Scanned again after a roll or a truncation. May
 * begin with segments wholly below log start. 0 with *out set, or a negative errno: the directory cannot be read. */
int mpb_segment_list_get(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                         const struct mpb_segment_list **out);

/* Every base that has a log file, committed or not, from a fresh scan; replaces the cached list, which is then scanned
 * again at its next use. 0 or a negative errno. */
int mpb_segment_list_all(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_segment_list **out);

/* Index in the list of the segment that holds `offset`: greatest base at or below it, 0 if there is none. */
uint32_t mpb_segment_list_find(const struct mpb_segment_list *list, int64_t offset);

/* Closes descriptors of files that truncation, retention or deletion has removed, so that their space is freed. To be
 * called now and then by a process that caches. Returns how many places it emptied. */
uint32_t mpb_segment_close_stale(struct mpb_log *log);

#endif
