"""Which offsets are too old, and what a transaction was about to commit: it is forgotten with its partition."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator import offset_removal
from mpbroker.coordinator.any_group import AnyGroup, Committed
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group, State
from mpbroker.coordinator.offset_removal import _error, _old_offsets, drop_transactional
from mpbroker.coordinator.offsets_records import group_key, offset_key
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.harness.group_calls import Calls
from tests.harness.group_world import GROUP, TOPIC

A, B, C = ("t", 0), ("t", 1), ("u", 0)


@pytest.mark.parametrize(
    "name, was_there, left",
    [
        (A, True, {8: {B: 3}, 9: {C: 4}}),
        (B, True, {7: {A: 1}, 8: {A: 2}, 9: {C: 4}}),
        (C, True, {7: {A: 1}, 8: {A: 2, B: 3}}),
        (("u", 1), False, {7: {A: 1}, 8: {A: 2, B: 3}, 9: {C: 4}}),
    ],
)
def test_a_partition_goes_from_every_transaction(name, was_there, left):
    group = SimpleNamespace(transactional={7: {A: 1}, 8: {A: 2, B: 3}, 9: {C: 4}})
    assert drop_transactional(group, name) is was_there and group.transactional == left


def test_who_takes_a_groups_place_has_all_that_it_committed():
    old, new = AnyGroup("g"), AnyGroup("g")
    new.take_offsets_of(old)
    old.offsets["t"] = {0: 1}
    old.pending_offsets[A] = 2
    old.transactional[7] = {A: 3}
    assert (new.offsets, new.pending_offsets, new.transactional) == ({"t": {0: 1}}, {A: 2}, {7: {A: 3}})


KEPT_MS, NOW_MS = 1000, 50_000
SHARD = SimpleNamespace(
    partition=3, env=SimpleNamespace(settings=SimpleNamespace(retention_ms=KEPT_MS), counts=SimpleNamespace())
)


def old(age_ms=KEPT_MS, expire_ms=-1, **how):
    """Topics with an old offset, of a group with one of each of t and u, committed so long ago."""
    group = Group("g")
    usual = {"state": State.EMPTY, "state_ms": -1, "protocol_type": "consumer", "subscribed": None}
    for name, value in (usual | how).items():
        setattr(group, name, value)
    committed = Committed(5, -1, "", NOW_MS - age_ms, expire_ms, 1)
    group.offsets = {"t": {0: committed}, "u": {1: committed}}
    return [topic for topic, _ in _old_offsets(SHARD, group, Now(1, NOW_MS))]


@pytest.mark.parametrize("age_ms, found", [(KEPT_MS - 1, []), (KEPT_MS, ["t", "u"]), (KEPT_MS + 1, ["t", "u"])])
def test_an_offset_is_old_from_its_time_on(age_ms, found):
    assert old(age_ms) == found


@pytest.mark.parametrize("expire_ms, found", [(NOW_MS + 1, []), (NOW_MS, ["t", "u"]), (0, ["t", "u"])])
def test_an_offset_that_was_given_a_time_is_old_then(expire_ms, found):
    """OffsetCommit 2 to 4 gives one: whatever the broker's own says."""
    assert old(0, expire_ms) == found and old(9 * KEPT_MS, NOW_MS + 1) == []


@pytest.mark.parametrize(
    "since_ms, found", [(-1, ["t", "u"]), (NOW_MS - KEPT_MS + 1, []), (NOW_MS - KEPT_MS, ["t", "u"])]
)
def test_the_time_of_an_empty_groups_offsets_begins_when_it_became_empty(since_ms, found):
    assert old(9 * KEPT_MS, state_ms=since_ms) == found


@pytest.mark.parametrize(
    "how, found",
    [
        ({"subscribed": frozenset({"t"})}, ["u"]),
        ({"subscribed": frozenset()}, ["t", "u"]),
        ({"subscribed": None}, []),
        ({"subscribed": frozenset({"t"}), "protocol_type": "connect"}, []),
        ({"subscribed": frozenset({"t"}), "state": State.PREPARING}, []),
        ({"protocol_type": None, "state_ms": NOW_MS}, ["t", "u"]),  # it never had members
    ],
)
def test_a_group_with_members_keeps_what_it_reads(how, found):
    assert old(**{"state": State.STABLE} | how) == found


@pytest.mark.parametrize(
    "how, code",
    [
        ({}, ErrorCode.NONE),
        ({"state": State.DEAD}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"state": State.STABLE}, ErrorCode.NONE),
        ({"state": State.STABLE, "protocol_type": "connect"}, ErrorCode.NON_EMPTY_GROUP),
        ({"protocol_type": "connect"}, ErrorCode.NONE),
        (None, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_of_whom_offsets_can_be_deleted(how, code):
    group = None
    if how is not None:
        group = Group("g")
        for name, value in ({"state": State.EMPTY, "protocol_type": "consumer"} | how).items():
            setattr(group, name, value)
    assert _error(SHARD, group, SimpleNamespace(appended=())) == code
    assert _error(SHARD, group, SimpleNamespace(appended=(3,))) == ErrorCode.NONE, "an earlier run deleted them"


def one(offset):
    return Committed(offset, -1, "", NOW_MS, -1, 1)


@pytest.fixture
def shard():
    """With room for what it forgets."""
    forgotten = []
    env = SimpleNamespace(counts=SimpleNamespace(offsets=9, offsets_expired=0))
    return SimpleNamespace(env=env, groups={}, forgotten=forgotten, forget=forgotten.append, appended=[])


@pytest.fixture
def full():
    """Committed: A, B; pending: B, C; in a transaction: A, and D, which is nowhere else."""
    group = Group("g")
    group.state, group.offsets = State.STABLE, {"t": {0: one(1), 1: one(2)}}
    group.pending_offsets = {B: 5, C: 6}
    group.transactional = {7: {A: one(3), D: one(4)}}
    return group


D = ("v", 0)


@pytest.mark.parametrize(
    ("names", "keys", "offsets", "pending", "transactional", "counted"),
    [
        ([A], [A], {"t": {1: one(2)}}, {B: 5, C: 6}, {7: {D: one(4)}}, 8),
        ([B], [B], {"t": {0: one(1)}}, {C: 6}, {7: {A: one(3), D: one(4)}}, 8),
        ([C], [C], {"t": {0: one(1), 1: one(2)}}, {B: 5}, {7: {A: one(3), D: one(4)}}, 9),
        ([D], [D], {"t": {0: one(1), 1: one(2)}}, {B: 5, C: 6}, {7: {A: one(3)}}, 9),
        ([("x", 0)], [], {"t": {0: one(1), 1: one(2)}}, {B: 5, C: 6}, {7: {A: one(3), D: one(4)}}, 9),
        ([A, B, C, D, A], [A, B, C, D], {}, {}, {}, 7),
    ],
)
def test_an_offset_goes_from_everywhere_and_is_counted_if_it_was_committed(
    shard, full, names, keys, offsets, pending, transactional, counted
):
    found = offset_removal.remove_offsets(shard, full, names)
    assert found == [offset_key("g", *name) for name in keys]
    assert (full.offsets, full.pending_offsets, full.transactional) == (offsets, pending, transactional)
    assert shard.env.counts.offsets == counted and shard.forgotten == [], "it has members"


@pytest.mark.parametrize(
    ("fields", "names", "is_forgotten"),
    [
        ({}, [A, B, C, D], True),
        ({}, [A, B, C], False),
        ({"state": State.STABLE}, [A, B, C, D], False),
        ({"pending": {"id": 5}}, [A, B, C, D], False),
    ],
    ids=["nothing is left", "one is in a transaction", "it has members", "somebody is about to join"],
)
def test_an_empty_group_goes_with_its_last_offset(shard, full, fields, names, is_forgotten):
    full.state, full.generation = State.EMPTY, 3
    for name, value in fields.items():
        setattr(full, name, value)
    keys = offset_removal.remove_offsets(shard, full, names)
    assert keys[len(names) :] == ([group_key("g")] if is_forgotten else [])
    assert shard.forgotten == ([full] if is_forgotten else [])


def test_with_a_topic_go_its_offsets_and_no_group_that_had_none(shard, full, monkeypatch):
    other, dead = Group("other"), Group("dead")
    dead.mark_dead(True)
    dead.offsets = {"t": {0: one(1)}}
    shard.groups = {group.id: group for group in (full, other, dead)}
    monkeypatch.setattr(offset_removal, "_append", lambda shard, keys, token, now: shard.appended.append((keys, token)))
    offset_removal.remove_topic(shard, "t", Now(1, NOW_MS))
    assert sorted(shard.appended[0][0]) == sorted(offset_key("g", *name) for name in (A, B))
    assert shard.forgotten == [] and dead.offsets == {"t": {0: one(1)}}
    assert (full.offsets, full.pending_offsets, full.transactional) == ({}, {C: 6}, {7: {D: one(4)}})
    offset_removal.remove_topic(shard, "u", Now(1, NOW_MS))
    assert shard.appended[1] == ([offset_key("g", *C)], None)


def test_what_is_too_old_is_counted_and_what_is_in_a_transaction_stays(shard, full, monkeypatch):
    again = []
    dead = Group("dead")
    dead.mark_dead(True)
    shard.is_open, shard.groups = True, {"g": full, "dead": dead}
    shard.env.settings = SimpleNamespace(retention_ms=KEPT_MS, retention_check_ms=700)
    shard.env.timers = SimpleNamespace(at=lambda ms, *call: again.append(ms))
    full.state, full.protocol_type, full.state_ms = State.EMPTY, "consumer", -1
    full.pending_offsets.clear()
    monkeypatch.setattr(offset_removal, "_append", lambda shard, keys, token, now: shard.appended.append(keys))
    now = Now(100, NOW_MS + KEPT_MS)
    offset_removal._remove_old(shard, now)
    assert shard.appended == [[offset_key("g", *B)]] and again == [800]
    assert (shard.env.counts.offsets_expired, shard.env.counts.offsets) == (1, 8)
    shard.is_open = False
    offset_removal._remove_old(shard, now)
    assert len(shard.appended) == 1 and again == [800]


def test_deleting_what_is_not_there_is_not_recorded():
    """And a second run of what was recorded is not recorded again."""
    calls = Calls()
    calls.commit(5)
    calls.world.topics.create(TOPIC, 2)
    rows = [OffsetDeleteRequestPartition(0)]
    message = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(TOPIC, rows)])
    written = len(calls.world.log)
    world = calls.world
    again = GroupRequest(0, ApiKey.OFFSET_DELETE, 0, message, appended=frozenset({world.partition}))
    [answer] = world.coordinator.handle(again, world.now())
    assert [row.error_code for row in answer.message.topics[0].partitions] == [0] and len(world.log) == written
    calls.commit(5)
    calls.join()
    assert calls.ask(message, 0).answer.topics[0].partitions[0].error_code in (0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
