"""SyncGroup (key 14): the leader hands in the assignment, every member waits for its own part.

Shapes only; any process. 1 throttle time · 3 static members · 4 flexible · 5 protocol type and name (KIP-559).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct, since


class SyncGroupRequestAssignment(Struct):
    """One member's part of the assignment."""

    member_id: str = ""
    assignment: bytes = b""


@request(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest(Struct):
    """Ask for the assignment; the leader brings it."""

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignments: list[SyncGroupRequestAssignment] = []


@response(key=14, versions=(0, 5), flexible=4)
class SyncGroupResponse(Struct):
    """The member's part, the very bytes its leader sent."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignment: bytes = b""
