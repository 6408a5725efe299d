"""Replays through a simulated broker are those of a naive one that looks at every waiting request at every step."""

import random

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import disciplines, queueing
from mpbroker.analysis.engine.mathematics.broker_replay import NOTHING, Paths, replay
from mpbroker.analysis.engine.mathematics.disciplines import QUANTUM_NS, SHARE, Arrivals

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
            *(
                np.array([chance.choice(of) for _ in range(count)], np.int64)
                for of in ((0, 0, 0, 1, 3, 4, 5, 6, 12), (3, 3, 3, 4, 12, 21), (100, 5000, 90_000))
            ),
            np.array([chance.random() < 0.1 for _ in range(count)]),
        ),
    )


class Naive:
    """Lists that are searched anew at every step; disciplines by their definition."""

    def __init__(self, paths, handlers, discipline, reserved):
        self.p, self.discipline, self.handlers = paths, discipline, handlers
        self.idle = set(range(handlers + reserved))
        self.has_plane = reserved > 0
        self.waiting, self.events = [], []
        self.turns, self.rotation, self.turn, self.credit = {}, {}, {}, {}
        self.released, self.done, self.taken, self.came = {}, {}, {}, {}
        self.arrival, self.planned, self.group, self.took = {}, set(), {}, {}

    def run(self):
        self._plan()
        while self.events:
            self.events.sort()
            now, kind, request, who = self.events.pop(0)
            if kind == ENQUEUE:
                self.came[request], self.group[request] = now, self._class(request, now)
                self.waiting.append(request)
                plane = self._plane(request)
                own = [one for one in self.idle if one >= self.handlers]
                free = own if plane and own else [one for one in self.idle if one < self.handlers]
                if free:
                    self.idle.remove(min(free))
                    self.events.append((now + int(self.p.wake[request]), WOKEN, request, min(free)))
            else:
                if kind == FREE:
                    self._let_go(request, who)
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
            self.events.append((ready + int(self.p.before[request]), ENQUEUE, request, 0))

    def _take(self, now, who):
        plane = [request for request in self.waiting if self._plane(request)]
        data = [request for request in self.waiting if not self._plane(request)] if who < self.handlers else []
        if not plane and not data:
            self.idle.add(who)
            return
        request = plane[0] if plane else self._choose(data, who)
        self.waiting.remove(request)
        self.taken[request] = now
        handled = now + int(self.p.service[request])
        self.events.append((handled + int(self.p.turn[request]), FREE, request, who))
        self.released[request] = handled + int(self.p.after[request])
        self.done[request] = self.released[request] + int(self.p.rest[request])

    def _let_go(self, request, who):
        if self._plane(request):
            return
        service = int(self.p.service[request])
        self.credit.setdefault(who, dict.fromkeys(range(7), 0))[self.group[request]] -= service
        kind = int(self.p.known.api_key[request]), disciplines.size_of(int(self.p.known.req_bytes[request]))
        known = self.took.get(kind)
        self.took[kind] = service if known is None else known - known // 8 + service // 8

    def _class(self, request, now):
        key, size = int(self.p.known.api_key[request]), int(self.p.known.req_bytes[request])
        if self.discipline == "shortest":
            took = self.took.get((key, disciplines.size_of(size)))
            bounds = (16_384, 65_536, 262_144, 1_048_576, 4_194_304)
            return 0 if took is None else 1 + sum(took >= bound for bound in bounds)
        return {
            "priority": lambda: {4: 1, 5: 2, 6: 3}.get(key, 0),
            "fair": lambda: disciplines.client_class(int(self.p.known.client[request]), now),
            "deadline": lambda: {4: 1, 5: 1, 6: 1, 12: 2, 1: 5, 0: 3 if size < 16_384 else 4}.get(key, 0),
        }.get(self.discipline, lambda: 0)()

    def _choose(self, data, who):
        if self.discipline == "fair":
            return self._dealt(data, who)
        if self.discipline == "deadline":
            targets = (100, 2, 10, 20, 50, 50)
            due = {one: self.came[one] + targets[self.group[one]] * 1_000_000 for one in data}
            return min(data, key=lambda one: (due[one], self.group[one], data.index(one)))
        self.turns[who] = self.turns.get(who, 0) + 1
        classes = {"priority": 4, "shortest": 7}.get(self.discipline, 1)
        order = [1, 2, 3, 0, 4, 5, 6]
        if self.turns[who] % SHARE == 0:
            begin = self.rotation.get(who, 0) + 1
            order = [(begin + n) % classes for n in range(classes)]
        first = next(one for one in order if one in {self.group[each] for each in data})
        if self.turns[who] % SHARE == 0:
            self.rotation[who] = first
        return next(one for one in data if self.group[one] == first)

    def _dealt(self, data, who):
        there = {self.group[one] for one in data}
        credit, turn = self.credit.setdefault(who, dict.fromkeys(range(7), 0)), self.turn.get(who, 0)
        while True:
            for one in [*range(turn, 7), *range(turn)]:
                if one in there and credit[one] > 0:
                    self.turn[who] = one
                    return next(each for each in data if self.group[each] == one)
                credit[one] = min(0, credit[one])
            while all(credit[one] <= 0 for one in there):
                for one in credit:
                    credit[one] += QUANTUM_NS
            credit.update({one: min(0, credit[one]) for one in credit if one not in there})


@pytest.mark.parametrize(
    ("discipline", "handlers", "reserved"), [*((name, 2, 0) for name in disciplines.NAMES), ("plane", 2, 1)]
)
def test_it_is_the_naive_broker(discipline, handlers, reserved):
    for gap in (400_000, 4_000_000):  # more than can be done, and little
        paths = _paths(40, seed=3, gap=gap)
        wait, total = Naive(paths, handlers, discipline, reserved).run()
        found = replay(paths, handlers, discipline, reserved)
        assert found.wait.tolist() == wait and found.total.tolist() == total


def test_without_hand_off_and_connections_it_is_the_queue_of_textbooks():
    paths = _paths(500, seed=9, bound=False)
    none = np.zeros(500, np.int64)
    paths = paths._replace(before=none, wake=none, turn=none)
    assert np.array_equal(replay(paths, 3, "fifo").wait, queueing.replay(paths.arrival, paths.service, 3))


def test_a_class_that_goes_last_does_not_starve():
    """Control requests without end, and a data request: its turn comes with the second share."""
    count = 400
    paths = _paths(count, seed=2, gap=2, bound=False)._replace(before=np.zeros(count, np.int64))
    key = np.where(np.arange(count) == 5, 0, 4)
    paths = paths._replace(service=np.full(count, 100_000), known=paths.known._replace(api_key=key))
    waited = replay(paths, 1, "priority").wait
    assert waited[5] < (2 * SHARE + 2) * 150_000 < waited.max()


def test_classes_are_those_of_the_core():
    """Bounds as native/request/discipline.c says them."""
    assert [disciplines.size_of(size) for size in (0, 255, 256, 1023, 1024, 4095, 4096, 1 << 20, 1 << 30)] == [
        0, 0, 1, 1, 2, 2, 3, 7, 7
    ]  # fmt: skip
    times = (0, 1, 16_383, 16_384, 65_535, 65_536, 262_144, 1 << 20, 1 << 22, 1 << 30)
    assert [disciplines.service_class(ns) for ns in times] == [0, 1, 1, 2, 2, 3, 4, 5, 6, 6]
    assert [disciplines.target_class(*one) for one in ((4, 9), (12, 9), (0, 9), (0, 16_384), (1, 9), (3, 9))] == [
        1, 2, 3, 4, 5, 0
    ]  # fmt: skip
    assert {disciplines.client_class(client, 1) for client in range(100)} == {1, 2, 3, 4, 5, 6}
    moved = sum(disciplines.client_class(one, 1) != disciplines.client_class(one, 1 << 34) for one in range(99))
    assert moved > 50, "neighbours change with time"
