"""TxnOffsetCommit: offsets that count when the transaction they are in is committed. Runs in the coordinator process.

That the transaction is on, and has this group in it, is known when a request comes here. Its record is transactional:
the transaction's marker in the same partition commits it or drops it. A later record of the same partition counts more,
also one of no transaction; until the marker comes, OffsetFetch with `require_stable` says so (KIP-447).
"""

from __future__ import annotations

from mpbroker.coordinator.any_group import AnyGroup, Committed, ModernGroup
from mpbroker.coordinator.append_errors import offset_append_error
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group, State
from mpbroker.coordinator.membership import member_error
from mpbroker.coordinator.offset_commit import Codes, Offsets, refuse_large, value_of
from mpbroker.coordinator.offsets_records import offset_key, offset_value
from mpbroker.coordinator.shard import Shard
from mpbroker.coordinator.transactions.transaction_answers import offsets_answer
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


def handle(shard: Shard, request: GroupRequest, message: TxnOffsetCommitRequest, now: Now) -> None:
    """Answer when the offsets are recorded; a code for each partition that cannot be."""
    offsets, codes = _readable(shard, message, now)
    if not offsets or shard.partition in request.appended:
        shard.env.answer(request.token, offsets_answer(message, codes, ErrorCode.NONE))
        return
    group = shard.any(message.group_id)
    code = ErrorCode.ILLEGAL_GENERATION
    if group is None and message.generation_id < 0:  # a producer without a consumer group
        group = shard.create(message.group_id)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group is not None:
        code = _error(shard, group, message, offsets)
    if group is None or code != ErrorCode.NONE:
        shard.env.answer(request.token, offsets_answer(message, codes, code))
        return
    refuse_large(shard, group, offsets, codes)
    if offsets:
        _append(shard, group, request, message, offsets, codes, now)
    else:
        shard.env.answer(request.token, offsets_answer(message, codes, ErrorCode.NONE))


def _readable(shard: Shard, message: TxnOffsetCommitRequest, now: Now) -> tuple[Offsets, Codes]:
    offsets: Offsets = {}
    codes: Codes = {}
    for topic in message.topics:
        for row in topic.partitions:
            name = (topic.name, row.partition_index)
            if shard.env.has_partition(*name):
                text, epoch = row.committed_metadata or "", row.committed_leader_epoch
                offsets[name] = Committed(row.committed_offset, epoch, text, now.wall_ms, -1, 0)
            else:
                codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return offsets, codes


def _error(shard: Shard, group: AnyGroup, message: TxnOffsetCommitRequest, offsets: Offsets) -> int:
    """Whether the group takes it from whoever sends it; one who does not say who he is, it does."""
    if isinstance(group, ModernGroup) and not group.is_dead:
        return group.commit_error(offsets, message.member_id, message.group_instance_id, message.generation_id, None)
    if not isinstance(group, Group) or group.state is State.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if message.generation_id < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if message.generation_id < 0 and not message.member_id and message.group_instance_id is None:
        return ErrorCode.NONE
    return member_error(shard, group, message.member_id, message.group_instance_id, message.generation_id)


def _append(
    shard: Shard,
    group: AnyGroup,
    request: GroupRequest,
    message: TxnOffsetCommitRequest,
    offsets: Offsets,
    codes: Codes,
    now: Now,
) -> None:
    records: list[tuple[bytes, bytes | None]] = [
        (offset_key(group.id, *name), offset_value(value_of(committed))) for name, committed in offsets.items()
    ]
    producer = (message.producer_id, message.producer_epoch)

    def then(code: int, later: Now) -> None:
        if code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):  # then it is in the log, and the marker counts
            _drop(group, message.producer_id, offsets, number)
        answer = offsets_answer(message, codes, offset_append_error(code))
        shard.env.answer(request.token, answer)

    number = shard.append(records, request.token, now, then, producer, request.is_verified)
    waiting = group.transactional.setdefault(message.producer_id, {})
    waiting.update((name, committed._replace(number=number)) for name, committed in offsets.items())
    shard.transactional.setdefault(message.producer_id, set()).add(group.id)


def _drop(group: AnyGroup, producer_id: int, offsets: Offsets, number: int) -> None:
    """The record is not there."""
    waiting = group.transactional.get(producer_id, {})
    for name in offsets:
        if name in waiting and waiting[name].number == number:
            del waiting[name]
    if not waiting:
        group.transactional.pop(producer_id, None)


def end(shard: Shard, producer_id: int, committed: bool) -> None:
    """The marker of a producer's transaction was written to the shard's partition."""
    for group_id in shard.transactional.pop(producer_id, ()):
        group = shard.groups.get(group_id)
        offsets = group.transactional.pop(producer_id, {}) if group is not None else {}
        if group is not None and committed:
            for name, one in offsets.items():
                shard.env.counts.offsets += group.settle(name, one)
