#include "connection.h"
#include "trace_record.h"
#include "wire.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

void mpb_connection_close(struct mpb_connection *c)
{
    free(c->buffer);
    c->buffer = NULL;
    c->start = c->end = c->capacity = 0;
    c->closed = true;
}

static bool make_room(struct mpb_connection *c, uint32_t bytes)
{
    if (c->start > 0) {
        memmove(c->buffer, c->buffer + c->start, c->end - c->start);
        c->end -= c->start;
        c->start = 0;
    }
    if (c->capacity - c->end >= bytes)
        return true;
    uint32_t wanted = c->end == 0 ? bytes : c->end + bytes + c->end / 2; /* few copies for a frame that grows */
    uint8_t *grown = realloc(c->buffer, wanted);
    if (grown == NULL)
        return false;
    c->buffer = grown;
    c->capacity = wanted;
    return true;
}

enum mpb_received mpb_connection_receive(struct mpb_connection *c, uint8_t scratch[MPB_RECEIVE_BYTES], uint64_t now_ns)
{
    ssize_t n;
    do
        n = recv(c->fd, scratch, MPB_RECEIVE_BYTES, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        c->readable = false;
        return MPB_RECEIVED_NOTHING;
    }
    if (n <= 0)
        return MPB_CONNECTION_LOST;
    if (n < (ssize_t)MPB_RECEIVE_BYTES && !c->hung_up)
        c->readable = false; /* edge-triggered: a short read empties the socket, the next byte makes a new event */
    c->later_ns = now_ns;
    if (c->start == c->end)
        c->first_ns = now_ns;
    if (!make_room(c, (uint32_t)n))
        return MPB_NO_MEMORY;
    memcpy(c->buffer + c->end, scratch, (size_t)n);
    c->end += (uint32_t)n;
    return MPB_RECEIVED;
}

enum mpb_frame mpb_connection_frame(const struct mpb_connection *c, uint32_t max_bytes, const uint8_t **frame,
                                    int32_t *length)
{
    uint32_t have = c->end - c->start;
    if (have < 4)
        return MPB_FRAME_PART;
    *length = (int32_t)mpb_get_be32(c->buffer + c->start);
    *frame = c->buffer + c->start + 4;
    if (*length < MPB_MIN_FRAME_BYTES || (uint32_t)*length > max_bytes)
        return MPB_FRAME_INVALID;
    return (uint32_t)*length <= have - 4 ? MPB_FRAME_WHOLE : MPB_FRAME_PART;
}

bool mpb_connection_has_frame(const struct mpb_connection *c)
{
    uint32_t have = c->end - c->start;
    return have >= 4 && (int64_t)(int32_t)mpb_get_be32(c->buffer + c->start) <= (int64_t)have - 4;
}

void mpb_connection_take(struct mpb_connection *c, uint32_t bytes)
{
    c->start += bytes;
    if (c->start < c->end)
        return;
    c->start = c->end = c->capacity = 0; /* an idle connection holds no memory */
    free(c->buffer);
    c->buffer = NULL;
}

uint32_t mpb_connection_wants_arena(const struct mpb_connection *c)
{
    uint32_t have = c->end - c->start;
    if (have < 4)
        return 0;
    int32_t length = (int32_t)mpb_get_be32(c->buffer + c->start);
    if (length <= (int32_t)MPB_SMALL_FRAME_BYTES || (uint32_t)length <= have - 4)
        return 0; /* small, or whole: copied out of the buffer, which may hold more than this frame */
    uint32_t needed = (uint32_t)length >> 3;
    if (needed > MPB_ARRIVED_BEFORE_RESERVE)
        needed = MPB_ARRIVED_BEFORE_RESERVE;
    return have - 4 < needed ? 0 : (uint32_t)length;
}

/* ------------------------------------------------------------------ answers */
static const uint8_t *answer_of(const struct mpb_core *core, const struct mpb_entry *entry)
{
    return entry->answer_extent == MPB_NO_EXTENT ? entry->answer_bytes : core->arena + entry->answer_offset;
}

/* Settles the answers that `taken` more bytes complete. */
static void settle(struct mpb_connection *c, struct mpb_processor *p, uint64_t taken)
{
    uint32_t done = 0;
    taken += c->out_taken;
    while (done < c->out_count) {
        uint32_t length = p->core->entries[c->out[done]].answer_length;
        if (taken < length)
            break;
        taken -= length;
        mpb_sent(p, c->out[done++], c->out_started_ns, false);
    }
    c->out_taken = (uint32_t)taken;
    c->out_count -= done;
    memmove(c->out, c->out + done, c->out_count * sizeof *c->out);
}

enum mpb_send mpb_connection_send(struct mpb_connection *c, struct mpb_processor *p)
{
    if (!c->blocked)
        c->out_started_ns = mpb_trace_clock_ns();
    c->blocked = false;
    while (c->out_count > 0) {
        struct iovec pieces[MPB_MAX_OUT];
        size_t total = 0;
        for (uint32_t i = 0; i < c->out_count; i++) {
            const struct mpb_entry *entry = &p->core->entries[c->out[i]];
            uint32_t skip = i == 0 ? c->out_taken : 0;
            pieces[i].iov_base = (void *)(uintptr_t)(answer_of(p->core, entry) + skip);
            pieces[i].iov_len = entry->answer_length - skip;
            total += pieces[i].iov_len;
        }
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = c->out_count};
        ssize_t n = c->out_count == 1 ? send(c->fd, pieces[0].iov_base, total, MSG_NOSIGNAL | MSG_DONTWAIT)
                                      : sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return MPB_SEND_LOST;
        if (n > 0)
            settle(c, p, (uint64_t)n);
        if (n < 0 || (size_t)n < total) {
            c->blocked = true;
            if (n > 0)
                c->last_active_ns = mpb_trace_clock_ns();
            return MPB_SEND_WAITS;
        }
    }
    return MPB_SEND_DONE;
}

void mpb_connection_give_up(struct mpb_connection *c, struct mpb_processor *p)
{
    if (c->out_count > 0 && !c->blocked)
        mpb_connection_send(c, p);
    for (uint32_t i = 0; i < c->out_count; i++)
        mpb_sent(p, c->out[i], c->out_started_ns, true);
    c->out_count = c->out_taken = 0;
    c->blocked = false;
}
