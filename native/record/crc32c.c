/* CRC-32C three ways: eight tables, the SSE4.2 instruction in one stream, and in three streams whose results are
 * merged by a carry-less multiplication. The instruction has a latency of three cycles and starts one every cycle,
 * so three independent streams run at the speed of memory. Chosen once, when the library is loaded. */
#include "record/crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* bits reversed */

static uint32_t table[8][256];

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static uint32_t crc_tables(uint32_t crc, const uint8_t *p, size_t len)
{
    while (len >= 8) {
        uint64_t v = load_le64(p) ^ crc;
        crc = table[7][v & 0xff] ^ table[6][v >> 8 & 0xff] ^ table[5][v >> 16 & 0xff] ^ table[4][v >> 24 & 0xff] ^
              table[3][v >> 32 & 0xff] ^ table[2][v >> 40 & 0xff] ^ table[1][v >> 48 & 0xff] ^ table[0][v >> 56];
        p += 8;
        len -= 8;
    }
    while (len--)
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
    return crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>

/* Lane sizes and, for each, x^(8n-33) mod P for n = one lane and two lanes: multiplying by it and reducing by the CRC
 * instruction moves a checksum over n bytes of zeros. (The product of two reversed words gains one x, the
 * instruction another x^32.) */
#define LONG_LANE 2048
#define LONG_SHIFT_1 0xa51b6135u
#define LONG_SHIFT_2 0x82f89c77u
#define SHORT_LANE 256
#define SHORT_SHIFT_1 0xb9e02b86u
#define SHORT_SHIFT_2 0xdd7e3b0cu

__attribute__((target("sse4.2"))) static uint32_t crc_one_stream(uint32_t crc, const uint8_t *p, size_t len)
{
    uint64_t wide = crc;
    for (; len >= 8; p += 8, len -= 8)
        wide = _mm_crc32_u64(wide, load_le64(p));
    crc = (uint32_t)wide;
    while (len--)
        crc = _mm_crc32_u8(crc, *p++);
    return crc;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t shift(uint32_t crc, uint32_t by)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc), _mm_cvtsi32_si128((int)by), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"), always_inline)) static inline uint32_t
crc_lanes(uint32_t crc, const uint8_t *p, size_t lane, uint32_t shift_1, uint32_t shift_2)
{
    uint64_t a = crc, b = 0, c = 0;
    for (const uint8_t *end = p + lane; p < end; p += 8) {
        a = _mm_crc32_u64(a, load_le64(p));
        b = _mm_crc32_u64(b, load_le64(p + lane));
        c = _mm_crc32_u64(c, load_le64(p + 2 * lane));
    }
    return shift((uint32_t)a, shift_2) ^ shift((uint32_t)b, shift_1) ^ (uint32_t)c;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc_three_streams(uint32_t crc, const uint8_t *p, size_t len)
{
    for (; len >= 3 * LONG_LANE; p += 3 * LONG_LANE, len -= 3 * LONG_LANE)
        crc = crc_lanes(crc, p, LONG_LANE, LONG_SHIFT_1, LONG_SHIFT_2);
    for (; len >= 3 * SHORT_LANE; p += 3 * SHORT_LANE, len -= 3 * SHORT_LANE)
        crc = crc_lanes(crc, p, SHORT_LANE, SHORT_SHIFT_1, SHORT_SHIFT_2);
    return crc_one_stream(crc, p, len);
}
#endif

static uint32_t (*best)(uint32_t crc, const uint8_t *p, size_t len) = crc_tables;
static const char *best_name = "portable";

/* At load, before any thread or fork: afterwards everything here is read-only. */
__attribute__((constructor)) static void crc32c_prepare(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        best = crc_one_stream;
        best_name = "sse4.2";
        if (__builtin_cpu_supports("pclmul")) {
            best = crc_three_streams;
            best_name = "sse4.2+pclmul";
        }
    }
#endif
}

uint32_t mpb_crc32c(uint32_t crc, const void *data, size_t len) { return ~best(~crc, data, len); }

uint32_t mpb_crc32c_portable(uint32_t crc, const void *data, size_t len) { return ~crc_tables(~crc, data, len); }

const char *mpb_crc32c_implementation(void) { return best_name; }
