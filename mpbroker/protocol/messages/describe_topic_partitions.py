"""DescribeTopicPartitions (key 75): topics with their partitions, page by page (KIP-966).

Shapes only; any process.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int16, Int32, Struct, Uuid


class TopicRequest(Struct):
    """One topic."""

    name: str = ""


class Cursor(Struct):
    """The first partition of the next page."""

    topic_name: str = ""
    partition_index: Int32 = 0


@request(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest(Struct):
    """Ask for some topics, or with none for all, from a cursor on."""

    topics: list[TopicRequest] = []
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    """Leader and replicas of one partition, by broker id."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    eligible_leader_replicas: list[Int32] | None = []
    last_known_elr: list[Int32] | None = []
    offline_replicas: list[Int32] = []


class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic and its partitions of this page."""

    error_code: Int16 = 0
    name: str | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: Int32 = -2147483648


@response(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse(Struct):
    """At most as many partitions as were asked for, and where to go on."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
