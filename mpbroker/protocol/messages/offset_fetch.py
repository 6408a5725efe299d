"""OffsetFetch (key 9): how far a group has read.

Shapes only; any process. 2 null topics means all, one code on top · 3 throttle time · 5 leader epoch ·
6 flexible · 7 require_stable · 8 several groups, a code for each · 9 member of a group of KIP-848.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, nullable_since, since, until


class OffsetFetchRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


class OffsetFetchRequestGroup(Struct):
    """One group, with null topics all it has committed."""

    group_id: str = ""
    member_id: Annotated[str | None, since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: list[OffsetFetchRequestTopic] | None = []


@request(key=9, versions=(1, 9), flexible=6)
class OffsetFetchRequest(Struct):
    """Ask for committed offsets; require_stable: not while a commit is pending."""

    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), nullable_since(2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = []
    require_stable: Annotated[bool, since(7)] = False


class OffsetFetchResponsePartition(Struct):
    """Offset -1: nothing is committed."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(5)] = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: str = ""
    topics: list[OffsetFetchResponseTopic] = []
    error_code: Int16 = 0


@response(key=9, versions=(1, 9), flexible=6)
class OffsetFetchResponse(Struct):
    """The committed offsets."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = []
    error_code: Annotated[Int16, since(2), until(7)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = []
