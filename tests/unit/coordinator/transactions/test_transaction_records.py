"""Where and how a transactional id is recorded."""

import struct

import msgspec
import pytest

from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_records import (
    partition_of,
    read_key,
    read_transaction,
    transaction_key,
    transaction_value,
)

FOUND = Transaction(
    id="tx",
    producer_id=7,
    previous_producer_id=5,
    next_producer_id=-1,
    epoch=3,
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions=frozenset({("u", 0), ("t", 2), ("t", 1)}),
    start_ms=1000,
    last_update_ms=2000,
    client_version=2,
)


def test_a_state_in_either_version():
    """Version 0, field by field as Kafka 3.9 writes it; it has no room for some, which come back as none."""
    topics = struct.pack(">i h1si ii h1si i", 2, 1, b"t", 2, 1, 2, 1, b"u", 1, 0)
    old = struct.pack(">h qhib", 0, 7, 3, 60_000, 1) + topics + struct.pack(">qq", 2000, 1000)
    assert transaction_value(FOUND, 0) == old
    assert read_transaction("tx", old) == msgspec.structs.replace(FOUND, previous_producer_id=-1, client_version=0)
    new = transaction_value(FOUND, 1)
    assert new[:2] == b"\0\1" and read_transaction("tx", new) == FOUND
    least = msgspec.structs.replace(FOUND, previous_producer_id=-1, client_version=0)
    shortest = transaction_value(least, 1)
    assert shortest[-1] == 0 and read_transaction("tx", shortest) == least, "what is as usual is not written"


def test_an_empty_one_has_no_partitions_at_all():
    empty = msgspec.structs.replace(FOUND, state=State.EMPTY, partitions=frozenset())
    value = transaction_value(empty, 0)
    assert value[17:21] == struct.pack(">i", -1) and read_transaction("tx", value).partitions == frozenset()


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0", b"\0\2" + transaction_value(FOUND, 1)[2:]])
def test_what_cannot_be_read_is_no_state(value):
    assert read_transaction("tx", value) is None
    wrong_state = bytearray(transaction_value(FOUND, 0))
    wrong_state[16] = 99
    assert read_transaction("tx", bytes(wrong_state)) is None


def test_keys():
    assert transaction_key("tx") == b"\0\0\0\2tx" and read_key(b"\0\0\0\2tx") == "tx"
    for other in (b"", b"\0", b"\0\1\0\2tx", b"\0\0", b"\0\0\0\3tx"):
        assert read_key(other) is None


@pytest.mark.parametrize(
    ("transactional_id", "partition"), [("tx", 16), ("my-group", 12), ("", 0), ("polygenelubricants", 0)]
)
def test_partition_of_an_id(transactional_id, partition):
    """Computed by Java: Utils.abs(id.hashCode()) % 50 of Kafka, the smallest integer as 0."""
    assert partition_of(transactional_id, 50) == partition
