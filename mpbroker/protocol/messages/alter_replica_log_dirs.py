"""AlterReplicaLogDirs (key 34): move partitions between the log directories of a broker (KIP-113).

Shapes only; any process. 2 flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct


class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[Int32] = []


class AlterReplicaLogDir(Struct):
    """One directory, by its absolute path."""

    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


@request(key=34, versions=(0, 2), flexible=2)
class AlterReplicaLogDirsRequest(Struct):
    """Say which partitions shall lie in which directory."""

    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Struct):
    """One partition: moving or there already, or why not."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


@response(key=34, versions=(0, 2), flexible=2)
class AlterReplicaLogDirsResponse(Struct):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
