/* Look-ups in the offset and time index by pread. Both return the greatest entry at or below what is asked for; the
 * caller then reads batch headers forward. Entries are big-endian and ascending; `bytes` is the committed length. */
#ifndef MPB_OFFSET_INDEX_H
#define MPB_OFFSET_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct mpb_index_hit {
    bool found;
    int64_t timestamp; /* time index only */
    uint32_t relative; /* offset - base */
    uint32_t position; /* offset index only */
    uint64_t entries;  /* entries up to and including this one */
};

/* Greatest entry whose relative offset is at most `relative`. 0 or a negative errno. */
int mpb_offset_index_find(int fd, uint64_t bytes, uint32_t relative, struct mpb_index_hit *out);
/* The first entry whose position is at or behind `position`; out->entries: those before it. Begins with `*out` zeroed. */
int mpb_offset_index_from(int fd, uint64_t bytes, uint64_t position, struct mpb_index_hit *out);
/* Greatest entry whose timestamp is at most `timestamp`. */
int mpb_time_index_find(int fd, uint64_t bytes, int64_t timestamp, struct mpb_index_hit *out);
/* Greatest entry of the time index whose relative offset is at most `relative`. */
int mpb_time_index_find_offset(int fd, uint64_t bytes, uint32_t relative, struct mpb_index_hit *out);

#endif
