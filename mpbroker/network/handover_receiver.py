"""The processor's side of the hand-over: takes sockets, acknowledges them, reports closed connections; one per
processor.

A socket is acknowledged before a byte of it is read, so that the acceptor may send it to somebody else if this process
dies first.
"""

import socket
from collections import Counter
from typing import NamedTuple

from mpbroker.network.fd_passing import (
    ACK,
    CLOSED,
    CONNECTIONS,
    CONNECTIONS_END,
    HANDOVER,
    HELLO,
    MAX_PEERS_PER_MESSAGE,
    REFUSED,
    RETURNED,
    Message,
    Peer,
    close_all,
    receive_message,
    send_message,
)


class Received(NamedTuple):
    """A socket that is ours now."""

    fd: int
    address: bytes
    port: int
    accepted: int  # fd_passing.accept_stamp
    received: bytes  # by a processor that had it before


class HandoverReceiver:
    """Reads the acceptor's messages. `open_connections` counts by address and is what a new acceptor is sent."""

    def __init__(self, channel: socket.socket, incarnation: int) -> None:
        self.channel = channel
        self.open_connections: Counter[bytes] = Counter()
        self.truncated = 0  # messages whose sockets the kernel dropped
        self.stale = 0  # sockets meant for a predecessor
        self.leaving = False  # nothing is acknowledged any more: the acceptor knows, and keeps what it sends
        self._incarnation = incarnation
        self._acceptor_incarnation = 0
        self._closed: Counter[bytes] = Counter()
        self._unsent: list[Message] = []  # answers the channel had no room for; at most one window and one report

    def receive(self, limit: int) -> list[Received]:
        """Sockets handed over since the last call, at most about `limit`."""
        received: list[Received] = []
        self.flush()
        while len(received) < limit and not self._unsent:
            message = receive_message(self.channel)
            if message is None:
                break
            if message.processor_incarnation != self._incarnation:
                close_all(message.sockets)
                self.stale += len(message.sockets)
            elif message.kind == HELLO:
                self._report(message.acceptor_incarnation)
            elif message.kind == HANDOVER and self.leaving:
                close_all(message.sockets)
            elif message.kind == HANDOVER:
                received += self._take(message)
        return received

    def owes_answers(self) -> bool:
        """Whether the acceptor still has to hear something."""
        return bool(self._unsent)

    def pass_back(self, fd: int, peer: Peer, received: bytes) -> bool:
        """Give a connection to the acceptor, which gives it to another processor. False: not now; it is still ours."""
        message = Message(RETURNED, self._incarnation, self._acceptor_incarnation, 0, (peer,), (fd,), received=received)
        if not send_message(self.channel, message):
            return False
        self.open_connections[peer.address] -= 1
        if self.open_connections[peer.address] <= 0:
            del self.open_connections[peer.address]
        return True

    def closed(self, address: bytes) -> None:
        """A connection ended; the next `flush` reports it to the acceptor."""
        self.open_connections[address] -= 1
        if self.open_connections[address] <= 0:
            del self.open_connections[address]
        self._closed[address] += 1

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self._unsent and send_message(self.channel, self._unsent[0]):
            self._unsent.pop(0)
        if self._closed and not self._unsent:
            self._unsent += self._messages(CLOSED, self._closed)
            self._closed.clear()
            while self._unsent and send_message(self.channel, self._unsent[0]):
                self._unsent.pop(0)

    def _take(self, message: Message) -> list[Received]:
        kind = REFUSED if message.truncated else ACK
        self._acceptor_incarnation = message.acceptor_incarnation
        self._send(Message(kind, self._incarnation, message.acceptor_incarnation, message.sequence))
        if message.truncated:
            self.truncated += 1
            return []
        for peer in message.peers:
            self.open_connections[peer.address] += 1
        return [Received(fd, *peer, message.received) for fd, peer in zip(message.sockets, message.peers, strict=True)]

    def _report(self, acceptor_incarnation: int) -> None:
        """All our connections, for an acceptor that knows none of them. Ends were reported before: `receive` reads
        nothing as long as one waits."""
        self._acceptor_incarnation = acceptor_incarnation
        for message in self._messages(CONNECTIONS, self.open_connections):
            self._send(message)
        self._send(Message(CONNECTIONS_END, self._incarnation, acceptor_incarnation, 0))

    def _messages(self, kind: int, counts: Counter[bytes]) -> list[Message]:
        peers = [Peer(address, count) for address, count in counts.items()]
        return [
            Message(
                kind,
                self._incarnation,
                self._acceptor_incarnation,
                0,
                tuple(peers[first : first + MAX_PEERS_PER_MESSAGE]),
            )
            for first in range(0, len(peers), MAX_PEERS_PER_MESSAGE)
        ]

    def _send(self, message: Message) -> None:
        if self._unsent or not send_message(self.channel, message):
            self._unsent.append(message)
