"""Rows of the partition table: never used ones first, then those that were given back longest ago."""

import pytest

from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.shm.layout import PartitionFlags
from mpbroker.shm.topic_table import partition_who, rows_high
from tests.harness.small_core import small_core

T, U = b"t" * 16, b"u" * 16


@pytest.fixture
def shared():
    return small_core(partitions=4)


def test_rows_are_taken_in_order_and_then_those_that_came_back(shared):
    rows = PartitionRows(shared.core)
    assert (rows.free, [rows.allocate() for _ in range(3)], rows.free) == (4, [0, 1, 2], 1)
    assert rows_high(shared.core) == (0, 3), "no topic's row was taken for it"
    rows.release([2, 0])
    assert (rows.free, [rows.allocate() for _ in range(3)], rows.free) == (3, [3, 2, 0], 0)
    assert rows_high(shared.core) == (0, 4)
    with pytest.raises(IndexError):
        rows.allocate()


def test_what_is_live_is_found_again_and_all_else_is_free(shared):
    for _ in range(4):
        PartitionRows(shared.core).allocate()
    exists, deleted = PartitionFlags.EXISTS, PartitionFlags.DELETED
    shared.partition(0, T, 1, exists | PartitionFlags.ONLINE)
    shared.partition(1, U, 0, exists | deleted)
    shared.partition(2, T, 0, exists)
    shared.partition(3, T, 2, PartitionFlags.ONLINE)
    rows = PartitionRows(shared.core)
    for _ in range(2):
        assert rows.recover() == {T: {1: 0, 0: 2}} and rows.free == 2
    assert [rows.allocate() for _ in range(2)] == [1, 3]
    assert (rows.who(0).topic_id, rows.who(0).partition) == (T, 1)


def test_rows_of_a_topic_are_chained_and_the_last_one_ends_the_chain(shared):
    rows = PartitionRows(shared.core)
    for _ in range(3):
        rows.allocate()
    for _ in range(2):
        rows.link([2, 0, 1])
        assert [partition_who(shared.core, row).next_ordinal for row in (2, 0, 1)] == [1, 2, 0]
    for chain, following in (([2, 1], [2, 0]), ([0], [0]), ([0, 1], [2, 0]), ([2, 0], [1, 0]), ([2], [0])):
        rows.link(chain)
        assert [partition_who(shared.core, row).next_ordinal for row in chain] == following
