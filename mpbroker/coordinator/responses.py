"""The coordinator's answers: those that say only what went wrong, for every API, and those of a group. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mpbroker.coordinator.effects import GroupRequest
from mpbroker.coordinator.group import Group, Member
from mpbroker.coordinator.transactions.transaction_answers import KNOWS_LOADING, TRANSACTION_FAILED
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mpbroker.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from mpbroker.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from mpbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from mpbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mpbroker.protocol.types import Struct

NO_GENERATION, NO_OFFSET = -1, -1


def join_failed(version: int, member_id: str, code: int) -> JoinGroupResponse:
    """No group to be in; the member id is the one to come back with."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_name=None if version >= 7 else "",
        member_id=member_id,
    )


def joined(group: Group, member: Member, leader: str | None, shows_members: bool) -> JoinGroupResponse:
    """The present generation, as this member is to see it."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or "",
        member_id=member.id,
        members=group.all_metadata() if shows_members else [],
    )


def sync_failed(code: int) -> SyncGroupResponse:
    """No assignment."""
    return SyncGroupResponse(error_code=code)


def synced(group: Group, member: Member) -> SyncGroupResponse:
    """The member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def commit_answer(message: OffsetCommitRequest, codes: dict[tuple[str, int], int], code: int) -> OffsetCommitResponse:
    """One code for each partition of the request; `code` for those that have none in `codes`."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(index, codes.get((topic.name, index), code))
                    for index in (partition.partition_index for partition in topic.partitions)
                ],
            )
            for topic in message.topics
        ]
    )


def failed_offsets(topics: Any, code: int) -> list[OffsetFetchResponseTopic]:
    """The code in each partition, as OffsetFetch 1 says it."""
    return [
        OffsetFetchResponseTopic(
            topic.name,
            [OffsetFetchResponsePartition(index, NO_OFFSET, -1, "", code) for index in topic.partition_indexes],
        )
        for topic in topics or []
    ]


def _fetch_failed(message: OffsetFetchRequest, version: int, code: int) -> OffsetFetchResponse:
    if version >= 8:
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group.group_id, [], code) for group in message.groups]
        )
    topics = failed_offsets(message.topics, code) if version < 2 else []
    return OffsetFetchResponse(topics=topics, error_code=code)


def _join(message: JoinGroupRequest, version: int, code: int) -> JoinGroupResponse:
    return join_failed(version, message.member_id, code)


def _sync(message: SyncGroupRequest, version: int, code: int) -> SyncGroupResponse:
    return sync_failed(code)


def _heartbeat(message: HeartbeatRequest, version: int, code: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def _leave(message: LeaveGroupRequest, version: int, code: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)


def _commit(message: OffsetCommitRequest, version: int, code: int) -> OffsetCommitResponse:
    return commit_answer(message, {}, code)


def _describe(message: DescribeGroupsRequest, version: int, code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in message.groups]
    )


def _list(message: ListGroupsRequest, version: int, code: int) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)


def _delete(message: DeleteGroupsRequest, version: int, code: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id, code) for group_id in dict.fromkeys(message.groups_names)]
    )


def _offset_delete(message: OffsetDeleteRequest, version: int, code: int) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)


def _describe_in_full(message: ConsumerGroupDescribeRequest, version: int, code: int) -> ConsumerGroupDescribeResponse:
    groups = [ConsumerGroupDescribeResponseGroup(code, None, group_id) for group_id in message.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


def _consumer_heartbeat(
    message: ConsumerGroupHeartbeatRequest, version: int, code: int
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


FAILED: Final[dict[int, Callable[[Any, int, int], Struct]]] = {
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.OFFSET_FETCH: _fetch_failed,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.DESCRIBE_GROUPS: _describe,
    ApiKey.LIST_GROUPS: _list,
    ApiKey.DELETE_GROUPS: _delete,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_in_full,
    ApiKey.TXN_OFFSET_COMMIT: TRANSACTION_FAILED[ApiKey.TXN_OFFSET_COMMIT],
}


def failure(request: GroupRequest, code: int) -> Struct:
    """The response when all of a request fails with one code."""
    return FAILED[request.api_key](request.message, request.version, code)


#: What clients hear while a partition is loaded, and how they then find their way; all others: 14.
_WHILE_LOADING = {ApiKey.HEARTBEAT: ErrorCode.NONE, ApiKey.SYNC_GROUP: ErrorCode.REBALANCE_IN_PROGRESS}


def loading(request: GroupRequest) -> Struct:
    """The response while the group's partition is being read."""
    code = _WHILE_LOADING.get(request.api_key, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if request.api_key == ApiKey.TXN_OFFSET_COMMIT and request.version < KNOWS_LOADING:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return failure(request, code)
