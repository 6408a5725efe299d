#include "log/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "log/io_error.h"
#include "log/log_io.h"
#include "log/partition_row.h"

static const char *const SUFFIX[MPB_ALL_SEGMENT_FILES] = {".log", ".index", ".timeindex", ".txnindex"};
static const enum mpb_segment_file INDEX_FIRST[MPB_ALL_SEGMENT_FILES] = {MPB_FILE_INDEX, MPB_FILE_TIME_INDEX,
                                                                         MPB_FILE_TXN_INDEX, MPB_FILE_LOG};

static char *put_text(char *out, const char *text)
{
    while (*text != '\0')
        *out++ = *text++;
    return out;
}

void mpb_segment_path(char out[MPB_SEGMENT_PATH_BYTES], const struct mpb_partition *row, int64_t base,
                      enum mpb_segment_file file, bool deleted)
{
    uint32_t length = row->dir_length < sizeof row->dir ? row->dir_length : sizeof row->dir - 1;
    memcpy(out, row->dir, length);
    out[length] = '/';
    char *digit = out + length + 20;
    char *end = digit + 1;
    for (uint64_t rest = (uint64_t)base; digit > out + length; rest /= 10)
        *digit-- = (char)('0' + rest % 10);
    end = put_text(end, SUFFIX[file]);
    if (deleted)
        end = put_text(end, ".deleted");
    *end = '\0';
}

uint64_t mpb_segment_id(const struct mpb_partition_copy *copy, int64_t base)
{
    return base == copy->active_base ? copy->segment_id : (uint64_t)1 << 63 | copy->truncations;
}

void mpb_segment_close(struct mpb_open_segment *segment)
{
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++) {
        if (segment->fd[file] >= 0 && segment->used != 0)
            mpb_io_close(segment->fd[file]);
        segment->fd[file] = -1;
    }
    segment->used = 0;
}

static bool is_segment(const struct mpb_open_segment *segment, const struct mpb_partition *row, int64_t base,
                       uint64_t id)
{
    return segment->used != 0 && segment->base == base && segment->id == id && segment->partition == row->partition &&
           memcmp(segment->topic_id, row->topic_id, sizeof row->topic_id) == 0;
}

bool mpb_segment_is_current(const struct mpb_open_segment *segment, const struct mpb_partition *row,
                            const struct mpb_partition_copy *copy)
{
    return is_segment(segment, row, segment->base, mpb_segment_id(copy, segment->base));
}

static struct mpb_open_segment *cache_place(struct mpb_log *log, const struct mpb_partition *row, int64_t base,
                                            uint64_t id)
{
    uint32_t ordinal = (uint32_t)(row - log->core->partitions);
    uint64_t hash = ((uint64_t)ordinal * 0x9e3779b97f4a7c15ull) ^ ((uint64_t)base * 0xbf58476d1ce4e5b9ull);
    struct mpb_open_segment *set = log->open_segments + (hash >> 33) % log->segment_sets * MPB_SEGMENT_WAYS;
    struct mpb_open_segment *oldest = set;
    for (uint32_t i = 0; i < MPB_SEGMENT_WAYS; i++) {
        if (is_segment(&set[i], row, base, id)) {
            set[i].used = ++log->tick;
            return &set[i];
        }
        if (set[i].used < oldest->used)
            oldest = &set[i];
    }
    if (oldest->used != 0)
        mpb_segment_close(oldest);
    oldest->used = ++log->tick;
    oldest->ordinal = ordinal;
    oldest->partition = row->partition;
    memcpy(oldest->topic_id, row->topic_id, sizeof row->topic_id);
    oldest->base = base;
    oldest->id = id;
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++)
        oldest->fd[file] = -1;
    return oldest;
}

/* A process at its descriptor limit gives back every cached one but those of `keep`. */
static void close_others(struct mpb_log *log, const struct mpb_open_segment *keep)
{
    for (uint32_t i = 0; i < log->segment_sets * MPB_SEGMENT_WAYS; i++)
        if (&log->open_segments[i] != keep && log->open_segments[i].used != 0)
            mpb_segment_close(&log->open_segments[i]);
}

static int open_file(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_open_segment *segment,
                     enum mpb_segment_file file, int flags)
{
    char path[MPB_SEGMENT_PATH_BYTES];
    if (row->log_dir >= log->dir_count)
        return -ENOENT;
    mpb_segment_path(path, row, segment->base, file, false);
    int fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDWR | flags);
    if (mpb_io_error_wants_descriptors(fd)) {
        close_others(log, segment);
        fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDWR | flags);
    }
    if (fd == -ENOENT && segment->id >> 63 != 0) {
        mpb_segment_path(path, row, segment->base, file, true);
        fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDONLY);
    }
    return fd;
}

static int fd_of(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                 int64_t base, enum mpb_segment_file file, int flags)
{
    struct mpb_open_segment *segment = cache_place(log, row, base, mpb_segment_id(copy, base));
    if (segment->fd[file] < 0) {
        int fd = open_file(log, row, segment, file, flags);
        if (fd < 0)
            return fd;
        segment->fd[file] = fd;
    }
    return segment->fd[file];
}

int mpb_segment_fd(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                   int64_t base, enum mpb_segment_file file)
{
    return fd_of(log, row, copy, base, file, 0);
}

int mpb_segment_txn_index_fd(struct mpb_log *log, const struct mpb_partition *row,
                             const struct mpb_partition_copy *copy)
{
    return fd_of(log, row, copy, copy->active_base, MPB_FILE_TXN_INDEX, O_CREAT);
}

/* A log with records is not made anew: whatever led here, they are somebody's. (Ours, of a roll that did not come to its
 * commit, has none.) A link may lead to one, be it to nowhere now. */
static int make_file(struct mpb_log *log, const struct mpb_partition *row, int64_t base, enum mpb_segment_file file)
{
    char path[MPB_SEGMENT_PATH_BYTES];
    int flags = O_RDWR | O_CREAT | O_NOFOLLOW | (file == MPB_FILE_LOG ? 0 : O_TRUNC);
    mpb_segment_path(path, row, base, file, false);
    int fd = mpb_io_open(log->dir_fd[row->log_dir], path, flags);
    if (mpb_io_error_wants_descriptors(fd)) {
        close_others(log, NULL);
        fd = mpb_io_open(log->dir_fd[row->log_dir], path, flags);
    }
    if (fd < 0)
        return fd;
    struct mpb_io_status status = {.is_file = true};
    int error = file == MPB_FILE_LOG ? mpb_io_status(fd, &status) : 0;
    mpb_io_close(fd); /* cached only once the segment is committed: a repair may unlink it first */
    return error == 0 && (status.bytes > 0 || !status.is_file) ? -EEXIST : error;
}

int mpb_segment_create(struct mpb_log *log, const struct mpb_partition *row, int64_t base)
{
    static const enum mpb_segment_file LOG_FIRST[] = {MPB_FILE_LOG, MPB_FILE_INDEX, MPB_FILE_TIME_INDEX};
    char path[MPB_SEGMENT_PATH_BYTES];
    if (row->log_dir >= log->dir_count)
        return -ENOENT;
    for (int i = 0; i < MPB_SEGMENT_FILES; i++) {
        int error = make_file(log, row, base, LOG_FIRST[i]);
        if (error != 0)
            return error;
        if (i == 0)
            MPB_CRASH(log->core, "roll.log_created");
    }
    MPB_CRASH(log->core, "roll.index_created");
    mpb_segment_path(path, row, base, MPB_FILE_TXN_INDEX, false);
    return mpb_io_unlink(log->dir_fd[row->log_dir], path);
}

int mpb_segment_unmake(struct mpb_log *log, const struct mpb_partition *row, int64_t base)
{
    char path[MPB_SEGMENT_PATH_BYTES];
    struct mpb_io_status status;
    if (row->log_dir >= log->dir_count)
        return -ENOENT;
    mpb_segment_path(path, row, base, MPB_FILE_LOG, false);
    int fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (mpb_io_error_wants_descriptors(fd)) {
        close_others(log, NULL);
        fd = mpb_io_open(log->dir_fd[row->log_dir], path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    }
    if (fd == -ELOOP || fd == -ENXIO)
        return 0; /* a link, a socket: nothing that was made here */
    if (fd < 0)
        return fd == -ENOENT ? mpb_segment_unlink(log, row, base) : fd;
    int error = mpb_io_status(fd, &status);
    mpb_io_close(fd);
    return error != 0 || status.bytes > 0 || !status.is_file ? error : mpb_segment_unlink(log, row, base);
}

int mpb_segment_unlink(struct mpb_log *log, const struct mpb_partition *row, int64_t base)
{
    char path[MPB_SEGMENT_PATH_BYTES];
    if (row->log_dir >= log->dir_count)
        return -ENOENT;
    for (int i = 0; i < MPB_ALL_SEGMENT_FILES; i++) {
        mpb_segment_path(path, row, base, INDEX_FIRST[i], false);
        int error = mpb_io_unlink(log->dir_fd[row->log_dir], path);
        if (error != 0)
            return error;
    }
    return 0;
}

int mpb_segment_retire(struct mpb_log *log, const struct mpb_partition *row, int64_t base)
{
    char from[MPB_SEGMENT_PATH_BYTES], to[MPB_SEGMENT_PATH_BYTES];
    int dir = log->dir_fd[row->log_dir];
    for (int i = 0; i < MPB_ALL_SEGMENT_FILES; i++) {
        mpb_segment_path(from, row, base, INDEX_FIRST[i], false);
        mpb_segment_path(to, row, base, INDEX_FIRST[i], true);
        int error = mpb_io_rename(dir, from, to);
        if (error != 0)
            return error;
        if (i == 0)
            MPB_CRASH(log->core, "retain.index_removed");
    }
    return 0;
}

int64_t mpb_segment_bytes(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                          int64_t base, enum mpb_segment_file file)
{
    static const uint32_t ENTRY[] = {1, MPB_INDEX_ENTRY_BYTES, MPB_TIME_INDEX_ENTRY_BYTES, MPB_TXN_INDEX_ENTRY_BYTES};
    if (base == copy->active_base) {
        const uint64_t committed[] = {copy->position, copy->index_bytes, copy->time_index_bytes, copy->txn_index_bytes};
        return (int64_t)committed[file];
    }
    int fd = mpb_segment_fd(log, row, copy, base, file);
    struct mpb_io_status status;
    if (fd == -ENOENT && file != MPB_FILE_LOG)
        return 0;
    if (fd < 0)
        return fd;
    int error = mpb_io_status(fd, &status);
    return error != 0 ? error : (int64_t)(status.bytes - status.bytes % ENTRY[file]);
}

void mpb_segment_close_partition(struct mpb_log *log, uint32_t ordinal)
{
    for (uint32_t i = 0; i < log->segment_sets * MPB_SEGMENT_WAYS; i++)
        if (log->open_segments[i].used != 0 && log->open_segments[i].ordinal == ordinal)
            mpb_segment_close(&log->open_segments[i]);
    if (log->lists[ordinal] != NULL)
        log->lists[ordinal]->valid = false;
}

void mpb_segment_close_all(struct mpb_log *log) { close_others(log, NULL); }
