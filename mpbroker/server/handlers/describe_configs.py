"""DescribeConfigs (key 32), versions 0 to 2: the settings of topics and of this broker, with where each came from.

Not done: broker loggers and the cluster-wide dynamic defaults of an unnamed broker (an empty list), changing anything.
"""

from __future__ import annotations

from mpbroker.config.describe import describe_broker, describe_topic
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import illegal_name_sentence
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from mpbroker.server.apis import Api

TOPIC, BROKER = 2, 4


def handle(context, request, message: DescribeConfigsRequest):
    context.metadata.refresh()
    return DescribeConfigsResponse(results=[_describe(context, message, resource) for resource in message.resources])


def _describe(context, message, resource) -> DescribeConfigsResult:
    if resource.resource_type == TOPIC:
        return _describe_topic(context, message, resource)
    if resource.resource_type == BROKER:
        return _describe_broker(context, message, resource)
    return _refused(resource, ErrorCode.INVALID_REQUEST, "Only topics and brokers have settings to describe.")


def _describe_topic(context, message, resource) -> DescribeConfigsResult:
    name = resource.resource_name
    illegal = illegal_name_sentence(name)
    if illegal is not None:
        return _refused(resource, ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    topic = context.metadata.topic(name)
    if topic is None:
        return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return _result(message, resource, describe_topic(topic.overrides, context.config, resource.configuration_keys))


def _describe_broker(context, message, resource) -> DescribeConfigsResult:
    name, own = resource.resource_name, str(context.node_id)
    if name == "":
        return _result(message, resource, [])
    if not name.lstrip("+-").isdecimal():
        return _refused(resource, ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != own:
        sentence = f"Unexpected broker id, expected {own} or empty string, but received {name}"
        return _refused(resource, ErrorCode.INVALID_REQUEST, sentence)
    return _result(message, resource, describe_broker(context.config, resource.configuration_keys))


def _result(message, resource, entries) -> DescribeConfigsResult:
    # Kafka says "" where there is no error, not null.
    return DescribeConfigsResult(error_code=ErrorCode.NONE, error_message="", resource_type=resource.resource_type,
                                 resource_name=resource.resource_name, configs=[_row(message, e) for e in entries])


def _row(message, row) -> DescribeConfigsResourceResult:
    synonyms = []
    # Version 0 has is_default in place of the source; Kafka 3.9 leaves it false for every setting, and so do we.
    if message.include_synonyms:
        synonyms = [DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in row.synonyms]
    return DescribeConfigsResourceResult(name=row.name, value=row.value, read_only=row.read_only,
                                         config_source=row.source, is_default=False,
                                         is_sensitive=row.sensitive, synonyms=synonyms)


def _refused(resource, code: int, text: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(error_code=code, error_message=text, resource_type=resource.resource_type,
                                 resource_name=resource.resource_name, configs=[])


def failed(message: DescribeConfigsRequest, version: int, code: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, code, None) for resource in message.resources])


API = Api(key=ApiKey.DESCRIBE_CONFIGS, versions=(0, 2), request=DescribeConfigsRequest, handle=handle, failed=failed)
