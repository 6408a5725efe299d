"""What a heartbeat of the next generation is answered: who may join, in which epoch a member must be, and when it is
told what it has. The codes and sentences are Kafka's, but for the broker's bounds on groups and
members."""

import pytest

from mpbroker.coordinator.consumer_groups.consumer_heartbeat import _epoch_refusal
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, MemberState
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.harness.group_calls import Calls
from tests.harness.group_world import GROUP, TOPIC

TOO_MANY = ErrorCode.COORDINATOR_NOT_AVAILABLE
FENCED = ErrorCode.FENCED_MEMBER_EPOCH


def beat(calls, member, epoch, group=GROUP, version=1, **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []} | fields
    return calls.ask(ConsumerGroupHeartbeatRequest(group, member, epoch, **fields), version).answer


def having(calls, *partitions):
    topic_id = calls.world.topics.topic(TOPIC).id
    return [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id, [*partitions])] if partitions else []


@pytest.mark.parametrize("most", [1, 2])
def test_a_broker_takes_so_many_members(most):
    """One that is a member goes on, and one that takes an instance's place is none more."""
    calls = Calls(max_members=most)
    counts = calls.world.coordinator.counts
    assert beat(calls, "a", 0, instance_id="i").error_code == 0
    assert beat(calls, "b", 0).error_code == (0 if most == 2 else TOO_MANY)
    assert beat(calls, "c", 0).error_code == TOO_MANY
    assert (counts.members, counts.members_refused) == (most, 2 if most == 1 else 1)
    assert beat(calls, "a", 0, instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID, "it has not left"
    assert beat(calls, "a", -2, instance_id="i").error_code == 0
    assert beat(calls, "d", 0, instance_id="i").error_code == 0
    assert (counts.members, counts.members_refused) == (most, 2 if most == 1 else 1)
    assert beat(calls, "d", 1, instance_id="other").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert counts.members_refused == (2 if most == 1 else 1), "who does not join is counted nowhere"


def test_a_broker_takes_so_many_groups():
    """A classic group that is empty has its place already."""
    calls = Calls(max_groups=1)
    coordinator = calls.world.coordinator
    other = next(name for name in map(str, range(1000)) if coordinator.partition_of(name) == calls.world.partition)
    [classic] = calls.stable()
    assert calls.leave(classic.member_id).code == 0 and calls.group().is_empty
    refused = beat(calls, "a", 0, group=other)
    assert (refused.error_code, refused.error_message) == (TOO_MANY, "There are too many groups.")
    assert beat(calls, "a", 0).error_code == 0 and coordinator.counts.groups == 1
    assert beat(calls, "a", 0, group=other).error_code == TOO_MANY


@pytest.mark.parametrize("most", [1, 2])
def test_a_group_takes_so_many_members(most):
    calls = Calls(consumer_max_size=most)
    assert beat(calls, "a", 0).error_code == 0
    answer = beat(calls, "b", 0)
    assert answer.error_code == (0 if most == 2 else ErrorCode.GROUP_MAX_SIZE_REACHED)
    if most == 1:
        assert answer.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert beat(calls, "a", 0).error_code == 0


def test_in_which_epoch_a_member_must_be():
    """The one before is good enough if it holds no more than it was given: the answer got lost."""
    calls = Calls(assignment_interval_ms=0)
    calls.world.topics.create(TOPIC, 4)
    first = beat(calls, "a", 0)
    assert beat(calls, "b", 0).error_code == 0
    given = beat(calls, "a", first.member_epoch, topic_partitions=having(calls, 0, 1, 2, 3))
    [row] = given.assignment.topic_partitions
    kept = row.partitions
    assert len(kept) == 2 and given.member_epoch == first.member_epoch, "it has still to give two back"
    second = beat(calls, "a", first.member_epoch, topic_partitions=having(calls, *kept))
    assert second.member_epoch == first.member_epoch + 1
    for epoch, held, code in (
        (second.member_epoch, kept, 0),
        (first.member_epoch, kept, 0),
        (first.member_epoch, kept[:1], 0),
        (first.member_epoch, (), 0),
        (first.member_epoch, (0, 1, 2, 3), FENCED),
        (first.member_epoch, None, FENCED),
        (first.member_epoch - 1, kept, FENCED),
        (second.member_epoch + 1, kept, FENCED),
    ):
        fields = {} if held is None else {"topic_partitions": having(calls, *held)}
        assert beat(calls, "a", epoch, **fields).error_code == code, (epoch, held)


@pytest.mark.parametrize(("by", "size"), [(1, "greater"), (-1, "smaller")])
def test_what_a_member_of_another_epoch_hears(by, size):
    calls = Calls(assignment_interval_ms=0)
    beat(calls, "a", 0)
    calls.world.topics.create(TOPIC, 3)
    now = beat(calls, "b", 0).member_epoch
    answer = beat(calls, "b", now + by)
    assert (answer.error_code, answer.member_epoch) == (FENCED, 0)
    assert answer.error_message == (
        f"The consumer group member has a {size} member epoch ({now + by}) than the one known by the group coordinator "
        f"({now}). The member must abandon all its partitions and rejoin."
    )


@pytest.mark.parametrize(
    ("timeout_ms", "names", "pattern", "held", "is_full"),
    [
        (60_000, [TOPIC], None, True, True),
        (60_000, None, TOPIC, True, True),
        (0, [TOPIC], None, True, True),
        (-1, [TOPIC], None, True, False),
        (60_000, None, None, True, False),
        (60_000, [TOPIC], None, False, False),
    ],
)
def test_who_says_everything_hears_everything(timeout_ms, names, pattern, held, is_full):
    """Else an assignment is told when it changes: a client that knows what it has needs no more."""
    calls = Calls()
    calls.world.topics.create(TOPIC, 2)
    epoch = beat(calls, "a", 0).member_epoch
    if pattern:
        beat(calls, "a", epoch, subscribed_topic_regex=pattern)
        epoch = calls.group().members["a"].epoch
    answer = beat(
        calls,
        "a",
        epoch,
        rebalance_timeout_ms=timeout_ms,
        subscribed_topic_names=names,
        subscribed_topic_regex=pattern,
        topic_partitions=having(calls, 0, 1) if held else None,
    )
    assert answer.error_code == 0 and (answer.assignment is not None) is is_full


def test_a_static_member_comes_back_in_epoch_zero_with_what_it_had():
    calls = Calls()
    calls.world.topics.create(TOPIC, 2)
    was = beat(calls, "a", 0, instance_id="i")
    away = beat(calls, "a", -2, instance_id="i")
    assert away.error_code == 0 and away.member_epoch == -2
    again = beat(calls, "b", 0, instance_id="i")
    assert again.error_code == 0 and again.assignment == was.assignment
    member = calls.group().members["b"]
    assert (member.previous_epoch, set(calls.group().members)) == (0, {"b"})
    assert again.member_epoch == was.member_epoch, "nobody else is touched by it"
    stolen = beat(calls, "c", 0, instance_id="i")
    assert stolen.error_code == ErrorCode.UNRELEASED_INSTANCE_ID and stolen.error_message == (
        "Static member c with instance id i cannot join the group because the instance id is owned by b member."
    )


def test_a_second_run_of_a_join_changes_nothing_more():
    """The coordinator was killed behind its append: the same request is run again, and finds what it did."""
    calls = Calls()
    calls.world.topics.create(TOPIC, 2)
    calls.world.effects_left = 1  # the append, then it dies before the answer
    answer = beat(calls, "a", 0, instance_id="i")
    assert answer.error_code == 0 and answer.assignment.topic_partitions[0].partitions == [0, 1]
    assert set(calls.group().members) == {"a"} and calls.group().instances == {"i": "a"}
    assert len(calls.world.batches) == 1
    assert calls.group().epoch == answer.member_epoch


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_only_who_joins_makes_a_group(epoch):
    calls = Calls()
    answer = beat(calls, "a", epoch, instance_id="i")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert calls.world.coordinator.counts.groups == 0


@pytest.mark.parametrize(
    ("state", "held", "code"),
    [
        (MemberState.STABLE, None, None),
        (MemberState.STABLE, (0,), None),
        (MemberState.UNKNOWN, (), None),
        (MemberState.UNKNOWN, (0,), FENCED),
        (MemberState.UNKNOWN, None, FENCED),
    ],
)
def test_a_member_whose_state_was_written_by_a_later_version_begins_anew(state, held, code):
    """Only one that has nothing, and says so, goes on."""
    calls = Calls()
    message = ConsumerGroupHeartbeatRequest(
        GROUP, "a", 3, topic_partitions=held if held is None else having(calls, *held)
    )
    refusal = _epoch_refusal(ConsumerMember("a", epoch=3, state=state), message, False)
    assert (refusal and refusal.code) == code
