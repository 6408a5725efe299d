"""DeleteAcls (key 31), versions 0 to 3 (KIP-140): each filter refused as by a Kafka without an authorizer."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from mpbroker.server.apis import MALFORMED, Api, Outcome
from mpbroker.server.handlers.describe_acls import NO_AUTHORIZER, UNKNOWN
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: DeleteAclsRequest) -> Outcome:
    for one in message.filters:
        if UNKNOWN in (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type):
            return MALFORMED
    return failed(message, request.api_version, ErrorCode.SECURITY_DISABLED)


def failed(message: DeleteAclsRequest, version: int, code: int) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, NO_AUTHORIZER) for _ in message.filters])


API = Api(key=ApiKey.DELETE_ACLS, versions=(0, 3), request=DeleteAclsRequest, handle=handle, failed=failed)
