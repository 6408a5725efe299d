"""TxnOffsetCommit (key 28): offsets that are committed if and when their transaction is.

Shapes only; any process. 2 leader epoch · 3 flexible, generation and member · 4 error 120 · 5 adds the group to the
transaction by itself (KIP-890).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since


class TxnOffsetCommitRequestPartition(Struct):
    """One partition: offset of the next record, and text of the client."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


@request(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest(Struct):
    """Commit within a transaction; generation -1 and an empty member id: who commits is not checked."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponsePartition(Struct):
    """What became of one offset."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


@response(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse(Struct):
    """One code for each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
