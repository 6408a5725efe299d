"""CreatePartitions (key 37), versions 0 to 3: raise a topic's partition count (KIP-195). The controller does it."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.metadata.commands import CreatePartitions, PartitionCount
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.server_context import ServerContext
from mpbroker.server.topic_commands import Result, run_topic_command


def handle(context: ServerContext, request: Request, message: CreatePartitionsRequest) -> Outcome:
    return run_topic_command(
        context,
        request,
        message.topics,
        lambda topic: topic.name,
        lambda topics: CreatePartitions(
            topics=[_count(topic) for topic in topics], validate_only=message.validate_only
        ),
        message.timeout_ms,
        _response,
    )


def _count(topic: CreatePartitionsTopic) -> PartitionCount:
    assignments = None if topic.assignments is None else [list(a.broker_ids) for a in topic.assignments]
    return PartitionCount(name=topic.name, count=topic.count, assignments=assignments)


def _response(results: list[Result]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=text if code else None)
            for name, code, text in results
        ]
    )


def failed(message: CreatePartitionsRequest, version: int, code: int) -> CreatePartitionsResponse:
    return _response([(topic.name, code, None) for topic in message.topics])


API = Api(key=ApiKey.CREATE_PARTITIONS, versions=(0, 3), request=CreatePartitionsRequest, handle=handle, failed=failed)
