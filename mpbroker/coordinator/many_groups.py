"""Requests that may name groups of several partitions: OffsetFetch, DescribeGroups, ListGroups, DeleteGroups.

Each group is answered as far as its partition can be: not ours is 16, still loading 14. In the coordinator process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from mpbroker.coordinator.any_group import ModernGroup
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.environment import Environment
from mpbroker.coordinator.group_admin import Deletion, described, listed
from mpbroker.coordinator.offset_fetch import committed_offsets
from mpbroker.coordinator.responses import failure
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.metadata.coordinator_partitions import partition_of
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from mpbroker.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from mpbroker.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from mpbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

Shards: TypeAlias = dict[int, Shard]
SEVERAL_GROUPS = 8  # the version from which OffsetFetch asks for several


def groups_of(request: GroupRequest) -> list[str]:
    """The ids of the groups a request is about; none for ListGroups."""
    message: Any = request.message
    if request.api_key == ApiKey.OFFSET_FETCH and request.version >= SEVERAL_GROUPS:
        return [group.group_id for group in message.groups]
    if request.api_key == ApiKey.DESCRIBE_GROUPS:
        return list(message.groups)
    if request.api_key == ApiKey.DELETE_GROUPS:
        return list(message.groups_names)
    if request.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE:
        return list(message.group_ids)
    return [] if request.api_key == ApiKey.LIST_GROUPS else [message.group_id]


def _shard(env: Environment, shards: Shards, group_id: str) -> Shard | int:
    """The group's shard, or the error that stands for it."""
    shard = shards.get(partition_of(group_id, env.settings.partitions))
    if shard is None:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard.is_loading else shard


def fetch_offsets(
    env: Environment, shards: Shards, request: GroupRequest, message: OffsetFetchRequest, now: Now
) -> None:
    """OffsetFetch."""
    if request.version < SEVERAL_GROUPS:
        shard = _shard(env, shards, message.group_id)
        if isinstance(shard, int):
            env.answer(request.token, failure(request, shard))
        else:
            topics = committed_offsets(shard, message.group_id, message.topics, message.require_stable)
            env.answer(request.token, OffsetFetchResponse(topics=topics))
        return
    answer = OffsetFetchResponse()
    for group in message.groups:
        shard = _shard(env, shards, group.group_id)
        row = OffsetFetchResponseGroup(group.group_id)
        if isinstance(shard, int):
            row.error_code = shard
        elif (code := _fetch_error(shard, group)) != ErrorCode.NONE:
            row.error_code = code
        else:
            row.topics = committed_offsets(shard, group.group_id, group.topics, message.require_stable)
        answer.groups.append(row)
    env.answer(request.token, answer)


def _fetch_error(shard: Shard, asked: OffsetFetchRequestGroup) -> int:
    """Members of a group of the new protocol are told no offsets of an epoch that is not theirs any more."""
    group = shard.any(asked.group_id)
    return group.fetch_error(asked.member_id, asked.member_epoch) if isinstance(group, ModernGroup) else ErrorCode.NONE


def describe_consumer_groups(
    env: Environment, shards: Shards, request: GroupRequest, message: ConsumerGroupDescribeRequest, now: Now
) -> None:
    """ConsumerGroupDescribe."""
    from mpbroker.coordinator.consumer_groups.consumer_describe import described as described_in_full

    answer = ConsumerGroupDescribeResponse()
    for group_id in message.group_ids:
        shard = _shard(env, shards, group_id)
        code = ErrorCode.INVALID_GROUP_ID if not group_id else shard if isinstance(shard, int) else ErrorCode.NONE
        if code != ErrorCode.NONE or isinstance(shard, int):
            answer.groups.append(ConsumerGroupDescribeResponseGroup(code, None, group_id))
        else:
            answer.groups.append(described_in_full(shard, group_id))
    env.answer(request.token, answer)


def describe_groups(
    env: Environment, shards: Shards, request: GroupRequest, message: DescribeGroupsRequest, now: Now
) -> None:
    """DescribeGroups."""
    answer = DescribeGroupsResponse()
    for group_id in message.groups:
        shard = _shard(env, shards, group_id)
        if isinstance(shard, int):
            answer.groups.append(DescribedGroup(error_code=shard, group_id=group_id))
        else:
            answer.groups.append(described(shard, group_id))
    env.answer(request.token, answer)


def list_groups(env: Environment, shards: Shards, request: GroupRequest, message: ListGroupsRequest, now: Now) -> None:
    """ListGroups."""
    answer = ListGroupsResponse()
    for shard in shards.values():
        if shard.is_loading:
            answer.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        else:
            answer.groups += listed(shard, message)
    env.answer(request.token, answer)


def delete_groups(
    env: Environment, shards: Shards, request: GroupRequest, message: DeleteGroupsRequest, now: Now
) -> None:
    """DeleteGroups: one append for each partition, and the answer after the last."""
    by_partition: dict[int, list[str]] = {}
    codes: dict[str, int] = {}
    for group_id in dict.fromkeys(message.groups_names):
        shard = _shard(env, shards, group_id)
        codes[group_id] = shard if isinstance(shard, int) else ErrorCode.NONE
        if not isinstance(shard, int):
            by_partition.setdefault(shard.partition, []).append(group_id)
    deletion = Deletion(codes, lambda: env.answer(request.token, _deleted(codes)))
    for partition, group_ids in by_partition.items():
        deletion.delete(shards[partition], group_ids, request, now)
    deletion.all_begun()


def _deleted(codes: dict[str, int]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id, code) for group_id, code in codes.items()])


ANSWERS: Final[dict[int, Callable[[Environment, Shards, GroupRequest, Any, Now], None]]] = {
    ApiKey.OFFSET_FETCH: fetch_offsets,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe_consumer_groups,
}
