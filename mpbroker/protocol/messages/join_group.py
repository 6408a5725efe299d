"""JoinGroup (key 11): become, or stay, a member of a group; answered when the join phase of the rebalance ends.

Shapes only; any process. 1 rebalance timeout (0: the session timeout is it) · 2 throttle time · 4 a new member gets its
id first, with error 79 · 5 static members (KIP-345) · 6 flexible · 7 protocol type in the answer (KIP-559) · 8 reason
(KIP-800) · 9 skip_assignment.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct, nullable_since, since


class JoinGroupRequestProtocol(Struct):
    """One assignment strategy the member offers, best first, with its subscription as bytes."""

    name: str = ""
    metadata: bytes = b""


@request(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest(Struct):
    """Join; an empty member id asks for one."""

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, since(1)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, since(8)] = None


class JoinGroupResponseMember(Struct):
    """A member as its leader sees it."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5)] = None
    metadata: bytes = b""


@response(key=11, versions=(0, 9), flexible=6)
class JoinGroupResponse(Struct):
    """Generation, leader, and for the leader all members."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, since(7)] = None
    protocol_name: Annotated[str | None, nullable_since(7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []
