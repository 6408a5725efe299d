"""AlterReplicaLogDirs (key 34), versions 0 to 2: moves of partitions between log directories (KIP-113).

Answered when the move is known and the copy's directory is there; the log keeper makes it (log/replica_mover.py),
and DescribeLogDirs shows how far it is. The directory where a partition lies calls its move off. A directory that is
none of ours is LOG_DIR_NOT_FOUND, whichever partition it names, and one that is offline KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.log.partition_directory import future_name
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext

MAX_NAME_BYTES: Final = 255


def handle(
    context: ServerContext, request: Request, message: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    context.metadata.refresh()
    return _response(message, lambda path, name, number: _move(context, path, name, number))


def _move(context: ServerContext, path: str, name: str, number: int) -> int:
    log_manager = context.log_manager
    topic = context.metadata.topic(name)
    if len(future_name(f"{name}-{number}", bytes(16))) > MAX_NAME_BYTES:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path not in log_manager.data_dirs:
        return ErrorCode.LOG_DIR_NOT_FOUND
    log_dir = log_manager.data_dirs.index(path)
    if not log_manager.log.log_dir_online(log_dir):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if topic is None or not 0 <= number < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ordinal = topic.partitions[number]
    state = log_manager.state(ordinal)
    if state is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return log_manager.ask_move(ordinal, state, topic.id, log_dir)


def _response(message: AlterReplicaLogDirsRequest, code: Callable[[str, str, int], int]) -> AlterReplicaLogDirsResponse:
    """One result for each partition, topic by topic, in the order of the request; of several wishes for one the last
    counts."""
    paths: dict[str, dict[int, str]] = {}
    for directory in message.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                paths.setdefault(topic.name, {})[number] = directory.path
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code(path, name, number))
                    for number, path in wishes.items()
                ],
            )
            for name, wishes in paths.items()
        ]
    )


def failed(message: AlterReplicaLogDirsRequest, version: int, code: int) -> AlterReplicaLogDirsResponse:
    return _response(message, lambda _path, _name, _number: code)


API = Api(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    versions=(0, 2),
    request=AlterReplicaLogDirsRequest,
    handle=handle,
    failed=failed,
)
