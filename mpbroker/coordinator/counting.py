"""Publishes what the logic counts as counters of this process, about once a second. Runs in the coordinator process."""

from __future__ import annotations

from typing import Final

from mpbroker.coordinator.environment import Counts
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow

_PRESENT: Final = {
    "groups": Counter.GROUPS,
    "members": Counter.GROUP_MEMBERS,
    "offsets": Counter.COMMITTED_OFFSETS,
    "parked": Counter.GROUP_REQUESTS_PARKED,
}
_EVENTS: Final = {
    "rebalances": Counter.GROUP_REBALANCES,
    "members_expired": Counter.GROUP_MEMBERS_EXPIRED,
    "offsets_expired": Counter.OFFSETS_EXPIRED,
    "groups_refused": Counter.GROUPS_REFUSED,
    "members_refused": Counter.GROUP_MEMBERS_REFUSED,
    "offsets_refused": Counter.OFFSETS_REFUSED,
    "parked_refused": Counter.GROUP_REQUESTS_REFUSED,
    "loading_refused": Counter.GROUP_LOADING_REFUSED,
    "records_skipped": Counter.OFFSET_RECORDS_SKIPPED,
}


class Counting:
    """Remembers what was published of the events: a counter outlives the process that counted."""

    def __init__(self, row: ProcessRow) -> None:
        self._row = row
        self._seen = dict.fromkeys(_EVENTS, 0)

    def publish(self, counts: Counts) -> None:
        """Present amounts are stored, events since the last call are added."""
        for name, counter in _PRESENT.items():
            self._row.set_counter(counter, getattr(counts, name))
        for name, counter in _EVENTS.items():
            now = getattr(counts, name)
            if now != self._seen[name]:
                self._row.count(counter, now - self._seen[name])
                self._seen[name] = now
