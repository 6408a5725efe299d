"""CreateTopics (key 19), versions 0 to 4: the controller creates, this handler asks and waits.

Every check that concerns the topic itself (names, counts, assignments, settings) is the controller's, so that
auto-creation obeys the same. A topic that is not visible when the request's own timeout passes is answered
REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.metadata.commands import CreateTopics, NewTopic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.server_context import ServerContext
from mpbroker.server.topic_commands import Result, run_topic_command


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
        _response,
    )


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


API = Api(key=ApiKey.CREATE_TOPICS, versions=(0, 4), request=CreateTopicsRequest, handle=handle, failed=failed)
