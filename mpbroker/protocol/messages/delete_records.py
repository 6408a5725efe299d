"""DeleteRecords (key 21): give up the oldest records of partitions (KIP-107).

Shapes only; any process. 2 flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct


class DeleteRecordsPartition(Struct):
    """One partition, and the offset that its log shall begin at; −1: the high watermark."""

    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Struct):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


@request(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest(Struct):
    """Move the beginning of logs."""

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Struct):
    """One partition: where every replica's log begins now, or why not."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


@response(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse(Struct):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []
