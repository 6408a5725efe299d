"""Groups of the next-generation protocol out of the log. Runs in the coordinator process.

Each batch was one whole change, so the newest values of all keys are one state of a group. Sessions begin anew at the
end of a load; who has partitions to give back has its rebalance timeout again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from mpbroker.coordinator.consumer_groups import consumer_records as records
from mpbroker.coordinator.consumer_groups import membership
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup, Kind
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, MemberState
from mpbroker.coordinator.consumer_groups.consumer_records import Name, Resolved, read_value
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.shard import Shard
from mpbroker.protocol.types import Struct

_READERS: dict[int, Callable[[bytes], Struct | None]] = {
    records.GROUP_EPOCH: partial(read_value, records.GroupEpochValue),
    records.MEMBER: records.read_member,
    records.TARGET_EPOCH: partial(read_value, records.TargetEpochValue),
    records.TARGET: partial(read_value, records.TargetValue),
    records.CURRENT: partial(read_value, records.CurrentValue),
    records.PATTERN: partial(read_value, records.PatternValue),
}


def build_consumer_groups(shard: Shard, newest: Iterable[tuple[bytes, bytes]]) -> None:
    """Make the groups whose records these are: the newest value of each key that has one."""
    by_group: dict[str, list[tuple[Name, Struct | None]]] = {}
    for key, value in newest:
        name = records.read_name(key)
        read = _READERS.get(name.kind) if name is not None else None
        found = read(value) if read is not None else None
        if name is None or (found is None and read is not None):
            shard.env.counts.records_skipped += 1
        else:
            by_group.setdefault(name.group_id, []).append((name, found))
    for group_id, rows in by_group.items():
        shard.add_group(_built(shard, group_id, rows))


def _built(shard: Shard, group_id: str, rows: list[tuple[Name, Struct | None]]) -> ConsumerGroup:
    group = ConsumerGroup(group_id, shard.env.topics, shard.env.counts)
    members: dict[str, ConsumerMember] = {}
    for name, value in rows:
        if isinstance(value, records.MemberValue | records.CurrentValue):
            member = members.get(name.part, ConsumerMember(name.part))
            if isinstance(value, records.MemberValue):
                members[name.part] = records.with_member(member, value)
            else:
                members[name.part] = records.with_current(member, value)
        else:
            _take(group, name, value)
    for member in members.values():
        try:
            group.set_member(member.id, member)
        except RuntimeError:  # of another's making: it begins anew, so that nothing has two owners
            shard.env.counts.records_skipped += 1
            group.set_member(member.id, member.but(epoch=0, previous_epoch=0, assigned={}, revoking={}))
    group.needs_look = group.needs_resolving = True
    return group


def _take(group: ConsumerGroup, name: Name, value: Struct | None) -> None:
    if isinstance(value, records.GroupEpochValue):
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif isinstance(value, records.TargetEpochValue):
        group.target_epoch, group.target_ms = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(value, records.TargetValue):
        target = {row.topic_id: frozenset(row.partitions) for row in value.topic_partitions}
        group.set_target(name.part, target)
    elif isinstance(value, records.PatternValue):
        group.set_resolved(name.part, Resolved(frozenset(value.topics), value.version, value.timestamp))
    elif name.kind == records.PARTITION_METADATA:
        group.has_partition_metadata = True


def begin_deadlines(shard: Shard, group: ConsumerGroup, now: Now) -> None:
    """Everybody has a session from now on."""
    for member in group.members.values():
        membership.touch(shard, group, member, now)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            timeout_ms = member.rebalance_timeout_ms
            membership.watch(shard, group, Kind.REVOCATION, member.id, timeout_ms, now, member.epoch)
