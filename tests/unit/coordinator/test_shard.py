"""What a shard does for its groups: who waits is answered once and counted, and there are only so many groups."""

import pytest

from mpbroker.coordinator.any_group import ModernGroup
from mpbroker.coordinator.effects import Answer, Append, GroupRequest, Now
from mpbroker.coordinator.environment import Environment
from mpbroker.coordinator.group import Group, Member, Parked, State
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.coordinator.group_table import GroupRow
from mpbroker.coordinator.responses import join_failed, sync_failed
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from tests.harness.group_world import MemoryTable, MemoryTopics

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def shard():
    settings = GroupSettings(max_groups=2, max_parked=2)
    return Shard(0, 0, Environment(settings, MemoryTable(), lambda topic, partition: True, b"s" * 16, MemoryTopics()))


@pytest.fixture
def member():
    return Member("m", None, "client", "/host", 10_000, 60_000, {"range": b""})


def answers(shard):
    return [(one.token, one.message) for one in shard.env.take_effects() if isinstance(one, Answer)]


def test_a_join_that_is_replaced_is_answered_and_each_is_counted_once(shard, member):
    shard.refuse_join(member, "other", 25)
    assert answers(shard) == [] and shard.env.counts.parked == 0
    shard.park_join(member, Parked(1, 3, 0))
    assert answers(shard) == [] and shard.env.counts.parked == 1
    shard.park_join(member, Parked(2, 4, 0))
    assert answers(shard) == [(1, join_failed(3, "m", AGAIN))]
    assert member.join == Parked(2, 4, 0) and shard.env.counts.parked == 1
    shard.refuse_join(member, "other", 25)
    assert answers(shard) == [(2, join_failed(4, "other", 25))] and member.join is None
    shard.answer_join(member, None)
    assert answers(shard) == [] and shard.env.counts.parked == 0


def test_a_sync_that_is_replaced_is_answered_and_the_caller_hears_whether_one_waited(shard, member):
    assert shard.answer_sync(member, sync_failed(0)) is False
    shard.park_sync(member, Parked(1, 3, 1))
    shard.park_sync(member, Parked(2, 3, 1))
    assert answers(shard) == [(1, sync_failed(AGAIN))] and shard.env.counts.parked == 1
    assert shard.env.may_park(1)
    assert shard.answer_sync(member, sync_failed(0)) is True
    assert answers(shard) == [(2, sync_failed(0))] and member.sync is None
    assert shard.answer_sync(member, sync_failed(0)) is False and shard.env.counts.parked == 0


def test_no_more_groups_than_there_is_room_for_and_who_is_refused_is_counted(shard):
    counts = shard.env.counts
    assert [shard.create(name).id for name in "ab"] == ["a", "b"] and (counts.groups, counts.groups_refused) == (2, 0)
    assert shard.create("c") is None and not shard.has_room()
    assert (counts.groups, counts.groups_refused) == (2, 2) and sorted(shard.groups) == ["a", "b"]


def test_a_group_that_only_the_table_knows_comes_back_at_its_generation(shard):
    assert shard.any("g") is None and shard.find("g") is None and shard.groups == {}
    group = Group("g")
    group.generation, group.state = 7, State.STABLE
    assert shard.store_row(group)
    found = shard.find("g")
    assert (found.generation, found.state, shard.env.counts.groups) == (7, State.EMPTY, 1)
    assert shard.any("g") is found and shard.env.counts.groups == 1


def test_a_group_that_is_forgotten_takes_all_of_its_own_out_of_the_counts(shard):
    kept, gone = shard.create("kept"), shard.create("gone")
    counts, table = shard.env.counts, shard.env.table
    counts.members, counts.offsets = 5, 9
    for group in (kept, gone):
        shard.store_row(group)
        for name in ("x", "y"):
            table.put_member(group.id, name)
        group.pending.update({"x": 1})
        group.offsets.update({"t": {0: None, 1: None}, "u": {0: None}})
        group.pending_offsets[("t", 2)] = 1
        group.transactional[7] = {}
    shard.forget(gone)
    assert (counts.groups, counts.members, counts.offsets) == (1, 4, 6)
    assert list(shard.groups) == ["kept"] and list(table.groups) == ["kept"]
    assert set(table.members) == {("kept", "x"), ("kept", "y"), ("gone", "y")}
    assert not (gone.pending or gone.offsets or gone.pending_offsets or gone.transactional)
    assert isinstance(table.group("kept"), GroupRow)
    assert kept.pending and kept.offsets and kept.pending_offsets and kept.transactional


@pytest.mark.parametrize(
    ("number", "batches"), [(0, [0]), (4000, [4000]), (4001, [4000, 1]), (8000, [4000, 4000]), (8001, [4000, 4000, 1])]
)
def test_many_tombstones_go_in_several_batches_and_the_last_one_answers(shard, number, batches):
    """A batch may have 1 MiB, and the request is over when the last one is in the log."""
    keys, settled = [b"%d" % one for one in range(number)], []
    shard.append_tombstones(keys, 9, Now(1, 2), lambda code, now: settled.append((code, now)))
    appends = [one for one in shard.env.take_effects() if isinstance(one, Append)]
    assert [len(one.records) for one in appends] == batches
    assert [record for one in appends for record in one.records] == [(key, None) for key in keys]
    assert [one.token for one in appends] == [None] * (len(batches) - 1) + [9]
    for one in appends:
        assert settled == []
        shard.appended(one.number, 0, Now(3, 4))
    assert settled == [(0, Now(3, 4))]


def test_a_shard_that_is_closed_tells_whoever_waits_for_the_log(shard):
    """And who hears it sees that it is closed: nothing is begun in it any more."""
    told = []
    assert shard.is_open
    numbers = [shard.append([], None, Now(1, 2), lambda code, now: told.append((code, shard.is_open))) for _ in "ab"]
    shard.close(Now(5, 6))
    assert told == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, False)] * 2 and not shard.is_open
    shard.appended(numbers[0], 0, Now(7, 8))
    assert len(told) == 2


class Modern(ModernGroup):
    """A group of the new protocol in which two requests wait."""

    def close(self):
        beat = HeartbeatRequest("n", 3, "m")
        return [GroupRequest(token, ApiKey.HEARTBEAT, 3, beat, lane=lane) for token, lane in ((5, 0), (6, 1))]


def test_whoever_waits_in_a_shard_that_is_closed_hears_so_and_nothing_is_kept(shard, member):
    """By either protocol; and the counts are those of before."""
    counts, table = shard.env.counts, shard.env.table
    classic, modern = shard.create("c"), shard.add_group(Modern("n"))
    classic.members["m"] = member
    table.put_member("c", "m")
    counts.members += 1
    shard.park_join(member, Parked(1, 3, 0))
    shard.park_sync(member, Parked(2, 3, 1))
    for lane in (0, 1):
        shard.env.count_parked(lane, 1)
    shard.close(Now(1, 2))
    code = ErrorCode.NOT_COORDINATOR
    told = answers(shard)
    assert told[:2] == [(1, join_failed(3, "m", code)), (2, sync_failed(code))]
    assert [(token, message.error_code) for token, message in told[2:]] == [(5, code), (6, code)]
    assert shard.groups == {} and modern.is_dead and classic.is_dead and classic.members == {}
    assert (counts.groups, counts.members, counts.parked) == (0, 0, 0) and set(table.members) == set()
    assert [shard.env._parked[lane] for lane in (0, 1)] == [0, 0]
