"""ShareGroupHeartbeat (key 76): a member of a share group (KIP-932). Shapes only; any process."""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int16, Int32, Struct, Uuid


@request(key=76, versions=(1, 1), flexible=0)
class ShareGroupHeartbeatRequest(Struct):
    """A sign of life; null: as it was."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


class ShareGroupHeartbeatResponseTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = []


class ShareGroupHeartbeatResponseAssignment(Struct):
    """What the member reads from."""

    topic_partitions: list[ShareGroupHeartbeatResponseTopicPartitions] = []


@response(key=76, versions=(1, 1), flexible=0)
class ShareGroupHeartbeatResponse(Struct):
    """The member's epoch, and its assignment when it changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareGroupHeartbeatResponseAssignment | None = None
