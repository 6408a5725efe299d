"""SaslHandshake (key 17), versions 0 and 1: refused as by a Kafka listener without SASL, so that a client that was told
to prove who it is says so, and does not connect again and again."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return failed(message, request.api_version, ErrorCode.ILLEGAL_SASL_STATE)


def failed(message: SaslHandshakeRequest, version: int, code: int) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code)


API = Api(key=ApiKey.SASL_HANDSHAKE, versions=(0, 1), request=SaslHandshakeRequest, handle=handle, failed=failed)
