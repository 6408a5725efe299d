"""Heartbeat: a member lives, and hears whether it should join again. Runs in the coordinator process."""

from __future__ import annotations

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import State
from mpbroker.coordinator.membership import member_error
from mpbroker.coordinator.rebalance import touch
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(shard: Shard, request: GroupRequest, message: HeartbeatRequest, now: Now) -> None:
    """Answer; the session begins anew, also during a rebalance."""
    shard.env.answer(request.token, HeartbeatResponse(error_code=_beat(shard, message, now)))


def _beat(shard: Shard, message: HeartbeatRequest, now: Now) -> int:
    group = shard.find(message.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = member_error(shard, group, message.member_id, message.group_instance_id, message.generation_id)
    if code != ErrorCode.NONE:
        return code
    touch(shard, group, group.members[message.member_id], now)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE
