"""What becomes of assignments: every member gets its part, or hears that there is none."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator import rebalance
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group import Group, Member, Parked
from mpbroker.coordinator.rebalance import cancel_syncs, hand_out
from mpbroker.coordinator.responses import sync_failed, synced

NOW = Now(5, 6)


@pytest.fixture
def world(monkeypatch):
    """A group of three with old parts; the first and the last of them wait."""
    touched, answered, group = [], [], Group("g")
    monkeypatch.setattr(rebalance, "touch", lambda shard, group, member, now: touched.append((member.id, now)))
    for name in "abc":
        group.members[name] = Member(name, None, "", "", 10_000, 60_000, {"range": b""}, assignment=b"old")
    group.members["a"].sync, group.members["c"].sync = Parked(1, 3, 0), Parked(2, 3, 0)

    def answer_sync(member, message):
        answered.append((member.id, message))
        return member.sync is not None

    return SimpleNamespace(
        group=group, touched=touched, answered=answered, shard=SimpleNamespace(answer_sync=answer_sync)
    )


def test_without_an_assignment_nobody_keeps_an_old_one(world):
    cancel_syncs(world.shard, world.group, 27, NOW)
    assert [member.assignment for member in world.group.members.values()] == [b"", b"", b""]
    assert world.answered == [(name, sync_failed(27)) for name in "abc"]
    assert world.touched == [("a", NOW), ("c", NOW)], "who does not wait says nothing"


def test_who_is_left_out_gets_an_empty_part(world):
    hand_out(world.shard, world.group, {"a": b"one", "b": b"two", "stranger": b"three"}, NOW)
    assert [member.assignment for member in world.group.members.values()] == [b"one", b"two", b""]
    assert world.answered == [(name, synced(world.group, world.group.members[name])) for name in "abc"]
    assert world.touched == [("a", NOW), ("c", NOW)] and set(world.group.members) == set("abc")


@pytest.mark.parametrize(
    ("leader", "came", "elects", "leads"),
    [
        ("a", "abc", True, "a"),
        ("b", "abc", True, "b"),
        ("a", "bc", True, "b"),
        ("b", "c", True, "c"),
        ("a", "", False, "a"),
        ("gone", "bc", True, "b"),
        (None, "c", True, "c"),
    ],
)
def test_who_leads_is_one_who_came(world, leader, came, elects, leads):
    """A static member that did not come stays a member, and leads no more."""
    group = world.group
    group.leader = leader
    for name, member in group.members.items():
        member.join = Parked(1, 5, 0) if name in came else None
    assert (rebalance._elect(group), group.leader) == (elects, leads)
