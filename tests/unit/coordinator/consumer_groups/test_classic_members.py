"""Members of the classic protocol in a group of the next generation: everything they say keeps them for a session."""

import pytest

from mpbroker.coordinator.consumer_groups.embedded_protocol import assignment
from mpbroker.coordinator.consumer_groups.migration import upgraded
from mpbroker.coordinator.group import Group
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.conformance.group_scripts.cast import subscription
from tests.harness.group_calls import SESSION_MS, Calls
from tests.harness.group_world import GROUP, TOPIC

PROTOCOLS = [JoinGroupRequestProtocol("range", subscription(TOPIC))]
LATE_MS = SESSION_MS - 1000


@pytest.fixture
def calls():
    """With a member of the new protocol that keeps the group as it is."""
    calls = Calls()
    first = ConsumerGroupHeartbeatRequest(
        GROUP, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC], topic_partitions=[]
    )
    assert calls.ask(first, 1).code == 0
    return calls


def joined(calls):
    answer = calls.join(metadata=subscription(TOPIC)).answer
    assert answer.error_code == 0 and calls.sync(answer).code == 0
    return answer


def members(calls):
    return set(calls.group().members)


@pytest.mark.parametrize("word", ["sync", "beat", "commit", "nothing"])
def test_who_is_heard_of_lives_another_session(calls, word):
    member = joined(calls)
    calls.world.advance(LATE_MS)
    if word == "sync":
        assert calls.sync(member).code == 0
    elif word == "beat":
        assert calls.beat(member) == 0
    elif word == "commit":
        assert calls.commit_codes(5, member) == [0]
    assert member.member_id in members(calls)
    calls.world.advance(2000)
    assert (member.member_id in members(calls)) is (word in ("sync", "beat")), "a commit says nothing, as in Kafka"
    calls.world.advance(SESSION_MS)
    assert member.member_id not in members(calls)


def test_strangers_are_refused(calls):
    member = joined(calls)
    for generation, name, code in (
        (member.generation_id, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (member.generation_id + 1, member.member_id, ErrorCode.ILLEGAL_GENERATION),
        (member.generation_id, member.member_id, 0),
    ):
        stranger = JoinGroupResponse(generation_id=generation, member_id=name)
        assert (calls.sync(stranger).code, calls.beat(stranger)) == (code, code)


def test_a_group_that_goes_over_is_counted_once():
    """A classic member, and an id that nobody has used yet: with a member of the new protocol the group is another."""
    calls = Calls()
    only = calls.join(metadata=subscription(TOPIC)).answer
    assert calls.sync(only, {only.member_id: assignment(0, {TOPIC: [0]})}).code == 0
    assert calls.ask(JoinGroupRequest(GROUP, SESSION_MS, 60_000, "", None, "consumer", PROTOCOLS), 5).code == 79
    counts = calls.world.coordinator.counts
    assert counts.members == 2
    first = ConsumerGroupHeartbeatRequest(
        GROUP, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC], topic_partitions=[]
    )
    assert calls.ask(first, 1).code == 0
    assert (counts.groups, counts.members) == (1, 2) and len(members(calls)) == 2
    calls.world.advance(10 * 60_000)
    assert counts.members == 0


def test_a_group_that_goes_over_knows_the_topics_that_it_goes_by():
    """Else the next heartbeat of anybody would take them for changed ones, and raise the epoch for nothing."""
    calls = Calls()
    only = calls.join(metadata=subscription(TOPIC)).answer
    assert calls.sync(only, {only.member_id: assignment(0, {TOPIC: [0]})}).code == 0
    group = upgraded(calls.shard(), calls.group())
    assert group.metadata_hash == group.present_hash() != 0
    assert group.epoch == group.target_epoch == only.generation_id


def test_a_group_that_goes_back_knows_its_instances(calls):
    kept = calls.join(metadata=subscription(TOPIC), instance="i-1").answer
    other = calls.join(metadata=subscription(TOPIC)).answer
    for member in (kept, other):
        assert calls.sync(member).code == 0
    assert calls.ask(ConsumerGroupHeartbeatRequest(GROUP, "m", -1), 1).code == 0
    group = calls.group()
    assert isinstance(group, Group) and set(group.members) == {kept.member_id, other.member_id}
    assert group.instances == {"i-1": kept.member_id}


@pytest.mark.parametrize("version", range(6))
def test_who_leaves_and_who_was_none_is_told_so(calls, version):
    """By one code before version 3, which knows several members."""
    member = joined(calls)
    for name, code in (("stranger", ErrorCode.UNKNOWN_MEMBER_ID), (member.member_id, ErrorCode.NONE)):
        one = {"members": [MemberIdentity(name)]} if version >= 3 else {"member_id": name}
        answer = calls.ask(LeaveGroupRequest(GROUP, **one), version).answer
        if version >= 3:
            assert (answer.error_code, [(one.member_id, one.error_code) for one in answer.members]) == (
                0,
                [(name, code)],
            )
        else:
            assert (answer.error_code, answer.members) == (code, [])
        assert (member.member_id in members(calls)) is (code != ErrorCode.NONE)
