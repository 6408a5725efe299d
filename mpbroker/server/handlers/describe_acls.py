"""DescribeAcls (key 29), versions 0 to 3 (KIP-140): answered as by a Kafka without an authorizer."""

from __future__ import annotations

from typing import Final

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from mpbroker.server.apis import MALFORMED, Api, Outcome
from mpbroker.server.server_context import ServerContext

NO_AUTHORIZER: Final = "The broker has no authorizer: everybody may do everything."
UNKNOWN: Final = 0
"""Of every kind of number in an ACL: a request that says it is none, and Kafka closes its connection."""


def handle(context: ServerContext, request: Request, message: DescribeAclsRequest) -> Outcome:
    asked = message.resource_type_filter, message.pattern_type_filter, message.operation, message.permission_type
    if UNKNOWN in asked:
        return MALFORMED
    return failed(message, request.api_version, ErrorCode.SECURITY_DISABLED)


def failed(message: DescribeAclsRequest, version: int, code: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=NO_AUTHORIZER)


API = Api(key=ApiKey.DESCRIBE_ACLS, versions=(0, 3), request=DescribeAclsRequest, handle=handle, failed=failed)
