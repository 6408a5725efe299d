"""SyncGroup: the leader's assignment is recorded and handed out. Runs in the coordinator process."""

from __future__ import annotations

from mpbroker.coordinator.append_errors import group_append_error
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group, Member, State
from mpbroker.coordinator.membership import member_error, parked
from mpbroker.coordinator.rebalance import cancel_syncs, group_record, hand_out, maybe_prepare, touch
from mpbroker.coordinator.responses import sync_failed, synced
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.sync_group import SyncGroupRequest


def handle(shard: Shard, request: GroupRequest, message: SyncGroupRequest, now: Now) -> None:
    """Answer, or park the request until the leader's assignment is recorded."""
    group = shard.find(message.group_id)
    code = _error(shard, group, message)
    if code != ErrorCode.NONE or group is None:
        shard.env.answer(request.token, sync_failed(code))
        return
    member = group.members[message.member_id]
    if group.state is State.STABLE:
        group.unsynced.discard(member.id)
        touch(shard, group, member, now)
        shard.env.answer(request.token, synced(group, member))
    elif group.leader == member.id:
        _wait(shard, group, member, request)
        _record(shard, group, request, message, now)
    elif shard.env.may_park(request.lane) or member.sync is not None:
        _wait(shard, group, member, request)
    else:
        shard.env.counts.parked_refused += 1
        shard.env.answer(request.token, sync_failed(ErrorCode.REBALANCE_IN_PROGRESS))


def _error(shard: Shard, group: Group | None, message: SyncGroupRequest) -> int:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = member_error(shard, group, message.member_id, message.group_instance_id, message.generation_id)
    if code != ErrorCode.NONE:
        return code
    if message.protocol_type not in (None, group.protocol_type) or message.protocol_name not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE


def _wait(shard: Shard, group: Group, member: Member, request: GroupRequest) -> None:
    shard.park_sync(member, parked(request))
    group.unsynced.discard(member.id)


def _record(shard: Shard, group: Group, request: GroupRequest, message: SyncGroupRequest, now: Now) -> None:
    """Who the leader names and the group does not know is left out."""
    assignments = {row.member_id: row.assignment for row in message.assignments}
    generation = group.generation

    def then(code: int, later: Now) -> None:
        if group.state is not State.COMPLETING or group.generation != generation:
            return  # somebody joined meanwhile: all syncs were answered
        if code == ErrorCode.NONE:
            shard.set_state(group, State.STABLE, later)
            hand_out(shard, group, assignments, later)
        else:
            cancel_syncs(shard, group, group_append_error(code), later)
            maybe_prepare(shard, group, later)

    shard.append([group_record(group, assignments)], request.token, now, then)
