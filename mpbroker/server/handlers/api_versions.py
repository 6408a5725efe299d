"""ApiVersions (key 18), versions 0 to 3: which APIs and versions this broker serves. KIP-35, KIP-511.

The list is computed from the handler table. A version the broker does not know is answered in version 0 with error 35
and key 18 alone, so that a newer client can fall back. The response header is always version 0.
"""

from __future__ import annotations

import re

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext

VERSIONS = (0, 3)
_SOFTWARE_TEXT = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _advertised(context: ServerContext) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in context.apis.versions().items()
    ]


def _names_software(message: ApiVersionsRequest) -> bool:
    """KIP-511: letters, digits, and dots or dashes inside."""
    return bool(
        _SOFTWARE_TEXT.fullmatch(message.client_software_name)
        and _SOFTWARE_TEXT.fullmatch(message.client_software_version)
    )


def handle(context: ServerContext, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    if request.api_version >= 3 and not _names_software(message):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=_advertised(context))


def failed(message: ApiVersionsRequest | None, version: int, code: int) -> ApiVersionsResponse:
    keys = []
    if code == ErrorCode.UNSUPPORTED_VERSION:
        keys = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=VERSIONS[0], max_version=VERSIONS[1])]
    return ApiVersionsResponse(error_code=code, api_keys=keys)


API = Api(key=ApiKey.API_VERSIONS, versions=VERSIONS, request=ApiVersionsRequest, handle=handle, failed=failed)
