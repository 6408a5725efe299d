"""Every message class by API key, for who needs them all: tools and tests. Constants, any process; a broker starts
without, for it costs a tenth of its start.

A new API is a new module of `protocol/messages/` and a new line in `_PAIRS`; a key that does not match its classes, or
stands here twice, fails at import.
"""

from typing import Final

from mpbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from mpbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from mpbroker.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from mpbroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from mpbroker.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from mpbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mpbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from mpbroker.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from mpbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from mpbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from mpbroker.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from mpbroker.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from mpbroker.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from mpbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from mpbroker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from mpbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from mpbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from mpbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from mpbroker.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from mpbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from mpbroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from mpbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from mpbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mpbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from mpbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from mpbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mpbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from mpbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from mpbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from mpbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from mpbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from mpbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from mpbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from mpbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mpbroker.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from mpbroker.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mpbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from mpbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from mpbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mpbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from mpbroker.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from mpbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import Struct

_PAIRS: Final[tuple[tuple[type[Struct], type[Struct]], ...]] = (
    (ProduceRequest, ProduceResponse),
    (FetchRequest, FetchResponse),
    (ListOffsetsRequest, ListOffsetsResponse),
    (MetadataRequest, MetadataResponse),
    (OffsetCommitRequest, OffsetCommitResponse),
    (OffsetFetchRequest, OffsetFetchResponse),
    (FindCoordinatorRequest, FindCoordinatorResponse),
    (JoinGroupRequest, JoinGroupResponse),
    (HeartbeatRequest, HeartbeatResponse),
    (LeaveGroupRequest, LeaveGroupResponse),
    (SyncGroupRequest, SyncGroupResponse),
    (DescribeGroupsRequest, DescribeGroupsResponse),
    (ListGroupsRequest, ListGroupsResponse),
    (ApiVersionsRequest, ApiVersionsResponse),
    (CreateTopicsRequest, CreateTopicsResponse),
    (DeleteTopicsRequest, DeleteTopicsResponse),
    (DeleteRecordsRequest, DeleteRecordsResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    (EndTxnRequest, EndTxnResponse),
    (WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    (DescribeTransactionsRequest, DescribeTransactionsResponse),
    (ListTransactionsRequest, ListTransactionsResponse),
    (DescribeConfigsRequest, DescribeConfigsResponse),
    (AlterConfigsRequest, AlterConfigsResponse),
    (CreatePartitionsRequest, CreatePartitionsResponse),
    (DeleteGroupsRequest, DeleteGroupsResponse),
    (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    (OffsetDeleteRequest, OffsetDeleteResponse),
    (DescribeClusterRequest, DescribeClusterResponse),
    (DescribeLogDirsRequest, DescribeLogDirsResponse),
    (DescribeProducersRequest, DescribeProducersResponse),
    (DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
    (ElectLeadersRequest, ElectLeadersResponse),
    (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    (AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    (AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    (UpdateFeaturesRequest, UpdateFeaturesResponse),
    (ListConfigResourcesRequest, ListConfigResourcesResponse),
    (ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    (ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
    (ShareGroupDescribeRequest, ShareGroupDescribeResponse),
    (ShareFetchRequest, ShareFetchResponse),
    (ShareAcknowledgeRequest, ShareAcknowledgeResponse),
    (LeaderAndIsrRequest, LeaderAndIsrResponse),
    (StopReplicaRequest, StopReplicaResponse),
    (UpdateMetadataRequest, UpdateMetadataResponse),
    (ControlledShutdownRequest, ControlledShutdownResponse),
    (AlterPartitionRequest, AlterPartitionResponse),
    (AllocateProducerIdsRequest, AllocateProducerIdsResponse),
    (CreateAclsRequest, CreateAclsResponse),
    (DeleteAclsRequest, DeleteAclsResponse),
    (DescribeAclsRequest, DescribeAclsResponse),
    (DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    (DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    (SaslAuthenticateRequest, SaslAuthenticateResponse),
    (SaslHandshakeRequest, SaslHandshakeResponse),
)

REQUESTS: Final[dict[int, type[Struct]]] = {}
"""API key → request class."""

RESPONSES: Final[dict[int, type[Struct]]] = {}
"""API key → response class."""

for _request, _response in _PAIRS:
    _one, _other = schema_of(_request), schema_of(_response)
    if _one._replace(is_request=False) != _other or not _one.is_request or _one.key in REQUESTS:
        raise TypeError(f"{_request.__name__} and {_response.__name__} are not one API, or their key is taken")
    REQUESTS[_one.key] = _request
    RESPONSES[_one.key] = _response
