"""DescribeGroups (key 15): state and members of groups.

Shapes only; any process. 1 throttle time · 3 authorized operations · 4 static members · 5 flexible.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct, since


@request(key=15, versions=(0, 5), flexible=5)
class DescribeGroupsRequest(Struct):
    """Ask for some groups by id."""

    groups: list[str] = []
    include_authorized_operations: Annotated[bool, since(3)] = False


class DescribedGroupMember(Struct):
    """One member; metadata and assignment only while the group is Stable."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(4)] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct):
    """One group; an unknown one is Dead."""

    error_code: Int16 = 0
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, since(3)] = -2147483648


@response(key=15, versions=(0, 5), flexible=5)
class DescribeGroupsResponse(Struct):
    """The groups in the order asked."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    groups: list[DescribedGroup] = []
