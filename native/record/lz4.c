/* From the published descriptions of LZ4's frame and block formats. */
#include "record/lz4.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "record/xxh32.h"

#define MAGIC 0x184D2204u
#define HEAD_BYTES 7u
#define SIZE_BYTES 8u
#define VERSION_MASK 0xc0
#define VERSION_1 0x40
#define FLAG_INDEPENDENT_BLOCKS 0x20
#define FLAG_BLOCK_CHECKSUM 0x10
#define FLAG_CONTENT_SIZE 0x08
#define FLAG_CONTENT_CHECKSUM 0x04
#define FLAGS_RESERVED 0x03
#define STORED 0x80000000u
#define MIN_MATCH 4u
#define LONG 15u  /* a length of so much goes on in the following bytes */
#define STRIDE 16 /* bytes copied at once where there is room for them */

struct input {
    const uint8_t *at, *end;
};

static inline size_t left(const struct input *in) { return (size_t)(in->end - in->at); }

static bool take_word(struct input *in, uint32_t *out)
{
    if (left(in) < 4)
        return false;
    memcpy(out, in->at, 4);
    *out = le32toh(*out);
    in->at += 4;
    return true;
}

/* The rest of a length: bytes are added until one is less than 255. No sum can pass 255 times the input. */
static inline bool take_more(struct input *in, size_t *length)
{
    uint8_t more;
    do {
        if (in->at == in->end)
            return false;
        more = *in->at++;
        *length += more;
    } while (more == 255);
    return true;
}

/* Literals; false: there are not so many, or no room for them. */
static inline bool copy_literals(struct input *in, uint8_t **to, const uint8_t *out_end, size_t length)
{
    size_t room = (size_t)(out_end - *to);
    if (length <= STRIDE && left(in) >= STRIDE && room >= STRIDE)
        memcpy(*to, in->at, STRIDE);
    else if (length <= left(in) && length <= room)
        memcpy(*to, in->at, length);
    else
        return false;
    in->at += length;
    *to += length;
    return true;
}

/* Bytes that were written `offset` before; they may overlap those that are being written. */
static inline bool copy_match(const uint8_t *begin, uint8_t **to, const uint8_t *out_end, size_t offset, size_t length)
{
    uint8_t *at = *to;
    size_t room = (size_t)(out_end - at);
    if (offset == 0 || offset > (size_t)(at - begin) || length > room)
        return false;
    const uint8_t *from = at - offset;
    uint8_t *end = *to = at + length;
    if (offset >= STRIDE && room - length >= STRIDE) {
        for (; at < end; at += STRIDE, from += STRIDE)
            memcpy(at, from, STRIDE);
        return true;
    }
    while (at < end) { /* each round has twice as much to copy from */
        size_t some = (size_t)(at - from) < (size_t)(end - at) ? (size_t)(at - from) : (size_t)(end - at);
        memcpy(at, from, some);
        at += some;
    }
    return true;
}

/* One block, whose matches do not reach before it; bytes written or -1. */
static int64_t read_block(struct input in, uint8_t *begin, size_t room)
{
    uint8_t *to = begin;
    const uint8_t *out_end = begin + room;
    while (in.at < in.end) {
        uint8_t token = *in.at++;
        size_t literals = token >> 4, match = token & LONG;
        if (literals == LONG && !take_more(&in, &literals))
            return -1;
        if (!copy_literals(&in, &to, out_end, literals))
            return -1;
        if (in.at == in.end) /* the last sequence ends with its literals */
            return match == 0 ? to - begin : -1;
        if (left(&in) < 2)
            return -1;
        size_t offset = (size_t)in.at[0] | (size_t)in.at[1] << 8;
        in.at += 2;
        if (match == LONG && !take_more(&in, &match))
            return -1;
        if (!copy_match(begin, &to, out_end, offset, match + MIN_MATCH))
            return -1;
    }
    return -1;
}

/* Flags and the most bytes of a block; false: not the head of a frame that Kafka takes. */
static bool take_head(struct input *in, uint8_t *flags, size_t *max_block)
{
    uint32_t magic;
    if (left(in) < HEAD_BYTES || !take_word(in, &magic) || magic != MAGIC)
        return false;
    const uint8_t *descriptor = in->at;
    *flags = descriptor[0];
    uint8_t code = descriptor[1] >> 4;
    if ((*flags & VERSION_MASK) != VERSION_1 || *flags & FLAGS_RESERVED || !(*flags & FLAG_INDEPENDENT_BLOCKS))
        return false;
    if (descriptor[1] & 0x0f || code < 4 || code > 7)
        return false;
    size_t bytes = 2 + (*flags & FLAG_CONTENT_SIZE ? SIZE_BYTES : 0);
    if (left(in) <= bytes || descriptor[bytes] != (mpb_xxh32(0, descriptor, bytes) >> 8 & 0xff))
        return false;
    in->at += bytes + 1;
    *max_block = (size_t)1 << (2 * code + 8);
    return true;
}

/* The block of `word`, the length that stands before it. */
static int64_t take_block(struct input *in, uint32_t word, bool checked, uint8_t *out, size_t room)
{
    uint32_t length = word & ~STORED, checksum;
    if (length > left(in))
        return -1;
    struct input block = {in->at, in->at + length};
    in->at += length;
    if (checked && (!take_word(in, &checksum) || checksum != mpb_xxh32(0, block.at, length)))
        return -1;
    if (!(word & STORED))
        return read_block(block, out, room);
    if (length > room)
        return -1;
    memcpy(out, block.at, length);
    return length;
}

int64_t mpb_lz4_read(const uint8_t *frame, size_t length, uint8_t *out, size_t room)
{
    struct input in = {frame, frame + length};
    uint8_t flags;
    size_t max_block, done = 0;
    uint32_t word;
    if (!take_head(&in, &flags, &max_block))
        return -1;
    for (;;) {
        if (!take_word(&in, &word))
            return -1;
        size_t most = room - done < max_block ? room - done : max_block;
        if ((word & ~STORED) == 0)
            break;
        if ((word & ~STORED) > max_block)
            return -1;
        int64_t written = take_block(&in, word, flags & FLAG_BLOCK_CHECKSUM, out + done, most);
        if (written < 0)
            return -1;
        done += (size_t)written;
    }
    return flags & FLAG_CONTENT_CHECKSUM && !take_word(&in, &word) ? -1 : (int64_t)done;
}
