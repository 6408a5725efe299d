"""Questions about a classic group's members."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator import rebalance
from mpbroker.coordinator.group import Group, Member
from mpbroker.coordinator.offsets_records import group_key


def member(name, instance=None, **fields):
    return Member(name, instance, "cl", "/h", 1000, fields.pop("rebalance_timeout_ms", 500), {"range": b""}, **fields)


@pytest.fixture
def shard():
    nothing = lambda *_: None  # noqa: E731
    dropped = []
    table = SimpleNamespace(drop_member=lambda *who: dropped.append(who))
    env = SimpleNamespace(counts=SimpleNamespace(members=3), table=table)
    return SimpleNamespace(env=env, refuse_join=nothing, answer_sync=nothing, dropped=dropped)


def test_a_group_has_a_record_from_its_first_generation_on():
    group = Group("g")
    assert group.record_keys() == []
    group.generation = 1
    assert group.record_keys() == [group_key("g")]


def test_the_next_member_leads_when_the_leader_goes(shard):
    group = Group("g")
    group.members = {name: member(name, f"i-{name}") for name in "abc"}
    group.instances = {f"i-{name}": name for name in "ab"} | {"i-c": "another by now"}
    group.leader, group.unsynced = "b", set("abc")
    rebalance.remove(shard, group, group.members["a"])
    assert (group.leader, group.instances) == ("b", {"i-b": "b", "i-c": "another by now"})
    rebalance.remove(shard, group, group.members["b"])
    assert group.leader == "c" and group.unsynced == {"c"}
    rebalance.remove(shard, group, group.members["c"])
    assert group.leader is None and group.instances == {"i-c": "another by now"}
    assert shard.env.counts.members == 0 and shard.dropped == [("g", "a"), ("g", "b"), ("g", "c")]


def test_the_longest_rebalance_timeout_counts():
    group = Group("g")
    assert group.rebalance_timeout_ms() == 0
    group.members = {name: member(name, rebalance_timeout_ms=ms) for name, ms in (("a", 5), ("b", 9), ("c", 7))}
    assert group.rebalance_timeout_ms() == 9
