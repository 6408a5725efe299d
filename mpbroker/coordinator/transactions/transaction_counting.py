"""Publishes what the logic of transactions counts as counters of this process. Runs in the coordinator process."""

from __future__ import annotations

from typing import Final

from mpbroker.coordinator.transactions.transaction_environment import TransactionCounts
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow

_EVENTS: Final = {
    "committed": Counter.TRANSACTIONS_COMMITTED,
    "aborted": Counter.TRANSACTIONS_ABORTED,
    "timed_out": Counter.TRANSACTIONS_TIMED_OUT,
    "ids_expired": Counter.TRANSACTIONAL_IDS_EXPIRED,
    "ids_refused": Counter.TRANSACTIONAL_IDS_REFUSED,
    "partitions_refused": Counter.TRANSACTION_PARTITIONS_REFUSED,
    "loading_refused": Counter.TRANSACTION_LOADING_REFUSED,
    "records_skipped": Counter.TRANSACTION_RECORDS_SKIPPED,
}


class TransactionCounting:
    """Remembers what was published of the events: a counter outlives the process that counted."""

    def __init__(self, row: ProcessRow) -> None:
        self._row = row
        self._seen = dict.fromkeys(_EVENTS, 0)

    def publish(self, counts: TransactionCounts) -> None:
        """Present amounts are stored, events since the last call are added."""
        self._row.set_counter(Counter.TRANSACTIONAL_IDS, counts.transactional_ids)
        self._row.set_counter(Counter.TRANSACTION_PARTITIONS, counts.partitions)
        for name, counter in _EVENTS.items():
            now = getattr(counts, name)
            if now != self._seen[name]:
                self._row.count(counter, now - self._seen[name])
                self._seen[name] = now
