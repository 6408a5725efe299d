/* Decompresses the LZ4 frames of record batches into memory that is there. Any process; no state.
 *
 * It takes no frame that record/lz4_frame.py refuses, which says what Kafka takes. It may leave one that is taken there:
 * whoever hears -1 asks there, and has the error code or the bytes from there. */
#ifndef MPB_LZ4_H
#define MPB_LZ4_H

#include <stddef.h>
#include <stdint.h>

/* Bytes written to `out`, at most `room`; -1: it does not fit, or is not a frame that this reads. */
int64_t mpb_lz4_read(const uint8_t *frame, size_t length, uint8_t *out, size_t room);

#endif
