"""ListGroups (key 16): the groups a broker coordinates.

Shapes only; any process. 1 throttle time · 3 flexible · 4 filter by state (KIP-518) · 5 filter by type (KIP-848).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct, since


@request(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest(Struct):
    """Ask for groups; an empty filter takes all."""

    states_filter: Annotated[list[str], since(4)] = []
    types_filter: Annotated[list[str], since(5)] = []


class ListedGroup(Struct):
    """One group."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, since(4)] = ""
    group_type: Annotated[str, since(5)] = ""


@response(key=16, versions=(0, 5), flexible=3)
class ListGroupsResponse(Struct):
    """The groups."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []
