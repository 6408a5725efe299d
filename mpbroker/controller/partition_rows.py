"""Which row of the partition table belongs to which partition, and which are free. Controller process only.

A row is free if it never held a partition, or if its partition's deletion is complete. Rows that never held one are
used first, then those free for the longest time. A handler may still know a deleted partition's row from before:
whoever appends or reads names the topic id it means, and that is compared under the row's lock.
"""

from collections import deque

from mpbroker.shm.core import Core
from mpbroker.shm.layout import PartitionFlags
from mpbroker.shm.topic_table import PartitionWho, partition_link, partition_who, rows_high, rows_raise


class PartitionRows:
    """The allocation of the partition table."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._free: deque[int] = deque()

    def recover(self) -> dict[bytes, dict[int, int]]:
        """Live rows: topic id → partition → ordinal. Everything else is free."""
        live: dict[bytes, dict[int, int]] = {}
        self._free.clear()
        for ordinal in range(rows_high(self._core)[1]):
            who = partition_who(self._core, ordinal)
            if who.flags & PartitionFlags.EXISTS and not who.flags & PartitionFlags.DELETED:
                live.setdefault(who.topic_id, {})[who.partition] = ordinal
            else:
                self._free.append(ordinal)
        return live

    @property
    def free(self) -> int:
        """How many partitions there is room for."""
        return len(self._free) + self._core.partition_count - rows_high(self._core)[1]

    def allocate(self) -> int:
        """Take a row, never used ones first; IndexError when the table is full."""
        ordinal = rows_high(self._core)[1]
        if ordinal == self._core.partition_count:
            return self._free.popleft()
        rows_raise(self._core, 0, ordinal + 1)
        return ordinal

    def release(self, ordinals: list[int]) -> None:
        """Rows whose partitions are gone for good."""
        self._free.extend(ordinals)

    def who(self, ordinal: int) -> PartitionWho:
        """The identity in a row."""
        return partition_who(self._core, ordinal)

    def link(self, ordinals: list[int]) -> None:
        """Chain the rows of one topic, partition 0 first. Doing it again changes nothing."""
        for ordinal, following in zip(ordinals, [*ordinals[1:], -1], strict=True):
            if partition_who(self._core, ordinal).next_ordinal != following + 1:
                partition_link(self._core, ordinal, following + 1)
