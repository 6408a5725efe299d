"""Sockets from acceptor to processor: SCM_RIGHTS over a SOCK_SEQPACKET socketpair; runs in both.

A hand-over is one message: a header, one peer record per socket, and the sockets. The receiver answers every message,
with ACK when it has all of them or REFUSED when the kernel dropped some (MSG_CTRUNC: its descriptor table is full). The
sender keeps its own copies until that answer, so a death on the other side loses nothing. Messages name the incarnation
of the processor they are for: a successor closes what was meant for its predecessor, and the acceptor sends it again.

A processor that leaves while the broker runs (ADR 19) passes its connections back, one a message, each with what it has
received of the next request. It has let go of a socket when the message is sent: the message lives in the kernel, and
is read whichever acceptor lives then.

    header (24 bytes)  kind u8 | count u8 | unused u16 | processor incarnation u32 | acceptor incarnation u32 |
                       unused u32 | sequence u64
    peer   (24 bytes)  address 16 (IPv4 mapped into IPv6) | number u32 (port, or a count of connections) | accepted u32
"""

import array
import os
import socket
import struct
from typing import NamedTuple

MAX_SOCKETS_PER_MESSAGE = 16
MAX_PEERS_PER_MESSAGE = 255
MAX_RECEIVED_BYTES = 65536  # of a connection that is passed on; one that has more is served until it has less

HANDOVER = 1  # acceptor → processor: count sockets with their peers
ACK = 2  # processor → acceptor: message `sequence` arrived whole
REFUSED = 3  # processor → acceptor: message `sequence` arrived without its sockets; nothing of it was kept
CLOSED = 4  # processor → acceptor: per peer address, how many connections ended since the last such message
HELLO = 5  # acceptor → processor: a new acceptor asks which connections there are
CONNECTIONS = 6  # processor → acceptor: per peer address, how many connections there are; answers HELLO
CONNECTIONS_END = 7  # processor → acceptor: that was all of the answer
RETURNED = 8  # processor → acceptor: a connection, with what was received of its next request; the processor leaves

_HEADER = struct.Struct("<BBHIIIQ")
_PEER = struct.Struct("<16sII")
_INT_BYTES = array.array("i").itemsize
_MAX_MESSAGE_BYTES = _HEADER.size + max(MAX_PEERS_PER_MESSAGE * _PEER.size, _PEER.size + MAX_RECEIVED_BYTES)
_WITH_SOCKETS = frozenset((HANDOVER, RETURNED))
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_SOCKETS_PER_MESSAGE * _INT_BYTES)
_MAPPED = bytes(10) + b"\xff\xff"


class Peer(NamedTuple):
    """Who is at the other end: 16 address bytes, and a port (HANDOVER) or a number of connections (the others).

    `accepted`: of a socket, the low half of the monotonic clock's microseconds when it was accepted; 0: not known.
    """

    address: bytes
    number: int
    accepted: int = 0


class Message(NamedTuple):
    """One message. `sockets` are descriptors the receiver owns; `truncated`: the kernel dropped some, all are
    closed. `received`: of a single connection that was served before, the bytes of its next request that are here."""

    kind: int
    processor_incarnation: int
    acceptor_incarnation: int
    sequence: int
    peers: tuple[Peer, ...] = ()
    sockets: tuple[int, ...] = ()
    truncated: bool = False
    received: bytes = b""


def handover_pair() -> tuple[socket.socket, socket.socket]:
    """A pair (acceptor's end, processor's end); the supervisor keeps both ends open as long as it lives."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setblocking(False)
    return pair


def address_bytes(host: str) -> bytes:
    """A numeric IPv4 or IPv6 address as 16 bytes; IPv4 is mapped, so that ::ffff:1.2.3.4 and 1.2.3.4 are one peer."""
    if ":" not in host:
        return _MAPPED + socket.inet_aton(host)
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])


def address_text(address: bytes) -> str:
    """The reverse of `address_bytes`."""
    if address.startswith(_MAPPED):
        return socket.inet_ntoa(address[12:])
    return socket.inet_ntop(socket.AF_INET6, address)


def accept_stamp(now_ns: int) -> int:
    """`accepted` for a socket accepted now."""
    return now_ns // 1000 & 0xFFFFFFFF or 1


def accepted_ns(stamp: int, now_ns: int) -> int:
    """The monotonic clock when a socket was accepted, which is less than 71 minutes ago."""
    return now_ns - (now_ns // 1000 - stamp & 0xFFFFFFFF) * 1000 if stamp else now_ns


def send_message(channel: socket.socket, message: Message) -> bool:
    """Send without waiting. False: no room now (queue full, too many descriptors under way); nothing was sent."""
    assert len(message.received) <= MAX_RECEIVED_BYTES and (not message.received or len(message.peers) == 1)
    assert len(message.peers) <= MAX_PEERS_PER_MESSAGE and len(message.sockets) <= MAX_SOCKETS_PER_MESSAGE
    header = _HEADER.pack(
        message.kind,
        len(message.peers),
        0,
        message.processor_incarnation,
        message.acceptor_incarnation,
        0,
        message.sequence,
    )
    body = header + b"".join([_PEER.pack(*peer) for peer in message.peers]) + message.received
    ancillary = []
    if message.sockets:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", message.sockets))]
    try:
        channel.sendmsg([body], ancillary, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return False  # EAGAIN, ENOBUFS, ETOOMANYREFS: the caller keeps what it has and tries again
    return True


def receive_message(channel: socket.socket) -> Message | None:
    """The next message, or None when there is none now. A message no sender of ours wrote reads as kind 0."""
    try:
        body, ancillary, flags, _ = channel.recvmsg(
            _MAX_MESSAGE_BYTES, _ANCILLARY_BYTES, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        )
    except BlockingIOError:
        return None
    if not body:
        return None  # every copy of the other end is closed
    sockets = _descriptors(ancillary)
    message = _parse(body, sockets)
    if message is None:
        close_all(sockets)
        return Message(0, 0, 0, 0)
    expected = len(message.peers) if message.kind in _WITH_SOCKETS else 0
    if flags & socket.MSG_CTRUNC or len(sockets) != expected:
        close_all(sockets)
        return message._replace(sockets=(), truncated=True)
    return message


def close_all(descriptors: tuple[int, ...]) -> None:
    """Close descriptors this process owns."""
    for descriptor in descriptors:
        os.close(descriptor)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % _INT_BYTES])
    return tuple(found)


def _parse(body: bytes, sockets: tuple[int, ...]) -> Message | None:
    if len(body) < _HEADER.size:
        return None
    kind, count, _, processor, acceptor, _, sequence = _HEADER.unpack_from(body)
    end = _HEADER.size + count * _PEER.size
    received = body[end:]
    if len(body) < end or (received and not (count == 1 and kind in _WITH_SOCKETS)):
        return None
    peers = tuple(Peer(*fields) for fields in _PEER.iter_unpack(body[_HEADER.size : end]))
    return Message(kind, processor, acceptor, sequence, peers, sockets, received=received)
