"""How many connections, from whom, and how fast (KIP-402, KIP-612); state of the acceptor, for one listener.

Kafka counts in one place for the whole broker. Here the connections of each listener are counted by themselves, per
address, and its processors report their ends; the number per listener and per broker comes from the process table. What
Kafka does with each limit is kept: too many from one address are closed; listener, broker and rate limits make the
acceptor wait, with that listener.
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

UNLIMITED = 2**31 - 1
MAX_TRACKED_ADDRESSES = 65536


class Verdict(Enum):
    """What to do with a connection (CLOSE) or with the next accept (WAIT)."""

    ADMIT = "admit"
    CLOSE = "close"
    WAIT = "wait"


class Limits(NamedTuple):
    """The limits in force for one listener; numbers of connections, rates per second, window in seconds."""

    per_ip: int = UNLIMITED
    per_ip_overrides: Mapping[bytes, int] = MappingProxyType({})
    listener: int = UNLIMITED
    broker: int = UNLIMITED
    listener_rate: int = UNLIMITED
    broker_rate: int = UNLIMITED
    window_s: int = 11
    protected: bool = False  # the brokers' own listener, when there are others: no broker-wide limits


class ConnectionQuotas:
    """Counts and limits. Processors are named by their index; addresses are 16 bytes."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._per_ip: Counter[bytes] = Counter()
        self._held: dict[int, Counter[bytes]] = {}  # by processor: what it reported to have
        self._accepted: list[tuple[int, int]] = []  # (second, connections accepted in it), newest last

    def may_accept(self, listener_count: int, broker_count: int) -> bool:
        """Whether there is a free slot on this listener and this broker for one more connection."""
        if listener_count >= self.limits.listener:
            return False
        return self.limits.protected or broker_count < self.limits.broker

    def rate_delay_ms(self, now_ms: int) -> int:
        """Milliseconds until the next accept keeps the creation rate, at most the window; 0: go on."""
        limits = self.limits
        rate = limits.listener_rate if limits.protected else min(limits.listener_rate, limits.broker_rate)
        if rate >= UNLIMITED:
            return 0
        self._expire(now_ms // 1000)
        seen = sum(count for _, count in self._accepted)
        allowed = rate * limits.window_s
        if seen < max(1, allowed):
            return 0
        if rate == 0:
            return limits.window_s * 1000
        return min(limits.window_s * 1000, max(1, (seen + 1 - allowed) * 1000 // rate))

    def admit(self, address: bytes, now_ms: int) -> Verdict:
        """Count an accepted connection; CLOSE when its address has too many (then it is not counted)."""
        self._mark(now_ms // 1000)
        limit = self.limits.per_ip_overrides.get(address, self.limits.per_ip)
        if self._per_ip[address] >= limit:
            return Verdict.CLOSE
        if address not in self._per_ip and len(self._per_ip) >= MAX_TRACKED_ADDRESSES:
            return Verdict.CLOSE
        self._per_ip[address] += 1
        return Verdict.ADMIT

    def handed_over(self, processor: int, address: bytes) -> None:
        """A counted connection now lives in a processor."""
        self._held.setdefault(processor, Counter())[address] += 1

    def found(self, processor: int, address: bytes, count: int) -> None:
        """A processor reported to a new acceptor how many connections it has from an address."""
        self._held.setdefault(processor, Counter())[address] += count
        self._per_ip[address] += count

    def closed(self, processor: int, address: bytes, count: int) -> None:
        """Connections of a processor ended; never counts below zero."""
        held = self._held.get(processor)
        if held is None:
            return
        ended = min(count, held[address])
        _subtract(held, address, ended)
        _subtract(self._per_ip, address, ended)

    def returned(self, processor: int | None, address: bytes) -> None:
        """A connection is passed back by its processor, None: by one whose connections are not counted any more."""
        held = self._held.get(processor) if processor is not None else None
        if held is None or not held[address]:
            self._per_ip[address] += 1
        else:
            _subtract(held, address, 1)

    def dropped(self, address: bytes) -> None:
        """A counted connection ended before a processor had it."""
        _subtract(self._per_ip, address, 1)

    def processor_died(self, processor: int) -> None:
        """All its connections are gone."""
        for address, count in self._held.pop(processor, {}).items():
            _subtract(self._per_ip, address, count)

    def connections_from(self, address: bytes) -> int:
        """Connections counted for an address."""
        return self._per_ip.get(address, 0)

    def _mark(self, second: int) -> None:
        if self._accepted and self._accepted[-1][0] == second:
            self._accepted[-1] = (second, self._accepted[-1][1] + 1)
        else:
            self._expire(second)
            self._accepted.append((second, 1))

    def _expire(self, second: int) -> None:
        oldest = second - self.limits.window_s
        while self._accepted and self._accepted[0][0] <= oldest:
            self._accepted.pop(0)


def _subtract(counts: Counter[bytes], address: bytes, count: int) -> None:
    left = counts[address] - count
    if left > 0:
        counts[address] = left
    else:
        counts.pop(address, None)
