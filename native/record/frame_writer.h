/* Writes the fields of an answer's frame, in versions that are flexible and in those that are not. The caller has made room;
 * with `frame` NULL it only counts. */
#ifndef MPB_FRAME_WRITER_H
#define MPB_FRAME_WRITER_H

#include <stdbool.h>
#include <string.h>

#include "record/record_batch.h"
#include "record/uvarint.h"

struct mpb_writer {
    uint8_t *frame;
    uint32_t at;
    bool flexible;
};

static inline void mpb_write16(struct mpb_writer *w, int16_t value)
{
    if (w->frame)
        mpb_put_be16(w->frame + w->at, value);
    w->at += 2;
}

static inline void mpb_write32(struct mpb_writer *w, int32_t value)
{
    if (w->frame)
        mpb_put_be32(w->frame + w->at, value);
    w->at += 4;
}

static inline void mpb_write64(struct mpb_writer *w, int64_t value)
{
    if (w->frame)
        mpb_put_be64(w->frame + w->at, value);
    w->at += 8;
}

static inline void mpb_write_bytes(struct mpb_writer *w, const uint8_t *bytes, uint32_t length)
{
    if (w->frame)
        memcpy(w->frame + w->at, bytes, length);
    w->at += length;
}

static inline void mpb_write_varint(struct mpb_writer *w, uint32_t value)
{
    if (w->frame)
        mpb_put_uvarint(w->frame + w->at, value);
    w->at += (uint32_t)mpb_uvarint_bytes(value);
}

/* The count of an array, or the length of bytes. */
static inline void mpb_write_count(struct mpb_writer *w, uint32_t count)
{
    if (w->flexible)
        mpb_write_varint(w, count + 1);
    else
        mpb_write32(w, (int32_t)count);
}

static inline void mpb_write_null(struct mpb_writer *w)
{
    if (w->flexible)
        mpb_write_varint(w, 0);
    else
        mpb_write32(w, -1);
}

static inline void mpb_write_text(struct mpb_writer *w, const uint8_t *text, uint32_t length)
{
    if (w->flexible)
        mpb_write_varint(w, length + 1);
    else
        mpb_write16(w, (int16_t)length);
    mpb_write_bytes(w, text, length);
}

static inline void mpb_write_no_tags(struct mpb_writer *w)
{
    if (w->flexible)
        mpb_write_varint(w, 0);
}

#endif
