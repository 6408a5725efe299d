"""Groups out of their records: each kind of record comes back, what cannot be read is counted, no two owners."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.consumer_groups import consumer_records as records
from mpbroker.coordinator.consumer_groups import membership
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup, Kind
from mpbroker.coordinator.consumer_groups.consumer_loading import begin_deadlines, build_consumer_groups
from mpbroker.coordinator.consumer_groups.consumer_member import ClassicMetadata, ConsumerMember, MemberState
from mpbroker.coordinator.consumer_groups.consumer_records import Resolved, key_of
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.environment import Counts
from tests.harness.group_world import MemoryTopics

T, U, NOW = b"t" * 16, b"u" * 16, Now(1000, 2000)
PLAIN = ConsumerMember(
    "a",
    7,
    6,
    MemberState.UNREVOKED_PARTITIONS,
    "i",
    "r",
    500,
    "cl",
    "/h",
    ("s", "t"),
    "p.*",
    "range",
    assigned={T: {0: 5, 1: 7}},
    revoking={U: {3: 4}},
)
CLASSIC = PLAIN.but(
    id="b",
    state=MemberState.STABLE,
    instance_id=None,
    assigned={T: {2: 7}},
    revoking={},
    classic=ClassicMetadata(9000, (("range", b"m"),)),
)


@pytest.fixture
def shard():
    groups, topics = {}, MemoryTopics()
    env = SimpleNamespace(topics=topics, counts=Counts())
    return SimpleNamespace(env=env, groups=groups, add_group=lambda group: groups.setdefault(group.id, group))


def of_member(member, group="g"):
    return [
        (key_of(records.MEMBER, group, member.id), records.member_value(member)),
        (key_of(records.CURRENT, group, member.id), records.current_value(member)),
    ]


def test_a_group_comes_back_as_it_was(shard):
    written = [
        (key_of(records.GROUP_EPOCH, "g"), records.epoch_value(9, -77)),
        (key_of(records.TARGET_EPOCH, "g"), records.target_epoch_value(8, 1234)),
        (key_of(records.TARGET, "g", "a"), records.target_value({T: {1, 0}, U: set()})),
        (key_of(records.PATTERN, "g", "p.*"), records.pattern_value(Resolved(frozenset({"pq", "p"}), 5, 66))),
        *of_member(PLAIN),
        *reversed(of_member(CLASSIC)),
    ]
    build_consumer_groups(shard, written)
    [group] = shard.groups.values()
    assert (group.id, group.epoch, group.metadata_hash, group.target_epoch, group.target_ms) == ("g", 9, -77, 8, 1234)
    assert group.members == {"a": PLAIN, "b": CLASSIC} and group.instances == {"i": "a"}
    assert group.targets == {"a": {T: frozenset({0, 1}), U: frozenset()}}
    assert group.resolved == {"p.*": Resolved(frozenset({"pq", "p"}), 5, 66)}
    assert group.owners == {T: {0: "a", 1: "a", 2: "b"}, U: {3: "a"}}
    assert (group.needs_look, group.needs_resolving, group.has_partition_metadata) == (True, True, False)
    assert (shard.env.counts.members, shard.env.counts.records_skipped) == (2, 0)


def test_a_record_of_kafka_4_0_is_remembered_and_groups_are_told_apart(shard):
    written = [
        (key_of(records.GROUP_EPOCH, "g"), records.epoch_value(2, 0)),
        (key_of(records.PARTITION_METADATA, "h"), b"\0\0whatever"),
        (key_of(records.GROUP_EPOCH, "h"), records.epoch_value(3, 0)),
    ]
    build_consumer_groups(shard, written)
    found = {name: (group.epoch, group.has_partition_metadata) for name, group in shard.groups.items()}
    assert found == {"g": (2, False), "h": (3, True)}


@pytest.mark.parametrize(
    "unreadable",
    [
        (key_of(records.MEMBER, "g", "a")[:-1], records.member_value(PLAIN)),
        (key_of(records.MEMBER, "g", "a"), records.member_value(PLAIN)[:-5]),
        (key_of(records.GROUP_EPOCH, "g"), b"\0\1" + records.epoch_value(9, 0)[2:]),
        (key_of(records.CURRENT, "g", "a"), b""),
    ],
    ids=["key", "value", "version", "empty"],
)
def test_what_cannot_be_read_is_skipped_and_counted(shard, unreadable):
    build_consumer_groups(shard, [unreadable])
    assert (shard.groups, shard.env.counts.records_skipped) == ({}, 1)
    build_consumer_groups(shard, [unreadable, *of_member(CLASSIC)])
    assert set(shard.groups["g"].members) == {"b"} and shard.env.counts.records_skipped == 2


def test_who_has_what_another_one_has_begins_anew(shard):
    other = CLASSIC.but(id="c", classic=None, assigned={T: {1: 3}, U: {9: 3}}, revoking={T: {8: 1}})
    build_consumer_groups(shard, [*of_member(PLAIN), *of_member(other)])
    [group] = shard.groups.values()
    assert group.members == {"a": PLAIN, "c": other.but(epoch=0, previous_epoch=0, assigned={}, revoking={})}
    assert group.owners == {T: {0: "a", 1: "a"}, U: {3: "a"}} and shard.env.counts.records_skipped == 1


@pytest.mark.parametrize(
    ("member", "watched"),
    [
        (PLAIN, [(Kind.REVOCATION, "a", 500, NOW, 7)]),
        (PLAIN.but(state=MemberState.UNRELEASED_PARTITIONS), []),
        (PLAIN.but(classic=CLASSIC.classic), []),
        (CLASSIC, []),
    ],
    ids=["has to give back", "waits", "gives back, of the classic protocol", "has all"],
)
def test_everybody_has_a_session_and_who_has_to_give_back_has_time_for_it(shard, monkeypatch, member, watched):
    touched, seen = [], []
    monkeypatch.setattr(membership, "touch", lambda *call: touched.append(call))
    monkeypatch.setattr(membership, "watch", lambda shard, group, *call: seen.append(call))
    group = ConsumerGroup("g", shard.env.topics, shard.env.counts)
    group.set_member(member.id, member)
    begin_deadlines(shard, group, NOW)
    assert touched == [(shard, group, member, NOW)] and seen == watched
