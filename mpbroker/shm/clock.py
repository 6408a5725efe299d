"""The clock every process gets handed in, so that logic can be stepped by a test.

Plain and stateless; any process. Deadlines use the monotonic clock, record timestamps the wall clock.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """What a process reads the time from."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as record timestamps are."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that is never set, for deadlines."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds."""
        ...


class Began(NamedTuple):
    """A moment by both clocks."""

    wall_ms: int
    monotonic_ms: int

    @classmethod
    def now(cls) -> Began:
        clock = SystemClock()
        return cls(clock.wall_ms(), clock.monotonic_ms())


class SystemClock:
    """Real time."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as record timestamps are."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class ManualClock:
    """Time that moves only when a test says so."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
