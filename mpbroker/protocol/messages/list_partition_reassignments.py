"""ListPartitionReassignments (key 46): partitions that move between brokers now.

Shapes only; any process.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


@request(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(Struct):
    """Ask about some partitions, or with null about all."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = []


class OngoingPartitionReassignment(Struct):
    """One partition, by broker ids."""

    partition_index: Int32 = 0
    replicas: list[Int32] = []
    adding_replicas: list[Int32] = []
    removing_replicas: list[Int32] = []


class OngoingTopicReassignment(Struct):
    """Moving partitions of one topic."""

    name: str = ""
    partitions: list[OngoingPartitionReassignment] = []


@response(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(Struct):
    """Those that move."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    topics: list[OngoingTopicReassignment] = []
