"""CreateTopics (key 19), versions 0 to 4: the controller creates, this handler asks and waits.

Every check that concerns the topic itself (names, counts, assignments, settings) is the controller's, so that
auto-creation obeys the same. The answer keeps the request's order. A topic that was created but is not yet visible
when the request's own timeout passes is answered REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections import Counter

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreateTopics, NewTopic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from mpbroker.server.apis import PARKED, Api
from mpbroker.server.controller_commands import park_for_controller


def handle(context, request, message: CreateTopicsRequest):
    names = Counter(topic.name for topic in message.topics)
    wanted = [_new_topic(topic) for topic in message.topics if names[topic.name] == 1]
    duplicates = [name for name, count in names.items() if count > 1]
    if not wanted:
        return _response(duplicates, [])
    command = CreateTopics(topics=wanted, validate_only=message.validate_only)

    def build(answer):
        if answer is None:
            return _response(duplicates, [(t.name, ErrorCode.REQUEST_TIMED_OUT, None) for t in wanted])
        return _response(duplicates, [(r.name, r.error_code, r.error_message) for r in answer.results])

    if park_for_controller(context, request, command, message.timeout_ms, build):
        return PARKED
    return failed(message, request.api_version, ErrorCode.REQUEST_TIMED_OUT)


def _new_topic(topic) -> NewTopic:
    return NewTopic(name=topic.name, num_partitions=topic.num_partitions, replication_factor=topic.replication_factor,
                    assignments={a.partition_index: list(a.broker_ids) for a in topic.assignments} or None,
                    assignment_count=len(topic.assignments),
                    configs={config.name: config.value for config in topic.configs})


def _response(duplicates: list[str], results) -> CreateTopicsResponse:
    topics = [_result(name, ErrorCode.INVALID_REQUEST, "The topic is named more than once in this request.")
              for name in duplicates]
    topics += [_result(name, code, text) for name, code, text in results]
    return CreateTopicsResponse(topics=topics)


def _result(name: str, code: int, text: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=text if code else None)


def failed(message: CreateTopicsRequest, version: int, code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_result(topic.name, code, None) for topic in message.topics])


API = Api(key=ApiKey.CREATE_TOPICS, versions=(0, 4), request=CreateTopicsRequest, handle=handle, failed=failed)
