"""The way in: requests for groups of the next-generation protocol, and those that make one. In the coordinator process.

While a change of a group is on its way to the log, its requests wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mpbroker.coordinator.consumer_groups import classic_members, consumer_heartbeat
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.responses import failure
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey

_OF_CLASSIC_MEMBERS: Final[dict[int, Callable[[Shard, ConsumerGroup, GroupRequest, Any, Now], None]]] = {
    ApiKey.JOIN_GROUP: classic_members.join,
    ApiKey.SYNC_GROUP: classic_members.sync,
    ApiKey.HEARTBEAT: classic_members.beat,
    ApiKey.LEAVE_GROUP: classic_members.leave,
}


def handle(shard: Shard, request: GroupRequest, message: Any, now: Now, again: Callable[[Now], None]) -> None:
    """Answer, now or later. `again(now)`: as if the request came then; the group may be a classic one by that time."""
    group = shard.any(message.group_id)
    if isinstance(group, ConsumerGroup) and group.is_recording:
        _wait(shard, group, request, again)
    elif request.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        consumer_heartbeat.handle(shard, request, message, now)
    elif isinstance(group, ConsumerGroup):
        _OF_CLASSIC_MEMBERS[request.api_key](shard, group, request, message, now)


def _wait(shard: Shard, group: ConsumerGroup, request: GroupRequest, again: Callable[[Now], None]) -> None:
    if not shard.env.may_park(request.lane):
        shard.env.counts.parked_refused += 1
        shard.env.answer(request.token, failure(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    shard.env.count_parked(request.lane, 1)
    group.waiting.append((request, again))
