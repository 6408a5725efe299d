"""Whether a request comes from a member of the group, and room for another one. Runs in the coordinator process."""

from __future__ import annotations

from mpbroker.coordinator.effects import GroupRequest
from mpbroker.coordinator.group import Group, Parked, State
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode


def parked(request: GroupRequest) -> Parked:
    """The request as one that waits."""
    return Parked(request.token, request.version, request.lane)


def identity_error(group: Group, member_id: str, instance_id: str | None) -> int:
    """0 if the group knows this member, and under this instance id if there is one."""
    if instance_id is not None:
        current = group.instances.get(instance_id)
        if current is not None and current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def was_member(shard: Shard, group: Group, member_id: str) -> bool:
    """Whether only the table knows this id: its member was there before the coordinator restarted."""
    is_here = member_id in group.members or member_id in group.pending
    return not is_here and shard.env.table.has_member(group.id, member_id)


def member_error(shard: Shard, group: Group, member_id: str, instance_id: str | None, generation: int) -> int:
    """0 if the request comes from a member in the present generation.

    A member that only the table knows was in the group before the coordinator restarted; it should join again.
    """
    if group.state is State.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = identity_error(group, member_id, instance_id)
    if (
        code == ErrorCode.UNKNOWN_MEMBER_ID
        and 0 <= generation <= group.generation
        and was_member(shard, group, member_id)
    ):
        return ErrorCode.REBALANCE_IN_PROGRESS
    if code == ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return code


def store_error(shard: Shard, group: Group, member_id: str) -> int:
    """Store a member id in the table before anybody hears it; 0, or 15 if there is no room for another member."""
    if member_id in group.pending or member_id in group.members:
        return ErrorCode.NONE
    counts, table = shard.env.counts, shard.env.table
    has_room = counts.members < shard.env.settings.max_members
    if has_room and shard.store_row(group) and table.put_member(group.id, member_id):
        return ErrorCode.NONE
    counts.members_refused += 1
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
