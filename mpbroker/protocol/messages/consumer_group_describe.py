"""ConsumerGroupDescribe (key 69): groups of the next-generation protocol in detail (KIP-848).

Shapes only; any process. 1 which protocol each member uses (KIP-1099).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int8, Int16, Int32, Struct, Uuid, nullable_since, since

NEVER_NULL = 99  # a version that does not exist: these structs are always there on the wire


@request(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest(Struct):
    """Ask for groups by id."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False


class ConsumerGroupDescribeResponseTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class ConsumerGroupDescribeResponseAssignment(Struct):
    """Partitions of a member."""

    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = []


class ConsumerGroupDescribeResponseMember(Struct):
    """One member: what it has, and what it is to have. `member_type`: 0 classic, 1 of the new protocol."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    assignment: Annotated[ConsumerGroupDescribeResponseAssignment | None, nullable_since(NEVER_NULL)] = None
    target_assignment: Annotated[ConsumerGroupDescribeResponseAssignment | None, nullable_since(NEVER_NULL)] = None
    member_type: Annotated[Int8, since(1)] = -1


class ConsumerGroupDescribeResponseGroup(Struct):
    """One group."""

    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[ConsumerGroupDescribeResponseMember] = []
    authorized_operations: Int32 = -2147483648


@response(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeResponse(Struct):
    """The groups, each with an error code of its own."""

    throttle_time_ms: Int32 = 0
    groups: list[ConsumerGroupDescribeResponseGroup] = []
