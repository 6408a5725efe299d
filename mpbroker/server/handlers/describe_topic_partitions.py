"""DescribeTopicPartitions (key 75), version 0: topics with their partitions, page by page (KIP-966).

Topics come in the order of their names, at most as many partitions as asked for and never more than 2000; a cursor says
where the next page begins, and must name one of the topics asked for. No topics means all of them. There is one
replica, so no partition has eligible leaders besides its in-sync replicas.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.metadata.topic_names import is_legal_topic_name
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from mpbroker.protocol.messages.metadata import MetadataResponsePartition
from mpbroker.server.apis import Api
from mpbroker.server.handlers.metadata import TOPIC_OPERATIONS, partition_of
from mpbroker.server.server_context import ServerContext

MAX_PARTITIONS = 2000  # Kafka's max.request.partition.size.limit


def handle(
    context: ServerContext, request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    context.metadata.refresh()
    if context.cluster is not None:
        context.cluster.refresh()
    names = {topic.name for topic in message.topics}
    if "" in names:
        return failed(message, request.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which knows no better
    cursor = message.cursor
    if cursor is not None and (cursor.partition_index < 0 or (names and cursor.topic_name not in names)):
        return failed(message, request.api_version, ErrorCode.INVALID_REQUEST)
    wanted = names or {topic.name for topic in context.metadata.topics()}
    begin = cursor.topic_name if cursor is not None else ""
    limit = max(min(message.response_partition_limit, MAX_PARTITIONS), 1)
    return _page(context, request, sorted(name for name in wanted if name >= begin), cursor, limit)


def _page(
    context: ServerContext, request: Request, names: list[str], cursor: Cursor | None, limit: int
) -> DescribeTopicPartitionsResponse:
    response, left = DescribeTopicPartitionsResponse(topics=[]), limit
    for name in names:
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = context.metadata.topic(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        numbers = range(first, min(first + left, len(topic.partitions)))
        response.topics.append(_described(context, request, topic, numbers))
        left -= len(numbers)
        if numbers and numbers.stop < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=numbers.stop)
            break
    return response


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    legal = is_legal_topic_name(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _partition(found: MetadataResponsePartition) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=found.error_code,
        partition_index=found.partition_index,
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        replica_nodes=found.replica_nodes,
        isr_nodes=found.isr_nodes,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=found.offline_replicas,
    )


def _described(
    context: ServerContext, request: Request, topic: Topic, numbers: range
) -> DescribeTopicPartitionsResponseTopic:
    partitions = [
        _partition(partition_of(context, request, topic, number, topic.partitions[number])) for number in numbers
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def failed(message: DescribeTopicPartitionsRequest, version: int, code: int) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in message.topics]
    )


API = Api(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions=(0, 0),
    request=DescribeTopicPartitionsRequest,
    handle=handle,
    failed=failed,
)
