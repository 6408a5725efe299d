"""ListConfigResources (key 74), versions 0 and 1: what has settings of its own (KIP-1142): groups that were given some,
topics, brokers. In version 0 the names of subscriptions of client metrics (KIP-714), of which there are none.

Client metrics themselves are not taken: as on a Kafka 3.9 without a plug-in for them GetTelemetrySubscriptions and
PushTelemetry are not declared, and clients send none.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from mpbroker.server.apis import Api
from mpbroker.server.config_commands import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from mpbroker.server.handlers.metadata import brokers_on
from mpbroker.server.server_context import ServerContext

#: In the order of an answer that lists all.
TYPES = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
TYPES_SINCE = 1


def handle(
    context: ServerContext, request: Request, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if request.api_version < TYPES_SINCE:
        return ListConfigResourcesResponse()
    wanted = set(message.resource_types) or set(TYPES)
    if not wanted <= set(TYPES):
        return failed(message, request.api_version, ErrorCode.UNSUPPORTED_VERSION)
    context.metadata.refresh()
    found = [ConfigResource(name, kind) for kind in TYPES if kind in wanted for name in _names(context, request, kind)]
    return ListConfigResourcesResponse(config_resources=found)


def _names(context: ServerContext, request: Request, kind: int) -> list[str]:
    if kind == GROUP:
        return sorted(context.shown_config().dynamic.groups)
    if kind == TOPIC:
        return sorted(topic.name for topic in context.metadata.topics())
    return [str(id) for id, *_ in brokers_on(context, request)] if kind in (BROKER, BROKER_LOGGER) else []


def failed(message: ListConfigResourcesRequest, version: int, code: int) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=code)


API = Api(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    versions=(0, 1),
    request=ListConfigResourcesRequest,
    handle=handle,
    failed=failed,
)
