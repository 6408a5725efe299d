"""JoinGroup: ask for a member id, become a member, or say again that one is there. Runs in the coordinator process.

New dynamic members get their id first, with error 79 (KIP-394); static ones (KIP-345) take the place of their
predecessor with the same instance id, in a stable group without a rebalance.
"""

from __future__ import annotations

from typing import NamedTuple

from mpbroker.coordinator.append_errors import group_append_error
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group, Member, State
from mpbroker.coordinator.membership import identity_error, parked, store_error, was_member
from mpbroker.coordinator.rebalance import (
    NEW_MEMBER_JOIN_MS,
    add,
    expect_pending,
    group_record,
    maybe_complete_join,
    maybe_prepare,
    prepare,
    remove,
    touch,
)
from mpbroker.coordinator.responses import join_failed, joined, sync_failed
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_FIRST, SKIPS_ASSIGNMENT = 4, 9  # versions


def handle(shard: Shard, request: GroupRequest, message: JoinGroupRequest, now: Now) -> None:
    """Answer, or park the request until the join phase ends."""
    settings = shard.env.settings
    if not settings.min_session_timeout_ms <= message.session_timeout_ms <= settings.max_session_timeout_ms:
        return _refuse(shard, request, message, ErrorCode.INVALID_SESSION_TIMEOUT)
    group = shard.find(message.group_id)
    if group is None and message.member_id:
        return _refuse(shard, request, message, ErrorCode.UNKNOWN_MEMBER_ID)
    group = group or shard.create(message.group_id)
    if group is None or group.state is State.DEAD:
        return _refuse(shard, request, message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not _may_wait(shard, group, request, message):
        shard.env.counts.parked_refused += 1
        return _refuse(shard, request, message, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    _join(shard, group, request, message, now)
    maybe_complete_join(shard, group, now)
    return None


def _join(shard: Shard, group: Group, request: GroupRequest, message: JoinGroupRequest, now: Now) -> None:
    if not _has_room(shard, group, message.member_id):
        if (member := group.members.get(message.member_id)) is not None:
            remove(shard, group, member)
        shard.env.answer(request.token, join_failed(request.version, "", ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif not group.supports(message.protocol_type, [protocol.name for protocol in message.protocols]):
        _refuse(shard, request, message, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif message.member_id:
        _join_with_id(shard, group, request, message, now)
    else:
        _join_without_id(shard, group, request, message, now)


def _refuse(shard: Shard, request: GroupRequest, message: JoinGroupRequest, code: int) -> None:
    shard.env.answer(request.token, join_failed(request.version, message.member_id, code))


def _may_wait(shard: Shard, group: Group, request: GroupRequest, message: JoinGroupRequest) -> bool:
    """A join that takes the place of its predecessor holds no entry more."""
    member = group.members.get(message.member_id)
    return shard.env.may_park(request.lane) or (member is not None and member.join is not None)


def _has_room(shard: Shard, group: Group, member_id: str) -> bool:
    """In a join phase those count who wait, so that of too many the last to rejoin go."""
    most = shard.env.settings.max_group_size
    if group.state is State.EMPTY or len(group.members) < most:
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING:
        return (member is not None and member.join is not None) or group.waiting_joins() < most
    return member is not None


# without an id


def _join_without_id(shard: Shard, group: Group, request: GroupRequest, message: JoinGroupRequest, now: Now) -> None:
    instance_id = message.group_instance_id
    prefix = request.client_id if instance_id is None else instance_id
    member_id = shard.env.new_member_id(prefix, request.identity)
    if (code := store_error(shard, group, member_id)) != ErrorCode.NONE:
        _refuse(shard, request, message, code)
    elif instance_id is not None and instance_id in group.instances:
        _replace_static(shard, group, request, message, group.members[group.instances[instance_id]], member_id, now)
    elif instance_id is None and request.version >= MEMBER_ID_FIRST:
        if member_id not in group.pending:
            expect_pending(shard, group, member_id, message.session_timeout_ms, now)
        shard.env.answer(request.token, join_failed(request.version, member_id, ErrorCode.MEMBER_ID_REQUIRED))
    elif (member := group.members.get(member_id)) is not None:  # a re-run of the request that added it
        _rejoin(shard, group, member, request, message, now)
    else:
        _add(shard, group, request, message, member_id, now)


def _add(
    shard: Shard, group: Group, request: GroupRequest, message: JoinGroupRequest, member_id: str, now: Now
) -> None:
    member = Member(
        id=member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(message, request.version),
        protocols=_protocols(message),
        is_new=True,
    )
    if group.state is State.PREPARING and group.generation == 0:
        group.new_member_added = True
    add(shard, group, member, message.protocol_type)
    shard.park_join(member, parked(request))
    touch(shard, group, member, now, NEW_MEMBER_JOIN_MS)
    maybe_prepare(shard, group, now)


def _protocols(message: JoinGroupRequest) -> dict[str, bytes]:
    return {protocol.name: protocol.metadata for protocol in message.protocols}


def _rebalance_timeout_ms(message: JoinGroupRequest, version: int) -> int:
    return message.session_timeout_ms if version == 0 else message.rebalance_timeout_ms


# with one


def _join_with_id(shard: Shard, group: Group, request: GroupRequest, message: JoinGroupRequest, now: Now) -> None:
    member_id = message.member_id
    if member_id in group.pending:
        if message.group_instance_id is not None:
            code = ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, which thinks nobody does this
            shard.env.answer(request.token, join_failed(request.version, "", code))
        else:
            _add(shard, group, request, message, member_id, now)
        return
    code = identity_error(group, member_id, message.group_instance_id)
    if code == ErrorCode.NONE:
        _rejoin(shard, group, group.members[member_id], request, message, now)
    elif code == ErrorCode.UNKNOWN_MEMBER_ID and was_member(shard, group, member_id):
        if shard.env.counts.members >= shard.env.settings.max_members:
            shard.env.counts.members_refused += 1
            _refuse(shard, request, message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            _add(shard, group, request, message, member_id, now)
    else:
        _refuse(shard, request, message, code)


def _rejoin(
    shard: Shard, group: Group, member: Member, request: GroupRequest, message: JoinGroupRequest, now: Now
) -> None:
    is_changed = list(member.protocols.items()) != list(_protocols(message).items())
    is_leader = group.leader == member.id
    if group.state is State.EMPTY:
        _refuse(shard, request, message, ErrorCode.UNKNOWN_MEMBER_ID)
    elif group.state is State.PREPARING or is_changed or (group.state is State.STABLE and is_leader):
        _update(shard, member, request, message)
        maybe_prepare(shard, group, now)
    else:  # the answer was lost
        shard.env.answer(request.token, joined(group, member, group.leader, is_leader))


def _update(shard: Shard, member: Member, request: GroupRequest, message: JoinGroupRequest) -> None:
    member.protocols = _protocols(message)
    member.session_timeout_ms = message.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout_ms(message, request.version)
    shard.park_join(member, parked(request))


# static members


class _Undo(NamedTuple):
    """What a replaced static member was before."""

    member_id: str
    leader: str | None
    protocols: dict[str, bytes]
    session_timeout_ms: int
    rebalance_timeout_ms: int


def _replace_static(
    shard: Shard,
    group: Group,
    request: GroupRequest,
    message: JoinGroupRequest,
    member: Member,
    member_id: str,
    now: Now,
) -> None:
    """The member comes back without its id: it gets a new one, and whoever uses the old one is fenced."""
    undo = _Undo(member.id, group.leader, member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
    _rename(shard, group, member, member_id)
    _update(shard, member, request, message)
    touch(shard, group, member, now)
    if group.state is State.COMPLETING:
        prepare(shard, group, now)  # the leader may be at work for the old id
    elif group.state is State.STABLE:
        if group.chosen_protocol() != group.protocol:
            prepare(shard, group, now)
        else:
            _record_replacement(shard, group, request, member, undo, now)


def _rename(shard: Shard, group: Group, member: Member, member_id: str) -> None:
    """A new id for a static member, in the same place among the others."""
    old_id = member.id
    shard.refuse_join(member, old_id, ErrorCode.FENCED_INSTANCE_ID)
    shard.answer_sync(member, sync_failed(ErrorCode.FENCED_INSTANCE_ID))
    if old_id == member_id:
        return  # a re-run
    group.members = {(member_id if key == old_id else key): value for key, value in group.members.items()}
    member.id = member_id
    group.instances[member.instance_id or ""] = member_id
    if old_id in group.unsynced:
        group.unsynced.remove(old_id)
        group.unsynced.add(member_id)
    if group.leader == old_id:
        group.leader = member_id
    shard.env.table.drop_member(group.id, old_id)


def _record_replacement(
    shard: Shard, group: Group, request: GroupRequest, member: Member, undo: _Undo, now: Now
) -> None:
    """No rebalance: the log learns the new id, then the member hears the present generation."""
    waiting = member.join

    def then(code: int, later: Now) -> None:
        if member.join is not waiting or group.state is not State.STABLE:
            return  # it asked again, left, or is part of a rebalance by now
        if code != ErrorCode.NONE:
            _answer_undone(shard, group, member, undo, code, later)
            return
        is_leader = group.leader == member.id
        can_skip = request.version >= SKIPS_ASSIGNMENT
        answer = joined(group, member, group.leader if can_skip else undo.leader, is_leader and can_skip)
        answer.skip_assignment = is_leader and can_skip
        shard.answer_join(member, answer)

    assignments = {other.id: other.assignment for other in group.members.values()}
    shard.append([group_record(group, assignments)], None, now, then)


def _answer_undone(shard: Shard, group: Group, member: Member, undo: _Undo, code: int, now: Now) -> None:
    answer = JoinGroupResponse(
        error_code=group_append_error(code),
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=undo.leader or "",
    )
    shard.answer_join(member, answer)
    member.protocols = undo.protocols
    member.session_timeout_ms, member.rebalance_timeout_ms = undo.session_timeout_ms, undo.rebalance_timeout_ms
    shard.env.table.put_member(group.id, undo.member_id)
    _rename(shard, group, member, undo.member_id)
    touch(shard, group, member, now)
