"""The APIs that the coordinator answers, with their messages; their versions stand in `protocol.group_versions`. Fixed
at import; the coordinator, once it has something to do."""

from __future__ import annotations

from typing import Final, NamedTuple

from mpbroker.protocol.group_versions import VERSIONS
from mpbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from mpbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from mpbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from mpbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from mpbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from mpbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from mpbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from mpbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from mpbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mpbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from mpbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import Struct


class GroupApi(NamedTuple):
    """One API. `takes_empty_id`: whether Kafka lets the empty string be a group id there."""

    key: int
    versions: tuple[int, int]
    request: type[Struct]
    response: type[Struct]
    takes_empty_id: bool


def _row(request: type[Struct], response: type[Struct], takes_empty_id: bool = False) -> GroupApi:
    key = schema_of(request).key
    return GroupApi(key, VERSIONS[key], request, response, takes_empty_id)


BY_KEY: Final[dict[int, GroupApi]] = {
    row.key: row
    for row in (
        _row(ProduceRequest, ProduceResponse),
        _row(OffsetCommitRequest, OffsetCommitResponse, takes_empty_id=True),
        _row(OffsetFetchRequest, OffsetFetchResponse, takes_empty_id=True),
        _row(JoinGroupRequest, JoinGroupResponse),
        _row(HeartbeatRequest, HeartbeatResponse),
        _row(LeaveGroupRequest, LeaveGroupResponse),
        _row(SyncGroupRequest, SyncGroupResponse),
        _row(DescribeGroupsRequest, DescribeGroupsResponse, takes_empty_id=True),
        _row(ListGroupsRequest, ListGroupsResponse),
        _row(DeleteGroupsRequest, DeleteGroupsResponse, takes_empty_id=True),
        _row(OffsetDeleteRequest, OffsetDeleteResponse),
        _row(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        _row(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, takes_empty_id=True),
        _row(InitProducerIdRequest, InitProducerIdResponse),
        _row(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        _row(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        _row(EndTxnRequest, EndTxnResponse),
        _row(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
        _row(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        _row(DescribeTransactionsRequest, DescribeTransactionsResponse),
        _row(ListTransactionsRequest, ListTransactionsResponse),
    )
}
"""API key → row."""
