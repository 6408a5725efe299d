"""Which offsets are too old, and what a transaction was about to commit: it is forgotten with its partition."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.any_group import AnyGroup, Committed
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group import Group, State
from mpbroker.coordinator.offset_removal import _error, _old_offsets, drop_transactional
from mpbroker.errors import ErrorCode

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
