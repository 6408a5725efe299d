"""OffsetForLeaderEpoch (key 23): where the records of a leader epoch end.

Shapes only; any process. 1 the epoch found · 2 throttle time, the client's leader epoch · 3 who asks · 4 flexible.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since


class OffsetForLeaderPartition(Struct):
    """One partition and the epoch asked about."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(2)] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


@request(key=23, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest(Struct):
    """Ask where epochs end; a reader that changes leaders cuts its log there."""

    replica_id: Annotated[Int32, since(3)] = -2
    topics: list[OffsetForLeaderTopic] = []


class EpochEndOffset(Struct):
    """The largest epoch not above the one asked about, and the offset behind its last record; -1: not known."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, since(1)] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    """The partitions of one topic."""

    topic: str = ""
    partitions: list[EpochEndOffset] = []


@response(key=23, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochResponse(Struct):
    """Where each epoch ends."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[OffsetForLeaderTopicResult] = []
