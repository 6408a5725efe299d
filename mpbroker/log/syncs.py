"""Where the log keeper syncs partitions: what a job sees of it, and the two simple ways. Log keeper only.

The threads of sync_pool.py are begun, and what they need is imported, when there is something to sync: a broker that
is idle, or never rolls a segment, pays for neither.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Flushes(Protocol):
    """What is needed of `_native.Log`."""

    def flush(self, ordinal: int, /) -> tuple[int, int]:
        """(Kafka error code, offset below which all is on disk)."""
        ...

    def close_cached(self, ordinal: int, /) -> None:
        """Give the partition's descriptors back."""
        ...


class Synced(NamedTuple):
    """A sync that has ended."""

    ordinal: int
    error: int
    flushed_to: int


class Syncs(Protocol):
    """Where syncs are made."""

    def start(self, ordinal: int) -> None:
        """Sync a partition, unless that is under way."""
        ...

    def finished(self) -> list[Synced]:
        """Those that ended since the last call."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Until one ends, or the time is over; False: none is under way."""
        ...


class InlineSyncs:
    """One after the other, in the caller's thread: for tests, and for who has no threads."""

    def __init__(self, log: Flushes) -> None:
        self._log = log
        self._done: list[Synced] = []

    def start(self, ordinal: int) -> None:
        """Sync now."""
        self._done.append(Synced(ordinal, *self._log.flush(ordinal)))

    def finished(self) -> list[Synced]:
        """Those since the last call."""
        done, self._done = self._done, []
        return done

    def wait(self, timeout_s: float) -> bool:
        """None is ever under way."""
        return False


class LateSyncs:
    """Made at the first sync."""

    def __init__(self, make: Callable[[], Syncs]) -> None:
        self._make = make
        self._made: Syncs | None = None

    def start(self, ordinal: int) -> None:
        """Sync a partition."""
        self._made = self._made or self._make()
        self._made.start(ordinal)

    def finished(self) -> list[Synced]:
        """Those that ended since the last call."""
        return self._made.finished() if self._made else []

    def wait(self, timeout_s: float) -> bool:
        """Until one ends, at most so long."""
        return self._made is not None and self._made.wait(timeout_s)
