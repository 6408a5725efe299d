#include "record/marker_read.h"

bool mpb_marker_read(const struct mpb_batch_info *batch, int16_t *type, int32_t *coordinator_epoch)
{
    struct mpb_record record;
    *type = -1;
    *coordinator_epoch = -1;
    if ((batch->attributes & MPB_ATTRIBUTE_CONTROL) == 0 || batch->codec != MPB_CODEC_NONE ||
        batch->record_count != 1 ||
        mpb_record_read(batch->records, batch->records + batch->records_len, false, &record) != 0 || record.key_len < 4)
        return false;
    *type = mpb_be16(record.key + 2);
    if (*type != MPB_MARKER_ABORT && *type != MPB_MARKER_COMMIT)
        return false;
    if (record.value_len >= 6)
        *coordinator_epoch = mpb_be32(record.value + 2);
    return true;
}
