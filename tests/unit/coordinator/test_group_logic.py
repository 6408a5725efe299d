"""Rules of groups that Kafka's recorded answers do not show: appends on their way, bounds, age, closing."""

import pytest

from mpbroker.coordinator.subscription import subscribed_topics
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.group_scripts.cast import subscription
from tests.harness.group_calls import REBALANCE_MS, SESSION_MS, Calls
from tests.harness.group_world import GROUP, TOPIC

INVALID_GROUP_ID, UNKNOWN_SERVER_ERROR = 24, -1
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_MEMBER, REBALANCE = 14, 15, 16, 25, 27
DAY_MS = 86_400_000
LATER, NOT_WRITTEN = (True, 0, False), (False, 56, True)


def test_a_replaced_join_and_sync_are_answered():
    calls = Calls(initial_rebalance_delay_ms=3000)
    first = calls.join()
    member_id = calls.describe().members[0].member_id
    second = calls.join(member_id)
    assert (first.code, second.answer) == (REBALANCE, None)
    follower = calls.join()
    calls.world.advance(7000)
    assert second.answer.leader == member_id
    first, second = calls.sync(follower.answer), calls.sync(follower.answer)
    assert (first.code, second.answer) == (REBALANCE, None)


def test_sessions_begin_when_the_join_phase_ends():
    calls = Calls()
    a = calls.join().answer
    calls.world.advance(SESSION_MS - 1)
    assert calls.describe().members
    calls.world.advance(1)
    assert not calls.describe().members
    assert calls.beat(a) == UNKNOWN_MEMBER


def test_an_assignment_whose_generation_is_over_is_not_handed_out():
    calls = Calls()
    a = calls.join().answer
    calls.world.append_fate = lambda: LATER
    waiting = calls.sync(a, {a.member_id: b"old"})
    calls.join()
    assert waiting.code == REBALANCE
    calls.world.acknowledge()
    assert calls.describe().group_state == "PreparingRebalance"


def test_an_assignment_that_cannot_be_recorded():
    calls = Calls()
    a = calls.join().answer
    calls.world.append_fate = lambda: NOT_WRITTEN
    assert calls.sync(a, {a.member_id: b"1"}).code == NOT_COORDINATOR
    assert calls.describe().group_state == "PreparingRebalance"


def test_a_commit_is_seen_when_it_is_acknowledged():
    calls = Calls()
    calls.world.append_fate = lambda: LATER
    one, two, three = calls.commit(5), calls.commit(6), calls.commit(7)
    assert calls.fetch() == (-1, 0)
    assert calls.fetch(require_stable=True) == (-1, 88)
    calls.world.unacknowledged.rotate(-1)
    calls.world.acknowledge()
    assert (one.answer, two.answer.topics[0].partitions[0].error_code, three.answer) == (None, 0, None)
    assert (calls.fetch(), calls.fetch(require_stable=True)) == ((6, 0), (-1, 88))
    calls.world.unacknowledged.rotate(1)
    calls.world.acknowledge()
    assert one.answer is not None and three.answer is None
    assert calls.fetch() == (6, 0), "the older one does not overwrite it"
    calls.world.acknowledge()
    assert calls.fetch(require_stable=True) == (7, 0)


@pytest.mark.parametrize(("log", "client"), [(3, 15), (20, 15), (6, 16), (56, 16), (7, 7), (10, 28)])
def test_a_commit_that_cannot_be_recorded(log, client):
    calls = Calls()
    calls.world.append_fate = lambda: (False, log, True)
    assert calls.commit_codes(5) == [client]
    assert calls.fetch(require_stable=True) == (-1, 0)


def test_a_static_member_whose_replacement_cannot_be_recorded():
    calls = Calls()
    (a,) = calls.stable(instance="one")
    calls.world.append_fate = lambda: NOT_WRITTEN
    refused = calls.join(instance="one", metadata=b"other", session_timeout_ms=2 * SESSION_MS).answer
    assert (refused.error_code, refused.member_id, refused.generation_id) == (NOT_COORDINATOR, "", a.generation_id)
    assert calls.beat(a) == 0
    [member] = calls.describe().members
    assert member.member_metadata == b"m", "what it said before counts"
    calls.world.advance(SESSION_MS + 1)
    assert calls.describe().group_state == "Empty", "and so does its time"


def test_age_of_offsets():
    """KIP-211: of an empty group since it is empty, of a stable one what nobody subscribes to."""
    calls = Calls(retention_ms=DAY_MS, retention_check_ms=DAY_MS // 24, max_session_timeout_ms=20 * DAY_MS)
    long = {"session_timeout_ms": 20 * DAY_MS, "metadata": subscription(TOPIC)}
    (a,) = calls.stable(**long)
    calls.commit(5, a)
    calls.world.advance(2 * DAY_MS)
    assert calls.fetch() == (5, 0), "its topic is subscribed to"
    calls.leave(a.member_id)
    calls.world.advance(DAY_MS - DAY_MS // 12)
    assert calls.fetch() == (5, 0)
    calls.world.advance(DAY_MS // 6)
    assert calls.fetch() == (-1, 0)
    assert calls.describe().group_state == "Dead"
    assert calls.world.log[-1][1] is None and calls.world.log[-2][1] is None, "tombstones of offset and group"
    calls.die()
    assert calls.describe().group_state == "Dead"


def test_an_empty_groups_age_is_that_of_its_last_member_also_after_a_restart():
    """The records say since when it is empty; its commit is older."""
    calls = Calls(retention_ms=DAY_MS, retention_check_ms=DAY_MS // 24, max_session_timeout_ms=20 * DAY_MS)
    (a,) = calls.stable(session_timeout_ms=20 * DAY_MS, metadata=subscription(TOPIC))
    calls.commit(5, a)
    calls.world.advance(2 * DAY_MS)
    calls.leave(a.member_id)
    calls.world.advance(DAY_MS // 2)
    calls.die()
    calls.world.advance(DAY_MS // 3)
    assert calls.fetch() == (5, 0)
    calls.world.advance(DAY_MS // 3)
    assert calls.fetch() == (-1, 0)


def test_age_of_offsets_that_nobody_subscribes_to():
    calls = Calls(retention_ms=DAY_MS, retention_check_ms=DAY_MS // 24, max_session_timeout_ms=20 * DAY_MS)
    (a,) = calls.stable(session_timeout_ms=20 * DAY_MS, metadata=subscription("another"))
    calls.commit(5, a)
    calls.world.advance(DAY_MS - DAY_MS // 12)
    assert calls.fetch() == (5, 0)
    calls.world.advance(DAY_MS // 6)
    assert calls.fetch() == (-1, 0)
    assert calls.describe().group_state == "Stable"


def test_age_of_a_simple_consumers_offsets():
    calls = Calls(retention_ms=DAY_MS, retention_check_ms=DAY_MS // 24)
    calls.commit(5)
    calls.world.advance(DAY_MS // 2)
    calls.commit(6, partitions=(1,))
    calls.world.advance(DAY_MS - DAY_MS // 3)
    assert (calls.fetch(0), calls.fetch(1)) == ((-1, 0), (6, 0))


def test_a_deleted_topic_takes_pending_commits_along():
    calls = Calls()
    calls.world.append_fate = lambda: LATER
    waiting = calls.commit(5)
    calls.world.carry_out(calls.world.coordinator.topic_deleted(TOPIC, calls.world.now()))
    while calls.world.unacknowledged:
        calls.world.acknowledge()
    assert waiting.answer.topics[0].partitions[0].error_code == 0
    assert calls.fetch() == (-1, 0)
    calls.die()
    assert calls.fetch() == (-1, 0), "the tombstone came after the commit"


def test_a_topic_that_is_deleted_during_a_load():
    calls = Calls()
    calls.commit(5)
    world = calls.world
    world.carry_out(world.coordinator.open(world.partition, 1, world.now()))
    world.carry_out(world.coordinator.topic_deleted(TOPIC, world.now()))
    world.coordinator.load(world.partition, world.log)
    world.carry_out(world.coordinator.loaded(world.partition, world.now()))
    assert calls.fetch() == (-1, 0)
    assert world.log[-1][1] is None


def test_a_group_that_cannot_be_deleted_is_still_there():
    calls = Calls()
    calls.commit(5)
    calls.world.append_fate = lambda: NOT_WRITTEN
    assert calls.ask(DeleteGroupsRequest([GROUP]), 2).answer.results[0].error_code == NOT_COORDINATOR
    assert calls.fetch() == (5, 0)
    calls.world.append_fate = lambda: LATER
    waiting = calls.ask(DeleteGroupsRequest([GROUP]), 2)
    assert (waiting.answer, calls.commit_codes(6)) == (None, [NOT_AVAILABLE])
    calls.world.acknowledge()
    assert waiting.answer.results[0].error_code == 0
    assert calls.fetch() == (-1, 0)


def test_offset_delete_waits_for_its_tombstones():
    calls = Calls()
    calls.commit(5)
    calls.world.append_fate = lambda: LATER
    rows = [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])]
    waiting = calls.ask(OffsetDeleteRequest(GROUP, rows), 0)
    assert waiting.answer is None
    calls.die()
    assert waiting.answer.topics[0].partitions[0].error_code == 0
    assert calls.fetch() == (-1, 0)


# bounds


@pytest.mark.parametrize("field", ["group_id", "group_instance_id", "protocol_type", "name"])
def test_names_that_no_record_can_hold(field):
    """A flexible version can carry them, a record has 16 bits for a length."""
    calls = Calls()
    long = "x" * 33_000
    protocol = JoinGroupRequestProtocol(long if field == "name" else "range", b"")
    message = JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, "", "i", "consumer", [protocol])
    if field != "name":
        setattr(message, field, long)
    assert calls.ask(message, 9).code == (INVALID_GROUP_ID if field == "group_id" else UNKNOWN_SERVER_ERROR)
    assert calls.commit_codes(5, group=long) == [INVALID_GROUP_ID]


def test_a_retention_beyond_all_times():
    calls = Calls()
    rows = [OffsetCommitRequestTopic(TOPIC, [OffsetCommitRequestPartition(0, 5)])]
    for keep_ms in (2**63 - 1, -(2**63), 0):
        message = OffsetCommitRequest(GROUP, retention_time_ms=keep_ms, topics=rows)
        assert calls.ask(message, 2).answer.topics[0].partitions[0].error_code == 0


def test_too_many_groups():
    calls = Calls(max_groups=1)
    calls.commit(5)
    other = next(name for name in map(str, range(1000)) if calls.world.coordinator.partition_of(name) == 3)
    assert calls.commit_codes(5, group=other) == [NOT_AVAILABLE]
    assert calls.join(group=other).code == NOT_AVAILABLE
    assert calls.world.coordinator.counts.groups_refused == 2


def test_too_many_members():
    calls = Calls(max_members=2)
    calls.stable(2)
    assert calls.join().code == NOT_AVAILABLE
    assert calls.join(version=5).code == NOT_AVAILABLE
    assert calls.world.coordinator.counts.members_refused == 2
    assert calls.describe().group_state == "Stable"


def test_a_full_table_refuses_members():
    calls = Calls()
    calls.world.table.most = 1
    calls.stable()
    assert calls.join().code == NOT_AVAILABLE
    assert calls.describe().group_state == "Stable"


def test_too_many_offsets():
    calls = Calls(max_offsets=2)
    assert calls.commit_codes(5, None, (0, 1, 2)) == [0, 0, NOT_AVAILABLE]
    assert calls.commit_codes(6, None, (0, 1, 2)) == [0, 0, NOT_AVAILABLE]
    assert (calls.fetch(1), calls.fetch(2)) == ((6, 0), (-1, 0))
    assert calls.world.coordinator.counts.offsets_refused == 2


def test_too_many_wait():
    """Their entries would be missing for the requests they wait for."""
    calls = Calls(max_parked=2, initial_rebalance_delay_ms=3000)
    one, two, three = calls.join(), calls.join(), calls.join()
    assert (one.answer, two.answer, three.code) == (None, None, LOADING)
    calls.world.advance(7000)
    leader, follower = sorted((one.answer, two.answer), key=lambda answer: answer.member_id != answer.leader)
    again = calls.join(), calls.join(), calls.join()
    assert [heard.code for heard in again] == [None, None, LOADING]
    assert calls.world.coordinator.counts.parked_refused == 2
    calls.world.advance(2 * REBALANCE_MS)
    assert calls.world.coordinator.counts.parked == 0
    assert calls.beat(leader) == calls.beat(follower) == UNKNOWN_MEMBER


def test_syncs_of_followers_beyond_the_bound_are_told_to_rejoin():
    calls = Calls(max_parked=2, initial_rebalance_delay_ms=3000)
    one, two = calls.join(), calls.join()
    calls.world.advance(7000)
    leader, follower = sorted((one.answer, two.answer), key=lambda answer: answer.member_id != answer.leader)
    other = next(name for name in map(str, range(1000)) if calls.world.coordinator.partition_of(name) == 3)
    waiting = calls.join(group=other), calls.join(group=other)
    assert [heard.answer for heard in waiting] == [None, None]
    assert calls.sync(follower).code == REBALANCE
    assert calls.sync(leader, {follower.member_id: b"1"}).code == 0, "nobody waits for more than the log"
    assert calls.sync(follower).answer.assignment == b"1"


# partitions that come and go


def test_requests_wait_for_a_load_but_not_for_ever():
    calls = Calls()
    world, coordinator = calls.world, calls.world.coordinator
    (a,) = calls.stable()
    coordinator.open(world.partition, 1, world.now())
    waiting = [calls.commit(5), calls.ask(HeartbeatRequest(GROUP, 1, a.member_id), 3), calls.join(), calls.sync(a)]
    assert [heard.answer for heard in waiting] == [None] * 4
    world.advance(5000)
    commit, beat, join, sync = waiting
    assert commit.answer.topics[0].partitions[0].error_code == LOADING
    assert (beat.code, join.code, sync.code) == (0, LOADING, REBALANCE), "words with which clients find their way"
    assert coordinator.counts.loading_refused == 4
    late = calls.commit(7)
    coordinator.load(world.partition, world.log)
    world.carry_out(coordinator.loaded(world.partition, world.now()))
    assert late.answer is not None
    assert coordinator.counts.parked == 0


def test_a_partition_that_goes_away():
    calls = Calls(initial_rebalance_delay_ms=3000)
    waiting = calls.join()
    calls.world.append_fate = lambda: LATER
    committed = calls.commit(5, group="g")
    calls.world.carry_out(calls.world.coordinator.close(calls.world.partition, 0, calls.world.now()))
    assert waiting.code == NOT_COORDINATOR
    assert committed.answer is not None
    assert calls.join().code == NOT_COORDINATOR
    assert calls.describe().error_code == NOT_COORDINATOR
    calls.world.advance(10 * REBALANCE_MS)


def test_sessions_of_a_partition_that_went_away_end_elsewhere():
    calls = Calls()
    calls.stable(2)
    calls.world.carry_out(calls.world.coordinator.close(calls.world.partition, 0, calls.world.now()))
    written = len(calls.world.batches)
    calls.world.advance(10 * REBALANCE_MS)
    counts = calls.world.coordinator.counts
    assert (counts.groups, counts.members, counts.parked, counts.members_expired) == (0, 0, 0, 0)
    assert len(calls.world.batches) == written


def test_older_epochs_are_ignored():
    calls = Calls()
    world = calls.world
    world.carry_out(world.coordinator.open(world.partition, 5, world.now()))
    world.carry_out(world.coordinator.loaded(world.partition, world.now()))
    calls.stable()
    world.carry_out(world.coordinator.open(world.partition, 5, world.now()))
    world.carry_out(world.coordinator.open(world.partition, 4, world.now()))
    world.carry_out(world.coordinator.close(world.partition, 4, world.now()))
    assert calls.describe().group_state == "Stable"


def test_subscriptions():
    assert subscribed_topics([subscription("a", "ü"), subscription("b")]) == {"a", "ü", "b"}
    assert subscribed_topics([]) == frozenset()
    for odd in (b"", b"\0", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\0\5ab", b"\0\0\xff\xff\xff\xff", b"\0\0\x7f\xff\xff\xff"):
        assert subscribed_topics([subscription("a"), odd]) is None


def test_a_group_that_is_forgotten_is_dead_to_whoever_has_it_still():
    """A timer, or an append that is on its way."""
    calls = Calls()
    calls.stable()
    shard, group = calls.shard(), calls.group()
    assert not group.is_dead
    shard.forget(group)
    assert group.is_dead and GROUP not in shard.groups


def test_who_was_answered_is_no_new_member_any_more():
    """A new one that never hears of its join is forgotten sooner."""
    calls = Calls(initial_rebalance_delay_ms=3000)
    calls.join()
    members = calls.group().members
    assert [member.is_new for member in members.values()] == [True]
    calls.world.advance(3000)
    assert [member.is_new for member in members.values()] == [False]


def test_a_successor_knows_what_the_group_consumes():
    calls = Calls()
    a = calls.join(metadata=subscription(TOPIC)).answer
    assert calls.sync(a).code == 0
    calls.world.start()
    assert calls.group().subscribed == {TOPIC}


def test_a_member_that_joins_again_has_its_new_timeouts():
    calls = Calls()
    a = calls.join().answer
    request = JoinGroupRequest(
        GROUP, 9000, 70_000, a.member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"other")]
    )
    calls.ask(request, 5)
    [member] = calls.group().members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (9000, 70_000)
    assert member.protocols == {"range": b"other"}
