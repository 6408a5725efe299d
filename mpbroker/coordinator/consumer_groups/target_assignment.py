"""What every member of a group is to have, worked out anew when the group's epoch rose. In the coordinator process.

Not more often than every `group.consumer.assignment.interval.ms`, so that a thousand members who join one after the
other do not ask for a thousand targets.
"""

from __future__ import annotations

from mpbroker.coordinator.any_group import Topics
from mpbroker.coordinator.consumer_groups import range_assignor, uniform_assignor
from mpbroker.coordinator.consumer_groups.change import Change
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, Target
from mpbroker.coordinator.effects import Now


def maybe_work_out(change: Change, topics: Topics, preferred: str, interval_ms: int, now: Now) -> None:
    """New targets, if the group's epoch asks for them and the last ones are `interval_ms` old; only what differs is
    recorded. `preferred`: the assignor where no member asks for another."""
    group = change.group
    is_early = group.target_ms and now.wall_ms < group.target_ms + interval_ms
    if group.target_epoch >= group.epoch or is_early:
        return
    for member_id, target in _targets(group, topics, group.assignor(preferred)).items():
        if group.targets.get(member_id) != target:
            change.set_target(member_id, target)
    change.set_target_epoch(group.epoch, now.wall_ms)


def _targets(group: ConsumerGroup, topics: Topics, assignor: str) -> dict[str, Target]:
    known: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}

    def read_by(member: ConsumerMember) -> frozenset[bytes]:
        wish = (member.topics, member.pattern)
        if wish not in known:
            known[wish] = group.topic_ids(member)
        return known[wish]

    subscriptions = {member.id: read_by(member) for member in group.members.values()}
    found = {topic_id: topics.topic_by_id(topic_id) for topic_id in frozenset().union(*known.values())}
    sizes = {topic_id: len(topic.partitions) for topic_id, topic in found.items() if topic is not None}
    if assignor == "range":
        instances = {member.id: member.instance_id for member in group.members.values()}
        return range_assignor.assign(subscriptions, sizes, instances)
    return uniform_assignor.assign(subscriptions, sizes, group.targets)
