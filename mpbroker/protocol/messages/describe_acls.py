"""DescribeAcls (key 29): who may do what, by a filter (KIP-140).

Shapes only; any process. 1 kinds of names (KIP-290) · 2 flexible · 3 users as resources.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since

LITERAL = 3


@request(key=29, versions=(0, 3), flexible=2)
class DescribeAclsRequest(Struct):
    """What to show; null: whatever it is."""

    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Annotated[Int8, since(1)] = LITERAL
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(Struct):
    """One permission."""

    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(Struct):
    """Those of one resource."""

    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, since(1)] = LITERAL
    acls: list[AclDescription] = []


@response(key=29, versions=(0, 3), flexible=2)
class DescribeAclsResponse(Struct):
    """By resource."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    resources: list[DescribeAclsResource] = []
