"""Requests of the coordinator to other brokers: markers to write, transactions to ask about. Coordinator process of a
broker of a cluster; a thread of its own, for the process itself waits for futexes.

The thread begins with the first request and keeps nothing that must survive: whoever asked asks again, or its
successor does. Between the two threads go two queues; a request that finds no answer comes back with None.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mpbroker.protocol.types import Struct

if TYPE_CHECKING:
    from mpbroker.client.broker_channel import BrokerChannel

MAX_CONNECTIONS: Final = 4  # to one broker: one that waits for its followers must not hold the others up
MAX_WAITING: Final = 1000  # for one broker; the oldest ones fail
MAX_PEERS: Final = 32  # remembered: a broker that came back elsewhere is another one; a cluster has 15 at most
TIMEOUT_MS: Final = 10_000
IDLE_MS: Final = 1000

Address: TypeAlias = tuple[str, int]
Then: TypeAlias = Callable[[Struct | None], None]


class _Asked(NamedTuple):
    """A request on its way. `until_ms`: when nobody waits for its answer any more."""

    message: Struct
    then: Then
    until_ms: int


class _Peer:
    """One broker: connections, with what each has in flight, and what waits for one."""

    def __init__(self) -> None:
        self.channels: list[BrokerChannel] = []
        self.in_flight: dict[BrokerChannel, _Asked] = {}
        self.waiting: deque[_Asked] = deque()


class BrokerRequests:
    """`send` and `deliver` are called by the process's own thread; `ring()` makes it call `deliver`."""

    def __init__(self, client_id: str, ring: Callable[[], None]) -> None:
        self._client_id = client_id
        self._ring = ring
        self._asked: deque[tuple[Address, _Asked]] = deque()
        self._answered: deque[tuple[Then, Struct | None]] = deque()
        self._peers: dict[Address, _Peer] = {}
        self._bell = -1

    def send(self, address: Address, message: Struct, then: Then) -> None:
        """Ask a broker; `then(response)` is called by `deliver`, with None if none came."""
        if self._bell < 0:
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            threading.Thread(target=self._run, name="broker-requests", daemon=True).start()
        self._asked.append((address, _Asked(message, then, _now_ms() + TIMEOUT_MS)))
        os.eventfd_write(self._bell, 1)

    def deliver(self) -> None:
        """Hands over the answers that came."""
        while self._answered:
            then, response = self._answered.popleft()
            then(response)

    # the thread

    def _run(self) -> None:
        try:
            while True:
                self._turn()
        except BaseException:  # broken: another process takes over, else whoever asked would wait for ever
            os._exit(1)

    def _turn(self) -> None:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        now_ms, wait_ms = _now_ms(), IDLE_MS
        for peer in self._peers.values():
            for channel in peer.channels:
                if channel.fileno() >= 0:
                    poll.register(channel.fileno(), channel.events())
                left_ms = channel.wait_ms(now_ms)
                wait_ms = wait_ms if left_ms is None else min(wait_ms, left_ms)
        if any(fd == self._bell for fd, _ in poll.poll(wait_ms)):
            os.eventfd_read(self._bell)
        while self._asked:
            address, asked = self._asked.popleft()
            self._peers.setdefault(address, _Peer()).waiting.append(asked)
        answered = len(self._answered)
        for address, peer in self._peers.items():
            self._serve(address, peer, _now_ms())
        if len(self._peers) > MAX_PEERS:
            self._forget_idle()
        if len(self._answered) != answered:
            self._ring()

    def _forget_idle(self) -> None:
        for address in [address for address, peer in self._peers.items() if not (peer.waiting or peer.in_flight)]:
            for channel in self._peers.pop(address).channels:
                channel.close()

    def _serve(self, address: Address, peer: _Peer, now_ms: int) -> None:
        for channel in peer.channels:
            outcome = channel.turn(now_ms)
            if outcome is not None:
                self._answered.append((peer.in_flight.pop(channel).then, outcome.response))
        while peer.waiting and (len(peer.waiting) > MAX_WAITING or peer.waiting[0].until_ms <= now_ms):
            self._answered.append((peer.waiting.popleft().then, None))
        while peer.waiting and (idle := self._idle(address, peer)) is not None:
            asked = peer.waiting.popleft()
            peer.in_flight[idle] = asked
            idle.send(asked.message, now_ms)

    def _idle(self, address: Address, peer: _Peer) -> BrokerChannel | None:
        from mpbroker.client.broker_channel import BrokerChannel  # all messages: only who needs them pays for them

        for channel in peer.channels:
            if not channel.busy:
                return channel
        if len(peer.channels) == MAX_CONNECTIONS:
            return None
        peer.channels.append(BrokerChannel(*address, client_id=self._client_id, timeout_ms=TIMEOUT_MS))
        return peer.channels[-1]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
