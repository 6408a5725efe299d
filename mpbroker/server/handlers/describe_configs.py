"""DescribeConfigs (key 32), versions 0 to 4: the settings of topics, of this broker and of groups, with where each
came from. From version 3 on with their types and, if asked for, what each is (KIP-569).

A broker without a name stands for what was set for all brokers. Not done: broker loggers (an empty list).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.topic_names import illegal_name_sentence
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
KNOWN_TYPES = frozenset((TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP))
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")


def handle(context: ServerContext, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    if any(resource.resource_type not in KNOWN_TYPES for resource in message.resources):
        return failed(message, request.api_version, ErrorCode.INVALID_REQUEST)  # all of them, as in Kafka
    context.metadata.refresh()
    return DescribeConfigsResponse(results=[_describe(context, message, resource) for resource in message.resources])


def _describe(
    context: ServerContext, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    if resource.resource_type == TOPIC:
        return _describe_topic(context, message, resource)
    if resource.resource_type == BROKER:
        return _describe_broker(context, message, resource)
    if resource.resource_type == GROUP:
        return _describe_group(context, message, resource)
    return _describe_nothing(context, message, resource)


def _describe_topic(
    context: ServerContext, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    name = resource.resource_name
    illegal = illegal_name_sentence(name)
    if illegal is not None:
        return _refused(resource, ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    topic = context.metadata.topic(name)
    if topic is None:
        return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return _result(
        message, resource, describe_topic(topic.overrides, context.shown_config(), resource.configuration_keys)
    )


def _describe_broker(
    context: ServerContext, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    if resource.resource_name == "":
        found = describe_cluster_default(context.shown_config(), resource.configuration_keys)
        return _result(message, resource, found)
    sentence = _not_this_broker(context, resource.resource_name, f"{context.node_id} or empty string,")
    if sentence:
        return _refused(resource, ErrorCode.INVALID_REQUEST, sentence)
    return _result(message, resource, describe_broker(context.shown_config(), resource.configuration_keys))


def _describe_group(
    context: ServerContext, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    """Whether there is such a group does not matter."""
    if not resource.resource_name:
        return _refused(resource, ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    config = context.shown_config()
    own = config.dynamic.groups.get(resource.resource_name, {})
    return _result(message, resource, describe_group(own, config, resource.configuration_keys))


def _not_this_broker(context: ServerContext, name: str, expected: str) -> str:
    """Why a name is not this broker's id; empty when it is."""
    if not _INTEGER.fullmatch(name):
        return f"Broker id must be an integer, but it is: {name}"
    return "" if int(name) == context.node_id else f"Unexpected broker id, expected {expected} but received {name}"


def _describe_nothing(
    context: ServerContext, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    """Loggers of a broker and client metrics: there are none of either, but names are checked."""
    loggers = resource.resource_type == BROKER_LOGGER
    if not resource.resource_name:
        sentence = "Broker id must not be empty" if loggers else "Client metrics subscription name must not be empty"
    else:
        sentence = _not_this_broker(context, resource.resource_name, str(context.node_id)) if loggers else ""
    if sentence:
        return _refused(resource, ErrorCode.INVALID_REQUEST, sentence)
    return _result(message, resource, [])


def _result(
    message: DescribeConfigsRequest, resource: DescribeConfigsResource, entries: Sequence[ConfigEntry]
) -> DescribeConfigsResult:
    # Kafka says "" where there is no error, not null.
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_row(message, e) for e in entries],
    )


def _row(message: DescribeConfigsRequest, row: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = []
    # Version 0 has is_default in place of the source; Kafka 3.9 leaves it false for every setting, and so do we.
    if message.include_synonyms:
        synonyms = [DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in row.synonyms]
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_default=False,
        is_sensitive=row.sensitive,
        synonyms=synonyms,
        config_type=row.kind,
        documentation=row.sentence if message.include_documentation else None,
    )


def _refused(resource: DescribeConfigsResource, code: int, text: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def failed(message: DescribeConfigsRequest, version: int, code: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_refused(resource, code, ERRORS[code].sentence) for resource in message.resources]
    )


API = Api(key=ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), request=DescribeConfigsRequest, handle=handle, failed=failed)
