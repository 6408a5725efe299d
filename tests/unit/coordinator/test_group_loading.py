"""Records that a load cannot read are counted, and left out."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.environment import Counts
from mpbroker.coordinator.group import Member
from mpbroker.coordinator.group_loading import _add_group, _add_offset, _add_transactional, _committed, _members
from mpbroker.coordinator.offsets_records import (
    GroupValue,
    MemberValue,
    OffsetName,
    OffsetValue,
    group_key,
    offset_key,
    offset_value,
)


@pytest.fixture
def shard():
    groups = {}
    return SimpleNamespace(
        env=SimpleNamespace(counts=Counts()),
        groups=groups,
        add_group=lambda group: groups.setdefault(group.id, group),
    )


def test_a_group_that_cannot_be_read_is_none(shard):
    for unreadable in (b"", b"\0", b"\0\x7f", b"\0\3\0"):
        _add_group(shard, "g", unreadable)
    assert shard.env.counts.records_skipped == 4 and shard.groups == {}


def test_an_offset_that_cannot_be_read_is_none_and_the_others_are_kept(shard):
    name = OffsetName("g", "t", 1)
    _add_offset(shard, name, b"\0")
    assert shard.env.counts.records_skipped == 1 and shard.groups == {} and shard.env.counts.offsets == 0
    value = offset_value(OffsetValue(5, 2, "where", 100, -1))
    _add_offset(shard, name, value)
    assert shard.env.counts.offsets == 1 and shard.env.counts.records_skipped == 1
    assert tuple(shard.groups["g"].offsets["t"][1])[:5] == (5, 2, "where", 100, -1)
    assert _committed(shard, b"", 7) is None and shard.env.counts.records_skipped == 2


@pytest.mark.parametrize(("rebalance_ms", "expected"), [(-1, 9000), (0, 0), (5000, 5000)])
def test_a_member_whose_record_has_no_rebalance_timeout_has_its_sessions(rebalance_ms, expected):
    row = MemberValue("m", "i", "cl", "/h", rebalance_ms, 9000, b"subscription", b"assignment")
    [member] = _members(GroupValue("consumer", 3, "range", "m", 5, [row]))
    assert member == Member("m", "i", "cl", "/h", 9000, expected, {"range": b"subscription"}, b"assignment")


def test_in_transactions_there_are_offsets_alone(shard):
    shard.transactional = {}
    value = offset_value(OffsetValue(5, 2, "where", 100, -1))
    _add_transactional(shard, 7, group_key("g"), value, 3)
    _add_transactional(shard, 7, offset_key("g", "t", 1), b"\0", 3)
    assert (shard.groups, shard.transactional, shard.env.counts.records_skipped) == ({}, {}, 1)
    _add_transactional(shard, 7, offset_key("g", "t", 1), value, 3)
    assert shard.groups["g"].transactional == {7: {("t", 1): (5, 2, "where", 100, -1, 3)}}
    assert shard.transactional == {7: {"g"}} and shard.env.counts.offsets == 0
