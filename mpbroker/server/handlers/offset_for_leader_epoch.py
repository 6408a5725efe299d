"""OffsetForLeaderEpoch (key 23), versions 0 to 4: where the records of a leader epoch end (KIP-101, KIP-320).

A reader whose last record is of an older epoch learns whether that record is still there; a follower, where its log and
its leader's part. In a broker that is alone the epoch never changes, but a log that Kafka wrote may hold several.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from mpbroker.server.apis import Api
from mpbroker.server.replica_read import check_leadership
from mpbroker.server.server_context import ServerContext


def handle(
    context: ServerContext, request: Request, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    context.metadata.refresh()
    topics = []
    for asked in message.topics:
        topic = context.metadata.topic(asked.topic)
        partitions = [_end(context, topic, partition) for partition in asked.partitions]
        topics.append(OffsetForLeaderTopicResult(topic=asked.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end(context: ServerContext, topic: Topic | None, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    if topic is None or not 0 <= asked.partition < len(topic.partitions):
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ordinal = topic.partitions[asked.partition]
    state = context.log_manager.state(ordinal)
    if state is None:
        return _refused(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    code = check_leadership(state, asked.current_leader_epoch)
    if code:
        return _refused(asked, code)
    end = context.log_manager.end_of_epoch(ordinal, state, asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)


def _refused(asked: OffsetForLeaderPartition, code: int) -> EpochEndOffset:
    return EpochEndOffset(error_code=code, partition=asked.partition)


def failed(message: OffsetForLeaderEpochRequest, version: int, code: int) -> OffsetForLeaderEpochResponse:
    topics = [
        OffsetForLeaderTopicResult(topic=topic.topic, partitions=[_refused(asked, code) for asked in topic.partitions])
        for topic in message.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


API = Api(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=(0, 4),
    request=OffsetForLeaderEpochRequest,
    handle=handle,
    failed=failed,
)
