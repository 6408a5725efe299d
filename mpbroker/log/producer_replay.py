"""Producer state as a log's batches make it: last batches, epochs, open transactions; what goes into .txnindex files.

Used by start-up recovery (log_recovery.py) in the controller's process, from a snapshot on. Pure: batches come in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from mpbroker.log.producer_snapshot import ProducerEntry
from mpbroker.record.record_batch import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL

ABORT, COMMIT = 0, 1
NONE: Final = -1
SEQUENCES: Final = 2**31
MAX_ENDED: Final = 4096


class AbortedTxn(NamedTuple):
    """An entry of a .txnindex file. `last_offset`: of the marker; `last_stable`: behind it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable: int


class ProducerReplay:
    """`take` every batch from `start` on, in order; what is below is in `entries` already."""

    def __init__(self, start: int, entries: Iterable[ProducerEntry]) -> None:
        self._start = start
        self.producers = {entry.producer_id: entry for entry in entries}
        self.aborted: list[AbortedTxn] = []
        self.ended: deque[tuple[int, int]] = deque()  # first offset, end of the marker: of all that are over

    def take(
        self,
        first: int,
        last: int,
        timestamp_ms: int,
        producer_id: int,
        epoch: int,
        sequence: int,
        _count: int,
        attributes: int,
        marker: int,
        coordinator_epoch: int,
    ) -> None:
        """One batch, as scan_segment visits it."""
        if first < self._start:
            return
        if attributes & ATTRIBUTE_CONTROL:
            if marker in (ABORT, COMMIT):
                self._end(last, timestamp_ms, producer_id, epoch, marker, coordinator_epoch)
            return
        known = self.producers.get(producer_id)
        open_from = NONE if known is None else known.txn_first
        if attributes & ATTRIBUTE_TRANSACTIONAL and open_from == NONE:
            open_from = first
        self.producers[producer_id] = ProducerEntry(
            producer_id,
            epoch,
            (sequence + last - first) % SEQUENCES,  # compaction leaves fewer records than sequences
            last,
            last - first,
            timestamp_ms,
            NONE if known is None else known.coordinator_epoch,
            open_from,
        )

    def _end(
        self, offset: int, timestamp_ms: int, producer_id: int, epoch: int, marker: int, coordinator_epoch: int
    ) -> None:
        known = self.producers.get(producer_id)
        if known is not None and known.txn_first != NONE:
            self._note_ended(known.txn_first, offset + 1)
        if known is not None and known.txn_first != NONE and marker == ABORT:
            stable = self.last_stable(offset + 1, but=producer_id)
            self.aborted.append(AbortedTxn(producer_id, known.txn_first, offset, stable))
        if known is None or known.epoch < epoch:  # batches of an older epoch mean nothing any more
            known = ProducerEntry(producer_id, epoch, NONE, NONE, 0, timestamp_ms)
        self.producers[producer_id] = known._replace(
            timestamp_ms=timestamp_ms, coordinator_epoch=coordinator_epoch, txn_first=NONE
        )

    def _note_ended(self, first: int, end: int) -> None:
        """Of very many the oldest are one."""
        self.ended.append((first, end))
        if len(self.ended) > MAX_ENDED:
            (oldest, _), (next_first, next_end) = self.ended.popleft(), self.ended.popleft()
            self.ended.appendleft((min(oldest, next_first), next_end))

    def last_stable(self, end: int, but: int = NONE) -> int:
        """The first offset of the oldest open transaction; `end`: none is open. `but`: not of this producer."""
        return min((entry.txn_first for entry in self.ongoing() if entry.producer_id != but), default=end)

    def ongoing(self) -> list[ProducerEntry]:
        """Producers with an open transaction."""
        return [entry for entry in self.producers.values() if entry.txn_first != NONE]
