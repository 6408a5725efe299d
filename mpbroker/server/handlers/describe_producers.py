"""DescribeProducers (key 61), version 0: the idempotent producers that a partition knows, each with its epoch, last
sequence, and the first offset of the transaction that it has open (KIP-664).

This is how `kafka-transactions.sh find-hanging` looks for transactions that nobody will end. A partition whose lock a
stopped process holds is answered with REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.log.producer_snapshot import ProducerEntry
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: DescribeProducersRequest) -> DescribeProducersResponse:
    context.metadata.refresh()
    topics = []
    for asked in message.topics:
        topic = context.metadata.topic(asked.name)
        partitions = [_describe(context, topic, index) for index in asked.partition_indexes]
        topics.append(TopicResponse(name=asked.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _describe(context: ServerContext, topic: Topic | None, index: int) -> PartitionResponse:
    if topic is None or not 0 <= index < len(topic.partitions):
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ordinal = topic.partitions[index]
    if context.log_manager.is_offline(ordinal):
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        _, rows = context.log_manager.log.producer_entries(ordinal)
    except RuntimeError:  # its lock is not to be had
        return _refused(index, ErrorCode.REQUEST_TIMED_OUT)
    return PartitionResponse(partition_index=index, active_producers=[_state(ProducerEntry(*row)) for row in rows])


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first,
    )


def _refused(index: int, code: int) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=ERRORS[code].sentence)


def failed(message: DescribeProducersRequest, version: int, code: int) -> DescribeProducersResponse:
    topics = [
        TopicResponse(name=topic.name, partitions=[_refused(index, code) for index in topic.partition_indexes])
        for topic in message.topics
    ]
    return DescribeProducersResponse(topics=topics)


API = Api(
    key=ApiKey.DESCRIBE_PRODUCERS,
    versions=(0, 0),
    request=DescribeProducersRequest,
    handle=handle,
    failed=failed,
)
