"""ShareGroupHeartbeat (key 76), version 1: refused, as by a Kafka 4 whose `share.version` is 0 (KIP-932)."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(
    context: ServerContext, request: Request, message: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    return failed(message, request.api_version, ErrorCode.UNSUPPORTED_VERSION)


def failed(message: ShareGroupHeartbeatRequest, version: int, code: int) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code)


API = Api(
    key=ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), request=ShareGroupHeartbeatRequest, handle=handle, failed=failed
)
