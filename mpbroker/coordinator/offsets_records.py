"""Kafka's records of `__consumer_offsets`: keys, values, the partition of a group. Pure; in the coordinator process.

    key 0, 1  group, topic, partition   value: a committed offset
    key 2     group                     value: a stable or empty group

A key is an int16 type and fields, a value an int16 version and fields, both in the protocol's own encoding. Read are
all versions, written the ones of Kafka 3.9. Keys of share and streams groups are skipped and counted; those of
groups of the next-generation protocol are read elsewhere.
"""

from __future__ import annotations

import struct
from typing import Annotated, NamedTuple, TypeAlias, TypeVar

from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.schema import stored
from mpbroker.protocol.types import ZERO_UUID, Int32, Int64, Struct, Uuid, since, tagged, until

#: Kinds of keys of groups of the next-generation protocol.
CONSUMER_GROUP_KINDS = frozenset({3, 4, 5, 6, 7, 8, 16})
OFFSET_KEY, GROUP_KEY, OFFSET_VALUE, GROUP_VALUE = 1, 2, 3, 3  # the versions that are written
_INT16 = struct.Struct(">h")
T = TypeVar("T", bound=Struct)


@stored(versions=(0, 2))
class OffsetKey(Struct):
    """Whose offset; also 2, a group's key, which is its first field alone."""

    group: str = ""
    topic: Annotated[str, until(1)] = ""
    partition: Annotated[Int32, until(1)] = 0


@stored(versions=(0, 4), flexible=4)
class OffsetValue(Struct):
    """A committed offset; times are milliseconds since 1970, -1: none."""

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, since(3)] = -1
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, since(1), until(1)] = -1
    topic_id: Annotated[Uuid, since(4), tagged(0)] = ZERO_UUID


class MemberValue(Struct):
    """A member of a stable group. Its rebalance timeout is -1 where the record has none."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, since(1)] = -1
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


@stored(versions=(0, 4), flexible=4)
class GroupValue(Struct):
    """A stable group, or an empty one: then without members, protocol and leader."""

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: Annotated[Int64, since(2)] = -1
    members: list[MemberValue] = []


class OffsetName(NamedTuple):
    """Whose committed offset."""

    group: str
    topic: str
    partition: int


#: What a key names: a committed offset, or a group by its id.
Name: TypeAlias = OffsetName | str


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    return _INT16.pack(OFFSET_KEY) + encode(OffsetKey(group, topic, partition), OFFSET_KEY)


def group_key(group: str) -> bytes:
    """The key of a group."""
    return _INT16.pack(GROUP_KEY) + encode(OffsetKey(group), GROUP_KEY)


def offset_value(value: OffsetValue) -> bytes:
    """The value of a committed offset: version 3, or 1 if it carries an expiry of its own (as Kafka does)."""
    version = OFFSET_VALUE if value.expire_timestamp == -1 else 1
    return _INT16.pack(version) + encode(value, version)


def group_value(value: GroupValue) -> bytes:
    """The value of a group."""
    return _INT16.pack(GROUP_VALUE) + encode(value, GROUP_VALUE)


def read_key(key: bytes) -> Name | None:
    """What a key names; None for a key of another type, or no key at all."""
    if len(key) < _INT16.size or not 0 <= (kind := _INT16.unpack_from(key)[0]) <= GROUP_KEY:
        return None
    try:
        found = decode(OffsetKey, kind, key, _INT16.size)
    except ProtocolError:
        return None
    return found.group if kind == GROUP_KEY else OffsetName(found.group, found.topic, found.partition)


def is_of_consumer_group(key: bytes) -> bool:
    """Whether a key is one of a group of the next-generation protocol (`consumer_groups/consumer_records.py`)."""
    return len(key) >= _INT16.size and _INT16.unpack_from(key)[0] in CONSUMER_GROUP_KINDS


def read_offset(value: bytes) -> OffsetValue | None:
    """A committed offset; None if it cannot be read."""
    return _read(OffsetValue, value)


def read_group(value: bytes) -> GroupValue | None:
    """A group; None if it cannot be read."""
    return _read(GroupValue, value)


def _read(cls: type[T], value: bytes) -> T | None:
    if len(value) < _INT16.size:
        return None
    try:
        return decode(cls, _INT16.unpack_from(value)[0], value, _INT16.size)
    except ProtocolError:
        return None
