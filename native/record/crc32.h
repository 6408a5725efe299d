/* CRC-32 as zlib and gzip have it: the checksum of a trace segment's records, which readers check with zlib.
 * No state; any process. */
#ifndef MPB_CRC32_H
#define MPB_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over `len` bytes. The result of one call is the `crc` of the next. */
uint32_t mpb_crc32(uint32_t crc, const void *data, size_t len);

/* The same by a table alone: the fallback, and what tests compare with. */
uint32_t mpb_crc32_portable(uint32_t crc, const void *data, size_t len);

#endif
