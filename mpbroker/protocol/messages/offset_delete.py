"""OffsetDelete (key 47): forget committed offsets of topics that a group does not subscribe to any more (KIP-496).

Shapes only; any process. One version, never flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


@request(key=47, versions=(0, 0))
class OffsetDeleteRequest(Struct):
    """Forget some offsets of a group."""

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(Struct):
    """Forgotten, or why not."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


@response(key=47, versions=(0, 0))
class OffsetDeleteResponse(Struct):
    """What became of each offset, or one code for all."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
