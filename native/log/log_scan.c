#include "log/log_scan.h"

#include <errno.h>
#include <stdlib.h>

#include "log/log.h"
#include "log/log_io.h"
#include "record/marker_read.h"

#define WINDOW_BYTES (1u << 20)

struct window { /* a moving piece of the file; grows to hold one batch, which the file's size bounds */
    int fd;
    uint8_t *bytes;
    size_t capacity;
    size_t filled;
    uint64_t start; /* file position of bytes[0] */
};

static int window_reserve(struct window *w, size_t need)
{
    if (need <= w->capacity)
        return 0;
    uint8_t *grown = realloc(w->bytes, need);
    if (!grown)
        return -ENOMEM;
    w->bytes = grown;
    w->capacity = need;
    return 0;
}

/* Loads from `position` on: at least `need` bytes, or what the file still has. */
static int window_load(struct window *w, uint64_t position, size_t need)
{
    int status = window_reserve(w, need > WINDOW_BYTES ? need : WINDOW_BYTES);
    if (status < 0)
        return status;
    int64_t n = mpb_io_read(w->fd, w->bytes, w->capacity, position);
    if (n < 0)
        return (int)n;
    w->filled = (size_t)n;
    return 0;
}

static int append_entry(int fd, const uint8_t *entry, size_t length, uint32_t *written)
{
    int error = mpb_io_write(fd, entry, length, *written);
    if (error != 0)
        return error;
    *written += (uint32_t)length;
    return 0;
}

/* Entries point at the batch's start and carry its last offset, as a produce append writes them. */
static int index_batch(int index_fd, int time_index_fd, struct mpb_segment_scan *scan, int64_t last_offset)
{
    uint8_t entry[MPB_TIME_INDEX_ENTRY_BYTES];
    int status;
    if (scan->bytes_since_index <= scan->index_interval_bytes)
        return 0;
    mpb_put_be32(entry, (int32_t)(last_offset - scan->base_offset));
    mpb_put_be32(entry + 4, (int32_t)scan->valid_bytes);
    if (index_fd >= 0 && (status = append_entry(index_fd, entry, MPB_INDEX_ENTRY_BYTES, &scan->index_bytes)) < 0)
        return status;
    if (scan->max_timestamp > scan->indexed_timestamp) {
        mpb_put_be64(entry, scan->max_timestamp);
        mpb_put_be32(entry + 8, (int32_t)(scan->max_timestamp_offset - scan->base_offset));
        if (time_index_fd >= 0 &&
            (status = append_entry(time_index_fd, entry, MPB_TIME_INDEX_ENTRY_BYTES, &scan->time_index_bytes)) < 0)
            return status;
        scan->indexed_timestamp = scan->max_timestamp;
    }
    scan->bytes_since_index = 0;
    return 0;
}

static bool in_order(const struct mpb_segment_scan *scan, const struct mpb_batch_info *batch)
{
    return batch->base_offset >= scan->next_offset && batch->last_offset_delta >= 0 &&
           batch->base_offset + batch->last_offset_delta - scan->base_offset <= INT32_MAX;
}

enum numbering { FITS, MISNUMBERED, NOT_KNOWN_YET };

/* No checksum covers the offset that a batch claims. It is wrong where the batch behind it goes on as if this one had
 * begun where the one before ended. NOT_KNOWN_YET: that header is not in the window; `need` is what to load. */
static enum numbering numbering(const struct mpb_batch_scan *cursor, const struct mpb_segment_scan *scan,
                                const struct mpb_batch_info *batch, size_t *need)
{
    uint64_t behind = scan->file_bytes - scan->valid_bytes - batch->batch_bytes;
    if (batch->base_offset == scan->next_offset || behind < MPB_BATCH_HEADER_BYTES)
        return FITS;
    *need = (size_t)batch->batch_bytes + MPB_BATCH_HEADER_BYTES;
    if (cursor->len - cursor->pos < MPB_BATCH_HEADER_BYTES)
        return NOT_KNOWN_YET;
    const uint8_t *next = cursor->data + cursor->pos;
    bool goes_on = mpb_be64(next + MPB_BATCH_BASE_OFFSET) == scan->next_offset + batch->last_offset_delta + 1;
    return goes_on && next[MPB_BATCH_MAGIC] == 2 ? MISNUMBERED : FITS;
}

static int take_batch(int index_fd, int time_index_fd, struct mpb_segment_scan *scan,
                      const struct mpb_batch_info *batch)
{
    int64_t last_offset = batch->base_offset + batch->last_offset_delta;
    if (scan->batches++ == 0)
        scan->first_timestamp = batch->max_timestamp;
    if (batch->max_timestamp > scan->max_timestamp) {
        scan->max_timestamp = batch->max_timestamp;
        scan->max_timestamp_offset = last_offset;
    }
    int status = index_batch(index_fd, time_index_fd, scan, last_offset);
    if (status < 0)
        return status;
    scan->aborts += mpb_is_abort(batch);
    scan->bytes_since_index += batch->batch_bytes;
    scan->valid_bytes += batch->batch_bytes;
    scan->next_offset = last_offset + 1;
    scan->last_leader_epoch = batch->leader_epoch;
    return 0;
}

static void begin(struct mpb_segment_scan *scan, uint64_t file_bytes)
{
    scan->file_bytes = file_bytes;
    scan->valid_bytes = scan->start_bytes;
    scan->next_offset = scan->start_offset;
    scan->first_timestamp = scan->indexed_timestamp = MPB_NO_TIMESTAMP;
    if (scan->start_bytes == 0) {
        scan->max_timestamp = MPB_NO_TIMESTAMP;
        scan->max_timestamp_offset = scan->base_offset;
    }
    scan->batches = 0;
    scan->index_bytes = scan->time_index_bytes = scan->bytes_since_index = 0;
    scan->last_leader_epoch = -1;
    scan->aborts = 0;
    scan->end = MPB_END_CLEAN;
}

/* Works off the batches that lie whole in the window. Returns 1 when the scan is over, 0 to load more, or an error;
 * `need` is what the next batch takes. */
static int scan_window(struct window *w, int index_fd, int time_index_fd, struct mpb_segment_scan *scan,
                       mpb_scan_visit visit, void *context, size_t *need)
{
    struct mpb_batch_scan cursor = {.data = w->bytes, .len = w->filled, .pos = 0, .check_crc = scan->check_crc};
    struct mpb_batch_info batch;
    for (;;) {
        *need = 0;
        enum mpb_scan_result found = mpb_batch_scan_next(&cursor, &batch, need);
        if (found == MPB_SCAN_PARTIAL || found == MPB_SCAN_END)
            return 0;
        enum numbering numbers = found == MPB_SCAN_BATCH ? numbering(&cursor, scan, &batch, need) : FITS;
        if (numbers == NOT_KNOWN_YET)
            return 0;
        if (numbers == MISNUMBERED && !scan->check_crc)
            batch.base_offset = scan->next_offset;
        else if (found == MPB_SCAN_CORRUPT || numbers == MISNUMBERED || !in_order(scan, &batch)) {
            scan->end = MPB_END_CORRUPT;
            return 1;
        }
        int status = take_batch(index_fd, time_index_fd, scan, &batch);
        if (status == 0 && visit)
            status = visit(context, &batch);
        if (status != 0)
            return status;
    }
}

static int scan_file(struct window *w, int index_fd, int time_index_fd, struct mpb_segment_scan *scan,
                     mpb_scan_visit visit, void *context)
{
    size_t need = 0;
    while (scan->valid_bytes < scan->file_bytes) {
        uint64_t before = scan->valid_bytes;
        if (need > scan->file_bytes - scan->valid_bytes) {
            scan->end = MPB_END_TRUNCATED;
            return 0;
        }
        int status = window_load(w, scan->valid_bytes, need);
        if (status == 0)
            status = scan_window(w, index_fd, time_index_fd, scan, visit, context, &need);
        if (status != 0)
            return status == 1 ? 0 : status;
        if (scan->valid_bytes == before && w->filled >= scan->file_bytes - before) {
            scan->end = MPB_END_TRUNCATED; /* all that is left lies in the window and is no whole batch */
            return 0;
        }
        if (scan->valid_bytes == before && w->filled < w->capacity)
            return -EIO; /* the file is shorter than a moment ago */
    }
    return 0;
}

int mpb_segment_scan(int log_fd, int index_fd, int time_index_fd, struct mpb_segment_scan *scan, mpb_scan_visit visit,
                     void *context)
{
    struct mpb_io_status file;
    struct window w = {.fd = log_fd};
    int status = mpb_io_status(log_fd, &file);
    if (status == 0 && index_fd >= 0)
        status = mpb_io_truncate(index_fd, 0);
    if (status == 0 && time_index_fd >= 0)
        status = mpb_io_truncate(time_index_fd, 0);
    if (status != 0)
        return status;
    begin(scan, file.bytes);
    status = scan_file(&w, index_fd, time_index_fd, scan, visit, context);
    free(w.bytes);
    return status;
}
