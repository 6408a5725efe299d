"""CreateAcls (key 30): permit somebody something (KIP-140).

Shapes only; any process. 1 kinds of names (KIP-290) · 2 flexible · 3 users as resources.
"""

from typing import Annotated

from mpbroker.protocol.messages.describe_acls import LITERAL
from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since


class AclCreation(Struct):
    """One permission."""

    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Annotated[Int8, since(1)] = LITERAL
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@request(key=30, versions=(0, 3), flexible=2)
class CreateAclsRequest(Struct):
    """Several."""

    creations: list[AclCreation] = []


class AclCreationResult(Struct):
    """Whether one was made."""

    error_code: Int16 = 0
    error_message: str | None = None


@response(key=30, versions=(0, 3), flexible=2)
class CreateAclsResponse(Struct):
    """One for each, in the request's order."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = []
