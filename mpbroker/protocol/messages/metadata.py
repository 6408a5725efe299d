"""Metadata (key 3): brokers, topics, partitions and their leaders.

Shapes only; any process. 0 to 3 imply auto-creation · 1 null topics means all, [] none · 4 flag for auto-creation · 5
offline replicas · 7 leader epoch · 8 authorized operations · 9 flexible · 10 topic ids · 13 error for the whole answer.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int16, Int32, Struct, Uuid, nullable_since, since, until


class MetadataRequestTopic(Struct):
    """A topic by name, or by id."""

    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[str | None, nullable_since(10)] = ""


@request(key=3, versions=(0, 13), flexible=9)
class MetadataRequest(Struct):
    """Ask for some topics, or with null for all."""

    topics: Annotated[list[MetadataRequestTopic] | None, nullable_since(1)] = []
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, since(8), until(10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


class MetadataResponseBroker(Struct):
    """A broker's address on the listener that was asked."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, since(1)] = None


class MetadataResponsePartition(Struct):
    """Leader and replicas of one partition, by broker id."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, since(7)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], since(5)] = []


class MetadataResponseTopic(Struct):
    """One topic and its partitions."""

    error_code: Int16 = 0
    name: Annotated[str | None, nullable_since(12)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[bool, since(1)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, since(8)] = -2147483648


@response(key=3, versions=(0, 13), flexible=9)
class MetadataResponse(Struct):
    """The cluster as this broker sees it."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, since(2)] = None
    controller_id: Annotated[Int32, since(1)] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[Int32, since(8), until(10)] = -2147483648
    error_code: Annotated[Int16, since(13)] = 0
