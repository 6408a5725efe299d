"""Kafka's records of `__transaction_state`: key, value, the partition of a transactional id. Pure; coordinator process.

    key 0     transactional id          value: its state; null: forgotten

A key is an int16 type and fields, a value an int16 version and fields, both in the protocol's own encoding. Written is
value 0, as by Kafka 3.9, or 1 once `transaction.version` is finalized at 1 or above; read are both.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final

from mpbroker.coordinator.transactions.transaction import Partition, State, Transaction
from mpbroker.errors import ProtocolError
from mpbroker.metadata.coordinator_partitions import java_hash
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.schema import stored
from mpbroker.protocol.types import Int8, Int16, Int32, Int64, Struct, since, tagged

KEY: Final = 0
_INT16 = struct.Struct(">h")


@stored(versions=(0, 0))
class TransactionKey(Struct):
    """Whose state."""

    transactional_id: str = ""


class PartitionsValue(Struct):
    """The partitions of one topic."""

    topic: str = ""
    partition_ids: list[Int32] = []


@stored(versions=(0, 1), flexible=1)
class TransactionValue(Struct):
    """The state of a transactional id; times are milliseconds since 1970, -1: none."""

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, since(1), tagged(0)] = -1
    next_producer_id: Annotated[Int64, since(1), tagged(1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, since(1), tagged(3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsValue] | None = None
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, since(1), tagged(2)] = 0


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    return _INT16.pack(KEY) + encode(TransactionKey(transactional_id), KEY)


def transaction_value(found: Transaction, version: int) -> bytes:
    """The value that stands for a state."""
    value = TransactionValue(
        producer_id=found.producer_id,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        producer_epoch=found.epoch,
        transaction_timeout_ms=found.timeout_ms,
        transaction_status=found.state.value,
        transaction_partitions=None if found.state is State.EMPTY else _by_topic(found.partitions),
        transaction_last_update_timestamp_ms=found.last_update_ms,
        transaction_start_timestamp_ms=found.start_ms,
        client_transaction_version=found.client_version,
    )
    return _INT16.pack(version) + encode(value, version)


def _by_topic(partitions: frozenset[Partition]) -> list[PartitionsValue]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsValue(topic, numbers) for topic, numbers in topics.items()]


def read_key(key: bytes) -> str | None:
    """The transactional id; None for a key of another type, or no key at all."""
    if len(key) < _INT16.size or _INT16.unpack_from(key)[0] != KEY:
        return None
    try:
        return decode(TransactionKey, KEY, key, _INT16.size).transactional_id
    except ProtocolError:
        return None


def read_transaction(transactional_id: str, value: bytes) -> Transaction | None:
    """The state that a value stands for; None if it cannot be read."""
    if len(value) < _INT16.size:
        return None
    try:
        found = decode(TransactionValue, _INT16.unpack_from(value)[0], value, _INT16.size)
        state = State(found.transaction_status)
    except (ProtocolError, ValueError):
        return None
    return Transaction(
        id=transactional_id,
        producer_id=found.producer_id,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (topic.topic, number) for topic in found.transaction_partitions or [] for number in topic.partition_ids
        ),
        start_ms=found.transaction_start_timestamp_ms,
        last_update_ms=found.transaction_last_update_timestamp_ms,
        client_version=found.client_transaction_version,
    )


def partition_of(transactional_id: str, partitions: int) -> int:
    """The partition of `__transaction_state` that holds a transactional id; as for groups, not the masked hash."""
    found = java_hash(transactional_id)
    return 0 if found == -(1 << 31) else abs(found) % partitions
