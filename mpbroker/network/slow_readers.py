"""Whose answers a processor lets go of while handlers have too little memory for those of others.

An answer keeps all its memory until its client has taken the last byte. So it is the rate that counts, not that
something was taken lately: a client that takes 2 KB now and then would keep 36 MB for minutes. Where others get less,
or nothing, who would hold memory for 30 s more goes: by then clients of Kafka's defaults have given up, too. Where
others go on getting nothing this becomes 10, 3 and 1 s, a second later each. While there is memory for all, clients may
be as slow as they like.

One in each processor, which alone uses it. `overdue` is called once a second, and knows of the answers that the kernel
does not take whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from mpbroker.network.connection_table import Overdue
from mpbroker.network.kafka_channel import KafkaChannel
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow

SECOND_NS = 1_000_000_000
RATE_NS = 5_000_000_000  # over which: a client may read in bursts
KEPT_LOOKS = 6  # one a second, and one to spare


_SIOCOUTQ = 0x5411  # linux/sockios.h


class Bound(NamedTuple):
    """An answer that is under way for longer than `patience_ns`, and would be for `rest_ns` more at its rate, goes."""

    patience_ns: int
    rest_ns: int


SILENT = "the client does not read"
MEMORY_SHORT = Bound(5 * SECOND_NS, 30 * SECOND_NS)
"""Others get less."""
MEMORY_EXHAUSTED = tuple(Bound(SECOND_NS, rest_s * SECOND_NS) for rest_s in (30, 10, 3, 1))
"""Others get nothing, at the first look and at the next ones: where closing the slowest is not enough, more go."""


class _Look(NamedTuple):
    """What a client had taken of all its answers, and when that was."""

    at_ns: int
    taken_bytes: int


class SlowReaders:
    """`handlers`: who counts that memory is short; `untaken`: bytes of a connection's answers not taken yet."""

    def __init__(self, handlers: Sequence[ProcessRow], untaken: Callable[[KafkaChannel], int]) -> None:
        self._handlers = handlers
        self._untaken = untaken
        self._counted: dict[Counter, int] = {}
        self._exhausted_looks = 0
        self._looks: dict[KafkaChannel, deque[_Look]] = {}

    def overdue(self, channels: Iterable[KafkaChannel], now_ns: int) -> list[Overdue]:
        """Whom to close now, and why; looks at all connections."""
        blocked = [channel for channel in channels if channel.blocked]
        bound = self._bound()
        found = self._judged(blocked, now_ns, bound) if bound is not None else []
        looks, self._looks = self._looks, {}
        for channel in blocked:
            kept = self._looks[channel] = looks.get(channel) or deque(maxlen=KEPT_LOOKS)
            kept.append(_Look(now_ns, _taken_bytes(channel)))
        return found

    def _bound(self) -> Bound | None:
        """None: there was memory for all answers since the last call."""
        exhausted, short = self._rose(Counter.NO_ANSWER_SPACE), self._rose(Counter.FETCHES_SHORTENED)
        self._exhausted_looks = self._exhausted_looks + 1 if exhausted else 0
        if exhausted:
            return MEMORY_EXHAUSTED[min(self._exhausted_looks, len(MEMORY_EXHAUSTED)) - 1]
        return MEMORY_SHORT if short else None

    def _rose(self, counter: Counter) -> bool:
        """Whether a handler has counted something since the last call: too little memory for an answer, or none."""
        now = sum(row.counter(counter) for row in self._handlers)
        before, self._counted[counter] = self._counted.get(counter, now), now
        return now != before

    def _judged(self, blocked: Collection[KafkaChannel], now_ns: int, bound: Bound) -> list[Overdue]:
        """Who takes nothing or too little, the largest first."""
        found = []
        for channel in blocked:
            look = self._look_before(channel, now_ns)
            if look is None or now_ns - channel.out_started_ns <= bound.patience_ns:
                continue
            rest, taken = self._untaken(channel), _taken_bytes(channel) - look.taken_bytes
            if rest * (now_ns - look.at_ns) > taken * bound.rest_ns:
                found.append((rest, Overdue(channel, "the client reads too slowly" if taken else SILENT)))
        found.sort(key=lambda each: each[0], reverse=True)
        return [overdue for _, overdue in found]

    def _look_before(self, channel: KafkaChannel, now_ns: int) -> _Look | None:
        """Where its rate begins: the newest look that is RATE_NS old, or the oldest; None: there is none of a second
        ago, and what it takes meanwhile says nothing."""
        looks = self._looks.get(channel, ())
        old = [look for look in looks if now_ns - look.at_ns >= RATE_NS]
        look = old[-1] if old else next(iter(looks), None)
        return look if look is not None and now_ns - look.at_ns >= SECOND_NS else None


def _taken_bytes(channel: KafkaChannel) -> int:
    """What its client has taken: without the megabytes that may still lie in the kernel, which takes them at once and
    then only many together."""
    queued = b""
    with contextlib.suppress(OSError):
        queued = fcntl.ioctl(channel.fd, _SIOCOUTQ, bytes(4))
    return channel.sent_bytes - int.from_bytes(queued, sys.byteorder)
