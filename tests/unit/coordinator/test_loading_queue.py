"""Requests for a partition that is being loaded: each is answered or refused once, and then takes no room any more."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.loading_queue import LOADING_PATIENCE_MS, LoadingQueue
from mpbroker.coordinator.workbench import Workbench

MOST = 2


@pytest.fixture
def told():
    return []


@pytest.fixture
def world(told):
    bench, loading = Workbench(MOST), {"a", "b"}
    queue = LoadingQueue(
        bench,
        lambda request: request.needs in loading,
        lambda request, now: told.append(("answered", request.needs, now.ms)),
        lambda request, now, has_waited: told.append(("refused", request.needs, has_waited)),
    )
    return SimpleNamespace(bench=bench, loading=loading, queue=queue)


def ask(world, needs, lane=0):
    world.queue.answer_or_wait(SimpleNamespace(needs=needs, lane=lane), Now(10, 10))


def test_what_needs_nothing_that_is_loaded_is_answered_at_once(world, told):
    ask(world, "c")
    assert told == [("answered", "c", 10)] and world.bench.timers.deadline_ms() is None


def test_those_that_wait_take_room_until_they_are_answered(world, told):
    ask(world, "a")
    ask(world, "b")
    ask(world, "a")
    assert told == [("refused", "a", False)], "no room"
    ask(world, "a", lane=1)
    assert len(told) == 1, "that of another processor is another"
    world.loading.remove("a")
    world.queue.serve(Now(20, 20))
    world.queue.serve(Now(21, 21))
    assert told[1:] == [("answered", "a", 20)] * 2
    assert world.bench.may_park(0)
    ask(world, "b")
    assert not world.bench.may_park(0)


def test_those_that_have_waited_long_are_refused_once_and_their_room_is_free(world, told):
    ask(world, "a")
    ask(world, "b")
    assert world.bench.timers.deadline_ms() == 10 + LOADING_PATIENCE_MS
    world.bench.timers.run(Now(10 + LOADING_PATIENCE_MS, 0))
    assert told == [("refused", "a", True), ("refused", "b", True)]
    world.loading.clear()
    world.queue.serve(Now(20_000, 20_000))
    assert len(told) == 2, "and forgotten"
    world.loading.add("a")
    ask(world, "a")
    ask(world, "a")
    assert len(told) == 2, "both wait again"
