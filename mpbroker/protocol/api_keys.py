"""Kafka's API keys: number, name and first flexible version of every API, also of those mpbroker does not answer.

Constants; nobody writes them. Which APIs and versions a broker advertises is computed from its handlers, not here.
Header versions depend on the first flexible version, so it must be known even where no message class exists.
"""

from typing import Final

from mpbroker.protocol.schema import NEVER

API_NAMES: Final[dict[int, str]] = {}
"""API key → Kafka's name of the API."""

FIRST_FLEXIBLE: Final[dict[int, int]] = {}
"""API key → first version with compact lengths, tagged fields and the longer headers; `NEVER` if none has them."""


def _key(key: int, name: str, flexible: int) -> int:
    API_NAMES[key] = name
    FIRST_FLEXIBLE[key] = flexible
    return key


class ApiKey:
    """API keys by name; every value is a plain int."""

    PRODUCE: Final = _key(0, "Produce", 9)
    FETCH: Final = _key(1, "Fetch", 12)
    LIST_OFFSETS: Final = _key(2, "ListOffsets", 6)
    METADATA: Final = _key(3, "Metadata", 9)
    LEADER_AND_ISR: Final = _key(4, "LeaderAndIsr", 4)
    STOP_REPLICA: Final = _key(5, "StopReplica", 2)
    UPDATE_METADATA: Final = _key(6, "UpdateMetadata", 6)
    CONTROLLED_SHUTDOWN: Final = _key(7, "ControlledShutdown", 3)
    OFFSET_COMMIT: Final = _key(8, "OffsetCommit", 8)
    OFFSET_FETCH: Final = _key(9, "OffsetFetch", 6)
    FIND_COORDINATOR: Final = _key(10, "FindCoordinator", 3)
    JOIN_GROUP: Final = _key(11, "JoinGroup", 6)
    HEARTBEAT: Final = _key(12, "Heartbeat", 4)
    LEAVE_GROUP: Final = _key(13, "LeaveGroup", 4)
    SYNC_GROUP: Final = _key(14, "SyncGroup", 4)
    DESCRIBE_GROUPS: Final = _key(15, "DescribeGroups", 5)
    LIST_GROUPS: Final = _key(16, "ListGroups", 3)
    SASL_HANDSHAKE: Final = _key(17, "SaslHandshake", NEVER)
    API_VERSIONS: Final = _key(18, "ApiVersions", 3)
    CREATE_TOPICS: Final = _key(19, "CreateTopics", 5)
    DELETE_TOPICS: Final = _key(20, "DeleteTopics", 4)
    DELETE_RECORDS: Final = _key(21, "DeleteRecords", 2)
    INIT_PRODUCER_ID: Final = _key(22, "InitProducerId", 2)
    OFFSET_FOR_LEADER_EPOCH: Final = _key(23, "OffsetForLeaderEpoch", 4)
    ADD_PARTITIONS_TO_TXN: Final = _key(24, "AddPartitionsToTxn", 3)
    ADD_OFFSETS_TO_TXN: Final = _key(25, "AddOffsetsToTxn", 3)
    END_TXN: Final = _key(26, "EndTxn", 3)
    WRITE_TXN_MARKERS: Final = _key(27, "WriteTxnMarkers", 1)
    TXN_OFFSET_COMMIT: Final = _key(28, "TxnOffsetCommit", 3)
    DESCRIBE_ACLS: Final = _key(29, "DescribeAcls", 2)
    CREATE_ACLS: Final = _key(30, "CreateAcls", 2)
    DELETE_ACLS: Final = _key(31, "DeleteAcls", 2)
    DESCRIBE_CONFIGS: Final = _key(32, "DescribeConfigs", 4)
    ALTER_CONFIGS: Final = _key(33, "AlterConfigs", 2)
    ALTER_REPLICA_LOG_DIRS: Final = _key(34, "AlterReplicaLogDirs", 2)
    DESCRIBE_LOG_DIRS: Final = _key(35, "DescribeLogDirs", 2)
    SASL_AUTHENTICATE: Final = _key(36, "SaslAuthenticate", 2)
    CREATE_PARTITIONS: Final = _key(37, "CreatePartitions", 2)
    CREATE_DELEGATION_TOKEN: Final = _key(38, "CreateDelegationToken", 2)
    RENEW_DELEGATION_TOKEN: Final = _key(39, "RenewDelegationToken", 2)
    EXPIRE_DELEGATION_TOKEN: Final = _key(40, "ExpireDelegationToken", 2)
    DESCRIBE_DELEGATION_TOKEN: Final = _key(41, "DescribeDelegationToken", 2)
    DELETE_GROUPS: Final = _key(42, "DeleteGroups", 2)
    ELECT_LEADERS: Final = _key(43, "ElectLeaders", 2)
    INCREMENTAL_ALTER_CONFIGS: Final = _key(44, "IncrementalAlterConfigs", 1)
    ALTER_PARTITION_REASSIGNMENTS: Final = _key(45, "AlterPartitionReassignments", 0)
    LIST_PARTITION_REASSIGNMENTS: Final = _key(46, "ListPartitionReassignments", 0)
    OFFSET_DELETE: Final = _key(47, "OffsetDelete", NEVER)
    DESCRIBE_CLIENT_QUOTAS: Final = _key(48, "DescribeClientQuotas", 1)
    ALTER_CLIENT_QUOTAS: Final = _key(49, "AlterClientQuotas", 1)
    DESCRIBE_USER_SCRAM_CREDENTIALS: Final = _key(50, "DescribeUserScramCredentials", 0)
    ALTER_USER_SCRAM_CREDENTIALS: Final = _key(51, "AlterUserScramCredentials", 0)
    VOTE: Final = _key(52, "Vote", 0)
    BEGIN_QUORUM_EPOCH: Final = _key(53, "BeginQuorumEpoch", 1)
    END_QUORUM_EPOCH: Final = _key(54, "EndQuorumEpoch", 1)
    DESCRIBE_QUORUM: Final = _key(55, "DescribeQuorum", 0)
    ALTER_PARTITION: Final = _key(56, "AlterPartition", 0)
    UPDATE_FEATURES: Final = _key(57, "UpdateFeatures", 0)
    ENVELOPE: Final = _key(58, "Envelope", 0)
    FETCH_SNAPSHOT: Final = _key(59, "FetchSnapshot", 0)
    DESCRIBE_CLUSTER: Final = _key(60, "DescribeCluster", 0)
    DESCRIBE_PRODUCERS: Final = _key(61, "DescribeProducers", 0)
    BROKER_REGISTRATION: Final = _key(62, "BrokerRegistration", 0)
    BROKER_HEARTBEAT: Final = _key(63, "BrokerHeartbeat", 0)
    UNREGISTER_BROKER: Final = _key(64, "UnregisterBroker", 0)
    DESCRIBE_TRANSACTIONS: Final = _key(65, "DescribeTransactions", 0)
    LIST_TRANSACTIONS: Final = _key(66, "ListTransactions", 0)
    ALLOCATE_PRODUCER_IDS: Final = _key(67, "AllocateProducerIds", 0)
    CONSUMER_GROUP_HEARTBEAT: Final = _key(68, "ConsumerGroupHeartbeat", 0)
    CONSUMER_GROUP_DESCRIBE: Final = _key(69, "ConsumerGroupDescribe", 0)
    CONTROLLER_REGISTRATION: Final = _key(70, "ControllerRegistration", 0)
    GET_TELEMETRY_SUBSCRIPTIONS: Final = _key(71, "GetTelemetrySubscriptions", 0)
    PUSH_TELEMETRY: Final = _key(72, "PushTelemetry", 0)
    ASSIGN_REPLICAS_TO_DIRS: Final = _key(73, "AssignReplicasToDirs", 0)
    LIST_CONFIG_RESOURCES: Final = _key(74, "ListConfigResources", 0)
    DESCRIBE_TOPIC_PARTITIONS: Final = _key(75, "DescribeTopicPartitions", 0)
    SHARE_GROUP_HEARTBEAT: Final = _key(76, "ShareGroupHeartbeat", 0)
    SHARE_GROUP_DESCRIBE: Final = _key(77, "ShareGroupDescribe", 0)
    SHARE_FETCH: Final = _key(78, "ShareFetch", 0)
    SHARE_ACKNOWLEDGE: Final = _key(79, "ShareAcknowledge", 0)
    ADD_RAFT_VOTER: Final = _key(80, "AddRaftVoter", 0)
    REMOVE_RAFT_VOTER: Final = _key(81, "RemoveRaftVoter", 0)
    UPDATE_RAFT_VOTER: Final = _key(82, "UpdateRaftVoter", 0)
    INITIALIZE_SHARE_GROUP_STATE: Final = _key(83, "InitializeShareGroupState", 0)
    READ_SHARE_GROUP_STATE: Final = _key(84, "ReadShareGroupState", 0)
    WRITE_SHARE_GROUP_STATE: Final = _key(85, "WriteShareGroupState", 0)
    DELETE_SHARE_GROUP_STATE: Final = _key(86, "DeleteShareGroupState", 0)
    READ_SHARE_GROUP_STATE_SUMMARY: Final = _key(87, "ReadShareGroupStateSummary", 0)
    STREAMS_GROUP_HEARTBEAT: Final = _key(88, "StreamsGroupHeartbeat", 0)
    STREAMS_GROUP_DESCRIBE: Final = _key(89, "StreamsGroupDescribe", 0)
    DESCRIBE_SHARE_GROUP_OFFSETS: Final = _key(90, "DescribeShareGroupOffsets", 0)
    ALTER_SHARE_GROUP_OFFSETS: Final = _key(91, "AlterShareGroupOffsets", 0)
    DELETE_SHARE_GROUP_OFFSETS: Final = _key(92, "DeleteShareGroupOffsets", 0)


def api_name(key: int) -> str:
    """Kafka's name of an API; `Api<key>` for a key Kafka does not have."""
    return API_NAMES.get(key, f"Api{key}")
