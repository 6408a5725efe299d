/* The checksums against what defines them, bit by bit and with published values: every length up to 300, and some
 * around the steps of the wide streams, wherever the bytes begin, in one go and in two. Each way of computing them is asked:
 * by tables, and what this machine's processor can do. */
#include <stdbool.h>
#include <string.h>

#include "record/crc32.h"
#include "record/crc32c.h"
#include "record/xxh32.h"
#include "tests/stepping/check.h"
#include "tests/stepping/guarded.h"

#define LENGTHS 300
#define PLACES 16
#define MOST (3 * 2048 * 2 + 3 * 256 * 3 + 64 + PLACES)

static const uint32_t zip = 0xedb88320u, castagnoli = 0x82f63b78u; /* bits reversed */
static const uint32_t begins[] = {0, 1, 0x80000000u, 0xffffffffu, 0x12345678u};
static uint8_t bytes[MOST + 1];

/* A division by the polynomial, one bit after the other. */
static uint32_t by_bits(uint32_t polynomial, uint32_t crc, const uint8_t *p, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t out = (crc ^ p[i] >> bit) & 1;
            crc >>= 1;
            if (out)
                crc ^= polynomial;
        }
    return ~crc;
}

static void are_crcs(const uint8_t *p, size_t length, uint32_t begin, uint32_t of_zip, uint32_t of_castagnoli)
{
    CHECK_EQ(mpb_crc32_portable(begin, p, length), of_zip);
    CHECK_EQ(mpb_crc32(begin, p, length), of_zip);
    CHECK_EQ(mpb_crc32c_portable(begin, p, length), of_castagnoli);
    CHECK_EQ(mpb_crc32c(begin, p, length), of_castagnoli);
}

static void check_crcs(const uint8_t *p, size_t length, uint32_t begin)
{
    are_crcs(p, length, begin, by_bits(zip, begin, p, length), by_bits(castagnoli, begin, p, length));
}

/* What is defined goes on by one byte to the next length. */
static void every_length_and_place(void)
{
    for (size_t place = 0; place < PLACES; place++)
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
            uint32_t of_zip = begins[i], of_castagnoli = begins[i];
            for (size_t length = 0; length <= LENGTHS; length++) {
                are_crcs(bytes + place, length, begins[i], of_zip, of_castagnoli);
                of_zip = by_bits(zip, of_zip, bytes + place + length, 1);
                of_castagnoli = by_bits(castagnoli, of_castagnoli, bytes + place + length, 1);
            }
        }
}

/* Around the steps of the streams that run side by side: one, two and three times, and what is left at the end. */
static void around_the_wide_steps(void)
{
    static const size_t steps[] = {512, 768, 1536, 2304, 6144, 6912, 12288, MOST - 64 - PLACES};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (size_t more = 0; more < 40; more += more < 18 ? 1 : 7)
            check_crcs(bytes + more % PLACES, steps[i] - 17 + more, begins[more % 5]);
}

/* As long as a batch may be. */
static void a_long_one(void)
{
    static uint8_t many[60000];
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = (uint8_t)(bytes[i % MOST] + i / MOST);
    check_crcs(many, sizeof many, 5);
}

/* Nothing is read behind them. */
static void at_the_end_of_memory(void)
{
    struct guarded memory = guarded_open(LENGTHS);
    for (size_t length = 0; length <= LENGTHS; length++) {
        const uint8_t *last = guarded_copy(&memory, bytes, length);
        check_crcs(last, length, 0);
        CHECK_EQ(mpb_xxh32(0, last, length), mpb_xxh32(0, bytes, length));
    }
}

/* What was computed goes on with the next bytes. */
static void in_two_goes(void)
{
    const uint32_t whole = by_bits(zip, 0, bytes, 2000), whole_c = by_bits(castagnoli, 0, bytes, 2000);
    for (size_t cut = 0; cut <= 2000; cut += 1 + cut / 3) {
        CHECK_EQ(mpb_crc32(mpb_crc32(0, bytes, cut), bytes + cut, 2000 - cut), whole);
        CHECK_EQ(mpb_crc32c(mpb_crc32c(0, bytes, cut), bytes + cut, 2000 - cut), whole_c);
        CHECK_EQ(mpb_crc32c_portable(mpb_crc32c(0, bytes, cut), bytes + cut, 2000 - cut), whole_c);
    }
}

/* The check values of both, which every list of them has; RFC 3720 has those of 32 bytes. */
static void published_crcs(void)
{
    static const uint8_t zeros[32];
    uint8_t ones[32], up[32];
    memset(ones, 0xff, sizeof ones);
    for (uint8_t i = 0; i < sizeof up; i++)
        up[i] = i;
    CHECK_EQ(mpb_crc32(0, "123456789", 9), 0xcbf43926u);
    CHECK_EQ(mpb_crc32c(0, "123456789", 9), 0xe3069283u);
    CHECK_EQ(mpb_crc32c(0, zeros, 32), 0x8a9136aau);
    CHECK_EQ(mpb_crc32c(0, ones, 32), 0x62a8ab43u);
    CHECK_EQ(mpb_crc32c(0, up, 32), 0x46dd794eu);
}

#if defined(__x86_64__)
/* Whether the kernel says that the processor has it; false without such a list, too. */
static bool has(const char *flag, bool *listed)
{
    static char line[1 << 14];
    char wanted[32];
    bool found = false;
    FILE *list = fopen("/proc/cpuinfo", "r");
    snprintf(wanted, sizeof wanted, " %s ", flag);
    *listed = false;
    while (list != NULL && !*listed && fgets(line, sizeof line, list) != NULL) {
        *listed = strncmp(line, "flags", 5) == 0;
        line[strcspn(line, "\n")] = ' ';
        found = *listed && strstr(line, wanted) != NULL;
    }
    if (list != NULL)
        fclose(list);
    return found;
}
#endif

/* Whoever asks which way it is wants that of this machine. */
static void the_best_that_there_is(void)
{
    bool listed = true;
    const char *best = "portable";
#if defined(__x86_64__)
    if (has("sse4_2", &listed))
        best = has("pclmulqdq", &listed) ? "sse4.2+pclmul" : "sse4.2";
#endif
    if (listed)
        CHECK_EQ(strcmp(mpb_crc32c_implementation(), best), 0);
}

/* ------------------------------------------------------------------ XXH32 */
static uint32_t left(uint32_t v, uint32_t bits) { return v * (1u << bits) + v / (1u << (32 - bits)); }

static uint32_t word_at(const uint8_t *p) { return p[0] + p[1] * 0x100u + p[2] * 0x10000u + p[3] * 0x1000000u; }

/* From the description of the format, lane by lane. */
static uint32_t described(uint32_t seed, const uint8_t *p, size_t length)
{
    static const uint32_t one = 0x9e3779b1u, two = 0x85ebca77u, three = 0xc2b2ae3du, four = 0x27d4eb2fu,
                          five = 0x165667b1u;
    static const uint32_t turns[4] = {1, 7, 12, 18};
    size_t stripes = length / 16, at = 16 * stripes;
    const uint32_t lanes[4] = {seed + one + two, seed + two, seed, seed - one};
    uint32_t hash = stripes > 0 ? 0 : seed + five;
    for (size_t lane = 0; lane < 4 && stripes > 0; lane++) {
        uint32_t sum = lanes[lane];
        for (size_t stripe = 0; stripe < stripes; stripe++)
            sum = left(sum + word_at(p + 16 * stripe + 4 * lane) * two, 13) * one;
        hash += left(sum, turns[lane]);
    }
    hash += (uint32_t)length;
    for (size_t words = length % 16 / 4; words > 0; words--, at += 4)
        hash = left(hash + word_at(p + at) * three, 17) * four;
    for (; at != length; at++)
        hash = left(hash + p[at] * five, 11) * one;
    hash = (hash ^ hash / (1u << 15)) * two;
    hash = (hash ^ hash / (1u << 13)) * three;
    return hash ^ hash / (1u << 16);
}

static void xxh32_of_every_length(void)
{
    CHECK_EQ(mpb_xxh32(0, "", 0), 0x02cc5d05u); /* of the reference implementation */
    CHECK_EQ(mpb_xxh32(0, "abc", 3), 0x32d153ffu);
    for (size_t length = 0; length <= LENGTHS; length++)
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            CHECK_EQ(mpb_xxh32(begins[i], bytes + length % PLACES, length),
                     described(begins[i], bytes + length % PLACES, length));
}

int main(void)
{
    uint64_t random = 20240229;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)next_random(&random);
    published_crcs();
    every_length_and_place();
    around_the_wide_steps();
    a_long_one();
    at_the_end_of_memory();
    in_two_goes();
    the_best_that_there_is();
    xxh32_of_every_length();
    printf("checksums: %lu checks, CRC-32C by %s\n", checks_made, mpb_crc32c_implementation());
    return 0;
}
