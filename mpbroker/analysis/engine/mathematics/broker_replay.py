"""A replay of recorded requests through a simulated broker: other handlers, another discipline, other costs. Pure.

Each request keeps what the broker's handlers do not decide: when it reached the machine, what processors needed before
and after, its waiting in a purgatory. What follows anew is its way through the request ring:

    a connection is served one request at a time, where the trace shows that it was
    a client that waits for answers before it sends more thinks as long as it did (`tied`)
    a handler that sleeps needs the time to wake that handlers needed; one that is at work takes the next at once
    a request occupies its handler as long as it did, times a factor

Times are int64 nanoseconds of one clock. Deterministic: the same requests give the same waits.
"""

import heapq
from typing import NamedTuple

import numpy as np

from mpbroker.analysis.engine.mathematics.disciplines import Arrivals, Waiting
from mpbroker.analysis.engine.mathematics.histogram import Int64s

NOTHING = -1
_FREE, _WOKEN, _ENQUEUE = 0, 1, 2


class Paths(NamedTuple):
    """Requests in the order of their arrival.

    before      from arrival (or the release of its connection, if later) to its coming into the ring
    wake        what a sleeping handler needs to take it
    service     in a handler's hands; `turn`: from then until this handler can take another that waits
    after       from the handler's letting go to the release of the connection; `rest`: from there to the last byte sent
    behind      the request of the same connection that must be released first, or NOTHING
    tied        the request whose answer the client waited for, or NOTHING; `think`: from that answer to this arrival
    """

    arrival: Int64s
    before: Int64s
    wake: Int64s
    service: Int64s
    turn: Int64s
    after: Int64s
    rest: Int64s
    behind: Int64s
    tied: Int64s
    think: Int64s
    known: Arrivals


class Replayed(NamedTuple):
    """Of each request: nanoseconds in the ring, and from arrival to the last byte sent."""

    wait: Int64s
    total: Int64s


def replay(paths: Paths, handlers: int, discipline: str, reserved: int = 0) -> Replayed:
    """`handlers` that take everything, and `reserved` ones for control requests, which have a ring of their own
    then."""
    return _Replay(paths, handlers, discipline, reserved).run()


class _Replay:
    """The running model; `run` once."""

    def __init__(self, paths: Paths, handlers: int, discipline: str, reserved: int) -> None:
        self.control = paths.known.control.tolist() if reserved else [False] * len(paths.arrival)
        self.handlers = handlers  # their numbers; those of the reserved ones follow
        self.rings = Waiting(discipline, paths.known, handlers + reserved)
        self.control_ring = Waiting("fifo", paths.known, handlers + reserved)
        self.idle, self.idle_reserved = list(range(handlers)), list(range(handlers, handlers + reserved))
        self.arrival: list[int] = paths.arrival.tolist()
        self.before, self.wake = paths.before.tolist(), paths.wake.tolist()
        self.service, self.turn = paths.service.tolist(), paths.turn.tolist()
        self.after, self.rest, self.think = paths.after.tolist(), paths.rest.tolist(), paths.think.tolist()
        self.next_of, self.tied_to, self.missing = _followers(paths)
        self.ready = list(self.arrival)
        for request, tied in enumerate(paths.tied.tolist()):
            if tied != NOTHING:
                self.ready[request] = 0
        self.enqueued, self.taken = [0] * len(self.arrival), [0] * len(self.arrival)
        self.done = [0] * len(self.arrival)
        self.events: list[tuple[int, int, int, int]] = []

    def run(self) -> Replayed:
        """Everything, until the last answer is sent."""
        for request, missing in enumerate(self.missing):
            if not missing:
                self._come(request)
        while self.events:
            now, kind, request, handler = heapq.heappop(self.events)
            if kind == _ENQUEUE:
                self._enqueue(now, request)
                continue
            if kind == _FREE and not self.control[request]:
                self.rings.paid(handler, request, self.service[request])
            self._take(now, handler)
        taken, enqueued = np.asarray(self.taken, np.int64), np.asarray(self.enqueued, np.int64)
        return Replayed(taken - enqueued, np.asarray(self.done, np.int64) - np.asarray(self.arrival, np.int64))

    def _come(self, request: int) -> None:
        heapq.heappush(self.events, (self.ready[request] + self.before[request], _ENQUEUE, request, 0))

    def _enqueue(self, now: int, request: int) -> None:
        self.enqueued[request] = now
        control = self.control[request]
        (self.control_ring if control else self.rings).push(request, now)
        sleepers = self.idle_reserved if control and self.idle_reserved else self.idle
        if sleepers:
            handler = heapq.heappop(sleepers)
            heapq.heappush(self.events, (now + self.wake[request], _WOKEN, request, handler))

    def _take(self, now: int, handler: int) -> None:
        """A handler looks for work, and sleeps if there is none."""
        reserved = handler >= self.handlers
        request = self.control_ring.pop(handler)
        if request is None and not reserved:
            request = self.rings.pop(handler)
        if request is None:
            heapq.heappush(self.idle_reserved if reserved else self.idle, handler)
            return
        self.taken[request] = now
        handled = now + self.service[request]
        heapq.heappush(self.events, (handled + self.turn[request], _FREE, request, handler))
        self._answer(request, handled + self.after[request])

    def _answer(self, request: int, released: int) -> None:
        self.done[request] = done = released + self.rest[request]
        following = self.next_of[request]
        if following != NOTHING:
            self._meet(following, released)
        for tied in self.tied_to.get(request, ()):
            self.arrival[tied] = done + self.think[tied]
            self._meet(tied, self.arrival[tied])

    def _meet(self, request: int, at: int) -> None:
        """One of the things that it waits for has happened."""
        self.ready[request] = max(self.ready[request], at)
        self.missing[request] -= 1
        if not self.missing[request]:
            self._come(request)


def _followers(paths: Paths) -> tuple[list[int], dict[int, list[int]], list[int]]:
    """Who comes next on a connection, who waits for an answer, and for how many things each waits."""
    next_of = [NOTHING] * len(paths.arrival)
    tied_to: dict[int, list[int]] = {}
    for request, before in enumerate(paths.behind.tolist()):
        if before != NOTHING:
            next_of[before] = request
    for request, tied in enumerate(paths.tied.tolist()):
        if tied != NOTHING:
            tied_to.setdefault(tied, []).append(request)
    missing = (paths.behind != NOTHING).astype(np.int64) + (paths.tied != NOTHING)
    return next_of, tied_to, missing.tolist()
