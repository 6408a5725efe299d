"""LeaveGroup: members go at once; an administrator removes static ones by instance id. In the coordinator process."""

from __future__ import annotations

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group, State
from mpbroker.coordinator.membership import identity_error, was_member
from mpbroker.coordinator.rebalance import maybe_complete_join, remove_and_rebalance, remove_pending
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

MANY = 3  # the version from which several members leave at once


def handle(shard: Shard, request: GroupRequest, message: LeaveGroupRequest, now: Now) -> None:
    """Answer; if the group becomes empty, when that is recorded."""
    group = shard.find(message.group_id)
    if group is not None and group.state is State.DEAD:
        shard.env.answer(request.token, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    leaving = message.members if request.version >= MANY else [MemberIdentity(member_id=message.member_id)]
    was_done = shard.partition in request.appended
    answer = LeaveGroupResponse()

    def then(code: int, later: Now) -> None:
        shard.env.answer(request.token, answer)  # an empty group that is not recorded harms nobody

    if group is not None:
        group.last_leave = (request.token, then)
    codes = [ErrorCode.NONE if was_done else _leave(shard, group, member, now) for member in leaving]
    if request.version >= MANY:
        rows = zip(leaving, codes, strict=True)
        answer.members = [MemberResponse(member.member_id, member.group_instance_id, code) for member, code in rows]
    else:
        answer.error_code = codes[0]
    if group is None or group.last_leave is not None:  # no record was appended
        then(ErrorCode.NONE, now)
    if group is not None:
        group.last_leave = None


def _leave(shard: Shard, group: Group | None, leaving: MemberIdentity, now: Now) -> int:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id = leaving.member_id
    if member_id in group.pending:
        remove_pending(shard, group, member_id)
        maybe_complete_join(shard, group, now)
        return ErrorCode.NONE
    code: int = ErrorCode.NONE
    if member_id or leaving.group_instance_id is None:
        code = identity_error(group, member_id, leaving.group_instance_id)
    else:
        member_id = group.instances.get(leaving.group_instance_id, "")
    if code == ErrorCode.NONE and member_id in group.members:
        remove_and_rebalance(shard, group, group.members[member_id], now)
    elif code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        return _leave_table(shard, group, member_id)
    return code


def _leave_table(shard: Shard, group: Group, member_id: str) -> int:
    """A member that only the table knows, since the coordinator restarted."""
    if not was_member(shard, group, member_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    shard.env.table.drop_member(group.id, member_id)
    return ErrorCode.NONE
