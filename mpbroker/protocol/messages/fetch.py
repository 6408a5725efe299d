"""Fetch (key 1): read record batches from partitions.

Shapes only; any process. 4 isolation level · 5 log start offset · 7 fetch sessions (KIP-227) · 9 leader epoch
(KIP-320) · 11 rack and preferred replica (KIP-392) · 12 flexible, diverging epoch (KIP-595) · 13 topic ids · 15 replica
state · 16 node endpoints (KIP-951) · 17 directory id · 18 high watermark of the follower.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    ReservedRecords,
    Struct,
    Uuid,
    since,
    tagged,
    until,
)


class ReplicaState(Struct):
    """Who fetches, when it is a follower."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    """Where to read one partition, and how much at most."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, since(17), tagged(0)] = ZERO_UUID
    high_watermark: Annotated[Int64, since(18), tagged(1)] = 9223372036854775807


class FetchTopic(Struct):
    """The partitions of one topic to read."""

    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(Struct):
    """Partitions to drop from the fetch session."""

    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[Int32] = []


@request(key=1, versions=(4, 18), flexible=12)
class FetchRequest(Struct):
    """Read from partitions; wait up to max_wait_ms until min_bytes are there."""

    cluster_id: Annotated[str | None, since(12), tagged(0)] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState | None, since(15), tagged(1)] = None
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, since(7)] = 0
    session_epoch: Annotated[Int32, since(7)] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = []
    rack_id: Annotated[str, since(11)] = ""


class EpochEndOffset(Struct):
    """Where the reader's log diverges from the leader's."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    """Who leads the partition now."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    """The metadata snapshot to fetch instead."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    """A transaction whose records a read_committed reader must skip."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(Struct):
    """One partition's state and records."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, since(12), tagged(0)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, since(12), tagged(1)] = None
    snapshot_id: Annotated[SnapshotId | None, since(12), tagged(2)] = None
    aborted_transactions: list[AbortedTransaction] | None = []
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: ReservedRecords = None


class FetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[PartitionData] = []


class NodeEndpoint(Struct):
    """How to reach a broker named as a leader."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


@response(key=1, versions=(4, 18), flexible=12)
class FetchResponse(Struct):
    """The records of each partition asked for."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(7)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tagged(0)] = []
