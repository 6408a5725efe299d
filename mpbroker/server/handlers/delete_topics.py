"""DeleteTopics (key 20), versions 0 to 3: the controller deletes; the answer waits until the topics are gone.

Files are renamed at once and removed by the log keeper later; a topic created again under the name is empty.
"""

from __future__ import annotations

from collections import Counter

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import DeleteTopics
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from mpbroker.server.apis import PARKED, Api
from mpbroker.server.controller_commands import park_for_controller


def handle(context, request, message: DeleteTopicsRequest):
    names = Counter(message.topic_names)
    duplicates = [(name, ErrorCode.INVALID_REQUEST) for name, count in names.items() if count > 1]
    wanted = [name for name, count in names.items() if count == 1]
    if not wanted:
        return _response(duplicates)
    if not context.config.delete_topic_enable:
        return _response([(name, ErrorCode.TOPIC_DELETION_DISABLED) for name in names])

    def build(answer):
        if answer is None:
            return _response(duplicates + [(name, ErrorCode.REQUEST_TIMED_OUT) for name in wanted])
        return _response(duplicates + [(result.name, result.error_code) for result in answer.results])

    if park_for_controller(context, request, DeleteTopics(names=wanted), message.timeout_ms, build):
        return PARKED
    return failed(message, request.api_version, ErrorCode.REQUEST_TIMED_OUT)


def _response(results: list[tuple[str, int]]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[DeletableTopicResult(name=name, error_code=code) for name, code in results])


def failed(message: DeleteTopicsRequest, version: int, code: int) -> DeleteTopicsResponse:
    return _response([(name, code) for name in message.topic_names])


API = Api(key=ApiKey.DELETE_TOPICS, versions=(0, 3), request=DeleteTopicsRequest, handle=handle, failed=failed)
