#include "network/connection.h"
#include "trace/trace_record.h"
#include "record/wire.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { OFFSET_TRIES = 3, OFFSET_TOLERATED_NS = 2000 };

void mpb_connection_close(struct mpb_connection *c)
{
    free(c->buffer);
    free(c->introduction);
    c->buffer = c->introduction = NULL;
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

/* Both clocks, one right behind the other: what lies between them makes every arrival of the next millisecond earlier
 * by as much, and that can be a time slice. */
static int64_t wall_minus_monotonic_ns(void)
{
    int64_t found_ns = 0;
    for (int tries = 0; tries < OFFSET_TRIES; tries++) {
        struct timespec wall;
        uint64_t before_ns = mpb_trace_clock_ns();
        clock_gettime(CLOCK_REALTIME, &wall);
        uint64_t after_ns = mpb_trace_clock_ns();
        found_ns = wall.tv_sec * 1000000000ll + wall.tv_nsec - (int64_t)before_ns;
        if (after_ns - before_ns < OFFSET_TOLERATED_NS)
            break;
    }
    return found_ns;
}

static uint64_t monotonic(struct mpb_arrivals *arrivals, const struct timespec *wall, uint64_t now_ns)
{
    if (now_ns - arrivals->sampled_ns >= MPB_OFFSET_SAMPLE_NS) {
        arrivals->wall_minus_monotonic_ns = wall_minus_monotonic_ns();
        arrivals->sampled_ns = now_ns;
    }
    int64_t at_ns = wall->tv_sec * 1000000000ll + wall->tv_nsec - arrivals->wall_minus_monotonic_ns;
    return at_ns > 0 ? (uint64_t)at_ns : 0;
}

/* recv that also tells when the bytes arrived, 0: the kernel does not say. */
static ssize_t receive(int fd, uint8_t *into, uint64_t now_ns, struct mpb_arrivals *arrivals, uint64_t *arrival_ns)
{
    *arrival_ns = 0;
    if (!arrivals->wanted)
        return recv(fd, into, MPB_RECEIVE_BYTES, MSG_DONTWAIT);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec piece = {into, MPB_RECEIVE_BYTES};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
    const struct cmsghdr *first = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (first != NULL && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SO_TIMESTAMPNS &&
        first->cmsg_len >= CMSG_LEN(sizeof(struct timespec))) {
        struct timespec wall;
        memcpy(&wall, CMSG_DATA(first), sizeof wall);
        *arrival_ns = monotonic(arrivals, &wall, now_ns);
    }
    return n;
}

enum mpb_received mpb_connection_receive(struct mpb_connection *c, uint8_t scratch[MPB_RECEIVE_BYTES], uint64_t now_ns,
                                         struct mpb_arrivals *arrivals)
{
    ssize_t n;
    uint64_t arrival_ns;
    do
        n = receive(c->fd, scratch, now_ns, arrivals, &arrival_ns);
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
    c->later_arrival_ns = arrival_ns;
    if (c->start == c->end) {
        c->first_ns = now_ns;
        c->first_arrival_ns = arrival_ns;
    }
    if (!make_room(c, (uint32_t)n))
        return MPB_NO_MEMORY;
    memcpy(c->buffer + c->end, scratch, (size_t)n);
    c->end += (uint32_t)n;
    return MPB_RECEIVED;
}

bool mpb_connection_preload(struct mpb_connection *c, const uint8_t *bytes, uint32_t length, uint64_t now_ns)
{
    if (length == 0)
        return true;
    if (!make_room(c, length))
        return false;
    memcpy(c->buffer + c->end, bytes, length);
    c->end += length;
    c->first_ns = c->later_ns = c->frame_started_ns = now_ns;
    return true;
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

bool mpb_connection_introduces(struct mpb_connection *c, const uint8_t *frame, uint32_t length, uint32_t client_hash)
{
    bool names_software = mpb_get_be16(frame) == MPB_API_VERSIONS_KEY && mpb_get_be16(frame + 2) >= 3;
    if ((client_hash == 0 || client_hash == c->client_hash) && !names_software)
        return false;
    c->client_hash = client_hash;
    if (c->introductions == MPB_MAX_INTRODUCTIONS)
        return false;
    free(c->introduction);
    c->introduction_bytes = length < MPB_INTRODUCTION_BYTES ? length : MPB_INTRODUCTION_BYTES;
    c->introduction = malloc(c->introduction_bytes);
    if (c->introduction == NULL)
        return false;
    memcpy(c->introduction, frame, c->introduction_bytes);
    c->introductions++;
    return true;
}

uint8_t *mpb_connection_take_introduction(struct mpb_connection *c, uint32_t *bytes)
{
    uint8_t *taken = c->introduction;
    *bytes = taken == NULL ? 0 : c->introduction_bytes;
    c->introduction = NULL;
    return taken;
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
    uint64_t now_ns = p->lane != NULL ? mpb_trace_clock_ns() : c->out_started_ns;
    c->sent_bytes += taken;
    taken += c->out_taken;
    while (done < c->out_count) {
        uint32_t length = p->core->entries[c->out[done]].answer_length;
        if (taken < length)
            break;
        taken -= length;
        mpb_sent_at(p, c->out[done++], c->out_started_ns, now_ns);
    }
    c->out_taken = (uint32_t)taken;
    c->out_count -= done;
    memmove(c->out, c->out + done, c->out_count * sizeof *c->out);
    if (p->lane != NULL)
        mpb_processor_looked(p, now_ns);
}

enum mpb_send mpb_connection_send(struct mpb_connection *c, struct mpb_processor *p)
{
    if (!c->blocked)
        c->out_started_ns = mpb_processor_now_ns(p);
    c->blocked = false;
    p->collected_ns = 0; /* a send takes time */
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

uint64_t mpb_connection_untaken(const struct mpb_connection *c, const struct mpb_core *core)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->out_count; i++)
        bytes += core->entries[c->out[i]].answer_length;
    return bytes - c->out_taken;
}

void mpb_connection_give_up(struct mpb_connection *c, struct mpb_processor *p)
{
    if (c->out_count > 0 && !c->blocked)
        mpb_connection_send(c, p);
    for (uint32_t i = 0; i < c->out_count; i++)
        mpb_sent(p, c->out[i], c->out_started_ns, true);
    c->out_count = c->out_taken = 0;
    c->blocked = false;
    p->collected_ns = 0;
}
