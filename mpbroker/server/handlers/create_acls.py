"""CreateAcls (key 30), versions 0 to 3 (KIP-140): each refused as by a Kafka without an authorizer."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from mpbroker.server.apis import MALFORMED, Api, Outcome
from mpbroker.server.handlers.describe_acls import NO_AUTHORIZER, UNKNOWN
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: CreateAclsRequest) -> Outcome:
    for one in message.creations:
        if UNKNOWN in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type):
            return MALFORMED
    return failed(message, request.api_version, ErrorCode.SECURITY_DISABLED)


def failed(message: CreateAclsRequest, version: int, code: int) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, NO_AUTHORIZER) for _ in message.creations])


API = Api(key=ApiKey.CREATE_ACLS, versions=(0, 3), request=CreateAclsRequest, handle=handle, failed=failed)
