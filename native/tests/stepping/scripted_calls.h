/* The clocks and socket calls of a program, as a script says: each call takes the next line, or ends the program. */
#ifndef MPB_TESTS_SCRIPTED_CALLS_H
#define MPB_TESTS_SCRIPTED_CALLS_H

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "tests/stepping/check.h"

enum { SCRIPT_LINES = 64 };

static struct {
    int64_t monotonic_ns[SCRIPT_LINES], wall_ns[SCRIPT_LINES]; /* readings; the last one stays */
    int monotonic_reads, wall_reads, monotonic_lines, wall_lines;
    void (*on_reading)(void); /* what is looked at while somebody reads a clock */
    struct {
        int result;           /* bytes, or an errno below 0 */
        int64_t arrived_ns;   /* 0: the kernel does not say */
        int level, type;      /* 0: as it should be */
        size_t control_less;  /* bytes of the control message that are lacking */
        const uint8_t *bytes; /* NULL: made up */
    } received[SCRIPT_LINES];
    int receives, plain_receives, receive_lines;
    int sent[SCRIPT_LINES]; /* bytes that the kernel takes, or an errno below 0 */
    int sends, send_lines;
    size_t pieces[SCRIPT_LINES], wanted[SCRIPT_LINES];
    uint8_t stream[4096];
    size_t stream_bytes;
} script;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    bool is_wall = clock == CLOCK_REALTIME;
    if (script.on_reading != NULL)
        script.on_reading();
    int *reads = is_wall ? &script.wall_reads : &script.monotonic_reads;
    int lines = is_wall ? script.wall_lines : script.monotonic_lines, line = (*reads)++;
    int64_t ns = lines == 0 ? 1 : (is_wall ? script.wall_ns : script.monotonic_ns)[line < lines ? line : lines - 1];
    *out = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

static inline ssize_t take_receive(uint8_t *into, int *line)
{
    CHECK(script.receives < script.receive_lines);
    *line = script.receives++;
    int result = script.received[*line].result;
    if (result < 0) {
        errno = -result;
        return -1;
    }
    for (int i = 0; i < result; i++)
        into[i] = script.received[*line].bytes != NULL ? script.received[*line].bytes[i] : (uint8_t)(*line * 16 + i);
    return result;
}

ssize_t recv(int fd, void *into, size_t bytes, int flags)
{
    int line;
    CHECK(fd >= 77 && bytes == 65536 && flags == MSG_DONTWAIT);
    script.plain_receives++;
    return take_receive(into, &line);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    int line;
    CHECK(fd == 77 && message->msg_iovlen == 1 && message->msg_iov->iov_len == 65536 && flags == MSG_DONTWAIT);
    CHECK_EQ(message->msg_controllen, CMSG_SPACE(sizeof(struct timespec)));
    ssize_t n = take_receive(message->msg_iov->iov_base, &line);
    int64_t ns = script.received[line].arrived_ns;
    if (ns == 0) {
        message->msg_controllen = 0;
        return n;
    }
    struct timespec wall = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = script.received[line].level != 0 ? script.received[line].level : SOL_SOCKET;
    header->cmsg_type = script.received[line].type != 0 ? script.received[line].type : SO_TIMESTAMPNS;
    header->cmsg_len = CMSG_LEN(sizeof wall) - script.received[line].control_less;
    memcpy(CMSG_DATA(header), &wall, sizeof wall);
    return n;
}

static inline ssize_t take_send(const struct iovec *pieces, size_t count, int flags)
{
    CHECK(script.sends < script.send_lines && flags == (MSG_NOSIGNAL | MSG_DONTWAIT));
    int line = script.sends++, result = script.sent[line];
    script.pieces[line] = count;
    script.wanted[line] = 0;
    for (size_t i = 0; i < count; i++)
        script.wanted[line] += pieces[i].iov_len;
    if (result < 0) {
        errno = -result;
        return -1;
    }
    size_t left = (size_t)result;
    for (size_t i = 0; i < count && left > 0; i++) {
        size_t bytes = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        memcpy(script.stream + script.stream_bytes, pieces[i].iov_base, bytes);
        script.stream_bytes += bytes;
        left -= bytes;
    }
    CHECK_EQ(left, 0);
    return result;
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    const struct iovec piece = {(void *)(uintptr_t)bytes, length};
    CHECK_EQ(fd, 77);
    return take_send(&piece, 1, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    CHECK_EQ(fd, 77);
    return take_send(message->msg_iov, message->msg_iovlen, flags);
}

#endif
