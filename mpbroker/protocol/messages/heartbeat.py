"""Heartbeat (key 12): a member says that it lives and learns whether a rebalance goes on.

Shapes only; any process. 1 throttle time · 3 static members · 4 flexible.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct, since


@request(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest(Struct):
    """A sign of life in one generation."""

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None


@response(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse(Struct):
    """0, or REBALANCE_IN_PROGRESS: join again."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
