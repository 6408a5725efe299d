"""Rows that the producer table is loaded with, of what snapshots and logs say."""

from collections import deque

from mpbroker.log.producer_snapshot import ProducerEntry
from mpbroker.log.recent_producers import KEPT, producer_rows, transaction_rows


def entry(producer_id, last_offset, epoch=0, coordinator_epoch=-1, txn_first=-1, last_sequence=9):
    made = ProducerEntry(producer_id, epoch, last_sequence, last_offset, 0, 1000 + producer_id)
    return made._replace(coordinator_epoch=coordinator_epoch, txn_first=txn_first)


def test_an_open_transaction_comes_first_and_a_marker_has_its_epoch():
    """-1: no marker of it is known."""
    producers = [
        entry(1, 10),  # nothing about transactions
        entry(6, 0),  # nor in the log's first record
        entry(2, 20, epoch=7, coordinator_epoch=0),
        entry(3, 30, epoch=8, txn_first=25),
        entry(4, -1, epoch=9),  # a marker is all there is of it
        entry(5, 50, epoch=6, coordinator_epoch=3, txn_first=0),
    ]
    assert transaction_rows(producers) == [
        (3, -1, -1, 25, 1003),
        (5, 6, 3, 0, 1005),
        (2, 7, 0, -1, 1002),
        (4, 9, -1, -1, 1004),
    ]


def test_of_each_producer_the_newest_of_its_epoch():
    newest = {1: entry(1, 60, epoch=2), 2: entry(2, -1), 3: entry(3, 9)}
    older = [entry(1, offset, epoch=1 if offset < 30 else 2) for offset in (10, 20, 30, 40, 50, 60, 70)]
    rows = producer_rows(newest, {1: deque(older), 2: deque([entry(2, 5)])})
    assert [(row[0], row[4]) for row in rows] == [(1, 30), (1, 40), (1, 50), (1, 60), (3, 9)]
    assert KEPT == 5
