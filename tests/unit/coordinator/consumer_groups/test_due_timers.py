"""A timer of a member: it counts for the group that it was made for, as long as that is here and waits for it."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.consumer_groups import membership
from mpbroker.coordinator.consumer_groups.membership import Kind, _due
from mpbroker.coordinator.effects import Now

KEY = (Kind.SESSION, "m")


class World:
    """A shard with a group whose timer at 50 is for a deadline at 60."""

    def __init__(self, monkeypatch):
        self.expired, self.timers = [], []
        self.group = SimpleNamespace(
            id="g", timers={KEY: 50}, deadlines={KEY: SimpleNamespace(ms=60)}, is_recording=False, waiting=[]
        )
        timers = SimpleNamespace(at=lambda ms, *_what: self.timers.append(ms))
        self.shard = SimpleNamespace(is_open=True, groups={"g": self.group}, env=SimpleNamespace(timers=timers))
        monkeypatch.setattr(membership, "_expire", lambda *given: self.expired.append(given[2]))

    def due(self, now_ms, timer_ms=50):
        _due(self.shard, self.group, KEY, timer_ms, Now(now_ms, 0))


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


@pytest.mark.parametrize("now_ms, expires", [(50, False), (59, False), (60, True), (61, True)])
def test_a_deadline_that_moved_on_has_another_timer(world, now_ms, expires):
    world.due(now_ms)
    assert (world.expired, world.timers) == (([KEY], []) if expires else ([], [60]))
    assert world.group.timers == ({} if expires else {KEY: 60})


@pytest.mark.parametrize("why", ["closed", "forgotten", "another group", "another timer"])
def test_what_it_was_made_for_may_be_gone(world, why):
    world.shard.is_open = why != "closed"
    if why == "forgotten":
        world.shard.groups.clear()
    elif why == "another group":
        world.shard.groups["g"] = object()
    world.due(70, 49 if why == "another timer" else 50)
    assert not world.expired and not world.timers and world.group.timers == {KEY: 50}


def test_a_deadline_that_is_over_or_waits_for_a_record(world):
    world.group.is_recording = True
    world.due(70)
    [(token, later)] = world.group.waiting
    assert token is None and not world.expired
    later(Now(80, 0))
    assert world.expired == [KEY]
    world.group.timers[KEY] = 50
    world.group.deadlines.clear()
    world.due(70)
    assert world.expired == [KEY] and not world.group.timers
