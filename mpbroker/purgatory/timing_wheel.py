"""Hierarchical timing wheel: deadlines at constant cost per insert and cancel.

Runs inside one process's purgatory, which alone writes it; it reads no clock, the owner tells it the time. Each wheel
has `size` buckets of `tick_ms`; a deadline beyond a wheel's span goes to the next wheel, whose tick is that span, and
falls back down when its bucket comes due.
"""

from __future__ import annotations

from collections.abc import Callable


class TimerEntry:
    """One pending deadline. `cancel()` is O(1) and frees it at once: a deadline may be weeks away."""

    __slots__ = ("action", "bucket", "cancelled", "deadline_ms", "owner")

    def __init__(self, deadline_ms: int, action: Callable[[], None], owner: TimingWheel) -> None:
        self.deadline_ms = deadline_ms
        self.action = action
        self.cancelled = False
        self.owner = owner
        self.bucket: dict[TimerEntry, None] = {}

    def cancel(self) -> None:
        self.cancelled = True
        if self.bucket.pop(self, self) is None:  # else it is just being looked at, or ran
            self.owner.pending -= 1


class _Wheel:
    """One level: buckets keyed by their rounded-down start, so an empty wheel holds nothing."""

    __slots__ = ("buckets", "span_ms", "tick_ms")

    def __init__(self, tick_ms: int, size: int) -> None:
        self.tick_ms = tick_ms
        self.span_ms = tick_ms * size
        self.buckets: dict[int, dict[TimerEntry, None]] = {}

    def add(self, entry: TimerEntry) -> None:
        start_ms = entry.deadline_ms - entry.deadline_ms % self.tick_ms
        entry.bucket = self.buckets.setdefault(start_ms, {})
        entry.bucket[entry] = None

    def take_due(self, now_ms: int) -> list[TimerEntry]:
        due = sorted(start for start in self.buckets if start <= now_ms)
        found: list[TimerEntry] = []
        for start in due:
            bucket = self.buckets.pop(start)
            found += bucket
            bucket.clear()  # from now on `cancel` finds them here no more
        return found


class TimingWheel:
    """Deadlines in milliseconds of the owner's clock.

    `add` puts an entry, `advance` runs what is due and returns how many ran, `next_due_ms` says when to wake at the
    latest (None: nothing pending; never too late, but too early when all of a bucket was cancelled).
    """

    LEVELS = 6  # 1 ms x 20 to the sixth: 17 hours, far beyond any request timeout
    SIZE = 20

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.pending = 0  # entries not due yet: 0 spares looking
        self._wheels = [_Wheel(self.SIZE**level, self.SIZE) for level in range(self.LEVELS)]

    def add(self, deadline_ms: int, action: Callable[[], None]) -> TimerEntry:
        entry = TimerEntry(deadline_ms, action, self)
        self.pending += 1
        self._place(entry)
        return entry

    def _place(self, entry: TimerEntry) -> None:
        remaining_ms = entry.deadline_ms - self.now_ms
        for wheel in self._wheels[:-1]:
            if remaining_ms < wheel.span_ms:
                wheel.add(entry)
                return
        self._wheels[-1].add(entry)

    def next_due_ms(self) -> int | None:
        starts = [min(wheel.buckets) for wheel in self._wheels if wheel.buckets]
        return min(starts) if starts else None

    def advance(self, now_ms: int) -> int:
        """Moves time forward and runs the actions of all due entries, oldest bucket first."""
        self.now_ms = max(self.now_ms, now_ms)
        expired = 0
        for wheel in self._wheels:
            if not wheel.buckets:
                continue
            for entry in wheel.take_due(self.now_ms):
                expired += self._expire_or_lower(entry)
        return expired

    def _expire_or_lower(self, entry: TimerEntry) -> int:
        if entry.cancelled:
            self.pending -= 1
            return 0
        if entry.deadline_ms > self.now_ms:
            self._place(entry)  # came due on a coarse wheel only
            return 0
        self.pending -= 1
        entry.action()
        return 1
