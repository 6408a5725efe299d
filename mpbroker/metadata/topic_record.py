"""What the metadata store keeps about topics and settings: JSON values with a version field `v`. Written by the
controller. Pure."""

from typing import Protocol, TypeVar

import msgspec

from mpbroker.errors import MpbrokerError

RECORD_VERSION = 1


class BadRecord(MpbrokerError):
    """A value in the store that this program cannot read."""


class TopicRecord(msgspec.Struct, frozen=True):
    """A topic. `id`: 32 hex digits; `replicas`: broker ids of every partition, the first one leads by preference;
    `directories`: which of several log directories hold them, by directory.id, "" for the first. `adding`, `removing`:
    of a reassignment under way (KIP-455), the part of each partition's `replicas` that comes or goes; shorter than
    `replicas`, or empty, where nothing moves."""

    id: str
    name: str
    replicas: list[list[int]]
    created_ms: int
    directories: list[str] = []
    adding: list[list[int]] = []
    removing: list[list[int]] = []
    v: int = RECORD_VERSION


class TopicConfigRecord(msgspec.Struct, frozen=True):
    """Settings given for a topic, by Kafka's name, in Kafka's spelling."""

    configs: dict[str, str]
    v: int = RECORD_VERSION


class BrokerConfigRecord(msgspec.Struct, frozen=True):
    """Settings of a broker, or of all, that were changed while it ran: the texts as they were given."""

    configs: dict[str, str]
    v: int = RECORD_VERSION


class GroupConfigRecord(msgspec.Struct, frozen=True):
    """Settings of one group: the texts as they were given."""

    configs: dict[str, str]
    v: int = RECORD_VERSION


class TopicDeletion(msgspec.Struct, frozen=True):
    """A topic that exists no more while its partitions' directories may still have their old names."""

    id: str
    name: str
    partitions: int
    v: int = RECORD_VERSION


class FeaturesRecord(msgspec.Struct, frozen=True):
    """Finalized levels of the cluster's features; `epoch` counts their changes."""

    epoch: int
    metadata_version: int
    kraft_version: int
    transaction_version: int = 0
    group_version: int = 0
    v: int = RECORD_VERSION


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """`next_id`: the first producer id of the next block."""

    next_id: int
    v: int = RECORD_VERSION


class Record(Protocol):
    """Any of these, and those of cluster_records.py."""

    @property
    def v(self) -> int:
        """Which version of the record's kind this is."""
        ...


_Record = TypeVar("_Record", bound=Record)


def encode_record(record: Record) -> bytes:
    """The bytes the store keeps."""
    return msgspec.json.encode(record)


def decode_record(kind: type[_Record], value: bytes, key: str) -> _Record:
    """The record behind a key; BadRecord names the key if it cannot be read."""
    try:
        record = msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"metadata store, {key}: {error}") from error
    if record.v > RECORD_VERSION:
        raise BadRecord(f"metadata store, {key}: written by a newer program (version {record.v})")
    return record
