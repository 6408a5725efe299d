"""Says that partitions are offline although their log directory works: `mpbroker status` calls the broker degraded.

A job of the log keeper. A start that found one so has told it with its remedy; it is served again after another start,
or gone with its topic.
"""

from collections.abc import Sequence
from typing import Final

from mpbroker.log.keeper_context import NEVER_MS, Interval, KeeperContext
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.shm.troubles import Trouble

LOOK_EVERY_MS: Final = 1000


class OfflinePartitions:
    """Looks when there are other partitions than at the last look, at most once a second: of 10,000 it takes 10 ms."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._interval = Interval(keeper.clock, LOOK_EVERY_MS)
        self._looked_at: Sequence[KeptPartition] | None = None
        self._there = False

    def do_work(self) -> None:
        """One turn."""
        partitions = self._keeper.partitions.all
        if partitions is self._looked_at or not self._interval.due():
            return
        try:
            there = any(map(self._keeper.is_offline, partitions))
        except RuntimeError:
            return  # a lock that is not to be had: the next look asks again
        self._looked_at = partitions
        if there != self._there:
            self._there = there
            self._keeper.trouble(Trouble.PARTITIONS_OFFLINE, there)

    def remaining_ms(self) -> int:
        """Nothing is due while no partition comes or goes, which wakes the keeper."""
        return NEVER_MS if self._keeper.partitions.all is self._looked_at else self._interval.remaining_ms()
