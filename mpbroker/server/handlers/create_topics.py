"""CreateTopics (key 19), versions 0 to 7: the controller creates, this handler asks and waits.

Every check that concerns the topic itself (names, counts, assignments, settings) is the controller's, so that
auto-creation obeys the same. A topic that is not visible when the request's own timeout passes is answered
REQUEST_TIMED_OUT.

From version 5 on the answer tells how many partitions a topic has, and its settings with their sources (KIP-525); from
version 7 on its id. What was only checked is told as it would have become.
"""

from __future__ import annotations

import os
from operator import attrgetter

from mpbroker.channel.handler_port import Request
from mpbroker.config.describe import describe_topic
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreateTopics, NewTopic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.server_context import ServerContext
from mpbroker.server.topic_commands import Result, run_topic_command

DESCRIBED_SINCE = 5
BROKERS_DEFAULT = -1


def handle(context: ServerContext, request: Request, message: CreateTopicsRequest) -> Outcome:
    return run_topic_command(
        context,
        request,
        message.topics,
        lambda topic: topic.name,
        lambda topics: CreateTopics(
            topics=[_new_topic(topic) for topic in topics], validate_only=message.validate_only
        ),
        message.timeout_ms,
        lambda results: _described(context, request, message, results),
    )


def _described(
    context: ServerContext, request: Request, message: CreateTopicsRequest, results: list[Result]
) -> CreateTopicsResponse:
    """The answer, with what the topics became: it is in the metadata before the controller answers."""
    response = _response(results)
    if request.api_version >= DESCRIBED_SINCE:
        asked = {topic.name: topic for topic in message.topics}
        for result in response.topics:
            if result.error_code == ErrorCode.NONE:
                _describe(context, result, asked[result.name], message.validate_only)
    return response


def _describe(context: ServerContext, result: CreatableTopicResult, asked: CreatableTopic, validate_only: bool) -> None:
    topic = None if validate_only else context.metadata.topic(result.name)
    if topic is not None:
        result.topic_id = topic.id
        result.num_partitions = len(topic.partitions)
        overrides = topic.overrides
    else:
        result.topic_id = os.urandom(16)  # as Kafka, which gives one to what it only checks
        counted = context.config.num_partitions if asked.num_partitions == BROKERS_DEFAULT else asked.num_partitions
        result.num_partitions = len(asked.assignments) or counted
        overrides = {config.name: config.value for config in asked.configs if config.value is not None}
    result.replication_factor = 1  # there is one broker
    result.configs = [
        CreatableTopicConfigs(
            name=row.name,
            value=row.value,
            read_only=row.read_only,
            config_source=row.source,
            is_sensitive=row.sensitive,
        )
        for row in sorted(describe_topic(overrides, context.config), key=attrgetter("name"))
    ]


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(a.partition_index, list(a.broker_ids)) for a in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _response(results: list[Result]) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=name, error_code=code, error_message=text if code else None)
            for name, code, text in results
        ]
    )


def failed(message: CreateTopicsRequest, version: int, code: int) -> CreateTopicsResponse:
    return _response([(topic.name, code, None) for topic in message.topics])


API = Api(key=ApiKey.CREATE_TOPICS, versions=(0, 7), request=CreateTopicsRequest, handle=handle, failed=failed)
