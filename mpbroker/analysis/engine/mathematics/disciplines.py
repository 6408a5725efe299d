"""The queueing disciplines of a broker as a replay uses them: which class a request joins, which class is taken next.

Pure. As native/request/discipline.c has them (docs/adr/0023): up to seven class rings, each first come first served.
`fifo` has one. `priority` ranks control APIs; `fair` hashes clients to six classes, anew every 8.6 s, and deals handler
time out in turn; `shortest` sorts requests by what such requests took of late; `deadline` takes the head that is due
first. Where one class goes first, every SHARE-th turn of a handler is the next class's in rotation: none starves.
`plane` is no order of classes but a ring and a handler for control requests (broker_replay.py). Not in it: what was
learned before the recording began, and per processor.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.mathematics.histogram import Int64s

CLASSES, SHARE, QUANTUM_NS, PERTURB_SHIFT = 7, 8, 200_000, 33
NAMES = ("fifo", "plane", "priority", "fair", "shortest", "deadline")
#: How many class rings each has.
RINGS = {"fifo": 1, "plane": 1, "priority": 4, "fair": CLASSES, "shortest": CLASSES, "deadline": 6}
RANKS = {4: 1, 5: 2, 7: 2, 56: 2, 67: 2, 6: 3}
STRICT = (1, 2, 3, 0, 4, 5, 6)  # what nothing is known of goes in the middle
TARGETS_NS = (100_000_000, 2_000_000, 10_000_000, 20_000_000, 50_000_000, 50_000_000)
GROUP_KEYS = (8, 11, 12, 13, 14, 68, 76)
PRODUCE, FETCH, LARGE_PRODUCE = 0, 1, 16_384
SIZES = 8
_WORD = (1 << 64) - 1


class Arrivals(NamedTuple):
    """What a discipline may know of requests. `client`: the hash of its name, or its connection; `control`: of the
    control plane (a replay with reserved handlers looks at it)."""

    api_key: Int64s
    client: Int64s
    req_bytes: Int64s
    control: npt.NDArray[np.bool_]


class Chooser:
    """What one handler remembers of its turns."""

    def __init__(self) -> None:
        self.takes = self.share_of = self.turn = 0
        self.deficit_ns = [0] * CLASSES


class Waiting:
    """Class rings of one discipline. `push` a request, `pop` the next one for a handler (None: nothing waits); `paid`
    tells how long a handler had it."""

    def __init__(self, name: str, known: Arrivals, handlers: int) -> None:
        self.name, self.classes = name, RINGS[name]
        self.key: list[int] = known.api_key.tolist()
        self.client: list[int] = known.client.tolist()
        self.bytes: list[int] = known.req_bytes.tolist()
        self.rings: list[deque[tuple[int, int]]] = [deque() for _ in range(self.classes)]
        self.joined: dict[int, int] = {}
        self.choosers = [Chooser() for _ in range(handlers)]
        self.learned: dict[tuple[int, int], int] = {}
        self.length = 0

    def push(self, request: int, now: int) -> None:
        """Behind the others of its class."""
        ring_class = self._class_of(request, now)
        due = now + TARGETS_NS[ring_class] if self.name == "deadline" else 0
        self.joined[request] = ring_class
        self.rings[ring_class].append((due, request))
        self.length += 1

    def pop(self, handler: int) -> int | None:
        """The next one by the discipline."""
        if not self.length:
            return None
        self.length -= 1
        if self.name == "fair":
            ring_class = self._in_turn(self.choosers[handler])
        elif self.name == "deadline":
            ring_class = min((ring[0][0], number) for number, ring in enumerate(self.rings) if ring)[1]
        else:
            ring_class = self._in_order(self.choosers[handler])
        return self.rings[ring_class].popleft()[1]

    def paid(self, handler: int, request: int, service: int) -> None:
        """A handler had it for so long, and has let go of it."""
        self.choosers[handler].deficit_ns[self.joined.pop(request)] -= service
        if self.name == "shortest" and service:
            kind = self.key[request], size_of(self.bytes[request])
            known = self.learned.get(kind, 0)
            self.learned[kind] = known - known // 8 + service // 8 if known else service

    def _class_of(self, request: int, now: int) -> int:
        key = self.key[request]
        if self.name == "priority":
            return RANKS.get(key, 0)
        if self.name == "fair":
            return client_class(self.client[request], now)
        if self.name == "shortest":
            return service_class(self.learned.get((key, size_of(self.bytes[request])), 0))
        if self.name == "deadline":
            return target_class(key, self.bytes[request])
        return 0

    def _in_order(self, chooser: Chooser) -> int:
        chooser.takes += 1
        if chooser.takes >= SHARE:
            chooser.takes = 0
            order = [(chooser.share_of + 1 + n) % self.classes for n in range(self.classes)]
            chooser.share_of = next(number for number in order if self.rings[number])
            return chooser.share_of
        order = [0] if self.classes == 1 else [number for number in STRICT if number < self.classes]
        return next(number for number in order if self.rings[number])

    def _in_turn(self, chooser: Chooser) -> int:
        """The class whose turn it is while it has something to spend; then all get as many quanta as the first needs.
        Who does not wait pays debts, too, but saves nothing up."""
        deficit = chooser.deficit_ns
        while True:
            for number in [(chooser.turn + n) % self.classes for n in range(self.classes)]:
                if deficit[number] > 0 and self.rings[number]:
                    chooser.turn = number
                    return number
                deficit[number] = min(deficit[number], 0)
            rounds = min(-deficit[number] // QUANTUM_NS + 1 for number, ring in enumerate(self.rings) if ring)
            for number, ring in enumerate(self.rings):
                deficit[number] += rounds * QUANTUM_NS
                if not ring:
                    deficit[number] = min(deficit[number], 0)


def client_class(client: int, now: int) -> int:
    """1 … 6. Neighbours in a class change with time."""
    mixed = (client ^ ((now >> PERTURB_SHIFT) * 0x9E3779B97F4A7C15 & _WORD)) * 0xFF51AFD7ED558CCD & _WORD
    mixed = (mixed ^ mixed >> 33) * 0xC4CEB9FE1A85EC53 & _WORD
    return 1 + (mixed >> 32) % (CLASSES - 1)


def size_of(size: int) -> int:
    """Below 256 bytes, 1 KiB, 4 KiB … 1 MiB, above."""
    return min(SIZES - 1, 0 if size < 256 else ((size >> 8).bit_length() + 1) // 2)


def service_class(ns: int) -> int:
    """Below 16 µs, 64 µs, 256 µs, 1 ms, 4 ms, and more: 1 … 6; 0 where nothing is known."""
    return 0 if not ns else min(CLASSES - 1, 1 + ((ns >> 14).bit_length() + 1) // 2)


def target_class(key: int, size: int) -> int:
    """What may wait as long as TARGETS_NS says."""
    if key in GROUP_KEYS:
        return 2
    if key == PRODUCE:
        return 3 if size < LARGE_PRODUCE else 4
    return 5 if key == FETCH else 1 if key in RANKS else 0
