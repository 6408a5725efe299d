"""DeleteGroups (key 42): delete empty groups with their offsets.

Shapes only; any process. 1 as 0 · 2 flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct


@request(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest(Struct):
    """Delete some groups by id."""

    groups_names: list[str] = []


class DeletableGroupResult(Struct):
    """Deleted, or why not."""

    group_id: str = ""
    error_code: Int16 = 0


@response(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse(Struct):
    """What became of each group."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []
