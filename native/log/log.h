/* One process's way to the logs: descriptors of the log directories, the cache of open segments, the lists of segment
 * bases. Made by each worker after its fork (log_open.h); holds nothing that must survive it. All truth is in the
 * partition rows and the files. Functions return 0 or a Kafka error code unless they say otherwise. */
#ifndef MPB_LOG_H
#define MPB_LOG_H

#include "shm/core.h"
#include "shm/counters.h"
#include "record/kafka_errors.h"

#define MPB_MAX_LOG_DIRS 32
#define MPB_NO_REQUEST UINT32_MAX
#define MPB_SEGMENT_WAYS 8
#define MPB_DEFAULT_OPEN_SEGMENTS 256
#define MPB_INDEX_ENTRY_BYTES 8       /* int32 offset - base, int32 file position */
#define MPB_TIME_INDEX_ENTRY_BYTES 12 /* int64 timestamp, int32 offset - base */
#define MPB_TXN_INDEX_ENTRY_BYTES 34  /* int16 version 0; producer id, first, last and last stable offset, int64 each */

enum mpb_segment_file {
    MPB_FILE_LOG = 0,
    MPB_FILE_INDEX = 1,
    MPB_FILE_TIME_INDEX = 2,
    MPB_SEGMENT_FILES = 3,  /* those that every segment has */
    MPB_FILE_TXN_INDEX = 3, /* only where a transaction was aborted (txn_index.h) */
    MPB_ALL_SEGMENT_FILES = 4
};

struct mpb_open_segment { /* one place of the cache of descriptors; `used` 0: empty */
    uint64_t used;
    uint32_t ordinal;
    uint32_t partition;
    uint8_t topic_id[16];
    int64_t base;
    uint64_t id; /* mpb_segment_id */
    int fd[MPB_ALL_SEGMENT_FILES];
};

struct mpb_segment_list {
    uint8_t topic_id[16];
    int64_t active_base;
    uint32_t truncations;
    uint32_t count;
    uint32_t capacity;
    bool valid;
    int64_t *bases; /* ascending, none above active_base */
};

struct mpb_log {
    struct mpb_core *core;
    uint32_t slot;
    uint32_t dir_count;
    int dir_fd[MPB_MAX_LOG_DIRS];
    struct mpb_open_segment *open_segments; /* set-associative: MPB_SEGMENT_WAYS places a set */
    uint32_t segment_sets;
    uint64_t tick;
    struct mpb_segment_list **lists; /* by ordinal, made at first use */
    uint32_t producer_hint;
    uint32_t producers_taken_seen; /* rows of producers looked at since one was free, or was freed */
    uint32_t producers_freed_seen;
    uint32_t room_hint;       /* producer_room.c: where the search for a row to free goes on */
    uint32_t room_freed_seen; /* rows freed until its last search */
    uint32_t room_pause;      /* refusals until the next one while none is freed; 0: the last found something */
    uint64_t producer_looks;  /* at rows of producers, in search of one for a new producer */
};

/* A call on a file of the partition failed: counted, left for the log keeper's line, and the log directory goes offline
 * if io_error.h says so. Takes a negative errno; returns KAFKA_STORAGE_ERROR. */
int mpb_log_io_error(struct mpb_log *log, const struct mpb_partition *row, int error);
/* The same for calls of which one was a sync. */
int mpb_log_sync_error(struct mpb_log *log, const struct mpb_partition *row, int error);
/* Counts a failed call and leaves its negative errno and partition in the process table, for the log keeper's line. */
void mpb_log_note_error(struct mpb_log *log, const struct mpb_partition *row, int error);
static inline void mpb_log_count(struct mpb_log *log, enum mpb_counter counter, uint64_t n)
{
    mpb_count(log->core, log->slot, counter, n);
}

bool mpb_log_dir_online(const struct mpb_core *core, uint32_t log_dir);
/* Takes a log directory offline until the broker is started again. */
void mpb_log_dir_fail(struct mpb_core *core, uint32_t log_dir);
/* A directory whose disk was full at the start is read, and retention works there; nothing is appended until the log
 * keeper has found room. */
void mpb_log_dir_refuse_appends(struct mpb_core *core, uint32_t log_dir, bool refuse);
bool mpb_log_dir_takes_appends(const struct mpb_core *core, uint32_t log_dir);
/* What the coordinator writes goes into what the reserve left (reserve_file.py), or consumers of groups could not read;
 * until that is spent. */
void mpb_log_dir_refuse_groups(struct mpb_core *core, uint32_t log_dir, bool refuse);
bool mpb_log_takes_own_appends(const struct mpb_log *log, uint32_t log_dir);

#endif
