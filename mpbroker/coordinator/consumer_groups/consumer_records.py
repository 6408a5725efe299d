"""Kafka's records of groups of the next-generation protocol in `__consumer_offsets`. Pure; in the coordinator process.

    key 3   group            epoch, hash of the topics           key 6   group            epoch and time of the target
    key 4   group            topics (up to Kafka 4.0)            key 7   group, member    target of a member
    key 5   group, member    subscription of a member            key 8   group, member    what a member has now
                                                                 key 16  group, pattern   topics a pattern stands for

Written as Kafka 4.3 does, in version 0 throughout; key 4 is read and deleted, never written.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Annotated, NamedTuple, TypeVar

from mpbroker.coordinator.consumer_groups.consumer_member import ClassicMetadata, ConsumerMember, MemberState, Owned
from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.schema import stored
from mpbroker.protocol.types import ZERO_UUID, Int8, Int32, Int64, Struct, Uuid, tagged

GROUP_EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN = 3, 4, 5, 6, 7, 8, 16
_INT16 = struct.Struct(">h")
_VERSION = _INT16.pack(0)
Record = tuple[bytes, bytes | None]
T = TypeVar("T", bound=Struct)


@stored(versions=(0, 0))
class _GroupKey(Struct):
    group_id: str = ""


@stored(versions=(0, 0))
class _MemberKey(Struct):
    """Also of a pattern, which takes the member's place."""

    group_id: str = ""
    member_id: str = ""


@stored(versions=(0, 0), flexible=0)
class GroupEpochValue(Struct):
    """The epoch of a group; a change of what its topics are like changes the hash."""

    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, tagged(0)] = 0


class ClassicProtocolValue(Struct):
    """One assignor of a member of the classic protocol."""

    name: str = ""
    metadata: bytes = b""


class ClassicMetadataValue(Struct):
    """What a member of the classic protocol said beyond the others."""

    is_there: Int8 = 1
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocolValue] = []


class NoClassicMetadata(Struct):
    """A single 0: what Kafka writes of a member that is of this protocol."""


class MemberValue(Struct):
    """Who a member is, and what it wants to read."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = None


@stored(versions=(0, 0), flexible=0)
class PlainMemberValue(MemberValue):
    """Of a member of this protocol. Kafka takes a member without the tag for one of the classic protocol."""

    classic: Annotated[NoClassicMetadata | None, tagged(0)] = None


@stored(versions=(0, 0), flexible=0)
class ClassicMemberValue(MemberValue):
    """Of a member of the classic protocol."""

    classic: Annotated[ClassicMetadataValue | None, tagged(0)] = None


#: How the value of a plain member ends: one tag, number 0, of one byte, and that is 0.
_NO_CLASSIC = bytes((1, 0, 1, 0))


@stored(versions=(0, 0), flexible=0)
class TargetEpochValue(Struct):
    """The group's epoch that the target was worked out for, and when."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0


class TargetPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = []


@stored(versions=(0, 0), flexible=0)
class TargetValue(Struct):
    """What a member is to have."""

    topic_partitions: list[TargetPartitions] = []


class CurrentPartitions(Struct):
    """Partitions of one topic, and since which epoch each is the member's (KIP-1251)."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = []
    assignment_epochs: Annotated[list[Int32], tagged(0)] = []


@stored(versions=(0, 0), flexible=0)
class CurrentValue(Struct):
    """What a member has, and what it has still to give back."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[CurrentPartitions] = []
    partitions_pending_revocation: list[CurrentPartitions] = []


@stored(versions=(0, 0), flexible=0)
class PatternValue(Struct):
    """The topics that a pattern stood for, at a version of the metadata and a time."""

    topics: list[str] = []
    version: Int64 = 0
    timestamp: Int64 = 0


class Name(NamedTuple):
    """What a key names. `part`: a member id or a pattern; empty where there is none."""

    kind: int
    group_id: str
    part: str


class Resolved(NamedTuple):
    """The topics that a pattern stands for. `version`: of the metadata; `ms`: since 1970."""

    topics: frozenset[str]
    version: int
    ms: int


def key_of(kind: int, group_id: str, part: str = "") -> bytes:
    """A record's key."""
    if kind in (GROUP_EPOCH, PARTITION_METADATA, TARGET_EPOCH):
        return _INT16.pack(kind) + encode(_GroupKey(group_id), 0)
    return _INT16.pack(kind) + encode(_MemberKey(group_id, part), 0)


def read_name(key: bytes) -> Name | None:
    """What a key names; None if it cannot be read."""
    kind = _INT16.unpack_from(key)[0]
    try:
        if kind in (GROUP_EPOCH, PARTITION_METADATA, TARGET_EPOCH):
            return Name(kind, decode(_GroupKey, 0, key, _INT16.size).group_id, "")
        found = decode(_MemberKey, 0, key, _INT16.size)
    except ProtocolError:
        return None
    return Name(kind, found.group_id, found.member_id)


def read_value(cls: type[T], value: bytes) -> T | None:
    """A record's value; None if it cannot be read, or has a version of a later Kafka."""
    if value[: _INT16.size] != _VERSION:
        return None
    try:
        return decode(cls, 0, value, _INT16.size)
    except ProtocolError:
        return None


def read_member(value: bytes) -> MemberValue | None:
    """The value of key 5; None if it cannot be read."""
    return read_value(PlainMemberValue if value.endswith(_NO_CLASSIC) else ClassicMemberValue, value)


def _value(message: Struct) -> bytes:
    return _VERSION + encode(message, 0)


def epoch_value(epoch: int, metadata_hash: int) -> bytes:
    """The value of key 3."""
    return _value(GroupEpochValue(epoch, metadata_hash))


def target_epoch_value(epoch: int, wall_ms: int) -> bytes:
    """The value of key 6."""
    return _value(TargetEpochValue(epoch, wall_ms))


def member_value(member: ConsumerMember) -> bytes:
    """The value of key 5."""
    classic = member.classic
    common = (
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        list(member.topics),
        member.pattern,
        member.rebalance_timeout_ms,
        member.assignor,
    )
    if classic is None:
        return _value(PlainMemberValue(*common, NoClassicMetadata()))
    protocols = [ClassicProtocolValue(name, data) for name, data in classic.protocols]
    return _value(ClassicMemberValue(*common, ClassicMetadataValue(1, classic.session_timeout_ms, protocols)))


def target_value(target: Mapping[bytes, Collection[int]]) -> bytes:
    """The value of key 7."""
    rows = [TargetPartitions(topic_id, sorted(partitions)) for topic_id, partitions in target.items()]
    return _value(TargetValue(rows))


def current_value(member: ConsumerMember) -> bytes:
    """The value of key 8."""
    return _value(
        CurrentValue(
            member.epoch,
            member.previous_epoch,
            member.state,
            _partitions(member.assigned),
            _partitions(member.revoking),
        )
    )


def _partitions(owned: Owned) -> list[CurrentPartitions]:
    rows = []
    for topic_id, epochs in owned.items():
        numbers = sorted(epochs)
        rows.append(CurrentPartitions(topic_id, numbers, [epochs[number] for number in numbers]))
    return rows


def pattern_value(resolved: Resolved) -> bytes:
    """The value of key 16."""
    return _value(PatternValue(sorted(resolved.topics), resolved.version, resolved.ms))


def with_member(member: ConsumerMember, value: MemberValue) -> ConsumerMember:
    """The member as key 5 says it, with what else is known of it."""
    found = value.classic if isinstance(value, ClassicMemberValue) else None
    classic = None
    if found is not None:
        protocols = tuple((one.name, one.metadata) for one in found.supported_protocols)
        classic = ClassicMetadata(found.session_timeout_ms, protocols)
    return member.but(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(value.subscribed_topic_names)),
        pattern=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=classic,
    )


def with_current(member: ConsumerMember, value: CurrentValue) -> ConsumerMember:
    """The member as key 8 says it, with what else is known of it."""
    known = value.state in set(MemberState)
    return member.but(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_owned(value.assigned_partitions, value.member_epoch),
        revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _owned(rows: list[CurrentPartitions], member_epoch: int) -> Owned:
    """Kafka before 4.3 wrote no epochs: then the member's own is the latest that it can have been."""
    return {
        row.topic_id: dict(
            zip(
                row.partitions,
                row.assignment_epochs
                if len(row.assignment_epochs) == len(row.partitions)
                else [member_epoch] * len(row.partitions),
                strict=True,
            )
        )
        for row in rows
    }
