"""ShareGroupDescribe (key 77), version 1: refused, as by a Kafka 4 whose `share.version` is 0 (KIP-932)."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseGroup,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    return failed(message, request.api_version, ErrorCode.UNSUPPORTED_VERSION)


def failed(message: ShareGroupDescribeRequest, version: int, code: int) -> ShareGroupDescribeResponse:
    groups = [ShareGroupDescribeResponseGroup(code, group_id=one) for one in message.group_ids]
    return ShareGroupDescribeResponse(groups=groups)


API = Api(
    key=ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), request=ShareGroupDescribeRequest, handle=handle, failed=failed
)
