"""ElectLeaders (key 43): have partitions led by their preferred, or by any, replica.

Shapes only; any process. 1 unclean elections, error for the whole answer · 2 flexible.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = ""
    partitions: list[Int32] = []


@request(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest(Struct):
    """Elect leaders of some partitions, or with null of all. Type 0: the preferred replica; 1: any that lives."""

    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    """One partition: elected, or why not."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class ReplicaElectionResult(Struct):
    """The partitions of one topic."""

    topic: str = ""
    partition_result: list[PartitionResult] = []


@response(key=43, versions=(0, 2), flexible=2)
class ElectLeadersResponse(Struct):
    """What became of each election."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []
