#include "log/txn_index.h"

#include <errno.h>

#include "log/log_io.h"
#include "log/segment.h"
#include "record/record_batch.h"

enum { PRODUCER_ID_AT = 2, FIRST_AT = 10, LAST_AT = 18, STABLE_AT = 26 };

void mpb_aborted_write(uint8_t out[MPB_TXN_INDEX_ENTRY_BYTES], const struct mpb_aborted *aborted)
{
    mpb_put_be16(out, 0);
    mpb_put_be64(out + PRODUCER_ID_AT, aborted->producer_id);
    mpb_put_be64(out + FIRST_AT, aborted->first_offset);
    mpb_put_be64(out + LAST_AT, aborted->last_offset);
    mpb_put_be64(out + STABLE_AT, aborted->last_stable);
}

bool mpb_aborted_read(const uint8_t in[MPB_TXN_INDEX_ENTRY_BYTES], struct mpb_aborted *out)
{
    out->producer_id = mpb_be64(in + PRODUCER_ID_AT);
    out->first_offset = mpb_be64(in + FIRST_AT);
    out->last_offset = mpb_be64(in + LAST_AT);
    out->last_stable = mpb_be64(in + STABLE_AT);
    return mpb_be16(in) == 0;
}

int mpb_txn_index_append(struct mpb_log *log, const struct mpb_partition *row, struct mpb_partition_copy *next,
                         const struct mpb_aborted *aborted)
{
    uint8_t entry[MPB_TXN_INDEX_ENTRY_BYTES];
    int fd = mpb_segment_txn_index_fd(log, row, next);
    if (fd < 0)
        return fd;
    mpb_aborted_write(entry, aborted);
    int error = mpb_io_write(fd, entry, sizeof entry, next->txn_index_bytes);
    if (error != 0)
        return error;
    next->txn_index_bytes += (uint32_t)sizeof entry;
    next->aborted_end = aborted->last_offset + 1;
    return 0;
}

int mpb_txn_index_cut(struct mpb_log *log, const struct mpb_partition *row, const struct mpb_partition_copy *now)
{
    int fd = mpb_segment_fd(log, row, now, now->active_base, MPB_FILE_TXN_INDEX);
    if (fd == -ENOENT && now->txn_index_bytes == 0)
        return 0;
    return fd < 0 ? fd : mpb_io_truncate(fd, now->txn_index_bytes);
}
