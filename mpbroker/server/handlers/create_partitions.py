"""CreatePartitions (key 37), versions 0 and 1: raise a topic's partition count (KIP-195). The controller does it."""

from __future__ import annotations

from collections import Counter

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreatePartitions, PartitionCount
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from mpbroker.server.apis import PARKED, Api
from mpbroker.server.controller_commands import park_for_controller


def handle(context, request, message: CreatePartitionsRequest):
    names = Counter(topic.name for topic in message.topics)
    duplicates = [_result(name, ErrorCode.INVALID_REQUEST, "The topic is named more than once in this request.")
                  for name, count in names.items() if count > 1]
    wanted = [_count(topic) for topic in message.topics if names[topic.name] == 1]
    if not wanted:
        return CreatePartitionsResponse(results=duplicates)

    def build(answer):
        if answer is None:
            return _response(duplicates, [(t.name, ErrorCode.REQUEST_TIMED_OUT, None) for t in wanted])
        return _response(duplicates, [(r.name, r.error_code, r.error_message) for r in answer.results])

    command = CreatePartitions(topics=wanted, validate_only=message.validate_only)
    if park_for_controller(context, request, command, message.timeout_ms, build):
        return PARKED
    return failed(message, request.api_version, ErrorCode.REQUEST_TIMED_OUT)


def _count(topic) -> PartitionCount:
    assignments = None if topic.assignments is None else [list(a.broker_ids) for a in topic.assignments]
    return PartitionCount(name=topic.name, count=topic.count, assignments=assignments)


def _response(duplicates, results) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=duplicates + [_result(*result) for result in results])


def _result(name: str, code: int, text: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=text if code else None)


def failed(message: CreatePartitionsRequest, version: int, code: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_result(topic.name, code, None) for topic in message.topics])


API = Api(key=ApiKey.CREATE_PARTITIONS, versions=(0, 1), request=CreatePartitionsRequest, handle=handle, failed=failed)
