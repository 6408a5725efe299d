"""ShareFetch (key 78), versions 1 and 2: refused, as by a Kafka 4 whose `share.version` is 0 (KIP-932)."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: ShareFetchRequest) -> ShareFetchResponse:
    return failed(message, request.api_version, ErrorCode.UNSUPPORTED_VERSION)


def failed(message: ShareFetchRequest, version: int, code: int) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=code)


API = Api(key=ApiKey.SHARE_FETCH, versions=(1, 2), request=ShareFetchRequest, handle=handle, failed=failed)
