"""The acceptor's side of one processor: which sockets are under way to it; state of the acceptor.

A socket stays in the window, with the acceptor's own copy open, until the processor has acknowledged it. When the
process table shows another incarnation of the processor, everything in the window is taken back and sent again: what
the dead one had acknowledged died with it, what it had not is whole.
"""

import os
import socket
from collections import OrderedDict
from typing import NamedTuple

from mpbroker.network.connection_quotas import ConnectionQuotas
from mpbroker.network.fd_passing import (
    ACK,
    CLOSED,
    CONNECTIONS,
    CONNECTIONS_END,
    HANDOVER,
    HELLO,
    MAX_SOCKETS_PER_MESSAGE,
    REFUSED,
    RETURNED,
    Message,
    Peer,
    receive_message,
    send_message,
)

WINDOW_SOCKETS = 20  # Kafka's new-connection queue of a processor
MAX_REFUSALS = 8  # a socket refused this many times is closed


class Accepted:
    """A socket on its way: descriptor (ours until acknowledged), 16 address bytes, port, how often it was refused, when
    it was accepted (fd_passing.accept_stamp), and what a processor that had it has received of its next request."""

    __slots__ = ("address", "fd", "port", "received", "refusals", "stamp")

    def __init__(self, fd: int, address: bytes, port: int, stamp: int = 0, received: bytes = b"") -> None:
        self.fd = fd
        self.address = address
        self.port = port
        self.stamp = stamp
        self.received = received
        self.refusals = 0


class Answers(NamedTuple):
    """What a processor's messages amounted to: sockets it has now, sockets it refused, messages not understood,
    connections it passes back."""

    taken: int
    refused: list[Accepted]
    unexpected: int
    returned: list[Accepted]


class Handover:
    """One processor as its acceptor sees it. `incarnation` is the one it sends to, 0 while there is none."""

    def __init__(self, channel: socket.socket, processor: int, acceptor_incarnation: int) -> None:
        self.channel = channel
        self.processor = processor
        self.incarnation = 0
        self._acceptor_incarnation = acceptor_incarnation
        self._sequence = 0
        self._window: OrderedDict[int, list[Accepted]] = OrderedDict()
        self._in_window = 0
        self._greeted = False
        self._counting = False
        self._leaving = False

    def room(self) -> int:
        """Sockets that may be sent now."""
        if not self.incarnation or not self._greeted or self._leaving:
            return 0
        return min(WINDOW_SOCKETS - self._in_window, MAX_SOCKETS_PER_MESSAGE)

    def unacknowledged(self) -> int:
        """Sockets under way."""
        return self._in_window

    def follow(self, incarnation: int, quotas: ConnectionQuotas) -> list[Accepted]:
        """Note which incarnation lives (0: none). Returns the sockets the one before never acknowledged."""
        if incarnation == self.incarnation:
            if incarnation and not self._greeted:
                self._greet()
            return []
        lost = self._take_back(quotas)
        quotas.processor_died(self.processor)
        self.incarnation = incarnation
        self._greeted = self._counting = self._leaving = False
        if incarnation:
            self._greet()
        return lost

    def leaves(self, quotas: ConnectionQuotas) -> list[Accepted]:
        """It takes no more sockets, serves those it has and passes them back. Returns what it never acknowledged, nor
        will: it said all that it had to say before it showed that it leaves."""
        if self._leaving:
            return []
        self._leaving = True
        return self._take_back(quotas)

    def _take_back(self, quotas: ConnectionQuotas) -> list[Accepted]:
        """The window, after all that the processor said before it died or left."""
        lost: list[Accepted] = []
        while True:
            answers = self.read_answers(quotas)
            lost += answers.returned + answers.refused
            if not answers.returned:
                break
        lost += [accepted for group in self._window.values() for accepted in group]
        self._window.clear()
        self._in_window = 0
        return lost

    def close_window(self) -> None:
        """The acceptor has nothing more to do with it: close our copies of what was never acknowledged."""
        for group in self._window.values():
            for accepted in group:
                os.close(accepted.fd)
        self._window.clear()
        self._in_window = 0

    def send(self, group: list[Accepted]) -> bool:
        """Send at most `room()` sockets as one message; one with received bytes goes alone. False: not now; the caller
        still has them."""
        self._sequence += 1
        peers = tuple(Peer(accepted.address, accepted.port, accepted.stamp) for accepted in group)
        received = group[0].received if len(group) == 1 else b""
        message = Message(
            HANDOVER,
            self.incarnation,
            self._acceptor_incarnation,
            self._sequence,
            peers,
            tuple(accepted.fd for accepted in group),
            received=received,
        )
        if not send_message(self.channel, message):
            return False
        self._window[self._sequence] = group
        self._in_window += len(group)
        return True

    def read_answers(self, quotas: ConnectionQuotas) -> Answers:
        """Take every message that is here; acknowledged copies are closed, quotas follow."""
        taken, refused, unexpected = 0, [], 0
        returned: list[Accepted] = []
        while len(returned) < WINDOW_SOCKETS and (message := receive_message(self.channel)) is not None:
            if message.kind == RETURNED:  # also of a dead one: it had let go of them
                returned += self._returned(message, quotas)
                continue
            if message.processor_incarnation != self.incarnation:
                continue  # of a dead one, whose connections no longer count
            if message.kind in (ACK, REFUSED):
                group = self._take(message)
                if message.kind == ACK:
                    taken += len(group)
                    self._acknowledge(group, quotas)
                else:
                    refused += group
            elif message.kind in (CLOSED, CONNECTIONS, CONNECTIONS_END):
                self._count(message, quotas)
            else:
                unexpected += 1
        return Answers(taken, refused, unexpected, returned)

    def _returned(self, message: Message, quotas: ConnectionQuotas) -> list[Accepted]:
        """A connection that is under way again, with its place in the quotas."""
        known = message.processor_incarnation == self.incarnation and self._counting
        found = []
        for fd, peer in zip(message.sockets, message.peers, strict=False):
            quotas.returned(self.processor if known else None, peer.address)
            found.append(Accepted(fd, peer.address, peer.number, peer.accepted, message.received))
        return found

    def _take(self, message: Message) -> list[Accepted]:
        if message.acceptor_incarnation != self._acceptor_incarnation:
            return []
        group = self._window.pop(message.sequence, [])
        self._in_window -= len(group)
        return group

    def _acknowledge(self, group: list[Accepted], quotas: ConnectionQuotas) -> None:
        for accepted in group:
            os.close(accepted.fd)
            quotas.handed_over(self.processor, accepted.address)

    def _count(self, message: Message, quotas: ConnectionQuotas) -> None:
        """CLOSED counts only after the processor's list of connections: before it, it is already left out of the
        list."""
        if message.kind == CLOSED:
            if self._counting:
                for peer in message.peers:
                    quotas.closed(self.processor, peer.address, peer.number)
        elif message.acceptor_incarnation == self._acceptor_incarnation:
            self._counting = True
            for peer in message.peers:
                quotas.found(self.processor, peer.address, peer.number)

    def _greet(self) -> None:
        self._greeted = send_message(self.channel, Message(HELLO, self.incarnation, self._acceptor_incarnation, 0))
