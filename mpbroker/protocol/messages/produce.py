"""Produce (key 0): append record batches to partitions.

Shapes only; any process. Versions 0 to 2 carried older record formats; they are here because they are advertised.
3 transactional id · 5 log start offset · 8 errors per record · 9 flexible · 10 leader hints (KIP-951) · 13 topic ids.
With acks=0 there is no response.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int16, Int32, Int64, Records, Struct, Uuid, since, tagged, until


class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: Int32 = 0
    records: Records = None


class TopicProduceData(Struct):
    """The batches for one topic."""

    name: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: list[PartitionProduceData] = []


@request(key=0, versions=(0, 13), flexible=9)
class ProduceRequest(Struct):
    """Append record batches; acks is 0 (no response), 1 (leader) or -1 (all in-sync replicas)."""

    transactional_id: Annotated[str | None, since(3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []


class BatchIndexAndErrorMessage(Struct):
    """One record that was refused, by its index in the batch."""

    batch_index: Int32 = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Struct):
    """Who leads the partition now."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    """Where the first record went, or why nothing was appended."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, since(2)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8)] = []
    error_message: Annotated[str | None, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, since(10), tagged(0)] = None


class TopicProduceResponse(Struct):
    """The results of one topic."""

    name: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = []


class NodeEndpoint(Struct):
    """How to reach a broker named as a leader."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


@response(key=0, versions=(0, 13), flexible=9)
class ProduceResponse(Struct):
    """What happened to each partition's batches."""

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tagged(0)] = []
