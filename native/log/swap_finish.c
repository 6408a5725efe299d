#include "log/swap_finish.h"

#include <string.h>

#include "log/log_io.h"
#include "log/partition_row.h"
#include "log/segment_list.h"

static const enum mpb_segment_file LOG_FIRST[] = {MPB_FILE_LOG, MPB_FILE_INDEX, MPB_FILE_TIME_INDEX};

void mpb_cleaned_path(char out[MPB_SEGMENT_PATH_BYTES], const struct mpb_partition *row, int64_t base,
                      enum mpb_segment_file file)
{
    mpb_segment_path(out, row, base, file, false);
    memcpy(out + strlen(out), ".compacted", sizeof ".compacted");
}

/* The cleaned log goes in first, in one step with the end of the old one; its indexes follow. Until then readers are
 * kept out, and a start finds the .swap file. */
static int put_in_place(struct mpb_log *log, struct mpb_partition *row, int64_t base)
{
    char from[MPB_SEGMENT_PATH_BYTES], to[MPB_SEGMENT_PATH_BYTES];
    for (int i = 0; i < MPB_SEGMENT_FILES; i++) {
        mpb_cleaned_path(from, row, base, LOG_FIRST[i]);
        mpb_segment_path(to, row, base, LOG_FIRST[i], false);
        int error = mpb_io_rename(log->dir_fd[row->log_dir], from, to);
        if (error != 0)
            return error;
        MPB_CRASH(log->core, "swap.renamed");
    }
    mpb_segment_path(to, row, base, MPB_FILE_TXN_INDEX, false); /* nothing of an aborted transaction is left there */
    return mpb_io_unlink(log->dir_fd[row->log_dir], to);
}

int mpb_swap_finish(struct mpb_log *log, struct mpb_partition *row)
{
    const int64_t base = row->intent.base_offset, end = row->intent.last_offset;
    if (mpb_load_acquire(&row->selector) == row->intent.target) {
        struct mpb_partition_copy next = *mpb_partition_in_force(row);
        const struct mpb_segment_list *list;
        int error = mpb_segment_list_all(log, row, &list);
        for (uint32_t i = 0; error == 0 && i < list->count; i++)
            if (list->bases[i] > base && list->bases[i] < end) {
                error = mpb_segment_retire(log, row, list->bases[i]);
                MPB_CRASH(log->core, "swap.retired");
            }
        if (error == 0)
            error = put_in_place(log, row, base);
        if (error != 0)
            return error;
        next.truncations++;
        mpb_partition_write_idle(log->core, row, &next);
        mpb_partition_commit(row);
        MPB_CRASH(log->core, "swap.finished");
    }
    return 0;
}
