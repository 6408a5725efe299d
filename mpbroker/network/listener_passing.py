"""Listening sockets from the supervisor to the acceptor that runs (KIP-226): SCM_RIGHTS over a SOCK_SEQPACKET
socketpair; runs in both.

A message is the index of a listener, a byte; from the supervisor with its socket, from the acceptor without: it has let
go of that listener. Until it says so neither the index nor a place of the listener's processors is used for another, so
that no connection can go to processors of a listener that it was not accepted on.
"""

import array
import socket
from typing import NamedTuple

_FD_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(_FD_BYTES)


class Passed(NamedTuple):
    """A listener's socket; None: the receiver's table of descriptors was full."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    listening: socket.socket | None


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """A pair (supervisor's end, acceptor's end); the supervisor keeps both open as long as it lives."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setblocking(False)
    return pair


def pass_on(channel: socket.socket, index: int, listening: socket.socket) -> bool:
    """Supervisor: this is the socket of a listener. False: not now."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listening.fileno()]))]
    try:
        channel.sendmsg([bytes([index])], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return False  # EAGAIN, ENOBUFS, ETOOMANYREFS
    return True


def receive(channel: socket.socket) -> Passed | None:
    """Acceptor: what was passed on next, None when there is nothing."""
    try:
        body, ancillary, _, _ = channel.recvmsg(1, _ANCILLARY_BYTES, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
    except BlockingIOError:
        return None
    if not body:
        return None  # every copy of the other end is closed
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[:_FD_BYTES])
    if not found:
        return Passed(body[0], None)
    listening = socket.socket(fileno=found[0])
    listening.setblocking(False)
    return Passed(body[0], listening)


def let_go(channel: socket.socket, index: int) -> bool:
    """Acceptor: it has nothing of this listener any more. False: not now."""
    try:
        channel.send(bytes([index]), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def let_go_of(channel: socket.socket) -> list[int]:
    """Supervisor: the listeners that the acceptor has let go of since it was last asked."""
    found: list[int] = []
    while True:
        try:
            body = channel.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return found
        if not body:
            return found
        found.append(body[0])
