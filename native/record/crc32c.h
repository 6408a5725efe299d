/* CRC-32C (Castagnoli, as in iSCSI): the checksum of record batches and producer snapshots. No state; any process. */
#ifndef MPB_CRC32C_H
#define MPB_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over `len` bytes. The result of one call is the `crc` of the next. */
uint32_t mpb_crc32c(uint32_t crc, const void *data, size_t len);

/* The same by tables alone, whatever the processor can do: the fallback, and what tests compare with. */
uint32_t mpb_crc32c_portable(uint32_t crc, const void *data, size_t len);

/* "portable", "sse4.2" or "sse4.2+pclmul": what mpb_crc32c uses on this machine. */
const char *mpb_crc32c_implementation(void);

#endif
