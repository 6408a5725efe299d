#include "trace/trace_tail.h"
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define PIECE_RECORDS 2048 /* read by the kernel, for the checksum and for the tally: a core keeps them meanwhile */
#define NS_PER_MS 1000000

static bool write_all(int file, const uint8_t *data, size_t bytes, uint64_t position)
{
    while (bytes > 0) {
        ssize_t written = pwrite(file, data, bytes, (off_t)position);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        bytes -= (size_t)written;
        position += (uint64_t)written;
    }
    return true;
}

static bool append(const struct mpb_trace_tail *tail, struct mpb_lane_span span)
{
    uint64_t end = tail->head_bytes + tail->tally->count * MPB_TRACE_BYTES;
    if (!write_all(tail->file, (const uint8_t *)span.first, span.count * MPB_TRACE_BYTES, end))
        return false;
    mpb_tally_add(tail->tally, span.first, span.count);
    mpb_lane_release(tail->lane, span.count);
    return true;
}

bool mpb_tail_follow(const struct mpb_trace_tail *tail)
{
    struct mpb_lane_counters counters = mpb_lane_read_counters(tail->lane);
    uint64_t left = counters.written - counters.drained, used = tail->tally->count;
    if (left > 0 && (tail->file < 0 || used > tail->room || tail->room - used < left))
        return false;
    while (left > 0) {
        struct mpb_lane_span span = mpb_lane_peek(tail->lane, left < PIECE_RECORDS ? left : PIECE_RECORDS);
        if (span.count == 0 || !append(tail, span))
            return false;
        left -= span.count;
    }
    return true;
}

static bool is_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;
}

static bool follow_all(const struct mpb_trace_tail *tails, size_t count, const struct mpb_trace_bells *bells)
{
    uint64_t rung;
    bool done = true;
    while (read(bells->bell_fd, &rung, sizeof rung) < 0 && errno == EINTR)
        ;
    if (is_readable(bells->notices_fd))
        return false;
    for (size_t i = 0; i < count; i++)
        done &= mpb_tail_follow(&tails[i]);
    return done;
}

enum mpb_trace_wait mpb_tail_wait(const struct mpb_trace_tail *tails, size_t count, const struct mpb_trace_bells *bells,
                                  int timeout_ms)
{
    uint64_t now = mpb_trace_clock_ns(), until = now + (uint64_t)timeout_ms * NS_PER_MS;
    struct pollfd fds[2] = {{.fd = bells->wakeup_fd, .events = POLLIN}, {.fd = bells->bell_fd, .events = POLLIN}};
    for (; now < until; now = mpb_trace_clock_ns()) {
        int ready = poll(fds, 2, (int)((until - now + NS_PER_MS - 1) / NS_PER_MS));
        if (ready < 0 || fds[0].revents != 0)
            return MPB_TRACE_SIGNALLED; /* a poll that was interrupted was so by a signal */
        if (ready > 0 && (count == 0 || !follow_all(tails, count, bells)))
            return MPB_TRACE_NEEDS_TURN;
    }
    return MPB_TRACE_TIME_OVER;
}
