"""Links that are served natively while nothing but ends of logs changes: answers are appended and the next requests go
without the interpreter (native/replication/steady_fetch.h, ADR 28). Only in a fetcher process, whose wait this is.

A link is lent when its request is under way and each of its partitions waits for nothing but the leader, and taken back
with all that happened meanwhile: before the rows are looked at again, once a second, and when something is not
ordinary. So whatever rules have changed hold a second later at most, as for a link that is never lent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpbroker._native import STEADY_PARTITIONS, SteadyFetches
from mpbroker.log.log_manager import Log, LogOptions
from mpbroker.replication.follower import SteadyEnd
from mpbroker.replication.leader_connection import ConnectionEnded
from mpbroker.replication.leader_link import LeaderLink


class SteadyLinks:
    """`options`: a partition's settings, None: not known yet; `is_throttled`: its bytes are counted and may be held
    back, which is not done natively."""

    def __init__(
        self, log: Log, epoll: int, options: Callable[[int], LogOptions | None], is_throttled: Callable[[int], bool]
    ) -> None:
        self._fetches = SteadyFetches(log, epoll)
        self._options = options
        self._is_throttled = is_throttled
        self._lent: set[int] = set()
        self.answers = 0
        """That were served natively."""

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        """What happened on descriptors that are not lent, or that are to be taken back."""
        return self._fetches.poll(int(timeout_s * 1000 + 0.999))

    def has(self, link: LeaderLink) -> bool:
        return link.connection is not None and link.connection.fileno() in self._lent

    def lend(self, link: LeaderLink) -> None:
        """If it is in order."""
        connection, steady = link.connection, link.steady()
        if connection is None or connection.correlation_id is None or steady is None:
            return
        session_id, session_epoch, starts = steady
        partitions = [(*start, found) for start in starts if (found := self._options(start.ordinal)) is not None]
        is_free = not any(self._is_throttled(start.ordinal) for start in starts)
        if not (is_free and len(partitions) == len(starts) <= STEADY_PARTITIONS):
            return
        limits = link.fetch.limits
        is_taken = self._fetches.begin(
            connection.fileno(),
            connection.client_id,
            connection.correlation_id,
            session_id,
            session_epoch,
            link.fetch.node_id,
            link.fetch.own_epoch,
            limits.wait_max_ms,
            limits.min_bytes,
            limits.response_max_bytes,
            limits.max_bytes,
            link.asked_ms * 1_000_000,
            partitions,
        )
        if is_taken:
            self._lent.add(connection.fileno())

    def take_back(self, link: LeaderLink) -> None:
        """If it is lent; ConnectionEnded."""
        if not self.has(link):
            return
        assert link.connection is not None
        self._lent.discard(link.connection.fileno())
        taken = self._fetches.take_back(link.connection.fileno())
        correlation_id, session_epoch, is_asked, asked_ns, answers, received, unsent, ends = taken
        self.answers += answers
        link.asked_ms = asked_ns // 1_000_000
        link.resumed(session_epoch, is_asked, [SteadyEnd._make(end) for end in ends])
        link.connection.resume(correlation_id, is_asked, received, unsent)

    def take_all(self, links: Iterable[LeaderLink], lose: Callable[[LeaderLink, str], None]) -> None:
        """Those whose connection turns out to be of no use are lost."""
        for link in links:
            try:
                self.take_back(link)
            except ConnectionEnded as ended:
                lose(link, str(ended))
