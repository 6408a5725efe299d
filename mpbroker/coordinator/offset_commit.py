"""OffsetCommit: remember how far a group has read. Runs in the coordinator process.

An offset is visible, and the commit answered, when its record is acknowledged; until then it is pending.
"""

from __future__ import annotations

from mpbroker.coordinator.any_group import AnyGroup, Committed, ModernGroup
from mpbroker.coordinator.append_errors import offset_append_error
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group, State
from mpbroker.coordinator.membership import member_error
from mpbroker.coordinator.offsets_records import OffsetValue, offset_key, offset_value
from mpbroker.coordinator.rebalance import touch
from mpbroker.coordinator.responses import commit_answer
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.offset_commit import OffsetCommitRequest

LONG_MAX = 2**63 - 1
Codes = dict[tuple[str, int], int]
Offsets = dict[tuple[str, int], Committed]


def handle(shard: Shard, request: GroupRequest, message: OffsetCommitRequest, now: Now) -> None:
    """Answer when the offsets are recorded; a code for each partition that cannot be."""
    offsets, codes = _readable(shard, message, now)
    code = (
        _error(shard, request, message, offsets, now)
        if offsets and shard.partition not in request.appended
        else ErrorCode.NONE
    )
    group = shard.any(message.group_id) if code == ErrorCode.NONE else None
    if group is not None:
        refuse_large(shard, group, offsets, codes)
    if not offsets or group is None or shard.partition in request.appended:
        shard.env.answer(request.token, commit_answer(message, codes, code))
    else:
        _append(shard, group, request, message, offsets, codes, now)


def _readable(shard: Shard, message: OffsetCommitRequest, now: Now) -> tuple[Offsets, Codes]:
    """The offsets of partitions that exist, and a code for each other."""
    keep_ms = message.retention_time_ms
    expire_ms = -1 if keep_ms == -1 else min(now.wall_ms + keep_ms, LONG_MAX)
    offsets: Offsets = {}
    codes: Codes = {}
    for topic in message.topics:
        for row in topic.partitions:
            name = (topic.name, row.partition_index)
            if shard.env.has_partition(*name):
                text = row.committed_metadata or ""
                epoch = row.committed_leader_epoch
                offsets[name] = Committed(row.committed_offset, epoch, text, now.wall_ms, expire_ms, 0)
            else:
                codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return offsets, codes


def _error(shard: Shard, request: GroupRequest, message: OffsetCommitRequest, offsets: Offsets, now: Now) -> int:
    """Whether the group takes a commit from whoever sends it; creates the group of a consumer without one."""
    generation, member_id = message.generation_id_or_member_epoch, message.member_id
    group = shard.any(message.group_id)
    if isinstance(group, ModernGroup) and not group.is_dead:
        return group.commit_error(offsets, member_id, message.group_instance_id, generation, request.version)
    if group is None:
        if generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION
        created = shard.create(message.group_id)
        return ErrorCode.NONE if created is not None else ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not isinstance(group, Group) or group.state is State.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    code = member_error(shard, group, member_id, message.group_instance_id, generation)
    if code != ErrorCode.NONE:
        return code
    touch(shard, group, group.members[member_id], now)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.COMPLETING else ErrorCode.NONE


def refuse_large(shard: Shard, group: AnyGroup, offsets: Offsets, codes: Codes) -> None:
    """Take out offsets with too long a text, and new ones when there are too many."""
    settings, counts = shard.env.settings, shard.env.counts
    room = settings.max_offsets - counts.offsets
    for (topic, partition), committed in list(offsets.items()):
        name = (topic, partition)
        if _java_length(committed.metadata) > settings.max_metadata_bytes:
            codes[name] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            del offsets[name]
        elif group.committed(topic, partition) is None:
            room -= 1
            if room < 0:
                counts.offsets_refused += 1
                codes[name] = ErrorCode.COORDINATOR_NOT_AVAILABLE
                del offsets[name]


def _java_length(text: str) -> int:
    """What Kafka counts as bytes of metadata: UTF-16 units."""
    return len(text.encode("utf-16-be", "replace")) // 2


def _append(
    shard: Shard,
    group: AnyGroup,
    request: GroupRequest,
    message: OffsetCommitRequest,
    offsets: Offsets,
    codes: Codes,
    now: Now,
) -> None:
    records: list[tuple[bytes, bytes | None]] = [
        (offset_key(group.id, *name), offset_value(value_of(committed))) for name, committed in offsets.items()
    ]

    def then(code: int, later: Now) -> None:
        for (topic, partition), committed in offsets.items():
            _settle(shard, group, topic, partition, committed._replace(number=number), code)
        answer = commit_answer(message, codes, offset_append_error(code))
        shard.env.answer(request.token, answer)

    number = shard.append(records, request.token, now, then)
    group.pending_offsets.update(dict.fromkeys(offsets, number))


def value_of(committed: Committed) -> OffsetValue:
    return OffsetValue(
        committed.offset, committed.leader_epoch, committed.metadata, committed.commit_ms, committed.expire_ms
    )


def _settle(shard: Shard, group: AnyGroup, topic: str, partition: int, committed: Committed, code: int) -> None:
    """The record is there, or not. What is not pending any more was deleted meanwhile; what is newer stays."""
    latest = group.pending_offsets.get((topic, partition))
    if latest is None:
        return
    if latest == committed.number:
        del group.pending_offsets[topic, partition]
    if code == ErrorCode.NONE:
        shard.env.counts.offsets += group.settle((topic, partition), committed)
