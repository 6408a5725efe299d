"""ListConfigResources (key 74), version 0: the names of subscriptions of client metrics (KIP-714). There are none.

Client metrics themselves are not taken: as on a Kafka 3.9 without a plug-in for them GetTelemetrySubscriptions and
PushTelemetry are not declared, and clients send none.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(
    context: ServerContext, request: Request, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse()


def failed(message: ListConfigResourcesRequest, version: int, code: int) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=code)


API = Api(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    versions=(0, 0),
    request=ListConfigResourcesRequest,
    handle=handle,
    failed=failed,
)
