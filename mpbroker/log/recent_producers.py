"""The last five batches of each idempotent producer, read from the end of a log that was not closed cleanly.

Runs in the controller at start. A snapshot keeps one batch per producer, as Kafka's does; a client that had five
requests in flight when everything was reset repeats all five, and each has to be recognised as a duplicate.
"""

import os
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from mpbroker._native import scan_segment
from mpbroker.log import disk
from mpbroker.log.producer_snapshot import ProducerEntry
from mpbroker.record.record_batch import ATTRIBUTE_CONTROL

KEPT: Final = 5
SEQUENCES: Final = 2**31
ProducerRow = tuple[int, int, int, int, int, int, int]
"""(producer id, epoch, first sequence, last sequence, base offset, last offset delta, timestamp in ms)"""
TransactionRow = tuple[int, int, int, int, int]
"""(producer id, epoch and coordinator epoch of its last marker, first offset of the open transaction, when it wrote)"""


def recent_batches(directory: str, active_base: int) -> dict[int, deque[ProducerEntry]]:
    """The active segment's last batches by producer id, oldest first. OSError passes."""
    recent: dict[int, deque[ProducerEntry]] = {}

    def visit(
        first: int,
        last: int,
        timestamp_ms: int,
        producer_id: int,
        epoch: int,
        sequence: int,
        count: int,
        attributes: int,
        *_marker: int,
    ) -> None:
        if attributes & ATTRIBUTE_CONTROL:
            return
        entry = ProducerEntry(producer_id, epoch, (sequence + count - 1) % SEQUENCES, last, last - first, timestamp_ms)
        recent.setdefault(producer_id, deque(maxlen=KEPT)).append(entry)

    with disk.opened(os.path.join(directory, f"{active_base:020d}.log")) as log:
        scan_segment(log, -1, -1, active_base, 0, False, visit)
    return recent


def producer_rows(
    producers: Mapping[int, ProducerEntry], recent: Mapping[int, deque[ProducerEntry]]
) -> list[ProducerRow]:
    """What the producer table is loaded with: the last batch of every producer, behind older ones still in the log."""
    rows: list[ProducerRow] = []
    for producer_id, newest in producers.items():
        if newest.last_offset < 0:
            continue
        kept = [entry for entry in recent.get(producer_id, ()) if entry.last_offset < newest.last_offset]
        rows += [_row(entry) for entry in [*kept, newest][-KEPT:] if entry.epoch == newest.epoch]
    return rows


def transaction_rows(producers: Iterable[ProducerEntry]) -> list[TransactionRow]:
    """What Log.load_transactions takes, open ones first: should the table be full, it is they that must be in it."""
    known = [p for p in producers if p.txn_first >= 0 or p.coordinator_epoch >= 0 or p.last_offset < 0]
    known.sort(key=lambda entry: entry.txn_first < 0)
    return [(p.producer_id, _marker_epoch(p), p.coordinator_epoch, p.txn_first, p.timestamp_ms) for p in known]


def _marker_epoch(entry: ProducerEntry) -> int:
    return entry.epoch if entry.coordinator_epoch >= 0 or entry.last_offset < 0 else -1


def _row(entry: ProducerEntry) -> ProducerRow:
    return (
        entry.producer_id,
        entry.epoch,
        entry.first_sequence,
        entry.last_sequence,
        entry.last_offset - entry.offset_delta,
        entry.offset_delta,
        entry.timestamp_ms,
    )
