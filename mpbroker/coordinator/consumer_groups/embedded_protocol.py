"""What members of type `consumer` of the classic protocol tell each other: subscriptions and assignments. Pure; in the
coordinator process.

Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment: a version, then fields; later versions have more
fields behind those that are known.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, NamedTuple, TypeVar

from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.schema import stored
from mpbroker.protocol.types import Int32, Struct, since

_INT16 = struct.Struct(">h")
LATEST = 3
T = TypeVar("T", bound=Struct)


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = ""
    partitions: list[Int32] = []


@stored(versions=(0, LATEST))
class _Subscription(Struct):
    topics: list[str] = []
    user_data: bytes | None = None
    owned_partitions: Annotated[list[TopicPartitions], since(1)] = []
    generation_id: Annotated[Int32, since(2)] = -1
    rack_id: Annotated[str | None, since(3)] = None


@stored(versions=(0, LATEST))
class _Assignment(Struct):
    assigned_partitions: list[TopicPartitions] = []
    user_data: bytes | None = None


class Subscription(NamedTuple):
    """What a member wants to read, and what it has."""

    version: int
    topics: tuple[str, ...]
    owned: tuple[tuple[str, tuple[int, ...]], ...]
    rack_id: str | None


class Assignment(NamedTuple):
    """What a leader gave a member."""

    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    user_data: bytes


def read_subscription(data: bytes) -> Subscription | None:
    """A member's subscription; None if it cannot be read."""
    found = _read(_Subscription, data)
    if found is None:
        return None
    version, value = found
    return Subscription(version, tuple(sorted(set(value.topics))), _rows(value.owned_partitions), value.rack_id)


def read_assignment(data: bytes) -> Assignment | None:
    """A member's assignment; None if it cannot be read. Empty bytes are an empty one."""
    if not data:
        return Assignment((), b"")
    found = _read(_Assignment, data)
    return None if found is None else Assignment(_rows(found[1].assigned_partitions), found[1].user_data or b"")


def _rows(rows: Iterable[TopicPartitions]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((row.topic, tuple(row.partitions)) for row in rows)


def _read(cls: type[T], data: bytes) -> tuple[int, T] | None:
    if len(data) < _INT16.size:
        return None
    version = min(_INT16.unpack_from(data)[0], LATEST)
    if version < 0:
        return None
    try:
        return version, decode(cls, version, data, _INT16.size)
    except ProtocolError:
        return None


def assignment(version: int, partitions: Mapping[str, Collection[int]]) -> bytes:
    """An assignment in a version that the member reads."""
    rows = [TopicPartitions(topic, sorted(numbers)) for topic, numbers in partitions.items()]
    return _INT16.pack(version) + encode(_Assignment(rows), version)
