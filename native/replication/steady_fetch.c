#include "replication/steady_fetch.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "log/append_follower.h"
#include "shm/inject.h"

enum { HEAD_BYTES = 4 };

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* False: the append failed. */
static bool append(struct mpb_steady_fetch *fetch, const struct mpb_steady_part *part, int64_t now_ms)
{
    struct mpb_steady_partition *one = part->of;
    struct mpb_follower_append request = {.ordinal = one->ordinal,
                                          .leader_epoch = one->leader_epoch,
                                          .offset = one->offset,
                                          .records = part->records,
                                          .length = part->length,
                                          .leader_hw = part->high_watermark,
                                          .leader_log_start = part->log_start,
                                          .now_ms = now_ms,
                                          .topic_id = one->topic_id};
    struct mpb_follower_appended appended;
    mpb_append_follower(fetch->log, &one->options, &request, &appended);
    MPB_CRASH(fetch->log->core, "fetcher.appended");
    one->leader_hw = part->high_watermark;
    one->error = appended.error;
    if (appended.batches == 0 && appended.error != 0)
        return false;
    one->untold |= appended.leo != one->offset || appended.last_epoch != one->last_epoch ||
                   appended.log_start != one->log_start;
    one->offset = appended.leo;
    one->last_epoch = appended.last_epoch;
    one->log_start = appended.log_start;
    return appended.error == 0;
}

/* The next request, as far as the socket takes it. */
static enum mpb_steady ask(struct mpb_steady_fetch *fetch)
{
    fetch->request_length = mpb_steady_write(&fetch->session, fetch->request);
    fetch->asked_ns = now_ns(CLOCK_MONOTONIC);
    fetch->is_asked = true;
    ssize_t sent;
    do
        sent = send(fetch->fd, fetch->request, fetch->request_length, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    fetch->unsent = fetch->request_length - (sent < 0 ? 0 : (uint32_t)sent);
    return fetch->unsent == 0 ? MPB_STEADY_WAITS : MPB_STEADY_LEFT;
}

/* A whole answer is there, and nothing behind it. */
static enum mpb_steady serve(struct mpb_steady_fetch *fetch)
{
    int count = mpb_steady_read(&fetch->session, fetch->answer + HEAD_BYTES, fetch->filled - HEAD_BYTES, fetch->parts);
    if (count < 0)
        return MPB_STEADY_LEFT;
    MPB_CRASH(fetch->log->core, "fetcher.answered");
    int64_t now_ms = (int64_t)(now_ns(CLOCK_REALTIME) / 1000000);
    bool is_good = true;
    for (int i = 0; i < count; i++)
        is_good &= append(fetch, &fetch->parts[i], now_ms);
    fetch->filled = 0;
    fetch->answers++;
    fetch->is_asked = false;
    return is_good ? ask(fetch) : MPB_STEADY_FAILED;
}

enum mpb_steady mpb_steady_turn(struct mpb_steady_fetch *fetch)
{
    ssize_t came;
    do
        came = recv(fetch->fd, fetch->answer + fetch->filled, sizeof fetch->answer - fetch->filled, MSG_DONTWAIT);
    while (came < 0 && errno == EINTR);
    if (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return MPB_STEADY_WAITS;
    if (came <= 0)
        return MPB_STEADY_LEFT; /* its next look at the socket says why */
    fetch->filled += (uint32_t)came;
    if (fetch->filled < HEAD_BYTES)
        return MPB_STEADY_WAITS;
    int64_t whole = (int64_t)HEAD_BYTES + mpb_be32(fetch->answer);
    if (whole <= HEAD_BYTES || whole > (int64_t)sizeof fetch->answer || fetch->filled > whole)
        return MPB_STEADY_LEFT; /* too long for here, or impossible */
    return fetch->filled < whole ? MPB_STEADY_WAITS : serve(fetch);
}
