"""Descriptors of files that retention, a deletion, a truncation or a compaction removed: the disk gets their space back
when the last process closes them. Every process that has a Log gives back its own.

Request handlers and the coordinator do so in what they do once a second anyway; the others through this, one for each
Log, stepped in the thread whose Log it is.
"""

from typing import Final, Protocol

from mpbroker.shm.clock import Clock

EVERY_MS: Final = 500
"""Half of the second that is promised: a loop that steps this may wait for about as long before its next turn."""


class OpenFiles(Protocol):
    """A Log, or who has one."""

    def close_stale(self) -> object:
        """Close descriptors of segments that are not their partition's any more."""
        ...


class RemovedFiles:
    """Of one Log."""

    def __init__(self, log: OpenFiles, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._due_ms = 0

    def give_back(self) -> None:
        """Twice a second at most, however often it is called."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + EVERY_MS
            self._log.close_stale()

    def due_ms(self) -> int:
        """When it is due, by the monotonic clock."""
        return self._due_ms
