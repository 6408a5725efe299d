"""DeleteAcls (key 31): take permissions back, by filters (KIP-140).

Shapes only; any process. 1 kinds of names (KIP-290) · 2 flexible · 3 users as resources.
"""

from typing import Annotated

from mpbroker.protocol.messages.describe_acls import LITERAL
from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since


class DeleteAclsFilter(Struct):
    """Which to delete; null: whatever it is."""

    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Annotated[Int8, since(1)] = LITERAL
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@request(key=31, versions=(0, 3), flexible=2)
class DeleteAclsRequest(Struct):
    """Several filters."""

    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(Struct):
    """One that was deleted, or could not be."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, since(1)] = LITERAL
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Struct):
    """What one filter met."""

    error_code: Int16 = 0
    error_message: str | None = None
    matching_acls: list[DeleteAclsMatchingAcl] = []


@response(key=31, versions=(0, 3), flexible=2)
class DeleteAclsResponse(Struct):
    """One for each filter, in the request's order."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
