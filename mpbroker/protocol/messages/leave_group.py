"""LeaveGroup (key 13): members leave their group at once instead of by timeout.

Shapes only; any process. 1 throttle time · 3 several members, also by instance id · 4 flexible · 5 reason (KIP-800).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct, since, until


class MemberIdentity(Struct):
    """A member by id, by instance id, or by both."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: Annotated[str | None, since(5)] = None


@request(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest(Struct):
    """Leave; up to version 2 one member."""

    group_id: str = ""
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = []


class MemberResponse(Struct):
    """What became of one member."""

    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: Int16 = 0


@response(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse(Struct):
    """One code up to version 2, then one for each member."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], since(3)] = []
