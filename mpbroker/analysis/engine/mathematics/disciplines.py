"""Queueing disciplines over class rings, as a replay uses them: which class a request joins, which class is taken next.

Pure. A ring of up to CLASSES classes, each first come first served. `fifo` has one class. `priority` takes control
requests first; `fair` hashes clients to classes and deals handler time out in turn (deficit round robin, a class pays
what its requests took); `shortest` sorts requests by what such requests take on average, an octave to a class, the
shortest first; `deadline` takes the head that is due first, arrival and target of its class added up. `plane` is no
ring of classes but a queue and a handler of its own for control requests (broker_replay.py). Where one class goes
first, every SHARE-th turn is that of the head that has waited longest: no class starves.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.mathematics.histogram import Int64s

CLASSES = 8
SHARE = 16
QUANTUM_NS = 1_000_000
#: What `deadline` promises: to control requests, to those that usually take less than SHORT_NS, to all others.
TARGETS_NS = (1_000_000, 10_000_000, 50_000_000)
SHORT_NS = 1_000_000
NAMES = ("fifo", "plane", "priority", "fair", "shortest", "deadline")


class Arrivals(NamedTuple):
    """What a discipline may know of requests. `expected`: mean handler time of such requests, ns."""

    control: npt.NDArray[np.bool_]
    client: Int64s
    expected: Int64s


class Waiting:
    """Class rings and the turn among them. `push` a request, `pop` the next one (None: nothing waits); `paid` tells how
    long a handler had it."""

    def __init__(self, classes: Int64s, take: "Callable[[Waiting], int]", due: Int64s | None = None) -> None:
        self.class_of: list[int] = classes.tolist()
        self.due: list[int] = [] if due is None else due.tolist()
        self.heads: list[deque[tuple[int, int]]] = [deque() for _ in range(CLASSES)]
        self.deficit = [0] * CLASSES
        self.turn = self.turns = self.length = 0
        self._take = take

    def push(self, request: int, now: int) -> None:
        """Behind the others of its class."""
        self.heads[self.class_of[request]].append((now, request))
        self.length += 1

    def pop(self) -> int | None:
        """The next one by the discipline."""
        if not self.length:
            return None
        self.length -= 1
        return self.heads[self._take(self)].popleft()[1]

    def paid(self, request: int, service: int) -> None:
        """A handler had it for so long."""
        self.deficit[self.class_of[request]] -= service


def waiting(name: str, known: Arrivals) -> Waiting:
    """The rings of a discipline over these requests; `plane` is first come first served on either plane."""
    if name == "priority":
        return Waiting(np.where(known.control, 0, 1).astype(np.int64), _lowest)
    if name == "fair":
        return Waiting(known.client % CLASSES, _by_deficit)
    if name == "shortest":
        return Waiting(octaves(known.expected), _lowest)
    if name == "deadline":
        kind = np.where(known.control, 0, np.where(known.expected < SHORT_NS, 1, 2))
        return Waiting(kind.astype(np.int64), _earliest_due, np.asarray(TARGETS_NS)[kind])
    return Waiting(np.zeros(len(known.client), np.int64), lambda rings: 0)


def octaves(expected: Int64s) -> Int64s:
    """Classes of `shortest`: 0 for the shortest and what takes up to twice as long, and so on; the last takes the
    rest."""
    if not len(expected):
        return np.zeros(0, np.int64)
    times = np.maximum(expected, 1) / max(1, int(expected.min()))
    classes: Int64s = np.minimum(np.floor(np.log2(times) + 1e-9).astype(np.int64), CLASSES - 1)
    return classes


def _occupied(heads: Sequence[deque[tuple[int, int]]]) -> list[int]:
    return [number for number, ring in enumerate(heads) if ring]


def _lowest(rings: Waiting) -> int:
    occupied = _occupied(rings.heads)
    rings.turns += 1
    if rings.turns % SHARE == 0:
        return min(occupied, key=lambda number: rings.heads[number][0])
    return occupied[0]


def _by_deficit(rings: Waiting) -> int:
    """The class whose turn it is while it has not overdrawn; each that is passed over gets its quantum. An empty class
    saves nothing."""
    for number, ring in enumerate(rings.heads):
        if not ring:
            rings.deficit[number] = min(rings.deficit[number], 0)
    occupied = _occupied(rings.heads)
    while True:
        if rings.heads[rings.turn] and rings.deficit[rings.turn] > 0:
            return rings.turn
        if all(rings.deficit[number] <= 0 for number in occupied):
            short = min(-rings.deficit[number] for number in occupied) // QUANTUM_NS + 1
            for number in occupied:
                rings.deficit[number] += short * QUANTUM_NS
        rings.turn = (rings.turn + 1) % CLASSES


def _earliest_due(rings: Waiting) -> int:
    def due(number: int) -> tuple[int, int]:
        at, request = rings.heads[number][0]
        return at + rings.due[request], request

    return min(_occupied(rings.heads), key=due)
