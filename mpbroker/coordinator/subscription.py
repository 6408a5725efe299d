"""Reads topics out of the metadata that members of type `consumer` send (Kafka's ConsumerProtocolSubscription).

Pure; runs in the coordinator process. Only the fields of version 0 are read, with which every version begins.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None when one of them cannot be read."""
    found: set[str] = set()
    for data in set(metadata):  # members of a group often send the same bytes
        topics = _topics(data)
        if topics is None:
            return None
        found.update(topics)
    return frozenset(found)


def _topics(data: bytes) -> list[str] | None:
    try:
        version, (count,) = _INT16.unpack_from(data)[0], _INT32.unpack_from(data, 2)
        if version < 0 or not 0 <= count <= len(data) // 2:
            return None
        topics, at = [], 6
        for _ in range(count):
            (length,) = _INT16.unpack_from(data, at)
            if length < 0 or at + 2 + length > len(data):
                return None
            topics.append(data[at + 2 : at + 2 + length].decode("utf-8", "replace"))
            at += 2 + length
    except struct.error:
        return None
    return topics
