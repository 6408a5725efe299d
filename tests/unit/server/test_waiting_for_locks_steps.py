"""Requests that wait for a partition's lock, of parts: how long, for whom, and that nobody is answered too early."""

from types import SimpleNamespace

import pytest

from mpbroker.purgatory.delayed_operation import DelayedOperationPurgatory
from mpbroker.server import waiting_for_locks as module
from mpbroker.server.apis import NO_ANSWER, PARKED
from mpbroker.server.waiting_for_locks import (
    RETRY_MS,
    BusyPartitions,
    UnfinishedRun,
    wait_for_partitions,
    waits_for_repair,
)
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.layout import ParkedKind

PARK = ("park", ParkedKind.PRODUCE)


class World:
    """`busy`: the rows whose locks are held; `intended`: the row of an append that is not finished."""

    def __init__(self):
        self.did, self.busy, self.intended = [], {40, 41}, None
        note = lambda *words: self.did.append(words)  # noqa: E731
        self.clock, self.watched = ManualClock(), set()
        self.request = SimpleNamespace(attempts=1)
        self.purgatory = DelayedOperationPurgatory(self.clock.monotonic_ms(), self.watched.add)
        self.context = SimpleNamespace(
            clock=self.clock, purgatory=self.purgatory, resume=lambda request: note("resume"),
            log_manager=SimpleNamespace(
                is_busy=lambda ordinal: ordinal in self.busy, repair=lambda ordinal: note("repair", ordinal)
            ),
            port=SimpleNamespace(
                park=lambda request, kind: note("park", kind), answer_none=lambda request: note("no answer"),
                intended_row=lambda request: note("looked") or self.intended,
            ),
        )  # fmt: skip

    def wait(self, until_ms, outcome=NO_ANSWER):
        """A request that needs rows 40 and 41, until so much later."""
        again = lambda until: self.did.append(("again", until - self.begun_ms)) or outcome  # noqa: E731
        self.begun_ms = self.clock.monotonic_ms()
        wait_for_partitions(self.context, self.request, (40, 41), self.begun_ms + until_ms, again)

    def passes(self, ms):
        self.clock.advance(ms)
        self.purgatory.advance(self.clock.monotonic_ms())

    def steps(self):
        did, self.did[:] = list(self.did), []
        return did


@pytest.fixture
def world():
    return World()


def done(until_ms, *answers):
    return [("resume",), ("again", until_ms), *answers]


def test_it_goes_on_when_one_of_its_partitions_may_be_free(world):
    world.wait(1000)
    assert world.steps() == [PARK] and world.watched == {40, 41}
    world.purgatory.check([40])
    assert world.steps() == []
    world.busy.discard(41)
    world.purgatory.check([41])
    assert world.steps() == done(1000, ("no answer",))


def test_it_tries_again_now_and_then_for_who_lets_go_may_be_stopped_before_it_says_so(world):
    world.wait(10 * RETRY_MS)
    world.passes(RETRY_MS - 1)
    assert world.steps() == [PARK]
    world.passes(1)
    assert world.steps() == [PARK], "still busy: it waits on"
    world.busy.clear()
    world.passes(RETRY_MS)
    assert world.steps() == done(10 * RETRY_MS, ("no answer",))


def test_at_its_own_timeout_it_is_made_whatever_is_busy(world):
    world.wait(RETRY_MS + 7, PARKED)
    world.passes(RETRY_MS)
    assert world.steps() == [PARK, PARK]
    world.passes(6)
    assert world.steps() == []
    world.passes(1)
    assert world.steps() == done(RETRY_MS + 7), "what is parked again is not answered"


@pytest.mark.parametrize("ms", [1, RETRY_MS - 1])
def test_one_that_allows_less_than_that_is_made_in_time(world, ms):
    world.wait(ms)
    world.passes(ms)
    assert world.steps() == [PARK, *done(ms, ("no answer",))]


def test_one_whose_partitions_are_free_is_made_at_once(world):
    world.busy = {40}
    world.wait(1000)
    assert world.steps() == [PARK, *done(1000, ("no answer",))]


@pytest.mark.parametrize(
    ("attempts", "intended", "waits"), [(0, 0, False), (1, None, False), (1, 0, True), (2, 5, True)]
)
def test_only_one_that_ran_before_may_have_an_unfinished_run(world, attempts, intended, waits):
    world.request.attempts, world.intended, ran = attempts, intended, []
    assert waits_for_repair(world.context, world.request, lambda *words: ran.append(words)) is waits
    looks = [("looked",)] if attempts else []
    repairs = [PARK, ("repair", intended), ("looked",), ("repair", intended), ("looked",)] if waits else []
    assert world.steps() == looks + repairs and ran == [] and world.watched == ({intended} if waits else set())


def test_it_runs_again_when_the_first_run_is_finished_however_long_that_takes(world):
    world.intended, ran = 5, []
    waits_for_repair(world.context, world.request, lambda *words: ran.append(words))
    for _ in range(3):
        world.steps()
        world.passes(RETRY_MS - 1)
        assert world.steps() == []
        world.passes(1)
        assert world.steps()[:2] == [("looked",), PARK] and ran == []
    world.intended = None
    world.purgatory.check([5])
    assert world.steps()[-2:] == [("looked",), ("resume",)] and ran == [(world.context, world.request)]


def test_what_is_parked_is_taken_for_a_produce():
    assert BusyPartitions.PARKED_KIND == UnfinishedRun.PARKED_KIND == ParkedKind.PRODUCE
    assert module.LEAST_PATIENCE_MS > RETRY_MS
