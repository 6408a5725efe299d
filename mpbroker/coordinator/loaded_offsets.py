"""What was read of a partition of `__consumer_offsets` so far: the newest value of every key, and what waits for the
marker of its transaction. Runs in the coordinator process.

A transactional record counts at its marker, but in the log's order: a record of the same key that lies behind it, and
counts already, stays.
"""

from __future__ import annotations

from mpbroker.coordinator.offsets_loader import RecordPairs

LOADED = -(1 << 63)  # the number of a committed offset that was loaded; those of this process are positive


class LoadedOffsets:
    """`newest`: key → value, None: deleted. `waiting`: producer id → key → (value, number as `Committed` has it)."""

    def __init__(self) -> None:
        self.newest: dict[bytes, bytes | None] = {}
        self.waiting: dict[int, dict[bytes, tuple[bytes, int]]] = {}

    def add(self, records: RecordPairs) -> None:
        """Records of no transaction."""
        if not self.waiting:
            self.newest.update(records)
            return
        for key, value in records:
            self.newest[key] = value
            self._outdate(key, value)

    def add_transactional(self, producer_id: int, offset: int, records: RecordPairs) -> None:
        """Records of one batch, by the offset of the batch."""
        waiting = self.waiting.setdefault(producer_id, {})
        for key, value in records:
            if value is not None:
                waiting[key] = (value, LOADED + 1 + offset)

    def end(self, producer_id: int, committed: bool) -> None:
        """The transaction's marker."""
        waiting = self.waiting.pop(producer_id, {})
        for key, (value, number) in waiting.items() if committed else ():
            if number > LOADED:
                self.newest[key] = value
                self._outdate(key, value, number)

    def _outdate(self, key: bytes, value: bytes | None, number: int | None = None) -> None:
        """A record counts from now on: what lies before it and still waits, will not; where the record says that there
        is nothing, nothing is waited for either."""
        for waiting in self.waiting.values():
            if key in waiting and (number is None or waiting[key][1] < number):
                if value is None:
                    del waiting[key]
                else:
                    waiting[key] = (waiting[key][0], LOADED - 1)
