"""ListOffsets (key 2): the offset of a timestamp, or of the log's start (-2) or end (-1).

Shapes only; any process. 2 isolation level · 4 leader epoch · 6 flexible · 7 largest timestamp (-3) · 8 local log start
(-4) · 9 tiered offset (-5) · 10 timeout · 11 earliest pending upload (-6). Version 0 (a list of offsets) is left out.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Int64, Struct, since


class ListOffsetsPartition(Struct):
    """One partition and the timestamp (ms) to look for."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(4)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = []


@request(key=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest(Struct):
    """Look up offsets by timestamp."""

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[Int32, since(10)] = 0


class ListOffsetsPartitionResponse(Struct):
    """Offset and timestamp (ms) of the record found; -1 when there is none."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


class ListOffsetsTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


@response(key=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse(Struct):
    """The offsets found."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[ListOffsetsTopicResponse] = []
