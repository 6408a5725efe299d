"""OffsetCommit (key 8): store how far a group has read.

Shapes only; any process. 3 throttle time · 5 no retention any more · 6 leader epoch · 7 static
members · 8 flexible · 9 as 8, for KIP-848.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since, until


class OffsetCommitRequestPartition(Struct):
    """One partition: offset of the next record, and text of the client."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[OffsetCommitRequestPartition] = []


@request(key=8, versions=(2, 9), flexible=8)
class OffsetCommitRequest(Struct):
    """Commit; generation -1 and an empty member id: a consumer without group management."""

    group_id: str = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(7)] = None
    retention_time_ms: Annotated[Int64, until(4)] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(Struct):
    """What became of one offset."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[OffsetCommitResponsePartition] = []


@response(key=8, versions=(2, 9), flexible=8)
class OffsetCommitResponse(Struct):
    """One code for each partition."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: list[OffsetCommitResponseTopic] = []
