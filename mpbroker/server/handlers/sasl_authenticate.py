"""SaslAuthenticate (key 36), versions 0 to 2 (KIP-152): refused as by a Kafka listener without SASL."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext

WHY = "This listener asks nobody who they are."


def handle(context: ServerContext, request: Request, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return failed(message, request.api_version, ErrorCode.ILLEGAL_SASL_STATE)


def failed(message: SaslAuthenticateRequest, version: int, code: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=WHY)


API = Api(key=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), request=SaslAuthenticateRequest, handle=handle, failed=failed)
