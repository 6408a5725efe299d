#include "log/segment_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log/io_error.h"
#include "log/log_io.h"
#include "log/partition_row.h"
#include "log/segment.h"

#define NAME_DIGITS 20

/* The base in "00000000000000000042.log", or -1 for every other name. */
static int64_t base_of(const char *name)
{
    uint64_t base = 0;
    for (int i = 0; i < NAME_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -1;
        base = base * 10 + (uint64_t)(name[i] - '0');
    }
    return strcmp(name + NAME_DIGITS, ".log") == 0 && base <= INT64_MAX ? (int64_t)base : -1;
}

static bool append_base(struct mpb_segment_list *list, int64_t base)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
        int64_t *bases = realloc(list->bases, capacity * sizeof *bases);
        if (bases == NULL)
            return false;
        list->bases = bases;
        list->capacity = capacity;
    }
    list->bases[list->count++] = base;
    return true;
}

static int by_base(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

struct bases_below {
    struct mpb_segment_list *list;
    int64_t below;
};

static int take_name(void *context, const char *name)
{
    struct bases_below *wanted = context;
    int64_t base = base_of(name);
    return base < 0 || base >= wanted->below || append_base(wanted->list, base) ? 0 : -ENOMEM;
}

/* Log files whose base is below `below`. 0 or a negative errno. */
static int scan(struct mpb_log *log, const struct mpb_partition *row, struct mpb_segment_list *list, int64_t below)
{
    char path[sizeof row->dir];
    struct bases_below wanted = {list, below};
    if (row->log_dir >= log->dir_count)
        return -ENOENT;
    memcpy(path, row->dir, sizeof path);
    path[sizeof path - 1] = '\0';
    list->count = 0;
    int error = mpb_io_list(log->dir_fd[row->log_dir], path, take_name, &wanted);
    if (mpb_io_error_wants_descriptors(
            error)) { /* our own cache may hold them all; whoever needs one of those opens it again */
        mpb_segment_close_all(log);
        list->count = 0;
        error = mpb_io_list(log->dir_fd[row->log_dir], path, take_name, &wanted);
    }
    if (error == 0 && list->count > 0)
        qsort(list->bases, list->count, sizeof *list->bases, by_base);
    return error;
}

static struct mpb_segment_list *list_of(struct mpb_log *log, const struct mpb_partition *row)
{
    uint32_t ordinal = (uint32_t)(row - log->core->partitions);
    if (log->lists[ordinal] == NULL)
        log->lists[ordinal] = calloc(1, sizeof *log->lists[ordinal]);
    return log->lists[ordinal];
}

int mpb_segment_list_all(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_segment_list **out)
{
    struct mpb_segment_list *list = list_of(log, row);
    *out = list;
    if (list == NULL)
        return -ENOMEM;
    list->valid = false;
    return scan(log, row, list, INT64_MAX);
}

int mpb_segment_list_get(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *copy,
                         const struct mpb_segment_list **out)
{
    struct mpb_segment_list *list = list_of(log, row);
    *out = list;
    if (list == NULL)
        return -ENOMEM;
    if (list->valid && list->active_base == copy->active_base && list->truncations == copy->truncations &&
        memcmp(list->topic_id, row->topic_id, sizeof list->topic_id) == 0)
        return 0;
    memcpy(list->topic_id, row->topic_id, sizeof list->topic_id);
    list->active_base = copy->active_base;
    list->truncations = copy->truncations;
    /* A file above the active base was never committed (append rule 12). */
    int error = scan(log, row, list, copy->active_base);
    if (error == 0 && !append_base(list, copy->active_base))
        error = -ENOMEM;
    list->valid = error == 0;
    return error;
}

uint32_t mpb_segment_list_find(const struct mpb_segment_list *list, int64_t offset)
{
    uint32_t low = 0, high = list->count; /* bases[low] <= offset < bases[high], where they exist */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (list->bases[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool is_stale(struct mpb_log *log, const struct mpb_open_segment *segment)
{
    const struct mpb_partition *row = &log->core->partitions[segment->ordinal];
    struct mpb_partition_copy copy;
    uint32_t flags = mpb_load_acquire(&row->flags);
    if ((flags & MPB_PART_EXISTS) == 0 || (flags & MPB_PART_DELETED) != 0)
        return true; /* its row may stay as it is for ever */
    if (!mpb_partition_try_snapshot(row, &copy))
        return false; /* somebody changes it again and again: later */
    if (!mpb_segment_is_current(segment, row, &copy))
        return true;
    if (segment->base >= copy.log_start || segment->base == copy.active_base)
        return false;
    const struct mpb_segment_list *list;
    if (mpb_segment_list_get(log, row, &copy, &list) != 0)
        return true;
    uint32_t at = mpb_segment_list_find(list, segment->base); /* renamed or unlinked meanwhile: it is not in the list */
    return list->bases[at] != segment->base || (at + 1 < list->count && list->bases[at + 1] <= copy.log_start);
}

uint32_t mpb_segment_close_stale(struct mpb_log *log)
{
    uint32_t closed = 0;
    for (uint32_t i = 0; i < log->segment_sets * MPB_SEGMENT_WAYS; i++)
        if (log->open_segments[i].used != 0 && is_stale(log, &log->open_segments[i])) {
            mpb_segment_close(&log->open_segments[i]);
            closed++;
        }
    return closed;
}
