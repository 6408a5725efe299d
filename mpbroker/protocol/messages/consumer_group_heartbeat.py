"""ConsumerGroupHeartbeat (key 68): be a member of a group of the next-generation protocol (KIP-848).

Shapes only; any process. 1 regular expressions, and the client makes its own member id (KIP-1082).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int16, Int32, Struct, Uuid, since


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct):
    """Partitions of one topic that the member reads."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = []


@request(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest(Struct):
    """Epoch 0 joins, -1 leaves, -2 leaves for a while (static members). Null or -1: as it was."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, since(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    """Partitions of one topic that the member may read at once."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = []


class ConsumerGroupHeartbeatResponseAssignment(Struct):
    """All that the member may read."""

    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = []


@response(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatResponse(Struct):
    """The member's epoch; the assignment only when it changed, or the request was a full one."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = None
