"""Rows that the producer table is loaded with, of what snapshots and logs say."""

import random
from collections import deque

import pytest

from mpbroker.log.producer_snapshot import ProducerEntry
from mpbroker.log.recent_producers import KEPT, producer_rows, recent_batches, transaction_rows
from mpbroker.record.batch_builder import control_batch, encode_batch


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
    assert transaction_rows([entry(7, 0, epoch=5, txn_first=0)]) == [(7, -1, -1, 0, 1007)], "in the log's first record"


def test_of_each_producer_the_newest_of_its_epoch():
    newest = {1: entry(1, 60, epoch=2), 2: entry(2, -1), 3: entry(3, 9)}
    older = [entry(1, offset, epoch=1 if offset < 30 else 2) for offset in (10, 20, 30, 40, 50, 60, 70)]
    rows = producer_rows(newest, {1: deque(older), 2: deque([entry(2, 5)])})
    assert [(row[0], row[4]) for row in rows] == [(1, 30), (1, 40), (1, 50), (1, 60), (3, 9)]
    assert KEPT == 5


def test_a_row_is_the_batch_from_its_first_record_to_its_last():
    newest = ProducerEntry(1, 2, 1, 60, 3, 1000)
    assert producer_rows({1: newest}, {}) == [(1, 2, 2**31 - 2, 1, 57, 3, 1000)]
    assert producer_rows({1: entry(1, 0)}, {})[0][4:6] == (0, 0), "the log's first record is one"
    assert producer_rows({1: entry(1, -1)}, {}) == []


def plain_recent(batches):
    """The same in plain words: of each producer the last five that are no markers."""
    found = {}
    for producer, first, count, sequence, stamp in batches:
        if producer is not None:
            last_sequence = (sequence + count - 1) % 2**31
            found.setdefault(producer, []).append(
                ProducerEntry(producer, producer % 3, last_sequence, first + count - 1, count - 1, stamp)
            )
    return {producer: entries[-5:] for producer, entries in found.items()}


@pytest.mark.parametrize("base", [0, 1000])
def test_the_last_five_batches_of_each_producer_are_read_from_the_segment(tmp_path, base):
    chance, content, batches, at = random.Random(base), b"", [], base
    for _ in range(40):
        producer, count = chance.choice((7, 8, 9, None)), chance.randint(1, 4)
        sequence, stamp = chance.choice((0, 5, 2**31 - 2)), chance.randint(1, 99)
        if producer is None:
            content += at.to_bytes(8) + control_batch(True, 7, 1, 3, stamp)[8:]
            count = 1
        else:
            records = [(b"k", b"v", stamp)] * count
            content += encode_batch(
                records, base_offset=at, producer_id=producer, producer_epoch=producer % 3, base_sequence=sequence
            )
        batches.append((producer, at, count, sequence, stamp))
        at += count
    (tmp_path / f"{base:020d}.log").write_bytes(content)
    found = recent_batches(str(tmp_path), base)
    assert {producer: list(entries) for producer, entries in found.items()} == plain_recent(batches)


def test_a_batch_that_is_kept_in_spite_of_its_checksum_counts(tmp_path):
    """Its consumer finds that; its producer may repeat it, and those behind it."""
    settings = {"producer_epoch": 0, "base_sequence": 0}
    batches = [encode_batch([(b"k", b"v", 1)], base_offset=at, producer_id=7 + at, **settings) for at in range(3)]
    damaged = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    (tmp_path / f"{0:020d}.log").write_bytes(batches[0] + damaged + batches[2])
    assert list(recent_batches(str(tmp_path), 0)) == [7, 8, 9]
