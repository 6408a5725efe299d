"""DeleteTopics (key 20), versions 0 to 6: the controller deletes; the answer waits until the topics are gone.

With delete.topic.enable=false every name is refused, also one given twice: with error 73, before version 3 with 42.
Files are renamed at once and removed by the log keeper later; a topic created again under the name is empty.

Version 6 names a topic by name or by id (KIP-516): with both or neither it is INVALID_REQUEST, as is a topic that was
named twice in any way. An id that is not known is UNKNOWN_TOPIC_ID; so is one whose topic went before the controller
came to it: a topic made again under the name is never taken for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.commands import DeleteTopics
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from mpbroker.protocol.types import ZERO_UUID
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.server_context import ServerContext
from mpbroker.server.topic_commands import Result, run_topic_command

DISABLED_SINCE = 3  # the version that knows TOPIC_DELETION_DISABLED
IDS_SINCE = 6


class Target(NamedTuple):
    """A topic to delete: its name, its id if it is known, and whether it was asked for by that."""

    name: str
    topic_id: bytes
    by_id: bool


def handle(context: ServerContext, request: Request, message: DeleteTopicsRequest) -> Outcome:
    if not context.config.delete_topic_enable:
        known = request.api_version >= DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return failed(message, request.api_version, code)
    if request.api_version < IDS_SINCE:
        return _delete(context, request, message, [Target(name, ZERO_UUID, False) for name in message.topic_names], [])
    context.metadata.refresh()
    return _delete(context, request, message, *_resolved(context, message.topics))


def _delete(
    context: ServerContext,
    request: Request,
    message: DeleteTopicsRequest,
    targets: list[Target],
    refused: list[DeletableTopicResult],
) -> Outcome:
    """`refused`: what is answered about topics that are none of the targets."""
    ids = {target.name: target.topic_id for target in targets}

    def build(results: list[Result]) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(
            responses=[_result(name, ids[name], code, sentence) for name, code, sentence in results] + refused
        )

    return run_topic_command(
        context,
        request,
        targets,
        lambda target: target.name,
        lambda part: DeleteTopics(
            names=[target.name for target in part],
            ids={target.name: target.topic_id for target in part if target.by_id},
        ),
        message.timeout_ms,
        build,
    )


def _resolved(
    context: ServerContext, asked: Iterable[DeleteTopicState]
) -> tuple[list[Target], list[DeletableTopicResult]]:
    """Version 6: which topics are meant, and the answers about those that are none or were named twice."""
    counts = Counter((topic.name, topic.topic_id) for topic in asked)
    targets: dict[str, Target] = {}
    refused: list[DeletableTopicResult] = []
    twice: set[str] = set()
    for (name, topic_id), count in counts.items():
        if (name is None) == (topic_id == ZERO_UUID):
            refused += [_result(name, topic_id, ErrorCode.INVALID_REQUEST)] * count
            continue
        if count > 1:
            refused.append(_result(name, topic_id, ErrorCode.INVALID_REQUEST))
            continue
        target = _target(context, name, topic_id)
        if target is None:
            refused.append(_result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif target.name in targets:
            twice.add(target.name)
        else:
            targets[target.name] = target
    refused += [_result(name, targets.pop(name).topic_id, ErrorCode.INVALID_REQUEST) for name in twice]
    return list(targets.values()), refused


def _target(context: ServerContext, name: str | None, topic_id: bytes) -> Target | None:
    if name is not None:
        topic = context.metadata.topic(name)
        return Target(name, topic.id if topic is not None else ZERO_UUID, False)
    topic = context.metadata.topic_by_id(topic_id)
    return Target(topic.name, topic_id, True) if topic is not None else None


def _result(name: str | None, topic_id: bytes, code: int, sentence: str | None = None) -> DeletableTopicResult:
    silent = code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)  # Kafka gives up without a word
    told = None if silent else sentence or ERRORS[code].sentence
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=told)


def failed(message: DeleteTopicsRequest, version: int, code: int) -> DeleteTopicsResponse:
    asked = message.topics if version >= IDS_SINCE else [DeleteTopicState(name=name) for name in message.topic_names]
    return DeleteTopicsResponse(responses=[_result(topic.name, topic.topic_id, code) for topic in asked])


API = Api(key=ApiKey.DELETE_TOPICS, versions=(0, 6), request=DeleteTopicsRequest, handle=handle, failed=failed)
