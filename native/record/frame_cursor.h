/* Reads the fields of a request out of its frame, in versions that are flexible and in those that are not. Every function
 * is false, or NULL, when the frame ends too early; nothing is copied. */
#ifndef MPB_FRAME_CURSOR_H
#define MPB_FRAME_CURSOR_H

#include <stdbool.h>

#include "record/record_batch.h"
#include "record/uvarint.h"

#define MPB_ABSENT UINT32_MAX /* the length or count of what is null */

struct mpb_cursor {
    const uint8_t *at;
    size_t left;
    bool flexible; /* lengths and counts are compact, and tags end every struct */
};

static inline const uint8_t *mpb_take(struct mpb_cursor *c, size_t n)
{
    if (n > c->left)
        return NULL;
    const uint8_t *p = c->at;
    c->at += n;
    c->left -= n;
    return p;
}

static inline bool mpb_take8(struct mpb_cursor *c, int8_t *value)
{
    const uint8_t *p = mpb_take(c, 1);
    if (p)
        *value = (int8_t)*p;
    return p != NULL;
}

static inline bool mpb_take16(struct mpb_cursor *c, int16_t *value)
{
    const uint8_t *p = mpb_take(c, 2);
    if (p)
        *value = mpb_be16(p);
    return p != NULL;
}

static inline bool mpb_take32(struct mpb_cursor *c, int32_t *value)
{
    const uint8_t *p = mpb_take(c, 4);
    if (p)
        *value = mpb_be32(p);
    return p != NULL;
}

static inline bool mpb_take64(struct mpb_cursor *c, int64_t *value)
{
    const uint8_t *p = mpb_take(c, 8);
    if (p)
        *value = mpb_be64(p);
    return p != NULL;
}

static inline bool mpb_take_varint(struct mpb_cursor *c, uint32_t *value)
{
    const uint8_t *next = mpb_get_uvarint(c->at, c->at + c->left, value);
    if (next == NULL)
        return false;
    c->left -= (size_t)(next - c->at);
    c->at = next;
    return true;
}

/* A length or a count. `wide`: four bytes in versions that are not flexible, else two. */
static inline bool mpb_take_length(struct mpb_cursor *c, bool wide, uint32_t *value)
{
    int16_t narrow_value;
    int32_t wide_value;
    if (c->flexible) {
        if (!mpb_take_varint(c, value))
            return false;
        *value = *value == 0 ? MPB_ABSENT : *value - 1;
        return true;
    }
    if (wide ? !mpb_take32(c, &wide_value) : !mpb_take16(c, &narrow_value))
        return false;
    if (!wide)
        wide_value = narrow_value;
    *value = wide_value < 0 ? MPB_ABSENT : (uint32_t)wide_value;
    return wide_value >= -1;
}

/* Tagged fields, each of which is skipped. `*seen`, if wanted: bits of the tags 0 to 31 that were there. */
static inline bool mpb_take_tags(struct mpb_cursor *c, uint32_t *seen)
{
    uint32_t count, tag, size;
    if (!c->flexible)
        return true;
    if (!mpb_take_varint(c, &count) || count > c->left / 2)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!mpb_take_varint(c, &tag) || !mpb_take_varint(c, &size) || mpb_take(c, size) == NULL)
            return false;
        if (seen != NULL && tag < 32)
            *seen |= 1u << tag;
    }
    return true;
}

#endif
