"""Offsets that go: on request (OffsetDelete), with their topic, or by age (KIP-211). Runs in the coordinator process.

An offset is forgotten when its tombstone is handed out for appending, as in Kafka; if that fails, the next load brings
it back. A group that is left empty, without offsets and without ids waiting to be used, goes with them.
"""

from __future__ import annotations

from collections.abc import Iterable

from mpbroker.coordinator.any_group import AnyGroup, Committed
from mpbroker.coordinator.effects import GroupRequest, Now, Token
from mpbroker.coordinator.group import CONSUMER, Group, State
from mpbroker.coordinator.offsets_records import offset_key
from mpbroker.coordinator.shard import Shard, nothing
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Names = list[tuple[str, int]]


def handle(shard: Shard, request: GroupRequest, message: OffsetDeleteRequest, now: Now) -> None:
    """OffsetDelete: only of topics that nobody in the group consumes (KIP-496)."""
    group = shard.any(message.group_id)
    code = _error(shard, group, request)
    if code != ErrorCode.NONE:
        shard.env.answer(request.token, OffsetDeleteResponse(error_code=code))
        return
    answer = OffsetDeleteResponse()
    names: Names = []
    for topic in message.topics:
        rows = []
        for index in (partition.partition_index for partition in topic.partitions):
            code = _partition_error(shard, group, topic.name, index)
            rows.append(OffsetDeleteResponsePartition(index, code))
            if code == ErrorCode.NONE:
                names.append((topic.name, index))
        answer.topics.append(OffsetDeleteResponseTopic(topic.name, rows))

    def then(code: int, later: Now) -> None:
        shard.env.answer(request.token, answer)

    keys = remove_offsets(shard, group, names) if group is not None else []
    if keys and shard.partition not in request.appended:
        shard.append_tombstones(keys, request.token, now, then)
    else:
        then(ErrorCode.NONE, now)


def _error(shard: Shard, group: AnyGroup | None, request: GroupRequest) -> int:
    if shard.partition in request.appended:
        return ErrorCode.NONE
    if group is None or group.is_dead:
        return ErrorCode.GROUP_ID_NOT_FOUND
    is_readable = not isinstance(group, Group) or group.is_empty or group.protocol_type == CONSUMER
    return ErrorCode.NONE if is_readable else ErrorCode.NON_EMPTY_GROUP


def _partition_error(shard: Shard, group: AnyGroup | None, topic: str, partition: int) -> int:
    if not shard.env.has_partition(topic, partition):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if group is not None and not group.is_empty and group.is_subscribed(topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return ErrorCode.NONE


def remove_offsets(shard: Shard, group: AnyGroup, names: Iterable[tuple[str, int]]) -> list[bytes]:
    """Forget these offsets, pending ones too, and the group if it was for them alone; the keys for tombstones."""
    keys = []
    for topic, partition in names:
        was_pending = group.pending_offsets.pop((topic, partition), None) is not None
        was_pending |= drop_transactional(group, (topic, partition))
        partitions = group.offsets.get(topic, {})
        was_committed = partitions.pop(partition, None) is not None
        shard.env.counts.offsets -= was_committed
        if was_committed and not partitions:
            del group.offsets[topic]
        if was_committed or was_pending:
            keys.append(offset_key(group.id, topic, partition))
    if group.is_empty and not group.has_offsets() and not group.is_awaited:
        keys += group.record_keys()
        shard.forget(group)
    return keys


def drop_transactional(group: AnyGroup, name: tuple[str, int]) -> bool:
    """Forget what transactions were about to commit there; whether there was something."""
    found = [producer_id for producer_id, offsets in group.transactional.items() if name in offsets]
    for producer_id in found:
        del group.transactional[producer_id][name]
        if not group.transactional[producer_id]:
            del group.transactional[producer_id]
    return bool(found)


def remove_topic(shard: Shard, topic: str, now: Now) -> None:
    """A topic was deleted."""
    keys: list[bytes] = []
    for group in list(shard.groups.values()):
        names = [(topic, partition) for partition in group.offsets.get(topic, ())]
        waiting = (*group.pending_offsets, *(name for names in group.transactional.values() for name in names))
        names += [name for name in waiting if name[0] == topic]
        if names and not group.is_dead:
            keys += remove_offsets(shard, group, names)
    _append(shard, keys, None, now)


def _append(shard: Shard, keys: list[bytes], token: Token | None, now: Now) -> None:
    if keys:
        shard.append_tombstones(keys, token, now, nothing)


# age


def watch_age(shard: Shard, first_ms: int) -> None:
    """Look for old offsets regularly, for the first time at `first_ms`."""
    shard.env.timers.at(first_ms, _remove_old, shard)


def _remove_old(shard: Shard, now: Now) -> None:
    if not shard.is_open:
        return
    keys: list[bytes] = []
    for group in list(shard.groups.values()):
        if not group.is_dead:
            names = [name for name in _old_offsets(shard, group, now) if not group.is_unstable(name)]
            shard.env.counts.offsets_expired += len(names)
            keys += remove_offsets(shard, group, names)
    _append(shard, keys, None, now)
    watch_age(shard, now.ms + shard.env.settings.retention_check_ms)


def _old_offsets(shard: Shard, group: AnyGroup, now: Now) -> Names:
    if not isinstance(group, Group):
        return _expired(shard, group, now, None, frozenset(name for name in group.offsets if group.is_subscribed(name)))
    if group.protocol_type is None:
        return _expired(shard, group, now, None, frozenset())
    if group.state is State.EMPTY:
        return _expired(shard, group, now, group.state_ms if group.state_ms != -1 else None, frozenset())
    if group.state is State.STABLE and group.protocol_type == CONSUMER and group.subscribed is not None:
        return _expired(shard, group, now, None, group.subscribed)
    return []


def _expired(shard: Shard, group: AnyGroup, now: Now, since_ms: int | None, spared: frozenset[str]) -> Names:
    """Offsets whose time is over; it counts from `since_ms`, or from the commit."""

    def is_over(committed: Committed) -> bool:
        if committed.expire_ms != -1:
            return now.wall_ms >= committed.expire_ms
        start_ms = committed.commit_ms if since_ms is None else since_ms
        return now.wall_ms - start_ms >= shard.env.settings.retention_ms

    return [
        (topic, partition)
        for topic, partitions in group.offsets.items()
        if topic not in spared
        for partition, committed in partitions.items()
        if is_over(committed)
    ]
