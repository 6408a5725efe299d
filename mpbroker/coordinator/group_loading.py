"""Groups out of the log, and out of the table what the log does not say. Runs in the coordinator process.

Sessions go on at the end of a load from the members' last signs of life, where the table has them, and begin anew where
it does not: a coordinator that was away expels nobody for it.
"""

from __future__ import annotations

from mpbroker.coordinator.any_group import AnyGroup, Committed
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group import Group, Member, State
from mpbroker.coordinator.group_table import GroupRow, RowState
from mpbroker.coordinator.loaded_offsets import LOADED, LoadedOffsets
from mpbroker.coordinator.offsets_records import (
    GroupValue,
    OffsetName,
    is_of_consumer_group,
    read_group,
    read_key,
    read_offset,
)
from mpbroker.coordinator.rebalance import prepare, resume
from mpbroker.coordinator.shard import Shard


def build_groups(shard: Shard, loaded: LoadedOffsets, now: Now) -> None:
    """Make the groups of a shard from the newest value of every key, and from what transactions have not ended yet."""
    offsets: list[tuple[OffsetName, bytes]] = []
    modern: list[tuple[bytes, bytes]] = []
    for key, value in loaded.newest.items():
        name = read_key(key)
        if name is None and is_of_consumer_group(key):
            if value is not None:
                modern.append((key, value))
        elif name is None:
            shard.env.counts.records_skipped += 1
        elif isinstance(name, OffsetName):
            if value is not None:
                offsets.append((name, value))
        elif value is None:
            shard.env.table.drop_group(name)
        else:
            _add_group(shard, name, value)
    if modern:
        _add_consumer_groups(shard, modern)
    for name, value in offsets:
        _add_offset(shard, name, value)
    for producer_id, waiting in loaded.waiting.items():
        for key, (value, number) in waiting.items():
            _add_transactional(shard, producer_id, key, value, number)
    for group in list(shard.groups.values()):
        if isinstance(group, Group):
            _settle(shard, group, now)
    if modern:
        _begin_deadlines(shard, now)


def _add_consumer_groups(shard: Shard, modern: list[tuple[bytes, bytes]]) -> None:
    from mpbroker.coordinator.consumer_groups.consumer_loading import build_consumer_groups

    build_consumer_groups(shard, modern)


def _begin_deadlines(shard: Shard, now: Now) -> None:
    from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
    from mpbroker.coordinator.consumer_groups.consumer_loading import begin_deadlines

    for group in shard.groups.values():
        if isinstance(group, ConsumerGroup):
            begin_deadlines(shard, group, now)


def _add_group(shard: Shard, group_id: str, value: bytes) -> None:
    found = read_group(value)
    if found is None:
        shard.env.counts.records_skipped += 1
        return
    group = shard.add_group(Group(group_id))
    group.generation = found.generation
    group.state_ms = found.current_state_timestamp
    group.protocol_type = found.protocol_type or None
    group.protocol = found.protocol
    group.leader = found.leader
    for member in _members(found):
        group.members[member.id] = member
        if member.instance_id is not None:
            group.instances[member.instance_id] = member.id


def _members(found: GroupValue) -> list[Member]:
    return [
        Member(
            id=row.member_id,
            instance_id=row.group_instance_id,
            client_id=row.client_id,
            client_host=row.client_host,
            session_timeout_ms=row.session_timeout,
            rebalance_timeout_ms=row.rebalance_timeout if row.rebalance_timeout != -1 else row.session_timeout,
            protocols={found.protocol or "": row.subscription},
            assignment=row.assignment,
        )
        for row in found.members
    ]


def _add_offset(shard: Shard, name: OffsetName, value: bytes) -> None:
    committed = _committed(shard, value, LOADED)
    if committed is not None:
        group: AnyGroup = shard.groups.get(name.group) or shard.add_group(Group(name.group))
        group.offsets.setdefault(name.topic, {})[name.partition] = committed
        shard.env.counts.offsets += 1


def _add_transactional(shard: Shard, producer_id: int, key: bytes, value: bytes, number: int) -> None:
    name = read_key(key)
    committed = _committed(shard, value, number)
    if isinstance(name, OffsetName) and committed is not None:
        group: AnyGroup = shard.groups.get(name.group) or shard.add_group(Group(name.group))
        group.transactional.setdefault(producer_id, {})[name.topic, name.partition] = committed
        shard.transactional.setdefault(producer_id, set()).add(group.id)


def _committed(shard: Shard, value: bytes, number: int) -> Committed | None:
    found = read_offset(value)
    if found is None:
        shard.env.counts.records_skipped += 1
        return None
    return Committed(
        found.offset, found.leader_epoch, found.metadata, found.commit_timestamp, found.expire_timestamp, number
    )


def _settle(shard: Shard, group: Group, now: Now) -> None:
    """Bring what the log says together with the table's row."""
    row = shard.env.table.group(group.id)
    if row is not None:
        _drop_departed(shard, group)
    if group.leader not in group.members:
        group.leader = next(iter(group.members), None)
    shard.env.counts.members += len(group.members)
    was_interrupted = row is not None and _is_interrupted(group, row)
    if row is not None:
        group.generation = max(group.generation, row.generation)
    group.state = State.STABLE if group.members else State.EMPTY
    group.find_subscribed()
    if group.generation > 0:
        shard.store_row(group)
    for member in group.members.values():
        shard.env.table.put_member(group.id, member.id)
        resume(shard, group, member, now)
    if group.members and (was_interrupted or len(group.members) > shard.env.settings.max_group_size):
        prepare(shard, group, now)


def _drop_departed(shard: Shard, group: Group) -> None:
    """Members that left since the record was written."""
    for member in list(group.members.values()):
        if not shard.env.table.has_member(group.id, member.id):
            del group.members[member.id]
            if member.instance_id is not None:
                group.instances.pop(member.instance_id, None)


def _is_interrupted(group: Group, row: GroupRow) -> bool:
    """Whether a rebalance was on when the coordinator died. Completing, with the generation in the log: its record was
    appended, so the rebalance had succeeded."""
    return row.generation > group.generation or row.state is RowState.PREPARING
