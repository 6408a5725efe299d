"""AlterReplicaLogDirs (key 34), versions 0 to 2: moves of partitions between log directories (KIP-113).

A partition that lies in the directory already has been moved; a directory that is none of ours is LOG_DIR_NOT_FOUND,
whichever partition it names, and one that is offline KAFKA_STORAGE_ERROR. Moves from one directory to another are not
made: they, too, are refused with KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(
    context: ServerContext, request: Request, message: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    context.metadata.refresh()
    log_manager = context.log_manager

    def code(path: str, name: str, number: int) -> int:
        if path not in log_manager.data_dirs:
            return ErrorCode.LOG_DIR_NOT_FOUND
        topic = context.metadata.topic(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        state = log_manager.state(topic.partitions[number])
        is_there = state is not None and log_manager.data_dirs[state.log_dir] == path
        return ErrorCode.NONE if is_there else ErrorCode.KAFKA_STORAGE_ERROR

    return _response(message, code)


def _response(message: AlterReplicaLogDirsRequest, code: Callable[[str, str, int], int]) -> AlterReplicaLogDirsResponse:
    """One result for each topic that has partitions, in the order of the request."""
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in message.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                result = AlterReplicaLogDirPartitionResult(
                    partition_index=number, error_code=code(directory.path, topic.name, number)
                )
                topics.setdefault(topic.name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in topics.items()
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
