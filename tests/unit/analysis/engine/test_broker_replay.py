"""Replays through a simulated broker are those of a naive one that looks at every waiting request at every step."""

import random

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import disciplines, queueing
from mpbroker.analysis.engine.mathematics.broker_replay import NOTHING, Paths, replay
from mpbroker.analysis.engine.mathematics.disciplines import CLASSES, QUANTUM_NS, SHARE, SHORT_NS, TARGETS_NS, Arrivals

FREE, WOKEN, ENQUEUE = 0, 1, 2


def _paths(count, seed, *, gap=400_000, bound=True):
    chance = random.Random(seed)
    numbers = {name: [chance.randrange(1, 300_000) for _ in range(count)] for name in ("before", "wake", "turn")}
    arrival = np.cumsum([chance.randrange(gap) for _ in range(count)])
    behind, tied, last = [NOTHING] * count, [NOTHING] * count, {}
    for request in range(count):
        connection = chance.randrange(6)
        if bound and connection < 3:
            behind[request] = last.get(connection, NOTHING)
        if bound and connection in (2, 3):
            tied[request] = last.get(connection, NOTHING)
        last[connection] = request
    service = [chance.choice((50_000, 200_000, 900_000, 4_000_000)) for _ in range(count)]
    return Paths(
        arrival.astype(np.int64),
        *(np.array(numbers[name], np.int64) for name in ("before", "wake")),
        np.array(service, np.int64),
        np.array(numbers["turn"], np.int64) // 10,
        *(np.array([chance.randrange(99_000) for _ in range(count)], np.int64) for _ in range(2)),
        np.array(behind, np.int64),
        np.array(tied, np.int64),
        np.array([chance.randrange(500_000) for _ in range(count)], np.int64),
        Arrivals(
            np.array([chance.random() < 0.1 for _ in range(count)]),
            np.array([chance.choice((3, 3, 3, 4, 12, 21)) for _ in range(count)], np.int64),
            np.array(service, np.int64),
        ),
    )


class Naive:
    """Lists that are searched anew at every step; disciplines by their definition."""

    def __init__(self, paths, handlers, discipline, reserved):
        self.p, self.discipline = paths, discipline
        self.idle = {"any": handlers, "reserved": reserved}
        self.has_plane = reserved > 0
        self.waiting, self.events, self.turns, self.turn = [], [], 0, 0
        self.credit = dict.fromkeys(range(CLASSES), 0)
        self.released, self.done, self.taken, self.came = {}, {}, {}, {}
        self.arrival, self.planned = {}, set()

    def run(self):
        self._plan()
        while self.events:
            self.events.sort()
            now, kind, request, who = self.events.pop(0)
            if kind == ENQUEUE:
                self.came[request] = now
                self.waiting.append(request)
                who = "reserved" if self._plane(request) and self.idle["reserved"] else "any"
                if self.idle[who]:
                    self.idle[who] -= 1
                    self.events.append((now + int(self.p.wake[request]), WOKEN, request, who))
            else:
                self._take(now, who)
            self._plan()
        count = range(len(self.p.arrival))
        return [self.taken[n] - self.came[n] for n in count], [self.done[n] - self.arrival[n] for n in count]

    def _plane(self, request):
        return self.has_plane and bool(self.p.known.control[request])

    def _plan(self):
        """Whoever has nothing to wait for any more."""
        for request in range(len(self.p.arrival)):
            behind, tied = int(self.p.behind[request]), int(self.p.tied[request])
            if request in self.planned or not {behind, tied} <= {NOTHING, *self.done}:
                continue
            self.planned.add(request)
            free = tied == NOTHING
            self.arrival[request] = int(self.p.arrival[request] if free else self.done[tied] + self.p.think[request])
            ready = max(self.arrival[request], self.released.get(behind, 0))
            self.events.append((ready + int(self.p.before[request]), ENQUEUE, request, "any"))

    def _take(self, now, who):
        plane = [request for request in self.waiting if self._plane(request)]
        data = [request for request in self.waiting if not self._plane(request)] if who == "any" else []
        if not plane and not data:
            self.idle[who] += 1
            return
        request = plane[0] if plane else self._choose(data)
        self.waiting.remove(request)
        if not plane:
            self.credit[self._class(request)] -= int(self.p.service[request])
        self.taken[request] = now
        handled = now + int(self.p.service[request])
        self.events.append((handled + int(self.p.turn[request]), FREE, request, who))
        self.released[request] = handled + int(self.p.after[request])
        self.done[request] = self.released[request] + int(self.p.rest[request])

    def _class(self, request):
        expected, known = self.p.known.expected, self.p.known
        return {
            "priority": lambda: 0 if known.control[request] else 1,
            "fair": lambda: int(known.client[request]) % CLASSES,
            "shortest": lambda: min(CLASSES - 1, int(expected[request] // expected.min()).bit_length() - 1),
            "deadline": lambda: 0 if known.control[request] else 1 if expected[request] < SHORT_NS else 2,
        }.get(self.discipline, lambda: 0)()

    def _choose(self, data):
        self.turns += 1
        if self.discipline == "fair":
            return self._dealt(data)
        if self.discipline == "deadline":
            return min(data, key=lambda one: (self.came[one] + TARGETS_NS[self._class(one)], one))
        if self.turns % SHARE == 0:
            return min(data, key=lambda one: (self.came[one], one))
        return min(data, key=lambda one: (self._class(one), data.index(one)))

    def _dealt(self, data):
        there = {self._class(one) for one in data}
        for one in set(self.credit) - there:
            self.credit[one] = min(0, self.credit[one])
        while True:
            if self.turn in there and self.credit[self.turn] > 0:
                return next(one for one in data if self._class(one) == self.turn)
            while all(self.credit[one] <= 0 for one in there):
                for one in there:
                    self.credit[one] += QUANTUM_NS
            self.turn = (self.turn + 1) % CLASSES


@pytest.mark.parametrize(
    ("discipline", "handlers", "reserved"), [*((name, 2, 0) for name in disciplines.NAMES), ("plane", 2, 1)]
)
def test_it_is_the_naive_broker(discipline, handlers, reserved):
    paths = _paths(60, seed=3)
    wait, total = Naive(paths, handlers, discipline, reserved).run()
    found = replay(paths, handlers, discipline, reserved)
    assert found.wait.tolist() == wait and found.total.tolist() == total


def test_without_hand_off_and_connections_it_is_the_queue_of_textbooks():
    paths = _paths(500, seed=9, bound=False)
    none = np.zeros(500, np.int64)
    paths = paths._replace(before=none, wake=none, turn=none)
    assert np.array_equal(replay(paths, 3, "fifo").wait, queueing.replay(paths.arrival, paths.service, 3))


def test_a_class_that_goes_last_does_not_starve():
    """Short ones without end, and a long one: after at most SHARE turns it is its turn."""
    count = 400
    service = np.where(np.arange(count) == 5, 3_000_000, 100_000)
    paths = _paths(count, seed=2, gap=2, bound=False)._replace(service=service, before=np.zeros(count, np.int64))
    paths = paths._replace(known=paths.known._replace(expected=service, control=np.zeros(count, np.bool_)))
    waited = replay(paths, 1, "shortest").wait
    assert waited[5] < SHARE * 500_000 < waited.max()
