"""ListOffsets (key 2), versions 1 to 10: the offset at the start, at the end, or at a timestamp, per partition.

Timestamp −1 is the end a consumer may see (high watermark, or last stable offset when it reads committed records
only), −2 the log start, 0 and later the first record at or after that time, exactly. From version 7 on −3 is the first
record with the largest timestamp (KIP-734), from 8 on −4 the start of the local log, which is the log start here
(KIP-405), from 9 on −5 the end of what is stored remotely, which is nothing (KIP-1005). Other negative timestamps, and
these in older versions: UNSUPPORTED_VERSION for that partition. A partition named twice is INVALID_REQUEST. A new
leader whose high watermark has not come to the start of its epoch does not know the end: OFFSET_NOT_AVAILABLE, before
version 5 LEADER_NOT_AVAILABLE (KIP-207). Version 10 adds a timeout for remote storage, which is not used.
"""

from __future__ import annotations

from collections import Counter

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import PartitionState
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mpbroker.server.apis import Api
from mpbroker.server.replica_read import CONSUMER, ISOLATION_LEVELS, READ_COMMITTED, check_leadership
from mpbroker.server.server_context import ServerContext

LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
START = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED)
NOT_AVAILABLE_SINCE = 5
FIRST_VERSION = {LATEST: 1, EARLIEST: 1, LARGEST: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def handle(context: ServerContext, request: Request, message: ListOffsetsRequest) -> ListOffsetsResponse:
    if message.isolation_level not in ISOLATION_LEVELS:
        return failed(message, request.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which knows no better
    context.metadata.refresh()
    asked = Counter((topic.name, p.partition_index) for topic in message.topics for p in topic.partitions)
    topics = []
    for topic in message.topics:
        known = context.metadata.topic(topic.name)
        partitions = [
            _refused(p, ErrorCode.INVALID_REQUEST)
            if asked[topic.name, p.partition_index] > 1
            else _answer(context, request, message, known, p)
            for p in topic.partitions
        ]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _refused(asked: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)


def _answer(
    context: ServerContext,
    request: Request,
    message: ListOffsetsRequest,
    topic: Topic | None,
    asked: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and request.api_version < FIRST_VERSION.get(asked.timestamp, request.api_version + 1):
        return _refused(asked, ErrorCode.UNSUPPORTED_VERSION)
    if topic is None or not 0 <= asked.partition_index < len(topic.partitions):
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ordinal = topic.partitions[asked.partition_index]
    state = context.log_manager.state(ordinal)
    if state is None:
        return _refused(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    code = check_leadership(state, asked.current_leader_epoch)
    if code:
        return _refused(asked, code)
    found = _found(context, message, topic, ordinal, state, asked)
    depends = asked.timestamp not in START and (asked.timestamp == LATEST or found.offset < 0)
    if depends and not found.error_code and message.replica_id == CONSUMER and state.hw < state.epoch_start:
        later = request.api_version >= NOT_AVAILABLE_SINCE
        return _refused(asked, ErrorCode.OFFSET_NOT_AVAILABLE if later else ErrorCode.LEADER_NOT_AVAILABLE)
    return found


def _found(
    context: ServerContext,
    message: ListOffsetsRequest,
    topic: Topic,
    ordinal: int,
    state: PartitionState,
    asked: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _at(asked, -1, state.log_start, state.leader_epoch)
    if asked.timestamp == LATEST_TIERED:
        return _at(asked, -1, -1, -1)
    end = _visible_end(message, state)
    if asked.timestamp == LATEST:
        return _at(asked, -1, end, state.leader_epoch)
    if asked.timestamp == LARGEST:
        code, found = context.log_manager.offset_of_largest_timestamp(topic, ordinal)
    else:
        code, found = context.log_manager.offset_for_timestamp(topic, ordinal, asked.timestamp)
    if code:
        return _refused(asked, code)
    if found is None or found.offset >= end:
        return _at(asked, -1, -1, -1)
    return _at(asked, found.timestamp_ms, found.offset, found.leader_epoch)


def _visible_end(message: ListOffsetsRequest, state: PartitionState) -> int:
    if message.replica_id != CONSUMER:
        return state.leo
    return state.lso if message.isolation_level == READ_COMMITTED else state.hw


def _at(asked: ListOffsetsPartition, timestamp: int, offset: int, epoch: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def failed(message: ListOffsetsRequest, version: int, code: int) -> ListOffsetsResponse:
    topics = [
        ListOffsetsTopicResponse(name=topic.name, partitions=[_refused(p, code) for p in topic.partitions])
        for topic in message.topics
    ]
    return ListOffsetsResponse(topics=topics)


API = Api(key=ApiKey.LIST_OFFSETS, versions=(1, 10), request=ListOffsetsRequest, handle=handle, failed=failed)
