"""ConsumerGroupDescribe: groups of the next-generation protocol in detail. Runs in the coordinator process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpbroker.coordinator.any_group import Topics
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)

CLASSIC, CONSUMER = 0, 1


def described(shard: Shard, group_id: str) -> ConsumerGroupDescribeResponseGroup:
    """One group."""
    group = shard.any(group_id)
    if not isinstance(group, ConsumerGroup):
        sentence = f"Group {group_id} is not a consumer group." if group is not None else f"Group {group_id} not found."
        return ConsumerGroupDescribeResponseGroup(ErrorCode.GROUP_ID_NOT_FOUND, sentence, group_id)
    topics = shard.env.topics
    return ConsumerGroupDescribeResponseGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor(shard.env.settings.assignors[0]),
        members=[_member(topics, group, member) for member in group.members.values()],
    )


def _member(topics: Topics, group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroupDescribeResponseMember:
    return ConsumerGroupDescribeResponseMember(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(topics, _all(member)),
        target_assignment=_assignment(topics, group.target(member)),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _all(member: ConsumerMember) -> dict[bytes, list[int]]:
    """Also what it has not given back yet."""
    found: dict[bytes, list[int]] = {}
    for owned in (member.assigned, member.revoking):
        for topic_id, numbers in owned.items():
            found.setdefault(topic_id, []).extend(numbers)
    return found


def _assignment(topics: Topics, owned: Mapping[bytes, Iterable[int]]) -> ConsumerGroupDescribeResponseAssignment:
    rows = []
    for topic_id, numbers in owned.items():
        topic = topics.topic_by_id(topic_id)
        if topic is not None:
            rows.append(ConsumerGroupDescribeResponseTopicPartitions(topic_id, topic.name, sorted(numbers)))
    return ConsumerGroupDescribeResponseAssignment(rows)
