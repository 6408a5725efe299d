/* LZ4 frames: what a small writer of its own made comes back, and frames with changed bytes, in buffers of their exact
 * size, so that the address sanitizer sees any byte read or written beyond them. test_lz4 [frames] [seed] */
#include <stdbool.h>
#include <string.h>

#include "tests/stepping/check.h"
#include "record/lz4.h"
#include "record/xxh32.h"

#define MOST 4096
#define GUARD 0xA5

static uint64_t state;

static uint32_t pick(uint32_t below) { return random_below(&state, below); }

struct written {
    uint8_t frame[4 * MOST], plain[2 * MOST];
    size_t frame_len, plain_len, under_checksum; /* a byte that a checksum is of; 0: none */
};

static void put(struct written *w, uint8_t byte) { w->frame[w->frame_len++] = byte; }

static void put_word(struct written *w, uint32_t word)
{
    for (int shift = 0; shift < 32; shift += 8)
        put(w, (uint8_t)(word >> shift));
}

static void put_length(struct written *w, size_t length)
{
    if (length < 15)
        return;
    for (length -= 15; length >= 255; length -= 255)
        put(w, 255);
    put(w, (uint8_t)length);
}

static void put_sequence(struct written *w, size_t block_begin, bool last)
{
    size_t literals = pick(4) ? pick(20) : pick(300), match = 4 + (pick(4) ? pick(20) : pick(300));
    size_t before = w->plain_len - block_begin + literals;
    if (last || before == 0)
        match = 4;
    put(w, (uint8_t)((literals < 15 ? literals : 15) << 4 | (last ? 0 : match - 4 < 15 ? match - 4 : 15)));
    put_length(w, literals);
    for (size_t i = 0; i < literals; i++)
        put(w, w->plain[w->plain_len++] = (uint8_t)pick(256));
    if (last)
        return;
    if (before == 0) { /* a match needs something before it */
        w->frame[w->frame_len - 1] = 0x10;
        put(w, w->plain[w->plain_len++] = 7);
        before = 1;
    }
    size_t offset = 1 + pick((uint32_t)(before < 65535 ? before : 65535));
    if (pick(2) && before > 16)
        offset = 1 + pick(16);
    put(w, (uint8_t)offset);
    put(w, (uint8_t)(offset >> 8));
    put_length(w, match - 4);
    for (size_t i = 0; i < match; i++, w->plain_len++)
        w->plain[w->plain_len] = w->plain[w->plain_len - offset];
}

static void put_block(struct written *w, bool checked)
{
    size_t at = w->frame_len, begin = w->plain_len;
    bool stored = pick(4) == 0;
    put_word(w, 0);
    if (stored) {
        for (uint32_t i = 0, count = 1 + pick(50); i < count; i++)
            put(w, w->plain[w->plain_len++] = (uint8_t)pick(256));
    } else {
        for (uint32_t i = 0, count = pick(5); i < count; i++)
            put_sequence(w, begin, false);
        put_sequence(w, begin, true);
    }
    size_t length = w->frame_len - at - 4, end = w->frame_len;
    w->frame_len = at;
    put_word(w, (uint32_t)length | (stored ? 0x80000000u : 0));
    w->frame_len = end;
    if (checked) {
        w->under_checksum = at + 4 + pick((uint32_t)length);
        put_word(w, mpb_xxh32(0, w->frame + at + 4, length));
    }
}

static void write_frame(struct written *w)
{
    bool checked = pick(2) == 1, sized = pick(2) == 1, summed = pick(2) == 1;
    w->frame_len = w->plain_len = w->under_checksum = 0;
    put_word(w, 0x184D2204u);
    put(w, (uint8_t)(0x60 | (checked ? 0x10 : 0) | (sized ? 0x08 : 0) | (summed ? 0x04 : 0)));
    put(w, 0x40);
    for (int i = 0; sized && i < 8; i++)
        put(w, 0);
    put(w, (uint8_t)(mpb_xxh32(0, w->frame + 4, w->frame_len - 4) >> 8));
    for (uint32_t i = 0, count = pick(4); i < count; i++)
        put_block(w, checked);
    put_word(w, 0);
    if (summed)
        put_word(w, 0); /* not looked at, as by Kafka */
}

/* In copies of their exact size. */
static int64_t read_exactly(const uint8_t *frame, size_t frame_len, uint8_t *out, size_t room)
{
    uint8_t *in = malloc(frame_len + 1), *exact = malloc(room + 1);
    CHECK(in != NULL && exact != NULL);
    uint8_t *tight_in = in + 1, *tight_out = exact + 1; /* ends at the end, and at odd addresses */
    memcpy(tight_in, frame, frame_len);
    exact[0] = GUARD;
    int64_t written = mpb_lz4_read(tight_in, frame_len, tight_out, room);
    CHECK(exact[0] == GUARD && written <= (int64_t)room);
    if (written > 0)
        memcpy(out, tight_out, (size_t)written);
    free(in);
    free(exact);
    return written;
}

static void check_good(const struct written *w)
{
    static uint8_t out[2 * MOST];
    CHECK_EQ(read_exactly(w->frame, w->frame_len, out, w->plain_len), (int64_t)w->plain_len);
    CHECK(memcmp(out, w->plain, w->plain_len) == 0);
    CHECK_EQ(read_exactly(w->frame, w->frame_len, out, w->plain_len + 40), (int64_t)w->plain_len);
    CHECK(memcmp(out, w->plain, w->plain_len) == 0);
    if (w->plain_len > 0)
        CHECK_EQ(read_exactly(w->frame, w->frame_len, out, pick((uint32_t)w->plain_len)), -1);
    CHECK_EQ(read_exactly(w->frame, pick((uint32_t)w->frame_len), out, w->plain_len), -1);
}

static void check_checksums(struct written *w)
{
    static uint8_t out[2 * MOST];
    size_t places[] = {5, 6, w->under_checksum}; /* the descriptor's second byte and its checksum */
    for (size_t i = 0; i < 3; i++) {
        uint8_t bit = (uint8_t)(1u << pick(8));
        if (places[i] == 0 || (i == 1 && w->frame[4] & 0x08))
            continue;
        w->frame[places[i]] ^= bit;
        CHECK_EQ(read_exactly(w->frame, w->frame_len, out, w->plain_len), -1);
        w->frame[places[i]] ^= bit;
    }
}

/* Any end is good but one outside of the buffers; returns whether it was read all the same. */
static bool check_changed(struct written *w)
{
    static uint8_t out[2 * MOST];
    for (uint32_t i = 0, count = 1 + pick(4); i < count; i++)
        w->frame[7 + pick((uint32_t)w->frame_len - 7)] = (uint8_t)(pick(3) ? pick(256) : 0xff);
    return read_exactly(w->frame, w->frame_len, out, w->plain_len + pick(40)) >= 0;
}

/* A frame with its content's size that ends where the checksum of its head should be: what lies behind it is not read,
 * though it is what belongs there. */
static void check_an_end_within_the_head(void)
{
    static struct written w;
    static uint8_t out[2 * MOST];
    do
        write_frame(&w);
    while ((w.frame[4] & 0x08) == 0 || w.plain_len == 0);
    size_t head = 4 + 2 + 8;
    CHECK_EQ(mpb_lz4_read(w.frame, w.frame_len, out, sizeof out), (int64_t)w.plain_len);
    for (size_t length = 0; length < head + 2; length++)
        CHECK_EQ(mpb_lz4_read(w.frame, length, out, sizeof out), -1);
}

int main(int argc, char **argv)
{
    long frames = argc > 1 ? atol(argv[1]) : 200000, read = 0;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 88172645463325252u;
    static struct written w;
    for (long i = 0; i < frames; i++) {
        write_frame(&w);
        check_good(&w);
        check_checksums(&w);
        read += check_changed(&w);
    }
    CHECK(read > 0 && read < frames);
    check_an_end_within_the_head();
    printf("lz4: %lu checks, %ld frames, %ld changed ones were read\n", checks_made, frames, read);
    return 0;
}
