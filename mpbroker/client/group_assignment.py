"""Which partitions a member of a consumer group has: Kafka's ConsumerProtocolAssignment, as DescribeGroups shows it.

Pure; any process. The bytes are other clients': a member of another protocol may have any.
"""

from __future__ import annotations

import struct

from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode
from mpbroker.protocol.schema import stored
from mpbroker.protocol.types import Int32, Struct

_VERSION = struct.Struct(">h")


class AssignedTopic(Struct):
    """The partitions of one topic."""

    topic: str = ""
    partitions: list[Int32] = []


@stored(versions=(0, 0))
class Assignment(Struct):
    """What every version begins with; later ones add nothing before the user's data."""

    topics: list[AssignedTopic] = []
    user_data: bytes | None = None


def assigned_partitions(data: bytes) -> list[tuple[str, int]]:
    """(topic, partition) pairs in order; none where nothing is assigned or the bytes are of another protocol."""
    if len(data) <= _VERSION.size:
        return []
    try:
        found = decode(Assignment, 0, data, _VERSION.size)
    except ProtocolError:
        return []
    return sorted((topic.topic, number) for topic in found.topics for number in topic.partitions)
