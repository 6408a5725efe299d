"""AlterPartitionReassignments (key 45): move partitions between brokers, or stop that (KIP-455).

Shapes only; any process.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct


class ReassignablePartition(Struct):
    """One partition and its replicas by broker id; null cancels a move."""

    partition_index: Int32 = 0
    replicas: list[Int32] | None = []


class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[ReassignablePartition] = []


@request(key=45, versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsRequest(Struct):
    """Say where replicas shall be."""

    timeout_ms: Int32 = 60000
    topics: list[ReassignableTopic] = []


class ReassignablePartitionResponse(Struct):
    """One partition: accepted, or why not."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class ReassignableTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


@response(key=45, versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsResponse(Struct):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[ReassignableTopicResponse] = []
