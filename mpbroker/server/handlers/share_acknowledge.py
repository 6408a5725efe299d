"""ShareAcknowledge (key 79), versions 1 and 2: refused, as by a Kafka 4 whose `share.version` is 0 (KIP-932)."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    return failed(message, request.api_version, ErrorCode.UNSUPPORTED_VERSION)


def failed(message: ShareAcknowledgeRequest, version: int, code: int) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=code)


API = Api(key=ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), request=ShareAcknowledgeRequest, handle=handle, failed=failed)
