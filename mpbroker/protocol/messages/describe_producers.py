"""DescribeProducers (key 61): who writes to a partition, and who has a transaction open in it (KIP-664).

Shapes only; any process.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct


class TopicRequest(Struct):
    """The partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


@request(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest(Struct):
    """Ask for the producers of partitions."""

    topics: list[TopicRequest] = []


class ProducerState(Struct):
    """One producer; −1 where there is nothing to say."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    """One partition's producers."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = []


class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[PartitionResponse] = []


@response(key=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse(Struct):
    """Who writes to each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = []
