/* CRC-32 by folding: a message is a polynomial, and 16 bytes of it may be replaced by a product that leaves the same
 * remainder some bytes later. Four such words run side by side, for a carry-less multiplication takes a while and a
 * new one can start every cycle. What is left at the end, 16 bytes, goes through the table. */
#include "record/crc32.h"

#include <string.h>

#define POLYNOMIAL 0xedb88320u /* bits reversed */

static uint32_t table[256];

static uint32_t crc_table(uint32_t crc, const uint8_t *p, size_t len)
{
    while (len--)
        crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
    return crc;
}

static uint32_t (*best)(uint32_t crc, const uint8_t *p, size_t len) = crc_table;

#if defined(__x86_64__)
#include <emmintrin.h>
#include <wmmintrin.h>

#define WIDE 64 /* bytes folded in one step */

static uint64_t by_64[2],
    by_16[2]; /* what the low and the high half of a word are multiplied by, to move it so many bytes */

/* x^n mod P with its bits reversed, and one place to the left: the product of two reversed words lacks that place. */
static uint64_t power(unsigned n)
{
    uint32_t remainder = 0x80000000u;
    while (n--)
        remainder = remainder >> 1 ^ (remainder & 1 ? POLYNOMIAL : 0);
    return (uint64_t)remainder << 1;
}

__attribute__((target("pclmul"), always_inline)) static inline __m128i fold(__m128i word, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(word, by, 0x00), high = _mm_clmulepi64_si128(word, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static inline __m128i load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

__attribute__((target("pclmul"))) static uint32_t crc_folded(uint32_t crc, const uint8_t *p, size_t len)
{
    if (len < WIDE)
        return crc_table(crc, p, len);
    __m128i far = _mm_set_epi64x((long long)by_64[1], (long long)by_64[0]);
    __m128i near = _mm_set_epi64x((long long)by_16[1], (long long)by_16[0]);
    __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128((int)crc)), b = load(p + 16), c = load(p + 32),
            d = load(p + 48);
    for (p += WIDE, len -= WIDE; len >= WIDE; p += WIDE, len -= WIDE) {
        a = fold(a, far, load(p));
        b = fold(b, far, load(p + 16));
        c = fold(c, far, load(p + 32));
        d = fold(d, far, load(p + 48));
    }
    a = fold(fold(fold(a, near, b), near, c), near, d);
    for (; len >= 16; p += 16, len -= 16)
        a = fold(a, near, load(p));
    uint8_t rest[16];
    memcpy(rest, &a, sizeof rest);
    return crc_table(crc_table(0, rest, sizeof rest), p, len);
}
#endif

/* At load, before any thread or fork: afterwards everything here is read-only. */
__attribute__((constructor)) static void crc32_prepare(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[i] = crc;
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul")) {
        by_64[0] = power(8 * 64 + 32);
        by_64[1] = power(8 * 64 - 32);
        by_16[0] = power(8 * 16 + 32);
        by_16[1] = power(8 * 16 - 32);
        best = crc_folded;
    }
#endif
}

uint32_t mpb_crc32(uint32_t crc, const void *data, size_t len) { return ~best(~crc, data, len); }

uint32_t mpb_crc32_portable(uint32_t crc, const void *data, size_t len) { return ~crc_table(~crc, data, len); }
