"""When each request is meant to be sent. Pure: no clock, no sleeping; a generator process owns one schedule per
connection.

Open loop: intended times are fixed before the first answer comes, so a slow broker (or a late generator) is charged for
the requests it kept from being sent: the opposite is called coordinated omission. Closed loop: the next request is
meant to be sent when an answer has come, so a stall hides the requests that were never asked for; such groups are
marked in every report.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

NS = 1_000_000_000
CLOSED = -1.0


class Span(NamedTuple):
    """A stretch of time with one rate (requests a second on one connection; CLOSED: as fast as answers come; 0:
    silence)."""

    begin_ns: int
    end_ns: int
    rate_per_s: float


def spans(start_ns: int, durations_s: Sequence[float], rates: Sequence[float]) -> list[Span]:
    """The phases of a run, one after the other."""
    result, begin = [], start_ns
    for duration_s, rate in zip(durations_s, rates, strict=True):
        end = begin + round(duration_s * NS)
        result.append(Span(begin, end, rate))
        begin = end
    return result


class OpenLoop:
    """The intended times of one connection: `next_ns` (None: no more), then `take`.

    `offset` (0 to 1) shifts a connection's regular grid by that share of an interval, so that many connections do not
    send at once. With a `generator` of random numbers the gaps are exponential: arrivals as of many independent users.
    """

    def __init__(self, phases: Sequence[Span], offset: float = 0.0, generator: random.Random | None = None) -> None:
        self._phases = [phase for phase in phases if phase.rate_per_s > 0]
        self._offset = offset
        self._random = generator
        self._phase = -1
        self.next_ns: int | None = None
        self._enter_phase()

    def take(self, now_ns: int, free_since_ns: int = 0) -> int:
        """The intended time of the next request, which is now being sent."""
        assert self.next_ns is not None, "there is no next request"
        intended_ns = self.next_ns
        self._move(intended_ns)
        return intended_ns

    def due(self, now_ns: int) -> bool:
        """Whether a request should have been sent by now."""
        return self.next_ns is not None and self.next_ns <= now_ns

    def wakes_ns(self, now_ns: int) -> int | None:
        """When the next request is due; in the past if it is late already."""
        return self.next_ns

    def rest(self, most: int) -> list[int]:
        """The intended times that are left, at most so many; they are taken."""
        left: list[int] = []
        while self.next_ns is not None and len(left) < most:
            left.append(self.take(self.next_ns))
        return left

    def _move(self, from_ns: int) -> None:
        phase = self._phases[self._phase]
        self._count += 1
        if self._random is not None:
            next_ns = from_ns + round(self._random.expovariate(phase.rate_per_s) * NS)
        else:  # from the phase's begin, so that rounding does not add up
            next_ns = phase.begin_ns + round((self._count + self._offset) * NS / phase.rate_per_s)
        if next_ns < phase.end_ns:
            self.next_ns = next_ns
        else:
            self._enter_phase()

    def _enter_phase(self) -> None:
        self._phase += 1
        self._count = -1
        if self._phase >= len(self._phases):
            self.next_ns = None
            return
        self._move(self._phases[self._phase].begin_ns)


class ClosedLoop:
    """A request is due whenever a phase with rate CLOSED is on. It was meant to be sent when there was room for it:
    what the generator took to notice that is its own lateness, not the broker's."""

    def __init__(self, phases: Sequence[Span]) -> None:
        self._phases = [phase for phase in phases if phase.rate_per_s == CLOSED]

    def due(self, now_ns: int) -> bool:
        """Whether the phase is on."""
        return any(phase.begin_ns <= now_ns < phase.end_ns for phase in self._phases)

    def take(self, now_ns: int, free_since_ns: int = 0) -> int:
        """The intended time of a request that is sent now: since when there was room for it and its phase was on."""
        begin_ns = max((phase.begin_ns for phase in self._phases if phase.begin_ns <= now_ns), default=now_ns)
        return min(now_ns, max(free_since_ns, begin_ns))

    def wakes_ns(self, now_ns: int) -> int | None:
        """The begin of the next phase that is still to come."""
        return min((phase.begin_ns for phase in self._phases if phase.begin_ns > now_ns), default=None)

    def rest(self, most: int) -> list[int]:
        """A closed loop intends nothing ahead."""
        return []
