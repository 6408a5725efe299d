"""ShareGroupDescribe (key 77): share groups in detail (KIP-932). Shapes only; any process."""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int16, Int32, Struct, Uuid, nullable_since

NEVER_NULL = 99  # a version that does not exist: this struct is always there on the wire


@request(key=77, versions=(1, 1), flexible=0)
class ShareGroupDescribeRequest(Struct):
    """Ask for groups by id."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False


class ShareGroupDescribeResponseTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class ShareGroupDescribeResponseAssignment(Struct):
    """Partitions of a member."""

    topic_partitions: list[ShareGroupDescribeResponseTopicPartitions] = []


class ShareGroupDescribeResponseMember(Struct):
    """One member."""

    member_id: str = ""
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assignment: Annotated[ShareGroupDescribeResponseAssignment | None, nullable_since(NEVER_NULL)] = None


class ShareGroupDescribeResponseGroup(Struct):
    """One group."""

    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[ShareGroupDescribeResponseMember] = []
    authorized_operations: Int32 = -2147483648


@response(key=77, versions=(1, 1), flexible=0)
class ShareGroupDescribeResponse(Struct):
    """The groups, each with an error code of its own."""

    throttle_time_ms: Int32 = 0
    groups: list[ShareGroupDescribeResponseGroup] = []
