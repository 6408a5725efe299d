"""DescribeLogDirs (key 35), versions 0 to 4: what lies in each log directory, and how full it is (KIP-113, KIP-827).

Null asks about every partition; one that is not here is left out. Sizes are those of the log's segments, without their
indexes. A directory that is offline answers KAFKA_STORAGE_ERROR and nothing else. A partition that moves is shown in
both, in the new one as a future replica with the records that its copy lacks.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import LogDirectory
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    context.metadata.refresh()
    lying: list[list[DescribeLogDirsTopic]] = [[] for _ in context.log_manager.data_dirs]
    for topic, numbers in _asked(context, message):
        for log_dir, described in _described(context, topic, numbers).items():
            lying[log_dir].append(described)
    results = [
        _result(directory, topics) for directory, topics in zip(context.log_manager.directories(), lying, strict=True)
    ]
    return DescribeLogDirsResponse(results=results)


def _result(directory: LogDirectory, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=topics,
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )


def _asked(context: ServerContext, message: DescribeLogDirsRequest) -> Iterator[tuple[Topic, list[int]]]:
    if message.topics is None:
        for topic in context.metadata.topics():
            yield topic, list(range(len(topic.partitions)))
        return
    for asked in message.topics:
        found = context.metadata.topic(asked.topic)
        if found is not None:
            yield found, [number for number in asked.partitions if 0 <= number < len(found.partitions)]


def _described(context: ServerContext, topic: Topic, numbers: list[int]) -> dict[int, DescribeLogDirsTopic]:
    """What of a topic lies in which log directory."""
    found: dict[int, DescribeLogDirsTopic] = {}
    for number in numbers:
        state = context.log_manager.state(topic.partitions[number])
        if state is not None:
            lag = max(state.hw - state.leo, 0)
            partition = DescribeLogDirsPartition(partition_index=number, partition_size=state.log_bytes, offset_lag=lag)
            found.setdefault(state.log_dir, DescribeLogDirsTopic(name=topic.name)).partitions.append(partition)
            future = context.log_manager.future(topic.partitions[number], state)
            if future is not None:
                log_dir, size, lag = future
                copy = DescribeLogDirsPartition(
                    partition_index=number, partition_size=size, offset_lag=lag, is_future_key=True
                )
                found.setdefault(log_dir, DescribeLogDirsTopic(name=topic.name)).partitions.append(copy)
    return found


def failed(message: DescribeLogDirsRequest, version: int, code: int) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code)


API = Api(key=ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 4), request=DescribeLogDirsRequest, handle=handle, failed=failed)
