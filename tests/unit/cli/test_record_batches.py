"""Which partition a record goes to, and when a batch is full."""

import pytest

from mpbroker.cli import record_batches
from mpbroker.cli.record_batches import BATCH_RECORDS, Batches
from mpbroker.cli.record_input import Item
from mpbroker.client.partitioner import partition_of
from mpbroker.client.producer import Outgoing
from mpbroker.errors import ConfigError


def _all(batches, found):
    sent = [batch for item in found for batch in batches.add(item)]
    return [*sent, *batches.rest()]


def _values(found):
    return [Item(Outgoing(None, value)) for value in found]


def test_partitions_take_turns_a_batch_each():
    values = [b"%d" % number for number in range(3 * BATCH_RECORDS + 1)]
    sent = _all(Batches(2), _values(values))
    assert [(partition, len(records)) for partition, records in sent] == [
        (0, BATCH_RECORDS),
        (1, BATCH_RECORDS),
        (0, BATCH_RECORDS),
        (1, 1),
    ]
    assert [record.value for _, records in sent for record in records] == values


def test_a_pause_ends_a_turn_too():
    batches = Batches(2)
    assert list(batches.add(Item(Outgoing(None, b"a")))) == []
    assert [partition for partition, _ in batches.rest()] == [0]
    assert [partition for partition, _ in _all(batches, _values([b"b"]))] == [1]


def test_batches_are_bounded_by_size():
    sent = _all(Batches(1), _values([b"x" * 100_000] * 5))
    assert [len(records) for _, records in sent] == [2, 2, 1]


def test_all_that_is_held_is_bounded(monkeypatch):
    monkeypatch.setattr(record_batches, "MAX_HELD_BYTES", 250)
    batches = Batches(10)
    sent = [batch for number in range(10) for batch in batches.add(Item(Outgoing(None, b"x" * 100), partition=number))]
    assert [partition for partition, _ in sent] == list(range(8))
    assert [partition for partition, _ in batches.rest()] == [8, 9]


def test_a_named_partition_wins_over_the_commands_and_that_over_the_key():
    batches = Batches(5, partition=3)
    found = [Item(Outgoing(b"k", b"a"), 1), Item(Outgoing(b"k", b"b"))]
    assert [(partition, records[0].value) for partition, records in _all(batches, found)] == [(1, b"a"), (3, b"b")]
    (keyed,) = _all(Batches(5), [Item(Outgoing(b"k", b"a"))])
    assert keyed[0] == partition_of(b"k", 5)


def test_a_partition_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="partition=5: must be 0 to 4"):
        _all(Batches(5), [Item(Outgoing(None, b"a"), 5)])
