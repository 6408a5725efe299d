"""Deleted bytes that are still open: what the disk gets back only when some process closes a file. A job of the log
keeper.

Every process closes its descriptors of removed segments within a second. One that hangs, or was stopped, cannot say
that it did not: therefore the log keeper looks, from outside, which deleted files of the data directory the broker's
processes have open. It looks after each deletion, once a second until nothing is left, and puts the sum in a gauge.
"""

from typing import Final

from mpbroker.log import disk
from mpbroker.log.keeper_context import Interval, KeeperContext

LOOK_EVERY_MS: Final = 1000


class DeletedOpen:
    """Looks while something may be held."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._prefix = disk.patiently(disk.real_path, keeper.data_dir).rstrip("/") + "/"
        self._interval = Interval(keeper.clock, LOOK_EVERY_MS)
        self._looking = True  # a predecessor may have removed something

    def removed(self) -> None:
        """Something was removed just now."""
        self._looking = True

    def do_work(self) -> None:
        """One turn: a look, if one is due."""
        if not self._looking or not self._interval.due():
            return
        held = disk.deleted_and_open(self._keeper.pids(), self._prefix)
        self._keeper.set_gauge("deleted_bytes_open", held)
        self._looking = held > 0

    def remaining_ms(self) -> int:
        """Until the next look."""
        return self._interval.remaining_ms() if self._looking else LOOK_EVERY_MS
