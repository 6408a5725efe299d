"""Lets a producer write to partitions within its transaction. Runs in the coordinator process.

`Verifier` is the interface; with one broker every partition is here, and its row of the producer is told (`Log.verify`)
under the partition's lock. What is verified is forgotten when the transaction ends there, and when the broker ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from mpbroker.channel.handler_port import HandlerPort
from mpbroker.coordinator.effects import Verify
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import LogManager
from mpbroker.metadata.metadata_cache import MetadataCache

RETRY_MS, PATIENCE_MS = 20, 5000
BUSY = ErrorCode.REQUEST_TIMED_OUT

#: Called once: NONE, or an error with which clients try again.
Then: TypeAlias = Callable[[int], None]


class Verifier(Protocol):
    """Whoever can tell the partitions."""

    def verify(self, verify: Verify, now_ms: int, then: Then) -> None:
        """Tell them; at once or later."""
        ...


class _Waiting(NamedTuple):
    """What could not be told yet, because somebody holds a partition's lock."""

    verify: Verify
    left: frozenset[tuple[str, int]]
    deadline_ms: int
    then: Then


class LocalVerifier:
    """Tells the partitions of this broker."""

    def __init__(self, port: HandlerPort, log_manager: LogManager, metadata: MetadataCache) -> None:
        self._port = port
        self._logs = log_manager
        self._metadata = metadata
        self._waiting: list[_Waiting] = []

    def verify(self, verify: Verify, now_ms: int, then: Then) -> None:
        self._try(_Waiting(verify, verify.partitions, now_ms + PATIENCE_MS, then), now_ms)

    def retry(self, now_ms: int) -> None:
        """Tries again where locks were held."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._try(one, now_ms)

    def next_due_ms(self, now_ms: int) -> int | None:
        """When to call `retry`."""
        return now_ms + RETRY_MS if self._waiting else None

    def _try(self, one: _Waiting, now_ms: int) -> None:
        left = set()
        for partition in one.left:
            code = self._tell(partition, one.verify)
            if code == BUSY:
                left.add(partition)
            elif code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:  # no row is free; every client tries this again
                one.then(ErrorCode.CONCURRENT_TRANSACTIONS)
                return
        if not left:
            one.then(ErrorCode.NONE)
        elif one.deadline_ms <= now_ms:
            one.then(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            self._waiting.append(one._replace(left=frozenset(left)))

    def _tell(self, partition: tuple[str, int], verify: Verify) -> int:
        """BUSY, THROTTLING_QUOTA_EXCEEDED, or what changes nothing: a partition that is gone or offline takes no
        records either."""
        topic = self._metadata.topic(partition[0])
        if topic is None or partition[1] >= len(topic.partitions):
            return ErrorCode.NONE
        ordinal = topic.partitions[partition[1]]
        code = self._logs.log.verify(ordinal, verify.producer_id, verify.producer_epoch, topic.id)
        if code == BUSY:
            self._port.watch(ordinal)
        return code
