"""ApiVersions (key 18), versions 0 to 4: which APIs and versions this broker serves. KIP-35, KIP-511, KIP-584.

The list is computed from the handler table. A version the broker does not know is answered in version 0 with error 35
and key 18 alone, so that a newer client can fall back. The response header is always version 0.

From version 3 on the answer names the features of a Kafka 3.9 node (KIP-584): tools show them, and clients that look
for `transaction.version` or `group.version` learn that there are none. A feature whose lowest level is 0 is told from
version 4 on, because older clients refuse it (KAFKA-17011).
"""

from __future__ import annotations

import re

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.features import SUPPORTED
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext

VERSIONS = (0, 4)
LEVEL_0_SINCE = 4  # the version whose clients take a feature that begins at level 0
_SOFTWARE_TEXT = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _advertised(context: ServerContext, request: Request) -> list[ApiVersion]:
    served = context.apis.versions(context.is_between_brokers(request.listener))
    return [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in served.items()]


def _names_software(message: ApiVersionsRequest) -> bool:
    """KIP-511: letters, digits, and dots or dashes inside."""
    return bool(
        _SOFTWARE_TEXT.fullmatch(message.client_software_name)
        and _SOFTWARE_TEXT.fullmatch(message.client_software_version)
    )


def handle(context: ServerContext, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    if request.api_version >= 3 and not _names_software(message):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=_advertised(context, request))
    if request.api_version >= 3:
        _add_features(context, response, request.api_version)
    return response


def _add_features(context: ServerContext, response: ApiVersionsResponse, version: int) -> None:
    levels = context.metadata.features()
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in SUPPORTED.items()
        if low or version >= LEVEL_0_SINCE
    ]
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=levels.of(name), min_version_level=levels.of(name))
        for name in SUPPORTED
        if levels.of(name)
    ]
    response.finalized_features_epoch = levels.epoch


def failed(message: ApiVersionsRequest | None, version: int, code: int) -> ApiVersionsResponse:
    keys = []
    if code == ErrorCode.UNSUPPORTED_VERSION:
        keys = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=VERSIONS[0], max_version=VERSIONS[1])]
    return ApiVersionsResponse(error_code=code, api_keys=keys)


API = Api(key=ApiKey.API_VERSIONS, versions=VERSIONS, request=ApiVersionsRequest, handle=handle, failed=failed)
